"""Colour maps that keep their order in any colour vision and in grey, from published sample colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

__all__ = ["CATEGORIES", "PALETTES", "palette"]

#: viridis (van der Walt, Smith) and cividis (Nuñez, Anderton, Renslow, PLoS ONE 13, e0199239 (2018)), sampled
#: at equal steps from 0 to 1.
PALETTES = {
    "viridis": "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725",
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
}

#: Okabe and Ito's colours, black left out: it would vanish in the dark.
CATEGORIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def palette(name: str) -> NDArray[np.uint8]:
    """Return 256 colours of shape (256, 3), interpolated so that no channel overshoots.

    >>> palette("viridis")[[0, 255]].tolist()
    [[68, 1, 84], [253, 231, 37]]
    """
    samples = np.array([list(bytes.fromhex(text)) for text in PALETTES[name].split()], dtype=np.float64)
    places = np.linspace(0.0, 1.0, len(samples))
    smooth = PchipInterpolator(places, samples, axis=0)(np.linspace(0.0, 1.0, 256))
    return np.asarray(np.clip(np.round(smooth), 0, 255), dtype=np.uint8)
