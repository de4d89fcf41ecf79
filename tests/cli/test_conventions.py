"""What only a real process can show: start-up, pipes, signals, shells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from itertools import pairwise

import mdtraj as md
import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap, __version__
from ldmaps.cli import COMMANDS, build_parser, main
from ldmaps.datasets import swiss_roll

LDMAPS = [sys.executable, "-m", "ldmaps"]
HEAVY = {
    "numpy",
    "scipy",
    "sklearn",
    "mdtraj",
    "MDAnalysis",
    "matplotlib",
    "pandas",
    "pyarrow",
    "ctypes",
}


@pytest.fixture(scope="module")
def roll_map(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "roll.ldm"
    LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(swiss_roll(300, random_state=0).points).save(path)
    return path


def loaded_by(*command_lines):
    """Return what a process has loaded that runs some command lines, and what it printed."""
    code = (
        "import sys, json; from ldmaps.cli import main;"
        f"statuses = [main(line) for line in {command_lines!r}];"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr); sys.exit(max(statuses))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1])), done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["completion", "bash"]])
def test_help_and_completion_import_nothing_heavy(arguments):
    modules, printed = loaded_by(arguments)
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert "ldmaps" in printed


#: Commands that extend another one, and use its module.
EXTENDS = {"plan": "fit", "watch": "stream"}


def test_no_module_is_loaded_but_that_of_the_command(roll_map):
    """A command must start, and work, without the packages that the others need."""
    commands = {f"ldmaps.cli.{name}" for name in COMMANDS}
    assert not commands & loaded_by([], ["--help"], ["--version"])[0]
    for name in COMMANDS:
        expected = {f"ldmaps.cli.{one}" for one in (name, EXTENDS.get(name, name))}
        assert commands & loaded_by([name, "--help"])[0] == (commands if name == "completion" else expected)
    assert commands & loaded_by(["info", str(roll_map)])[0] == {"ldmaps.cli.info"}


def test_embedding_a_trajectory_imports_what_it_needs_alone(tmp_path):
    """What scipy has for sparse matrices takes as long to import as numpy."""
    topology = md.Topology()
    residue = topology.add_residue("ALA", topology.add_chain())
    atoms = [topology.add_atom(f"C{number}", md.element.carbon, residue) for number in range(4)]
    for left, right in pairwise(atoms):
        topology.add_bond(left, right)
    frames = np.random.default_rng(0).normal(size=(60, 4, 3)).astype(np.float32)
    trajectory = md.Trajectory(frames, topology)
    trajectory.save_xtc(tmp_path / "run.xtc")
    trajectory[0].save_pdb(tmp_path / "top.pdb")
    LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=20).fit(trajectory).save(tmp_path / "run.ldm")
    line = ["embed", tmp_path / "run.ldm", tmp_path / "run.xtc", "--top", tmp_path / "top.pdb"]
    loaded, _ = loaded_by([*map(str, line), "-o", str(tmp_path / "run.csv"), "-q"])
    assert not {"scipy.sparse", "scipy.linalg", "sklearn", "pandas", "numpy.ma"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_a_module_says_of_itself_what_the_list_of_commands_does(name):
    module = import_module(f"ldmaps.cli.{name}")
    assert module.__doc__.splitlines()[0] == f"``ldmaps {name}``: {COMMANDS[name]}."


def test_a_package_that_was_deleted_is_named_in_a_sentence(monkeypatch, roll_map, capsys):
    monkeypatch.setitem(sys.modules, "ldmaps.regions", None)  # as if it could not be found
    assert main(["basins", str(roll_map), "-o", "regions.toml"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "ldmaps: error: this command line needs the package ldmaps.regions, which is missing from this installation "
        "of ldmaps; install ldmaps again to get it"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_can_be_printed_anywhere(name, capsys):
    """Some consoles cannot print Greek letters, and help must not end in an error there."""
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.isascii()


def test_help_is_worth_reading(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "ldmaps fit traj.xtc -t top.pdb" in text
    assert "exit status:" in text
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"ldmaps {__version__}"


def test_c_libraries_do_not_write_into_the_data(files, tmp_path):
    """mdtraj's DCD reader prints to stdout; the table must not contain it."""
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=20)
    import ldmaps.inputs

    model.fit(ldmaps.inputs.open_files(files["dcd"], top=files["top"])).save(tmp_path / "map.ldm")
    command = [
        *LDMAPS,
        "embed",
        str(tmp_path / "map.ldm"),
        str(files["dcd"]),
        "-t",
        str(files["top"]),
        "-o",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 102
    assert lines[0].startswith("file,frame,time,psi2")
    assert done.stderr == ""


def test_a_closed_pipe_ends_quietly(roll_map, tmp_path):
    np.save(tmp_path / "many.npy", np.tile(swiss_roll(300, random_state=0).points, (300, 1)))
    command = [*LDMAPS, "embed", str(roll_map), str(tmp_path / "many.npy"), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_stdin_is_a_table(roll_map):
    command = [*LDMAPS, "embed", str(roll_map), "-", "-o", "-"]
    done = subprocess.run(command, input="x,y,z\n1,2,3\n4,5,6\n", capture_output=True, text=True, check=True)
    assert [line.split(",")[:2] for line in done.stdout.splitlines()[1:]] == [["stdin", "0"], ["stdin", "1"]]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interruption_leaves_nothing_half_written(roll_map, tmp_path, number, status):
    output = tmp_path / "out"
    output.mkdir()
    # Rows are trickled in, after those that tell the command what table it is, so that it is at work for as long as the
    # test likes.
    command = [*LDMAPS, "embed", str(roll_map), "-", "-c", "1", "-o", str(output / "psi.csv")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write("1,2,3\n" * 200)
        for _ in range(6000):  # minutes, on a busy machine
            process.stdin.write("1,2,3\n")
            process.stdin.flush()
            if list(output.iterdir()):
                break
            time.sleep(0.05)
        assert list(output.iterdir()), "the command never started to write"
        process.send_signal(number)
        # The pipe stays open: a command that saw its input end might be done before the signal is.
        assert process.wait(timeout=120) == status
        said = process.stderr.read()
    assert list(output.iterdir()) == []
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert "interrupted" in said


# -- help ----------------------------------------------------------------------------


def help_of(capsys, monkeypatch, *arguments):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name, capsys, monkeypatch):
    for form in ("--help", *(["--help-all"] if main([name, "--help-all"]) == 0 else [])):
        text = help_of(capsys, monkeypatch, name, form)
        assert max(map(len, text.splitlines())) <= 80
        assert f"usage: ldmaps {name} " in text
    assert max(map(len, help_of(capsys, monkeypatch, "--help").splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_a_dozen_options_and_help_all_every_one(name, capsys, monkeypatch):
    def listed(form):
        lines = help_of(capsys, monkeypatch, name, form).splitlines()
        return {line.split()[0].strip(",") for line in lines if line.startswith("  -") and line[3] != " "}

    command = build_parser().get_default("commands")[name]
    options = {action.option_strings[0] for action in command._actions if action.option_strings}
    shown = listed("--help")
    assert len(shown) <= 14
    assert options == (listed("--help-all") if "--help-all" in options else shown)
    module = import_module(f"ldmaps.cli.{name}")
    assert set(module.SHOWN.split()) <= {action.dest for action in command._actions}


def test_a_bare_command_greets(capsys):
    assert main([]) == 0
    greeting = capsys.readouterr().out
    assert "ldmaps demo --files" in greeting
    assert max(map(len, greeting.splitlines())) <= 80


def test_a_missing_output_is_said_first(capsys):
    assert main(["fit", "traj.xtc"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "ldmaps fit: error: the following arguments are required: -o/--output",
        "see ldmaps fit --help",
    ]
