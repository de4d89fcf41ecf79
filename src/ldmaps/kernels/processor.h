// Which of the modules this processor runs. Asked of the processor itself: the compilers' own question needs a library
// that not all of them bring.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

namespace ldmaps {

// The name of the best module that the processor runs and the system lets it run.
inline const char* best_instruction_set() {
#if defined(__x86_64__) || defined(_M_X64)
    const auto has = [](unsigned word, auto... bits) { return ((word >> bits & 1) && ...); };
    unsigned unused, ecx, extended_ecx, ebx, low, high;
    if (!__get_cpuid(1, &unused, &unused, &ecx, &unused) || !has(ecx, 27)) return "baseline";
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &unused, &ebx, &unused, &unused)) return "baseline";
    if (!__get_cpuid(0x80000001, &unused, &unused, &extended_ecx, &unused)) return "baseline";
    // SSE3, SSSE3, FMA, CX16, SSE4.1, SSE4.2, MOVBE, POPCNT, AVX, F16C; LZCNT; BMI, AVX2, BMI2; 32 bytes are saved.
    const bool v3 =
        has(ecx, 0, 9, 12, 13, 19, 20, 22, 23, 28, 29) && has(extended_ecx, 5) && has(ebx, 3, 5, 8) && has(low, 1, 2);
    // AVX512 F, DQ, CD, BW, VL; masks and 64 bytes are saved.
    if (v3 && has(ebx, 16, 17, 28, 30, 31) && has(low, 5, 6, 7)) return "x86_64_v4";
    if (v3) return "x86_64_v3";
#endif
    return "baseline";
}

}  // namespace ldmaps
