"""Model files: round trips, and a clear word about every kind of broken file."""

from __future__ import annotations

import warnings
import zipfile

import numpy as np
import pytest
from archive_edits import edit_archive

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, __version__, load
from ldmaps.archive import read_archive
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError, LdmapsWarning, ModelFileError
from ldmaps.landmarks import KMedoids, PrunedSpanningTree
from ldmaps.maps.model_file import FORMAT_VERSION, OLDEST_MAJOR, read_header
from ldmaps.metrics import RMSD, EarthMover, Euclidean, Periodic

RNG = np.random.default_rng(0)
ROLL = swiss_roll(400, random_state=0).points
FRAMES = RNG.normal(size=(80, 5, 3)).astype(np.float32)


def manhattan(x, y):
    return float(np.abs(x - y).sum())


CASES = {
    "exact": (DiffusionMap(2, 9.0, alpha=0.5, diffusion_time=1.0), ROLL),
    "landmarks": (LandmarkDiffusionMap(2, 9.0, landmarks=KMedoids(40, init="random")), ROLL),
    "tree": (LandmarkDiffusionMap("gap", "coifman", landmarks=PrunedSpanningTree(), n_threads=1), ROLL / 3),
    "given": (LandmarkDiffusionMap(2, 16.0, landmarks=np.arange(0, 400, 7)), ROLL),
    "float32": (LandmarkDiffusionMap(2, 9.0, n_landmarks=40), ROLL.astype(np.float32)),
    "rmsd": (LandmarkDiffusionMap(2, "connected", metric="rmsd", n_landmarks=30), FRAMES),
    "rmsd-weighted": (
        LandmarkDiffusionMap(2, "connected", metric=RMSD(weights=np.arange(1.0, 6.0)), n_landmarks=30),
        FRAMES,
    ),
    "rmsd-aligned": (
        LandmarkDiffusionMap(2, "connected", metric=RMSD(superpose_on=[0, 1, 2]), n_landmarks=30),
        FRAMES,
    ),
    "hamming": (LandmarkDiffusionMap(2, "connected", metric="hamming"), RNG.integers(0, 3, (60, 12))),
    "earth-mover": (
        LandmarkDiffusionMap(2, "connected", metric=EarthMover(positions=np.arange(8.0) ** 1.5)),
        RNG.uniform(size=(50, 8)),
    ),
    "periodic": (LandmarkDiffusionMap(2, "connected", metric=Periodic(360.0)), RNG.uniform(0, 360, (60, 2))),
    "precomputed": (
        LandmarkDiffusionMap(2, 9.0, metric="precomputed", n_landmarks=50),
        Euclidean().pairwise(ROLL),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name, tmp_path):
    model, X = CASES[name]
    model.fit(X)
    model.units_ = "nm"
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    assert type(again) is type(model)
    new = X[:17]
    np.testing.assert_allclose(again.transform(new), model.transform(new), rtol=1e-6, atol=1e-9)
    assert again.transform(new).dtype == model.transform(new).dtype
    for before, after in zip(model.coverage(new), again.coverage(new), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    for attribute in ("eigenvalues_", "spectrum_", "landmark_indices_", "multiplicities_", "embedding_"):
        np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))
    assert (again.epsilon_, again.n_components_, again.units_) == (model.epsilon_, model.n_components_, "nm")
    assert again.n_features_in_ == model.n_features_in_
    assert repr(again.metric_) == repr(model.metric_)
    assert again.bandwidth_.rule == model.bandwidth_.rule
    assert str(again.get_params().keys()) == str(model.get_params().keys())
    again.save(tmp_path / "again.ldm")
    np.testing.assert_array_equal(load(tmp_path / "again.ldm").transform(new), again.transform(new))


def test_settings_survive_so_that_a_loaded_model_can_be_fitted_again(tmp_path):
    model, X = CASES["landmarks"]
    model.fit(X).save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    np.testing.assert_array_equal(again.fit(X).embedding_, model.embedding_)


@pytest.mark.parametrize(
    "limits", [None, Limits(), Limits(2e9, max_passes=3), Limits(np.float64(2e9), max_passes=np.int64(3))]
)
def test_limits_survive(limits, tmp_path):
    LandmarkDiffusionMap(2, 9.0, n_landmarks=40, limits=limits).fit(ROLL).save(tmp_path / "map.ldm")
    assert load(tmp_path / "map.ldm").limits == limits


def test_a_file_neither_holds_nor_sets_a_path_to_write_to(saved, tmp_path):
    limits = Limits(max_passes=3, resume=tmp_path / "state.npz")
    LandmarkDiffusionMap(2, 9.0, n_landmarks=40, limits=limits).fit(ROLL).save(saved)
    settings = read_header(saved)["settings"]
    assert settings["limits"] == {"__limits__": {"memory": 4e9, "max_passes": 3}}
    settings["limits"]["__limits__"]["resume"] = "/etc/passwd"
    edit_header(saved, settings=settings)
    assert load(saved).limits == Limits(max_passes=3)


def test_files_of_version_3_0_name_limits_one_by_one(saved):
    settings = read_header(saved)["settings"]
    del settings["limits"]
    settings |= {"memory_limit": 2e9, "max_passes": 3, "resume": "state.npz"}
    edit_header(saved, settings=settings, format_version=[3, 0])
    again = load(saved)
    assert again.limits is None
    assert again.fit(ROLL).transform(ROLL[:2]).shape == (2, 2)


def test_the_dimension_of_a_bandwidth_may_be_missing(saved):
    edit_header(saved, bandwidth={"rule": "given"})
    assert load(saved).bandwidth_.dimension is None


def test_without_the_embedding_the_size_depends_on_landmarks_alone(tmp_path):
    sizes = []
    for n in (1000, 4000):
        X = swiss_roll(n, random_state=0).points
        model = LandmarkDiffusionMap(2, 9.0, n_landmarks=100, calibration=0).fit(X)
        model.save(tmp_path / "map.ldm", include_embedding=False)
        sizes.append((tmp_path / "map.ldm").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 1000
    assert not hasattr(load(tmp_path / "map.ldm"), "embedding_")


def test_header_tells_what_the_file_is(tmp_path):
    model, X = CASES["rmsd-weighted"]
    model.fit(X).save(tmp_path / "map.ldm")
    header = read_header(tmp_path / "map.ldm")
    assert header["format_version"] == list(FORMAT_VERSION)
    assert header["library_version"] == __version__
    assert header["metric"]["__metric__"] == "rmsd"
    assert header["epsilon"] == model.epsilon_


def test_a_function_must_be_passed_again(tmp_path):
    model = LandmarkDiffusionMap(2, "connected", metric=manhattan, n_landmarks=30).fit(ROLL[:60])
    model.save(tmp_path / "map.ldm")
    with pytest.raises(InvalidInputError, match=r"metric=function|pass the function"):
        load(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm", metric=manhattan)
    np.testing.assert_allclose(again.transform(ROLL[60:70]), model.transform(ROLL[60:70]))
    with pytest.raises(InvalidInputError, match="was fitted with metric"):
        load(tmp_path / "map.ldm", metric="euclidean")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "map.ldm"
    LandmarkDiffusionMap(2, 9.0, n_landmarks=60).fit(ROLL).save(path)
    return path


def edit_header(path, **changes):
    edit_archive(path, header=changes)


def test_every_truncation_is_noticed(saved):
    whole = saved.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="cut off|damaged|not an ldmaps"):
            load(saved)


def test_every_flipped_byte_is_noticed_or_harmless(saved):
    reference = load(saved).transform(ROLL[:9])
    whole = bytearray(saved.read_bytes())
    noticed = 0
    for place in np.random.default_rng(1).integers(0, len(whole), 150):
        damaged = whole.copy()
        damaged[place] ^= 0x55
        saved.write_bytes(damaged)
        try:
            again = load(saved)
        except ModelFileError:
            noticed += 1
        else:
            np.testing.assert_array_equal(again.transform(ROLL[:9]), reference)
    assert noticed > 100


def test_foreign_files(tmp_path):
    path = tmp_path / "map.ldm"
    path.write_text("hello")
    with pytest.raises(ModelFileError, match="not an ldmaps file"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "b")
    with pytest.raises(ModelFileError, match="zip file but not an ldmaps file"):
        load(path)
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(tmp_path / "missing.ldm")


def test_newer_major_version_asks_for_an_upgrade(saved):
    edit_header(saved, format_version=[FORMAT_VERSION[0] + 1, 0], library_version="9.9")
    with pytest.raises(ModelFileError, match=r"written by ldmaps 9\.9.*upgrade ldmaps"):
        load(saved)


def test_newer_minor_version_is_read(saved):
    edit_header(saved, format_version=[FORMAT_VERSION[0], 99], something_new=1)
    assert load(saved).transform(ROLL[:2]).shape == (2, 2)


def test_an_older_major_version_asks_for_another_fit(saved):
    edit_header(saved, format_version=[OLDEST_MAJOR - 1, 1], library_version="0.1")
    with pytest.raises(ModelFileError, match=r"written by ldmaps 0\.1.*fit and save the map again"):
        load(saved)


@pytest.mark.parametrize("version", [[True, 1], [2], "2.0", [2, "0"], None, [2, 0, 0], [2.0, 0]])
def test_versions_that_are_none(saved, version):
    edit_header(saved, format_version=version)
    with pytest.raises(ModelFileError, match="no readable format version"):
        load(saved)


@pytest.mark.parametrize("name", ["ldmaps outside", "", None, 1, ["ldmaps model"]])
def test_a_file_of_another_format_is_no_model(saved, name):
    """An archive of ours, whole and signed, that says it is something else."""
    edit_header(saved, format=name)
    for read in (load, read_header):
        with pytest.raises(ModelFileError, match="is not an ldmaps model"):
            read(saved)


def filled(value):
    """Return a change that puts a value into an array's first place."""

    def change(array):
        array = array.copy()
        array.flat[0] = value
        return array

    return change


NOT_FINITE = (filled(np.nan), filled(np.inf), filled(-np.inf))
HOSTILE_ARRAYS = {
    "eigenvalues_": (*NOT_FINITE, filled(1.5), lambda a: a[:-1], lambda a: a.astype(np.float32)),
    "spectrum_": (*NOT_FINITE, filled(-2.0), lambda a: a[None], lambda a: a[:0], lambda a: a[:1]),
    "landmark_embedding_": (*NOT_FINITE, filled(5e153), lambda a: a.T, lambda a: a[:-1]),
    "landmark_indices_": (filled(-1), lambda a: a.astype(np.int32), lambda a: a.astype(np.float64)),
    "multiplicities_": (*NOT_FINITE, filled(-1.0), filled(0.0), lambda a: np.append(a, 1.0)),
    "embedder/source_weights": (
        *NOT_FINITE,
        filled(-0.1),
        filled(0.0),
        filled(1.1),
        np.zeros_like,
        lambda a: a[:-1],
        lambda a: a.astype(np.float32),
    ),
    "embedder/coefficients": (*NOT_FINITE, filled(1.7e308), lambda a: a.T, lambda a: a.astype(np.float32)),
    "embedder/squared_radii": (*NOT_FINITE, filled(-1.0), lambda a: a.astype(np.float32)),
    "bandwidth/curve_sums": (lambda a: np.ones(3),),
    "embedding_": (
        *NOT_FINITE,
        filled(5e153),
        lambda a: a[:, :1],
        lambda a: a.astype(np.int64),
        lambda a: a[:-1],
    ),
    "training/rows": (
        filled(-1),
        filled(400),
        lambda a: a + 1,
        lambda a: a[::-1],
        np.zeros_like,
        lambda a: a[:-1],
        lambda a: a.astype(np.int32),
    ),
    "training/distance": (*NOT_FINITE, filled(-1.0)),
    "training/nearest": (filled(60), filled(-1)),
    "landmarks/values": (*NOT_FINITE, lambda a: a[:-1], lambda a: a.astype(np.float32), lambda a: a[0]),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name, changes in HOSTILE_ARRAYS.items() for place in range(len(changes))],
)
def test_values_that_make_no_map_are_refused(saved, name, place):
    """The file is whole and signed; what is in it would give NaN, or read beyond an array in compiled code."""
    _, arrays = read_archive(saved)
    edit_archive(saved, arrays={name: HOSTILE_ARRAYS[name][place](arrays[name])})
    with pytest.raises(ModelFileError, match=r"damaged|landmark"):
        load(saved)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        *(("epsilon", value) for value in (0, -9.0, 1e301, "1", None, True, [1.0])),
        *(("interpolation_bandwidth", value) for value in (0, -9.0, None)),
        *(("n_components", value) for value in (0, 3, 1.5, True, "2", 10**12)),
        *(("n_landmarks", value) for value in (0, 59, -60)),
        *(("n_features_in", value) for value in (0, -1, "3", None)),
        ("feature_names_in", ["a"]),
        ("feature_names_in", "abc"),
        ("bandwidth", {}),
        ("bandwidth", {"rule": 1, "dimension": None}),
        ("certificate", {"tolerance": 1.0}),
        ("units", 5),
        ("source", []),
        ("settings", []),
        ("estimator", ["DiffusionMap"]),
        ("metric", {"__metric__": "os.system", "parameters": {}}),
        ("metric", {"__metric__": ["euclidean"], "parameters": {}}),
        ("metric", {"__metric__": "euclidean", "parameters": {"no_such": 1}}),
        ("metric", {"__metric__": "euclidean"}),
        ("settings", {"landmarks": {"__selector__": "kmedoids", "settings": {"no_such": 1}}}),
        ("settings", {"limits": {"__limits__": [4e9]}}),
        ("settings", {"landmarks": {"__array__": [1, "x"], "dtype": "int64"}}),
        ("settings", {"landmarks": {"__array__": [1], "dtype": "object"}}),
        ("settings", {"landmarks": {"__array__": [1], "dtype": "no dtype"}}),
        ("settings", {"landmarks": [{"__array__": [0], "dtype": "(250000,)f8"}] * 4}),
        ("settings", {"landmarks": {"__array__": [0], "dtype": ["float64"]}}),
    ],
)
def test_headers_that_describe_no_map_are_refused(saved, entry, value):
    edit_header(saved, **{entry: value})
    with pytest.raises(ModelFileError, match=r"damaged|does not know"):
        load(saved)


@pytest.mark.parametrize(
    "name", ["exact", "landmarks", "rmsd", "rmsd-aligned", "hamming", "periodic", "precomputed"]
)
def test_no_array_may_be_missing_renamed_or_misshapen(name, tmp_path):
    model, X = CASES[name]
    path = tmp_path / "map.ldm"
    model.fit(X).save(path)
    whole = path.read_bytes()
    for member, array in read_archive(path)[1].items():
        if member not in ("embedding_",) and not member.startswith("training/"):
            edit_archive(path, arrays={member: None})
            with pytest.raises(ModelFileError, match="lacks|cannot be read"):
                load(path)
            path.write_bytes(whole)
        edit_archive(path, arrays={member: None, f"{member}x": array})
        with pytest.raises(ModelFileError, match=r"is not part of the model format|cannot be read|lacks"):
            load(path)
        path.write_bytes(whole)
        edit_archive(path, arrays={member: array[None]})
        with pytest.raises(ModelFileError, match=r"shape|cannot be read"):
            load(path)
        path.write_bytes(whole)


def test_training_points_that_a_file_does_not_hold_are_refused(saved):
    edit_archive(saved, arrays={"embedding_": None})
    with pytest.raises(ModelFileError, match="lacks their coordinates"):
        load(saved)


@pytest.mark.parametrize("align", [None, [0, 1, 2]])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1e10])
def test_frames_of_another_size_than_their_moments_say_are_refused(tmp_path, align, factor):
    model = LandmarkDiffusionMap(2, "connected", metric=RMSD(superpose_on=align), n_landmarks=30).fit(FRAMES)
    path = tmp_path / "map.ldm"
    model.save(path)
    moments = read_archive(path)[1]["landmarks/moments"]
    for row in range(len(moments[:2])):  # the squared norm, and its root
        model.save(path)
        forged = moments.copy()
        forged[row] *= factor
        edit_archive(path, arrays={"landmarks/moments": forged})
        with pytest.raises(ModelFileError, match="moments are not those of their coordinates"):
            load(path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-20, 1.0, 1e15])
def test_frames_of_any_size_come_back(dtype, size):
    for metric in (RMSD(), RMSD(superpose_on=[0, 1, 2])):
        points = metric.prepare((size * FRAMES[:9]).astype(dtype))
        again = metric.import_points(metric.export_points(points))
        np.testing.assert_array_equal(again.moments, points.moments)


def test_landmarks_of_next_to_no_weight_are_saved_and_embed(tmp_path):
    # In single precision a weight of 1e-60 would be 0, and a point nearest to that landmark would have no coordinates.
    rows = np.concatenate([RNG.normal(size=(200, 2)), [[9.0, 9.0]]]).astype(np.float32)
    weights = np.append(np.ones(200), 1e-60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        model = LandmarkDiffusionMap(2, 25.0, landmarks=[*range(0, 200, 10), 200], calibration=0).fit(
            rows, sample_weight=weights
        )
        model.save(tmp_path / "map.ldm")
        for one in (model, load(tmp_path / "map.ldm")):
            assert np.isfinite(one.transform(np.array([[9.0, 9.0], [1e4, 1e4]], np.float32))).all()


@pytest.mark.parametrize("entry", ["epsilon", "interpolation_bandwidth"])
@pytest.mark.parametrize("value", [1e153, 1e39, 1e-39, 1e-160])
def test_widths_are_numbers_in_the_precision_of_the_map(saved, entry, value, tmp_path):
    if value in (1e39, 1e-39):  # which a map in double precision may have
        edit_header(saved, **{entry: value})
        load(saved)
    single = tmp_path / "single.ldm"
    LandmarkDiffusionMap(2, 16.0, n_landmarks=60).fit(ROLL.astype(np.float32)).save(single)
    edit_header(single, **{entry: value})
    with pytest.raises(ModelFileError, match="too small or too large for a map in float32"):
        load(single)


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        (EarthMover(), filled(2.0)),
        (EarthMover(), filled(-0.1)),
        (EarthMover(ground_distance=1.0 - np.eye(4)), filled(2.0)),
        (EarthMover(ground_distance=1.0 - np.eye(4)), lambda a: 0.5 * a),
    ],
)
def test_stored_histograms_must_add_up_to_one(metric, change):
    histograms = np.random.default_rng(0).random((30, 4)) + 0.1
    stored = metric.export_points(metric.prepare(histograms))
    assert len(metric.import_points(stored)) == 30
    with pytest.raises(InvalidInputError, match="not shares that add up to 1"):
        metric.import_points({"values": change(stored["values"])})


@pytest.mark.parametrize(
    "metric",
    [
        Periodic(1e30),
        Periodic(1e-320),
        Periodic([1.0, 1e30, 1.0, 1.0]),
        EarthMover([0.0, 1.0, 2.0, 1e30]),
        EarthMover(ground_distance=1e30 * (1.0 - np.eye(4))),
    ],
)
def test_lengths_whose_squares_overflow_are_refused(metric):
    with pytest.raises(InvalidInputError, match=r"at most 1e\+15"):
        metric.prepare(np.ones((2, 4)))


def test_atoms_of_vanishing_weight_are_refused():
    with pytest.raises(InvalidInputError, match="weights must be 0 or at least 1e-24 of their sum"):
        RMSD(weights=[1.0, 1.0, 1e-320]).prepare(FRAMES[:, :3])
    RMSD(weights=np.full(3, 1e308)).prepare(FRAMES[:, :3])


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    whole = saved.read_bytes()
    monkeypatch.setattr(
        "zipfile.ZipFile.writestr", lambda *args, **kwargs: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        LandmarkDiffusionMap(2, 9.0, n_landmarks=60).fit(ROLL).save(saved)
    assert saved.read_bytes() == whole
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_saving_needs_a_fitted_model(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        DiffusionMap().save(tmp_path / "map.ldm")
