from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pytest
import torch

from sinkviz.alignment import train_command
from sinkviz.alignment.align import align
from sinkviz.alignment.evaluation import EvaluationCancelledError
from sinkviz.alignment.gold import GoldPair, dump_gold, mini_gold
from sinkviz.alignment.metrics import total_scores
from sinkviz.alignment.training import (
    HEADS,
    AlignmentHead,
    HeadConfig,
    WordPair,
    _Data,
    _noisy,
    cross_validate,
    decodings,
    target_attention,
    target_plan,
    train_head,
    transfer,
)
from sinkviz.transformer import SinkhornTransformer, checkpoints

SMALL = HeadConfig(
    width=16, out=16, heads=2, epochs=6, batch=8, dropout=0.0, learning_rates=(5e-3,), neighbours=0, refinement=0
)


def planted(count: int, seed: int = 0, dim: int = 8) -> list[WordPair]:
    """Pairs in which a target word is a turned source word, so that cosines say little; some words have no partner."""
    generator = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).normal(size=(dim, dim)))[0]
    pairs = []
    for k in range(count):
        n, m = (int(v) for v in generator.integers(4, 8, size=2))
        linked = min(n, m) - 1
        x = generator.normal(size=(n, dim))
        order = generator.permutation(m)[:linked]
        y = generator.normal(size=(m, dim))
        y[order] = (x @ turn)[:linked] + 0.1 * generator.normal(size=(linked, dim))
        gold = GoldPair(
            tuple(f"s{k}.{i}" for i in range(n)),
            tuple(f"t{k}.{j}" for j in range(m)),
            frozenset((i, int(order[i])) for i in range(linked)),
            id=str(k),
        )
        pairs.append(WordPair(torch.tensor(x).float(), torch.tensor(y).float(), gold))
    return pairs


@pytest.mark.parametrize("pair", mini_gold().pairs[::4], ids=lambda pair: pair.id)
@pytest.mark.parametrize("linked_null", [0.0, 0.3])
def test_target_plan_has_the_marginals_and_the_links(pair: GoldPair, linked_null: float) -> None:
    plan = target_plan(pair, linked_null)
    n, m = len(pair.source), len(pair.target)
    assert np.allclose(plan.sum(1), np.append(np.full(n, 0.5 / n), 0.5), atol=1e-7)
    assert np.allclose(plan.sum(0), np.append(np.full(m, 0.5 / m), 0.5), atol=1e-7)
    linked = {i for i, _ in pair.possible}
    for i in range(n):
        if i not in linked:
            assert plan[i, m] > 0.9 * 0.5 / n
    real = plan[:n, :m]
    for i, j in pair.sure:
        others = [real[i, k] for k in range(m) if (i, k) not in pair.possible]
        assert real[i, j] > 10 * max(others, default=0.0)


def test_target_attention_rows_sum_to_one() -> None:
    for pair in mini_gold().pairs:
        assert np.allclose(target_attention(pair, 0.2).sum(1), 1)


@pytest.mark.parametrize(("neighbours", "refinement"), [(0, 0), (2, 0), (2, 4)])
@pytest.mark.parametrize("name", HEADS)
def test_training_starts_at_the_untrained_cosine(name: str, neighbours: int, refinement: int) -> None:
    pairs = planted(6)
    head = AlignmentHead(8, replace(SMALL, head=name, neighbours=neighbours, refinement=refinement)).eval()
    batch = _Data(pairs, 0.2, neighbours).take(range(6))
    cost = head.cost(batch).detach()
    for k, pair in enumerate(pairs):
        cosine = torch.nn.functional.normalize(pair.source, dim=1) @ torch.nn.functional.normalize(pair.target, dim=1).T
        n, m = cosine.shape
        assert torch.allclose(cost[k, :n, :m], -cosine.double(), atol=1e-6)


@pytest.mark.parametrize(("neighbours", "refinement"), [(0, 0), (1, 0), (2, 4)])
@pytest.mark.parametrize("name", HEADS)
def test_padding_changes_no_share(name: str, neighbours: int, refinement: int) -> None:
    pairs = planted(5, seed=3)
    torch.manual_seed(0)
    head = AlignmentHead(8, replace(SMALL, head=name, neighbours=neighbours, refinement=refinement)).eval()
    with torch.no_grad():
        head.score.score_scale.fill_(1.0)
        if neighbours:
            head.score.neighbour_scale.fill_(0.3)
        if head.score.config.refinement:
            head.score.refinement.leave.weight.normal_()
    data = _Data(pairs, 0.2, neighbours)
    whole, beats = head.shares(data.take(range(5)))
    for k in range(5):
        alone, alone_beats = head.shares(data.take([k]))
        n, m = alone.shape[1:]
        assert np.allclose(whole[k, :n, :m], alone[0], atol=1e-4)
        assert np.array_equal(beats[k, :n, :m], alone_beats[0])
        assert (whole[k, n:] == -np.inf).all()
        assert not beats[k, n:].any()


@pytest.mark.parametrize("name", ["sinkhorn", "bidirectional", "softmax"])
def test_a_planted_relation_is_learned(name: str) -> None:
    pairs = planted(120)
    test = planted(40, seed=1)
    found = train_head(pairs, replace(SMALL, head=name))
    assert found.epoch > 0
    trained = total_scores(transfer(found, test)["mutual"]).f1
    control = train_head(pairs, replace(SMALL, head="scalars"))
    untrained = total_scores(transfer(control, test)["mutual"]).f1
    assert trained > untrained + 0.3
    losses = [row["loss"] for row in found.history[1:]]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("name", "least"), [("sinkhorn", 0.99), ("scalars", 0.99), ("bidirectional", 0.9), ("softmax", 0.9)]
)
def test_what_only_neighbours_tell_is_learned(name: str, least: float) -> None:
    """Every second word is the same one; which of them is meant is in the word before it."""
    generator = np.random.default_rng(4)
    common = generator.normal(size=32)

    def pair(k: int) -> WordPair:
        content = generator.normal(size=(3, 32))
        order = generator.permutation(3)
        x = np.stack([row for one in content for row in (one, common)])
        y = np.stack([row for j in order for row in (content[j], common)])
        links = {(2 * int(i) + d, 2 * j + d) for j, i in enumerate(order) for d in (0, 1)}
        words = tuple(f"{k}.{i}" for i in range(6))
        return WordPair(torch.tensor(x).float(), torch.tensor(y).float(), GoldPair(words, words, frozenset(links)))

    pairs, test = [pair(k) for k in range(60)], [pair(100 + k) for k in range(30)]
    config = replace(SMALL, head=name, epochs=4, scalar_rate=0.1)
    without, with_them = (
        total_scores(transfer(train_head(pairs, replace(config, neighbours=count)), test)["mutual"]).f1
        for count in (0, 1)
    )
    assert without < 0.75
    assert with_them > least


def test_training_is_reproducible_and_the_seed_counts() -> None:
    pairs = planted(30)
    config = replace(SMALL, epochs=2)
    first, again = (train_head(pairs, config) for _ in range(2))
    assert [row["dev_f1"] for row in first.history] == [row["dev_f1"] for row in again.history]
    for one, other in zip(first.head.parameters(), again.head.parameters(), strict=True):
        assert torch.equal(one, other)
    other = train_head(pairs, replace(config, seed=1))
    assert first.history != other.history


def test_a_turned_pair_is_the_pair_from_target_to_source() -> None:
    pairs = planted(4, seed=2)
    other = [
        WordPair(
            pair.target,
            pair.source,
            GoldPair(pair.gold.target, pair.gold.source, frozenset((j, i) for i, j in pair.gold.sure), id=pair.gold.id),
        )
        for pair in pairs
    ]
    turned = _Data(pairs, 0.1).take(range(4), [True] * 4)
    expected = _Data(other, 0.1).take(range(4))
    for name in ("x", "a", "y", "b", "row_target", "column_target"):
        assert torch.equal(getattr(turned, name), getattr(expected, name)), name
    # The projection stops on the other side's marginal first, within 1e-9.
    assert torch.allclose(turned.plan, expected.plan, atol=1e-8)
    mixed = _Data(pairs, 0.1).take(range(2), [False, True])
    assert mixed.a[0].count_nonzero() == len(pairs[0].source)
    assert mixed.a[1].count_nonzero() == len(pairs[1].target)


def test_a_pair_counts_with_its_words() -> None:
    pairs = planted(2, seed=5)
    data = _Data(pairs, 0.02)
    size = [len(pair.source) + len(pair.target) for pair in pairs]
    for name in HEADS:
        head = AlignmentHead(8, replace(SMALL, head=name)).eval()
        alone = [head.loss(data.take([k])).item() for k in range(2)]
        both = head.loss(data.take([0, 1])).item()
        assert both == pytest.approx((size[0] * alone[0] + size[1] * alone[1]) / sum(size), rel=1e-4)


def test_shared_encoders_make_a_cost_without_direction_and_a_model_of_their_own(tmp_path) -> None:
    found = train_head(planted(40), replace(SMALL, epochs=2))
    head, model = found.head, found.head.transformer()
    assert head.score.query_encoder is head.score.key_encoder
    x, y = planted(1, seed=8)[0].source, planted(1, seed=8)[0].target
    a, b = (torch.full((len(points),), 1 / len(points)) for points in (x, y))
    cost = model.cost_tensor(x, a, y, b)
    assert torch.allclose(cost, model.cost_tensor(y, b, x, a).T, atol=1e-6)
    assert torch.equal(cost, head.score.cost_tensor(x, a, y, b))
    model.save(tmp_path / "model.safetensors")
    again = SinkhornTransformer.load(tmp_path / "model.safetensors")
    assert torch.equal(again.cost_tensor(x, a, y, b), cost)
    free = AlignmentHead(8, replace(SMALL, shared=False))
    count = [sum(p.numel() for p in one.parameters()) for one in (head, free)]
    assert count[1] > 1.9 * count[0]


def test_the_average_of_the_weights_is_kept() -> None:
    pairs = planted(40)
    last, averaged = (train_head(pairs, replace(SMALL, epochs=2, average=decay)) for decay in (0.0, 0.9))
    untrained = AlignmentHead(8, SMALL)
    moved = [abs(one.head.null_cost.item() - untrained.null_cost.item()) for one in (last, averaged)]
    assert moved[0] != moved[1]


def test_noise_has_its_length_and_stops_with_training() -> None:
    points = torch.randn(4000, 12) * 3.0
    moved = (_noisy(points, 0.5) - points).norm(dim=1) / points.norm(dim=1)
    assert float((moved**2).mean()) == pytest.approx(0.25, rel=0.05)
    assert torch.equal(_noisy(torch.zeros(2, 3), 0.5), torch.zeros(2, 3))
    batch = _Data(planted(4), 0.0).take(range(4))
    for name in HEADS:
        head = AlignmentHead(8, replace(SMALL, head=name, noise=0.5))
        assert not torch.equal(head.train().cost(batch), head.cost(batch))
        assert torch.equal(head.eval().cost(batch), head.cost(batch))


def test_pairs_that_share_all_their_texts_cannot_be_held_back() -> None:
    one = planted(1)[0]
    with pytest.raises(ValueError, match="without a text in common"):
        train_head([one] * 12, SMALL)


def test_held_back_pairs_choose_the_rate() -> None:
    found = train_head(planted(120), replace(SMALL, learning_rates=(1e-7, 5e-3)))
    assert found.learning_rate == 5e-3
    assert {row["rate"] for row in found.history} == {1e-7, 5e-3}


def test_cross_validation_covers_every_pair_once() -> None:
    pairs = planted(24)
    found = cross_validate(pairs, replace(SMALL, epochs=1), folds=3, seeds=(0, 1))
    for table in found.counts.values():
        assert table.shape == (2, 24, 4)
        assert (table[:, :, 1] == [len(pair.gold.sure) for pair in pairs]).all()
    assert len(found.seconds) == len(found.chosen) == 6
    assert found.parameters > 1000


def test_cancelling() -> None:
    with pytest.raises(EvaluationCancelledError):
        train_head(planted(20), SMALL, cancelled=lambda: True)


@pytest.mark.parametrize("name", ["sinkhorn", "bidirectional"])
def test_what_only_the_words_around_tell_is_learned(name: str) -> None:
    """A word stands for two words in a gap of two and for none in a gap of three; no vector tells which."""
    generator = np.random.default_rng(5)

    def pair(k: int) -> WordPair:
        x = generator.normal(size=(5, 32))
        gap = int(generator.integers(2, 4))
        y = np.concatenate([x[:2], generator.normal(size=(gap, 32)), x[3:]])
        links = {(0, 0), (1, 1), (3, 2 + gap), (4, 3 + gap)} | ({(2, 2), (2, 3)} if gap == 2 else set())
        words = tuple(f"{k}.{i}" for i in range(8))
        return WordPair(
            torch.tensor(x).float(), torch.tensor(y).float(), GoldPair(words[:5], words[: len(y)], frozenset(links))
        )

    pairs, test = [pair(k) for k in range(150)], [pair(1000 + k) for k in range(60)]
    config = replace(SMALL, head=name, neighbours=2, epochs=10, learning_rates=(1e-2,))
    without, with_it = (
        total_scores(transfer(train_head(pairs, replace(config, refinement=width)), test)["grown"]).f1
        for width in (0, 16)
    )
    assert without < 0.95
    assert with_it > 0.97


@pytest.mark.parametrize(
    "options",
    [
        {"head": "other"},
        {"epochs": 0},
        {"learning_rates": ()},
        {"learning_rates": (0.0,)},
        {"epsilon": -1.0},
        {"dropout": 1.0},
        {"batch": True},
        {"parts": 1},
        {"average": 1.0},
        {"neighbours": -1},
        {"refinement": -1},
        {"neighbours": 0, "refinement": 8},
        {"noise": float("nan")},
    ],
)
def test_options_that_do_not_fit(options: dict) -> None:
    with pytest.raises(ValueError, match="expected"):
        HeadConfig(**options)


def test_too_few_pairs() -> None:
    with pytest.raises(ValueError, match="at least 10 pairs"):
        train_head(planted(5), SMALL)


def test_decodings() -> None:
    assert [decoding.rule for kind in ("null", "beats-null") for decoding in decodings(kind)] == ["null", "beats-null"]
    assert all(d.growth is not None and d.growth < d.threshold for d in decodings("grown"))


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    train_command.add_arguments(parser)
    return train_command.run(parser.parse_args(arguments))


def test_the_command_writes_a_checkpoint_that_couples(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "gold.json"
    gold.write_text(dump_gold(mini_gold()), encoding="utf-8")
    out = tmp_path / "model.safetensors"
    options = ("--data", str(gold), "--model", "all-MiniLM-L6-v2", "--pairs", "14", "--epochs", "1", "--width", "16")
    assert run(*options, "--out", str(out), "--evaluate", str(gold)) == 0
    shown = capsys.readouterr().out
    assert "nothing retuned" in shown
    assert out.stat().st_size < 5 * 2**20
    config, about = checkpoints.describe(out)
    assert config.dim == 384
    assert about["embedding"] == {"model": "all-MiniLM-L6-v2", "layer": 3, "unit": "word", "centre": False}
    assert about["data"]["licence"] == "CC0-1.0"
    assert about["command"].startswith("python -m sinkviz train --data gold.json --pairs 14 ")
    again = tmp_path / "again.safetensors"
    assert run(*options, "--out", str(again), "--quiet") == 0
    weights, repeated = (SinkhornTransformer.load(path).state_dict() for path in (out, again))
    assert all(torch.equal(weights[name], repeated[name]) for name in weights)
    encoder = SinkhornTransformer.load(out)
    links = align(["the", "cat", "sleeps"], ["a", "cat", "naps"], encoder=encoder, null_cost=about["null_cost"])
    assert (1, 1) in links


def test_without_neighbours_the_command_trains_no_refinement(tmp_path) -> None:
    gold = tmp_path / "gold.json"
    gold.write_text(dump_gold(mini_gold()), encoding="utf-8")
    out = tmp_path / "model.safetensors"
    options = ("--pairs", "12", "--epochs", "1", "--width", "16", "--rates", "0.003", "--neighbours", "0", "--quiet")
    assert run("--data", str(gold), "--model", "all-MiniLM-L6-v2", *options, "--out", str(out)) == 0
    config, about = checkpoints.describe(out)
    assert (config.neighbours, config.refinement) == (0, 0)
    assert "--neighbours 0" in about["command"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--data", "missing.tsv", "--out", "x", "--neighbours", "0", "--refinement", "8"), "expected 0 without"),
        (("--data", "missing.tsv", "--out", "x"), "readable file"),
        (("--data", "missing.tsv"), "--out"),
        (("--data", "missing.tsv", "--out", "x", "--rates", "a"), "--rates"),
    ],
)
def test_bad_input_is_told(arguments: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert what in capsys.readouterr().err
