// Frames into panels, and from panel to panel.
#include "binding.h"
#include "packing.h"

namespace ldmaps {
namespace {

CONSTANT(PANEL_BYTES)
CONSTANT(SQUARED_NORM)
CONSTANT(SCALE)
CONSTANT(MOMENTS)

KERNEL_OF(prepare_frames,
          "frames[n,a,3] kept[k=1..]=0..a-1 root_weights[k] panels[n/l,3*k,l=PANEL_BYTES/itemsize] "
          "moments[MOMENTS,n/l*l]",
          form(prepare_frames<float, float>), form(prepare_frames<double, double>), form(prepare_frames<float, double>),
          form(prepare_frames<double, float>))

// Centre frames on the fitted atoms; write all kept atoms and the fitted ones, weighed; float64. Returns whether no
// squared norm is above `most`.
template <class Given>
bool prepare_aligned_frames(Cube<const Given> frames, Row<const Index> kept, Row<const double> root_weights,
                            Row<const Index> fitted, Row<const double> root_fit_weights, Cube<double> panels,
                            Cube<double> fit_panels, Row<double> norms, double most) {
    constexpr Index width = PANEL_LANES<double>;
    bool is_within = true;
    for (Index n = 0; n < frames.shape(0); ++n) {
        const Matrix<const Given> frame = frames[n];
        const Matrix<double> panel = panels[n / width], fit_panel = fit_panels[n / width];
        const Index lane = n % width;
        double largest = 0.0, norm = 0.0;
        for (Index axis = 0; axis < 3; ++axis) {
            const double origin = frame(fitted[0], axis);
            double centre = 0.0;
            for (Index k = 0; k < fitted.size(); ++k) {
                centre += root_fit_weights[k] * root_fit_weights[k] * (double(frame(fitted[k], axis)) - origin);
            }
            for (Index k = 0; k < fitted.size(); ++k) {
                const double x = root_fit_weights[k] * ((double(frame(fitted[k], axis)) - origin) - centre);
                fit_panel(3 * k + axis, lane) = x;
                largest = greater(std::abs(x), largest);
            }
            for (Index k = 0; k < kept.size(); ++k) {
                const double x = root_weights[k] * ((double(frame(kept[k], axis)) - origin) - centre);
                panel(3 * k + axis, lane) = x;
                norm += x * x;
            }
        }
        if (!(largest > 0.0 && largest < std::numeric_limits<double>::infinity())) largest = 1.0;
        for (Index k = 0; k < fit_panel.shape(0); ++k) fit_panel(k, lane) /= largest;
        norms[n] = norm;
        is_within = is_within && norm <= most;
    }
    return is_within;
}
KERNEL(prepare_aligned_frames,
       "frames[n,a,3] kept[k=1..]=0..a-1 root_weights[k] fitted[f=1..]=0..a-1 root_fit_weights[f] "
       "panels[n/l,3*k,l=PANEL_BYTES/itemsize] fit_panels[n/l,3*f,l] norms[n/l*l] most")

// Write the frames at `indices` of `panels` to the panels `out`, in that order.
template <class Real>
void take_frames(Cube<const Real> panels, Row<const Index> indices, Cube<Real> out) {
    constexpr Index lanes = PANEL_LANES<Real>;
    const Index depth = panels.shape(1);
    for (Index place = 0; place < indices.size(); ++place) {
        const Real* source = panels[indices[place] / lanes].data() + indices[place] % lanes;
        Real* target = out[place / lanes].data() + place % lanes;
        for (Index k = 0; k < depth; ++k) target[k * lanes] = source[k * lanes];
    }
}
KERNEL(take_frames, "panels[p,d,l=PANEL_BYTES/itemsize] indices[i]=0..p*l-1 out[i/l,d,l]")

}  // namespace
}  // namespace ldmaps
