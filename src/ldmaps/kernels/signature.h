// What the signature of a kernel says about its arguments, and the checks that follow from it. Its language is
// explained in binding.h.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "array.h"

namespace ldmaps {

class Given;
struct Wanted;

// Sizes and whole numbers that one signature has names for, at most; the first value has no name and is 0.
constexpr int MOST_VALUES = 24, NO_VALUE = 0;

// A sum, difference, product or quotient of sizes and whole numbers, computed from left to right.
class Expression {
public:
    // The names that an expression may use, and where their values are.
    using Names = std::map<std::string, int>;
    using Constants = std::map<std::string, double>;

    Expression(const std::string& text, const Names& names, const Constants& constants);
    // Quotients are rounded up. What overflows becomes the largest number, which no array has as its size.
    Index value(const Index* values, Index itemsize) const {
        if (!is_simple_) return computed(values, itemsize);
        Index result;
        const bool is_lost = __builtin_sub_overflow(values[plus_], values[minus_], &result) |
                             __builtin_add_overflow(result, number_, &result);
        return is_lost ? std::numeric_limits<Index>::max() : result;
    }
    // Whether it uses one of the values from `first` to before `last`.
    bool uses(int first, int last) const;

private:
    struct Term {
        char operation;
        int place;  // of a value, or NUMBER or ITEMSIZE
        Index number;
    };
    static constexpr int NUMBER = -1, ITEMSIZE = -2;

    Index computed(const Index* values, Index itemsize) const;

    std::vector<Term> terms_;
    // Nearly all are a value less another one and a number more, which takes a nanosecond.
    bool is_simple_ = true;
    int plus_ = NO_VALUE, minus_ = NO_VALUE;
    Index number_ = 0;
};

// Values from the lower to the upper bound, both included.
struct Range {
    Expression low, high;
};

class Signature {
public:
    Signature() = default;
    // Throws an error if the text is no signature of a kernel whose forms want these arguments.
    Signature(const char* text, const std::vector<const Wanted*>& forms, Index n_arguments,
              const Expression::Constants& constants);

    Index n_arguments() const { return static_cast<Index>(arguments_.size()); }
    const std::string& name(Index argument) const { return arguments_[static_cast<std::size_t>(argument)].name; }

    // Check all sizes and whole numbers, and write down their values; throws an error about the first that is wrong.
    void check_sizes(const Given* given, const Wanted* wanted, Index* values) const;
    // Check the elements of arrays, which takes as long as to read them; runs without the GIL.
    void check_elements(const Given* given, const Wanted* wanted, const Index* values) const;

private:
    struct Argument {
        std::string name;
        std::vector<Expression> shape;
    };
    // Where a value comes from: an axis of an array or, if that is negative, a number.
    struct Source {
        int argument, axis;
    };
    enum class Rule { SIZE, SIZE_RANGE, NUMBER_RANGE };
    struct Check {
        Rule rule;
        int argument, axis;
        Range range;  // of a size that is prescribed, both bounds are the size
    };
    struct ElementCheck {
        int argument;
        Range range;
        bool is_rising;
    };

    [[noreturn]] void refuse_sizes(int argument, const Given* given, const Wanted* wanted, const Index* values) const;

    std::vector<Argument> arguments_;
    std::vector<Source> sources_;
    std::vector<Check> checks_;
    std::vector<ElementCheck> element_checks_;
};

}  // namespace ldmaps
