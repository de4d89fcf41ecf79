"""The page in a real browser: it draws, answers pointer and keys, fits a phone and paper, and asks no network."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ldmaps.analysis import write_report


@pytest.fixture
def open_page(browser):
    opened = []

    def open_it(path, *size, **settings):
        page = browser.open(path.as_uri(), *size, **settings)
        opened.append(page)
        return page

    yield open_it
    for page in opened:
        problems = page.problems()
        page.close()
        assert not problems


COLOURS_ON = """(id => {
  const c = document.getElementById(id), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) seen.add(d[i] + 256 * d[i + 1] + 65536 * d[i + 2] + 16777216 * d[i + 3]);
  return seen.size;
})"""
IMAGE_OF = "(id => document.getElementById(id).toDataURL())"
BOX_OF = """(id => { const b = document.getElementById(id).getBoundingClientRect();
  return [b.left, b.top, b.width, b.height]; })"""


def text_of(page, name):
    return page.evaluate(f"document.getElementById({name!r}).textContent")


def find_under_pointer(page, wanted, steps=24):
    """Move over the map until the tip begins with a word; return where."""
    left, top, width, height = page.evaluate(f"{BOX_OF}('scatter-over')")
    for row in range(1, steps):
        for column in range(1, steps):
            x, y = left + width * column / steps, top + height * row / steps
            page.hover(x, y)
            if not page.evaluate("document.getElementById('tip').hidden") and text_of(page, "tip").startswith(
                wanted
            ):
                return x, y
    raise AssertionError(f"nothing on the map says {wanted}")


def test_it_draws_everything_and_asks_for_nothing(open_page, molecule_page):
    page = open_page(molecule_page, 1400, 900)
    assert page.requests() == [molecule_page.as_uri()]
    for canvas in ("scatter", "energy", "structure"):
        assert page.evaluate(f"{COLOURS_ON}({canvas!r})") > 100, canvas
    assert page.evaluate("document.title") == "Alanine <dipeptide>"
    # Spectrum, coverage, errors, and a profile per coordinate.
    assert page.evaluate("document.querySelectorAll('svg.chart').length") == 7
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


def test_pointing_at_a_point_tells_frame_and_time(open_page, molecule_page):
    page = open_page(molecule_page)
    page.evaluate("document.getElementById('landmarks').click()")
    find_under_pointer(page, "Frame")
    tip = text_of(page, "tip")
    assert "Time" in tip
    assert "ns" in tip
    assert "Estimated ζ" in tip


def test_clicking_a_landmark_shows_its_structure(open_page, molecule_page):
    page = open_page(molecule_page)
    # Keys bring the tip of a landmark up beside it, which tells where it is.
    page.evaluate("document.getElementById('scatter-over').focus()")
    for key in 10 * ("ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight"):
        page.key(key)
        wanted, left, top, height = page.evaluate(
            "(t => [t.firstChild.textContent, parseFloat(t.style.left), parseFloat(t.style.top), t.offsetHeight])"
            "(document.getElementById('tip'))"
        )
        box = page.evaluate(f"{BOX_OF}('scatter-over')")
        if left - 14 < 0.6 * box[2] and top > 0:
            break
    page.evaluate("document.getElementById('next').click()")
    heading = text_of(page, "structure-heading")
    before = page.evaluate(f"{IMAGE_OF}('structure')")
    assert heading != wanted
    x, y = box[0] + left - 14, box[1] + top + height / 2
    page.hover(x, y)
    assert text_of(page, "tip").startswith("Landmark")
    shown = page.evaluate("document.getElementById('tip').firstChild.textContent")
    page.click(x, y)
    assert text_of(page, "structure-heading") == shown
    assert shown != heading
    assert page.evaluate(f"{IMAGE_OF}('structure')") != before
    details = text_of(page, "landmark-details")
    assert "Frame" in details
    assert "Stands for" in details


def test_dragging_turns_the_molecule(open_page, molecule_page):
    page = open_page(molecule_page)
    before = page.evaluate(f"{IMAGE_OF}('structure')")
    left, top, width, height = page.evaluate(f"{BOX_OF}('structure')")
    page.drag((left + width / 2, top + height / 2), (left + width / 2 + 60, top + height / 2 + 20))
    assert page.evaluate(f"{IMAGE_OF}('structure')") != before


def test_keys_reach_landmarks_and_turn_the_molecule(open_page, molecule_page):
    page = open_page(molecule_page)
    heading = text_of(page, "structure-heading")
    page.evaluate("document.getElementById('scatter-over').focus()")
    seen = {heading}
    for key in ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.key(key)
        seen.add(text_of(page, "structure-heading"))
    assert len(seen) > 1
    before = page.evaluate(f"{IMAGE_OF}('structure')")
    page.evaluate("document.getElementById('structure').focus()")
    page.key("ArrowLeft")
    assert page.evaluate(f"{IMAGE_OF}('structure')") != before
    page.evaluate("document.getElementById('scatter-over').focus()")
    page.key("+")
    assert not page.evaluate("document.getElementById('reset').disabled")
    page.key("0")
    assert page.evaluate("document.getElementById('reset').disabled")


def test_every_control_has_a_name_and_can_be_reached(open_page, molecule_page):
    page = open_page(molecule_page)
    assert page.nameless_controls() == []
    assert page.evaluate(
        "[...document.querySelectorAll('canvas[id]')].every(c => c.getAttribute('aria-label'))"
    )


@pytest.mark.parametrize(
    "choice",
    [
        ("colour", "Density as −ln p (kT)"),
        ("colour", "Distance to nearest landmark (√ε)"),
        ("colour", "Estimated error ζ (% of range)"),
        ("colour", "Time (ns)"),
        ("colour", "half"),
        ("palette", "Cividis"),
        ("x-axis", "ψ₄"),
        ("y-axis", "Time (ns)"),
    ],
    ids=lambda choice: choice[1],
)
def test_choices_change_the_picture(open_page, molecule_page, choice):
    page = open_page(molecule_page)
    before = page.evaluate(f"{IMAGE_OF}('scatter')")
    page.choose(*choice)
    assert page.evaluate(f"{IMAGE_OF}('scatter')") != before
    assert page.evaluate(f"{COLOURS_ON}('scatter')") > 20


def test_two_values_are_categories(open_page, molecule_page):
    page = open_page(molecule_page)
    page.choose("colour", "half")
    legend = page.evaluate(
        "[...document.querySelectorAll('#scatter-legend .swatch i')].map(e => e.style.background)"
    )
    assert len(legend) == 2


def test_a_box_zooms_and_a_button_undoes_it(open_page, molecule_page):
    page = open_page(molecule_page)
    before = page.evaluate(f"{IMAGE_OF}('scatter')")
    left, top, width, height = page.evaluate(f"{BOX_OF}('scatter-over')")
    page.drag((left + 0.3 * width, top + 0.3 * height), (left + 0.6 * width, top + 0.7 * height))
    assert page.evaluate(f"{IMAGE_OF}('scatter')") != before
    page.evaluate("document.getElementById('reset').click()")
    assert page.evaluate(f"{IMAGE_OF}('scatter')") == before
    page.evaluate("document.getElementById('zoom-in').click()")
    assert page.evaluate(f"{IMAGE_OF}('scatter')") != before
    page.evaluate("document.getElementById('reset').click()")
    assert page.evaluate(f"{IMAGE_OF}('scatter')") == before


def touch(page, kind, *fingers):
    points = [{"x": x, "y": y, "id": place} for place, (x, y) in enumerate(fingers)]
    page.command("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    page.settle()


def pinch(page, canvas, scale, shift=0.0):
    """Two fingers beside the middle of a canvas move apart by a factor, and both to the right by ``shift``."""
    page.evaluate(f"document.getElementById({canvas!r}).scrollIntoView({{block: 'center'}})")
    left, top, width, height = page.evaluate(f"{BOX_OF}({canvas!r})")
    x, y = left + width / 2, top + height / 2
    touch(page, "touchStart", (x - 40, y))
    touch(page, "touchStart", (x - 40, y), (x + 40, y))
    for share in (0.25, 0.5, 0.75, 1.0):
        half, middle = 40 * (1 + share * (scale - 1)), x + share * shift
        touch(page, "touchMove", (middle - half, y), (middle + half, y))
    touch(page, "touchEnd")


@pytest.fixture
def phone(open_page, molecule_page):
    page = open_page(molecule_page, 390, 844, mobile=True, scale=2)
    page.command("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=5)
    return page


def view_of(page):
    return [
        float(value)
        for value in page.evaluate("document.getElementById('scatter-over').dataset.view").split()
    ]


def test_two_fingers_zoom_the_map(phone):
    heading = text_of(phone, "structure-heading")
    before = view_of(phone)
    pinch(phone, "scatter-over", 2.0)
    after = view_of(phone)
    for low in (0, 2):
        whole = before[low + 1] - before[low]
        assert after[low + 1] - after[low] == pytest.approx(whole / 2)
        # About the place between the fingers, which is near the middle of the plot.
        assert 0.18 < (after[low] - before[low]) / whole < 0.32
    assert not phone.evaluate("document.getElementById('reset').disabled")
    # Neither finger has tapped a landmark, and the page itself has not been zoomed.
    assert text_of(phone, "structure-heading") == heading
    assert phone.evaluate("visualViewport.scale") == pytest.approx(1.0)
    pinch(phone, "scatter-over", 0.5)
    assert view_of(phone) == pytest.approx(before, abs=1e-6 * (before[1] - before[0]))


def test_two_fingers_move_the_map(phone):
    before = view_of(phone)
    pinch(phone, "scatter-over", 1.0, shift=50)
    after = view_of(phone)
    width = phone.evaluate(f"{BOX_OF}('scatter-over')")[2]
    # The plot is a little narrower than its canvas.
    share = (before[0] - after[0]) / (before[1] - before[0])
    assert 50 / width < share < 1.5 * 50 / width
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert after[2:] == pytest.approx(before[2:])


def test_one_finger_still_taps_after_a_pinch(phone):
    pinch(phone, "scatter-over", 1.3)
    chosen = {text_of(phone, "structure-heading")}
    left, top, width, height = phone.evaluate(f"{BOX_OF}('scatter-over')")
    for place in range(36):
        x, y = left + width * (place % 6 + 0.5) / 6, top + height * (place // 6 + 0.5) / 6
        touch(phone, "touchStart", (x, y))
        touch(phone, "touchEnd")
        chosen.add(text_of(phone, "structure-heading"))
        if len(chosen) > 1:
            return
    raise AssertionError("no tap chose a landmark")


def test_two_fingers_zoom_the_molecule_and_do_not_turn_it(phone):
    before = phone.evaluate(f"{IMAGE_OF}('structure')")
    pinch(phone, "structure", 2.0)
    assert phone.evaluate(f"{IMAGE_OF}('structure')") != before
    pinch(phone, "structure", 0.5)
    assert phone.evaluate(f"{IMAGE_OF}('structure')") == before


def test_light_and_dark(open_page, molecule_page):
    page = open_page(molecule_page, dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    back = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(back)
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate(back) != dark


def test_a_phone_shows_it_without_scrolling_sideways(open_page, molecule_page):
    page = open_page(molecule_page, 390, 844, mobile=True, scale=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate(
        "[...document.querySelectorAll('.controls select, .controls button, .zoom button')]"
        ".filter(e => e.offsetParent && e.getBoundingClientRect().height < 36).map(e => e.id)"
    )
    assert small == []
    assert struct.unpack(">II", page.screenshot()[16:24]) == (780, 1688)
    for canvas in ("scatter", "energy", "structure"):
        assert page.evaluate(f"{COLOURS_ON}({canvas!r})") > 100, canvas


def test_it_prints_in_light_colours_on_few_pages(open_page, molecule_page):
    page = open_page(molecule_page, dark=True)
    document = page.pdf()
    assert document.startswith(b"%PDF")
    assert document.count(b"/Type /Page\n") <= 3
    # The handlers that printing calls: they draw in light colours, and put everything back.
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("document.getElementById('scatter').width") == 3 * 680
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_names_from_users_do_not_become_elements(open_page, roll_map, roll, tmp_path):
    nasty = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
    n = len(roll.points)
    path = tmp_path / "nasty.html"
    write_report(
        roll_map,
        path,
        title=nasty,
        points=roll_map.embedding_,
        frames=np.arange(n),
        files=[nasty] * n,
        columns={nasty: np.arange(n) % 3},
    )
    page = open_page(path)
    page.choose("colour", nasty)
    find_under_pointer(page, "")
    assert page.evaluate("document.title") == nasty
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_a_page_without_points_or_with_one_coordinate_draws(open_page, molecule_map, roll, tmp_path):
    from ldmaps import DiffusionMap, load

    molecule_map.save(tmp_path / "small.ldm", include_embedding=False)
    write_report(load(tmp_path / "small.ldm"), tmp_path / "small.html")
    page = open_page(tmp_path / "small.html")
    assert page.evaluate(f"{COLOURS_ON}('scatter')") > 5
    write_report(DiffusionMap(1, 16.0).fit(roll.points[:400]), tmp_path / "one.html")
    page = open_page(tmp_path / "one.html")
    assert page.evaluate(f"{COLOURS_ON}('scatter')") > 20
    assert page.evaluate("document.getElementById('energy').offsetParent === null")


def test_a_hundred_thousand_points_are_quick(open_page, roll_map, tmp_path):
    rng = np.random.default_rng(0)
    n = 100_000
    points = roll_map.embedding_[rng.integers(0, len(roll_map.embedding_), n)] + 3e-4 * rng.normal(
        size=(n, 2)
    )
    path = tmp_path / "many.html"
    write_report(roll_map, path, points=points, frames=np.arange(n), times=0.5 * np.arange(n))
    page = open_page(path)
    # Generous, because machines that test are busy; on an idle one both take a fraction of it.
    assert float(page.evaluate("document.documentElement.dataset.firstDraw")) < 8000
    seconds = page.evaluate(
        "(() => { const t = performance.now(); document.getElementById('palette').dispatchEvent(new Event('change'));"
        " return (performance.now() - t) / 1000; })()"
    )
    assert seconds < 3
    find_under_pointer(page, "")


#: The least contrast of a colour bar with the card behind it, as WCAG defines it.
LEAST_CONTRAST = """(id => {
  const luminance = (rgb) => rgb.map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const card = getComputedStyle(document.querySelector('.card')).backgroundColor;
  const back = luminance(card.match(/\\d+/g).slice(0, 3).map(Number));
  const bar = document.querySelector('#' + id + ' canvas');
  const data = bar.getContext('2d').getImageData(0, 0, 256, 1).data;
  let least = 100;
  for (let i = 0; i < 256; i++) {
    const one = luminance([...data.slice(4 * i, 4 * i + 3)]);
    least = Math.min(least, (Math.max(one, back) + 0.05) / (Math.min(one, back) + 0.05));
  }
  return least;
})"""
CHOOSE = """((id, text) => {
  const select = document.getElementById(id);
  select.value = [...select.options].find((option) => option.textContent === text).value;
  select.dispatchEvent(new Event('change'));
})"""


@pytest.mark.parametrize("palette", ["Viridis", "Cividis"])
def test_no_colour_vanishes_in_the_dark(open_page, molecule_page, palette):
    page = open_page(molecule_page)
    page.evaluate(f"{CHOOSE}('palette', {palette!r})")
    page.evaluate("document.getElementById('theme').click()")
    for legend in ("scatter-legend", "energy-legend"):
        assert page.evaluate(f"{LEAST_CONTRAST}({legend!r})") > 2.4, legend


def test_files_are_colours_and_can_be_shown_alone(open_page, roll_map, tmp_path):
    files = np.repeat(["run/a/traj.xtc", "run/b/traj.xtc"], [1400, 100])
    write_report(roll_map, tmp_path / "page.html", files=files)
    page = open_page(tmp_path / "page.html")
    page.evaluate(f"{CHOOSE}('colour', 'File')")
    legend = text_of(page, "scatter-legend")
    assert "a/traj.xtc" in legend
    assert "run" not in legend
    page.evaluate("document.getElementById('landmarks').click()")
    everything = page.evaluate(f"{COLOURS_ON}('scatter')")
    find_under_pointer(page, "Row")
    assert "File run/a/traj.xtc" in text_of(page, "tip")
    page.evaluate(f"{CHOOSE}('file', 'b/traj.xtc')")
    assert page.evaluate(f"{COLOURS_ON}('scatter')") < everything
    find_under_pointer(page, "Row")
    assert "File run/b/traj.xtc" in text_of(page, "tip")


def test_many_texts_all_have_colours_of_their_own(open_page, roll_map, tmp_path):
    write_report(roll_map, tmp_path / "page.html", columns={"shape": [f"s{i % 12}" for i in range(1500)]})
    page = open_page(tmp_path / "page.html")
    swatches = (
        "[...document.querySelectorAll('#scatter-legend .swatch i')].map((dot) => dot.style.background)"
    )
    assert len(set(page.evaluate(swatches))) == 12


SAVED = """(async id => {
  const kept = [], make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
  URL.createObjectURL = (blob) => { kept.push(blob); return make.call(URL, blob); };
  HTMLAnchorElement.prototype.click = function () { kept.push(this.download); };
  document.getElementById(id).click();
  for (let i = 0; i < 200 && kept.length < 2; i++) await new Promise((done) => setTimeout(done, 20));
  URL.createObjectURL = make;
  HTMLAnchorElement.prototype.click = click;
  const bytes = new Uint8Array(await kept[0].arrayBuffer());
  return [kept[1], Array.from(bytes)];
})"""


def test_points_in_view_are_saved_as_a_table(open_page, molecule_page, molecule_map):
    page = open_page(molecule_page, 1400, 900)
    name, data = page.evaluate(f"{SAVED}('save-table')")
    assert name == "Alanine-dipeptide.csv"
    lines = bytes(data).decode().splitlines()
    assert lines[0].startswith("file,frame,time,psi2,psi3")
    assert "end to end" in lines[0]
    assert len(lines) == 1 + len(molecule_map.embedding_)
    row = lines[5].split(",")
    assert float(row[1]) == molecule_map.training_.frames[4]
    np.testing.assert_allclose(np.array(row[3:5], float), molecule_map.embedding_[4, :2], rtol=1e-5)
    # Zoomed in, only what is seen.
    page.evaluate("document.getElementById('zoom-in').click()")
    zoomed = bytes(page.evaluate(f"{SAVED}('save-table')")[1]).decode().splitlines()
    assert 1 < len(zoomed) < len(lines)
    low, high = (
        float(value)
        for value in page.evaluate("document.getElementById('scatter-over').dataset.view").split()[:2]
    )
    inside = [low <= value <= high for value in molecule_map.embedding_[:, 0]]
    assert len(zoomed) - 1 <= sum(inside)


@pytest.mark.parametrize(("button", "canvas"), [("save-map", "scatter"), ("save-energy", "energy")])
def test_pictures_are_saved_in_light_and_for_print(open_page, molecule_page, button, canvas):
    page = open_page(molecule_page, 1400, 900)
    page.evaluate("document.getElementById('theme').click()")
    before = page.evaluate(f"{IMAGE_OF}({canvas!r})")
    name, data = page.evaluate(f"{SAVED}({button!r})")
    assert name.endswith(".png")
    assert bytes(data[:4]) == b"\x89PNG"
    width, height = struct.unpack(">II", bytes(data[16:24]))
    box = page.evaluate(f"{BOX_OF}({canvas!r})")
    assert width == round(3 * round(box[2]))
    assert height > 3 * box[3]
    # The page itself looks as it did.
    assert page.evaluate(f"{IMAGE_OF}({canvas!r})") == before


WORDS_ON_PICTURE = """(async id => {
  const drawn = [], { fillText, arc } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    drawn.push([this.canvas.isConnected, text, x, y]);
    fillText.call(this, text, x, y);
  };
  CanvasRenderingContext2D.prototype.arc = function (x, y, r, ...rest) {
    drawn.push([this.canvas.isConnected, "circle", x, y]);
    arc.call(this, x, y, r, ...rest);
  };
  document.getElementById(id).click();
  CanvasRenderingContext2D.prototype.fillText = fillText;
  CanvasRenderingContext2D.prototype.arc = arc;
  return drawn.filter((entry) => !entry[0]).map((entry) => entry.slice(1));
})"""


def legend_on_picture(page, button):
    """Return what a saved picture's legend says, in order, and where each word ends up."""
    return [entry for entry in page.evaluate(f"{WORDS_ON_PICTURE}({button!r})") if entry[2]]


def test_the_legend_of_a_saved_map_keeps_its_circles_and_spaces(open_page, molecule_page):
    page = open_page(molecule_page, 1400, 900)
    drawn = legend_on_picture(page, "save-map")
    texts = [text for text, _, _ in drawn]
    said = "frames a landmark stands for"
    assert said in texts
    # Of each word first the width is taken, then it is written: the last is what stands there.
    places = [place for place, text in enumerate(texts) if text == "circle"]
    assert len(places) >= 2
    written = {text: x for text, x, _ in drawn}
    sizes = [text for text in texts[places[-2] : texts.index(said, places[-1]) + 1] if text != "circle"]
    assert [written[text] for text in sizes] == sorted(written[text] for text in sizes)
    page.evaluate("document.getElementById('landmarks').click()")
    assert said not in [text for text, _, _ in legend_on_picture(page, "save-map")]


def test_the_saved_energy_has_its_unit_and_no_ring(open_page, molecule_page):
    page = open_page(molecule_page, 1400, 900)
    texts = [text for text, _, _ in legend_on_picture(page, "save-energy")]
    for word in ("−ln p in ", "k", "B", "T"):
        assert word in texts
    assert any(text.startswith("≥ ") for text in texts)
    # With another landmark chosen, the picture is the same: it has no ring.
    first = page.evaluate(f"{SAVED}('save-energy')")[1]
    page.evaluate("document.getElementById('next').click()")
    assert page.evaluate(f"{SAVED}('save-energy')")[1] == first


def test_the_saved_table_has_what_embed_writes(open_page, molecule_page, molecule_map):
    page = open_page(molecule_page, 1400, 900)
    lines = bytes(page.evaluate(f"{SAVED}('save-table')")[1]).decode().splitlines()
    header = lines[0].split(",")
    assert header[3:9] == ["psi2", "psi3", "psi4", "distance", "inside", "nearest"]
    rows = np.array([line.split(",")[6:9] for line in lines[1:]], float)
    record = molecule_map.training_
    np.testing.assert_allclose(rows[:, 0], record.distance, rtol=1e-5)
    np.testing.assert_array_equal(rows[:, 2], record.nearest)
    assert rows[:, 1].all()  # training points are inside by construction


def test_basins_are_seen_on_the_map(open_page, molecule_page):
    page = open_page(molecule_page)
    page.choose("colour", "Basin")
    legend = text_of(page, "scatter-legend")
    assert "basin 1" in legend
    assert "basin 2" in legend
