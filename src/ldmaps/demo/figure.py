"""The demo's figure: six panels, in colours that every kind of colour vision distinguishes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.analysis.plot import import_pyplot
from ldmaps.datasets.molecules import MolecularFrames
from ldmaps.files import written_whole
from ldmaps.metrics import Features

if TYPE_CHECKING:
    from ldmaps.demo.comparison import Demonstration, Mapped

#: From Okabe and Ito's palette.
BLACK, ORANGE, BLUE, GREEN, GREY = "#000000", "#D55E00", "#0072B2", "#009E73", "#BBBBBB"


def backbone_dihedrals(molecule: MolecularFrames) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return φ (C-N-Cα-C) and ψ (N-Cα-C-N) of every frame, in degrees."""
    atoms = list(zip(molecule.residue_names, molecule.atom_names, strict=True))
    named = (("ACE", "C"), ("ALA", "N"), ("ALA", "CA"), ("ALA", "C"), ("NME", "N"))
    chain = [atoms.index(atom) for atom in named]
    angles = Features(molecule.n_atoms, dihedrals=[chain[:4], chain[1:]]).values(molecule.frames)
    phi, psi = np.degrees(angles.astype(np.float64)).T
    return phi, psi


def draw(demonstration: Demonstration, output: Path) -> tuple[Path, Path]:
    """Draw the figure as PNG and as PDF (as SVG when ``output`` says so); return both paths."""
    pyplot = import_pyplot()
    sizes = {
        "font.size": 8,
        "axes.titlesize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "axes.labelsize": 8,
    }
    legends = {"legend.fontsize": 6, "legend.title_fontsize": 6, "legend.frameon": False}
    with pyplot.rc_context({"axes.titlelocation": "left", **sizes, **legends}):
        figure = pyplot.Figure(figsize=(7.2, 4.9), layout="constrained")
        figure.get_layout_engine().set(wspace=0.05, hspace=0.05)
        _draw_panels(figure, figure.subplots(2, 3), demonstration)
        vector = output.with_suffix(".svg" if output.suffix == ".svg" else ".pdf")
        picture = output.with_suffix(".png")
        output.parent.mkdir(parents=True, exist_ok=True)
        for path in (picture, vector):
            with written_whole(path) as stream:
                figure.savefig(stream, format=path.suffix[1:], dpi=200)
    return picture, vector


def _draw_panels(figure: Any, panels: Any, demonstration: Demonstration) -> None:
    scale = math.sqrt(len(demonstration.training))  # ψᵀψ = 1 makes entries of order 1/√N
    exact, first = demonstration.exact, demonstration.landmark_maps[0]
    points = np.vstack([exact.training, exact.held_out]) * scale
    low, high = points.min(axis=0), points.max(axis=0)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    middle = 0.5 * (low[0] + high[0])
    _draw_free_energy(figure, panels[0, 0], exact.training * scale, low, high)
    _draw_landmarks(figure, panels[0, 1], first, scale)
    _draw_spectrum(panels[0, 2], demonstration)
    _draw_dihedrals(figure, panels[1, :2], demonstration, first.held_out * scale, middle)
    _draw_errors(panels[1, 2], demonstration)
    for panel in (*panels[0, :2], *panels[1, :2]):
        panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        panel.set(xlabel=r"$\sqrt{N}\,\psi_2$", ylabel=r"$\sqrt{N}\,\psi_3$")
    for panel, letter in zip(panels.flat, "abcdef", strict=True):
        panel.set_title(f"({letter}) {panel.get_title('left')}")


def _colour_bar(figure: Any, drawn: Any, panel: Any, label: str, **settings: Any) -> None:
    figure.colorbar(drawn, ax=panel, pad=0.02, aspect=25, **settings).set_label(label)


def _draw_free_energy(figure: Any, panel: Any, points: NDArray[Any], low: Any, high: Any) -> None:
    n_bins = int(np.clip(math.sqrt(len(points)) / 1.5, 20, 90))
    counts, x, y = np.histogram2d(points[:, 0], points[:, 1], bins=n_bins, range=np.column_stack([low, high]))
    energy = np.full_like(counts, np.nan)
    np.log(counts.max() / np.maximum(counts, 1.0), out=energy, where=counts > 0)
    drawn = panel.pcolormesh(x, y, energy.T, cmap="viridis", rasterized=True)
    _colour_bar(figure, drawn, panel, r"$-\ln\,p$  ($k_\mathrm{B}T$)")
    panel.set_title(f"Exact map, N = {len(points):,}")


def _draw_landmarks(figure: Any, panel: Any, mapped: Mapped, scale: float) -> None:
    panel.scatter(*(mapped.held_out * scale).T, s=1.5, color=GREY, linewidths=0, rasterized=True)
    # Sparse ones last: a landmark of many frames is large and would hide its neighbours.
    order = np.argsort(-mapped.multiplicities)
    counts = mapped.multiplicities[order]
    colours = {"c": np.log10(counts), "cmap": "viridis_r", "edgecolors": "white", "linewidths": 0.2}
    areas = 2.0 + 28.0 * counts / counts.max()
    drawn = panel.scatter(*(mapped.landmarks[order] * scale).T, s=areas, **colours)
    powers = {"ticks": np.arange(int(np.log10(counts.max())) + 1), "format": lambda x, _: f"{10**x:.0f}"}
    _colour_bar(figure, drawn, panel, "frames a landmark stands for", **powers)
    panel.plot([], [], ".", color=GREY, markeredgewidth=0, markersize=4, label="held-out frame")
    panel.legend(loc="upper right", handletextpad=0.1, borderaxespad=0.2)
    panel.set_title(f"Landmark map, M = {mapped.n_landmarks:,} ({mapped.name})")


def _draw_spectrum(panel: Any, demonstration: Demonstration) -> None:
    # The distilled map has no spectrum of its own: it is fitted to the exact map's coordinates.
    exact = demonstration.exact
    number = np.arange(len(exact.spectrum)) + 2
    panel.axvspan(1.5, exact.training.shape[1] + 1.5, color="#EEEEEE", zorder=0)
    panel.text(2.0, 0.03, "kept", fontsize=7)
    label = f"exact, N = {exact.n_landmarks:,}"
    panel.plot(number, exact.spectrum, "o", color=BLACK, markersize=6, fillstyle="none", label=label)
    for entry, colour, marker in zip(demonstration.landmark_maps, (BLUE, ORANGE), ("x", "+"), strict=True):
        label = f"{entry.name}, M = {entry.n_landmarks:,}"
        panel.plot(number, entry.spectrum, marker, color=colour, markersize=5, label=label)
    panel.set(ylim=(0, 1.05), xticks=number, xlim=(1.5, number[-1] + 0.5), title="Spectrum")
    panel.set(xlabel=r"index $l$", ylabel="eigenvalue λ")
    panel.legend()


def _draw_dihedrals(
    figure: Any, panels: Sequence[Any], demonstration: Demonstration, points: NDArray[Any], middle: float
) -> None:
    phi, psi = (angle[demonstration.held_out] for angle in backbone_dihedrals(demonstration.molecule))
    # Cut the circle where no basin lies, so that a plain colour scale shows each basin whole.
    phi, psi = (phi - 60) % 360 - 300, (psi + 120) % 360 - 120
    extended = psi >= 60
    basins = {
        r"$\alpha_\mathrm{R}$": ~extended,
        r"$\beta$": extended & (phi < -110),
        r"P$_\mathrm{II}$": extended & (phi > -80),
    }
    for panel, angle, name in ((panels[0], phi, "C–N–Cα–C"), (panels[1], psi, "N–Cα–C–N")):
        low, high = np.percentile(angle, (1, 99))
        colours = {"c": angle, "cmap": "plasma", "vmin": low, "vmax": high}
        drawn = panel.scatter(*points.T, s=2.0, linewidths=0, rasterized=True, **colours)
        _colour_bar(figure, drawn, panel, f"{name} (°)", extend="both")
        for basin, members in basins.items():
            if members.any():
                x, y = np.median(points[members], axis=0)
                where = (
                    {"xytext": (-8, 20), "ha": "right"} if x > middle else {"xytext": (16, 0), "ha": "left"}
                )
                panel.annotate(basin, (x, y), textcoords="offset points", va="center", **where)
        panel.set_title("Held-out frames by dihedral")


def _draw_errors(panel: Any, demonstration: Demonstration) -> None:
    lines = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."))
    for entry, (colour, line) in zip(demonstration.approximations, lines, strict=False):
        errors = np.sort(entry.zeta_held_out)
        share = np.arange(1, len(errors) + 1) / len(errors)
        label = f"{entry.name} ({entry.n_landmarks:,}): {entry.z_held_out:.2f} %"
        panel.plot(errors, share, line, color=colour, linewidth=1.2, label=label)
    widest = max(float(np.percentile(entry.zeta_held_out, 99.5)) for entry in demonstration.approximations)
    panel.set(xlim=(0, widest), ylim=(0, 1), title="Errors, held-out")
    panel.set(xlabel="ζ (% of range)", ylabel="share with smaller ζ")
    panel.legend(title="map (M): Z", loc="lower right", handlelength=2.0)
