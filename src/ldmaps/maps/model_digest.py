"""Which map it is: a text that is kept beside what was made with a map, to see that it is used with no other."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def model_digest(model: Any) -> str:
    """Return a short text that two models share only if they embed alike."""
    embedder = model.embedder_
    digest = hashlib.sha256(embedder.metric.name.encode())
    parts: list[tuple[str, Any]] = [
        *sorted(embedder.metric.parameters().items()),
        *sorted(embedder.metric.export_points(embedder.landmarks).items()),
        ("weights", embedder.source_weights),
        ("coefficients", embedder.coefficients),
        ("scales", [embedder.epsilon, embedder.bandwidth]),
    ]
    for name, value in parts:
        array = np.ascontiguousarray(value)
        if array.dtype == object:
            array = np.frombuffer(repr(value).encode(), dtype=np.uint8)
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]
