"""A file is the same thing to every reader, writer and command: what its suffix says."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import ldmaps.inputs
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.formats import (
    FORMATS,
    conversion,
    format_of,
    is_mdanalysis_topology,
    output_format,
    suffixes,
    table_streams,
)
from ldmaps.streaming import open_source

SUFFIXES = [(suffix, form) for form in FORMATS for suffix in form.suffixes]
PACKAGE = Path(ldmaps.__file__).parent


class ReachedError(Exception):
    """Says which reader was about to be used."""


def reaches(kind):
    def raise_reached(*arguments, **settings):
        raise ReachedError(kind)

    return raise_reached


@pytest.fixture
def readers(monkeypatch):
    monkeypatch.setattr("ldmaps.inputs.trajectory_files.TrajectoryFiles", reaches("trajectory"))
    monkeypatch.setattr("ldmaps.inputs.tables.TableSource", reaches("table"))
    monkeypatch.setattr("ldmaps.streaming.sources.FileSource", reaches("table"))
    monkeypatch.setattr("ldmaps.streaming.sources.GrowingTable", reaches("table"))
    monkeypatch.setattr("ldmaps.streaming.sources.GrowingTrajectory", reaches("trajectory"))


@pytest.mark.parametrize(("suffix", "form"), SUFFIXES, ids=[suffix for suffix, _ in SUFFIXES])
@pytest.mark.parametrize("name", ["run", "Run.1"])
def test_fit_and_stream_agree_what_a_file_is(readers, tmp_path, name, suffix, form):
    path = tmp_path / (name + (suffix if name == "run" else suffix.upper()))
    path.write_text("anything")
    if form.reader is not None:
        with pytest.raises(ReachedError, match=form.kind):
            ldmaps.inputs.open_files(path)
    for follow in (False, True):
        with pytest.raises(ReachedError, match=form.kind):
            open_source(path, follow=follow)


def test_no_suffix_stands_twice():
    assert len({suffix for suffix, _ in SUFFIXES}) == len(SUFFIXES)


def test_no_other_module_decides_by_suffix():
    """Whoever compares names with a suffix of its own will disagree with the others one day."""
    known = {suffix for suffix, _ in SUFFIXES}
    for folder in ("inputs", "streaming", "cli", "analysis", "maps"):
        for module in (PACKAGE / folder).rglob("*.py"):
            if module == PACKAGE / "inputs" / "formats.py":
                continue
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "endswith":
                    words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                    # Members of a model file are no files of a user's.
                    assert not known & words or module.name == "model_file.py", (module, node.lineno)


def test_mdtraj_reads_what_is_called_a_trajectory():
    pytest.importorskip("mdtraj", reason="mdtraj reads the trajectories")
    from mdtraj.core.trajectory import _TOPOLOGY_EXTS
    from mdtraj.formats.registry import FormatRegistry

    mine = {
        suffix: form for suffix, form in SUFFIXES if form.kind == "trajectory" and form.reader != "mdanalysis"
    }
    assert set(mine) == set(FormatRegistry.loaders)
    assert {suffix for suffix, form in mine.items() if form.has_topology} == set(mine) & set(_TOPOLOGY_EXTS)


def test_mdanalysis_reads_what_mdtraj_does_not():
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    from mdtraj.formats.registry import FormatRegistry

    mine = {suffix: form for suffix, form in SUFFIXES if form.reader == "mdanalysis"}
    assert not set(mine) & set(FormatRegistry.loaders)
    for suffix, form in mine.items():
        name = suffix.removesuffix(".gz").removesuffix(".bz2").removeprefix(".").upper()
        assert name in mda._READERS, suffix
        assert not form.has_topology or name in mda._PARSERS, suffix
    for suffix in (".tpr", ".itp", ".top", ".data"):
        assert suffix[1:].upper() in mda._PARSERS


def test_hdf5_of_either_name_is_a_trajectory_with_its_topology(files, tmp_path):
    path = tmp_path / "run.hdf5"
    path.write_bytes(files["h5"].read_bytes())
    expected = ldmaps.inputs.open_files(files["h5"], select="not element H").read()
    np.testing.assert_array_equal(
        ldmaps.inputs.open_files(path, select="not element H").read().frames, expected.frames
    )
    source = open_source(path, select="not element H")
    source.open()
    np.testing.assert_array_equal(source.poll(1000, 0.0).points, expected.frames)
    assert source.facts["n_atoms"] == 10
    source.close()


def test_a_name_that_tells_nothing(tmp_path):
    (tmp_path / "rows.dat").write_text("1,2\n3,4\n")
    with pytest.raises(
        InvalidInputError, match=r"neither a table nor a trajectory .* tables end in \.csv, \.tsv"
    ):
        ldmaps.inputs.open_files(tmp_path / "rows.dat")
    # A stream's first bytes tell, so that named pipes need no name.
    source = open_source(tmp_path / "rows.dat")
    source.open()
    np.testing.assert_array_equal(source.poll(10, 0.0).points, [[1, 2], [3, 4]])
    source.close()


def test_what_can_only_be_streamed_and_what_cannot(tmp_path):
    (tmp_path / "rows.ndjson").write_text("[1, 2]\n")
    with pytest.raises(
        InvalidInputError, match=r"is NDJSON, which ldmaps stream reads .* write one of \.csv"
    ):
        ldmaps.inputs.open_files(tmp_path / "rows.ndjson")
    (tmp_path / "rows.parquet").write_text("")
    with pytest.raises(InvalidInputError, match="is Parquet, which is not a stream of records"):
        open_source(tmp_path / "rows.parquet")
    (tmp_path / "run.pdb").write_text("")
    with pytest.raises(InvalidInputError, match=r"only \.xtc, \.trr, \.dcd can"):
        open_source(tmp_path / "run.pdb", top=tmp_path / "run.pdb", follow=True)


def test_outputs():
    assert suffixes(written_by="embed") == (".csv", ".tsv", ".npy", ".parquet")
    assert output_format("-", "stream").name == "CSV"
    assert output_format("PSI.TSV", "embed") is format_of("psi.tsv")
    with pytest.raises(
        InvalidInputError, match=r"must end in one of \.csv, \.tsv, \.ndjson, \.jsonl, or be -"
    ):
        output_format("psi.npy", "stream")


def test_the_longest_suffix_counts_and_remedies_fit():
    assert format_of("RUN.PDB.GZ").name == "compressed PDB"
    assert format_of("rows") is None
    assert conversion("run.xtc.gz") == "unpack it first: gunzip run.xtc.gz"
    assert suffixes(written_by="embed") == (".csv", ".tsv", ".npy", ".parquet")
    assert table_streams() == ("csv", "ndjson", "npy")
    assert [is_mdanalysis_topology(name) for name in ("topol.tpr", "top.pdb")] == [True, False]
