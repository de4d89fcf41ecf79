// From Python's arguments to a kernel's. A kernel is a function of arrays and numbers; `bind` makes it callable,
// for several element types if it has several forms, and checks type, layout and dimensions of every argument.
// Kernels run without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "array.h"

namespace ldmaps {

namespace nb = nanobind;

// What an argument must be: an array, or a number if it has no dimensions.
struct Wanted {
    char kind;  // ? bool, f floating, i integer, u unsigned
    int bytes;  // of a number, or of an element
    int dimensions;
    bool is_written;
};

template <class T>
constexpr char kind_of() {
    if (std::is_same_v<T, bool>) return '?';
    if (std::is_floating_point_v<T>) return 'f';
    return std::is_signed_v<T> ? 'i' : 'u';
}

// One argument as it was given; an array is held until the kernel has run.
class Given {
public:
    // Says whether it fits.
    bool fits(nb::handle object, const Wanted& wanted);

    template <class T, int N>
    void get(Array<T, N>& array) const {
        array = {static_cast<T*>(buffer_.buf), buffer_.shape};
    }
    template <class T>
    void get(T& number) const {
        if constexpr (std::is_floating_point_v<T>) {
            number = static_cast<T>(real_);
        } else {
            number = static_cast<T>(whole_);
        }
    }

    Given() = default;
    Given(const Given&) = delete;
    ~Given() {
        if (is_held_) PyBuffer_Release(&buffer_);
    }

private:
    Py_buffer buffer_;
    double real_ = 0.0;
    Index whole_ = 0;
    bool is_held_ = false;
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

// A kernel without its type, so that code for all of them is compiled once.
struct Form {
    using Kernel = void (*)();
    Kernel kernel;
    nb::object (*call)(Kernel kernel, const Given* given);
    const Wanted* wanted;
};

template <class Result, class... Parameters>
struct FormOf {
    static constexpr Wanted wanted[] = {Parameter<Parameters>::wanted...};

    static nb::object call(Form::Kernel kernel, const Given* given) {
        std::tuple<Parameters...> values;
        std::apply([&](auto&... each) { (given++->get(each), ...); }, values);
        const auto run = [&] {
            nb::gil_scoped_release unlocked;
            return std::apply(reinterpret_cast<Result (*)(Parameters...)>(kernel), values);
        };
        if constexpr (std::is_void_v<Result>) {
            run();
            return nb::none();
        } else {
            return nb::cast(run());
        }
    }
};

template <class Result, class... Parameters>
Form form(Result (*kernel)(Parameters...)) {
    using Types = FormOf<Result, Parameters...>;
    return {reinterpret_cast<Form::Kernel>(kernel), Types::call, Types::wanted};
}

template <std::size_t N>
struct Forms {
    std::vector<Form> all;
};

// Several kernels are one for several element types: the first that fits is called, and if none does, the error is
// about the argument that the nearest one does not take.
template <class Result, class... Parameters, class... Others>
Forms<sizeof...(Parameters)> forms(Result (*kernel)(Parameters...), Others... others) {
    return {{form(kernel), form(others)...}};
}

// Arguments of the kernel that takes most.
constexpr std::size_t MOST = 24;

nb::object call_fitting(const std::vector<Form>& forms, const char* const* names, const nb::handle* given,
                        std::size_t n_arguments);

template <std::size_t>
using Handle = nb::handle;

template <std::size_t N, std::size_t... Places>
void define(nb::module_& module, const char* name, const std::vector<Form>& forms, std::array<const char*, N> names,
            std::index_sequence<Places...>) {
    module.def(
        name,
        [forms, names](Handle<Places>... arguments) {
            const nb::handle given[] = {arguments...};
            return call_fitting(forms, names.data(), given, N);
        },
        nb::arg(names[Places]).none()...);  // None is refused by name, as all else is
}

// Make a kernel callable from Python.
template <std::size_t N, class... Names>
void bind(nb::module_& module, const char* name, const Forms<N>& forms, Names... names) {
    static_assert(sizeof...(Names) == N, "every argument has a name");
    static_assert(N <= MOST);
    define<N>(module, name, forms.all, {names...}, std::make_index_sequence<N>{});
}

}  // namespace ldmaps
