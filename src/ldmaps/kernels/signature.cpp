// Signatures of kernels: how they are read, when the module is loaded, and checked, at every call.
#include "signature.h"

#include <cctype>

#include "binding.h"

namespace ldmaps {
namespace {

constexpr Index LOWEST = std::numeric_limits<Index>::min(), HIGHEST = std::numeric_limits<Index>::max();

[[noreturn]] void refuse_signature(const std::string& part, const char* rule) {
    throw std::invalid_argument("'" + part + "' " + rule);
}

// -- reading ---------------------------------------------------------------------------------------------------------

// The parts of a text between separators; brackets hold together what is inside.
std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char each : text) {
        depth += (each == '[') - (each == ']');
        if (each == separator && depth == 0) {
            parts.emplace_back();
        } else {
            parts.back() += each;
        }
    }
    return parts;
}

// Text before and behind the first of some marks; nothing is behind it where it is missing.
struct Halves {
    std::string before, behind;
    bool has_mark;
};
Halves halves(const std::string& text, const std::string& mark) {
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) return {text, "", false};
    return {text.substr(0, at), text.substr(at + mark.size()), true};
}

bool is_name(const std::string& text) {
    const auto is_part = [](char each) { return std::isalnum(static_cast<unsigned char>(each)) || each == '_'; };
    return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
           std::all_of(text.begin(), text.end(), is_part);
}

// One argument as it is written: name[size=range,...]=range,rising
struct Written {
    std::string name;
    std::vector<std::string> sizes, size_ranges;
    std::string range;
    bool has_range, is_rising;
};

Written written(const std::string& text) {
    const std::size_t open = text.find('['), close = text.find(']');
    Written result{};
    std::string rest;
    if (open != std::string::npos && open < text.find('=')) {
        if (close == std::string::npos) refuse_signature(text, "has a bracket that is not closed");
        result.name = text.substr(0, open);
        rest = text.substr(close + 1);
        for (const std::string& size : split(text.substr(open + 1, close - open - 1), ',')) {
            const Halves parts = halves(size, "=");
            result.sizes.push_back(parts.before);
            result.size_ranges.push_back(parts.behind);
        }
    } else {
        result.name = text.substr(0, text.find('='));
        rest = text.substr(result.name.size());
    }
    const Halves parts = halves(rest, ",");
    result.is_rising = parts.behind == "rising";
    result.has_range = !parts.before.empty() && parts.before[0] == '=';
    result.range = result.has_range ? parts.before.substr(1) : "";
    const bool is_read = (result.has_range || parts.before.empty()) && (result.is_rising || !parts.has_mark);
    if (!is_name(result.name) || !is_read) refuse_signature(text, "is not name[sizes]=low..high");
    return result;
}

Range range_of(const std::string& text, const Expression::Names& names, const Expression::Constants& constants) {
    const auto bound = [&](const std::string& part, Index otherwise) {
        return Expression(part.empty() ? std::to_string(otherwise) : part, names, constants);
    };
    const Halves parts = halves(text, "..");
    if (!parts.has_mark) return {bound(text, 0), bound(text, 0)};
    return {bound(parts.before, LOWEST), bound(parts.behind, HIGHEST)};
}

// -- checking --------------------------------------------------------------------------------------------------------

std::string rule_of(Index low, Index high) {
    if (low == high) return " must be " + std::to_string(low);
    if (high == HIGHEST) return " must be at least " + std::to_string(low);
    if (low == LOWEST) return " must be at most " + std::to_string(high);
    return " must lie within " + std::to_string(low) + " and " + std::to_string(high);
}

// Say what is wrong with elements that are not within their range.
template <class Whole>
[[noreturn]] void refuse_elements(const std::string& name, const Whole* elements, Index low, Index high) {
    Index place = 0;
    while (elements[place] >= low && elements[place] <= high) ++place;
    throw std::invalid_argument(name + rule_of(low, high) + ", got " + std::to_string(elements[place]) + " at place " +
                                std::to_string(place));
}

template <class Whole>
void check_each(const std::string& name, const Whole* elements, Index count, Index low, Index high, bool is_rising) {
    using Unsigned = std::make_unsigned_t<Index>;
    // Below the lowest is above every width where numbers have no sign: one comparison, and nothing overflows.
    const auto width = static_cast<Unsigned>(high) - static_cast<Unsigned>(low);
    bool is_outside = low > high;
#pragma omp simd reduction(| : is_outside)
    for (Index i = 0; i < count; ++i) {
        is_outside |= static_cast<Unsigned>(Index(elements[i])) - static_cast<Unsigned>(low) > width;
    }
    if (is_outside && count > 0) refuse_elements(name, elements, low, high);
    if (!is_rising) return;
    for (Index i = 1; i < count; ++i) {
        if (elements[i - 1] <= elements[i]) continue;
        throw std::invalid_argument(name + " must not fall, got " + std::to_string(elements[i]) + " behind " +
                                    std::to_string(elements[i - 1]));
    }
}

}  // namespace

Expression::Expression(const std::string& text, const Names& names, const Constants& constants) {
    std::size_t at = 0;
    char operation = '+';
    if (!text.empty() && text[0] == '-') operation = '-', at = 1;
    while (true) {
        const std::size_t end = std::min(text.find_first_of("+-*/", at), text.size());
        const std::string part = text.substr(at, end - at);
        if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) {
            // The lowest number has no positive counterpart, so the sign is read with the digits.
            const bool is_negative = operation == '-';
            terms_.push_back({is_negative ? '+' : operation, NUMBER, std::stoll((is_negative ? "-" : "") + part)});
        } else if (part == "itemsize") {
            terms_.push_back({operation, ITEMSIZE, 0});
        } else if (const auto known = names.find(part); known != names.end()) {
            terms_.push_back({operation, known->second, 0});
        } else if (const auto constant = constants.find(part); constant != constants.end()) {
            terms_.push_back({operation, NUMBER, static_cast<Index>(constant->second)});
        } else {
            refuse_signature(text, "has a part that is no size, whole number or constant");
        }
        if (end == text.size()) break;
        operation = text[end];
        at = end + 1;
    }
    for (const Term& term : terms_) {
        const bool is_added = term.operation == '+', is_number = term.place == NUMBER;
        int& place = is_added ? plus_ : minus_;
        is_simple_ = is_simple_ && (is_added || term.operation == '-') && term.place != ITEMSIZE;
        is_simple_ = is_simple_ && (is_number ? is_added && number_ == 0 : place == NO_VALUE);
        if (!is_simple_) return;
        if (is_number) {
            number_ = term.number;
        } else {
            place = term.place;
        }
    }
}

Index Expression::computed(const Index* values, Index itemsize) const {
    Index result = 0;
    for (const Term& term : terms_) {
        const Index operand = term.place >= 0 ? values[term.place] : term.place == NUMBER ? term.number : itemsize;
        bool is_lost = false;
        switch (term.operation) {
            case '+':
                is_lost = __builtin_add_overflow(result, operand, &result);
                break;
            case '-':
                is_lost = __builtin_sub_overflow(result, operand, &result);
                break;
            case '*':
                is_lost = __builtin_mul_overflow(result, operand, &result);
                break;
            default:
                result = operand > 0 ? result / operand + (result % operand > 0) : HIGHEST;
        }
        if (is_lost) return HIGHEST;
    }
    return result;
}

bool Expression::uses(int first, int last) const {
    return std::any_of(terms_.begin(), terms_.end(),
                       [=](const Term& term) { return first <= term.place && term.place < last; });
}

Signature::Signature(const char* text, const std::vector<const Wanted*>& forms, Index n_arguments,
                     const Expression::Constants& constants) {
    std::vector<Written> all;
    for (const std::string& part : split(text, ' ')) all.push_back(written(part));
    if (Index(all.size()) != n_arguments) refuse_signature(text, "has another number of arguments than the kernel");
    const auto is_each = [&](std::size_t argument, auto holds) {
        return std::all_of(forms.begin(), forms.end(), [&](const Wanted* form) { return holds(form[argument]); });
    };
    // Names are given out before they are used, so that a size may be used before the array that has it: numbers first.
    Expression::Names names;
    const auto add_source = [&](const std::string& name, std::size_t argument, int axis) {
        names[name] = static_cast<int>(sources_.size()) + 1;
        sources_.push_back({static_cast<int>(argument), axis});
    };
    for (std::size_t argument = 0; argument < all.size(); ++argument) {
        const Written& one = all[argument];
        const auto has_dimensions = [&](const Wanted& wanted) { return wanted.dimensions == Index(one.sizes.size()); };
        if (!is_each(argument, has_dimensions)) {
            refuse_signature(one.name, "must have as many sizes in brackets as the kernel's array has dimensions");
        }
        const bool is_whole = is_each(argument, [](const Wanted& wanted) { return wanted.kind == 'i'; });
        const bool is_written = is_each(argument, [](const Wanted& wanted) { return wanted.is_written; });
        if (one.has_range != (is_whole && !is_written)) {
            refuse_signature(one.name, "must have a range if and only if it is read and has whole numbers; .. is any");
        }
        if (one.is_rising && one.sizes.size() != 1) refuse_signature(one.name, "must have one dimension to be rising");
        if (one.sizes.empty() && is_whole) add_source(one.name, argument, -1);
    }
    const int first_size = static_cast<int>(sources_.size()) + 1;
    for (std::size_t argument = 0; argument < all.size(); ++argument) {
        for (std::size_t axis = 0; axis < all[argument].sizes.size(); ++axis) {
            const std::string& size = all[argument].sizes[axis];
            if (!is_name(size) || names.count(size) || constants.count(size)) continue;
            for (const Written& other : all) {
                if (other.name == size) refuse_signature(size, "is the name of a size and of an argument");
            }
            add_source(size, argument, static_cast<int>(axis));
        }
    }
    if (sources_.size() >= MOST_VALUES) refuse_signature(text, "has too many sizes");
    std::vector<Check> numbers, computed;
    for (std::size_t place = 0; place < all.size(); ++place) {
        const Written& one = all[place];
        const int argument = static_cast<int>(place);
        arguments_.push_back({one.name, {}});
        for (std::size_t axis = 0; axis < one.sizes.size(); ++axis) {
            const Expression size(one.sizes[axis], names, constants);
            arguments_.back().shape.push_back(size);
            const auto known = names.find(one.sizes[axis]);
            const bool is_source = known != names.end() && sources_[known->second - 1].argument == argument &&
                                   sources_[known->second - 1].axis == static_cast<int>(axis);
            // Sizes that depend on numbers are compared when these are known to be within their ranges.
            const auto list_of = [&](const Expression& used) -> std::vector<Check>& {
                return used.uses(1, first_size) ? computed : checks_;
            };
            if (!is_source) list_of(size).push_back({Rule::SIZE, argument, int(axis), {size, size}});
            if (one.size_ranges[axis].empty()) continue;
            if (!is_source) refuse_signature(one.sizes[axis], "must have its range where it stands first");
            const Range range = range_of(one.size_ranges[axis], names, constants);
            const bool is_exact = one.size_ranges[axis].find("..") == std::string::npos;
            if (is_exact) arguments_.back().shape.back() = range.low;
            list_of(range.low).push_back({is_exact ? Rule::SIZE : Rule::SIZE_RANGE, argument, int(axis), range});
        }
        if (!one.has_range) continue;
        const Range range = range_of(one.range, names, constants);
        if (one.sizes.empty()) {
            numbers.push_back({Rule::NUMBER_RANGE, argument, -1, range});
        } else {
            element_checks_.push_back({argument, range, one.is_rising});
        }
    }
    checks_.insert(checks_.end(), numbers.begin(), numbers.end());
    checks_.insert(checks_.end(), computed.begin(), computed.end());
}

void Signature::check_sizes(const Given* given, const Wanted* wanted, Index* values) const {
    Index* next = values;
    *next++ = 0;
    for (const Source& source : sources_) {
        const Given& one = given[source.argument];
        *next++ = source.axis < 0 ? one.whole() : one.shape()[source.axis];
    }
    for (const Check& check : checks_) {
        const Given& one = given[check.argument];
        const Index itemsize = wanted[check.argument].bytes, low = check.range.low.value(values, itemsize);
        const Index got = check.axis < 0 ? one.whole() : one.shape()[check.axis];
        if (check.rule == Rule::SIZE) {
            if (got != low) refuse_sizes(check.argument, given, wanted, values);
            continue;
        }
        const Index high = check.range.high.value(values, itemsize);
        if (low <= got && got <= high) continue;
        const std::string& name = arguments_[check.argument].name;
        const std::string subject =
            check.axis < 0 ? name : "the size of " + name + " along axis " + std::to_string(check.axis);
        throw std::invalid_argument(subject + rule_of(low, high) + ", got " + std::to_string(got));
    }
}

void Signature::refuse_sizes(int argument, const Given* given, const Wanted* wanted, const Index* values) const {
    const Argument& one = arguments_[argument];
    std::vector<Index> sizes;
    for (const Expression& size : one.shape) sizes.push_back(size.value(values, wanted[argument].bytes));
    refuse_shape(one.name.c_str(), sizes.data(), given[argument].shape(), static_cast<int>(sizes.size()));
}

void Signature::check_elements(const Given* given, const Wanted* wanted, const Index* values) const {
    for (const ElementCheck& check : element_checks_) {
        const Given& one = given[check.argument];
        const Wanted& type = wanted[check.argument];
        const Index low = check.range.low.value(values, type.bytes), high = check.range.high.value(values, type.bytes);
        const std::string& name = arguments_[check.argument].name;
        Index count = 1;
        for (int axis = 0; axis < type.dimensions; ++axis) count *= one.shape()[axis];
        if (type.bytes == 4) {
            check_each(name, static_cast<const std::int32_t*>(one.data()), count, low, high, check.is_rising);
        } else {
            check_each(name, static_cast<const std::int64_t*>(one.data()), count, low, high, check.is_rising);
        }
    }
}

}  // namespace ldmaps
