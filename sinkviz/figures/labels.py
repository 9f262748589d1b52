"""Tokens and numbers as text in a picture.

A token is whatever a stranger pasted. Plotly reads its texts as a small HTML and typesets what stands between
dollar signs, so every token passes through here before it is drawn.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

ELLIPSIS = "…"
DISPLAY_LIMIT = 18.0
LINE_LIMIT = 60
NO_BREAK_SPACE = "\u00a0"

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})
_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    **{ord(c): "↵" for c in "\n\r\u0085\u2028\u2029"},
    ord("\t"): "⇥",
    0x7F: "\u2421",
    # Directional marks that reach beyond the token would turn its neighbours round.
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
    **dict.fromkeys((*range(0x80, 0x85), *range(0x86, 0xA0)), "\ufffd"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_NARROW = frozenset("iljI.,:;'|!` ’‘·")
_SLIM = frozenset('frt()[]{}-"/\\*“”°JsczLF')
_BROAD = frozenset("mwMWOQGDNHU@%&—")


def visible(text: str) -> str:
    """Return the text with every character that would not show, or would reorder its surroundings, made visible.

    >>> visible("a\\nb"), visible(" ")
    ('a↵b', '␣')
    """
    if text.isascii() and text.isprintable() and text.strip():
        return text
    shown = _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n")).translate(_VISIBLE)
    return shown if shown.strip() else "␣" * max(1, len(shown))


@lru_cache(maxsize=65536)
def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.3
    if character in _SLIM:
        return 0.47
    if character in _BROAD:
        return 0.84
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.68 if character.isupper() else 0.6


@lru_cache(maxsize=16384)
def text_width(text: str) -> float:
    """Return an estimate of how wide a line of sans-serif text is, in units of the font size."""
    return sum(map(_character_width, text))


def elide(text: str, limit: float = DISPLAY_LIMIT) -> str:
    """Shorten a text to about `limit` average letters, marked by an ellipsis; graphemes stay whole.

    >>> elide("internationalisation", 10)
    'internatio…'
    """
    budget = limit * 0.6
    if text_width(text) <= budget:
        return text
    from icu4py.breakers import CharacterBreaker

    budget -= 0.6
    kept: list[str] = []
    # No grapheme that fits is anywhere near this long; a token may have 100,000 characters.
    for cluster in CharacterBreaker(text[: 64 * int(limit + 1)], "root"):
        budget -= text_width(cluster)
        if budget < -1e-9:
            break
        kept.append(cluster)
    return "".join(kept) + ELLIPSIS


def direction(text: str) -> str:
    """Return "rtl" if the first letter with a direction runs from right to left, else "ltr"."""
    if text.isascii():
        return "ltr"
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return "ltr"


def isolate(text: str) -> str:
    """Wrap text that may run from right to left in a first-strong isolate, so that it cannot move its neighbours."""
    if text.isascii() or not any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        return text
    return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"


def escape(text: str) -> str:
    """Return the text so that Plotly shows it as it stands.

    >>> escape("<b>$x$</b> &amp;")
    '&lt;b&gt;&#36;x&#36;&lt;/b&gt; &amp;amp;'
    """
    return text.translate(_MARKUP)


@lru_cache(maxsize=16384)
def tick(label: str, limit: float = DISPLAY_LIMIT) -> str:
    """Return a token as it is drawn: visible, elided, isolated, escaped."""
    return escape(isolate(elide(visible(label), limit)))


@lru_cache(maxsize=16384)
def full(label: str) -> str:
    """Return a token whole, as it is shown on hover: visible, isolated, escaped, broken into lines if long."""
    shown = visible(label)
    lines = [shown[k : k + LINE_LIMIT] for k in range(0, len(shown), LINE_LIMIT)]
    return "<br>".join(escape(isolate(line)) for line in lines)


def spoken(labels: Sequence[str], index: int) -> str:
    """Return a token in quotes for a plain sentence, with its position where the same token occurs twice.

    >>> spoken(["the", "cat", "the"], 2), spoken(["the", "cat", "the"], 1)
    ('“the” (position 3)', '“cat”')
    """
    label = labels[index]
    quoted = f"“{isolate(elide(visible(label), 40))}”"
    if labels.count(label) == 1:
        return quoted
    return f"{quoted} (position {index + 1})"


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Return a number with at most three digits.

    >>> [number(v) for v in (0, 1.2345, -0.0123456, 123.4, 12345, 1.2e-5, 1e-4)]
    ['0', '1.23', '−0.0123', '123', '1.23·10⁴', '1.2·10⁻⁵', '10⁻⁴']
    """
    digits = f"{value:.3g}"
    if value != 0 and not (0.001 <= abs(value) < 999.5):
        mantissa, exponent = f"{value:.2e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
        digits = power if mantissa == "1" else f"{mantissa}·{power}"
    return digits.replace("-", "−")


def count(value: int) -> str:
    """Return a count with its thousands grouped by no-break spaces, never rounded.

    >>> count(65536).replace(NO_BREAK_SPACE, " ")
    '65 536'
    """
    return f"{value:,}".replace(",", NO_BREAK_SPACE)


def percent(share: float) -> str:
    """Return a share as a percentage with two digits; what is not quite everything never reads 100.

    >>> [percent(s).replace(NO_BREAK_SPACE, " ") for s in (0.7004, 0.0625, 1.0, 0.9999, 0.0004)]
    ['70 %', '6.2 %', '100 %', 'over 99 %', '0.04 %']
    """
    value = 100 * share
    if 99.5 <= value < 100 - 1e-9:
        shown = f"over{NO_BREAK_SPACE}99"
    elif value >= 10:
        shown = f"{value:.0f}" if value < 999.5 else number(value)
    else:
        shown = number(float(f"{value:.2g}"))
    return f"{shown}{NO_BREAK_SPACE}%"


def factor(ratio: float) -> str:
    """Return a ratio as "4×", or as "1/4×" below one.

    >>> factor(4.0), factor(0.25), factor(1.0), factor(1e-4)
    ('4×', '1/4×', '1×', '10⁻⁴×')
    """
    return f"1/{number(1 / ratio)}×" if 0.001 < ratio < 1 else f"{number(ratio)}×"


def plural(quantity: int, noun: str) -> str:
    """Return "1 word", "2 words"."""
    return f"{count(quantity)} {noun}" if quantity == 1 else f"{count(quantity)} {noun}s"
