"""Weights find their points by file and frame, by time, or by order, and reach the fit and the report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

import ldmaps
import ldmaps.inputs
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError

KT = 2.494


@pytest.fixture(scope="module")
def bias():
    trajectory = mdtraj_trajectory()
    return 3.0 * np.sin(0.3 * np.arange(len(trajectory))) ** 2, trajectory.time


@pytest.fixture
def colvar(tmp_path, bias):
    """A row per half step, so that only times tell which rows are meant, and a restart that repeats rows."""
    energies, times = bias
    fine = np.linspace(times[0], times[-1], 2 * len(times) - 1)
    rbias = np.interp(fine, times, energies)
    lines = ["#! FIELDS time phi metad.rbias", "#! SET min_phi -pi"]
    lines += [f" {time:.6f} 0.1 -99.0" for time in fine[-3:]]  # what the restart below writes again
    lines += ["#! FIELDS time phi metad.rbias"]
    lines += [f" {time:.6f} 0.1 {value:.6f}" for time, value in zip(fine, rbias, strict=True)]
    path = tmp_path / "COLVAR"
    path.write_text("\n".join(lines) + "\n")
    return path


def opened(files, **settings):
    return ldmaps.inputs.open_files(files["xtc"], top=files["top"], **settings)


def test_a_colvar_is_matched_by_time(files, colvar, bias):
    weights = opened(files, weights=f"{colvar}:metad.rbias", kt=KT).read().weights
    expected = np.exp(bias[0] / KT)
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-4)
    strided = opened(files, weights=f"{colvar}:metad.rbias", kt=KT, stride=7, start=3).read().weights
    np.testing.assert_allclose(strided, expected[3::7] / expected[3::7].mean(), rtol=1e-4)


def test_weights_reach_fit_file_and_report(files, colvar, bias, tmp_path, capsys):
    model = str(tmp_path / "map.ldm")
    fit = ["fit", str(files["xtc"]), "-t", str(files["top"]), "--n-components", "2", "-m", "30", "-o", model]
    assert main([*fit, "--weights", f"{colvar}:metad.rbias", "--kt", str(KT), "--json"]) == 0
    expected = np.exp(bias[0] / KT)
    expected /= expected.mean()
    said = json.loads(capsys.readouterr().out)
    assert said["total_weight"] == pytest.approx(len(expected), rel=1e-5)
    again = ldmaps.load(model)
    np.testing.assert_allclose(again.training_.weights, expected, rtol=1e-4)
    by_hand = ldmaps.LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=30, random_state=0).fit(
        opened(files), sample_weight=again.training_.weights
    )
    np.testing.assert_allclose(again.eigenvalues_, by_hand.eigenvalues_, rtol=1e-5)

    from ldmaps.analysis.free_energy import free_energy_surface
    from ldmaps.analysis.report.contents import gather

    shown = gather(again)
    np.testing.assert_allclose(shown.points.weights, expected, rtol=1e-4)
    surface = free_energy_surface(shown.points.coordinates[:, [0, 1]], expected)
    np.testing.assert_allclose(shown.surfaces[0, 1].energy, surface.energy, rtol=1e-3, atol=1e-5)

    assert main([*fit, "-f", "--weights", f"{colvar}:metad.rbias", "--kt", str(KT)]) == 0
    worth = expected.sum() ** 2 / (expected**2).sum()
    assert f"weights: effective sample size {worth:.0f} of {len(expected)} points" in capsys.readouterr().err


def test_a_given_sample_weight_comes_first(files, colvar):
    source = opened(files, weights=f"{colvar}:metad.rbias", kt=KT)
    ones = np.ones(source.n_frames)
    model = ldmaps.LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=30).fit(source, sample_weight=ones)
    assert model.training_.weights is None


@pytest.mark.parametrize("suffix", ["csv", "npy", "dat"])
def test_one_row_per_point_in_order(files, tmp_path, suffix):
    given = np.random.default_rng(0).random(101)
    path = tmp_path / f"weights.{suffix}"
    if suffix == "npy":
        np.save(path, given)
    else:
        path.write_text("\n".join([*(["w"] if suffix == "csv" else []), *map(repr, given.tolist())]))
    np.testing.assert_array_equal(opened(files, weights=str(path)).read().weights, given)
    with pytest.raises(
        InvalidInputError, match=r"\(101 rows\) cannot be matched to 51 points.* file and frame"
    ):
        opened(files, weights=str(path), stride=2).read()


def test_rows_of_embed_are_matched_by_file_and_frame(files, tmp_path):
    """In whatever order they stand, and where both files have the same frames and times."""
    given = np.random.default_rng(0).random((2, 101))
    inputs = [str(files["xtc"]), str(files["trr"])]
    rows = [(name, frame, given[place, frame]) for place, name in enumerate(inputs) for frame in range(101)]
    lines = [f"{name},{frame},,{weight!r}" for name, frame, weight in reversed(rows)]
    (tmp_path / "psi.csv").write_text("\n".join(["file,frame,time,weight", *lines]).replace("np.float64", ""))
    text = (tmp_path / "psi.csv").read_text().replace("(", "").replace(")", "")
    (tmp_path / "psi.csv").write_text(text)
    settings = {"top": files["top"], "weights": str(tmp_path / "psi.csv"), "stride": 3}
    weights = ldmaps.inputs.open_files(inputs, **settings).read().weights
    np.testing.assert_array_equal(weights, given[:, ::3].ravel())
    (tmp_path / "psi.csv").write_text(text.replace(f"{inputs[1]},6,", f"{inputs[1]},1006,"))
    with pytest.raises(InvalidInputError, match=r"no row for frame 6 of .*trr \(1 of 68 points have none\)"):
        ldmaps.inputs.open_files(inputs, **settings).read()


def test_a_column_of_the_table_is_no_feature(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.random((40, 3))
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="x,w,y", comments="")
    np.savetxt(tmp_path / "b.csv", rows[:20], delimiter=",", header="x,w,y", comments="")
    inputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    source = ldmaps.inputs.open_files(inputs, weights="w", stride=2)
    read = source.read()
    np.testing.assert_allclose(read.weights, np.concatenate([rows[::2, 1], rows[:20:2, 1]]))
    assert source.columns == ["x", "y"]
    np.testing.assert_allclose(read.frames[:20], rows[::2][:, [0, 2]])
    # By number, where columns have no names.
    np.save(tmp_path / "a.npy", rows)
    read = ldmaps.inputs.open_files(tmp_path / "a.npy", weights="2").read()
    np.testing.assert_array_equal(read.weights, rows[:, 1])
    np.testing.assert_array_equal(read.frames, rows[:, [0, 2]])
    with pytest.raises(InvalidInputError, match="has no column 'v'; its columns are: x, w, y"):
        ldmaps.inputs.open_files(inputs, weights="v")


def test_weights_may_be_a_path(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((40, 3)))
    given = np.random.default_rng(1).random(40)
    np.save(tmp_path / "weights.npy", given)
    read = ldmaps.inputs.open_files(tmp_path / "rows.npy", weights=tmp_path / "weights.npy").read()
    np.testing.assert_array_equal(read.weights, given)


def test_mistakes_are_explained(files, colvar, tmp_path):
    with pytest.raises(
        InvalidInputError, match=r"column metad.rbias .* holds bias energies by its name.*kt=2.494"
    ):
        opened(files, weights=f"{colvar}:metad.rbias")
    with pytest.raises(InvalidInputError, match=r"several columns \(time, phi, metad.rbias\); name one"):
        opened(files, weights=str(colvar), kt=KT)
    with pytest.raises(InvalidInputError, match=r"no column 'nope'; its columns are: time, phi, metad.rbias"):
        opened(files, weights=f"{colvar}:nope", kt=KT)
    with pytest.raises(InvalidInputError, match="there is no file 'missing' with weights"):
        opened(files, weights="missing")
    with pytest.raises(InvalidInputError, match=r"kt=2.494 is used only with weights"):
        opened(files, kt=KT)
    with pytest.raises(InvalidInputError, match=r"kt must be a number above 0"):
        opened(files, weights=f"{colvar}:metad.rbias", kt=-1.0)
    np.save(tmp_path / "w.npy", np.linspace(-1, 1, 101))
    with pytest.raises(InvalidInputError, match=r"must not be negative, got -1; if these are bias energies"):
        opened(files, weights=str(tmp_path / "w.npy")).read()
    np.save(tmp_path / "w.npy", np.where(np.arange(101) == 7, np.nan, 1.0))
    with pytest.raises(InvalidInputError, match=r"row 7: nan is not finite"):
        opened(files, weights=str(tmp_path / "w.npy")).read()
    text = colvar.read_text().splitlines()
    colvar.write_text("\n".join(text[:40]))
    last = float(text[39].split()[0])
    with pytest.raises(
        InvalidInputError, match=rf"has no row at .* ps, the time of frame \d+; the nearest is {last:g} "
    ):
        opened(files, weights=f"{colvar}:metad.rbias", kt=KT).read()


def test_rows_without_file_names_are_matched_by_frame_where_there_is_one_file(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    np.save(tmp_path / "rows.npy", rows)
    weights = np.arange(1.0, 21.0)
    order = np.random.default_rng(1).permutation(20)
    lines = [f"{frame},{weights[frame]}" for frame in order]
    (tmp_path / "weights.csv").write_text("\n".join(["frame,weight", *lines]))
    given = str(tmp_path / "weights.csv")
    read = ldmaps.inputs.open_files(tmp_path / "rows.npy", weights=given, stride=3).read()
    np.testing.assert_array_equal(read.weights, weights[::3])
    # Of several files frames alone do not say which is meant; rows are then in the order of the points.
    np.save(tmp_path / "more.npy", rows)
    paths = [tmp_path / "rows.npy", tmp_path / "more.npy"]
    with pytest.raises(InvalidInputError, match=r"\(20 rows\) cannot be matched to 40 points"):
        ldmaps.inputs.open_files(paths, weights=given).read()
    # A frame that has no row is named.
    (tmp_path / "weights.csv").write_text("\n".join(["frame,weight", *lines[:-1]]))
    with pytest.raises(
        InvalidInputError, match=rf"no row for frame {order[-1]} of .*rows\.npy \(1 of 20 points"
    ):
        ldmaps.inputs.open_files(tmp_path / "rows.npy", weights=given).read()


@pytest.mark.parametrize("are_dates", [False, True])
def test_rows_of_tables_are_matched_by_dates(tmp_path, are_dates):
    """Seconds since 1970 are large numbers: neighbouring minutes differ by less than a millionth of them."""
    seconds = 1_700_000_000 + 60 * np.arange(30)
    written = np.datetime_as_string(seconds.astype("datetime64[s]")) if are_dates else seconds.astype(str)
    weights, order = np.arange(1.0, 31.0), np.random.default_rng(0).permutation(30)
    values = np.random.default_rng(1).normal(size=30)
    rows = [f"{time},{value}" for time, value in zip(written, values, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["time,x", *rows]))
    lines = [f"{written[row]},{weights[row]}" for row in order]
    given = tmp_path / "weights.csv"
    given.write_text("\n".join(["time,weight", *lines]))
    read = ldmaps.inputs.open_files(tmp_path / "rows.csv", weights=str(given)).read()
    np.testing.assert_array_equal(read.weights, weights)
    given.write_text("\n".join(["time,weight", *(line for line in lines if not line.startswith(written[4]))]))
    missing = (
        r"has no row at 2023-11-14 22:17:20 UTC, the time of row 4; the nearest is 2023-11-14 .* to rows"
    )
    with pytest.raises(InvalidInputError, match=missing):
        ldmaps.inputs.open_files(tmp_path / "rows.csv", weights=str(given)).read()


def test_times_of_tables_are_in_seconds(tmp_path):
    (tmp_path / "rows.csv").write_text(
        "\n".join(["time,x", *(f"{0.5 * row},{row % 7}" for row in range(30))])
    )
    given = tmp_path / "weights.csv"
    given.write_text("\n".join(["time,weight", *(f"{0.5 * row},1" for row in range(29))]))
    with pytest.raises(
        InvalidInputError, match=r"no row at 14\.5 s, the time of row 29; the nearest is 14 s \(1 of 30 rows"
    ):
        ldmaps.inputs.open_files(tmp_path / "rows.csv", weights=str(given)).read()
    given.write_text("\n".join(["time,weight", *(f"noon {row},1" for row in range(30))]))
    with pytest.raises(InvalidInputError, match=r"column time: .*'noon 0'; write numbers, or dates such as"):
        ldmaps.inputs.open_files(tmp_path / "rows.csv", weights=str(given)).read()
