"""Words and sentences of texts in any script."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkviz.text import (
    MAX_CHARACTERS,
    is_blank,
    join_words,
    sentence_spans,
    trim,
    validate_text,
    word_spans,
)

ANY = st.text(alphabet=st.characters(codec="utf-8"), max_size=80)
ALLOWED = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
SOME = {
    "Latin": "abcXYZéß'’.,-0123 \n",
    "Cyrillic": "абвЯё«».! ",
    "Greek": "αβγΩή·; ",
    "Arabic": "ابتثء\u064b، ",
    "Hebrew": "אבגדם\u05b0״ ",
    "Devanagari": "कखगािी्ं। ",
    "Chinese and Japanese": "我喜欢中文𠮷のカタ。、 ",
    "Thai": "กขคเแาีุ่์ ",
    "Emoji": "👨👩👧👋🏽❤\ufe0f\u200d🇩🇪😀 ",
}


def slices(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def check_cover(text: str, spans: list[tuple[int, int]]) -> None:
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    outside = text
    for start, end in reversed(spans):
        assert not is_blank(text[start:end])
        assert text[start:end] == text[start:end].strip()
        outside = outside[:start] + outside[end:]
    assert is_blank(outside) or not outside


@given(ANY)
def test_words_and_sentences_cover_what_shows(text: str) -> None:
    check_cover(text, word_spans(text))
    check_cover(text, sentence_spans(text))


@pytest.mark.parametrize("script", SOME)
@given(data=st.data())
def test_no_character_lost_or_doubled(script: str, data: st.DataObject) -> None:
    text = data.draw(st.text(alphabet=SOME[script], max_size=60))
    check_cover(text, word_spans(text))
    check_cover(text, sentence_spans(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The “quick” fox can't jump 32.3 feet, right?", "The|“|quick|”|fox|can't|jump|32.3|feet|,|right|?"),
        ("Straßenbahn, z.B. über’s", "Straßenbahn|,|z.B|.|über’s"),
        ("Ёжик — не спал!", "Ёжик|—|не|спал|!"),
        ("Η γάτα; Ναι.", "Η|γάτα|;|Ναι|."),
        ("ينام القط، أليس", "ينام|القط|،|أليس"),
        ("צה״ל כאן", "צה״ל|כאן"),
        ("नमस्ते दुनिया।", "नमस्ते|दुनिया|।"),
        ("我喜欢学习中文。", "我|喜欢|学习|中文|。"),
        ("日本語のテキスト", "日本語|の|テキスト"),
        ("ภาษาไทยสวย", "ภาษา|ไทย|สวย"),
        ("👨‍👩‍👧‍👦🇩🇪 hi👋🏽", "👨‍👩‍👧‍👦|🇩🇪|hi|👋🏽"),
        ("<b>x</b> $x^2$ &amp;", "<|b|>|x|<|/|b|>|$|x|^|2|$|&|amp|;"),
        ("2024-05-01", "2024|-|05|-|01"),
        (" \t\n\u200b ", ""),
    ],
)
def test_known_words(text: str, words: str) -> None:
    assert slices(text, word_spans(text)) == [word for word in words.split("|") if word]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Smith left. Was he tired?  Yes!", ["Mr. Smith left.", "Was he tired?", "Yes!"]),
        ("Dr. Meier ist nicht da. Er kommt bzw. geht.", ["Dr. Meier ist nicht da.", "Er kommt bzw. geht."]),
        ("你好。我很好！为什么？", ["你好。", "我很好！", "为什么？"]),
        ("नमस्ते। क्या हाल है?", ["नमस्ते।", "क्या हाल है?"]),
        ("ماذا؟ نعم.", ["ماذا؟", "نعم."]),
        ("One line\nanother\n\nthird", ["One line", "another", "third"]),
        ("It costs 3.50 dollars. Cheap.", ["It costs 3.50 dollars.", "Cheap."]),
        ("😀 a. 👨‍👩‍👧‍👦 B.", ["😀 a.", "👨‍👩‍👧‍👦 B."]),
    ],
)
def test_known_sentences(text: str, sentences: list[str]) -> None:
    assert slices(text, sentence_spans(text)) == sentences


@given(st.lists(ALLOWED.filter(lambda word: not is_blank(word)), min_size=1, max_size=8))
def test_given_words_are_slices(words: list[str]) -> None:
    text, spans = join_words(words)
    assert slices(text, spans) == words
    assert text == " ".join(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "expected a string"),
        (b"bytes", "got bytes"),
        (7, "got int"),
        ("", "an empty text"),
        (" \n\t", "without a visible one"),
        ("\u200b\u200d", "without a visible one"),
        ("a\x00b", r"U\+0000 at position 1"),
        ("a\x1b[31m", r"U\+001B at position 1"),
        ("ab\x85", r"U\+0085 at position 2"),
        ("a\ud800", "half of a surrogate pair"),
        ("\udfffa", "at position 0"),
        ("x" * (MAX_CHARACTERS + 1), "at most 100,000 characters, got 100,001"),
    ],
)
def test_unreadable_texts_say_why(text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_text(text)


@pytest.mark.parametrize("text", ["a", "x" * MAX_CHARACTERS, "a\tb\r\nc", "😀", "\u202eabc", "क्‍ष"])
def test_readable_texts_come_back_unchanged(text: str) -> None:
    assert validate_text(text) is text


def test_messages_name_the_field() -> None:
    with pytest.raises(ValueError, match=r"^source text: "):
        validate_text("", name="source text")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "at least one word"),
        (["a", ""], "at position 1"),
        (["a", " \n"], "visible words"),
        (["a", 3], "got int at position 1"),
        ("text", "got a string"),
    ],
)
def test_unreadable_word_lists_say_why(words: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join_words(words)  # type: ignore[arg-type]


def test_trim_keeps_what_shows() -> None:
    text = "\ufeff a\u0301 \u200b"
    assert slices(text, [trim(text, 0, len(text))]) == ["a\u0301"]
    assert trim("   ", 0, 3)[0] == trim("   ", 0, 3)[1]
