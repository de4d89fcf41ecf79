"""The report's small charts, as SVG: sharp in print, and readable without any script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.analysis.free_energy import FreeEnergyProfile
from ldmaps.bandwidth_scan import BandwidthScan

WIDTH, HEIGHT = 320, 206
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 14, 42
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float, digits: int = 4) -> str:
    """Write a number for people.

    >>> [format_number(value) for value in (25001, 0.5, 0.001356, 12345678.9, 0.0)]
    ['25,001', '0.5', '1.356×10⁻³', '12,345,679', '0']
    """
    if not math.isfinite(value):
        return "–"
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.{digits}g}"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between ``low`` and ``high``.

    >>> nice_ticks(0.0, 1.0, 6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= most - 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


class Chart:
    """Axes with a title for screen readers, and things drawn on them."""

    def __init__(self, described: str, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._described = described
        self._x, self._y = x, y
        self._parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return a point's place on the picture."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - self._y[0]) / (self._y[1] - self._y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def axes(
        self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[float], x_label: str, y_label: str
    ) -> None:
        """Draw ticks, grid lines and labels; a tick across is a value and its text."""
        bottom, left = HEIGHT - BOTTOM, LEFT
        for value in y_ticks:
            y = self.at(self._x[0], value)[1]
            self._line(left, y, WIDTH - RIGHT, y, "grid")
            self._text(left - 7, y + 3.5, f"{value:g}", "tick", "end")
        for value, text in x_ticks:
            x = self.at(value, self._y[0])[0]
            self._line(x, bottom, x, bottom + 4, "axis")
            self._text(x, bottom + 16, text, "tick", "middle")
        self._line(left, bottom, WIDTH - RIGHT, bottom, "axis")
        self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "label", "middle")
        turned = f"translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)"
        self._add("text", "label", y_label, text_anchor="middle", transform=turned)

    def line(self, x: NDArray[np.float64], y: NDArray[np.float64], kind: str = "curve") -> None:
        """Draw a curve."""
        places = (self.at(float(a), float(b)) for a, b in zip(x, y, strict=True))
        self._add("polyline", kind, points=" ".join(f"{a:.1f},{b:.1f}" for a, b in places))

    def span(self, x: float, low: float, high: float, hint: str) -> None:
        """Draw a vertical bar from one height to another, with a hint for the pointer."""
        self._line(*self.at(x, high), *self.at(x, low), "error", hint)

    def dot(self, x: float, y: float, kind: str, hint: str, radius: float = 4.5) -> None:
        """Draw a circle, with a hint for the pointer."""
        px, py = self.at(x, y)
        self._add("circle", kind, hint=hint, cx=px, cy=py, r=radius)

    def bar(self, low: float, high: float, height: float, hint: str) -> None:
        """Draw a bar of a histogram, with a hint for the pointer."""
        (x0, y0), (x1, y1) = self.at(low, height), self.at(high, self._y[0])
        width = max(0.6, x1 - x0 - 0.8)
        self._add("rect", "bar", hint=hint, x=x0 + 0.4, y=y0, width=width, height=y1 - y0)

    def mark(self, x: float, text: str, before: str = "") -> None:
        """Draw a dashed line with words at its top, and before its foot; what falls leaves room at both."""
        px = self.at(x, self._y[0])[0]
        self._line(px, TOP, px, HEIGHT - BOTTOM, "mark")
        left = not before and px > LEFT + 0.6 * (WIDTH - LEFT - RIGHT)
        self._text(px + (-6 if left else 6), TOP + 9, text, "note", "end" if left else "start")
        if before:
            self._text(px - 6, HEIGHT - BOTTOM - 8, before, "note", "end")

    def svg(self) -> str:
        """Return the picture."""
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self._described)}">'
            f"{''.join(self._parts)}</svg>"
        )

    def _line(self, x0: float, y0: float, x1: float, y1: float, kind: str, hint: str = "") -> None:
        self._add("line", kind, hint=hint, x1=x0, y1=y0, x2=x1, y2=y1)

    def _text(self, x: float, y: float, text: str, kind: str, anchor: str) -> None:
        self._add("text", kind, text, x=x, y=y, text_anchor=anchor)

    def _add(self, tag: str, kind: str, text: str = "", hint: str = "", **attributes: float | str) -> None:
        inside = f"<title>{escape(hint)}</title>" if hint else escape(text)
        written = "".join(
            f' {name.replace("_", "-")}="{value if isinstance(value, str) else format(value, ".1f")}"'
            for name, value in attributes.items()
        )
        self._parts.append(f'<{tag} class="{kind}"{written}>{inside}</{tag}>')


def spectrum_chart(
    spectrum: NDArray[np.float64], places: NDArray[np.intp], intervals: Iterable[Any] = ()
) -> str:
    """Draw the non-trivial eigenvalues with a line after those kept, at ``places``, and 95 % intervals of the first."""
    n_kept = len(places)
    values = spectrum[: max(12, n_kept + 4, int(places.max()) + 1)]
    numbers = np.arange(len(values)) + 2
    kept = np.isin(np.arange(len(values)), places)
    is_leading = n_kept < len(values) and bool(kept[:n_kept].all())
    first = ", ".join(f"{value:.3f}" for value in values[:8])
    words = f"Eigenvalues from λ2 to λ{numbers[-1]}: {first}. {n_kept} kept."
    # From 0 where that leaves room to see the differences.
    least = float(values.min())
    floor = min(0.0, least * 1.05) if least < 0.6 else 1.0 - 1.35 * (1.0 - least)
    chart = Chart(words, (1.4, float(numbers[-1]) + 0.6), (floor, 1.0))
    every = max(1, math.ceil(len(values) / 10))
    x_ticks = [(float(number), str(number)) for number in numbers[::every]]
    chart.axes(x_ticks, nice_ticks(floor, 1.0), "index l", "eigenvalue λ")
    chart.line(numbers.astype(float), values, "thin")
    if is_leading:
        chart.mark(n_kept + 1.5, "left out", before="kept")
    for number, (low, high) in zip(numbers, intervals, strict=False):
        hint = f"λ{number}: {low:.4f} to {high:.4f} with 95 % confidence"
        chart.span(float(number), max(float(low), floor), min(float(high), 1.0), hint)
    for kind, rows in (("kept", kept), ("left-out", ~kept)):
        for number, value in zip(numbers[rows].tolist(), values[rows].tolist(), strict=True):
            chart.dot(number, value, kind, f"λ{number} = {value:.5f}")
    return chart.svg()


def timescales_chart(facts: Mapping[str, Any], names: Sequence[str]) -> str:
    """Draw implied time scales against the lag, with 95 % intervals; below the dashed line nothing can be known."""
    lags = np.asarray(facts["lags"], dtype=np.float64)
    times, low, high = (
        np.log10(np.asarray(facts[name], dtype=np.float64)[:, : len(names)])
        for name in ("implied", "implied_low", "implied_high")
    )
    ends = np.concatenate(
        [np.ravel(part[np.isfinite(part)]) for part in (times, low, high)] + [np.log10(lags)]
    )
    floor, top = float(ends.min()) - 0.1, float(ends.max()) + 0.1
    described = f"Implied time scales of {', '.join(names)} at lags from {lags[0]:g} to {lags[-1]:g}"
    chart = Chart(described, (0.0, float(lags[-1]) * 1.08), (floor, top))
    chart.axes(
        [(float(lag), f"{lag:.3g}") for lag in lags],
        nice_ticks(floor, top, 5),
        f"lag ({facts['unit']})",
        f"log₁₀ time scale ({facts['unit']})",
    )
    across = np.linspace(max(10.0**floor, 1e-300), float(lags[-1]) * 1.08, 40)
    chart.line(across, np.maximum(np.log10(across), floor), "mark")
    for name, values, lower, upper in zip(names, times.T, low.T, high.T, strict=True):
        known = np.isfinite(values)
        chart.line(lags[known], values[known], "thin")
        for lag, value, least, most in zip(lags, values, lower, upper, strict=True):
            if not np.isfinite(value):
                continue
            if np.isfinite(least) and np.isfinite(most):
                chart.span(
                    float(lag),
                    float(least),
                    float(most),
                    f"{10**least:.3g} to {10**most:.3g} with 95 % confidence",
                )
            chart.dot(float(lag), float(value), "kept", f"{name} at lag {lag:g}: {10**value:.3g}", radius=3.0)
    return chart.svg()


def bandwidth_chart(bandwidth: Any, axis: str) -> str:
    """Draw the log-log rule's slope against ε, with the ε it chose."""
    x, slopes, epsilon = np.log10(bandwidth.curve_epsilons), bandwidth.curve_slopes, bandwidth.epsilon
    top = float(slopes.max()) * 1.12
    described = f"Slope of ln S against ln epsilon; steepest at epsilon = {epsilon:.3g}"
    chart = Chart(described, (float(x[0]), float(x[-1])), (0.0, top))
    powers = [int(tick) for tick in nice_ticks(float(x[0]), float(x[-1])) if tick == round(tick)]
    ticks = [(float(power), f"10{str(power).translate(_SUPERSCRIPT)}") for power in powers]
    chart.axes(ticks, nice_ticks(0, top, 5), axis, "d ln S / d ln ε")
    chart.line(x, slopes)
    chart.mark(math.log10(epsilon), f"ε = {format_number(epsilon, 3)}")
    return chart.svg()


def scan_chart(scan: BandwidthScan, axis: str) -> str:
    """Draw eigenvalues of the landmarks' map against ε, with the map's own ε."""
    known = np.flatnonzero(scan.n_components)
    x, values, epsilon = np.log10(scan.epsilons), scan.eigenvalues[:, :4], float(scan.epsilons[scan.own])
    described = f"Eigenvalues against epsilon; the map's is {epsilon:.3g}"
    chart = Chart(described, (float(x[0]), float(x[-1])), (0.0, 1.05))
    ticks = [(float(place), format_number(10.0**place, 2)) for place in x[::2]]
    chart.axes(ticks, nice_ticks(0, 1.0, 5), axis, "λ₂ to λ₅")
    for column in values.T:
        chart.line(x[known], column[known])
    chart.mark(math.log10(epsilon), f"ε = {format_number(epsilon, 3)}")
    return chart.svg()


def profile_chart(profile: FreeEnergyProfile, name: str) -> str:
    """Draw a free-energy profile over one coordinate, with a band for its standard error."""
    sampled = np.isfinite(profile.energy)
    along, energy, error = profile.centres[sampled], profile.energy[sampled], profile.error[sampled]
    above = energy + np.nan_to_num(error)
    top = max(float(above.max()) * 1.08, 1e-9)
    known = np.isfinite(error)
    typical = f", standard error {float(np.median(error[known])):.2g} kT in the middle" if known.any() else ""
    half = 0.5 * float(profile.centres[1] - profile.centres[0])
    chart = Chart(
        f"Free energy along {name}, from 0 to {float(energy.max()):.2g} kT{typical}",
        (float(along[0]) - half, float(along[-1]) + half),
        (0.0, top),
    )
    power = 3 * math.floor(math.log10(max(float(np.abs(along).max()), 1e-300)) / 3)
    scale = 10.0**power
    chart.axes(
        [(tick * scale, f"{tick:g}") for tick in nice_ticks(along[0] / scale, along[-1] / scale)],
        nice_ticks(0.0, top, 5),
        f"{name} (×10{str(power).translate(_SUPERSCRIPT)})" if power else name,
        "−ln p (kT)",
    )
    for x, value, off in zip(along[known], energy[known], error[known], strict=True):
        chart.span(float(x), max(0.0, float(value - off)), float(value + off), f"{value:.2f} ± {off:.2f} kT")
    # A line over cells that follow one another; a cell by itself is a dot.
    for run in np.split(np.arange(len(along)), np.flatnonzero(np.diff(np.flatnonzero(sampled)) > 1) + 1):
        if len(run) > 1:
            chart.line(along[run], energy[run])
        else:
            (x,), (value,) = along[run].tolist(), energy[run].tolist()
            chart.dot(x, value, "single", f"{value:.2f} kT", radius=1.6)
    return chart.svg()


def histogram_chart(
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    x_label: str,
    described: str,
    mark: tuple[float, str],
) -> str:
    """Draw how values are spread, in percent of the points; the last half percent is gathered at the end."""
    top = max(float(np.quantile(values, 0.995)), mark[0]) * 1.04 or 1.0
    counts, edges = np.histogram(np.minimum(values, top), bins=48, range=(0.0, top), weights=weights)
    share = 100.0 * counts / max(counts.sum(), 1e-300)
    highest = max(float(share.max()) * 1.12, 1e-9)
    chart = Chart(described, (0.0, top), (0.0, highest))
    ticks = [(tick, f"{tick:g}") for tick in nice_ticks(0.0, top)]
    chart.axes(ticks, nice_ticks(0.0, highest, 5), x_label, "% of points")
    for low, high, part in zip(edges[:-1].tolist(), edges[1:].tolist(), share.tolist(), strict=True):
        if part:
            chart.bar(low, high, part, f"{low:.3g} to {high:.3g}: {part:.2f} %")
    chart.mark(*mark)
    return chart.svg()
