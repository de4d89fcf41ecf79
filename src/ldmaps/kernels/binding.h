// From Python's arguments to a kernel's. A kernel is a function of arrays and numbers, and one line says what Python
// calls its arguments and what they must be:
//
//     KERNEL(extend, "squared[n,m=1..] rate weights[m] coefficients[k,m] coordinates[n,k] nearest[n] lowest[n]")
//     KERNEL(judge, "squared[n] nearest[n]=0..m-1 squared_radii[m] slack epsilon distance[n] inside[n]")
//     KERNEL(centre_rows, "values[n,f] r0=0..n r1=r0..n origin[f] centred[r1-r0,f] norms[r1-r0]")
//
//     name[n,m]       sizes of an array. A name that is not an argument's is a size, the same wherever it stands.
//     name[n+1,3*k]   sizes may be computed, from left to right, by + - * and /, which rounds up, from sizes, whole
//                     numbers among the arguments, constants of the module and `itemsize`, the bytes of an element.
//     name[m=1..]     a size within a range: 1.. is at least one, 2..4 and ..n include both ends, n=2*k is that size.
//     name=0..n       a whole number within a range, or an array of such numbers; .. is any number.
//     name[g]=0..n,rising   each is at least the one before it.
//
// Every array has its sizes, and whole numbers that are read have their range, or the module cannot be imported: what
// kernels do with sizes and indices relies on it. What is not kept becomes a ValueError before the kernel runs. Bytes
// are an array of uint8. Element types and dimensions come from the function. Kernels run without the GIL, and what
// they throw becomes a ValueError.
//
// Why a layer of our own, where nanobind is what everyone knows: one point is embedded in a microsecond or two, by a
// few calls. The call of `extend`, with six arrays and a number, takes 115 ns before anything is computed, through
// nanobind 730 ns, although that compares no sizes (fastest of many repetitions on one AMD EPYC core):
//
//     python benchmarks/call_overhead.py --nanobind
//
// A free-threaded Python turns the GIL on when it imports the module, as for every module that does not declare that it
// needs none: nothing here is known to need it, but nobody has tried.
#pragma once

#include <Python.h>

#include <tuple>
#include <type_traits>
#include <vector>

#include "array.h"
#include "signature.h"

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
    const void* data() const { return data_; }
    Index whole() const { return whole_; }

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

// Runs without the GIL what comes while it exists.
class Unlocked {
public:
    // A daemon thread that asks for the GIL while Python is ending does not get it: before 3.14 Python ends the thread,
    // which unwinds its stack with glibc and would let objects here go without the GIL; a destructor that is unwound
    // ends the whole process (SIGABRT). So the thread sleeps until the process ends, as Python 3.14 does it.
    ~Unlocked() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            sleep_for_good();
        }
    }

private:
    [[noreturn]] static void sleep_for_good();
    PyThreadState* state_ = PyEval_SaveThread();
};

// Checks of elements, which wait until the GIL is released.
struct Elements {
    const Signature& signature;
    const Given* given;
    const Wanted* wanted;
    const Index* values;

    void check() const { signature.check_elements(given, wanted, values); }
};

// A kernel without its type, so that code for all of them is compiled once.
struct Form {
    using Kernel = void (*)();
    Kernel kernel;
    PyObject* (*call)(Kernel kernel, const Given* given, const Elements& elements);
    const Wanted* wanted;
    Index n_arguments;
};

template <class Result, class... Parameters>
struct FormOf {
    static constexpr Wanted wanted[] = {Parameter<Parameters>::wanted...};

    static PyObject* call(Form::Kernel kernel, const Given* given, const Elements& elements) {
        std::tuple<Parameters...> values;
        std::apply([&](auto&... each) { (given++->get(each), ...); }, values);
        const auto run = [&] {
            const Unlocked unlocked;
            elements.check();
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
