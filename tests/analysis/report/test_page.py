"""The page as text: complete in itself, safe, of bounded size, and with the right numbers in it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.analysis.report import page as page_module
from ldmaps.analysis.report.charts import nice_ticks
from ldmaps.analysis.report.contents import gather
from ldmaps.analysis.report.page import PALETTES, SCRIPTS, asset, palette, report_html, write_report
from ldmaps.analysis.report.structures import elements_from_masses, landmark_structures
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import RMSD
from ldmaps.regions import find_basins

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u2028"
TYPES = {"f4": "<f4", "f8": "<f8", "u1": "u1", "u2": "<u2", "u4": "<u4", "i2": "<i2"}


class Reader(HTMLParser):
    """Collects elements, attributes and the text of scripts, and checks that tags are closed in order."""

    VOID = frozenset({"meta", "input", "br", "img", "link", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    return reader


def payload(text: str) -> dict:
    return json.loads(read(text).scripts[0])


def unpack(entry) -> np.ndarray:
    if entry["type"] == "linear":
        return entry["start"] + entry["step"] * np.arange(entry["n"])
    return np.frombuffer(base64.b64decode(entry["data"]), dtype=TYPES[entry["type"]])


@pytest.fixture(scope="module")
def page(molecule_page):
    return molecule_page.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_anywhere(page):
    # The namespace of SVG is a name, not an address that anything fetches.
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "@import" not in page
    assert not re.findall(r"url\((?!data:)", page)
    for tag, attributes in read(page).tags:
        assert tag not in {"link", "iframe", "img", "object", "embed"}
        assert not {"src", "href", "srcset"} & set(attributes)
    (policy,) = [a["content"] for t, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_the_policy_lets_exactly_our_script_run(page):
    import hashlib

    data, script = read(page).scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert data.startswith("{")


def test_points_round_trip(page, molecule_map, molecule):
    data = payload(page)
    found = np.column_stack([unpack(entry) for entry in data["coordinates"]])
    np.testing.assert_array_equal(found, molecule_map.embedding_.astype(np.float32))
    fields = {entry["key"]: entry for entry in data["fields"]}
    np.testing.assert_allclose(unpack(fields["frame"]["values"]), 50 * np.arange(len(molecule)))
    np.testing.assert_allclose(unpack(fields["time"]["values"]), molecule.times / 1000, rtol=1e-6)  # in ns
    assert fields["time"]["unit"] == "ns"
    coverage = molecule_map.coverage(molecule.frames)
    np.testing.assert_allclose(unpack(fields["distance"]["values"]), coverage.distance, atol=1e-4)


def test_landmarks_come_largest_first_with_their_frames(page, molecule_map):
    marks = payload(page)["landmarks"]
    number, counts = unpack(marks["number"]), unpack(marks["multiplicity"])
    assert (np.diff(counts) <= 0).all()
    np.testing.assert_array_equal(counts, molecule_map.multiplicities_[number])
    np.testing.assert_array_equal(unpack(marks["frame"]), 50 * molecule_map.landmark_indices_[number])
    np.testing.assert_array_equal(unpack(marks["point"]), molecule_map.landmark_indices_[number])


def test_nearest_landmarks_are_named_by_their_place_on_the_page(page, molecule_map):
    data = payload(page)
    number = unpack(data["landmarks"]["number"])
    np.testing.assert_array_equal(number[unpack(data["nearest"])], molecule_map.training_.nearest)


def test_every_pair_of_coordinates_has_a_surface(page):
    pairs = [tuple(entry["pair"]) for entry in payload(page)["energies"]]
    assert pairs == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("place", ["title", "column", "file"])
def test_text_from_users_stays_text(roll_map, roll, place):
    n = len(roll.points)
    shown = {"points": roll_map.embedding_, "frames": np.arange(n)}
    if place == "title":
        shown["title"] = NASTY
    if place == "column":
        shown["columns"] = {NASTY: np.arange(n)}
    if place == "file":
        shown["files"] = [NASTY] * n
    text = report_html(roll_map, **shown)
    reader = read(text)
    assert len(reader.scripts) == 2
    assert not [tag for tag, attributes in reader.tags if tag == "img" or "onerror" in attributes]
    # Not even "<!--<script " may stand there, after which a browser overlooks the end of the element.
    assert not set("<>&") & set(reader.scripts[0])
    if place != "title":
        assert NASTY in json.dumps(json.loads(reader.scripts[0]), ensure_ascii=False).replace('\\"', '"')


def test_names_from_a_model_file_stay_text(molecule_map):
    before = molecule_map.source_
    molecule_map.source_ = {
        "kind": "frames",
        "n_atoms": 22,
        "select": NASTY,
        "files": [NASTY],
        "atom_names": [NASTY] * 22,
    }
    try:
        reader = read(report_html(molecule_map))
    finally:
        molecule_map.source_ = before
    assert len(reader.scripts) == 2
    assert "img" not in [tag for tag, _ in reader.tags]


@pytest.mark.parametrize("place", ["notes", "facts", "subtitle", "unit", "rule", "version"])
def test_what_stands_above_the_map_stays_text(roll_map, monkeypatch, place):
    contents = gather(roll_map)
    if place == "notes":
        contents = replace(contents, notes=[NASTY])
    if place == "facts":
        contents = replace(contents, points=replace(contents.points, what=NASTY))
    if place == "subtitle":
        monkeypatch.setattr(type(roll_map.metric_), "name", NASTY)
    if place == "unit":
        monkeypatch.setattr(roll_map, "units_", NASTY)
    if place == "rule":
        bandwidth = replace(roll_map.bandwidth_, rule=NASTY)
        monkeypatch.setattr(roll_map, "bandwidth_", bandwidth)
    if place == "version":
        monkeypatch.setattr(page_module, "__version__", NASTY)
    monkeypatch.setattr(page_module, "gather", lambda model: contents)
    text = report_html(roll_map)
    reader = read(text)
    assert len(reader.scripts) == 2
    assert not [tag for tag, attributes in reader.tags if tag == "img" or "onerror" in attributes]
    assert "&lt;img" in text


def test_the_page_stays_small(page, roll_map, roll):
    base = len(report_html(roll_map))
    assert base < 160_000
    assert len(page) < 260_000
    # 100,000 points: two coordinates, distance, cell and a column at 4 bytes, a third more in base64; rows are a rule.
    rng = np.random.default_rng(0)
    points = rng.normal(size=(100_000, 2))
    text = report_html(
        roll_map,
        points=points,
        frames=np.arange(100_000),
        distance=rng.random(100_000),
        nearest=rng.integers(0, 120, 100_000),
        columns={"a": rng.random(100_000)},
    )
    assert len(text) - base < 1.02 * 5 * 4 * 100_000 * 4 / 3 + 100_000


def test_many_points_are_thinned_evenly(roll_map):
    rng = np.random.default_rng(0)
    text = report_html(
        roll_map, points=rng.normal(size=(5000, 2)), columns={"i": np.arange(5000)}, max_points=1000
    )
    data = payload(text)
    assert data["n"] == 1000
    found = unpack(data["fields"][-1]["values"])
    assert found[0] == 0
    assert found[-1] == 4999
    assert np.diff(found).max() <= 6
    assert "1,000 of 5,000 points are drawn" in text


def test_the_curve_of_the_log_log_rule_is_drawn(roll_map, page):
    text = report_html(roll_map)
    assert "d ln S / d ln ε" in text
    assert "The curves are λ₂ to λ₅ of the landmarks at other ε" in page
    assert "A typical point has 0.5 % of all points within √ε" in page


def test_the_summary_tells_the_numbers(page, molecule_map):
    assert f"{molecule_map.eigenvalues_[0]:.4f}" in page
    assert "Landmarks, M" in page
    assert "60 (kmedoids)" in page
    assert "estimated error" in page.lower()


def test_a_certificate_is_told(roll):
    model = LandmarkDiffusionMap(2, 9.0, tolerance=5.0).fit(roll.points)
    assert model.certificate_ is not None
    assert "certified, 95 % confidence" in report_html(model)


def test_a_model_file_carries_all_that_the_page_shows(molecule_map, tmp_path):
    molecule_map.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    assert report_html(again) == report_html(molecule_map)


def test_a_model_without_its_points_shows_landmarks(molecule_map, tmp_path):
    molecule_map.save(tmp_path / "small.ldm", include_embedding=False)
    text = report_html(load(tmp_path / "small.ldm"))
    data = payload(text)
    assert data["n"] == 0
    assert data["landmarks"]["n"] == 60
    assert data["energies"]
    assert "holds no training points" in text


def test_the_exact_map_and_a_single_coordinate():
    points = swiss_roll(300, random_state=1).points
    text = report_html(DiffusionMap(1, 25.0).fit(points))
    data = payload(text)
    assert len(data["coordinates"]) == 1
    assert data["energies"] == []
    assert "−ln p along ψ₂" in text
    assert data["structures"] is None


def test_sample_weights_shape_the_free_energy(roll):
    weights = np.where(roll.points[:, 1] < 10, 1.0, 20.0)
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=100, extension="nystrom")
    heavy = payload(report_html(model.fit(roll.points, sample_weight=weights)))["energies"][0]
    light = payload(report_html(model.fit(roll.points, sample_weight=np.ones(len(weights)))))["energies"][0]
    assert heavy["values"] != light["values"]


def test_the_documented_example_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[3] / "docs" / "guide" / "report.md").read_text(encoding="utf-8")
    example = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(example.replace("stride=10", "stride=40"), "report.md", "exec"), {"__name__": "report"})
    assert "Alanine dipeptide" in (tmp_path / "alanine.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", ["precomputed", "hamming", "function"])
def test_any_metric_has_a_page(roll, metric):
    points = roll.points[:200]
    if metric == "precomputed":
        data, settings = np.linalg.norm(points[:, None] - points, axis=2), {"epsilon": 36.0, "metric": metric}
    elif metric == "hamming":
        data = (points[:, :, None] > np.linspace(-10, 20, 12)).reshape(200, -1).astype(float)
        settings = {"epsilon": 0.1, "metric": metric}
    else:
        data, settings = points, {"epsilon": 36.0, "metric": lambda a, b: float(np.abs(a - b).sum())}
    model = LandmarkDiffusionMap(2, n_landmarks=60, extension="nystrom", **settings).fit(data)
    assert payload(report_html(model))["n"] == 200


# -- structures -------------------------------------------------------------------


def centred(frame):
    return frame - frame.mean(axis=0)


@pytest.mark.parametrize("kind", ["equal", "masses", "some", "aligned"])
def test_structures_have_the_shape_of_the_frames(molecule, kind):
    weights = {
        "equal": None,
        "masses": molecule.masses,
        "some": np.where(molecule.masses > 2, molecule.masses, 0.0),
    }
    metric = RMSD(superpose_on=molecule.heavy_atoms) if kind == "aligned" else RMSD(weights=weights[kind])
    model = LandmarkDiffusionMap(2, 0.02, metric, n_landmarks=20, extension="nystrom").fit(molecule.frames)
    model.units_ = "nm"
    shown = landmark_structures(model, np.arange(20), molecule)
    kept = molecule.heavy_atoms if kind == "some" else np.arange(22)
    assert shown.coordinates.shape == (20, len(kept), 3)
    for place, index in enumerate(model.landmark_indices_):
        found, true = (
            centred(shown.coordinates[place].astype(float)),
            centred(molecule.frames[index][kept].astype(float)),
        )
        u, _, vt = np.linalg.svd(found.T @ true)
        assert np.linalg.det(u @ vt) > 0  # the same hand
        np.testing.assert_allclose(found @ (u @ vt), true, atol=2e-5)


def test_bonds_and_elements_are_found_without_being_told(molecule, molecule_map):
    told = landmark_structures(molecule_map, np.arange(60), molecule)
    guessed = landmark_structures(molecule_map, np.arange(60))
    assert guessed.elements == told.elements == molecule.elements  # from the masses
    pairs = {tuple(sorted(pair)) for pair in molecule.bonds.tolist()}
    assert {tuple(sorted(pair)) for pair in guessed.bonds.tolist()} == pairs
    assert "guessed" in guessed.note


def test_angstroms_without_a_unit_are_recognised(molecule):
    metric = RMSD(weights=molecule.masses)
    model = LandmarkDiffusionMap(2, 2.0, metric, n_landmarks=20, extension="nystrom").fit(
        10 * molecule.frames
    )
    assert len(landmark_structures(model, np.arange(20)).bonds) == len(molecule.bonds)


def test_alpha_carbons_are_joined_by_a_line():
    rng = np.random.default_rng(0)
    helix = np.stack(
        [0.23 * np.cos(1.745 * np.arange(30)), 0.23 * np.sin(1.745 * np.arange(30)), 0.15 * np.arange(30)],
        axis=1,
    )
    frames = helix + 0.01 * rng.normal(size=(60, 30, 3))
    model = LandmarkDiffusionMap(2, 1.0, "rmsd", n_landmarks=10, extension="nystrom").fit(frames)
    shown = landmark_structures(model, np.arange(10))
    assert shown.is_trace
    assert shown.bonds.tolist() == [[i, i + 1] for i in range(29)]


def test_masses_of_united_atoms_are_carbon():
    assert elements_from_masses(np.array([15.035, 14.027, 1.008])).tolist() == ["C", "C", "H"]
    assert elements_from_masses(np.array([1.0, 5.0])) is None


def test_a_molecule_of_other_atoms_is_refused(molecule_map):
    with pytest.raises(InvalidInputError, match=r"3 elements, but the map was fitted on frames of 22 atoms"):
        report_html(molecule_map, molecule={"elements": ["C", "H", "H"]})


# -- refusals ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ({"points": np.zeros((5, 3))}, r"of shape \(n, 2\), got \(5, 3\); embed raw data"),
        ({"columns": {"a": [1.0, 2.0]}}, r"'a' needs one number per point, \(1500,\), got shape \(2,\)"),
        ({"columns": {"a": ["x"] * 15}}, "'a' needs one number per point"),
        ({"points": np.full((5, 2), np.nan)}, "points must be finite"),
        ({"max_points": 0}, "max_points must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input_is_refused_with_words(roll_map, shown, message):
    with pytest.raises(InvalidInputError, match=message):
        report_html(roll_map, **shown)


def test_a_failed_report_leaves_no_file(roll_map, tmp_path):
    with pytest.raises(InvalidInputError):
        write_report(roll_map, tmp_path / "page.html", columns={"a": [1.0]})
    assert not list(tmp_path.iterdir())


# -- pieces -----------------------------------------------------------------------


@pytest.mark.parametrize("name", PALETTES)
def test_palettes_are_those_of_matplotlib(name):
    colormaps = pytest.importorskip("matplotlib").colormaps
    ours = palette(name).astype(float)
    theirs = 255 * colormaps[name](np.linspace(0, 1, 256))[:, :3]
    assert np.abs(ours - theirs).max() < 16
    assert np.abs(ours - theirs).mean() < 2


@pytest.mark.parametrize("name", PALETTES)
def test_palettes_keep_their_order_in_grey(name):
    grey = palette(name) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(grey) > -0.5).all()


def test_ticks_are_round_and_inside():
    for low, high in ((0, 1), (-3.2, 7.7), (0.001, 0.0013), (0, 12345)):
        ticks = nice_ticks(low, high)
        assert 2 <= len(ticks) <= 7
        assert low <= ticks[0]
        assert ticks[-1] <= high


@pytest.mark.parametrize("most", [4, 5, 6, 8])
def test_ticks_are_never_too_many(most):
    for high in np.geomspace(1e-3, 1e4, 500):
        assert 2 <= len(nice_ticks(0.0, high, most)) <= most


def test_text_columns_are_colours(roll_map):
    shape = np.where(np.arange(1500) < 700, "helix", "coil")
    gappy = [None, "1.5"] * 750
    fields = {
        entry["label"]: entry
        for entry in payload(report_html(roll_map, columns={"shape": shape, "gappy": gappy}))["fields"]
    }
    assert fields["shape"]["texts"] == ["coil", "helix"]
    np.testing.assert_array_equal(unpack(fields["shape"]["values"]), shape == "helix")
    assert fields["gappy"]["texts"] == []
    assert np.isnan(unpack(fields["gappy"]["values"])[0])
    many = report_html(roll_map, columns={"name": [f"row {i}" for i in range(1500)]})
    assert "name" not in {entry["label"] for entry in payload(many)["fields"]}
    assert "The column name has 1,500 different texts, too many to colour by." in many


def test_points_are_inside_as_coverage_says(roll_map, roll):
    # Some are hardly inside, or hardly outside.
    points = roll.points[:1000] * np.linspace(1.0, 1.4, 1000)[:, None]
    coverage = roll_map.coverage(points)
    assert 0 < coverage.inside.sum() < 1000
    text = report_html(
        roll_map,
        points=roll_map.transform(points),
        distance=coverage.distance,
        nearest=coverage.nearest,
        files=["a.csv"] * 1000,
    )
    np.testing.assert_array_equal(unpack(payload(text)["inside"]), coverage.inside)
    assert f"<dd>{100 * coverage.inside.mean():.4g} %</dd><dt>inside the map</dt>" in text
    assert "<title>a.csv on a diffusion map</title>" in text


def test_a_landmark_of_a_table_shows_its_row(roll_map, roll):
    features = payload(report_html(roll_map))["landmarks"]["features"]
    assert [entry["label"] for entry in features] == ["column 1", "column 2", "column 3"]
    shown = np.column_stack([unpack(entry["values"]) for entry in features])
    number = unpack(payload(report_html(roll_map))["landmarks"]["number"]).astype(int)
    np.testing.assert_allclose(shown, roll.points[roll_map.landmark_indices_[number]], rtol=1e-5)


def test_crisp_basins_are_what_a_trajectory_opens_with(molecule_map):
    data = payload(report_html(molecule_map))
    crispness = find_basins(molecule_map).crispness
    assert data["opensWith"] == ("basin" if crispness >= 0.8 else "")
    field = next(entry for entry in data["fields"] if entry["key"] == "basin")
    labels = unpack(field["values"])
    chi = find_basins(molecule_map).memberships(molecule_map.embedding_)
    for place in range(len(field["texts"])):
        np.testing.assert_array_equal(labels == place, chi[:, place] >= 0.7)


def test_several_files_can_be_coloured(roll_map):
    files = np.repeat(["a/one.xtc", "b/two.xtc"], 750)
    data = payload(report_html(roll_map, files=files))
    field = next(entry for entry in data["fields"] if entry["key"] == "file")
    assert field["texts"] == ["a/one.xtc", "b/two.xtc"]
    np.testing.assert_array_equal(unpack(field["values"]), np.repeat([0, 1], 750))


@pytest.mark.parametrize("times", [np.zeros(1500), np.linspace(0, 7e-40, 1500), np.full(1500, np.nan)])
def test_times_of_files_that_have_none_are_not_shown(roll_map, times):
    data = payload(report_html(roll_map, times=times))
    assert "time" not in {entry["key"] for entry in data["fields"]}
    assert data["landmarks"]["time"] is None


def test_the_scripts_are_well_formed(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to check the scripts' grammar with; the browser tests run them")
    path = tmp_path / "script.js"
    path.write_text("\n".join(asset("report", name) for name in SCRIPTS), encoding="utf-8")
    subprocess.run([node, "--check", path], check=True, timeout=120)


def test_profiles_basins_and_correlations_are_on_the_page(molecule, molecule_map):
    from ldmaps.analysis import correlations
    from ldmaps.analysis.report.contents import gather

    columns = {"x & y": molecule.frames[:, 0, 0], "kind": np.array(["a", "b"])[np.arange(len(molecule)) % 2]}
    settings = {"columns": columns, "times": molecule.times}
    text = report_html(molecule_map, **settings)
    read(text)  # tags are closed
    assert text.count("<h2>Free energy along ") == min(3, molecule_map.n_components_)
    assert 'class="error"' in text
    shown = gather(molecule_map, **settings)
    found = correlations(molecule_map.embedding_, {"x & y": columns["x & y"]})["x & y"]
    np.testing.assert_allclose(shown.follows["x & y"], found, atol=1e-4)
    assert set(shown.follows) == {"Time", "x & y"}
    assert f"<th scope='row'>x &amp; y</th><td>{found[0]:.2f}</td>" in text
    basins = find_basins(molecule_map)
    np.testing.assert_allclose(shown.basins.basins.populations, basins.populations)
    assert shown.basins.transitions.unit == "ps"
    assert f"<td>{100 * shown.basins.populations[0]:.1f} %</td>" in text
    # Rows of a table are in no order of time.
    roll = LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(swiss_roll(200, random_state=0).points)
    assert gather(roll).basins is None
