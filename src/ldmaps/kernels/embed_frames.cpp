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
    return embed_points<Real>(FrameLanes<Given, Real>(frames.shape(1), kept, root_weights, panels, moments),
                              frames.data(), frames.shape(0), 3 * frames.shape(1),
                              {rate, weights, coefficients, coordinates, nearest, lowest});
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
    FrameLanes<Given, Real> measuring(frames.shape(1), kept, root_weights, panels, moments);
    return write_squares<Real>(measuring, frames.data(), 3 * frames.shape(1), squared);
}
KERNEL_OF(rmsd_squares,
          "frames[n,a,3] kept[e=1..]=0..a-1 root_weights[e] panels[m/l,3*e,l=PANEL_BYTES/itemsize] "
          "moments[MOMENTS,m/l*l] squared[n,m=1..]",
          form(rmsd_squares<float, float>), form(rmsd_squares<double, double>), form(rmsd_squares<float, double>),
          form(rmsd_squares<double, float>))

}  // namespace
}  // namespace ldmaps
