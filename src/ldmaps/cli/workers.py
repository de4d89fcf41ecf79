"""Work on a cluster, where options ask for it: inputs as workers read them, and embedding these."""

from __future__ import annotations

import argparse
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options

if TYPE_CHECKING:
    from ldmaps.cluster import BlockedFiles
    from ldmaps.extension.embedder import Embedder
    from ldmaps.inputs import FrameChunk, PointSource
    from ldmaps.progress import Stage
    from ldmaps.validation.outside_reasons import OutsideSample


def workers_of(arguments: argparse.Namespace) -> Any:
    """Return the context in which work goes where the options say."""
    from ldmaps.cluster import workers

    settings = {"n_threads": arguments.threads, "memory_limit": arguments.worker_memory}
    return workers(arguments.workers, scheduler=arguments.scheduler, **settings)


def in_blocks(
    arguments: argparse.Namespace, source: PointSource, model_facts: Mapping[str, Any] | None = None
) -> BlockedFiles:
    """Return the source, for workers to read."""
    from ldmaps.cluster import BlockedFiles

    return BlockedFiles(source, options.reading_settings(arguments, model_facts), arguments.piece)


def embed_blocks(
    embedder: Embedder,
    files: BlockedFiles,
    output: str,
    stage: Stage,
    *,
    parts: bool,
    names: Sequence[str] | None = None,
) -> OutsideSample:
    """Let workers read and embed files; write one file here, or with ``parts`` let them write one each in a folder."""
    import json

    from ldmaps.cli.writers import open_writer
    from ldmaps.files import written_whole
    from ldmaps.validation.outside_reasons import OutsideSample

    sample = OutsideSample()
    if not parts:
        with open_writer(output, embedder.n_components, files.files, names) as writer:
            for chunk, coordinates, coverage, part in _results(embedder, files):
                writer.write(chunk, coordinates, coverage)
                sample.join(part)
                stage.advance(len(chunk))
        return sample
    with _folder(output) as folder:
        index = []
        for entry, part in _results(embedder, files, os.path.abspath(folder), names):
            index.append(entry)
            sample.join(part)
            stage.advance(entry["rows"])
        with written_whole(os.path.join(folder, "index.json")) as stream:
            stream.write(json.dumps({"rows": stage.done, "parts": index}, indent=1).encode())
    return sample


def _results(
    embedder: Embedder, files: BlockedFiles, folder: str | None = None, names: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield what workers return of each piece, in order; no more than a few pieces wait at a time."""
    from ldmaps.cluster.engine import client_in_use, faults, shared, task

    client = client_in_use()
    with faults(client):
        blocks = files.blocks
        (travelling,) = client.persist([shared("map", embedder)])
        waiting: deque[Any] = deque()
        ahead = 4 * max(1, sum(client.nthreads().values()))
        for number, block in enumerate(blocks.tasks):
            work = task("embed", embed_piece, block, travelling)
            if folder is not None:
                work = task("embed", write_piece, block, travelling, folder, number, files.files, names)
            waiting.append(client.compute(work))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def embed_piece(chunk: FrameChunk, embedder: Embedder) -> tuple[Any, ...]:
    """Embed a piece; return it with its coordinates instead of its frames."""
    from ldmaps.maps.embed_chunks import embed_chunks
    from ldmaps.validation.outside_reasons import OutsideSample

    ((_, projected),) = embed_chunks(embedder, [chunk], 1)
    sample = OutsideSample()
    sample.add(chunk.frames, projected.coverage.inside)
    return replace(chunk, frames=projected.coordinates), projected.coordinates, projected.coverage, sample


def write_piece(
    chunk: FrameChunk,
    embedder: Embedder,
    folder: str,
    number: int,
    files: tuple[str, ...],
    names: Sequence[str] | None = None,
) -> tuple[dict[str, Any], OutsideSample]:
    """Embed a piece and write its part; return the line of the index. Done again, it writes the same file."""
    from ldmaps.cli.writers import open_writer
    from ldmaps.files import shown_name

    projected, coordinates, coverage, sample = embed_piece(chunk, embedder)
    suffix = os.path.splitext(os.path.basename(folder).removesuffix(".part"))[1]
    name = f"part-{number:06d}{suffix}"
    with open_writer(os.path.join(folder, name), embedder.n_components, files, names) as writer:
        writer.write(projected, coordinates, coverage)
    entry = {"part": name, "file": shown_name(chunk.file), "first": int(chunk.numbers[0])}
    return {**entry, "last": int(chunk.numbers[-1]), "rows": len(chunk)}, sample


@contextmanager
def _folder(output: str) -> Iterator[str]:
    """Make a folder that gets its name when the block ends without an error, and goes otherwise."""
    target = os.path.abspath(output)
    folder = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.part")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    try:
        yield folder
        if os.path.isdir(target):
            shutil.rmtree(target)
        os.rename(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
