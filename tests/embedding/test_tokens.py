"""Atoms tile the words of a text in every script: nothing lost, nothing doubled, every label a slice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinkviz.embedding import MULTILINGUAL_MODEL, load_model
from sinkviz.embedding.multilingual import multilingual_available
from sinkviz.embedding.tokens import Tokens, group_pieces, tokenise
from sinkviz.text import is_blank, join_words, word_spans

MODELS = [
    "all-MiniLM-L6-v2",
    pytest.param(
        MULTILINGUAL_MODEL,
        marks=pytest.mark.skipif(
            not multilingual_available(), reason="the weights of multilingual-e5-small are not on this machine"
        ),
    ),
]

# Letters, marks, digits and punctuation as they stand next to each other in real texts, and what breaks naive code.
SCRIPTS = {
    "Latin": "abcdefgzABCZßüéèñøłőİıﬁœ'’-.,!?0123456789½²  ",
    "Latin with loose marks": "aeon\u0301\u0308\u0327\u0323 ",
    "Cyrillic": "абвгдежзиклмнорстуяАБЯёіїй\u0301«»—., ",
    "Greek": "αβγδεζηθικλμνξοπρσςτυφωΆέήίόύώΐΰ;·, ",
    "Arabic": "ابتثجحخدذرزسشصضعغفقكلمنهويىةءآأإ\u064b\u064e\u0651ـ،؟٠١٢ ",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשתםןףץך\u05b0\u05b4\u05b8\u05bc״׳־, ",
    "Devanagari": "अआइकखगघचजटडतदनपबमयरलवशसहक़ज़ािीुूेैोौंँः्।॥०१२\u200d\u200c ",
    "Chinese and Japanese": "我你他喜欢学习中文的是不了漢字日本語𠀀𠮷のをはがにひらカタカナー。、「」１２Ａ ",
    "Thai": "กขคงจชซญฎดตถทธนบปผพฟมยรลวศสหอเแโใไะาิีึืุู่้๊๋์ฯๆ ",
    "Hangul": "가나다라마바사아자차카타파하한국어ㄱㅏ., ",
    "Emoji": "👨👩👧👦👋🏽❤\ufe0f\u200d🏳🌈🇩🇪🇫🇷1\u20e3😀 a",
    "Hostile": "<>/&$^_{}[]()|\\`*:#~\u200b\u200e\u202e\ufeff\u00ad\t\n▁Ġ#[SEP]<s> ",
}


def tokens_of(text: str | list[str], model: str) -> Tokens | None:
    """The tokens, or None where the model has none for the whole text, which it must say."""
    try:
        return tokenise(text, load_model(model, device="cpu").tokenizer)
    except ValueError as error:
        if "no token" not in str(error):
            raise
        return None


def check(tokens: Tokens, words: list[tuple[int, int]]) -> None:
    text = tokens.text
    spans = tokens.spans
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans)), "doubled characters"
    assert not any(is_blank(text[start:end]) for start, end in spans)
    assert len(spans) == len(tokens.pieces) == len(tokens.word_of) == len(tokens.sentence_of)
    used = [piece for pieces in tokens.pieces for piece in pieces]
    assert len(set(used)) == len(used)
    assert all(pieces for pieces in tokens.pieces)

    covered = [False] * len(text)
    for start, end in spans:
        covered[start:end] = [True] * (end - start)
    missing = [False] * len(text)
    for start, end in tokens.missing:
        missing[start:end] = [True] * (end - start)
    for start, end in words:
        for position in range(start, end):
            # Every character of a word is in an atom, or its word is reported; never both.
            assert covered[position] != missing[position] or text[position].isspace()
    for position, inside in enumerate(covered):
        if inside and not is_blank(text[position]):
            assert any(start <= position < end for start, end in words)

    assert tokens.word_of == sorted(tokens.word_of)
    assert sorted(set(tokens.word_of)) == list(range(len(tokens.word_spans)))
    assert sorted(set(tokens.sentence_of)) == list(range(len(tokens.sentence_spans)))
    owners = tokens.word_spans
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(owners))
    for span, word, sentence in zip(spans, tokens.word_of, tokens.sentence_of, strict=True):
        assert owners[word][0] <= span[0] < owners[word][1]
        first = spans[tokens.word_of.index(word)][0]
        assert tokens.sentence_spans[sentence][0] <= first < tokens.sentence_spans[sentence][1]
    # A word belongs to one sentence, so that words nest in sentences.
    pairs = set(zip(tokens.word_of, tokens.sentence_of, strict=True))
    assert len(pairs) == len(owners)
    assert bool(tokens.missing) == any("have no token" in note for note in tokens.notes)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("script", SCRIPTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_every_character_is_shown_once(model: str, script: str, data: st.DataObject) -> None:
    text = data.draw(st.text(alphabet=SCRIPTS[script], min_size=1, max_size=60).filter(lambda t: not is_blank(t)))
    tokens = tokens_of(text, model)
    if tokens is None:
        return
    check(tokens, word_spans(text))


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(text=st.text(alphabet="".join(SCRIPTS.values()), min_size=1, max_size=80).filter(lambda t: not is_blank(t)))
def test_scripts_mixed(model: str, text: str) -> None:
    tokens = tokens_of(text, model)
    if tokens is None:
        return
    check(tokens, word_spans(text))


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(
        st.text(alphabet="".join(SCRIPTS.values()).replace("\t", "").replace("\n", ""), min_size=1, max_size=12).filter(
            lambda word: not is_blank(word)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_given_words_stand(model: str, words: list[str]) -> None:
    tokens = tokens_of(words, model)
    if tokens is None:
        return
    text, spans = join_words(words)
    assert tokens.text == text
    check(tokens, spans)
    # No token crosses a blank: every given word is a word of the measure or is reported.
    assert sorted([*tokens.word_spans, *tokens.missing]) == spans


REAL = {
    "German": "Die schöne Straßenbahn fährt über’s Fest – täglich 3,5-mal!",
    "Russian": "Ёжик не спал: он думал о звёздах.",
    "Greek": "Η γάτα κοιμάται στον καναπέ· γιατί;",
    "Arabic": "القِطُّ ينامُ على السَّرير، أليس كذلك؟",
    "Hebrew": "הַחָתוּל יָשֵׁן עַל הַמִּטָּה, צה״ל.",
    "Hindi": "बिल्ली बिस्तर पर सो रही है। क्यों?",
    "Chinese": "那只猫在沙发上睡觉。为什么？",
    "Japanese": "猫がソファーで寝ています。どうして？",
    "Thai": "แมวกำลังนอนหลับอยู่บนโซฟา",
    "Emoji": "A family 👨‍👩‍👧‍👦 from 🇩🇪 waves 👋🏽 with ❤️ and 1️⃣!",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("language", REAL)
def test_real_sentences(model: str, language: str) -> None:
    text = REAL[language]
    tokens = tokenise(text, load_model(model, device="cpu").tokenizer)
    check(tokens, word_spans(text))
    assert not tokens.missing
    shown = "".join(text[start:end] for start, end in tokens.spans)
    assert shown == "".join(text.split())


def test_sub_words_are_grouped_into_words() -> None:
    tokens = tokenise("Unaffable wombats weren't reorganising.", load_model(device="cpu").tokenizer)
    labels = [tokens.text[start:end] for start, end in tokens.spans]
    assert "".join(labels) == "Unaffablewombatsweren'treorganising."
    words = [tokens.text[start:end] for start, end in tokens.word_spans]
    assert words == ["Unaffable", "wombats", "weren't", "reorganising", "."]
    assert len(tokens) > len(words)


def test_special_tokens_in_a_text_are_text() -> None:
    for name in ("all-MiniLM-L6-v2", MULTILINGUAL_MODEL):
        if name == MULTILINGUAL_MODEL and not multilingual_available():
            pytest.skip("the weights of multilingual-e5-small are not on this machine")
        tokens = tokenise("a [SEP] b </s> c [CLS]", load_model(name, device="cpu").tokenizer)
        special = load_model(name, device="cpu").tokenizer
        assert special.sep_token_id not in tokens.ids or any("unknown" in note for note in tokens.notes)
        assert "".join(tokens.text[s:e] for s, e in tokens.spans) == "a[SEP]b</s>c[CLS]"


def test_unknown_characters_are_reported_and_kept() -> None:
    tokens = tokenise("hello 喜欢 world", load_model(device="cpu").tokenizer)
    assert "".join(tokens.text[start:end] for start, end in tokens.spans) == "hello喜欢world"
    assert any("unknown to this model" in note and "喜" in note for note in tokens.notes)


def test_dropped_words_are_reported() -> None:
    # The English tokenizer strips combining marks: a word that is nothing else gets no token.
    tokens = tokenise(["hello", "\u0301", "world"], load_model(device="cpu").tokenizer)
    assert tokens.missing == [(6, 7)]
    assert [tokens.text[start:end] for start, end in tokens.word_spans] == ["hello", "world"]
    assert any("1 of 3 words have no token" in note for note in tokens.notes)


def test_long_lists_of_unknown_tokens_state_their_number() -> None:
    text = " ".join("喜欢" for _ in range(20))
    (note,) = [note for note in tokenise(text, load_model(device="cpu").tokenizer).notes if "unknown" in note]
    assert "40 of 40 tokens" in note
    assert "and 35 more" in note


def test_grouping_by_hand() -> None:
    # "ab cd": a piece over both words belongs to the first, and the second, covered to its end, joins it.
    spans, pieces, word_of, owners, missing = group_pieces("ab cd", [(0, 2), (3, 5)], [(0, 5)], [False])
    assert (spans, pieces, word_of, owners, missing) == ([(0, 5)], [[0]], [0], [(0, 5)], [])
    # The piece ends inside the second word: that word keeps the piece that starts in it.
    spans, _, word_of, owners, _ = group_pieces("abcd", [(0, 2), (2, 4)], [(0, 3), (3, 4)], [False, False])
    assert (spans, word_of, owners) == ([(0, 3), (3, 4)], [0, 1], [(0, 2), (2, 4)])
    # Two pieces of one character are one atom; the mark of a blank at a neighbour's characters is none.
    spans, pieces, _, _, _ = group_pieces("½", [(0, 1)], [(0, 1), (0, 1), (0, 1)], [True, False, False])
    assert (spans, pieces) == ([(0, 1)], [[1, 2]])
    # Skipped characters go to the atom before them, or to the first.
    spans, _, _, _, _ = group_pieces("xaybz", [(0, 5)], [(1, 2), (3, 4)], [False, False])
    assert spans == [(0, 3), (3, 5)]


def test_nothing_readable_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token"):
        tokenise(["\u0301\u0308"], load_model(device="cpu").tokenizer)
