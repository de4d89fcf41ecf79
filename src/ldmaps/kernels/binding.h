// From Python's arguments to a kernel's. A kernel is a function of arrays and numbers; `bind` makes it callable,
// for several element types if it has several forms, and checks type, layout and dimensions of every argument.
// Kernels run without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "array.h"

namespace ldmaps {

namespace nb = nanobind;

template <class T>
constexpr char kind_of() {
    if constexpr (std::is_same_v<T, bool>) return '?';
    else if constexpr (std::is_floating_point_v<T>) return 'f';
    else return std::is_signed_v<T> ? 'i' : 'u';
}

inline char kind_of_format(const char* format) {
    if (format == nullptr) return 'u';
    if (*format == '@' || *format == '=') ++format;
    if (format[0] == '\0' || format[1] != '\0') return 'x';
    if (*format == '?') return '?';
    if (std::strchr("fd", *format)) return 'f';
    if (std::strchr("bhilqn", *format)) return 'i';
    return std::strchr("BHILQN", *format) ? 'u' : 'x';
}

template <class T>
std::string name_of() {
    const char kind = kind_of<T>();
    if (kind == '?') return "bool";
    return (kind == 'f' ? "float" : kind == 'i' ? "int" : "uint") + std::to_string(8 * sizeof(T));
}

// One argument that is an array, held as long as the kernel runs.
template <class T, int N>
class Held {
public:
    using Plain = std::remove_const_t<T>;

    // Says whether it fits; `reason` is why not.
    bool take(nb::handle given, const char* name, std::string* reason) {
        const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
        if (PyObject_GetBuffer(given.ptr(), &buffer_, flags) != 0) {
            PyErr_Clear();
            if (reason) {
                *reason = std::string(name) + " must be a C-contiguous array" +
                          (std::is_const_v<T> ? "" : " that can be written to") + ", got " +
                          nb::type_name(given.type()).c_str();
            }
            return false;
        }
        held_ = true;
        const bool fits = buffer_.ndim == N && buffer_.itemsize == static_cast<Index>(sizeof(Plain)) &&
                          kind_of_format(buffer_.format) == kind_of<Plain>();
        if (!fits && reason) {
            *reason = std::string(name) + " must be an array of " + name_of<Plain>() + " with " + std::to_string(N) +
                      " dimensions, got " + std::to_string(buffer_.ndim) + " of type '" +
                      (buffer_.format ? buffer_.format : "B") + "'";
        }
        return fits;
    }
    Array<T, N> value() const { return {static_cast<T*>(buffer_.buf), buffer_.shape}; }

    Held() = default;
    Held(const Held&) = delete;
    ~Held() {
        if (held_) PyBuffer_Release(&buffer_);
    }

private:
    Py_buffer buffer_;
    bool held_ = false;
};

// One argument that is a number.
template <class T>
class Number {
public:
    bool take(nb::handle given, const char* name, std::string* reason) {
        if constexpr (std::is_same_v<T, bool>) {
            const int truth = PyObject_IsTrue(given.ptr());
            value_ = truth > 0;
            if (truth >= 0) return true;
        } else if constexpr (std::is_floating_point_v<T>) {
            value_ = static_cast<T>(PyFloat_AsDouble(given.ptr()));
            if (!PyErr_Occurred()) return true;
        } else {
            value_ = static_cast<T>(PyNumber_AsSsize_t(given.ptr(), PyExc_OverflowError));
            if (!PyErr_Occurred()) return true;
        }
        PyErr_Clear();
        if (reason) *reason = std::string(name) + " must be a number of type " + name_of<T>();
        return false;
    }
    T value() const { return value_; }

private:
    T value_{};
};

template <class T>
struct ArgumentOf {
    using type = Number<T>;
};
template <class T, int N>
struct ArgumentOf<Array<T, N>> {
    using type = Held<T, N>;
};

// Call a kernel if all arguments fit. Returns how many did; if not all, `reason` says what is wrong with the next one.
template <class Result, class... Parameters, std::size_t... Places>
std::size_t call_if_fitting(Result (*kernel)(Parameters...), const nb::handle* given, const char* const* names,
                            nb::object& result, std::string* reason, std::index_sequence<Places...>) {
    std::tuple<typename ArgumentOf<Parameters>::type...> held;
    std::size_t taken = 0;
    if (!((std::get<Places>(held).take(given[Places], names[Places], reason) && ++taken) && ...)) return taken;
    if constexpr (std::is_void_v<Result>) {
        nb::gil_scoped_release unlocked;
        kernel(std::get<Places>(held).value()...);
    } else {
        Result value;
        {
            nb::gil_scoped_release unlocked;
            value = kernel(std::get<Places>(held).value()...);
        }
        result = nb::cast(value);
    }
    return taken;
}

template <class>
using Handle = nb::handle;

template <class Kernel>
struct Caller;

template <class Result, class... Parameters>
struct Caller<Result (*)(Parameters...)> {
    template <class... Kernels, class... Names>
    static void bind(nb::module_& module, const char* name, std::tuple<Kernels...> kernels, Names... names) {
        static_assert(sizeof...(Names) == sizeof...(Parameters), "every argument has a name");
        module.def(
            name,
            [=](Handle<Parameters>... arguments) -> nb::object {
                const nb::handle given[] = {arguments...};
                const char* const all_names[] = {names...};
                constexpr auto places = std::index_sequence_for<Parameters...>{};
                nb::object result = nb::none();
                std::string reason, wrong;
                std::size_t most = 0;
                const auto attempt = [&](auto kernel, bool explain) {
                    const std::size_t taken =
                        call_if_fitting(kernel, given, all_names, result, explain ? &reason : nullptr, places);
                    if (explain && (wrong.empty() || taken > most)) most = taken, wrong = reason;
                    return taken == sizeof...(Parameters);
                };
                if (std::apply([&](auto... each) { return (attempt(each, false) || ...); }, kernels)) return result;
                std::apply([&](auto... each) { (attempt(each, true), ...); }, kernels);
                throw nb::type_error(wrong.c_str());
            },
            nb::arg(names)...);
    }
};

// Make a kernel callable from Python. Several kernels are one for several element types: the first that fits is called,
// and if none does, the error is about the argument that the nearest one does not take.
template <class... Kernels>
constexpr std::tuple<Kernels...> forms(Kernels... kernels) {
    return {kernels...};
}

template <class Kernel, class... Kernels, class... Names>
void bind(nb::module_& module, const char* name, std::tuple<Kernel, Kernels...> kernels, Names... names) {
    Caller<Kernel>::bind(module, name, kernels, names...);
}

}  // namespace ldmaps
