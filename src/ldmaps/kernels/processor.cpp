// A module by itself: it says which of the others to load.
#include "processor.h"

#include <nanobind/nanobind.h>

NB_MODULE(_processor, module) { module.def("best_instruction_set", ldmaps::best_instruction_set); }
