// Frames of XTC files.
//
// A frame is a header and a stream of bits, all big-endian. Coordinates are whole numbers. The first of a run of atoms
// is given by its place within the frame's bounds, the others by small differences; three numbers below given sizes are
// packed as one number in a mixed base, of which the lowest byte comes first. So few atoms as nine are not packed.
//
//     0 magic   4 atoms   8 step   12 time   16 box (9)   52 atoms
//     56 precision   60 lowest (3)   72 highest (3)   84 first small size   88 bytes that follow, filled up to 4
#include <cmath>
#include <tuple>

#include "binding.h"
#include "fused.h"

namespace ldmaps {
namespace {

constexpr std::uint32_t XTC_MAGIC = 1995;
CONSTANT(XTC_MAGIC)
constexpr Index UNPACKED_ATOMS = 9, UNPACKED_HEADER = 56, HEADER = 92;
// Time and box.
constexpr Index XTC_HEAD = 10;
CONSTANT(XTC_HEAD)
constexpr Index MOST_XTC_ATOMS = std::int64_t(1) << 31;
CONSTANT(MOST_XTC_ATOMS)
// No atom takes more bytes: three numbers of 32 bits, and 6 bits for the length of a run.
constexpr Index ATOM_BYTES = 13;
constexpr Index ATOMS_PER_BYTE = 4;

// How many values a small difference can have, by the number of bits of three; the format's own table.
constexpr std::uint32_t SIZES[] = {
    0,       0,       0,       0,       0,        0,        0,       0,       0,       8,       10,
    12,      16,      20,      25,      32,       40,       50,      64,      80,      101,     128,
    161,     203,     256,     322,     406,      512,      645,     812,     1024,    1290,    1625,
    2048,    2580,    3250,    4096,    5060,     6501,     8192,    10321,   13003,   16384,   20642,
    26007,   32768,   41285,   52015,   65536,    82570,    104031,  131072,  165140,  208063,  262144,
    330280,  416127,  524287,  660561,  832255,   1048576,  1321122, 1664510, 2097152, 2642245, 3329021,
    4194304, 5284491, 6658042, 8388607, 10568983, 13316085, 16777216};
constexpr int FIRST_SIZE = 9, N_SIZES = sizeof SIZES / sizeof *SIZES;
// Three numbers are packed together only where each has fewer values than this.
constexpr std::uint64_t PACKED_SIZE = 1 << 24;

std::uint32_t word(const std::uint8_t* at) {
    return std::uint32_t(at[0]) << 24 | std::uint32_t(at[1]) << 16 | std::uint32_t(at[2]) << 8 | at[3];
}
std::int64_t whole(const std::uint8_t* at) { return static_cast<std::int32_t>(word(at)); }
float real(const std::uint8_t* at) { return bits_of<float>(word(at)); }

int bit_length(std::uint64_t value) {
    int length = 0;
    for (; value > 0; value >>= 1) ++length;
    return length;
}

// Bits one after the other. Behind the end all are 0; the place says that they are.
class Bits {
public:
    Bits(const std::uint8_t* data, Index size) : data_(data), size_(size) {}

    Index bytes_read() const { return (at_ + 7) / 8; }

    // The next bits as a number, 1 to 57 of them.
    std::uint64_t take(int count) {
        const Index byte = at_ / 8;
        std::uint64_t next = 0;
        if (byte + 8 <= size_) {
            std::memcpy(&next, data_ + byte, 8);
            next = __builtin_bswap64(next);
        } else {
            for (int place = 0; place < 8; ++place) next = next << 8 | (byte + place < size_ ? data_[byte + place] : 0);
        }
        const int before = static_cast<int>(at_ % 8);
        at_ += count;
        return next << before >> (64 - count);
    }

    // The same, but the lowest byte comes first; all bytes but the last have 8 bits. Up to 64 bits.
    std::uint64_t take_packed(int count) {
        if (count > 56) {
            const std::uint64_t lower = __builtin_bswap64(take(48)) >> 16;
            return lower | take_packed(count - 48) << 48;
        }
        const int whole_bytes = (count - 1) / 8 * 8, rest = count - whole_bytes;
        const std::uint64_t value = take(count);
        const std::uint64_t lower = __builtin_bswap64(value >> rest << 1 << (63 - whole_bytes));
        return lower | (value & ((1u << rest) - 1)) << whole_bytes;
    }

private:
    const std::uint8_t* data_;
    Index size_;
    Index at_ = 0;
};

// A number to divide by: one product instead of a division, which takes ten times as long before Ice Lake and Zen 2.
struct Divisor {
    std::uint64_t value = 1, inverse = ~0ull;
    constexpr Divisor() = default;
    constexpr explicit Divisor(std::uint64_t value) : value(value), inverse(~0ull / value) {}

    // The quotient; `number` becomes the rest.
    std::uint64_t divide(std::uint64_t& number) const {
        auto quotient = static_cast<std::uint64_t>(static_cast<unsigned __int128>(number) * inverse >> 64);
        number -= quotient * value;
        if (number >= value) ++quotient, number -= value;  // it may be one too low
        return quotient;
    }
};

struct SmallSizes {
    Divisor of[N_SIZES];
    constexpr SmallSizes() {
        for (int place = FIRST_SIZE; place < N_SIZES; ++place) of[place] = Divisor(SIZES[place]);
    }
};
constexpr SmallSizes SMALL;

// Not an array: compilers that read one as a vector, right after it was written number by number, make it wait.
struct Point {
    std::int64_t x, y, z;
};

// Three numbers that lie below sizes and are packed into so many bits, up to 72. Only the first may be too large.
inline Point take_three(Bits& bits, int count, const Divisor& second, const Divisor& third) {
    if (count <= 64) {
        std::uint64_t z = bits.take_packed(count);
        std::uint64_t y = third.divide(z);
        const std::uint64_t x = second.divide(y);
        return {static_cast<std::int64_t>(x), static_cast<std::int64_t>(y), static_cast<std::int64_t>(z)};
    }
    unsigned __int128 packed = bits.take_packed(64);
    packed |= static_cast<unsigned __int128>(bits.take_packed(count - 64)) << 64;
    const unsigned __int128 rest = packed / third.value;
    return {static_cast<std::int64_t>(rest / second.value), static_cast<std::int64_t>(rest % second.value),
            static_cast<std::int64_t>(packed % third.value)};
}

// How long the frame is whose header stands there: 0 where too little of it is there, -1 where it is not sound.
Index frame_length(const std::uint8_t* at, Index left, Index n_atoms) {
    if (left < 8) return 0;
    if (word(at) != XTC_MAGIC || whole(at + 4) != n_atoms) return -1;
    const bool is_packed = n_atoms > UNPACKED_ATOMS;
    if (left < (is_packed ? HEADER : UNPACKED_HEADER)) return 0;
    if (whole(at + 52) != n_atoms) return -1;
    for (Index place = 0; place < XTC_HEAD; ++place) {
        if (!std::isfinite(real(at + 12 + 4 * place))) return -1;
    }
    if (!is_packed) return UNPACKED_HEADER + 12 * n_atoms;
    if (!(real(at + 56) > 0.0f) || !std::isfinite(real(at + 56))) return -1;
    for (Index axis = 0; axis < 3; ++axis) {
        const std::int64_t size = whole(at + 72 + 4 * axis) - whole(at + 60 + 4 * axis) + 1;
        if (size < 1 || size >= std::int64_t(1) << 32) return -1;
    }
    const std::int64_t first_size = whole(at + 84), packed = whole(at + 88);
    if (first_size < FIRST_SIZE || first_size >= N_SIZES) return -1;
    // A damaged length must not make the caller read gigabytes in search of the frame's end.
    if (packed < 0 || packed > ATOM_BYTES * n_atoms) return -1;
    return HEADER + (packed + 3) / 4 * 4;
}

// Unpack a frame of such a length; false where its bits are not what its header says.
bool unpack(const std::uint8_t* frame, Index length, Matrix<float> out) {
    const Index n_atoms = out.shape(0);
    if (n_atoms <= UNPACKED_ATOMS) {
        for (Index place = 0; place < 3 * n_atoms; ++place)
            out.data()[place] = real(frame + UNPACKED_HEADER + 4 * place);
        return true;
    }
    const auto inverse = static_cast<float>(1.0 / static_cast<double>(real(frame + 56)));
    const auto low = [=](int axis) { return whole(frame + 60 + 4 * axis); };
    const auto size = [=](int axis) {
        return static_cast<std::uint64_t>(whole(frame + 72 + 4 * axis) - low(axis) + 1);
    };
    const Point lowest{low(0), low(1), low(2)};
    const Divisor sizes[] = {Divisor(size(0)), Divisor(size(1)), Divisor(size(2))};
    const bool is_joint = std::max({size(0), size(1), size(2)}) < PACKED_SIZE;
    const auto product = static_cast<unsigned __int128>(size(0) * size(1)) * (is_joint ? size(2) : 0);
    const auto upper = static_cast<std::uint64_t>(product >> 64);
    const int n_bits = upper > 0 ? 64 + bit_length(upper) : bit_length(static_cast<std::uint64_t>(product));
    int small = static_cast<int>(whole(frame + 84));
    Bits bits(frame + HEADER, whole(frame + 88));
    Index run = 0;
    for (Index atom = 0; atom < n_atoms;) {
        Point place;
        if (is_joint) {
            place = take_three(bits, n_bits, sizes[1], sizes[2]);
        } else {
            const auto apart = [&](int axis) { return static_cast<std::int64_t>(bits.take(bit_length(size(axis)))); };
            place.x = apart(0), place.y = apart(1), place.z = apart(2);
        }
        const auto is_below = [&](std::int64_t value, int axis) { return std::uint64_t(value) < sizes[axis].value; };
        if (!is_below(place.x, 0) || !is_below(place.y, 1) || !is_below(place.z, 2)) return false;
        int change = 0;
        if (bits.take(1)) {
            const int code = static_cast<int>(bits.take(5));
            run = code / 3;
            change = code % 3 - 1;
        }
        if (atom + 1 + run > n_atoms) return false;
        place = {place.x + lowest.x, place.y + lowest.y, place.z + lowest.z};
        const auto put = [&](Index which) {
            float* const to = out[which].data();
            to[0] = static_cast<float>(place.x) * inverse;
            to[1] = static_cast<float>(place.y) * inverse;
            to[2] = static_cast<float>(place.z) * inverse;
        };
        // The first two atoms of a run are interchanged, for the sake of water.
        put(run > 0 ? atom + 1 : atom);
        const Divisor& steps = SMALL.of[small];
        const auto half = static_cast<std::int64_t>(steps.value / 2);
        for (Index k = 0; k < run; ++k) {
            const Point step = take_three(bits, small, steps, steps);
            if (static_cast<std::uint64_t>(step.x) >= steps.value) return false;
            place = {place.x + step.x - half, place.y + step.y - half, place.z + step.z - half};
            put(k == 0 ? atom : atom + 1 + k);
        }
        atom += 1 + run;
        small += change;
        if (small < FIRST_SIZE || small >= N_SIZES) return false;
    }
    // A frame that needs more or fewer bytes than it says was damaged, or its length was.
    return HEADER + (bits.bytes_read() + 3) / 4 * 4 == length;
}

// Find frames that follow one another from `begin` on. Returns how many there are whose headers are there and sound,
// the byte behind them, which may be one that is still to come, and whether what stands there may be a header.
std::tuple<Index, Index, bool> find_xtc_frames(Row<const std::uint8_t> data, Index begin, Index n_atoms,
                                               Row<Index> starts) {
    Index at = begin;
    for (Index count = 0;; ++count) {
        if (at >= data.size()) return {count, at, true};
        const Index length = frame_length(data.data() + at, data.size() - at, n_atoms);
        if (length <= 0 || count == starts.size()) return {count, at, length >= 0};
        starts[count] = at;
        at += length;
    }
}
KERNEL_OF(find_xtc_frames, "data[d] begin=0..d n_atoms=1..MOST_XTC_ATOMS starts[s]", form(find_xtc_frames))

// Unpack frames that were found, in nm, with their times and boxes; returns how many, up to one that is damaged. Where
// `atoms` are given, only these are kept.
Index unpack_xtc_frames(Row<const std::uint8_t> data, Row<const Index> starts, Index n_atoms, Row<const Index> atoms,
                        Cube<float> frames, Matrix<float> heads) {
    const bool keeps_all = atoms.size() == 0;
    expect_shape("frames", frames, starts.size(), keeps_all ? n_atoms : atoms.size(), 3);
    // An atom takes two bits at least. Without this limit, a header that lies would decide how much memory is taken.
    const bool is_possible = n_atoms <= ATOMS_PER_BYTE * data.size();
    const Scratch<float> scratch(keeps_all || !is_possible ? 0 : 3 * n_atoms);
    for (Index count = 0; count < starts.size(); ++count) {
        const std::uint8_t* const frame = data.data() + starts[count];
        const Index left = data.size() - starts[count], length = frame_length(frame, left, n_atoms);
        if (length <= 0 || length > left || !is_possible) return count;
        for (Index place = 0; place < XTC_HEAD; ++place) heads(count, place) = real(frame + 12 + 4 * place);
        const Matrix<float> all = keeps_all ? frames[count] : scratch.matrix(n_atoms, 3);
        if (!unpack(frame, length, all)) return count;
        for (Index place = 0; place < atoms.size(); ++place) {
            std::copy_n(all[atoms[place]].data(), 3, frames[count][place].data());
        }
    }
    return starts.size();
}
KERNEL_OF(unpack_xtc_frames,
          "data[d] starts[s]=0..d n_atoms=1..MOST_XTC_ATOMS atoms[a]=0..n_atoms-1 frames[s,k,3] heads[s,XTC_HEAD]",
          form(unpack_xtc_frames))

}  // namespace
}  // namespace ldmaps
