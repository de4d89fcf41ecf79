// Frames as they come, embedded by a few landmarks in one pass: see landmark_lanes.h.
#include "binding.h"
#include "landmark_lanes.h"
#include "online.h"

namespace ldmaps {
namespace {

CONSTANT(QUARTET)
CONSTANT(FEWEST_ATOMS)
// The most landmarks that the lanes of one pass have room for.
constexpr Index MOST_IN_LANES = 64;
CONSTANT(MOST_IN_LANES)

// A few landmarks, and what measuring frames from them needs.
template <class Given, class Real>
class LandmarkLanes {
public:
    LandmarkLanes(Index n_atoms, Row<const Index> kept, Row<const Real> weights, Cube<const Real> lanes,
                  Matrix<const Real> moments, Index count)
        : kept_(kept),
          lanes_(lanes),
          moments_(moments),
          padded_(whole_quartets(count)),
          n_atoms_(n_atoms),
          tile_(WorkOf<Real>::WIDTH / padded_),
          weights_(weights_in_pieces(weights)),
          room_((3 * kept.size() + PIECE<Real> - 1) / PIECE<Real> * PIECE<Real>),
          memory_(3 * room_),
          squares_(tile_ * padded_) {
        // Of two different columns of M, entries are no more than half of the landmark's area: see quartic.h.
        for (Index at = 0; at < WorkOf<Real>::WIDTH; ++at) {
            const Index j = at % padded_;
            work_.rows[BOUND][at] = j < count ? Real(0.5) * moments(AREA, j) : Real(0);
        }
    }

    // Frames of one tile.
    Index tile() const { return tile_; }
    // What was measured, one frame to a row.
    Matrix<const Real> squares(Index n_frames) const { return squares_.matrix(n_frames, padded_); }

    // Measure a tile of frames. Returns whether four times each squared norm, which no d² exceeds, is finite.
    bool measure(const Given* frames, Index n_frames) {
        bool is_finite = true;
        const Index frame_size = 3 * n_atoms_;
        Index frame = 0;
        if (PIECE<Real> * 2 >= 3 * padded_ && PIECES_AT_ONCE<Real> > 1) {
            for (; frame + 2 <= n_frames; frame += 2) {
                is_finite &= add_frames<2>(frames + frame * frame_size, frame);
            }
        }
        for (; frame < n_frames; ++frame) is_finite &= add_frames<1>(frames + frame * frame_size, frame);
        if (!is_finite) return false;
        settle_roots(work_, n_frames * padded_);
        write_squares(n_frames);
        return true;
    }

private:
    // The numbers of atoms that count, in the landmarks' precision. Atoms that are kept stand in their order.
    const Real* chosen(const Given* frame, Real* memory) const {
        if constexpr (std::is_same_v<Given, Real>) {
            if (kept_.size() == n_atoms_) return frame;
        }
        // Relative to the first atom before anything is rounded.
        const Given* origin = frame + 3 * kept_[0];
        for (Index k = 0; k < kept_.size(); ++k) {
            for (int axis = 0; axis < 3; ++axis) {
                memory[3 * k + axis] = static_cast<Real>(double(frame[3 * kept_[k] + axis]) - double(origin[axis]));
            }
        }
        return memory;
    }

    template <int Frames>
    bool add_frames(const Given* frames, Index first) {
        const Index size = 3 * kept_.size(), n_atoms = kept_.size();
        const Real* centred[Frames];
        Real factors[Frames];
        bool is_finite = true;
        for (int f = 0; f < Frames; ++f) {
            Real* own = memory_.data() + f * room_;
            const Real* frame = chosen(frames + f * 3 * n_atoms_, memory_.data() + 2 * room_);
            const Real norm = centre_frame(frame, size, weights_.data(), own);
            is_finite &= std::isfinite(Real(4) * norm);
            const Real scale = norm > 0 ? std::sqrt(norm) : Real(1);
            norms_[first + f] = norm, scales_[first + f] = scale;
            factors[f] = Real(1) / scale, centred[f] = own;
        }
        constexpr Index step = PIECE<Real>;
        const Index stride = lanes_.shape(1) * lanes_.shape(2), n_pieces = (3 * padded_ + step - 1) / step;
        for (Index start = 0; start < n_atoms; start += ATOM_BLOCK) {
            const Index count = std::min(ATOM_BLOCK, n_atoms - start);
            const Real* part[Frames];
            for (int f = 0; f < Frames; ++f) part[f] = centred[f] + 3 * start;
            const auto add = [&](Index piece, auto pieces) {
                add_lane_sums<Frames, decltype(pieces)::value>(part, factors, lanes_[start].data() + piece * step,
                                                               stride, count, piece * step, padded_, work_, first,
                                                               start == 0);
            };
            Index piece = 0;
            if constexpr (Frames == 1 && PIECES_AT_ONCE<Real> == 3) {
                for (; piece + 3 <= n_pieces; piece += 3) add(piece, std::integral_constant<int, 3>{});
            }
            if constexpr (PIECES_AT_ONCE<Real> >= 2) {
                for (; piece + 2 <= n_pieces; piece += 2) add(piece, std::integral_constant<int, 2>{});
            }
            for (; piece < n_pieces; ++piece) add(piece, std::integral_constant<int, 1>{});
        }
        return is_finite;
    }

    void write_squares(Index n_frames) {
        constexpr Real rounding = Real(ROUNDING_OF_LANES) * std::numeric_limits<Real>::epsilon();
        const Real *norms = moments_[SQUARED_NORM].data(), *scales = moments_[SCALE].data();
        for (Index f = 0; f < n_frames; ++f) {
            const Real norm = norms_[f], scale = scales_[f] * Real(-2);
            const Real* lambda = work_.rows[ROOT] + f * padded_;
            Real* row = squares_.data() + f * padded_;
            for (Index quartet = 0; quartet < padded_; quartet += QUARTET) {
#pragma omp simd
                for (Index j = quartet; j < quartet + QUARTET; ++j) {
                    const Real both = norm + norms[j];
                    const Real value = fused(scale * scales[j], lambda[j], both);
                    row[j] = value > both * rounding ? value : Real(0);
                }
            }
        }
    }

    Row<const Index> kept_;
    Cube<const Real> lanes_;
    Matrix<const Real> moments_;
    Index padded_, n_atoms_, tile_;
    Scratch<Real> weights_;
    Index room_;  // for one frame, in whole pieces
    Scratch<Real> memory_, squares_;
    Real norms_[WorkOf<Real>::WIDTH / QUARTET], scales_[WorkOf<Real>::WIDTH / QUARTET];
    WorkOf<Real> work_;
};

// Embed frames as they come. Returns whether all of them could be: none holds what is not finite, or too large to be
// squared.
template <class Given, class Real>
bool embed_by_lanes(Cube<const Given> frames, Row<const Index> kept, Row<const Real> atom_weights,
                    Cube<const Real> lanes, Matrix<const Real> moments, Real rate, Row<const Real> weights,
                    Matrix<const Real> coefficients, Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    LandmarkLanes<Given, Real> landmarks(frames.shape(1), kept, atom_weights, lanes, moments, weights.size());
    const Online<Real> online{rate, weights, coefficients, coordinates, nearest, lowest};
    const Index n_frames = frames.shape(0), frame_size = 3 * frames.shape(1);
    for (Index first = 0; first < n_frames; first += landmarks.tile()) {
        const Index count = std::min(landmarks.tile(), n_frames - first);
        if (!landmarks.measure(frames.data() + first * frame_size, count)) return false;
        extend_rows<Real>(landmarks.squares(count), first, online);
    }
    return true;
}
KERNEL_OF(
    embed_by_lanes,
    "frames[n,a,3] kept[e=FEWEST_ATOMS..]=0..a-1 atom_weights[e] lanes[e,m/QUARTET*QUARTET*3/l,l=PANEL_BYTES/itemsize] "
    "moments[MOMENTS,m/l*l] rate weights[m=1..MOST_IN_LANES] coefficients[k,m] coordinates[n,k] nearest[n] "
    "lowest[n]",
    form(embed_by_lanes<float, float>), form(embed_by_lanes<double, double>), form(embed_by_lanes<float, double>),
    form(embed_by_lanes<double, float>))

// Write d² of frames as they come, exactly as they are embedded by. Returns as `embed_by_lanes` does.
template <class Given, class Real>
bool squares_by_lanes(Cube<const Given> frames, Row<const Index> kept, Row<const Real> atom_weights,
                      Cube<const Real> lanes, Matrix<const Real> moments, Matrix<Real> squared) {
    const Index n_landmarks = squared.shape(1);
    LandmarkLanes<Given, Real> landmarks(frames.shape(1), kept, atom_weights, lanes, moments, n_landmarks);
    const Index n_frames = frames.shape(0), frame_size = 3 * frames.shape(1);
    for (Index first = 0; first < n_frames; first += landmarks.tile()) {
        const Index count = std::min(landmarks.tile(), n_frames - first);
        if (!landmarks.measure(frames.data() + first * frame_size, count)) return false;
        const Matrix<const Real> squares = landmarks.squares(count);
        for (Index i = 0; i < count; ++i) std::copy_n(squares[i].data(), n_landmarks, squared[first + i].data());
    }
    return true;
}
KERNEL_OF(
    squares_by_lanes,
    "frames[n,a,3] kept[e=FEWEST_ATOMS..]=0..a-1 atom_weights[e] lanes[e,m/QUARTET*QUARTET*3/l,l=PANEL_BYTES/itemsize] "
    "moments[MOMENTS,m/l*l] squared[n,m=1..MOST_IN_LANES]",
    form(squares_by_lanes<float, float>), form(squares_by_lanes<double, double>), form(squares_by_lanes<float, double>),
    form(squares_by_lanes<double, float>))

}  // namespace
}  // namespace ldmaps
