// Frames as they come, embedded in one pass: see frame_lanes.h.
#include "binding.h"
#include "frame_lanes.h"

namespace ldmaps {
namespace {

// Embed frames as they come. Returns whether all of them could be: none holds what is not finite, or too large to be
// squared.
template <class Given, class Real>
bool embed_rmsd(Cube<const Given> frames, Row<const Index> kept, Row<const double> root_weights,
                Cube<const Real> panels, Matrix<const Real> moments, Real rate, Row<const Real> weights,
                Matrix<const Real> coefficients, Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    FrameLanes<Given, Real> measured(frames.shape(1), kept, root_weights, panels, moments, weights.size());
    const Online<Real> online{rate, weights, coefficients, coordinates, nearest, lowest};
    return measured.measure(
        frames.data(), frames.shape(0),
        [&](SideBySide<Real>& block, Index first, Index last) { block.embed(first, last, online); },
        [&](Matrix<const Real> squares, Index first) { extend_rows<Real>(squares, first, online); });
}
KERNEL_OF(embed_rmsd,
          "frames[n,a,3] kept[e=1..]=0..a-1 root_weights[e] panels[m/l,3*e,l=PANEL_BYTES/itemsize] "
          "moments[MOMENTS,m/l*l] rate weights[m=1..] coefficients[k,m] coordinates[n,k] nearest[n] lowest[n]",
          form(embed_rmsd<float, float>), form(embed_rmsd<double, double>), form(embed_rmsd<float, double>),
          form(embed_rmsd<double, float>))

// Write d² of frames as they come, exactly as they are embedded by. Returns as `embed_rmsd` does.
template <class Given, class Real>
bool rmsd_squares(Cube<const Given> frames, Row<const Index> kept, Row<const double> root_weights,
                  Cube<const Real> panels, Matrix<const Real> moments, Matrix<Real> squared) {
    FrameLanes<Given, Real> measured(frames.shape(1), kept, root_weights, panels, moments, squared.shape(1));
    return measured.write_squares(frames.data(), squared);
}
KERNEL_OF(rmsd_squares,
          "frames[n,a,3] kept[e=1..]=0..a-1 root_weights[e] panels[m/l,3*e,l=PANEL_BYTES/itemsize] "
          "moments[MOMENTS,m/l*l] squared[n,m=1..]",
          form(rmsd_squares<float, float>), form(rmsd_squares<double, double>), form(rmsd_squares<float, double>),
          form(rmsd_squares<double, float>))

}  // namespace
}  // namespace ldmaps
