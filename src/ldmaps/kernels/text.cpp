// Numbers out of lines of text and into them, to the last digit: what Python's float and "%.17g" give.
#include <charconv>
#include <cstring>
#include <utility>

#include "binding.h"
#include "fused.h"

namespace ldmaps {
namespace {

// -- reading ---------------------------------------------------------------------------------------------------------

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

const char* behind(const char* at, const char* stop, char blank) {
    while (at < stop && *at == blank) ++at;
    return at;
}

// JSON knows neither 01 nor .5 nor 1. and nothing that is not finite.
bool is_json_number(const char* at, const char* stop) {
    if (at == stop || !is_digit(*at)) return false;
    const bool has_zero = *at == '0';
    for (++at; at < stop && is_digit(*at); ++at) {
        if (has_zero) return false;
    }
    return at == stop || *at != '.' || (at + 1 < stop && is_digit(at[1]));
}

// The number at `at`, which moves behind it; false where there is no plain finite one.
bool read_number(const char*& at, const char* stop, bool is_json, double& value) {
    const char* first = at;
    if (first < stop && (*first == '-' || (*first == '+' && !is_json))) ++first;
    // Neither inf nor nan, which from_chars knows too.
    if (is_json ? !is_json_number(first, stop) : first == stop || !(is_digit(*first) || *first == '.')) return false;
    const auto [end, error] = std::from_chars(first, stop, value);
    if (error != std::errc()) return false;
    if (*at == '-') value = -value;
    // A whole number of JSON has no negative zero.
    if (is_json && value == 0.0 && std::find_if_not(first, end, is_digit) == end) value = 0.0;
    at = end;
    return true;
}

// How a line is cut into cells. A delimiter of 0 is white space.
struct Cells {
    char delimiter;
    bool is_json;

    // The number of a cell; `at` moves to what follows it.
    bool read(const char*& at, const char* stop, double& value) const {
        const bool is_quoted = at < stop && *at == '"' && delimiter != 0 && !is_json;
        at = behind(at + is_quoted, stop, ' ');
        if (!read_number(at, stop, is_json, value)) return false;
        if (delimiter != 0) at = behind(at, stop, ' ');
        if (is_quoted && (at == stop || *at++ != '"')) return false;
        return true;
    }

    // A cell that may hold anything, except what would be cut elsewhere by Python.
    bool skip(const char*& at, const char* stop) const {
        const char* const first = at;
        if (delimiter == 0) {
            while (at < stop && *at > ' ' && *at < 127) ++at;
            return at == stop || *at == ' ' || *at == '\t';
        }
        if (at < stop && *at == '"') {
            for (++at;; at += 2) {
                at = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(stop - at)));
                if (at == nullptr) return false;
                if (at + 1 == stop || at[1] != '"') break;
            }
            ++at;
        } else {
            while (at < stop && *at != delimiter) ++at;
        }
        // Tabs at the end of a line are no cells where white space around a line does not count.
        return delimiter != '\t' || behind(first, at, ' ') < at;
    }

    // From one cell to the next.
    bool pass_delimiter(const char*& at, const char* stop) const {
        if (delimiter == 0) {
            const char* const first = at;
            while (at < stop && (*at == ' ' || *at == '\t')) ++at;
            return at > first;
        }
        if (at == stop || *at != delimiter) return false;
        ++at;
        return true;
    }
};

bool read_line(const char* at, const char* stop, const Cells& cells, Row<const Index> targets, Row<double> row) {
    at = behind(at, stop, ' ');
    // Blank lines, comments and what else may not be a row are another's business.
    if (at == stop || *at <= ' ' || *at >= 127 || *at == '#') return false;
    if (cells.is_json && *at++ != '[') return false;
    for (Index column = 0; column < targets.size(); ++column) {
        if (column > 0 && !cells.pass_delimiter(at, stop)) return false;
        const Index target = targets[column];
        if (!(target < 0 ? cells.skip(at, stop) : cells.read(at, stop, row[target]))) return false;
    }
    if (cells.is_json && (at == stop || *at++ != ']')) return false;
    return behind(at, stop, ' ') == stop;
}

// Read lines from `begin` on, a row each, until the block is full or a line is not a plain row of finite numbers (or
// has more than `longest` bytes, or no end). Returns how many rows there are, and the place behind them. `targets` is
// the column of the block for each column of the text, -1 to skip it.
std::tuple<Index, Index> read_rows(Row<const std::uint8_t> text, Index begin, Index delimiter, bool is_json,
                                   Index longest, Row<const Index> targets, Matrix<double> block) {
    const Cells cells{static_cast<char>(delimiter), is_json};
    const char* const first = reinterpret_cast<const char*>(text.data());
    const char* const last = first + text.size();
    const char* at = first + begin;
    Index count = 0;
    for (; count < block.shape(0) && at < last; ++count) {
        const auto end = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(last - at)));
        if (end == nullptr || end - at > longest) break;
        const char* const stop = end > at && end[-1] == '\r' ? end - 1 : end;
        // A carriage return elsewhere ends a line for some readers and not for others.
        if (std::memchr(at, '\r', static_cast<std::size_t>(stop - at)) != nullptr) break;
        if (!read_line(at, stop, cells, targets, block[count])) break;
        at = end + 1;
    }
    return {count, at - first};
}
KERNEL_OF(read_rows, "text[t] begin=0..t delimiter=.. is_json longest=0.. targets[c]=-1..k-1 block[n,k]",
          form(read_rows))

// -- writing ---------------------------------------------------------------------------------------------------------

// Most bytes of a number, -1.2345678901234567e-308, and of a whole number.
constexpr Index CELL_BYTES = 24;
CONSTANT(CELL_BYTES)
constexpr int MOST_DIGITS = 17;
CONSTANT(MOST_DIGITS)
// Of five, for numbers that are written without an exponent.
constexpr int HIGHEST_POWER = MOST_DIGITS + 3;

struct Powers {
    std::uint64_t of_five[HIGHEST_POWER + 1] = {1};
    std::uint64_t of_ten[MOST_DIGITS + 1] = {1};
    constexpr Powers() {
        for (int power = 1; power <= HIGHEST_POWER; ++power) of_five[power] = 5 * of_five[power - 1];
        for (int power = 1; power <= MOST_DIGITS; ++power) of_ten[power] = 10 * of_ten[power - 1];
    }
};
constexpr Powers POWERS;

// m 2^e 10^q to the nearest whole number, half-way to the even one; m has 53 bits, so nothing is cut off.
std::uint64_t scaled(std::uint64_t m, int e, int q) {
    const auto product = static_cast<unsigned __int128>(m) * POWERS.of_five[q];
    const int shift = -(e + q);
    if (shift <= 0) return static_cast<std::uint64_t>(product << -shift);
    const auto whole = static_cast<std::uint64_t>(product >> shift);
    const auto rest = product - (static_cast<unsigned __int128>(whole) << shift);
    const auto half = static_cast<unsigned __int128>(1) << (shift - 1);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

// Write a finite number as "%.{digits}g" does. Numbers of usual size, without an exponent, take half of the time that
// to_chars needs, which would be a sixth of the time to embed a table of points.
char* write_number(double value, int digits, char* at) {
    const auto bits = bits_of<std::uint64_t>(value);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    // The decimal exponent, from that of the power of two; at most one too low.
    int x = ((exponent - 1023) * 315653) >> 20;
    if (x < -4 || x > digits - 2) {
        return std::to_chars(at, at + CELL_BYTES, value, std::chars_format::general, digits).ptr;
    }
    const std::uint64_t m = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int e = exponent - 1075;
    std::uint64_t whole = scaled(m, e, digits - 1 - x);
    if (whole >= POWERS.of_ten[digits]) whole = scaled(m, e, digits - 1 - ++x);
    // What was rounded up to 10 comes out of the second try as 1.0.
    char text[MOST_DIGITS + 3];
    char* end = std::to_chars(text, text + sizeof text, whole).ptr;
    while (end[-1] == '0') --end;
    const int count = static_cast<int>(end - text);
    if (bits >> 63) *at++ = '-';
    if (x < 0) {
        *at++ = '0', *at++ = '.';
        at = std::fill_n(at, -x - 1, '0');
        return std::copy(text, end, at);
    }
    if (count <= x + 1) return std::fill_n(std::copy(text, end, at), x + 1 - count, '0');
    at = std::copy(text, text + x + 1, at);
    *at++ = '.';
    return std::copy(text + x + 1, end, at);
}

// Texts, one behind the other.
struct Texts {
    Row<const std::uint8_t> bytes;
    Row<const Index> stops;

    // The size of the longest.
    Index longest() const {
        Index most = 0;
        for (Index place = 0; place < stops.size(); ++place) most = std::max(most, size(place));
        return most;
    }
    Index begin(Index place) const { return place ? stops[place - 1] : 0; }
    Index size(Index place) const { return stops[place] - begin(place); }
    char* write(Index place, char* at) const { return std::copy_n(bytes.data() + begin(place), size(place), at); }
};

// Write rows of text; returns their length. A row is its values, one text before each and one behind the last. `forms`
// says what a column holds: 1 to 17 are the significant digits of its numbers; 0, whole numbers (their bits as they lie
// in memory); -1, places among the words (likewise). The first three words stand for nan, inf and -inf.
Index write_rows(Matrix<const double> values, Row<const Index> forms, Row<const std::uint8_t> texts,
                 Row<const Index> text_stops, Row<const std::uint8_t> words, Row<const Index> word_stops,
                 Row<std::uint8_t> out) {
    const Index n_columns = values.shape(1);
    const Texts between{texts, text_stops}, word{words, word_stops};
    const Index longest_word = word.longest();
    expect(word_stops[2] <= CELL_BYTES, "words must begin with those for nan, inf and -inf");
    Index room = texts.size();
    for (Index column = 0; column < n_columns; ++column) {
        room += forms[column] < 0 ? longest_word : CELL_BYTES;
    }
    // Divided, because a product might overflow.
    const Index n_rows = values.shape(0);
    expect(n_rows == 0 || out.size() / n_rows >= room, "out must have room for the longest rows");
    char* const first = reinterpret_cast<char*>(out.data());
    char* at = first;
    for (Index row = 0; row < n_rows; ++row) {
        for (Index column = 0; column < n_columns; ++column) {
            at = between.write(column, at);
            const double value = values(row, column);
            const Index form = forms[column];
            if (form > 0 && std::isfinite(value)) {
                at = write_number(value, static_cast<int>(form), at);
            } else if (form == 0) {
                at = std::to_chars(at, at + CELL_BYTES, bits_of<std::int64_t>(value)).ptr;
            } else {
                const Index infinite = value > 0.0 ? 1 : 2, no_number = std::isnan(value) ? 0 : infinite;
                const Index place = form > 0 ? no_number : static_cast<Index>(bits_of<std::int64_t>(value));
                expect(place >= 0 && place < word_stops.size(), "a value must be the place of a word");
                at = word.write(place, at);
            }
        }
        at = between.write(n_columns, at);
    }
    return at - first;
}
KERNEL_OF(write_rows,
          "values[n,k] forms[k]=-1..MOST_DIGITS texts[t] text_stops[k+1]=0..t,rising words[w] "
          "word_stops[v=3..]=0..w,rising out[o]",
          form(write_rows))

}  // namespace
}  // namespace ldmaps
