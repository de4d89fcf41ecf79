// The module that Python imports, one per instruction set; arguments of Python, and what is wrong with them.
#include "binding.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace ldmaps {

// Of all files in this folder; written when they are compiled.
extern const char* const sources_checksum;

namespace {

constexpr Index MOST = 12;  // arguments

struct TypeFault : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// A kernel; without forms, a constant.
struct Definition {
    PyMethodDef method;
    std::vector<Form> forms;
    double constant;
    Signature signature;
};

// What is registered while the module is loaded. Never destroyed: threads may be inside a kernel when the process ends.
std::vector<Definition>& definitions() {
    static auto* const all = new std::vector<Definition>;
    return *all;
}

// The kind of an array's elements, if they are in the processor's order.
char kind_of(PyArrayObject* array) { return PyArray_ISNOTSWAPPED(array) ? PyArray_DESCR(array)->kind : 'x'; }

std::string described(char kind, Index bytes, int dimensions) {
    std::string text = "elements of a type that no kernel takes";
    if (kind == 'b') text = "bool";
    if (kind == 'f') text = "float" + std::to_string(8 * bytes);
    if (kind == 'i') text = "int" + std::to_string(8 * bytes);
    if (kind == 'u') text = "uint" + std::to_string(8 * bytes);
    if (dimensions > 0) text += " with " + std::to_string(dimensions) + (dimensions > 1 ? " dimensions" : " dimension");
    return text;
}

// Say what is wrong with an argument that does not fit.
TypeFault fault(const std::string& name, const Wanted& wanted, PyObject* object) {
    const bool is_array = wanted.dimensions > 0;
    std::string got;
    if (is_array && PyArray_Check(object)) {
        auto* const array = reinterpret_cast<PyArrayObject*>(object);
        got = described(kind_of(array), PyArray_ITEMSIZE(array), PyArray_NDIM(array));
        if (!PyArray_IS_C_CONTIGUOUS(array)) got += ", not contiguous";
        if (!PyArray_ISALIGNED(array)) got += ", not aligned";
        if (!PyArray_ISWRITEABLE(array) && wanted.is_written) got += ", read-only";
    } else {
        PyObject* const type = PyType_GetName(Py_TYPE(object));
        got = PyUnicode_AsUTF8AndSize(type, nullptr);
        Py_DECREF(type);
    }
    return TypeFault(name + " must be a " + (is_array ? "C-contiguous array of " : "number of type ") +
                     described(wanted.kind, wanted.bytes, wanted.dimensions) +
                     (wanted.is_written ? " that can be written to" : "") + ", got " + got);
}

// Call the first form that fits.
PyObject* call_form(const Definition& definition, PyObject* const* objects, Index n_objects) {
    const Signature& signature = definition.signature;
    const Index count = signature.n_arguments();
    if (n_objects != count) {
        throw TypeFault(std::string(definition.method.ml_name) + " takes " + std::to_string(count) +
                        " arguments, got " + std::to_string(n_objects));
    }
    Given given[MOST];
    Index most = -1;
    const Form* nearest = nullptr;
    for (const Form& form : definition.forms) {
        Index taken = 0;
        while (taken < count && given[taken].take(objects[taken], form.wanted[taken])) ++taken;
        if (taken == count) {
            Index values[MOST_VALUES];
            signature.check_sizes(given, form.wanted, values);
            return form.call(form.kernel, given, {signature, given, form.wanted, values});
        }
        if (taken > most) most = taken, nearest = &form;
    }
    throw fault(signature.name(most), nearest->wanted[most], objects[most]);
}

// What Python calls; what a kernel throws becomes an exception of Python.
PyObject* call(PyObject* self, PyObject* const* objects, Py_ssize_t n_objects) {
    try {
        return call_form(*static_cast<const Definition*>(PyCapsule_GetPointer(self, nullptr)), objects, n_objects);
    } catch (const TypeFault& error) {
        PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    }
    return nullptr;
}

// Read the signatures, when all constants that they name are known; throws an error if a kernel is not what its
// signature says.
void read_signatures() {
    Expression::Constants constants;
    for (const Definition& definition : definitions()) {
        if (definition.forms.empty()) constants[definition.method.ml_name] = definition.constant;
    }
    for (Definition& definition : definitions()) {
        if (definition.forms.empty()) continue;
        std::vector<const Wanted*> wanted;
        const Index count = definition.forms[0].n_arguments;
        for (const Form& form : definition.forms) {
            wanted.push_back(form.wanted);
            if (form.n_arguments != count || count > MOST) throw std::invalid_argument("wrong number of arguments");
        }
        try {
            definition.signature = Signature(definition.method.ml_doc, wanted, count, constants);
        } catch (const std::exception& error) {
            throw std::invalid_argument(std::string("the signature of ") + definition.method.ml_name + ": " +
                                        error.what());
        }
    }
}

// The types of arguments by form, for tests: as numpy names them, with a star where an array is written to.
PyObject* types_of(const Definition& definition) {
    PyObject* const forms = PyTuple_New(Index(definition.forms.size()));
    Index place = 0;
    for (const Form& form : definition.forms) {
        PyObject* const types = PyTuple_New(form.n_arguments);
        for (Index each = 0; each < form.n_arguments; ++each) {
            const Wanted& wanted = form.wanted[each];
            const std::string text = described(wanted.kind, wanted.bytes, 0) + (wanted.is_written ? "*" : "");
            PyTuple_SetItem(types, each, PyUnicode_FromString(text.c_str()));
        }
        PyTuple_SetItem(forms, place++, types);
    }
    return forms;
}

PyObject* new_object(Definition& definition) {
    const double value = definition.constant;
    if (!definition.forms.empty()) {
        return PyCFunction_NewEx(&definition.method, PyCapsule_New(&definition, nullptr, nullptr), nullptr);
    }
    return value == std::floor(value) ? PyLong_FromDouble(value) : PyFloat_FromDouble(value);
}

}  // namespace

Registered::Registered(const char* name, const char* signature, std::vector<Form> forms, double constant) {
    const auto function = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call));
    definitions().push_back({{name, function, METH_FASTCALL, signature}, std::move(forms), constant, Signature()});
}

void Unlocked::sleep_for_good() {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

bool Given::take(PyObject* object, const Wanted& wanted) {
    const bool may_be_bytes = wanted.dimensions == 1 && wanted.kind == 'u' && wanted.bytes == 1 && !wanted.is_written;
    if (may_be_bytes && PyBytes_Check(object)) {
        whole_ = PyBytes_Size(object);
        data_ = PyBytes_AsString(object), shape_ = &whole_;
        return true;
    }
    if (wanted.dimensions > 0) {
        if (!PyArray_Check(object)) return false;
        auto* array = reinterpret_cast<PyArrayObject*>(object);
        const int flags = wanted.is_written ? NPY_ARRAY_CARRAY : NPY_ARRAY_C_CONTIGUOUS;
        const bool fits = kind_of(array) == wanted.kind && PyArray_ITEMSIZE(array) == wanted.bytes &&
                          PyArray_NDIM(array) == wanted.dimensions && PyArray_CHKFLAGS(array, flags);
        if (!fits) return false;
        if (!PyArray_ISALIGNED(array)) {
            Py_XDECREF(aligned_);
            aligned_ = PyArray_NewCopy(array, NPY_CORDER);
            if (!aligned_) throw std::bad_alloc();
            array = reinterpret_cast<PyArrayObject*>(aligned_);
        }
        data_ = PyArray_DATA(array), shape_ = PyArray_DIMS(array);
        return true;
    }
    if (wanted.kind == 'f') {
        real_ = PyFloat_AsDouble(object);
    } else {
        whole_ = wanted.kind == 'b' ? PyObject_IsTrue(object) : PyNumber_AsSsize_t(object, PyExc_OverflowError);
    }
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

}  // namespace ldmaps

#define INITIALISE_NAMED(name)                    \
    static const char* const module_name = #name; \
    PyMODINIT_FUNC PyInit_##name()
#define INITIALISE(name) INITIALISE_NAMED(name)
INITIALISE(LDMAPS_MODULE) {
    using namespace ldmaps;
    static PyModuleDef described = {
        PyModuleDef_HEAD_INIT, module_name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
    import_array();
    try {
        read_signatures();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ImportError, error.what());
        return nullptr;
    }
    PyObject* const module = PyModule_Create(&described);
    if (!module) return nullptr;
    PyModule_AddStringConstant(module, "_sources", sources_checksum);
    PyObject* const types = PyDict_New();
    for (Definition& definition : definitions()) {
        const char* const name = definition.method.ml_name;
        PyModule_AddObject(module, name, new_object(definition));
        if (definition.forms.empty()) continue;
        PyObject* const own = types_of(definition);
        PyDict_SetItemString(types, name, own);
        Py_DECREF(own);
    }
    PyModule_AddObject(module, "_types", types);
    return PyErr_Occurred() ? nullptr : module;
}
