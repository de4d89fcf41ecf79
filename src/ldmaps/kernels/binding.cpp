// The module that Python imports, one per instruction set; arguments of Python, and what is wrong with them.
#include "binding.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <memory>

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

namespace ldmaps {

// Of all files in this folder; written when they are compiled.
extern const char* const sources_checksum;

namespace {

constexpr Index MOST = 12;   // arguments
constexpr int LETTERS = 26;  // names of sizes

struct TypeFault : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// A letter and what is added to it; a size that is a number has no letter.
struct Size {
    int letter;
    Index plus;
    bool is_number() const { return letter < 0; }
};
struct Argument {
    std::string name;
    std::vector<Size> shape;
};
// A kernel; without forms, a constant.
struct Definition {
    std::string name, signature;
    std::vector<Form> forms;
    double constant;
    std::vector<Argument> arguments;
};

// What is registered while the module is loaded.
std::vector<Definition>& definitions() {
    static std::vector<Definition> all;
    return all;
}

std::vector<Argument> parsed(const char* at) {
    std::vector<Argument> arguments;
    while (*at) {
        const char* const end = at + std::strcspn(at, " [");
        arguments.push_back({std::string(at, end), {}});
        at = end;
        while (*at == '[' || *at == ',') {
            const int letter = std::isalpha(*++at) ? *at++ - 'a' : -1;
            arguments.back().shape.push_back({letter, std::atoi(at)});
            at += std::strcspn(at, ",]");
        }
        at += std::strspn(at, "] ");
    }
    return arguments;
}

char kind_of_format(const char* format) {
    if (format == nullptr) return 'u';
    if (*format == '@' || *format == '=') ++format;
    const char *const codes = "?fdbhilqnBHILQN", *const kinds = "?ffiiiiiiuuuuuu";
    const char* const code = *format ? std::strchr(codes, *format) : nullptr;
    return code && format[1] == '\0' ? kinds[code - codes] : 'x';
}

bool is_aligned(const Py_buffer& buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.buf) % std::max<std::uintptr_t>(buffer.itemsize, 1) == 0;
}

std::string described(char kind, Index bytes, int dimensions) {
    std::string text = "elements of a type that no kernel takes";
    if (kind == '?') text = "bool";
    if (kind == 'f') text = "float" + std::to_string(8 * bytes);
    if (kind == 'i') text = "int" + std::to_string(8 * bytes);
    if (kind == 'u') text = "uint" + std::to_string(8 * bytes);
    if (dimensions > 0) text += " with " + std::to_string(dimensions) + (dimensions > 1 ? " dimensions" : " dimension");
    return text;
}

// Say what is wrong with an argument that does not fit.
TypeFault fault(const std::string& name, const Wanted& wanted, PyObject* object) {
    const bool is_array = wanted.dimensions > 0;
    std::string got = "nothing";
    if (object) {
        PyObject* const type = PyType_GetName(Py_TYPE(object));
        got = PyUnicode_AsUTF8AndSize(type, nullptr);
        Py_DECREF(type);
    }
    Py_buffer buffer;
    if (object && is_array && PyObject_GetBuffer(object, &buffer, PyBUF_STRIDES | PyBUF_FORMAT) == 0) {
        got = described(kind_of_format(buffer.format), buffer.itemsize, buffer.ndim);
        if (!PyBuffer_IsContiguous(&buffer, 'C')) got += ", not contiguous";
        if (!is_aligned(buffer)) got += ", not aligned";
        if (buffer.readonly && wanted.is_written) got += ", read-only";
        PyBuffer_Release(&buffer);
    }
    PyErr_Clear();
    return TypeFault(name + " must be a " + (is_array ? "C-contiguous array of " : "number of type ") +
                     described(wanted.kind, wanted.bytes, wanted.dimensions) +
                     (wanted.is_written ? " that can be written to" : "") + ", got " + got);
}

// Sizes of one name must be the same.
void check_shapes(const Definition& definition, const Given* const* given) {
    Index sizes[LETTERS];
    std::fill(sizes, sizes + LETTERS, Index(-1));
    for (const Argument& argument : definition.arguments) {
        const Index* const got = (*given++)->shape();
        const int dimensions = static_cast<int>(argument.shape.size());
        const auto wanted = [&](int axis) {
            const Size& size = argument.shape[axis];
            if (size.is_number()) return size.plus;
            Index& known = sizes[size.letter];
            if (known < 0) known = std::max(got[axis] - size.plus, Index(0));
            return known + size.plus;
        };
        for (int axis = 0; axis < dimensions; ++axis) {
            if (got[axis] == wanted(axis)) continue;
            Index all[MOST];
            for (int each = 0; each < dimensions; ++each) all[each] = wanted(each);
            refuse_shape(argument.name.c_str(), all, got, dimensions);
        }
    }
}

// What Python calls: a kernel, and the arguments that it holds already.
struct Callable {
    PyObject_HEAD vectorcallfunc call;
    const Definition* definition;
    Given* held;
};
Callable* as_callable(PyObject* object) { return reinterpret_cast<Callable*>(object); }

// Put arguments into their places, but not where one is.
void place(const Definition& definition, PyObject* const* objects, Index n_objects, PyObject* names, Given** given) {
    const std::vector<Argument>& arguments = definition.arguments;
    const Index n_arguments = static_cast<Index>(arguments.size());
    Index place = 0;
    for (Index each = 0; each < n_objects; ++each) {
        while (place < n_arguments && given[place]->object()) ++place;
        if (place == n_arguments) throw TypeFault(definition.name + " takes fewer arguments than were given");
        given[place]->take(objects[each]);
    }
    for (Index each = 0; names && each < PyTuple_Size(names); ++each) {
        const char* const name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, each), nullptr);
        for (place = 0; place < n_arguments && arguments[place].name != name;) ++place;
        if (place == n_arguments || given[place]->object()) {
            throw TypeFault(definition.name + " takes no (or no second) argument " + name);
        }
        given[place]->take(objects[n_objects + each]);
    }
}

// Call `function`; what it throws becomes an exception of Python, and the result is null.
template <class Function>
PyObject* guarded(Function function) {
    try {
        return function();
    } catch (const TypeFault& error) {
        PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    }
    return nullptr;
}

PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t n_arguments, PyObject* names) {
    return guarded([&] {
        const Callable& self = *as_callable(object);
        const Definition& definition = *self.definition;
        const Index count = static_cast<Index>(definition.arguments.size());
        Given own[MOST];
        Given* given[MOST];
        for (Index each = 0; each < count; ++each) {
            given[each] = self.held && self.held[each].object() ? &self.held[each] : &own[each];
        }
        place(definition, arguments, PyVectorcall_NARGS(n_arguments), names, given);
        Index most = -1;
        const Form* nearest = nullptr;
        for (const Form& form : definition.forms) {
            Index taken = 0;
            while (taken < count && given[taken]->fits(form.wanted[taken])) ++taken;
            if (taken == count) {
                check_shapes(definition, given);
                return form.call(form.kernel, given);
            }
            if (taken > most) most = taken, nearest = &form;
        }
        throw fault(definition.arguments[most].name, nearest->wanted[most], given[most]->object());
    });
}

PyObject* new_callable(PyTypeObject* type, const Definition& definition, Given* held) {
    Callable* const self = PyObject_New(Callable, type);
    if (self) self->call = call, self->definition = &definition, self->held = held;
    return reinterpret_cast<PyObject*>(self);
}

// The same kernel with some arguments given once and for all. It may be called by one thread at a time.
PyObject* hold(PyObject* object, PyObject* const* arguments, Py_ssize_t n_arguments, PyObject* names) {
    return guarded([&] {
        const Callable& self = *as_callable(object);
        if (n_arguments > 0 || self.held) throw TypeFault("hold takes arguments by name, and once");
        std::unique_ptr<Given[]> held(new Given[MOST]);
        Given* given[MOST];
        for (Index each = 0; each < MOST; ++each) given[each] = &held[each];
        place(*self.definition, arguments, 0, names, given);
        return new_callable(Py_TYPE(object), *self.definition, held.release());
    });
}

void destroy(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    delete[] as_callable(object)->held;
    PyObject_Free(object);
    Py_DECREF(type);
}

PyObject* represent(PyObject* object) {
    const Definition& definition = *as_callable(object)->definition;
    return PyUnicode_FromFormat("<kernel %s: %s>", definition.name.c_str(), definition.signature.c_str());
}

PyTypeObject* new_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callable, call), Py_READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyMethodDef methods[] = {{"hold", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(hold)),
                                     METH_FASTCALL | METH_KEYWORDS, "The kernel with some arguments given."},
                                    {nullptr, nullptr, 0, nullptr}};
    static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                  {Py_tp_repr, reinterpret_cast<void*>(represent)},
                                  {Py_tp_members, members},
                                  {Py_tp_methods, methods},
                                  {0, nullptr}};
    static PyType_Spec spec = {"ldmaps.kernels.Kernel", sizeof(Callable), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

// Whether all forms have the arguments, and their arrays the dimensions, that the signature says.
bool is_sound(const Definition& definition) {
    const std::vector<Argument>& arguments = definition.arguments;
    for (const Form& form : definition.forms) {
        if (form.n_arguments != Index(arguments.size()) || form.n_arguments > MOST) return false;
        for (Index each = 0; each < form.n_arguments; ++each) {
            const Index dimensions = arguments[each].shape.size();
            if (dimensions > 0 && dimensions != form.wanted[each].dimensions) return false;
        }
    }
    return true;
}

PyObject* new_object(const Definition& definition, PyTypeObject* type) {
    if (!definition.forms.empty()) return new_callable(type, definition, nullptr);
    const double value = definition.constant;
    return value == std::floor(value) ? PyLong_FromDouble(value) : PyFloat_FromDouble(value);
}

}  // namespace

Registered::Registered(const char* name, const char* signature, std::vector<Form> forms, double constant) {
    definitions().push_back({name, signature, std::move(forms), constant, parsed(signature)});
}

bool Given::fits(const Wanted& wanted) {
    if (fitted_ == &wanted) return true;  // since an earlier call
    if (!object_) return false;
    if (wanted.dimensions > 0) {
        if (!buffer_.obj && PyObject_GetBuffer(object_, &buffer_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
            PyErr_Clear();
            return false;
        }
        const bool is_odd = !is_aligned(buffer_);
        const bool fits = buffer_.ndim == wanted.dimensions && buffer_.itemsize == wanted.bytes &&
                          kind_of_format(buffer_.format) == wanted.kind &&
                          !(wanted.is_written && (buffer_.readonly || is_odd));
        if (!fits) return false;
        if (is_odd && !aligned_) {
            aligned_.reset(new double[static_cast<std::size_t>(buffer_.len) / sizeof(double) + 1]);
            std::memcpy(aligned_.get(), buffer_.buf, static_cast<std::size_t>(buffer_.len));
        }
    } else if (wanted.kind == 'f') {
        real_ = PyFloat_AsDouble(object_);
    } else {
        whole_ = wanted.kind == '?' ? PyObject_IsTrue(object_) : PyNumber_AsSsize_t(object_, PyExc_OverflowError);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    fitted_ = &wanted;
    return true;
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
    PyObject* const module = PyModule_Create(&described);
    PyTypeObject* const type = new_type();
    if (!module || !type) return nullptr;
    PyModule_AddStringConstant(module, "_sources", sources_checksum);
    for (const Definition& definition : definitions()) {
        const char* const name = definition.name.c_str();
        if (!is_sound(definition)) return PyErr_Format(PyExc_ImportError, "%s is not what its signature says", name);
        PyModule_AddObject(module, name, new_object(definition, type));
    }
    return PyErr_Occurred() ? nullptr : module;
}
