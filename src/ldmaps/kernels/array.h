// Arrays as kernels see them: an address and sizes, C-contiguous. In a checked build every index is tested.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace ldmaps {

using Index = std::ptrdiff_t;

#ifdef LDMAPS_CHECKED
inline void check_index(Index index, Index size) {
    if (index < 0 || index >= size) {
        std::fprintf(stderr, "index %td is outside 0..%td\n", index, size - 1);
        std::abort();
    }
}
#else
inline void check_index(Index, Index) {}
#endif

template <class T, int N>
class Array {
public:
    static constexpr int dimensions = N;
    using Element = T;

    Array() = default;
    Array(T* data, const Index* shape) : data_(data) { std::copy(shape, shape + N, shape_); }
    // An array of writable elements can be read.
    operator Array<const T, N>() const { return {data_, shape_}; }

    T* data() const { return data_; }
    Index shape(int axis) const { return shape_[axis]; }
    const Index* shape() const { return shape_; }
    Index size() const {
        Index total = 1;
        for (int axis = 0; axis < N; ++axis) total *= shape_[axis];
        return total;
    }

    // One element of a row, or one row of something larger.
    decltype(auto) operator[](Index index) const {
        check_index(index, shape_[0]);
        if constexpr (N == 1) {
            return (data_[index]);
        } else {
            Index stride = 1;
            for (int axis = 1; axis < N; ++axis) stride *= shape_[axis];
            return Array<T, N - 1>(data_ + index * stride, shape_ + 1);
        }
    }
    template <class... Rest>
    decltype(auto) operator()(Index first, Rest... rest) const {
        if constexpr (sizeof...(rest) == 0) {
            return (*this)[first];
        } else {
            return (*this)[first](rest...);
        }
    }

    // Elements of a row from `start` to before `stop`; a stop beyond the end means the end.
    Array slice(Index start, Index stop) const {
        static_assert(N == 1, "only rows are sliced");
        const Index length = std::min(stop, shape_[0]) - start;
        if (length > 0) check_index(start, shape_[0]);
        return {data_ + start, &length};
    }
    void fill(T value) const { std::fill(data_, data_ + size(), value); }

private:
    T* data_ = nullptr;
    Index shape_[N] = {};
};

template <class T>
using Row = Array<T, 1>;
template <class T>
using Matrix = Array<T, 2>;
template <class T>
using Cube = Array<T, 3>;

// Memory of a kernel's own, not filled; at the alignment of a cache line.
template <class T>
class Scratch {
public:
    // Moved to the line's begin here: memory that the library itself aligns takes it ten times as long to find.
    explicit Scratch(Index size)
        : memory_(new char[sizeof(T) * static_cast<std::size_t>(size) + LINE]),
          data_(reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(memory_.get()) + LINE - 1) / LINE * LINE)),
          size_(size) {}
    Scratch(Index size, T value) : Scratch(size) { std::fill(data_, data_ + size, value); }

    T* data() const { return data_; }
    Row<T> row() const { return {data_, &size_}; }
    Matrix<T> matrix(Index rows, Index columns) const {
        const Index shape[2] = {rows, columns};
        return {data_, shape};
    }
    T& operator[](Index index) const {
        check_index(index, size_);
        return data_[index];
    }

private:
    static constexpr std::uintptr_t LINE = 64;
    std::unique_ptr<char[]> memory_;
    T* data_;
    Index size_;
};

// Checks that no signature can say (see binding.h); what kernels do with their arguments relies on them.
[[noreturn]] inline void refuse_shape(const char* name, const Index* wanted, const Index* got, int dimensions) {
    const auto listed = [=](const Index* shape) {
        std::string text;
        for (int axis = 0; axis < dimensions; ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
        return text;
    };
    throw std::invalid_argument(std::string(name) + " must have shape (" + listed(wanted) + "), got (" + listed(got) +
                                ")");
}

template <class T, int N, class... Sizes>
void expect_shape(const char* name, const Array<T, N>& array, Sizes... sizes) {
    static_assert(sizeof...(sizes) == N);
    const Index expected[N] = {static_cast<Index>(sizes)...};
    if (!std::equal(expected, expected + N, array.shape())) refuse_shape(name, expected, array.shape(), N);
}

inline void expect(bool holds, const char* rule) {
    if (!holds) throw std::invalid_argument(rule);
}

}  // namespace ldmaps
