"""Command lines that people type, and messages in the words of the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from argparse import Namespace

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.cli import build_parser, main, parse
from ldmaps.cli.options import fit_settings
from ldmaps.cli.session import guarded, in_flags
from ldmaps.datasets import swiss_roll
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named
from ldmaps.settings import LANDMARK_FIT, LIMITS, Limits, NamedLimit

ROLL = swiss_roll(300, random_state=0).points


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    np.savetxt(folder / "roll.csv", ROLL, delimiter=",", header="x,y,z", comments="")
    LandmarkDiffusionMap(2, 9.0, n_landmarks=60).fit(ROLL).save(folder / "roll.ldm")
    return folder


# -- inputs and options in any order ---------------------------------------------


def test_inputs_may_stand_before_and_after_options(files, tmp_path):
    path, output = tmp_path / "map.ldm", tmp_path / "psi.csv"
    reading = ("-t", files["top"])
    assert run("fit", files["xtc"], *reading, files["trr"], "-m", 20, "-o", path, files["dcd"]) == 0
    assert load(path).source_["files"] == [str(files[name]) for name in ("xtc", "trr", "dcd")]
    assert run("embed", path, files["xtc"], *reading, files["trr"], "-o", output) == 0
    assert len(output.read_text().splitlines()) == 2 * 101 + 1
    assert run("stream", path, *reading, files["xtc"], "-o", tmp_path / "stream.csv") == 0
    assert len((tmp_path / "stream.csv").read_text().splitlines()) == 102


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("embed", "map.ldm", "a.xtc", "-z", "t.pdb", "-o", "psi.csv"), "unknown option -z"),
        (("info", "map.ldm", "other.ldm"), "unexpected argument other.ldm"),
        (("stream", "map.ldm", "a.csv", "b.csv"), "unexpected argument b.csv"),
    ],
)
def test_what_is_left_over_is_an_error_of_the_command(capsys, command, message):
    assert run(*command) == 2
    assert f"ldmaps {command[0]}: error: {message}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        # Neither an input nor -o is given, but the misspelled option is what the user has to correct.
        (("fit", "--tolerence", "1"), "unknown option --tolerence; did you mean --tolerance?"),
        (
            ("fit", "a.csv", "--tolerence=1", "-o", "x.ldm"),
            "unknown option --tolerence; did you mean --tolerance?",
        ),
        (("embed", "map.ldm", "a.xtc", "--tpo", "t.pdb"), "unknown option --tpo; did you mean --top?"),
        (("info", "map.ldm", "--zzzz"), "unknown option --zzzz"),
    ],
)
def test_a_misspelled_option_suggests_the_nearest_one(capsys, command, message):
    assert run(*command) == 2
    assert f"ldmaps {command[0]}: error: {message}\n" in capsys.readouterr().err


def test_a_misspelled_option_of_no_command(capsys):
    assert run("--verson") == 2
    assert "ldmaps: error: unknown option --verson; did you mean --version?" in capsys.readouterr().err


def test_options_may_be_shortened_and_inputs_may_follow_two_dashes():
    arguments = parse(["fit", "--toler", "1", "-o", "x.ldm", "--", "--odd.csv"])
    assert (arguments.tolerance, arguments.inputs) == (1.0, ["--odd.csv"])


@pytest.mark.parametrize("command", ["fit", "embed", "stream", "watch", "report", "plan"])
def test_a_second_topology_is_refused(files, capsys, command):
    model = () if command in ("fit", "plan") else ("map.ldm",)
    assert run(command, *model, "a.xtc", "-t", "a.pdb", "-t", "b.gro", "-o", "x") == 2
    assert "may be given once, got 'a.pdb' and 'b.gro'" in capsys.readouterr().err


# -- messages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-m", 400), "--n-landmarks 400 is more than the 300 points"),
        (("-m", 20, "--n-components", 30), "--n-components 30 needs at least 31 landmarks"),
        (("-m", 20, "--outliers", 0.7), "share of points"),
        (("--select", "name CA"), "--select applies to trajectories"),
        (("--start", 5, "--stop", 3), "--stop 3 leaves no frame after --start 5"),
    ],
)
def test_errors_speak_of_options(folder, tmp_path, capsys, options, message):
    assert run("fit", folder / "roll.csv", *options, "-o", tmp_path / "map.ldm") == 1
    said = capsys.readouterr().err
    assert message in said
    assert "_" not in said.replace(str(folder), "")


def command_parser(name):
    return next(action for action in build_parser()._actions if action.dest == "command").choices[name]


@pytest.mark.parametrize(
    ("command", "named", "words"),
    [
        ("fit", Named("n_landmarks", 400), "--n-landmarks 400"),
        ("fit", Named("n_components"), "--n-components"),
        ("fit", Named("diffusion_time", 2.0), "--diffusion-time 2"),
        ("fit", Named("random_state"), "--random-state"),
        ("fit", Named("epsilon", "connected"), "--epsilon connected"),
        ("fit", Named("outliers", ...), "--outliers"),
        ("embed", Named("columns", ["x", "y"]), "--columns x,y"),
        ("embed", Named("select", "name CA"), '--select "name CA"'),
        ("embed", Named("top", "top.pdb"), "-t top.pdb"),
        ("embed", Named("match_atoms", True), "--match-atoms"),
        ("embed", Named("stop", 5), "--stop 5"),
        ("absorb", Named("disconnected", "leave"), "--disconnected leave"),
        ("stream", Named("stall_after", 0.5), "--stall-after 0.5"),
        ("stream", Named("periodic", "keep"), "--periodic keep"),
        ("absorb", Named("periodic", "keep"), 'periodic="keep"'),  # which it has no option for
        ("fit", Named("max_passes", 4), "--max-passes 4"),
        ("fit", NamedLimit("max_passes", ...), "--max-passes"),
        ("fit", NamedLimit("memory", 10), "limits=Limits(memory=10)"),  # which has no option
    ],
)
def test_settings_are_called_by_their_options(command, named, words):
    assert in_flags(InvalidInputError("use ", named, "."), command_parser(command)) == f"use {words}."


def test_every_described_option_is_there():
    options = command_parser("fit")._option_string_actions
    for setting in (*LANDMARK_FIT.values(), *LIMITS.values()):
        if setting.option:
            assert options[setting.option].dest == setting.argument
            assert options[setting.option].default == (None if setting.name == "metric" else setting.default)


def test_options_set_the_limits():
    command = ["roll.csv", "-o", "map.ldm"]
    chosen = command_parser("fit").parse_args([*command, "--max-passes", "3", "--resume", "state.npz"])
    assert fit_settings(chosen)["limits"] == Limits(max_passes=3, resume="state.npz")
    assert fit_settings(command_parser("fit").parse_args(command))["limits"] == Limits()


def test_words_that_only_look_like_settings_are_left_alone():
    assert (
        in_flags("there is no file '/data/n_landmarks=3.csv'") == "there is no file '/data/n_landmarks=3.csv'"
    )


def test_a_warning_is_shown_once(capsys):
    """Such as mdtraj's about netCDF4, which comes with every file that is opened."""

    def warn_twice(_):
        for _ in range(2):
            warnings.simplefilter("always")
            warnings.warn(AccuracyWarning("Warning: slow; lower ", Named("n_landmarks")), stacklevel=1)

    assert guarded(warn_twice, Namespace()) == 0
    assert capsys.readouterr().err == "ldmaps: warning: slow; lower --n-landmarks\n"


# -- files ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["xtc", "trr", "dcd", "h5", "pdb"])
def test_paths_in_any_alphabet(files, tmp_path, form):
    home = tmp_path / "données"
    home.mkdir()
    shutil.copy(files[form], home / f"été 1.{form}")
    shutil.copy(files["top"], home / "häuser.pdb")
    reading = (home / f"été 1.{form}", "-t", home / "häuser.pdb")
    assert run("fit", *reading, "-m", 20, "-o", home / "карта.ldm") == 0
    assert run("embed", home / "карта.ldm", *reading, "-o", home / "ψ.csv") == 0
    rows = (home / "ψ.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 102
    assert f"été 1.{form}" in rows[1]


def test_a_desmond_trajectory_is_a_folder(files, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mdtraj, about types of numbers
        mdtraj_trajectory(box=5.0).save(str(tmp_path / "run.dtr"))
    for name in ("run.dtr", "läuft.dtr"):
        if name != "run.dtr":
            shutil.copytree(tmp_path / "run.dtr", tmp_path / name)
        output = tmp_path / "map.ldm"
        assert run("fit", tmp_path / name, "-t", files["top"], "-m", 20, "-o", output, "--force") == 0
        assert len(load(output).embedding_) == 101


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("run.xtc.gz", "unpack it first: gunzip "),
        ("run.trr.bz2", "unpack it first: bunzip2 "),
        ("run.unheard", "convert it to XTC or DCD"),
    ],
)
def test_unreadable_files_come_with_a_remedy(files, tmp_path, capsys, name, remedy):
    (tmp_path / name).write_bytes(b"something")
    assert run("fit", tmp_path / name, "-t", files["top"], "-o", tmp_path / "map.ldm") == 1
    assert remedy in capsys.readouterr().err


def test_an_unreadable_topology_comes_with_a_remedy(files, tmp_path, capsys):
    (tmp_path / "system.unheard").write_bytes(b"something")
    assert run("fit", files["xtc"], "-t", tmp_path / "system.unheard", "-o", tmp_path / "map.ldm") == 1
    said = capsys.readouterr().err
    assert "use PDB, GRO, PSF" in said
    assert '..."' not in said  # mdtraj's list of suffixes, cut off


# -- what a map rests on -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")
@pytest.mark.parametrize("n_rows", [2, 3, 9, 10])
def test_a_map_of_a_few_points_gets_a_warning(tmp_path, capsys, n_rows):
    np.savetxt(tmp_path / "few.csv", ROLL[:n_rows], delimiter=",")
    assert run("fit", tmp_path / "few.csv", "-o", tmp_path / "few.ldm") == 0
    warned = f"warning: {n_rows} rows are too few for a map" in capsys.readouterr().err
    assert warned == (n_rows < 10)


@pytest.mark.filterwarnings("default:the absorbed points change")
def test_info_and_report_know_the_coordinates_of_a_map_that_absorbed(tmp_path, capsys):
    wide = swiss_roll(600, random_state=1).points * [1.6, 1.3, 1.6]
    np.savetxt(tmp_path / "wide.csv", wide, delimiter=",", header="x,y,z", comments="")
    outside, larger = tmp_path / "outside.npz", tmp_path / "larger.ldm"
    LandmarkDiffusionMap(4, 9.0, n_landmarks=60).fit(ROLL).save(tmp_path / "roll.ldm")
    placed = ("stream", tmp_path / "roll.ldm", tmp_path / "wide.csv", "-o", tmp_path / "psi.csv")
    assert run(*placed, "--outside", outside) == 0
    # Old coordinates keep their eigenvalues and places; a further one is slower, and last all the same.
    assert run("absorb", tmp_path / "roll.ldm", outside, "-o", larger, "--new-components", 1) == 0
    model = load(larger)
    assert not np.allclose(model.eigenvalues_, model.spectrum_[:5])  # or this shows nothing
    kept = " ".join(f"{value:.4f}" for value in model.eigenvalues_)
    capsys.readouterr()
    assert run("info", larger) == 0
    assert f"spectrum    {kept} | " in capsys.readouterr().out
    assert run("report", larger, "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<td>{kept} | " in page
    filled = page.split('<circle class="kept"')[1:]
    assert len(filled) == 5
    for value, circle in zip(sorted(model.eigenvalues_, reverse=True), filled, strict=True):
        assert f"= {value:.5f}" in circle


# -- streams -----------------------------------------------------------------------


def test_rejected_records_come_with_their_reason(folder, tmp_path, capsys):
    rows = ["1,2,3", "1,2", "nan,2,3", "a,2,3", "b,2,3", "4,5,6"]
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    line = ("stream", folder / "roll.ldm", tmp_path / "in.csv", "-o", tmp_path / "psi.csv", "--force")
    assert run(*line) == 0
    said = capsys.readouterr().err
    assert "record 1 is rejected: 2 columns, but 3 are expected (received '1,2')" in said
    assert "record 3 is rejected: column 1: 'a' is not a number" in said
    assert "record 4" not in said
    assert "only counted; --quarantine FILE keeps them" in said
    assert "4 rejected" in said
    assert run(*line, "--quarantine", tmp_path / "bad") == 0
    assert f"see {tmp_path / 'bad'}" in capsys.readouterr().err
    assert run(*line, "--quiet", "--json") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["rejected"] == 4


# -- progress ----------------------------------------------------------------------


def test_captured_output_has_a_line_per_stage(folder, tmp_path):
    line = ("fit", folder / "roll.csv", "-m", 40, "-o", tmp_path / "map.ldm", "--force")
    command = [sys.executable, "-m", "ldmaps", *map(str, line)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    for stage in ("reading", "bandwidth", "landmarks", "embedding"):
        assert said.count(f"ldmaps: {stage}: ") == 1
    assert "\r" not in said
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_stream_reads_frames_as_embed_does(files, tmp_path):
    """Of a molecule that the box has split, kept split: the options must reach the source, followed or not."""
    import mdtraj

    whole = mdtraj.load(str(files["xtc"]), top=str(files["top"]))
    whole.xyz[:, : whole.n_atoms // 2] += [2.0, 0, 0]  # half of it in the next image
    whole.unitcell_lengths, whole.unitcell_angles = (
        np.full((len(whole), 3), 2.0),
        np.full((len(whole), 3), 90.0),
    )
    whole.save(str(tmp_path / "split.xtc"))
    model = tmp_path / "map.ldm"
    assert run("fit", files["xtc"], "-t", files["top"], "-m", 20, "-o", model) == 0
    reading = (tmp_path / "split.xtc", "-t", files["top"], "-q", "-f")
    for options in ((), ("--periodic", "keep")):
        run("embed", model, *reading, *options, "-o", tmp_path / "embed.csv")
        expected = np.genfromtxt(tmp_path / "embed.csv", delimiter=",", names=True)["psi2"]
        for follow in ((), ("--follow", "--idle-end", 0.1)):
            run("stream", model, *reading, *options, *follow, "-o", tmp_path / "stream.csv")
            streamed = np.genfromtxt(tmp_path / "stream.csv", delimiter=",", names=True)["psi2"]
            np.testing.assert_allclose(streamed, expected, rtol=1e-5)
    kept = expected
    run("embed", model, *reading, "-o", tmp_path / "embed.csv")
    assert not np.allclose(kept, np.genfromtxt(tmp_path / "embed.csv", delimiter=",", names=True)["psi2"])


def test_a_seed_beyond_what_generators_take_is_an_error_of_the_option(folder, capsys):
    command = (
        "fit",
        folder / "roll.csv",
        "-m",
        20,
        "--epsilon",
        9,
        "-o",
        folder / "seed.ldm",
        "-f",
        "-q",
        "--random-state",
    )
    assert run(*command, 2**32) == 2
    assert "whole number from 0 to 4294967295 is needed, got '4294967296'" in capsys.readouterr().err
    assert run(*command, 2**32 - 1) == 0
