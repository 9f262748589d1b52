"""Do these couplings find what people link? Methods compared on gold links, each tuned on dev data only.

With folds, the pairs of the gold set are split into k parts; for each part, every method's settings are those with
the highest F1 on the other parts, and its links on this part are the ones reported. With a dev set, settings are
those with the highest F1 there. Nothing that is reported was tuned on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkviz.alignment.gold import GoldPair, GoldSet, WordLink
from sinkviz.alignment.links import NULL_RULES, choose, mutual_argmax, to_links
from sinkviz.alignment.methods import FIVE, CosineBatch, Method, ScoreSettings, Settings, batches, methods, shares
from sinkviz.alignment.metrics import (
    Interval,
    PairedTest,
    Scores,
    aer_interval,
    average_precision_interval,
    f1_interval,
    f1_of_sums,
    paired_test,
    total_scores,
)

Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and a plain line saying what is being done."""
Cancelled = Callable[[], bool]
Cosines = Sequence[NDArray[np.float64]]

KEPT_PAIRS = 2_000
"""Up to this many pairs the shares of every setting stay in memory; beyond, chosen ones are solved again."""


class EvaluationCancelledError(Exception):
    """The evaluation was stopped by its caller; nothing of it is reported."""


def _step(progress: Progress | None, cancelled: Cancelled | None, share: float, line: str) -> None:
    if cancelled is not None and cancelled():
        raise EvaluationCancelledError("the evaluation was stopped")
    if progress is not None:
        progress(min(1.0, share), line)


def make_folds(pairs: Sequence[GoldPair], folds: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold of each pair, shape (pairs,): parts of nearly equal size, drawn with the seed.

    Pairs with a text in common stay in one fold, so that no text is both tuned and reported on.

    Raises:
        ValueError: fewer than 2 folds, or more than there are groups of pairs.
    """
    parent = list(range(len(pairs)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    first: dict[tuple[str, ...], int] = {}
    for k, pair in enumerate(pairs):
        for text in (pair.source, pair.target):
            parent[root(k)] = root(first.setdefault(text, k))
    groups: dict[int, list[int]] = {}
    for k in range(len(pairs)):
        groups.setdefault(root(k), []).append(k)
    if not 2 <= folds <= len(groups):
        raise ValueError(f"folds: expected 2 to {len(groups)} (pairs without a text in common), got {folds}")
    result = np.zeros(len(pairs), dtype=np.int64)
    sizes = np.zeros(folds, dtype=np.int64)
    order = np.random.default_rng(seed).permutation(len(groups))
    members = list(groups.values())
    for k in sorted(order, key=lambda k: -len(members[k])):
        smallest = int(sizes.argmin())
        result[members[k]] = smallest
        sizes[smallest] += len(members[k])
    return result


@dataclass(frozen=True, eq=False)
class _GoldBatch:
    sure: NDArray[np.bool_]
    possible: NDArray[np.bool_]
    sure_count: NDArray[np.int64]


def _gold_batch(batch: CosineBatch, pairs: Sequence[GoldPair]) -> _GoldBatch:
    sure = np.zeros(batch.cosine.shape, dtype=bool)
    possible = np.zeros(batch.cosine.shape, dtype=bool)
    for b, k in enumerate(batch.indices):
        for i, j in pairs[k].possible:
            possible[b, i, j] = True
            sure[b, i, j] = (i, j) in pairs[k].sure
    return _GoldBatch(sure, possible, sure.sum((1, 2)))


def _count(marks: NDArray[np.bool_], gold: _GoldBatch) -> NDArray[np.int64]:
    return np.stack(
        [
            np.count_nonzero(marks, axis=(1, 2)),
            gold.sure_count,
            np.count_nonzero(marks & gold.possible, axis=(1, 2)),
            np.count_nonzero(marks & gold.sure, axis=(1, 2)),
        ],
        axis=1,
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """Counts of one setting on every pair, shape (pairs, 4)."""

    settings: Settings
    counts: NDArray[np.int64]


class Trials:
    """The counts of all settings of some methods on one set of pairs; each score is solved once.

    Args:
        cosines: one matrix (source words, target words) for each pair.
        pairs: the gold links.
    """

    def __init__(self, cosines: Cosines, pairs: Sequence[GoldPair]) -> None:
        for matrix, pair in zip(cosines, pairs, strict=True):
            expected = len(pair.source), len(pair.target)
            if matrix.shape != expected or not np.isfinite(matrix).all():
                raise ValueError(
                    f"cosines: expected finite numbers of shape {expected} for pair {pair.id!r}, got {matrix.shape}"
                )
        self.pairs = list(pairs)
        self.batches = batches(cosines)
        self.gold = [_gold_batch(batch, pairs) for batch in self.batches]
        self.unsolved = 0
        self._shares: dict[ScoreSettings, list[Any]] = {}

    def solve(self, settings: ScoreSettings) -> list[Any]:
        """Return the shares of each batch, solved the first time they are asked for."""
        if settings not in self._shares:
            found = [shares(batch, settings) for batch in self.batches]
            self.unsolved += sum(int((~one.converged).sum()) for one in found)
            self._shares[settings] = found
        return self._shares[settings]

    def forget(self) -> None:
        """Free the shares that were solved."""
        self._shares = {}

    def run(self, method: Method, score: ScoreSettings) -> list[_Trial]:
        """Count the links of one score under each threshold of a method."""
        options = [
            Settings(score, method.rule, threshold, growth)
            for threshold in method.thresholds
            for growth in method.growths
            if growth is None or growth < threshold
        ]
        tables = np.zeros((len(options), len(self.pairs), 4), dtype=np.int64)
        for batch, gold, found in zip(self.batches, self.gold, self.solve(score), strict=True):
            mutual = mutual_argmax(found.share) if method.rule in ("mutual", "grown", "null") else None
            null = found.null if method.rule in NULL_RULES else None
            for index, option in enumerate(options):
                marks = choose(found.share, option.rule, option.threshold, option.growth, mutual=mutual, null=null)
                tables[index, batch.indices] = _count(marks & batch.mask, gold)
        return [_Trial(option, table) for option, table in zip(options, tables, strict=True)]

    def links(
        self, settings: Settings, wanted: NDArray[np.bool_]
    ) -> dict[int, tuple[tuple[WordLink, ...], NDArray[np.float64]]]:
        """Return links and shares, by index of the pair, of the wanted pairs (a mask) under one setting."""
        result = {}
        for batch, found in zip(self.batches, self.solve(settings.score), strict=True):
            null = found.null if settings.rule in NULL_RULES else None
            marks = choose(found.share, settings.rule, settings.threshold, settings.growth, null=null) & batch.mask
            for b, k in enumerate(batch.indices):
                if wanted[k]:
                    n, m = batch.rows[b], batch.columns[b]
                    result[int(k)] = tuple(to_links(marks[b, :n, :m])), found.share[b, :n, :m]
        return result


def best_trial(trials: Sequence[_Trial], wanted: NDArray[np.bool_]) -> _Trial:
    """Return the trial with the highest F1 on the wanted pairs (a mask); the first of equals."""
    sums = np.stack([trial.counts[wanted].sum(0) for trial in trials])
    return trials[int(f1_of_sums(sums).argmax())]


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method reached on pairs that it was not tuned on.

    Attributes:
        name, label, family: of the method.
        counts: shape (pairs, 4): |A|, |S|, |A ∩ P|, |A ∩ S|, in the order of the set.
        scores: precision, recall, F1 and AER over all pairs.
        f1, aer, average_precision: with bootstrap intervals over pairs.
        chosen: the settings that were used, one for each fold (one in all with a dev set).
        links: the links of each pair.
    """

    name: str
    label: str
    family: str
    counts: NDArray[np.int64]
    scores: Scores
    f1: Interval
    aer: Interval
    average_precision: Interval
    chosen: tuple[Settings, ...]
    links: tuple[tuple[WordLink, ...], ...]


@dataclass(frozen=True)
class CurvePoint:
    """F1 of a method on held-out pairs at one place of a curve; thresholds tuned there on dev pairs."""

    method: str
    at: float
    f1: Interval


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """A comparison of methods on one gold set.

    Attributes:
        data: name of the gold set.
        pairs: number of sentence pairs; links: number of sure links.
        model, layer, centred: what was embedded.
        orders: weights of word order that every method could choose among.
        neighbours: weights of the words before and after, likewise.
        tuned_on: where the settings come from, in words.
        methods: one result for each method.
        epsilon_curve: F1 against ε in units of the cost's scale; empty if not asked for.
        layer_curve: F1 against the hidden layer; empty if not asked for.
        unsolved: solves that stopped before their tolerance.
        seconds: wall-clock time of the whole.
    """

    data: str
    pairs: int
    links: int
    model: str
    layer: int
    centred: bool
    orders: tuple[float, ...]
    neighbours: tuple[float, ...]
    tuned_on: str
    methods: tuple[MethodResult, ...]
    epsilon_curve: tuple[CurvePoint, ...] = ()
    layer_curve: tuple[CurvePoint, ...] = ()
    unsolved: int = 0
    seconds: float = 0.0

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if method.name == name:
                return method
        raise ValueError(f"method: expected one of {', '.join(m.name for m in self.methods)}, got {name!r}")

    def best(self, family: str | None = None) -> MethodResult:
        """Return the method with the highest F1, of one family ("attention", "cosine", "transport") if given."""
        found = [method for method in self.methods if family in (None, method.family)]
        if not found:
            raise ValueError(f"family: expected one that was evaluated, got {family!r}")
        return max(found, key=lambda method: method.f1.value)

    def compare(self, name: str, other: str) -> PairedTest:
        """Return F1 of one method minus F1 of another, with interval and p value of a paired bootstrap."""
        return paired_test(self[name].counts, self[other].counts)

    def table(self, reference: str | None = None) -> list[dict[str, Any]]:
        """Return one row for each method, with its difference to a reference method where one is given."""
        rows = []
        for method in self.methods:
            row: dict[str, Any] = {
                "method": method.label,
                "name": method.name,
                "F1": method.f1.value,
                "F1 low": method.f1.low,
                "F1 high": method.f1.high,
                "precision": method.scores.precision,
                "recall": method.scores.recall,
                "AER": method.aer.value,
                "AER low": method.aer.low,
                "AER high": method.aer.high,
                "AP": method.average_precision.value,
                "AP low": method.average_precision.low,
                "AP high": method.average_precision.high,
            }
            if reference is not None:
                test = self.compare(method.name, reference)
                row["difference"] = test.difference.value
                row["difference low"] = test.difference.low
                row["difference high"] = test.difference.high
                row["p"] = test.p_value if method.name != reference else 1.0
            rows.append(row)
        return rows

    def to_json(self) -> str:
        """Return everything but the links of single pairs as JSON."""
        head = {
            key: getattr(self, key)
            for key in (
                "data",
                "pairs",
                "links",
                "model",
                "layer",
                "centred",
                "orders",
                "neighbours",
                "tuned_on",
                "unsolved",
                "seconds",
            )
        }
        body = [
            {
                "name": method.name,
                "label": method.label,
                "family": method.family,
                "precision": method.scores.precision,
                "recall": method.scores.recall,
                "f1": asdict(method.f1),
                "aer": asdict(method.aer),
                "average_precision": asdict(method.average_precision),
                "chosen": [_plain(settings) for settings in method.chosen],
                "counts": method.counts.tolist(),
            }
            for method in self.methods
        ]
        curves = {
            "epsilon_curve": [asdict(point) for point in self.epsilon_curve],
            "layer_curve": [asdict(point) for point in self.layer_curve],
        }
        return json.dumps({"format": "sinkviz-evaluation", "version": 1, **head, "methods": body, **curves})


def _plain(settings: Settings) -> dict[str, Any]:
    found = asdict(settings)
    if not np.isfinite(found["threshold"]):
        found["threshold"] = None  # no threshold at all; JSON has no infinity
    return found


def describe(settings: Settings) -> str:
    """Return one line of plain text for settings.

    >>> describe(Settings(ScoreSettings("sinkhorn", epsilon=0.5), "mutual", 0.3))
    'epsilon 0.5, threshold 0.3'
    """
    score = settings.score
    named = (
        ("epsilon", score.epsilon),
        ("relaxation", score.relaxation),
        ("null margin", score.null_margin),
        ("order", score.order or None),
        ("neighbours", score.neighbours or None),
        (
            "threshold",
            settings.threshold if np.isfinite(settings.threshold) and settings.rule not in NULL_RULES else None,
        ),
        ("growth", settings.growth),
    )
    return ", ".join(f"{name} {value:g}" for name, value in named if value is not None) or "nothing to choose"


def evaluate_cosines(
    cosines: Cosines,
    gold: GoldSet,
    chosen_methods: Sequence[Method],
    *,
    folds: int = 5,
    seed: int = 0,
    dev: tuple[Cosines, GoldSet] | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> tuple[tuple[MethodResult, ...], int]:
    """Compare methods on given cosines; see `evaluate`. Returns the results and the number of unsolved problems."""
    trials = Trials(cosines, gold.pairs)
    count = len(gold)
    dev_trials = trials if dev is None else Trials(dev[0], dev[1].pairs)
    if dev is None:
        fold_of = make_folds(gold.pairs, folds, seed)
        parts = [(fold_of != fold, fold_of == fold) for fold in range(folds)]
    else:
        parts = [(np.ones(len(dev[1]), dtype=bool), np.ones(count, dtype=bool))]
    # Methods that share a score are tuned on the same solves.
    every: dict[str, list[_Trial]] = {method.name: [] for method in chosen_methods}
    scores = list(dict.fromkeys(score for method in chosen_methods for score in method.scores))
    for done, score in enumerate(scores):
        line = f"Scoring word pairs ({done + 1} of {len(scores)} settings)"
        _step(progress, cancelled, 0.9 * done / len(scores), line)
        for method in chosen_methods:
            if score in method.scores:
                every[method.name] += dev_trials.run(method, score)
        if len(dev_trials.pairs) > KEPT_PAIRS:
            dev_trials.forget()
    results = []
    for done, method in enumerate(chosen_methods):
        _step(progress, cancelled, 0.9 + 0.1 * done / len(chosen_methods), f"Intervals of {method.label}")
        chosen = []
        found: dict[int, tuple[tuple[WordLink, ...], NDArray[np.float64]]] = {}
        for train, test in parts:
            best = best_trial(every[method.name], train)
            chosen.append(best.settings)
            found |= trials.links(best.settings, test)
        ordered = [found[k] for k in range(count)]
        links = tuple(item[0] for item in ordered)
        counts = np.stack(
            [
                [len(own), len(pair.sure), len(pair.possible.intersection(own)), len(pair.sure.intersection(own))]
                for own, pair in zip(links, gold.pairs, strict=True)
            ]
        ).astype(np.int64)
        results.append(
            MethodResult(
                name=method.name,
                label=method.label,
                family=method.family,
                counts=counts,
                scores=total_scores(counts),
                f1=f1_interval(counts),
                aer=aer_interval(counts),
                average_precision=average_precision_interval([item[1] for item in ordered], gold.pairs),
                chosen=tuple(chosen),
                links=links,
            )
        )
    unsolved = trials.unsolved + (0 if dev is None else dev_trials.unsolved)
    return tuple(results), unsolved


CURVE_EPSILONS = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
CURVE_METHODS = ("softmax", "bidirectional", "cosine", "sinkhorn", "partial")


def _curve_method(method: Method, epsilons: Sequence[float] | None) -> Method:
    """Return the method with other ε, and with one value of each further setting of its score."""
    if method.scores[0].score == "cosine":
        return method
    middle = method.scores[len(method.scores) // 2]
    if epsilons is None:
        same = {"relaxation": middle.relaxation, "null_margin": middle.null_margin}
        own = [s for s in method.scores if {"relaxation": s.relaxation, "null_margin": s.null_margin} == same]
        return replace(method, scores=tuple(own))
    return replace(method, scores=tuple(replace(middle, epsilon=float(e)) for e in epsilons))


def curve(
    cosines: Cosines,
    gold: GoldSet,
    at: float,
    chosen_methods: Sequence[Method],
    *,
    folds: int = 5,
    seed: int = 0,
) -> list[CurvePoint]:
    """Return F1 on held-out folds of some methods at one place of a curve."""
    trials = Trials(cosines, gold.pairs)
    fold_of = make_folds(gold.pairs, folds, seed)
    points = []
    for method in chosen_methods:
        found = [trial for score in method.scores for trial in trials.run(method, score)]
        counts = np.zeros((len(gold), 4), dtype=np.int64)
        for fold in range(folds):
            best = best_trial(found, fold_of != fold)
            counts[fold_of == fold] = best.counts[fold_of == fold]
        points.append(CurvePoint(method.name, at, f1_interval(counts)))
    return points


def evaluate(
    gold: GoldSet,
    *,
    model: str | None = None,
    layer: int | None = None,
    centre: bool = False,
    orders: Sequence[float] = (0.0,),
    neighbours: Sequence[float] = (0.0,),
    method_names: Sequence[str] = FIVE,
    folds: int = 5,
    seed: int = 0,
    dev: GoldSet | None = None,
    epsilon_curve: bool = False,
    layer_curve: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> EvaluationResult:
    """Embed the pairs of a gold set, find links by several methods, and compare them with those of people.

    Args:
        gold: the pairs to report on.
        model, layer, centre: as in `sinkviz.embed`; without a model the multilingual one if the set names a language
            other than English, else the default one; without a layer the model's default.
        orders: weights of word order that every method may choose among, in units of the cost's scale; 0 leaves it
            out.
        neighbours: weights of the words before and after that every method may choose among; 0 leaves them out.
        method_names: names from `methods()`.
        folds, seed: cross-validation, when there is no dev set.
        dev: pairs to tune on instead of folds; all of `gold` is reported then.
        epsilon_curve, layer_curve: also F1 against ε and against the hidden layer (thresholds tuned at each place).
        device: where to embed.
        progress: told the share that is done and what is being done.
        cancelled: asked often; True stops with `EvaluationCancelledError`.

    Raises:
        ValueError: an unknown method, a model or layer that does not exist, too few pairs for the folds, dev pairs
            that are also reported on.
        EvaluationCancelledError: it was stopped.
    """
    from sinkviz.alignment.words import word_cosines

    started = time.perf_counter()
    known = methods(orders, neighbours)
    unknown = [name for name in method_names if name not in known]
    if unknown or not method_names:
        raise ValueError(f"methods: expected some of {', '.join(known)}, got {', '.join(unknown) or 'none'}")
    chosen = [known[name] for name in dict.fromkeys(method_names)]
    if dev is None:
        make_folds(gold.pairs, folds, seed)
    else:
        reported = {(pair.source, pair.target) for pair in gold.pairs}
        shared = sum((pair.source, pair.target) in reported for pair in dev.pairs)
        if shared:
            raise ValueError(f"dev: expected pairs that are not reported on, got {shared} that are in both sets")
    spans = (0.0, 0.4, 0.7 if epsilon_curve or layer_curve else 1.0)

    def part(low: float, high: float) -> Progress | None:
        if progress is None:
            return None
        return lambda share, line: progress(low + (high - low) * share, line)

    embedded = word_cosines(
        gold,
        model=model,
        layer=layer,
        all_layers=layer_curve,
        centre=centre,
        device=device,
        progress=part(spans[0], spans[1]),
        cancelled=cancelled,
    )
    dev_cosines = None
    if dev is not None:
        found = word_cosines(dev, model=model, layer=layer, centre=centre, device=device, cancelled=cancelled)
        dev_cosines = found.cosines[found.layer]
    own = embedded.layer
    results, unsolved = evaluate_cosines(
        embedded.cosines[own],
        gold,
        chosen,
        folds=folds,
        seed=seed,
        dev=None if dev is None or dev_cosines is None else (dev_cosines, dev),
        progress=part(spans[1], spans[2]),
        cancelled=cancelled,
    )
    by_epsilon: list[CurvePoint] = []
    by_layer: list[CurvePoint] = []
    places = [("epsilon", float(e)) for e in CURVE_EPSILONS] if epsilon_curve else []
    places += [("layer", float(k)) for k in sorted(embedded.cosines)] if layer_curve else []
    drawn = [known[name] for name in CURVE_METHODS]
    for done, (kind, at) in enumerate(places):
        _step(
            progress,
            cancelled,
            spans[2] + (1 - spans[2]) * done / len(places),
            f"Curve over {'ε' if kind == 'epsilon' else 'layers'}: {at:g}",
        )
        if kind == "epsilon":
            here = [_curve_method(method, (at,)) for method in drawn if method.name != "cosine"]
            by_epsilon += curve(embedded.cosines[own], gold, at, here, folds=max(folds, 2), seed=seed)
        else:
            here = [_curve_method(method, None) for method in drawn]
            by_layer += curve(embedded.cosines[int(at)], gold, at, here, folds=max(folds, 2), seed=seed)
    _step(progress, cancelled, 1.0, "Done")
    return EvaluationResult(
        data=gold.name,
        pairs=len(gold),
        links=sum(len(pair.sure) for pair in gold.pairs),
        model=embedded.model,
        layer=own,
        centred=centre,
        orders=tuple(float(order) for order in orders),
        neighbours=tuple(float(weight) for weight in neighbours),
        tuned_on=(f"the other folds of {folds} (seed {seed})" if dev is None else f"{dev.name} ({len(dev)} pairs)"),
        methods=results,
        epsilon_curve=tuple(by_epsilon),
        layer_curve=tuple(by_layer),
        unsolved=unsolved,
        seconds=time.perf_counter() - started,
    )
