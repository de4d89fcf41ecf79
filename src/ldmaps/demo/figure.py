"""The demo's figure: six panels, in colours that every kind of colour vision distinguishes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.datasets.molecules import MolecularFrames
from ldmaps.files import written_whole
from ldmaps.metrics import Features
from ldmaps.views.plot import import_pyplot

if TYPE_CHECKING:
    from ldmaps.demo.comparison import Demonstration, Mapped

#: From Okabe and Ito's palette.
BLACK, ORANGE, BLUE, GREEN, GREY = "#000000", "#D55E00", "#0072B2", "#009E73", "#BBBBBB"


def backbone_dihedrals(molecule: MolecularFrames) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return φ (C-N-Cα-C) and ψ (N-Cα-C-N) of every frame, in degrees."""
    place = {
        key: index for index, key in enumerate(zip(molecule.residue_names, molecule.atom_names, strict=True))
    }
    chain = [place[key] for key in (("ACE", "C"), ("ALA", "N"), ("ALA", "CA"), ("ALA", "C"), ("NME", "N"))]
    angles = Features(molecule.n_atoms, dihedrals=[chain[:4], chain[1:]]).values(molecule.frames)
    phi, psi = np.degrees(angles.astype(np.float64)).T
    return phi, psi


def draw(demonstration: Demonstration, output: Path) -> tuple[Path, Path]:
    """Draw the figure as PNG and as PDF (as SVG when ``output`` says so); return both paths."""
    scale = math.sqrt(len(demonstration.training))  # ψᵀψ = 1 makes entries of order 1/√N
    first = demonstration.landmark_maps[0]
    figure = import_pyplot().Figure(figsize=(7.2, 4.9), layout="constrained")
    figure.get_layout_engine().set(wspace=0.05, hspace=0.05)
    panels = figure.subplots(2, 3)
    points = np.vstack([demonstration.exact.training, demonstration.exact.held_out]) * scale
    low, high = points.min(axis=0), points.max(axis=0)
    window = low - 0.05 * (high - low), high + 0.05 * (high - low)
    _draw_free_energy(figure, panels[0, 0], demonstration.exact.training * scale, window)
    _draw_landmarks(figure, panels[0, 1], first, scale, window)
    _draw_spectrum(panels[0, 2], demonstration)
    _draw_dihedrals(figure, panels[1, :2], demonstration, scale, window)
    _draw_errors(panels[1, 2], demonstration)
    for panel, letter in zip(panels.flat, "abcdef", strict=True):
        panel.set_title(f"({letter}) {panel.get_title()}", loc="left", fontsize=8)
        panel.set_title("")
        panel.tick_params(labelsize=7)
    vector = output.with_suffix(".svg" if output.suffix == ".svg" else ".pdf")
    picture = output.with_suffix(".png")
    output.parent.mkdir(parents=True, exist_ok=True)
    for path in (picture, vector):
        with written_whole(path) as stream:
            figure.savefig(stream, format=path.suffix[1:], dpi=200)
    return picture, vector


def _frame(panel: Any, window: tuple[NDArray[Any], NDArray[Any]], title: str) -> None:
    low, high = window
    panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), title=title)
    panel.set_xlabel(r"$\sqrt{N}\,\psi_2$", fontsize=8)
    panel.set_ylabel(r"$\sqrt{N}\,\psi_3$", fontsize=8)


def _colour_bar(figure: Any, drawn: Any, panel: Any, label: str, **settings: Any) -> None:
    bar = figure.colorbar(drawn, ax=panel, pad=0.02, aspect=25, **settings)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _draw_free_energy(figure: Any, panel: Any, points: NDArray[Any], window: Any) -> None:
    low, high = window
    n_bins = int(np.clip(math.sqrt(len(points)) / 1.5, 20, 90))
    counts, x, y = np.histogram2d(points[:, 0], points[:, 1], bins=n_bins, range=np.column_stack([low, high]))
    energy = np.full_like(counts, np.nan)
    np.log(counts.max() / np.maximum(counts, 1.0), out=energy, where=counts > 0)
    drawn = panel.pcolormesh(x, y, energy.T, cmap="viridis", rasterized=True)
    _colour_bar(figure, drawn, panel, r"$-\ln\,p$  ($k_\mathrm{B}T$)")
    _frame(panel, window, f"Exact map, N = {len(points):,}")


def _draw_landmarks(figure: Any, panel: Any, mapped: Mapped, scale: float, window: Any) -> None:
    panel.scatter(*(mapped.held_out * scale).T, s=1.5, color=GREY, linewidths=0, rasterized=True)
    # Sparse ones last: a landmark of many frames is large and would hide its neighbours.
    order = np.argsort(-mapped.multiplicities)
    counts = mapped.multiplicities[order]
    drawn = panel.scatter(
        *(mapped.landmarks[order] * scale).T,
        s=2.0 + 28.0 * counts / counts.max(),
        c=np.log10(counts),
        cmap="viridis_r",
        edgecolors="white",
        linewidths=0.2,
    )
    ticks = np.arange(int(np.log10(counts.max())) + 1)
    _colour_bar(
        figure, drawn, panel, "frames a landmark stands for", ticks=ticks, format=lambda x, _: f"{10**x:.0f}"
    )
    panel.plot([], [], ".", color=GREY, markeredgewidth=0, markersize=4, label="held-out frame")
    panel.legend(fontsize=6, frameon=False, loc="upper right", handletextpad=0.1, borderaxespad=0.2)
    _frame(panel, window, f"Landmark map, M = {mapped.n_landmarks:,} ({mapped.name})")


def _draw_spectrum(panel: Any, demonstration: Demonstration) -> None:
    # The distilled map has no spectrum of its own: it is fitted to the exact map's coordinates.
    number = np.arange(len(demonstration.exact.spectrum)) + 2
    panel.axvspan(1.5, demonstration.exact.training.shape[1] + 1.5, color="#EEEEEE", zorder=0)
    panel.text(2.0, 0.03, "kept", fontsize=7)
    label = f"exact, N = {demonstration.exact.n_landmarks:,}"
    panel.plot(
        number, demonstration.exact.spectrum, "o", color=BLACK, markersize=6, fillstyle="none", label=label
    )
    for entry, colour, marker in zip(demonstration.landmark_maps, (BLUE, ORANGE), ("x", "+"), strict=True):
        label = f"{entry.name}, M = {entry.n_landmarks:,}"
        panel.plot(number, entry.spectrum, marker, color=colour, markersize=5, label=label)
    panel.set(ylim=(0, 1.05), xticks=number, xlim=(1.5, number[-1] + 0.5), title="Spectrum")
    panel.set_xlabel(r"index $l$", fontsize=8)
    panel.set_ylabel("eigenvalue λ", fontsize=8)
    panel.legend(fontsize=6, frameon=False)


def _draw_dihedrals(
    figure: Any, panels: Sequence[Any], demonstration: Demonstration, scale: float, window: Any
) -> None:
    points = demonstration.landmark_maps[0].held_out * scale
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
        drawn = panel.scatter(
            *points.T, c=angle, s=2.0, cmap="plasma", vmin=low, vmax=high, linewidths=0, rasterized=True
        )
        _colour_bar(figure, drawn, panel, f"{name} (°)", extend="both")
        for basin, members in basins.items():
            if members.any():
                x, y = np.median(points[members], axis=0)
                right = x > 0.5 * (window[0][0] + window[1][0])
                where = {"xytext": (-8, 20), "ha": "right"} if right else {"xytext": (16, 0), "ha": "left"}
                panel.annotate(basin, (x, y), textcoords="offset points", va="center", fontsize=8, **where)
        _frame(panel, window, "Held-out frames by dihedral")


def _draw_errors(panel: Any, demonstration: Demonstration) -> None:
    lines = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."))
    for entry, (colour, line) in zip(demonstration.approximations, lines, strict=False):
        errors = np.sort(entry.zeta_held_out)
        share = np.arange(1, len(errors) + 1) / len(errors)
        label = f"{entry.name} ({entry.n_landmarks:,}): {entry.z_held_out:.2f} %"
        panel.plot(errors, share, line, color=colour, linewidth=1.2, label=label)
    widest = max(float(np.percentile(entry.zeta_held_out, 99.5)) for entry in demonstration.approximations)
    panel.set(xlim=(0, widest), ylim=(0, 1), title="Errors, held-out")
    panel.set_xlabel("ζ (% of range)", fontsize=8)
    panel.set_ylabel("share with smaller ζ", fontsize=8)
    panel.legend(
        title="map (M): Z", fontsize=6, title_fontsize=6, frameon=False, loc="lower right", handlelength=2.0
    )
