// The module that Python imports: one per instruction set, all of the same sources.
#include "binding.h"

namespace ldmaps {

// A line per file of kernels.
#define FOR_EACH_TOPIC(apply)                                                                                   \
    apply(bind_blocks) apply(bind_cells) apply(bind_euclidean) apply(bind_features) apply(bind_frames)          \
        apply(bind_gradients) apply(bind_graphs) apply(bind_perturbation) apply(bind_products) apply(bind_rmsd) \
            apply(bind_text) apply(bind_xtc)

#define DECLARE(bind_topic) void bind_topic(nb::module_& module);
FOR_EACH_TOPIC(DECLARE)

// Of all files in this folder; written when they are compiled.
extern const char* const sources_checksum;

}  // namespace ldmaps

NB_MODULE(LDMAPS_MODULE, module) {
#define CALL(bind_topic) ldmaps::bind_topic(module);
    FOR_EACH_TOPIC(CALL)
    module.attr("_sources") = ldmaps::sources_checksum;
}
