// A module by itself: it says which of the others to load.
#include "processor.h"

#include <Python.h>

PyMODINIT_FUNC PyInit__processor() {
    static PyModuleDef described = {
        PyModuleDef_HEAD_INIT, "_processor", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
    PyObject* const module = PyModule_Create(&described);
    if (module) PyModule_AddStringConstant(module, "best_instruction_set", ldmaps::best_instruction_set());
    return module;
}
