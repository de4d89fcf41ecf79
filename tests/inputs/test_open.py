"""Reading trajectory files: what comes out does not depend on format, chunks or stride."""

from __future__ import annotations

import os
import warnings

import mdtraj
import numpy as np
import pytest
from written_trajectories import FORMATS, STRIDE, TOLERANCE, mdtraj_trajectory

import ldmaps.inputs
from ldmaps.datasets import alanine_dipeptide
from ldmaps.errors import InvalidInputError, ShortFileWarning

MOLECULE = alanine_dipeptide(stride=STRIDE)


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize(
    ("stride", "start", "stop"), [(1, None, None), (3, 5, None), (3, 2, 50), (10, 4, 95), (20, None, None)]
)
def test_every_format_gives_the_frames_asked_for(files, extension, stride, start, stop):
    source = ldmaps.inputs.open_files(
        files[extension], top=files["top"], stride=stride, start=start, stop=stop, chunk=7
    )
    whole = source.read()
    numbers = np.arange(len(MOLECULE))[start:stop:stride]
    np.testing.assert_array_equal(whole.numbers, numbers)
    np.testing.assert_allclose(whole.frames, MOLECULE.frames[numbers], atol=TOLERANCE[extension])
    assert whole.frames.dtype == np.float32
    assert source.n_frames in (len(numbers), None if extension == "pdb" else len(numbers))
    if extension in ("xtc", "trr", "h5"):
        np.testing.assert_allclose(whole.times, MOLECULE.times[numbers], rtol=1e-6)
    else:
        assert whole.times is None


@pytest.mark.parametrize("extension", ["h5", "pdb"])
def test_some_formats_bring_their_topology(files, extension):
    source = ldmaps.inputs.open_files(files[extension])
    assert source.atoms.names == MOLECULE.atom_names
    np.testing.assert_allclose(source.atoms.masses, MOLECULE.masses, atol=0.01)


@pytest.mark.parametrize("extension", FORMATS)
def test_selection_keeps_order_and_names(files, extension):
    source = ldmaps.inputs.open_files(files[extension], top=files["top"], select="not element H", chunk=11)
    heavy = MOLECULE.heavy_atoms
    assert source.n_atoms == len(heavy)
    assert source.atoms.names == tuple(MOLECULE.atom_names[place] for place in heavy)
    assert source.atoms.labels[0] == "ACE1-CH3"
    np.testing.assert_allclose(source.read().frames, MOLECULE.frames[:, heavy], atol=TOLERANCE[extension])


def test_several_files_and_patterns_follow_one_another(files):
    folder = files["xtc"].parent
    source = ldmaps.inputs.open_files(
        [files["xtc"], str(folder / "traj.d*")], top=files["top"], stop=4, chunk=3
    )
    seen = [(chunk.file.rpartition(".")[2], chunk.numbers.tolist()) for chunk in source]
    assert seen == [("xtc", [0, 1, 2]), ("xtc", [3]), ("dcd", [0, 1, 2]), ("dcd", [3])]
    assert source.n_frames == 8
    # A source can be read again.
    assert [len(chunk) for chunk in source] == [3, 1, 3, 1]


def test_chunks_bound_memory(files):
    source = ldmaps.inputs.open_files(files["xtc"], top=files["top"], chunk=10)
    assert max(len(chunk) for chunk in source) == 10


@pytest.mark.parametrize("stride", [0, -1, 1.5])
def test_a_stride_that_is_none(files, stride):
    with pytest.raises(InvalidInputError, match="stride must be a whole number of at least 1"):
        ldmaps.inputs.open_files(files["xtc"], top=files["top"], stride=stride)


def test_missing_topology(files):
    with pytest.raises(InvalidInputError, match=r"without atom names: give a topology.*top=\"top\.pdb\""):
        ldmaps.inputs.open_files(files["xtc"])


def test_missing_files(files):
    with pytest.raises(FileNotFoundError, match="there is no file 'nowhere.xtc'"):
        ldmaps.inputs.open_files("nowhere.xtc", top=files["top"])
    with pytest.raises(FileNotFoundError, match=r"no file matches the pattern 'nowhere\*.xtc'"):
        ldmaps.inputs.open_files("nowhere*.xtc", top=files["top"])
    with pytest.raises(FileNotFoundError, match="there is no topology file 'nowhere.pdb'"):
        ldmaps.inputs.open_files(files["xtc"], top="nowhere.pdb")


def test_topology_of_other_atoms(files, tmp_path):
    import mdtraj

    mdtraj.load(str(files["pdb"]))[0].atom_slice(range(10)).save_pdb(str(tmp_path / "ten.pdb"))
    with pytest.raises(InvalidInputError, match=r"traj\.xtc has 22 atoms per frame, but .*ten\.pdb has 10"):
        ldmaps.inputs.open_files(files["xtc"], top=tmp_path / "ten.pdb")


def test_selection_that_matches_nothing(files):
    with pytest.raises(
        InvalidInputError, match=r"matches none of the 22 atoms.*residues there: ACE, ALA, NME"
    ):
        ldmaps.inputs.open_files(files["xtc"], top=files["top"], select="resname LYS")


def test_selection_in_no_language(files):
    with pytest.raises(InvalidInputError, match="is not in mdtraj's selection language"):
        ldmaps.inputs.open_files(files["xtc"], top=files["top"], select="proteins and ((")


@pytest.mark.parametrize("extension", ["xtc", "trr", "dcd"])
def test_a_cut_off_file_says_how_much_is_good(files, extension, tmp_path):
    data = files[extension].read_bytes()
    cut = tmp_path / f"cut.{extension}"
    cut.write_bytes(data[: len(data) // 2 + 11])
    source = ldmaps.inputs.open_files(cut, top=files["top"], chunk=8)
    with pytest.raises(InvalidInputError, match=r"cut off or damaged: frame (\d+) .*stop=\1$") as caught:
        source.read()
    good = int(str(caught.value).rpartition("stop=")[2])
    assert 40 < good < 60
    kept = ldmaps.inputs.open_files(cut, top=files["top"], chunk=8, stop=good).read()
    np.testing.assert_allclose(kept.frames, MOLECULE.frames[:good], atol=TOLERANCE[extension])


@pytest.mark.parametrize("stride", [1, 3, 10])
def test_a_dcd_cut_within_a_frame_is_never_taken_for_a_shorter_one(files, tmp_path, stride):
    data = files["dcd"].read_bytes()
    for bytes_lost in (1, 100, 300):
        cut = tmp_path / "cut.dcd"
        cut.write_bytes(data[:-bytes_lost])
        whole = len(MOLECULE) - 1 if bytes_lost < 264 + 24 else len(MOLECULE) - 2
        source = ldmaps.inputs.open_files(cut, top=files["top"], chunk=8, stride=stride)
        with pytest.raises(InvalidInputError, match=rf"cut off or damaged: frame {whole} .*stop={whole}$"):
            source.read()
        # What is asked for is there: no complaint.
        kept = ldmaps.inputs.open_files(cut, top=files["top"], stop=whole, stride=stride).read()
        np.testing.assert_array_equal(kept.numbers, np.arange(whole)[::stride])


def test_a_dcd_that_ends_between_two_frames_before_its_time_is_warned_of(files, tmp_path):
    data = files["dcd"].read_bytes()
    n = len(MOLECULE)
    # Cut after 60 frames; all are of one size, and the header stands before them.
    frame = 3 * (4 * 22 + 8)
    cut = tmp_path / "cut.dcd"
    cut.write_bytes(data[: len(data) - (n - 60) * frame])
    with pytest.warns(
        ShortFileWarning, match=rf"cut.dcd holds 60 frames but announces {n}.* only these 60 are used"
    ):
        read = ldmaps.inputs.open_files(cut, top=files["top"], chunk=8).read()
    np.testing.assert_allclose(read.frames, MOLECULE.frames[:60], atol=TOLERANCE["dcd"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShortFileWarning)
        ldmaps.inputs.open_files(cut, top=files["top"], stop=60).read()
        ldmaps.inputs.open_files(files["dcd"], top=files["top"]).read()


def test_a_file_of_another_format(files, tmp_path):
    (tmp_path / "text.xtc").write_text("this is no trajectory\n" * 20)
    with pytest.raises(InvalidInputError, match=r"text\.xtc"):
        ldmaps.inputs.open_files(tmp_path / "text.xtc", top=files["top"])


def test_start_beyond_the_end(files):
    with pytest.raises(InvalidInputError, match="ends before frame 5000"):
        ldmaps.inputs.open_files(files["xtc"], top=files["top"], start=5000).read()


def test_stop_before_start(files):
    with pytest.raises(InvalidInputError, match="leaves no frame"):
        ldmaps.inputs.open_files(files["xtc"], top=files["top"], start=5, stop=5)


def test_formats_that_are_loaded_whole_are_loaded_once(tmp_path, monkeypatch):
    trajectory = mdtraj_trajectory()[:6]
    trajectory.save_xyz(str(tmp_path / "run.xyz"))
    trajectory.atom_slice(range(5)).save_gro(str(tmp_path / "other.gro"))
    trajectory[0].save_pdb(str(tmp_path / "top.pdb"))
    loaded = []
    load = mdtraj.load

    def counted(path, *args, **kwargs):
        loaded.append(os.path.basename(os.fspath(path)))
        return load(path, *args, **kwargs)

    monkeypatch.setattr(mdtraj, "load", counted)
    source = ldmaps.inputs.open_files(tmp_path / "run.xyz", top=tmp_path / "top.pdb")
    assert len(source.read()) == 6
    assert loaded.count("run.xyz") == 1
    # A format with atoms of its own: mdtraj does not compare them with the topology.
    other = ldmaps.inputs.open_files(tmp_path / "other.gro", top=tmp_path / "top.pdb")
    with pytest.raises(InvalidInputError, match=r"other.gro has 5 atoms per frame, but .*top.pdb has 22"):
        other.read()


def test_an_anndata_is_refused_with_the_remedy():
    class AnnData:
        __module__ = "anndata._core.anndata"

        def __array__(self, *_):
            pytest.fail("this would take for ever")

    for taking in (ldmaps.LandmarkDiffusionMap().fit, ldmaps.DiffusionMap().fit, ldmaps.inputs.open_files):
        with pytest.raises(InvalidInputError, match=r"got an AnnData, .* such as adata\.obsm\['X_pca'\]"):
            taking(AnnData())
