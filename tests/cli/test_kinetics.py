"""ldmaps kinetics learns what the library does, in the units that its options are given in."""

import json

import numpy as np
import pytest
from known_diffusions import double_well

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.cli import main
from ldmaps.cli.kinetics import lag
from ldmaps.regions import Box, save_regions

SPACING = 0.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table in two files, with times, the map of it and what is known of each row."""
    folder = tmp_path_factory.mktemp("kinetics")
    points = double_well((1.0, 1.0)).simulate(2, 4000, SPACING, 0.005).points
    model = LandmarkDiffusionMap(n_components=2, epsilon=0.15, n_landmarks=80).fit(points)
    model.save(folder / "map.ldm")
    times = SPACING * np.arange(4000)
    for place, part in enumerate(np.split(points, 2)):
        rows = np.column_stack([times, part])
        np.savetxt(folder / f"run{place}.csv", rows, delimiter=",", header="time,x,y", comments="")
        np.savetxt(folder / f"bare{place}.csv", part, delimiter=",", header="x,y", comments="")
    np.savetxt(folder / "COLVAR", np.column_stack([times, points[:4000, 0]]), header="! FIELDS time dist")
    text = (folder / "COLVAR").read_text().replace("# ! FIELDS", "#! FIELDS")
    (folder / "COLVAR").write_text(text)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return ldmaps.load(folder / "map.ldm")


def runs_of(folder):
    """Return the rows of both files, and which each is of."""
    parts = [np.loadtxt(folder / f"bare{place}.csv", delimiter=",", skiprows=1) for place in range(2)]
    return np.concatenate(parts), np.repeat([0, 1], [len(part) for part in parts])


def kinetics(folder, *options, files=("run0.csv", "run1.csv")):
    inputs = [str(folder / name) for name in files]
    return main(["kinetics", str(folder / "map.ldm"), *inputs, "-f", "-o", str(folder / "out.ldm"), *options])


@pytest.mark.parametrize(("given", "rows"), [("0.25s", 5), ("0.25", 5), ("5rows", 5), ("0.0025 min", 3)])
def test_lags_have_units(folder, model, given, rows, capsys):
    assert kinetics(folder, "--lag", given, "--modes", "1", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["unit"] == "s"
    assert facts["lag"] == pytest.approx(rows * SPACING)
    points, runs = runs_of(folder)
    truth = model.slow_modes(points, lag=rows, n_modes=1, runs=runs)
    np.testing.assert_allclose(facts["timescales"], SPACING * truth.timescales_, rtol=1e-6)
    found = ldmaps.load(folder / "out.ldm")
    assert found.coordinate_names_ == ["slow1"]
    np.testing.assert_allclose(
        found.transform(points[:50]), truth.transform(points[:50]), rtol=1e-5, atol=1e-7
    )


def test_lags_of_files_without_times_are_in_rows(folder, capsys):
    bare = ("bare0.csv", "bare1.csv")
    assert kinetics(folder, "--lag", "5rows", "--json", files=bare) == 0
    assert json.loads(capsys.readouterr().out)["unit"] == "rows"
    assert kinetics(folder, "--lag", "5ps", files=bare) == 1
    assert "it has no times: use rows" in capsys.readouterr().err


def test_what_a_lag_may_look_like():
    assert lag(" 1.5e2 ns") == (150.0, "ns")
    assert lag("10") == (10.0, "")


def test_time_scales_are_drawn_and_told(folder, capsys):
    pytest.importorskip("matplotlib")
    assert kinetics(folder, "--lag", "0.1", "--plot", str(folder / "times.svg")) == 0
    told = capsys.readouterr().err
    for words in (
        "slow1: time scale",
        "95 % interval",
        "chosen on held-out blocks",
        "Chapman-Kolmogorov check",
    ):
        assert words in told
    assert "autocorrelation after 5 lags, found (predicted): slow1 0." in told
    picture = (folder / "times.svg").read_text()
    assert "implied time scale (s)" in picture
    assert "autocorrelation, and predicted from 0.1 s" in picture


@pytest.fixture(scope="module")
def sets(folder, model):
    """Return three ways to name the same two sets, and their arrays over the rows."""
    points, _ = runs_of(folder)
    psi = model.transform(points)[:, 0]
    low, high = np.quantile(psi, [0.2, 0.8]).tolist()
    boxes = {"left": Box({"psi2": (None, low)}), "right": Box({"psi2": (high, None)})}
    save_regions(folder / "sets.json", boxes)
    for name, mask in (("left", psi <= low), ("right", psi >= high)):
        rows = np.flatnonzero(mask)
        lines = [f"run{row // 4000}.csv,{row % 4000}" for row in rows]
        (folder / f"{name}.csv").write_text("\n".join(["file,frame", *lines]) + "\n")
    return {
        "regions": ["--regions", str(folder / "sets.json"), "--source", "left", "--target", "2"],
        "bounds": ["--source", f"psi2=:{low!r}", "--target", f"psi2={high!r}:"],
        "frames": ["--source", str(folder / "left.csv"), "--target", str(folder / "right.csv")],
        "masks": {"source": psi <= low, "target": psi >= high},
    }


@pytest.mark.parametrize("way", ["regions", "bounds", "frames"])
def test_committors_between_sets_however_these_are_named(folder, model, sets, way, capsys):
    points, runs = runs_of(folder)
    truth = model.committor(points, lag=2, runs=runs, **sets["masks"])
    assert kinetics(folder, "--learn", "committor", *sets[way], "--lag", "0.1s", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    found = ldmaps.load(folder / "out.ldm").transform(points)
    np.testing.assert_allclose(found, truth.transform(points), atol=1e-3)
    assert facts["rate"] == pytest.approx(truth.rate_ / SPACING, rel=1e-3)


def test_committors_between_basins_and_passage_times(folder, capsys):
    basins = ["--source", "basin 1", "--target", "2"]
    assert kinetics(folder, "--learn", "committor", *basins, "--lag", "0.1", "--name", "fold") == 0
    told = capsys.readouterr().err
    assert "committor fold from source" in told
    assert "rate from source to target" in told
    assert kinetics(folder, "--learn", "passage_time", *basins, "--lag", "0.1") == 0
    assert "from source:" in capsys.readouterr().err


def test_a_committor_without_a_lag_is_that_of_the_walk(folder, sets, capsys):
    assert kinetics(folder, "--learn", "committor", *sets["bounds"]) == 0
    assert "of the walk over the landmarks alone (alpha = 1/2)" in capsys.readouterr().err


def test_an_observable_is_matched_by_time(folder, model, capsys):
    only = ("run0.csv",)
    assert kinetics(folder, "--learn", "observable", "--values", str(folder / "COLVAR:dist"), files=only) == 0
    found = ldmaps.load(folder / "out.ldm")
    assert found.coordinate_names_ == ["dist"]
    points, _ = runs_of(folder)
    truth = model.function(points[:4000], points[:4000, 0], name="dist")
    np.testing.assert_allclose(found.transform(points[:100]), truth.transform(points[:100]), atol=1e-5)


def test_frames_of_the_transition_state(folder, sets, files, capsys):
    """With a trajectory, whose committor is that of the walk."""
    trajectory = [str(files["xtc"]), "-t", str(files["top"])]
    path, out = str(folder / "rmsd.ldm"), str(folder / "q.ldm")
    assert main(["fit", *trajectory, "-o", path, "--n-landmarks", "40", "-q", "-f"]) == 0
    psi = ldmaps.load(path).landmark_embedding_[:, 0]
    low, high = np.quantile(psi, [0.3, 0.7]).tolist()
    ends = ["--source", f"psi2=:{low!r}", "--target", f"psi2={high!r}:"]
    learn = ["kinetics", path, *trajectory, "--learn", "committor", *ends, "-o", out, "-f", "-q"]
    assert main(learn) == 0
    table, frames = folder / "q.csv", folder / "ts.pdb"
    assert main(["embed", out, *trajectory, "-o", str(table), "-f", "-q"]) == 0
    q = np.genfromtxt(table, delimiter=",", names=True)["q"]
    picked = ["--committor", "0.3..0.7", "-o", str(frames), "-f", "--json"]
    assert main(["frames", out, *trajectory, *picked]) == 0
    found = json.loads(capsys.readouterr().out)["frames"]
    assert [one["frame"] for one in found] == np.flatnonzero((q >= 0.3) & (q <= 0.7)).tolist()
    assert main(["frames", path, *trajectory, *picked]) == 1
    assert "--committor needs the map of a committor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--learn slow_modes needs --lag"),
        (["--learn", "committor", "--source", "1"], "--learn committor needs --target"),
        (["--lag", "1", "--source", "1"], "--source cannot be combined with --learn slow_modes"),
        (["--lag", "0.07"], "--lag 0.07 s is not a multiple of the 0.05 s between rows; use 0.05 or 0.1"),
        (["--learn", "passage_time", "--lag", "1", "--target", "lost"], "there is no set 'lost'"),
        (["--learn", "observable", "--values", "nowhere.csv:x"], "there is no table 'nowhere.csv:x'"),
        (["--lag", "0.1", "--plot", "times.jpeg"], "must end in one of"),
    ],
)
def test_what_cannot_be_done_is_said(folder, options, message, capsys):
    assert kinetics(folder, *options) == 1
    assert message in capsys.readouterr().err


def test_a_tolerance_leaves_few_landmarks_with_a_certificate(folder, tmp_path, capsys):
    points = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    np.savetxt(tmp_path / "rows.csv", points, delimiter=",", header="x,y", comments="")
    path, table, few = str(tmp_path / "map.ldm"), str(tmp_path / "rows.csv"), str(tmp_path / "x.ldm")
    LandmarkDiffusionMap(n_components=2, epsilon=0.1, n_landmarks=80).fit(points).save(path)
    learn = ["kinetics", path, table, "--learn", "observable", "--values", f"{table}:x", "-o", few]
    assert main([*learn, "--tolerance", "3"]) == 0
    assert "distilled from 80 onto" in capsys.readouterr().err
    assert ldmaps.load(few).certificate_.upper_bound <= 3


def test_a_function_is_learned_on_a_map_only(folder, capsys):
    assert kinetics(folder, "--lag", "0.1", "--modes", "1") == 0
    model = str(folder / "out.ldm")
    inputs = [str(folder / "run0.csv"), "-o", str(folder / "more.ldm")]
    assert main(["kinetics", model, *inputs, "--lag", "0.1"]) == 1
    assert "is a slow modes already; name the map that it was learned on" in capsys.readouterr().err
