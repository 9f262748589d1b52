"""The colours can be read, told apart, and are those of the page."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from sinkviz.figures.palette import DARK, LIGHT, ColourMap, Palette, palette, translucent

BOTH = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])

# Machado, Oliveira, Fernandes 2009, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def _linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def _luminance(colour: str) -> float:
    return float(_linear(colour) @ [0.2126, 0.7152, 0.0722])


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _lab(colour: str, vision: str) -> np.ndarray:
    seen = np.clip(np.array(VISION[vision]) @ _linear(colour), 0, 1)
    matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    x, y, z = np.cbrt(np.maximum(np.array(matrix) @ seen / [0.95047, 1, 1.08883], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _apart(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(_lab(one, vision) - _lab(other, vision)))


def _blended(colour_map: ColourMap) -> list[str]:
    """The colours of a map between its stops too."""
    places = np.linspace(0, 1, 65)
    stops = [at for at, _ in colour_map]
    channels = [np.interp(places, stops, [int(colour[k : k + 2], 16) for _, colour in colour_map]) for k in (1, 3, 5)]
    return ["#{:02x}{:02x}{:02x}".format(*(round(float(v)) for v in rgb)) for rgb in zip(*channels, strict=True)]


@BOTH
def test_words_have_enough_contrast_on_the_card(colours: Palette) -> None:
    for colour in (
        colours.text,
        colours.muted,
        colours.source_text,
        colours.target_text,
        colours.good,
        colours.wrong,
        *colours.pins,
    ):
        assert _contrast(colour, colours.card) >= 4.5, colour


@BOTH
@pytest.mark.parametrize("vision", VISION)
def test_source_and_target_stay_apart_for_every_eye(colours: Palette, vision: str) -> None:
    assert _apart(colours.source, colours.target, vision) > 40


@BOTH
@pytest.mark.parametrize("vision", VISION)
def test_the_two_arms_of_the_diverging_map_stay_apart_for_every_eye(colours: Palette, vision: str) -> None:
    arms = [colour for _, colour in colours.diverging]
    # The first step off the middle is nearly the background on either side.
    for step, least in ((2, 20), (3, 25), (4, 30)):
        assert _apart(arms[4 - step], arms[4 + step], vision) > least, (step, vision)


@BOTH
def test_the_middle_of_the_diverging_map_is_the_page(colours: Palette) -> None:
    at, colour = colours.diverging[len(colours.diverging) // 2]
    assert (at, colour) == (0.5, colours.page)


@BOTH
def test_more_mass_is_further_from_the_card(colours: Palette) -> None:
    steps = [_contrast(colour, colours.card) for _, colour in colours.sequential]
    assert np.all(np.diff(steps) > 0)
    for arm in (colours.diverging[:5][::-1], colours.diverging[4:]):
        assert np.all(np.diff([_contrast(colour, colours.page) for _, colour in arm]) > 0)


@BOTH
@pytest.mark.parametrize("vision", VISION)
def test_no_mass_is_no_colour_of_the_lift(colours: Palette, vision: str) -> None:
    assert min(_apart(colours.no_mass, colour, vision) for colour in _blended(colours.diverging)) > 10


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_page_wears_the_same_colours(name: str) -> None:
    file = Path(__file__).parents[2] / ".streamlit" / "config.toml"
    theme = tomllib.loads(file.read_text())["theme"][name]
    colours = palette(name)  # type: ignore[arg-type]
    assert theme["backgroundColor"] == colours.page
    assert theme["secondaryBackgroundColor"] == colours.card
    assert theme["textColor"] == colours.text
    assert theme["borderColor"] == colours.border


def test_an_unknown_theme_is_named() -> None:
    with pytest.raises(ValueError, match="expected one of light, dark, got 'sepia'"):
        palette("sepia")  # type: ignore[arg-type]


def test_translucent() -> None:
    assert translucent("#ff0080", 1) == "rgba(255,0,128,1)"
