// The module that Python imports: one per instruction set, all of the same sources.
#include "binding.h"

namespace ldmaps {

// A line per file of kernels.
#define FOR_EACH_TOPIC(apply) apply(bind_blocks) apply(bind_text) apply(bind_xtc)

#define DECLARE(bind_topic) void bind_topic(nb::module_& module);
FOR_EACH_TOPIC(DECLARE)

namespace {

// The name of the best module that the processor runs.
const char* best_instruction_set() {
#if defined(__x86_64__) || defined(_M_X64)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return "x86_64_v4";
    }
    if (v3) return "x86_64_v3";
#endif
    return "baseline";
}

}  // namespace
}  // namespace ldmaps

NB_MODULE(LDMAPS_MODULE, module) {
#define CALL(bind_topic) ldmaps::bind_topic(module);
    FOR_EACH_TOPIC(CALL)
    module.def("best_instruction_set", ldmaps::best_instruction_set);
}
