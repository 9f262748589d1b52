"""Every colour of the pictures, light and dark, in one place.

Source is blue and drawn as discs, target is orange and drawn as squares, everywhere; pinned words take stable hues
of their own. Mass lies on one sequential blue map. Lift and differences lie on a diverging map from brown to teal,
two hues that stay apart in all three kinds of colour blindness, with 0 at the background of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ThemeName = Literal["light", "dark"]
ColourMap = tuple[tuple[float, str], ...]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
FONT_SIZE = 13
SMALL_FONT_SIZE = 11
TITLE_FONT_SIZE = 16


@dataclass(frozen=True)
class Palette:
    """The colours of one theme, as #rrggbb.

    Attributes:
        page, card, border: surfaces and hairlines.
        text, muted: words that are read, words that explain; at least 4.5 : 1 on the card.
        source, target: marks of the two texts; source_text, target_text: the same meaning for words.
        pins: hues of pinned words in the order in which they were pinned; used for marks and for words.
        good, wrong: states, for words.
        no_mass: cells that carry no mass at all.
        sequential: mass, from none to most.
        diverging: less than expected, as expected (the page's background), more than expected.
    """

    page: str
    card: str
    border: str
    text: str
    muted: str
    source: str
    target: str
    source_text: str
    target_text: str
    pins: tuple[str, ...]
    good: str
    wrong: str
    no_mass: str
    sequential: ColourMap
    diverging: ColourMap


LIGHT = Palette(
    page="#fbfcfe",
    card="#ffffff",
    border="#dfe4ec",
    text="#1a2233",
    muted="#5b6577",
    source="#2f6fde",
    target="#d9730d",
    source_text="#245bbd",
    target_text="#a34a06",
    pins=("#c2255c", "#6741d9", "#0b7285", "#5f6b00"),
    good="#22752f",
    wrong="#c92a2a",
    no_mass="#b0b4da",
    sequential=(
        (0.0, "#f7fbff"),
        (0.125, "#deebf7"),
        (0.25, "#c6dbef"),
        (0.375, "#9ecae1"),
        (0.5, "#6baed6"),
        (0.625, "#4292c6"),
        (0.75, "#2171b5"),
        (0.875, "#08519c"),
        (1.0, "#08306b"),
    ),
    diverging=(
        (0.0, "#8c510a"),
        (0.125, "#b87d2f"),
        (0.25, "#d4aa66"),
        (0.375, "#ead9b8"),
        (0.5, "#fbfcfe"),
        (0.625, "#b2dfd8"),
        (0.75, "#66b8ae"),
        (0.875, "#258a80"),
        (1.0, "#01665e"),
    ),
)

DARK = Palette(
    page="#10141f",
    card="#171d2b",
    border="#2a3347",
    text="#e6ebf5",
    muted="#a0a9bd",
    source="#7fb0ff",
    target="#ffb066",
    source_text="#7fb0ff",
    target_text="#ffb066",
    pins=("#ff7aa8", "#b197fc", "#3bc9db", "#c6d15a"),
    good="#5fd07a",
    wrong="#ff8787",
    no_mass="#54547e",
    sequential=(
        (0.0, "#101827"),
        (0.125, "#13253f"),
        (0.25, "#17365c"),
        (0.375, "#1f4d80"),
        (0.5, "#2e6aa6"),
        (0.625, "#4a8dc6"),
        (0.75, "#74b1de"),
        (0.875, "#a4d3f0"),
        (1.0, "#d8effc"),
    ),
    diverging=(
        (0.0, "#c09459"),
        (0.125, "#92703f"),
        (0.25, "#664d2c"),
        (0.375, "#3a3023"),
        (0.5, "#10141f"),
        (0.625, "#123c40"),
        (0.75, "#1f6b69"),
        (0.875, "#38a096"),
        (1.0, "#7fe0d4"),
    ),
)

_PALETTES: dict[str, Palette] = {"light": LIGHT, "dark": DARK}


def palette(theme: ThemeName) -> Palette:
    """Return the colours of a theme.

    Raises:
        ValueError: a theme other than "light" or "dark".

    >>> palette("light").source, palette("dark").source
    ('#2f6fde', '#7fb0ff')
    """
    if theme not in _PALETTES:
        raise ValueError(f"theme: expected one of {', '.join(get_args(ThemeName))}, got {theme!r}")
    return _PALETTES[theme]


def translucent(colour: str, opacity: float) -> str:
    """Return #rrggbb with an opacity in [0, 1], as CSS spells it.

    >>> translucent("#2f6fde", 0.5)
    'rgba(47,111,222,0.5)'
    """
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.3g})"
