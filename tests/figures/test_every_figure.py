"""What holds for every picture: valid, finite, harmless, described."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.figures import describe
from sinkviz.projection import shared_projection

# Our own markup; everything else that looks like a tag would be a token's.
OURS = re.compile(r"</?b>|<br>|<extra></extra>|<extra>[\w ,=ε]+</extra>|<span style=\"[\w:;#-]+\">|</span>")


def _texts(value: Any) -> list[str]:
    """Every string in a figure."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, part in value.items() if key != "meta" for text in _texts(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _texts(part)]
    if isinstance(value, np.ndarray):
        return _texts(value.tolist()) if value.dtype == object else []
    return []


def _numbers(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [array for part in value.values() for array in _numbers(part)]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [value.ravel()]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [array for part in value for array in _numbers(part)]
    if isinstance(value, (float, np.floating)):
        return [np.array([value])]
    return []


def _pair(make: Any, kind: str) -> tuple[Any, Any]:
    labels = make.hostile
    if kind == "hostile":
        coupling = make.random(len(labels), len(labels), 4, labels, labels[::-1])
    elif kind == "one":
        coupling = make.random(1, 12, 1)
    elif kind == "sparse":
        coupling = make.of_plan(np.eye(6) + np.eye(6, k=1))
    elif kind == "single":
        coupling = make.random(1, 1)
    elif kind == "unweighted":
        coupling = make.of_plan([[0, 0, 0], [1, 0, 2], [0, 0, 4]])
    else:
        coupling = make.partial(5, 6)
    attention = make.attention(coupling)
    return coupling, attention


KINDS = pytest.mark.parametrize("kind", ["hostile", "one", "sparse", "single", "unweighted", "partial"])


@KINDS
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_plotly_accepts_it_and_no_number_is_missing(make: Any, every_figure: Any, kind: str, theme: str) -> None:
    for name, figure in every_figure(*_pair(make, kind), theme).items():
        go.Figure(figure.to_dict())  # validates every attribute
        for numbers in _numbers(figure.to_dict()):
            assert np.isfinite(numbers).all(), name
        text = figure.to_json(validate=False)
        assert json.loads(text)
        assert "NaN" not in text
        assert "Infinity" not in text


@settings(max_examples=25, deadline=None)
@given(tokens=st.lists(st.text(min_size=1, max_size=12).filter(str.strip), min_size=2, max_size=4))
def test_tokens_are_shown_as_text_whatever_they_are(make: Any, every_figure: Any, tokens: list[str]) -> None:
    tokens = [f"{token}<u>$k$</u>&lt;" for token in tokens]
    coupling = make.random(len(tokens), len(tokens), 0, tokens, tokens[::-1])
    for figure in every_figure(coupling, make.attention(coupling)).values():
        for text in _texts(figure.to_dict()):
            plain = OURS.sub("", text)
            assert "<" not in plain
            assert not re.search(r"\$", plain)
            for ampersand in re.finditer("&", plain):
                assert re.match(r"&(amp|lt|gt|#36);", plain[ampersand.start() :])


def test_templates_carry_no_tokens(make: Any, every_figure: Any) -> None:
    tokens = [f"token{k}%{{x}}" for k in range(4)]
    coupling = make.random(4, 4, 0, tokens, tokens)
    for name, figure in every_figure(coupling, make.attention(coupling)).items():
        for trace in figure.data:
            assert "token" not in re.sub(r"source token|target token", "", trace.hovertemplate or ""), name


def test_every_axis_says_what_kind_it_is(make: Any, every_figure: Any) -> None:
    dates = [f"2024-01-0{k}" for k in range(1, 6)]
    coupling = make.random(5, 5, 0, dates, dates)
    for name, figure in every_figure(coupling, make.attention(coupling)).items():
        axes = [value for key, value in figure.layout.to_plotly_json().items() if re.match(r"[xy]axis", key)]
        if "scene" in figure.layout.to_plotly_json():
            axes += [figure.layout.scene[f"{letter}axis"].to_plotly_json() for letter in "xyz"]
        assert axes, name
        assert all(axis["type"] in ("linear", "log") for axis in axes), name


def test_a_long_token_is_short_in_the_picture_and_whole_on_hover(make: Any, every_figure: Any) -> None:
    token = "".join(chr(97 + k % 26) for k in range(500))
    coupling = make.random(2, 2, 0, [token, "a"], [token, "b"])
    for name, figure in every_figure(coupling, make.attention(coupling)).items():
        if name == "curves":
            continue
        whole = [text for text in _texts(figure.to_dict()) if text.replace("<br>", "") == token]
        assert whole, name
        drawn = [trace.text for trace in figure.data if getattr(trace, "text", None) is not None]
        assert all(len(text) < 40 for texts in drawn for text in texts)


def test_each_figure_carries_its_sentence(make: Any, every_figure: Any) -> None:
    coupling = make.random(4, 5, 0, ["the", "cat", "the", "<b>"], ["a", "b", "c", "$x$", "e"])
    attention = make.attention(coupling)
    drawn = every_figure(coupling, attention)
    said = {
        **describe(coupling, projection=shared_projection(coupling.source, coupling.target), path=[coupling]),
    }
    assert drawn["heatmap"].layout.meta["description"] == said["heatmap"]
    assert drawn["lines"].layout.meta["description"] == said["lines"]
    assert drawn["received"].layout.meta["description"] == said["received"]
    assert drawn["clouds 2"].layout.meta["description"] == said["clouds"]
    assert drawn["curves"].layout.meta["description"] == said["epsilon_curves"]
    for figure in drawn.values():
        sentence = figure.layout.meta["description"]
        assert sentence.endswith(".")
        assert sentence.count(".") >= 1
        assert "&lt;" not in sentence


def test_sentences_name_the_strongest_cell(make: Any) -> None:
    coupling = make.of_plan([[1, 5], [1, 1]], ["red", "<b>"], ["rot", "blau"])
    assert "“red” with “blau”, 62 % of the mass" in describe(coupling)["heatmap"].replace("\u00a0", " ")
    assert "under 0.01 %" in describe(coupling)["received"]
    partial = make.partial(3, 3)
    assert "have no partner" in describe(partial)["received"]


def test_no_figure_is_drawn_on_foreign_colours(make: Any, every_figure: Any) -> None:
    from sinkviz.figures.palette import DARK, LIGHT

    coupling = make.random(4, 4)
    allowed = {"light": LIGHT, "dark": DARK}
    for theme, colours in allowed.items():
        known = set(re.findall(r"#[0-9a-f]{6}", repr(colours)))
        for name, figure in every_figure(coupling, make.attention(coupling), theme).items():
            used = set(re.findall(r"#[0-9a-f]{6}", figure.to_json(validate=False)))
            assert used <= known, name


def test_the_colours_cost_no_plotly() -> None:
    code = (
        "import sys, sinkviz.figures, sinkviz.figures.palette; print('plotly' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_an_unknown_name_is_refused() -> None:
    import sinkviz.figures

    with pytest.raises(AttributeError, match="names: "):
        sinkviz.figures.pie  # noqa: B018
    assert "heatmap" in dir(sinkviz.figures)
