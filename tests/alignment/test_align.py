from __future__ import annotations

import pytest

from sinkviz.alignment.align import DEFAULTS, align
from sinkviz.alignment.gold import mini_gold
from sinkviz.alignment.links import links_from_coupling
from sinkviz.alignment.metrics import count_links, total_scores
from sinkviz.pipeline import couple, embed
from sinkviz.text import word_spans

SOURCE = "The old bridge was closed after the storm."
TARGET = "After the storm, they shut the ancient bridge."


def by_words(source: str, target: str, links: list) -> set[tuple[str, str]]:
    left = [source[i:j] for i, j in word_spans(source)]
    right = [target[i:j] for i, j in word_spans(target)]
    return {(left[i], right[j]) for i, j in links}


@pytest.mark.parametrize("mechanism", DEFAULTS)
def test_every_mechanism_links_a_paraphrase(mechanism: str) -> None:
    found = by_words(SOURCE, TARGET, align(SOURCE, TARGET, mechanism=mechanism))
    assert {("bridge", "bridge"), ("storm", "storm"), ("closed", "shut"), (".", ".")} <= found
    assert ("bridge", "storm") not in found


def test_words_as_they_stand() -> None:
    links = align(["New York", "sleeps", "."], ["Sleepy", "New York", "."])
    assert (0, 1) in links
    assert (2, 2) in links
    assert all(0 <= i < 3 and 0 <= j < 3 for i, j in links)
    assert links == sorted(links)


@pytest.mark.parametrize("mechanism", DEFAULTS)
def test_a_text_with_itself(mechanism: str) -> None:
    links = align(SOURCE, SOURCE, mechanism=mechanism, rule="mutual")
    assert links == [(k, k) for k in range(len(word_spans(SOURCE)))]


def test_threshold_is_monotone() -> None:
    found = [set(align(SOURCE, TARGET, rule="threshold", threshold=t)) for t in (0.1, 0.3, 0.6, 1.0)]
    assert found[0] >= found[1] >= found[2] >= found[3]
    assert found[0] > found[2]
    assert not found[3]


def test_neighbours_tell_like_words_apart() -> None:
    source, target = "I saw the cat chase the dog .".split(), "the dog ran , for the cat chased it .".split()
    crossed, straight = {(2, 0), (5, 5)}, {(2, 5), (5, 0)}
    alone, with_them = (set(align(source, target, rule="mutual", order=0.0, neighbours=w)) for w in (0.0, 0.5))
    assert crossed <= alone
    assert straight <= with_them


@pytest.mark.parametrize("rule", ["null", "beats-null"])
def test_null_cost_decides_as_in_couple(rule: str) -> None:
    options = {"mechanism": "partial", "epsilon": 0.4, "null_cost": -0.3}
    found = align(SOURCE, TARGET, rule=rule, order=0.0, neighbours=0.0, **options)
    first, second = embed(SOURCE, unit="word"), embed(TARGET, unit="word")
    assert found == links_from_coupling(couple(first, second, **options), rule=rule)
    assert 0 < len(found) < len(align(SOURCE, TARGET, rule=rule, mechanism="partial", null_cost=1.0))
    assert align(SOURCE, TARGET, rule=rule, mechanism="partial", null_cost=-5.0) == []


def test_defaults_find_most_english_links_of_the_mini_set() -> None:
    pairs = [pair for pair in mini_gold().pairs if pair.target_language == "en"]
    scores = total_scores([count_links(align(pair.source, pair.target), pair) for pair in pairs])
    assert scores.f1 > 0.75


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mechanism": "other"}, "mechanism: expected one of"),
        ({"rule": "other"}, "rule: expected one of"),
        ({"threshold": 1.5}, "threshold: expected"),
        ({"growth": -0.1}, "growth: expected"),
        ({"epsilon": 0.0}, "epsilon: expected"),
        ({"order": -1.0}, "order: expected"),
        ({"neighbours": -1.0}, "neighbours: expected"),
        ({"mechanism": "sinkhorn", "null_cost": 0.1}, "no null partner"),
        ({"mechanism": "sinkhorn", "rule": "null"}, "null partner"),
        ({"mechanism": "sinkhorn", "rule": "beats-null"}, "null partner"),
        ({"null_cost": float("nan")}, "null_cost: expected"),
        ({"model": "nothing"}, "model: expected"),
    ],
)
def test_options_that_do_not_fit(options: dict, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        align(SOURCE, TARGET, **options)


@pytest.mark.parametrize("text", ["", "  ", [], ["a", ""], "a\x00b"])
def test_texts_that_cannot_be_read(text) -> None:
    with pytest.raises(ValueError, match="expected"):
        align(text, TARGET)


def test_one_word_against_many() -> None:
    assert align(["storm"], ["the", "old", "storm"], rule="mutual", threshold=0.0) == [(0, 2)]
