from __future__ import annotations

import pytest

from sinkviz.alignment.gold import dump_gold, mini_gold, parse_gold
from sinkviz.resources import asset_path

GOLD = mini_gold()


def test_size_and_languages() -> None:
    assert len(GOLD) >= 40
    assert len(GOLD.languages) >= 6
    assert GOLD.licence == "CC0-1.0"
    for language in GOLD.languages:
        assert sum(f"{p.source_language}-{p.target_language}" == language for p in GOLD.pairs) >= 5


def test_the_file_is_in_its_own_format() -> None:
    assert parse_gold(dump_gold(GOLD)) == GOLD
    assert dump_gold(GOLD) == asset_path("mini-gold.json").read_text(encoding="utf-8")


def test_names_and_texts_are_unique() -> None:
    assert len({pair.id for pair in GOLD.pairs}) == len(GOLD)
    assert len({pair.source for pair in GOLD.pairs}) == len(GOLD)


@pytest.mark.parametrize("pair", GOLD.pairs, ids=lambda pair: pair.id)
def test_every_pair_is_tokenised_and_linked(pair) -> None:
    for words in (pair.source, pair.target):
        assert len(words) >= 4
        # Final marks are words of their own, whatever the script.
        assert words[-1] in (".", "?", "。", "？", "؟")
        assert all(len(word) == 1 or word[-1] not in ".,?!。，？！؟،" or word in ("a.m.",) for word in words)
    last = len(pair.source) - 1, len(pair.target) - 1
    assert last in pair.sure
    assert all(0 <= i <= last[0] and 0 <= j <= last[1] for i, j in pair.possible)
    linked = {i for i, _ in pair.possible}
    assert len(linked) >= len(pair.source) * 0.6


@pytest.mark.parametrize("language", ["ru", "ar", "zh"])
def test_scripts(language: str) -> None:
    ranges = {"ru": ("Ѐ", "ӿ"), "ar": ("؀", "ۿ"), "zh": ("一", "鿿")}
    low, high = ranges[language]
    for pair in GOLD.pairs:
        if pair.target_language == language:
            assert all(low <= character <= high for word in pair.target[:-1] for character in word if word != ",")
