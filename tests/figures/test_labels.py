"""Tokens become text that Plotly shows as it stands, numbers have at most three digits."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkviz.figures import labels

texts = st.one_of(
    st.text(min_size=1, max_size=40),
    st.text(alphabet="<>&$;ab#36/ \n\u202e\u2066\u2069אب", min_size=1, max_size=30),
)
ISOLATES = str.maketrans("", "", "\u2068\u2069")


@settings(deadline=None)
@given(texts)
def test_escaping_leaves_no_markup_and_loses_nothing(text: str) -> None:
    escaped = labels.escape(text)
    assert not set("<>$") & set(escaped)
    assert all(re.match(r"&(amp|lt|gt|#36);", escaped[k:]) for k, c in enumerate(escaped) if c == "&")
    restored = escaped.replace("&#36;", "$").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert restored == text


@settings(deadline=None)
@given(texts)
@example("\u2069</b>\u202e$")
@example("a\r\nb")
def test_what_is_drawn_is_one_line_of_harmless_text(text: str) -> None:
    shown = labels.tick(text)
    assert shown
    assert not set("<>$\n\r\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067") & set(shown)
    assert shown.count("\u2068") == shown.count("\u2069") <= 1
    assert all(unicodedata.category(c) not in ("Cc", "Cs") for c in shown)


@settings(deadline=None)
@given(texts)
def test_the_whole_token_is_kept_for_hover(text: str) -> None:
    kept = labels.full(text)
    lines = kept.split("<br>")
    assert all(not set("<>$") & set(line) for line in lines)
    plain = "".join(html.unescape(line).translate(ISOLATES) for line in lines)
    assert plain == html.unescape(labels.escape(labels.visible(text)))


@settings(deadline=None)
@given(texts, st.integers(min_value=2, max_value=20))
def test_elided_text_is_a_beginning_that_fits(text: str, limit: int) -> None:
    short = labels.elide(text, limit)
    assert labels.text_width(short) <= 0.6 * limit + 1e-9
    if short != text:
        assert short.endswith(labels.ELLIPSIS)
        assert text.startswith(short[:-1])


def test_graphemes_stay_whole() -> None:
    family = "👩‍👩‍👧"
    short = labels.elide(family * 30, 10)
    assert short == family * (len(short) // len(family)) + labels.ELLIPSIS
    accented = "e\u0301"
    accents = labels.elide(accented * 60, 10)
    assert accents == accented * (len(accents) // 2) + labels.ELLIPSIS


def test_a_very_long_token_costs_nothing_to_draw() -> None:
    token = "x" * 100_000
    assert len(labels.tick(token)) < 40
    assert len(labels.full(token).replace("<br>", "")) == len(token)


def test_text_without_width_is_made_visible() -> None:
    assert labels.visible("   ") == "␣␣␣"
    assert labels.visible("a\tb\x00") == "a⇥b␀"
    assert labels.visible("\ud800") == "\ufffd"


@pytest.mark.parametrize(
    ("text", "expected"), [("hello", "ltr"), ("שלום world", "rtl"), ("123 سلام", "rtl"), ("中文", "ltr"), ("12", "ltr")]
)
def test_direction_is_that_of_the_first_letter(text: str, expected: str) -> None:
    assert labels.direction(text) == expected


def _digits(text: str) -> int:
    mantissa = re.split(r"·?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+$", text.removesuffix(" %").removeprefix("over "))[0]
    return len(re.sub(r"\D", "", mantissa).lstrip("0"))


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30))
def test_numbers_have_three_digits_and_are_near(value: float) -> None:
    text = labels.number(value)
    assert _digits(text) <= 3
    power = re.search(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)$", text)
    if power is None:
        assert float(text.replace("−", "-")) == pytest.approx(value, rel=5.1e-3, abs=0)


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=1))
def test_a_share_never_reads_as_more_than_it_is(share: float) -> None:
    text = labels.percent(share).replace(labels.NO_BREAK_SPACE, " ")
    assert text.endswith(" %")
    assert _digits(text) <= 3
    assert (text == "100 %") == (share >= 1 - 1e-11)
    assert (text == "0 %") == (share == 0)


def test_equal_words_are_told_apart_when_spoken() -> None:
    names = ["the", "cat", "the", "the"]
    assert len({labels.spoken(names, k) for k in range(4)}) == 4
    assert labels.spoken(["<b>"], 0) == "“<b>”"
