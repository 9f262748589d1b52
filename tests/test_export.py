"""Pictures and tables that leave the house: our own SVG, what it becomes, and what can be read again."""

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.coupling import Coupling
from sinkviz.export import (
    PICTURES,
    Size,
    coupling_from_npz,
    export,
    figures,
    links_csv,
    picture,
    picture_of_difference,
    plan_npz,
    to_pdf,
    to_png,
)
from sinkviz.export.files import FORMATS, check_format
from sinkviz.export.markup import escape
from sinkviz.export.vector import Axis, colours_of, figure_to_svg, png_bytes, tick_values
from sinkviz.figures.palette import DARK, LIGHT
from sinkviz.measure import Measure
from sinkviz.own import coupling_from_attention, coupling_from_cost, coupling_from_plan
from sinkviz.pipeline import couple
from sinkviz.session import difference

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "a&b",
    '"quoted"',
    "$x$",
    "العربية",
    "中文字",
    "हिन्दी",
    "🐟",
    "\u202eback",
    "",
    "x\x00y",
    "]]>",
]


def measures(labels: list[str], seed: int = 0) -> tuple[Measure, Measure]:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(2, len(labels), 5))
    return Measure.from_points(points[0], labels=labels), Measure.from_points(points[1], labels=labels[::-1])


@pytest.fixture(scope="module")
def pair() -> tuple[Coupling, Coupling]:
    x, y = measures(HOSTILE)
    return couple(x, y), couple(x, y, mechanism="softmax")


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_picture_is_an_svg(name: str, theme: str, pair: tuple[Coupling, Coupling]) -> None:
    drawn = picture([name], *pair, size=Size(width=500), theme=theme)  # type: ignore[arg-type]
    root = ET.fromstring(drawn.svg)
    assert root.tag == f"{SVG}svg"
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg", "title", "desc", "defs", "clipPath", "pattern", "linearGradient", "stop", "g", "rect", "path", "line",
        "circle", "text", "tspan", "image",
    }  # fmt: skip
    # Nothing runs, nothing is fetched, nothing leads away.
    for node in root.iter():
        for key, value in node.attrib.items():
            assert not key.lower().startswith("on")
            if key.endswith("href"):
                assert value.startswith("data:image/png;base64,")
    assert "nan" not in drawn.svg.lower().replace("nanum", "")
    colours = LIGHT if theme == "light" else DARK
    assert colours.card in drawn.svg
    assert root.find(f"{SVG}desc") is not None


@pytest.mark.parametrize("mechanism", ["partial", "exact", "relaxed"])
def test_every_mechanism_is_drawn(mechanism: str) -> None:
    options = {"partial": {"null_cost": -0.1}, "relaxed": {"relaxation": 0.5}}.get(mechanism, {})
    coupling = couple(*measures(["a", "b", "c"]), mechanism=mechanism, **options)
    for name in ("lines", "heatmap", "lift", "clouds", "received"):
        assert picture([name], coupling).svg


@pytest.mark.parametrize("name", ["lines", "heatmap", "received"])
def test_hostile_words_are_words(name: str, pair: tuple[Coupling, Coupling]) -> None:
    shown = texts(picture([name], pair[0]).svg)
    for label in ("a&b", '"quoted"', "$x$", "العربية", "中文字", "🐟", "]]>"):
        assert label in shown, label
    assert any(text.startswith("<script>") for text in shown)


def test_repeated_words_stay_apart() -> None:
    coupling = couple(*measures(["the", "the", "2024-01-01", "the"]))
    assert texts(picture(["heatmap"], coupling).svg).count("the") == 6


def test_the_svg_says_what_the_figure_says(pair: tuple[Coupling, Coupling]) -> None:
    """The rectangles of the matrix have the colours of its numbers, in place."""
    coupling = pair[0]
    (figure,) = figures("heatmap", coupling, width=500)
    root = ET.fromstring(picture(["heatmap"], coupling, size=Size(width=500)).svg)
    cells = next(group for group in root.iter(f"{SVG}g") if len(group.findall(f"{SVG}rect")) == coupling.plan.size)
    axis = figure.layout.coloraxis
    rgb = colours_of(coupling.plan, axis.cmin, axis.cmax, axis.colorscale)
    fills = [rect.get("fill") for rect in cells]
    assert fills == [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in rgb.reshape(-1, 3).tolist()]
    left = [float(rect.get("x", "nan")) for rect in cells]
    assert np.all(np.diff(np.reshape(left, coupling.shape), axis=1) > 0)
    top = [float(rect.get("y", "nan")) for rect in cells]
    assert np.all(np.diff(np.reshape(top, coupling.shape), axis=0) > 0)


def test_bars_are_as_long_as_the_mass_they_show() -> None:
    coupling = couple(*measures(["a", "b", "c", "d"]), mechanism="softmax")
    root = ET.fromstring(picture(["received"], coupling).svg)
    bars = next(group for group in root.iter(f"{SVG}g") if len(group.findall(f"{SVG}rect")) == 4)
    heights = np.array([float(bar.get("height", "nan")) for bar in bars])
    np.testing.assert_allclose(heights / heights.sum(), coupling.received, atol=2e-4)


def test_large_matrices_become_one_image() -> None:
    n = 150
    rng = np.random.default_rng(0)
    coupling = coupling_from_plan(rng.random((n, n)))
    svg = picture(["heatmap"], coupling).svg
    assert len(svg) < 2_000_000
    images = list(ET.fromstring(svg).iter(f"{SVG}image"))
    assert len(images) == 1
    from base64 import b64decode

    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(b64decode(images[0].get("href", "").split(",")[1]))))
    assert pixels.shape[0] % n == 0
    (figure,) = figures("heatmap", coupling)
    axis = figure.layout.coloraxis
    step = pixels.shape[0] // n
    np.testing.assert_array_equal(
        pixels[::step, ::step], colours_of(coupling.plan, axis.cmin, axis.cmax, axis.colorscale)
    )


def test_png_and_pdf(pair: tuple[Coupling, Coupling], tmp_path: Path) -> None:
    from PIL import Image

    drawn = picture(["lines", "heatmap"], *pair, size=Size(width_mm=160, font_pt=8))
    image = Image.open(io.BytesIO(to_png(drawn, dpi=150)))
    assert image.width == pytest.approx(160 / 25.4 * 150, abs=2)
    colours = {colour for _, colour in image.convert("RGB").quantize(256).convert("RGB").getcolors(1 << 20) or ()}
    assert len(colours) > 20
    pdf = to_pdf(drawn)
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type/Page/") + pdf.count(b"/Type /Page/") <= 1
    assert b"/FontFile" in pdf or b"/ObjStm" in pdf  # letters, not outlines
    assert drawn.width_pt == pytest.approx(160 / 25.4 * 72, abs=0.5)
    assert to_pdf(drawn) == pdf  # no date inside: the same picture is the same file


def test_letters_on_paper_have_the_size_that_was_asked_for(pair: tuple[Coupling, Coupling]) -> None:
    for font_pt in (6.0, 9.0):
        size = Size(width_mm=170, font_pt=font_pt)
        drawn = picture(["lines"], pair[0], size=size)
        root = ET.fromstring(drawn.svg)
        assert float(root.get("width", "").removesuffix("mm")) == pytest.approx(170, abs=0.5)
        per_pixel = drawn.width_pt / drawn.width
        assert 13 * per_pixel == pytest.approx(font_pt, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10}, "width"),
        ({"width_mm": 5}, "width_mm"),
        ({"font_pt": 8}, "width_mm"),
        ({"width_mm": 25, "font_pt": 40}, "room"),
        ({"height": 1}, "height"),
        ({"width": float("nan")}, "width"),
    ],
)
def test_sizes_without_room_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Size(**options)


def test_too_many_dots_are_refused(pair: tuple[Coupling, Coupling]) -> None:
    with pytest.raises(ValueError, match="dots"):
        to_png(picture(["lines"], pair[0], size=Size(width_mm=2000, font_pt=72)), dpi=2400)
    with pytest.raises(ValueError, match="dpi"):
        to_png(picture(["lines"], pair[0]), dpi=1)


def test_marks_that_are_not_known_are_refused() -> None:
    import plotly.graph_objects as go

    with pytest.raises(ValueError, match="pie"):
        figure_to_svg(go.Figure(go.Pie(values=[1])))
    with pytest.raises(ValueError, match="picture"):
        picture(["portrait"], coupling_from_plan([[1, 2], [3, 4]]))
    with pytest.raises(ValueError, match="attention"):
        picture(["difference"], coupling_from_plan([[1, 2], [3, 4]]))


@pytest.mark.parametrize(
    "coupling",
    [
        coupling_from_plan([[1, 2], [3, 0]], source_labels=["a", "b"]),
        coupling_from_attention([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]),
        coupling_from_cost([[0.0, 1.0], [1.0, np.inf]]),
        coupling_from_plan([[1.0]]),
        coupling_from_plan([[1.0, 2.0, 3.0]]),
    ],
    ids=["plan", "attention", "cost", "one", "row"],
)
def test_every_picture_of_own_data(coupling: Coupling) -> None:
    for name in PICTURES:
        if name != "difference":
            ET.fromstring(picture([name], coupling).svg)


def test_a_difference_is_drawn(pair: tuple[Coupling, Coupling]) -> None:
    assert ET.fromstring(picture_of_difference(difference(*pair)).svg) is not None


# --- the parts ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.text())
def test_any_text_survives_xml(text: str) -> None:
    node = ET.fromstring(f"<t>{escape(text)}</t>")
    shown = node.text or ""
    kept = [c for c in text if c.isalnum() and not 0xD800 <= ord(c) <= 0xDFFF]
    assert [c for c in shown if c.isalnum()] == kept


@settings(deadline=None)
@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.integers(2, 10))
def test_ticks_lie_in_their_range(low: float, extent: float, count: int) -> None:
    axis = Axis("x", {"nticks": count}, 0.0, 100.0, low, low + extent, False)
    places = [place for place, _ in tick_values(axis)]
    assert len(places) >= 2 or extent < 1e-6 * low
    assert all(low - 1e-6 * extent <= place <= low + extent * (1 + 1e-6) for place in places)
    assert len(places) <= 2 * count + 4


def test_our_png_is_read_by_others() -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, size=(7, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png_bytes(pixels)))), pixels)


# --- numbers --------------------------------------------------------------------------------------------------------


def test_links_are_read_again(pair: tuple[Coupling, Coupling]) -> None:
    links = pair[0].links(share=0.05)
    rows = list(csv.DictReader(io.StringIO(links_csv(links), newline="")))
    assert len(rows) == len(links)
    for row, link in zip(rows, links, strict=True):
        assert row["source"] == link.source_label
        assert row["target"] == link.target_label
        assert float(row["mass"]) == link.mass
        assert float(row["lift"]) == link.lift


@pytest.mark.parametrize("mechanism", ["sinkhorn", "softmax", "relaxed", "partial", "exact"])
def test_plans_are_read_again(mechanism: str) -> None:
    options = {"partial": {"null_cost": -0.1}, "relaxed": {"relaxation": 0.5}}.get(mechanism, {})
    coupling = couple(*measures(["a", "ü<b>", "中文", "a"]), mechanism=mechanism, **options)
    again = coupling_from_npz(plan_npz(coupling))
    for name in ("plan", "cost", "null_source", "null_target", "f", "g"):
        np.testing.assert_array_equal(getattr(again, name), getattr(coupling, name))
    for name in ("mechanism", "status", "epsilon", "cost_scale", "relaxation", "null_cost", "residual", "iterations"):
        assert getattr(again, name) == getattr(coupling, name)
    for side in ("source", "target"):
        one, other = getattr(again, side), getattr(coupling, side)
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-15)
        assert (one.text, one.spans, one.unit, one.origin) == (other.text, other.spans, other.unit, other.origin)
    with np.load(io.BytesIO(plan_npz(coupling)), allow_pickle=False) as arrays:
        assert arrays["source_labels"].tolist() == coupling.source.labels


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_plans_are_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(plan_npz(coupling_from_plan([[1, 2], [3, 4]])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        coupling_from_npz(bytes(raw), name="mine")
    except ValueError as error:
        assert str(error).startswith("mine")  # noqa: PT017


def test_every_ending_writes_a_file(pair: tuple[Coupling, Coupling], tmp_path: Path) -> None:
    coupling = couple(*measures(["a", "b", "c"]))
    for suffix in FORMATS:
        path = tmp_path / f"out{suffix}"
        assert str(path) in export(coupling, path)
        assert path.stat().st_size > 50
    assert len(list(tmp_path.iterdir())) == len(FORMATS)
    with pytest.raises(ValueError, match=r"\.svg"):
        check_format("figure.doc")
    with pytest.raises(OSError, match="No such file"):
        export(coupling, tmp_path / "no" / "such.svg")


def test_the_offline_page_asks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    export(couple(*measures(["<script>alert(1)</script>", "b"])), path)
    page = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "<script>alert(1)</script>" not in page


def test_whiskers_fills_and_marks_of_the_other_pages() -> None:
    import plotly.graph_objects as go

    from sinkviz.export import compose

    symbols = ["circle", "square-open", "diamond", "cross", "x", "triangle-up", "x-thin"]
    figure = go.Figure(
        [
            {
                "type": "scatter",
                "x": [1, 10, 100],
                "y": [1.0, 2.0, 3.0],
                "error_y": {"type": "data", "symmetric": False, "array": [0.5, 0.5, 0.5], "arrayminus": [0.25, 0, 1]},
                "name": "a",
            },
            {"type": "scatter", "mode": "lines", "x": [1, 100, 1], "y": [0, 0, 1], "fill": "toself", "name": "b"},
            *(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [5],
                    "y": [k / 4],
                    "marker": {"symbol": symbol},
                    "name": symbol,
                }
                for k, symbol in enumerate(symbols)
            ),
        ],
        {
            "width": 400,
            "height": 300,
            "margin": {"l": 40, "r": 10, "t": 20, "b": 60},
            "xaxis": {"type": "log", "range": [-0.2, 2.2]},
            "yaxis": {},
            "font": {"size": 12, "color": "#000000"},
        },
    )
    drawn = compose([[figure]])
    assert len(list(ET.fromstring(drawn.svg).iter(f"{SVG}line"))) >= 9
    assert to_pdf(drawn).startswith(b"%PDF-")
    figure.data[0].update({"stackgroup": "one"})
    with pytest.raises(ValueError, match="stackgroup"):
        compose([[figure]])
