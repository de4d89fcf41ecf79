"""Points in chunks, embedded: the loop of estimators, of the command line, of workers and of pictures."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Embedder, Projected
from ldmaps.inputs.prefetch import prefetch
from ldmaps.inputs.source import FrameChunk, PointSource, check_frames_finite
from ldmaps.threads import single_threaded_blas

_Projected = Generator[tuple[FrameChunk, Projected], None, None]


def embed_chunks(
    embedder: Embedder, chunks: Iterable[FrameChunk], n_threads: int | None = None
) -> _Projected:
    """Embed chunk after chunk; yield each with the places of its points."""
    # Where another thread may read, one chunk is read and the next embedded while the caller uses the one after that.
    # Close the generator to end these threads early.
    if isinstance(chunks, PointSource) and chunks.reads_ahead:
        return prefetch(_embedded(embedder, prefetch(iter(chunks)), n_threads), depth=2)
    return _embedded(embedder, chunks, n_threads)


def _embedded(embedder: Embedder, chunks: Iterable[FrameChunk], n_threads: int | None) -> _Projected:
    with single_threaded_blas():  # which takes 0.2 ms: once for all chunks
        for chunk in chunks:
            try:
                projected = embedder.project(chunk.frames, n_threads)
            except InvalidInputError:
                check_frames_finite(chunk)  # says where in which file
                raise
            yield chunk, projected
