"""Plots of a fitted map with matplotlib, as ``model.plot.embedding()`` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ldmaps._lazy import needed
from ldmaps.analysis.free_energy import free_energy_profile, free_energy_surface
from ldmaps.analysis.own_points import PointsOfMap, as_numbers_or_texts
from ldmaps.diffusion.spectrum import places_in_spectrum
from ldmaps.embedded_rows import place_of
from ldmaps.errors import InvalidInputError, Named

if TYPE_CHECKING:
    from ldmaps.fit.function_record import FunctionRecord

#: From Okabe and Ito's palette.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#999999"


class MapPlots:
    """Plots of one map; every method draws on ``ax``, or on a new figure, and returns the axes.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        Fitted.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def embedding(
        self,
        x: int | str = 0,
        y: int | str = 1,
        *,
        colour: ArrayLike | None = None,
        label: str | None = None,
        landmarks: bool = True,
        points: ArrayLike | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw the points of the map, and its landmarks as circles sized by multiplicity.

        Parameters
        ----------
        x, y : str or int
            Which coordinates, such as "psi2", or their places from 0. A single coordinate is drawn against the order
            of the points.
        colour, label : array-like of shape (n,), str, optional
            A number per point, by default their order (a trajectory's time), and what it means.
        landmarks : bool
            Whether landmarks are drawn.
        points : array-like of shape (n, n_components_), optional
            Points to draw instead of the training points, from ``model.transform``.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        model = self._model
        shown = self._shown(points, columns={} if colour is None else {"colour": colour})
        coordinates, own = shown.coordinates, np.asarray(model.landmark_embedding_)
        order = np.arange(len(coordinates)) if shown.rows is None else shown.rows
        if model.n_components_ > 1:
            columns = [self._place(x), self._place(y)]
            names = (self._name(columns[0]), self._name(columns[1]))
            plotted, marks = coordinates[:, columns], own[:, columns]
        else:
            names = ("order of the points", self._name(0))
            plotted = np.column_stack([order, coordinates[:, 0]])
            marks = np.column_stack([np.asarray(model.landmark_indices_), own[:, 0]])
            landmarks = landmarks and points is None and shown.rows is not None
        values: NDArray[Any] = order
        if colour is not None:  # words become the numbers of their kinds
            values = as_numbers_or_texts("colour", shown.columns["colour"], len(plotted))[0]
        ax = self._axes(ax)
        size = float(np.clip(9000 / max(1, len(plotted)), 0.8, 12))
        drawn = ax.scatter(*plotted.T, c=values, s=size, cmap="viridis", linewidths=0, rasterized=True)
        bar = ax.figure.colorbar(drawn, ax=ax)
        text = label if label is not None else "" if colour is not None else "order of the points"
        unit = shown.unit_of(text)
        bar.set_label(f"{text} ({unit})" if unit else text)
        counts = np.asarray(model.multiplicities_)
        if landmarks and len(counts) < len(plotted):
            areas = np.maximum(4.0, 90.0 * counts / counts.max())
            ax.scatter(*marks.T, s=areas, facecolors="none", edgecolors="black", linewidths=0.6, alpha=0.7)
        return _labelled(ax, *names)

    def spectrum(self, *, ax: Any = None) -> Any:
        """Draw the non-trivial eigenvalues, those kept filled, and a line after them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        model = self._model
        check_is_fitted(model, "embedder_")
        record = model.map_.record
        if not hasattr(model, "spectrum_"):
            raise InvalidInputError(
                f"a {record.kind} has no spectrum; draw the spectrum of the map that it was learned on"
            )
        values, k = np.asarray(model.spectrum_), model.n_components_
        kept = np.isin(np.arange(len(values)), places_in_spectrum(model.eigenvalues_, values))
        first = 2 if record is None else 1  # ψ₁ is left out
        numbers = np.arange(len(values)) + first
        ax = self._axes(ax)
        ax.plot(numbers, values, "-", color=_GREY, linewidth=0.8, zorder=1)
        sampling = getattr(model, "sampling_", None)
        if sampling is not None:
            low, high = sampling.intervals[np.argsort(-sampling.eigenvalues)].T
            ax.vlines(numbers[: len(low)], low, high, color=_BLUE, linewidth=1.2, label="95 % interval")
        ax.plot(numbers[kept], values[kept], "o", color=_BLUE, label="kept")
        if not kept.all():
            ax.plot(numbers[~kept], values[~kept], "o", color=_BLUE, fillstyle="none", label="left out")
            ax.legend()
        if len(values) > k and kept[:k].all():
            ax.axvline(k + first - 0.5, color=_ORANGE, linestyle="--", linewidth=1.0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        if record is not None:
            return _labelled(
                ax, "mode", f"autocorrelation at lag {record.facts['lag']:g} {record.facts['unit']}"
            )
        return _labelled(ax, "index l", "eigenvalue λ")

    def timescales(self, *, ax: Any = None) -> Any:
        """Draw the implied time scales of slow modes against the lag, with 95 % intervals.

        They should not depend on the lag. Time scales in the grey part are shorter than the lag: nothing is known of
        them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        record, facts = self._slow("implied time scales", "implied", "implied_low", "implied_high")
        ax, lags = self._axes(ax), facts["lags"]
        for place, name in enumerate(record.names):
            times, low, high = (facts[key][:, place] for key in ("implied", "implied_low", "implied_high"))
            known = np.isfinite(times)
            bars = np.nan_to_num(np.stack([times - low, high - times]))[:, known]
            ax.errorbar(lags[known], times[known], bars, marker="o", markersize=4, capsize=3, label=name)
        ax.set_yscale("log")
        bottom = 0.8 * min(float(lags[0]), ax.get_ylim()[0])
        across = np.linspace(0.0, 1.1 * float(lags[-1]), 100)
        ax.fill_between(across, bottom, np.maximum(across, bottom), color=_GREY, alpha=0.25, linewidth=0)
        ax.set_xlim(0.0, 1.1 * float(lags[-1]))
        ax.set_ylim(bottom=bottom)
        ax.legend()
        unit = record.facts["unit"]
        return _labelled(ax, f"lag ({unit})", f"implied time scale ({unit}), 95 % intervals", linear="x")

    def chapman_kolmogorov(self, *, ax: Any = None) -> Any:
        """Draw the autocorrelations of slow modes against the lag, and as lines what the shortest lag predicts.

        Points off their line by more than their bars (two standard errors of the difference) are of modes that decay
        differently: take a longer lag.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        record, facts = self._slow("autocorrelations", "autocorrelations", "prediction_errors")
        ax, lags = self._axes(ax), facts["lags"]
        across = np.linspace(0.0, 1.1 * float(lags[-1]), 100)
        for place, name in enumerate(record.names):
            found, errors = facts["autocorrelations"][:, place], facts["prediction_errors"][:, place]
            drawn = ax.errorbar(lags, found, 2.0 * errors, fmt="o", markersize=4, capsize=3, label=name)
            predicted = np.maximum(found[0], 0.0) ** (across / lags[0])
            ax.plot(across, predicted, "-", color=drawn[0].get_color(), linewidth=0.8)
        ax.set_xlim(0.0, 1.1 * float(lags[-1]))
        ax.legend()
        unit = record.facts["unit"]
        return _labelled(ax, f"lag ({unit})", f"autocorrelation, and predicted from {lags[0]:g} {unit}")

    def free_energy(
        self,
        x: int | str = 0,
        y: int | str = 1,
        *,
        points: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw −ln p over two coordinates, in units of k_BT, with contours.

        Parameters
        ----------
        x, y : str or int
            Which coordinates, such as "psi2", or their places from 0.
        points, weights : array-like of shapes (n, n_components_) and (n,), optional
            What to take the density from instead of the training points, and multiplicities (those of the fit).
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        shown = self._shown(points, weights=weights)
        if self._model.n_components_ < 2:
            raise InvalidInputError(
                "a free-energy surface needs two coordinates, but this map has one; draw its profile, or fit with ",
                Named("n_components", 2),
            )
        columns = [self._place(x), self._place(y)]
        surface = free_energy_surface(shown.coordinates[:, columns], shown.weights)
        ax = self._axes(ax)
        across, up = surface.centres()
        levels = np.arange(0.0, np.ceil(surface.highest) + 1.0)
        energy = np.ma.masked_invalid(surface.energy.T)
        drawn = ax.contourf(across, up, energy, levels=levels, cmap="viridis", extend="max")
        bar = ax.figure.colorbar(drawn, ax=ax)
        # Where single points have been, more would only be known to be rarer.
        bar.set_label(rf"$-\ln\,p$  ($k_\mathrm{{B}}T$; at least {surface.highest:.1f} where brightest)")
        return _labelled(ax, self._name(columns[0]), self._name(columns[1]))

    def profile(
        self,
        x: int | str = 0,
        *,
        points: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        blocks: int = 5,
        ax: Any = None,
    ) -> Any:
        """Draw −ln p along one coordinate, in units of k_BT, with its standard error over blocks.

        Parameters
        ----------
        x : str or int
            Which coordinate, such as "psi2", or its place from 0.
        points, weights : array-like of shapes (n, n_components_) and (n,), optional
            See :meth:`free_energy`, in the order of time.
        blocks : int
            See :func:`ldmaps.analysis.free_energy_profile`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        shown = self._shown(points, weights=weights)
        column = self._place(x)
        profile = free_energy_profile(shown.coordinates[:, column], shown.weights, blocks=blocks)
        ax = self._axes(ax)
        low, high = profile.energy - profile.error, profile.energy + profile.error
        label = "standard error over blocks"
        ax.fill_between(profile.centres, low, high, color=_BLUE, alpha=0.25, linewidth=0, label=label)
        ax.plot(profile.centres, profile.energy, "-", color=_BLUE, marker=".", markersize=3, linewidth=1.2)
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.legend()
        return _labelled(ax, self._name(column), r"$-\ln\,p$  ($k_\mathrm{B}T$)")

    # -- pieces ---------------------------------------------------------------

    def _shown(self, points: ArrayLike | None, **known: Any) -> PointsOfMap:
        """Return the points to draw: those given, the training points, or else the landmarks."""
        check_is_fitted(self._model, "embedder_")
        if points is None and not hasattr(self._model, "embedding_"):
            points = self._model.landmark_embedding_
            known = {name: values for name, values in known.items() if values is not None}
            known.setdefault("weights", self._model.multiplicities_)
        return PointsOfMap.shown(self._model, points, **known)

    def _place(self, coordinate: int | str) -> int:
        """Return the column of a coordinate."""
        check_is_fitted(self._model, "embedder_")
        return place_of(coordinate, self._model.coordinate_names_)

    def _name(self, column: int) -> str:
        """Return what a coordinate is called on an axis: ψ with its number, or a function's own name."""
        name = self._model.coordinate_names_[column]
        return rf"$\psi_{{{name[3:]}}}$" if name == f"psi{column + 2}" else str(name)

    def _slow(self, what: str, *names: str) -> tuple[FunctionRecord, dict[str, NDArray[np.float64]]]:
        """Return the record of slow modes, and lags and other facts as arrays; raise where the map is none."""
        record = getattr(getattr(self._model, "map_", None), "record", None)
        if record is None or record.kind != "slow modes":
            raise InvalidInputError(
                f"{what} are known for slow modes; learn them with model.slow_modes or ldmaps kinetics"
            )
        # None stands for NaN in files.
        return record, {name: np.array(record.facts[name], dtype=np.float64) for name in ("lags", *names)}

    def _axes(self, ax: Any) -> Any:
        return import_pyplot().subplots(layout="constrained")[1] if ax is None else ax


def import_pyplot() -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    needed("matplotlib", "pictures are drawn with matplotlib", "pip install matplotlib")
    from matplotlib import pyplot

    return pyplot


def _labelled(ax: Any, x: str, y: str, linear: str = "xy") -> Any:
    """Name the axes; of small numbers, the ticks share a power of ten, so that they do not collide."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    for axis in (ax.xaxis, ax.yaxis) if linear == "xy" else (ax.xaxis,):
        axis.get_major_formatter().set_powerlimits((-2, 4))
    return ax
