// From Python's arguments to a kernel's. A kernel is a function of arrays and numbers, and one line says what Python
// calls its arguments and which sizes must agree:
//
//     KERNEL(extend, "squared[n,m] rate weights[m] coefficients[k,m] coordinates[n,k] nearest[n] lowest[n]")
//
// A letter is a size, the same wherever it stands; `n+1` and `3` are sizes too, and an array without brackets may have
// any shape that the kernel itself allows; bytes are an array of uint8. Element types and dimensions come from the
// function. Kernels run without the GIL, and what they throw becomes a ValueError.
#pragma once

#include <Python.h>

#include <tuple>
#include <type_traits>
#include <vector>

#include "array.h"

namespace ldmaps {

// What an argument must be: an array, or a number if it has no dimensions.
struct Wanted {
    char kind;  // b bool, f floating, i integer, u unsigned, as numpy has them
    int bytes;  // of a number, or of an element
    int dimensions;
    bool is_written;
};

template <class T>
constexpr char kind_of() {
    if (std::is_same_v<T, bool>) return 'b';
    if (std::is_floating_point_v<T>) return 'f';
    return std::is_signed_v<T> ? 'i' : 'u';
}

// One argument as it was given.
class Given {
public:
    Given() = default;
    Given(const Given&) = delete;
    ~Given() { Py_XDECREF(aligned_); }
    // Says whether it fits.
    bool take(PyObject* object, const Wanted& wanted);
    const Index* shape() const { return shape_; }

    template <class T, int N>
    void get(Array<T, N>& array) const {
        array = {static_cast<T*>(data_), shape_};
    }
    template <class T>
    void get(T& number) const {
        number = std::is_floating_point_v<T> ? static_cast<T>(real_) : static_cast<T>(whole_);
    }

private:
    void* data_ = nullptr;
    const Index* shape_ = nullptr;
    PyObject* aligned_ = nullptr;  // a copy of what stands at an odd byte, as messages between processes have it
    double real_ = 0.0;
    Index whole_ = 0;
};

template <class T>
struct Parameter {
    static constexpr Wanted wanted{kind_of<T>(), sizeof(T), 0, false};
};
template <class T, int N>
struct Parameter<Array<T, N>> {
    using Plain = std::remove_const_t<T>;
    static constexpr Wanted wanted{kind_of<Plain>(), sizeof(Plain), N, !std::is_const_v<T>};
};

inline PyObject* to_python(bool value) { return PyBool_FromLong(value); }
inline PyObject* to_python(Index value) { return PyLong_FromSsize_t(value); }
template <class... Values>
PyObject* to_python(const std::tuple<Values...>& values) {
    PyObject* result = PyTuple_New(sizeof...(Values));
    Index place = 0;
    std::apply([&](auto... each) { (PyTuple_SetItem(result, place++, to_python(each)), ...); }, values);
    return result;
}

class Unlocked {
public:
    ~Unlocked() { PyEval_RestoreThread(state_); }

private:
    PyThreadState* state_ = PyEval_SaveThread();
};

// A kernel without its type, so that code for all of them is compiled once.
struct Form {
    using Kernel = void (*)();
    Kernel kernel;
    PyObject* (*call)(Kernel kernel, const Given* given);
    const Wanted* wanted;
    Index n_arguments;
};

template <class Result, class... Parameters>
struct FormOf {
    static constexpr Wanted wanted[] = {Parameter<Parameters>::wanted...};

    static PyObject* call(Form::Kernel kernel, const Given* given) {
        std::tuple<Parameters...> values;
        std::apply([&](auto&... each) { (given++->get(each), ...); }, values);
        const auto run = [&] {
            const Unlocked unlocked;
            return std::apply(reinterpret_cast<Result (*)(Parameters...)>(kernel), values);
        };
        if constexpr (std::is_void_v<Result>) {
            run();
            Py_RETURN_NONE;
        } else {
            return to_python(run());
        }
    }
};

template <class Result, class... Parameters>
Form form(Result (*kernel)(Parameters...)) {
    using Types = FormOf<Result, Parameters...>;
    return {reinterpret_cast<Form::Kernel>(kernel), Types::call, Types::wanted, sizeof...(Parameters)};
}

// Makes a kernel known to the module. Several forms are one kernel for several element types: the first that fits is
// called, and if none does, the error is about the argument that the nearest one does not take.
struct Registered {
    Registered(const char* name, const char* signature, std::vector<Form> forms, double constant = 0.0);
};

}  // namespace ldmaps

#define KERNEL_OF(name, signature, ...) const Registered name##_registered{#name, signature, {__VA_ARGS__}};
#define KERNEL(name, signature) KERNEL_OF(name, signature, form(name<float>), form(name<double>))
// A number that Python reads too.
#define CONSTANT_OF(name, value) const Registered name##_registered{#name, "", {}, double(value)};
#define CONSTANT(name) CONSTANT_OF(name, name)
