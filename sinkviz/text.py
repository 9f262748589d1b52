"""Words and sentences of a text in any script, as character spans of the text as it was pasted.

Every offset counts Unicode code points, so that `text[start:end]` is what the user wrote. Boundaries are
those of Unicode Standard Annex 29 as ICU implements it: with dictionaries for Chinese, Japanese, Thai, Lao,
Khmer and Burmese, which write no blanks between words, and with the abbreviations that end no sentence
("Mr.", "usw.").
"""

from __future__ import annotations

import bisect
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from sinkviz.language import guess_language

Span = tuple[int, int]

MAX_CHARACTERS = 100_000
"""Longest text that is accepted, in code points."""

_LINE_CONTROLS = "\t\n\r"


def validate_text(text: object, *, name: str = "text", limit: int = MAX_CHARACTERS) -> str:
    """Return the text if it can be measured.

    Args:
        text: what the user gave.
        name: how messages call it.
        limit: longest accepted text in code points.

    Raises:
        ValueError: not a str; empty or without a visible character; longer than `limit`; a control character
            other than tab and line ends; half of a surrogate pair.

    >>> validate_text("Grüße\\n")
    'Grüße\\n'
    """
    if not isinstance(text, str):
        raise ValueError(f"{name}: expected a string or a list of words, got {type(text).__name__}")
    if len(text) > limit:
        raise ValueError(
            f"{name}: expected at most {limit:,} characters, got {len(text):,}; "
            "shorten it or compare it in parts, nothing is cut off for you"
        )
    if is_blank(text):
        got = "an empty text" if not text else f"{len(text):,} characters without a visible one"
        raise ValueError(f"{name}: expected at least one visible character, got {got}; type or paste a text")
    if text.isascii() and text.isprintable():
        return text
    for position, character in enumerate(text):
        category = unicodedata.category(character)
        if category == "Cc" and character not in _LINE_CONTROLS:
            raise ValueError(
                f"{name}: expected text without control characters (tab and line ends are fine), got "
                f"U+{ord(character):04X} at position {position}; remove it"
            )
        if category == "Cs":
            raise ValueError(
                f"{name}: expected whole characters, got half of a surrogate pair (U+{ord(character):04X}) "
                f"at position {position}; the text was damaged on its way here, copy it again"
            )
    return text


@lru_cache(maxsize=8192)
def _is_blank_character(character: str) -> bool:
    if character.isspace():
        return True
    # Formats, controls and variation selectors draw nothing of their own.
    return unicodedata.category(character) in ("Cc", "Cf") or _is_selector(character)


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: white space and invisible characters only.

    >>> is_blank(" \\u200b\\n"), is_blank("·")
    (True, False)
    """
    return text.isspace() or all(map(_is_blank_character, text))


def trim(text: str, start: int, end: int) -> Span:
    """Return [start, end) without blank and invisible characters at its ends; empty if nothing is left.

    >>> trim("  a b ", 0, 6)
    (2, 5)
    """
    while start < end and _is_blank_character(text[start]):
        start += 1
    while end > start and _is_blank_character(text[end - 1]):
        end -= 1
    return start, end


def _code_points(text: str, segments: Iterable[Span]) -> Iterable[Span]:
    """Turn offsets in UTF-16 units, which ICU counts, into offsets in code points."""
    if text.isascii() or max(text) <= "\uffff":
        return segments
    position = {}
    units = 0
    for index, character in enumerate(text):
        position[units] = index
        units += 2 if character > "\uffff" else 1
    position[units] = len(text)
    return ((position[start], position[end]) for start, end in segments)


def _visible(text: str, segments: Iterable[Span]) -> list[Span]:
    """Drop segments that show nothing, and the white space around the others (selectors and joiners stay)."""
    spans = []
    for start, end in segments:
        segment = text[start:end]
        if is_blank(segment):
            continue
        spans.append((start + len(segment) - len(segment.lstrip()), end - len(segment) + len(segment.rstrip())))
    return spans


def word_spans(text: str) -> list[Span]:
    """Return the words of a text as [start, end) in code points, in reading order.

    Words are the segments of UAX 29 that show something: punctuation marks, symbols and emoji are words of
    their own, white space and segments of invisible characters are none. Chinese, Japanese and Thai are split
    by ICU's dictionaries.

    Args:
        text: any text; see `validate_text` for what can be embedded.

    Source: Unicode Standard Annex 29, section 4; ICU 78.

    >>> [ "It's 3.5 km – 我喜欢学习。"[s:e] for s, e in word_spans("It's 3.5 km – 我喜欢学习。")]
    ["It's", '3.5', 'km', '–', '我', '喜欢', '学习', '。']
    """
    from icu4py.breakers import WordBreaker

    segments = _code_points(text, WordBreaker(text, "root").segments())
    return _visible(text, segments)


def sentence_spans(text: str, language: str | None = None) -> list[Span]:
    """Return the sentences of a text as [start, end) in code points, without the white space around them.

    A line end always ends a sentence. Abbreviations of the language end none. Thai and other scripts that
    mark no sentences give one for each line.

    Args:
        text: any text.
        language: two-letter code whose abbreviations hold; None guesses it (see `guess_language`).

    Source: Unicode Standard Annex 29, section 5; the abbreviations are those of the Unicode CLDR.

    >>> text = "Mr. Smith left. He was tired!  Why?"
    >>> [text[s:e] for s, e in sentence_spans(text)]
    ['Mr. Smith left.', 'He was tired!', 'Why?']
    """
    from icu4py.breakers import SentenceBreaker

    known = language or guess_language(text) or "en"
    segments = _code_points(text, SentenceBreaker(text, f"{known}@ss=standard").segments())
    return _visible(text, segments)


def join_words(words: Sequence[str], *, name: str = "words", limit: int = MAX_CHARACTERS) -> tuple[str, list[Span]]:
    """Return the words joined by blanks, and the span of each word as it stands.

    Raises:
        ValueError: no words; one that is not a string or shows nothing; what `validate_text` refuses.

    >>> join_words(["Don't", "panic", "!"])
    ("Don't panic !", [(0, 5), (6, 11), (12, 13)])
    """
    if isinstance(words, str):
        raise ValueError(f"{name}: expected a list of words, got a string; give the text itself or split it")
    spans: list[Span] = []
    start = 0
    for index, word in enumerate(words):
        if not isinstance(word, str):
            raise ValueError(f"{name}: expected strings, got {type(word).__name__} at position {index}")
        if is_blank(word):
            raise ValueError(f"{name}: expected visible words, got {word!r} at position {index}; leave it out")
        spans.append((start, start + len(word)))
        start += len(word) + 1
    if not spans:
        raise ValueError(f"{name}: expected at least one word, got an empty list")
    return validate_text(" ".join(words), name=name, limit=limit), spans


def containing(spans: Sequence[Span], position: int) -> int:
    """Return the index of the last span that starts at or before a position (0 if none does).

    >>> containing([(0, 4), (5, 9)], 6)
    1
    """
    return max(0, bisect.bisect_right(spans, position, key=lambda span: span[0]) - 1)
