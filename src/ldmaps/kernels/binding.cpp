// The module that Python imports, one per instruction set; arguments of Python, and what is wrong with them.
#include "binding.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
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

constexpr Index MOST = 12;     // arguments
constexpr int LETTERS = 26;    // names of sizes
constexpr int NO_LETTER = -1;  // a size that is a number

struct TypeFault : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

struct Size {
    int letter;
    Index plus;
};
struct Argument {
    std::string name;
    std::vector<Size> shape;
};
struct Definition {
    std::string name, signature;
    std::vector<Form> forms;
    std::vector<Argument> arguments;
};

// What is registered while the module is loaded.
std::vector<Definition>& definitions() {
    static std::vector<Definition> all;
    return all;
}
std::map<std::string, double>& constants() {
    static std::map<std::string, double> all;
    return all;
}

std::vector<Argument> parsed(const char* at) {
    std::vector<Argument> arguments;
    while (*at) {
        const char* const end = at + std::strcspn(at, " [");
        arguments.push_back({std::string(at, end), {}});
        at = end;
        while (*at == '[' || *at == ',') {
            const int letter = std::isalpha(*++at) ? *at++ - 'a' : NO_LETTER;
            arguments.back().shape.push_back({letter, *at == '+' || letter == NO_LETTER ? std::atoi(at) : 0});
            at += std::strcspn(at, ",]");
        }
        at += std::strspn(at, "] ");
    }
    return arguments;
}

char kind_of_format(const char* format) {
    if (format == nullptr) return 'u';
    if (*format == '@' || *format == '=') ++format;
    if (format[0] == '\0' || format[1] != '\0') return 'x';
    if (*format == '?') return '?';
    if (std::strchr("fd", *format)) return 'f';
    if (std::strchr("bhilqn", *format)) return 'i';
    return std::strchr("BHILQN", *format) ? 'u' : 'x';
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
    if (dimensions == 1) text += " with 1 dimension";
    if (dimensions > 1) text += " with " + std::to_string(dimensions) + " dimensions";
    return text;
}

// Say what is wrong with an argument that does not fit.
TypeFault fault(const std::string& name, const Wanted& wanted, PyObject* object) {
    const bool is_array = wanted.dimensions > 0;
    std::string got = object ? "" : "nothing";
    if (object) {
        PyObject* const type = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__");
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
        const Given& array = **given++;
        for (std::size_t axis = 0; axis < argument.shape.size(); ++axis) {
            const Size& size = argument.shape[axis];
            const Index rest = array.shape()[axis] - size.plus;
            Index& known = sizes[size.letter < 0 ? 0 : size.letter];
            if (size.letter >= 0 && known < 0 && rest >= 0) known = rest;
            if (rest == (size.letter < 0 ? 0 : known)) continue;
            Index wanted[MOST];
            for (std::size_t each = 0; each < argument.shape.size(); ++each) {
                const Size& own = argument.shape[each];
                const Index value = own.letter < 0 ? 0 : std::max(sizes[own.letter], Index(0));
                const bool is_open = own.letter >= 0 && sizes[own.letter] < 0 && each > axis;
                wanted[each] = is_open ? array.shape()[each] : value + own.plus;
            }
            refuse_shape(argument.name.c_str(), wanted, array.shape(), static_cast<int>(argument.shape.size()));
        }
    }
}

// What Python calls: a kernel, and the arguments that it holds already.
struct Callable {
    PyObject_HEAD vectorcallfunc call;
    const Definition* definition;
    struct Held {
        PyObject* object = nullptr;
        Given given;
        ~Held() { Py_XDECREF(object); }
    }* held;
};
Callable* as_callable(PyObject* object) { return reinterpret_cast<Callable*>(object); }

// Put what is given into the places of arguments; those held are passed over.
void place_arguments(const Callable& self, PyObject* const* given, Index n_given, PyObject* names, PyObject** objects) {
    const std::vector<Argument>& arguments = self.definition->arguments;
    const Index n_arguments = static_cast<Index>(arguments.size());
    Index place = 0;
    const auto pass_held = [&] {
        while (self.held && place < n_arguments && self.held[place].object) ++place;
    };
    for (Index each = 0; each < n_given; ++each, ++place) {
        pass_held();
        if (place >= n_arguments) throw TypeFault(self.definition->name + " takes fewer arguments than were given");
        objects[place] = given[each];
    }
    for (Index each = 0; names && each < PyTuple_Size(names); ++each) {
        const char* const name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, each), nullptr);
        const auto found = std::find_if(arguments.begin(), arguments.end(),
                                        [=](const Argument& argument) { return argument.name == name; });
        const Index where = found - arguments.begin();
        if (found == arguments.end() || objects[where] || (self.held && self.held[where].object)) {
            throw TypeFault(self.definition->name + " takes no (or no second) argument " + name);
        }
        objects[where] = given[n_given + each];
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
        PyObject* objects[MOST] = {};
        place_arguments(self, arguments, PyVectorcall_NARGS(n_arguments), names, objects);
        Given own[MOST];
        const Given* given[MOST];
        Index most = -1;
        const Form* nearest = nullptr;
        for (const Form& form : definition.forms) {
            Index taken = 0;
            for (; taken < count; ++taken) {
                const bool is_held = self.held && self.held[taken].object;
                Given& one = is_held ? self.held[taken].given : own[taken];
                if (is_held) objects[taken] = self.held[taken].object;
                if (!objects[taken] || !one.fits(objects[taken], form.wanted[taken])) break;
                given[taken] = &one;
            }
            if (taken == count) {
                check_shapes(definition, given);
                return form.call(form.kernel, given);
            }
            if (taken > most) most = taken, nearest = &form;
        }
        throw fault(definition.arguments[most].name, nearest->wanted[most], objects[most]);
    });
}

PyObject* new_callable(PyTypeObject* type, const Definition& definition, Callable::Held* held) {
    Callable* const self = PyObject_New(Callable, type);
    if (self) self->call = call, self->definition = &definition, self->held = held;
    return reinterpret_cast<PyObject*>(self);
}

// The same kernel with some arguments given once and for all. It may be called by one thread at a time.
PyObject* hold(PyObject* object, PyObject* arguments, PyObject* named) {
    return guarded([&]() -> PyObject* {
        const Callable& self = *as_callable(object);
        if (PyTuple_Size(arguments) > 0 || self.held) throw TypeFault("hold takes arguments by name, and once");
        std::unique_ptr<Callable::Held[]> held(new Callable::Held[MOST]);
        PyObject *name, *value;
        for (Py_ssize_t at = 0; named && PyDict_Next(named, &at, &name, &value);) {
            PyObject* objects[MOST] = {};
            PyObject* const names = PyTuple_Pack(1, name);
            place_arguments(self, &value, 0, names, objects);
            Py_DECREF(names);
            const Index place = std::find(objects, objects + MOST, value) - objects;
            Py_INCREF(value);
            held[place].object = value;
        }
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

PyObject* new_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callable, call), Py_READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyMethodDef methods[] = {{"hold", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(hold)),
                                     METH_VARARGS | METH_KEYWORDS, "The kernel with some arguments given."},
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
    return PyType_FromSpec(&spec);
}

}  // namespace

Registered::Registered(const char* name, const char* signature, std::vector<Form> forms) {
    definitions().push_back({name, signature, std::move(forms), parsed(signature)});
}
Registered::Registered(const char* name, double constant) { constants()[name] = constant; }

bool Given::fits(PyObject* object, const Wanted& wanted) {
    if (wanted.dimensions > 0) {
        if (!is_held_) is_held_ = PyObject_GetBuffer(object, &buffer_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;
        if (is_held_) {
            const bool is_odd = !is_aligned(buffer_);
            const bool fits = buffer_.ndim == wanted.dimensions && buffer_.itemsize == wanted.bytes &&
                              kind_of_format(buffer_.format) == wanted.kind &&
                              !(wanted.is_written && (buffer_.readonly || is_odd));
            if (fits && is_odd && !aligned_) {
                aligned_.reset(new double[static_cast<std::size_t>(buffer_.len) / sizeof(double) + 1]);
                std::memcpy(aligned_.get(), buffer_.buf, static_cast<std::size_t>(buffer_.len));
            }
            data_ = aligned_ ? aligned_.get() : buffer_.buf;
            return fits;
        }
    } else if (wanted.kind == '?') {
        whole_ = PyObject_IsTrue(object);
    } else if (wanted.kind == 'f') {
        real_ = PyFloat_AsDouble(object);
    } else {
        whole_ = PyNumber_AsSsize_t(object, PyExc_OverflowError);
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
    PyObject* const module = PyModule_Create(&described);
    PyObject* const type = new_type();
    if (!module || !type) return nullptr;
    PyModule_AddStringConstant(module, "_sources", sources_checksum);
    for (const auto& [name, value] : constants()) {
        const bool is_whole = value == std::floor(value);
        PyModule_AddObject(module, name.c_str(), is_whole ? PyLong_FromDouble(value) : PyFloat_FromDouble(value));
    }
    for (const Definition& definition : definitions()) {
        for (const Form& form : definition.forms) {
            bool fits = form.n_arguments == Index(definition.arguments.size()) && form.n_arguments <= MOST;
            for (Index each = 0; fits && each < form.n_arguments; ++each) {
                const Index dimensions = definition.arguments[each].shape.size();
                fits = dimensions == 0 || dimensions == form.wanted[each].dimensions;
            }
            if (!fits)
                return PyErr_Format(PyExc_ImportError, "%s is not what its signature says", definition.name.c_str());
        }
        PyModule_AddObject(module, definition.name.c_str(),
                           new_callable(reinterpret_cast<PyTypeObject*>(type), definition, nullptr));
    }
    return PyErr_Occurred() ? nullptr : module;
}
