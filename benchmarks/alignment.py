"""Measure word alignment against gold links; prints Markdown tables.

    PYTHONPATH=. python benchmarks/alignment.py english --data EDINBURGH_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py translations --data XLWA_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py last-layer --data XLWA_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py defaults --data EDINBURGH_FOLDER XLWA_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py curves --data EDINBURGH_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py speed --data EDINBURGH_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py transfer --data EDINBURGH_FOLDER XLWA_FOLDER
    PYTHONPATH=. python benchmarks/alignment.py trained --data EDINBURGH_FOLDER CV.json …

where each CV.json was written by `python -m sinkviz train --data EDINBURGH_FOLDER --cross-validate 5 --head HEAD --out
CV.json`, HEAD in sinkhorn, bidirectional, softmax, scalars (and --seeds 1 for another seed).

The data are not part of this repository: Edinburgh++ (Apache-2.0) and XL-WA (CC BY-NC-SA 4.0).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from sinkviz.alignment.align import DEFAULTS
from sinkviz.alignment.evaluation import EvaluationResult, describe, evaluate, evaluate_cosines, make_folds
from sinkviz.alignment.gold import GoldSet, read_gold
from sinkviz.alignment.methods import FIVE, Method, methods
from sinkviz.alignment.metrics import f1_interval, paired_test, total_scores
from sinkviz.alignment.training import HeadConfig, train_head, transfer, word_pairs
from sinkviz.alignment.words import word_cosines
from sinkviz.embedding import DEFAULT_MODEL, MULTILINGUAL_MODEL, load_model

ALL = tuple(methods())
UNGROWN = tuple(name for name in ALL if not name.endswith("-grown"))
LANGUAGES = ("es", "it", "ru")


def xlwa(folder: Path) -> dict[str, GoldSet]:
    return {language: read_gold(folder / f"{language}.dev.tsv") for language in LANGUAGES}


def head(title: str) -> None:
    print(f"\n### {title}\n\n{datetime.date.today()}, {platform.machine()}, Python {platform.python_version()}\n")


def table(result: EvaluationResult, reference: str = "cosine") -> None:
    print(
        f"{result.data}: {result.pairs} pairs, {result.links} sure links; {result.model} layer {result.layer}"
        f"{', centred' if result.centred else ''}; word order {', '.join(f'{o:g}' for o in result.orders)}; "
        f"tuned on {result.tuned_on}; unsolved {result.unsolved}; {result.seconds:.0f} s\n"
    )
    print(f"| method | F1 | precision | recall | AER | AP | F1 − {reference} | p |\n|---|---|---|---|---|---|---|---|")
    for row in result.table(reference):
        print(
            f"| {row['method']} | {100 * row['F1']:.2f} [{100 * row['F1 low']:.1f}, {100 * row['F1 high']:.1f}] "
            f"| {100 * row['precision']:.1f} | {100 * row['recall']:.1f} "
            f"| {100 * row['AER']:.2f} [{100 * row['AER low']:.1f}, {100 * row['AER high']:.1f}] "
            f"| {100 * row['AP']:.1f} [{100 * row['AP low']:.1f}, {100 * row['AP high']:.1f}] "
            f"| {100 * row['difference']:+.2f} [{100 * row['difference low']:+.2f}, "
            f"{100 * row['difference high']:+.2f}] | {row['p']:.4f} |"
        )
    best = result.best("transport")
    print(f"\nSettings of {best.label}, by fold: {' · '.join(dict.fromkeys(describe(one) for one in best.chosen))}\n")


def english(data: list[Path]) -> None:
    gold = read_gold(data[0])
    for model, orders, neighbours in (
        (DEFAULT_MODEL, (0.0,), (0.0,)),
        (DEFAULT_MODEL, (1.0,), (0.0,)),
        (DEFAULT_MODEL, (0.5, 1.0), (0.15, 0.3)),
        (MULTILINGUAL_MODEL, (1.0,), (0.0,)),
    ):
        head(f"English paraphrases, {model}, word order {orders}, neighbours {neighbours}")
        table(evaluate(gold, model=model, orders=orders, neighbours=neighbours, method_names=ALL))


def translations(data: list[Path]) -> None:
    for language, gold in xlwa(data[0]).items():
        for orders, neighbours in (((0.0,), (0.0,)), ((0.0, 1.0), (0.0,)), ((0.0, 1.0), (0.0, 0.15))):
            head(f"English to {language}, word order {orders}, neighbours {neighbours}")
            table(evaluate(gold, model=MULTILINGUAL_MODEL, orders=orders, neighbours=neighbours, method_names=ALL))


def last_layer(data: list[Path]) -> None:
    for language, gold in xlwa(data[0]).items():
        for centre in (False, True):
            head(f"English to {language}, last layer, {'centred' if centre else 'raw'}")
            table(evaluate(gold, model=MULTILINGUAL_MODEL, layer=12, centre=centre, method_names=UNGROWN))


def defaults(data: list[Path]) -> None:
    """What `align` does when nothing is chosen: fixed settings, no tuning on the set."""
    head("Defaults of align()")
    english_set, translated = read_gold(data[0]), xlwa(data[1])
    jobs = [(DEFAULT_MODEL, english_set), *((MULTILINGUAL_MODEL, gold) for gold in (english_set, *translated.values()))]
    fixed = [
        Method(name, name, "transport", s.rule, (s.score,), (s.threshold,), (s.growth,)) for name, s in DEFAULTS.items()
    ]
    print(f"| model | set | {' | '.join(method.name for method in fixed)} |\n|---|---|{'---|' * len(fixed)}")
    for model, gold in jobs:
        found = word_cosines(gold, model=model)
        results, _ = evaluate_cosines(found.cosines[found.layer], gold, fixed, folds=2)
        print(f"| {model} | {gold.name} | {' | '.join(f'{100 * one.f1.value:.2f}' for one in results)} |")


def curves(data: list[Path]) -> None:
    result = evaluate(read_gold(data[0]), model=DEFAULT_MODEL, epsilon_curve=True, layer_curve=True)
    for title, points in (("ε, units of the cost's scale", result.epsilon_curve), ("hidden layer", result.layer_curve)):
        head(f"F1 against {title}")
        names = list(dict.fromkeys(point.method for point in points))
        places = list(dict.fromkeys(point.at for point in points))
        print(f"| method | {' | '.join(f'{at:g}' for at in places)} |\n|---|{'---|' * len(places)}")
        for name in names:
            print(f"| {name} | {' | '.join(f'{100 * p.f1.value:.1f}' for p in points if p.method == name)} |")


REFERENCES = (
    "cosine",
    "bidirectional-null",
    "partial-null",
    "bidirectional-grown",
    "partial-grown",
    "unbalanced-grown",
)


def trained(data: list[Path]) -> None:
    """Heads trained on the other folds against each other and against untrained methods, pair by pair.

    Where a head was run with several targets (`--linked-null`), pairs that were held back in training choose one for each
    fold and rule.
    """
    gold = read_gold(data[0])
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for path in data[1:]:
        found = json.loads(path.read_text(encoding="utf-8"))
        for index, seed in enumerate(found["seeds"]):
            chosen = [one for one in found["chosen"] if one["seed"] == seed]
            counts = {kind: np.asarray(table[index]) for kind, table in found["counts"].items()}
            run = {"linked_null": found["linked_null"], "chosen": chosen, "counts": counts}
            runs.setdefault((found["head"], seed), []).append(run)
            print(
                f"- {found['head']}, seed {seed}, null partner of linked words {found['linked_null']:g}: "
                f"{found['parameters']} trained numbers, {np.mean(found['seconds']):.0f} s for a fold; "
                f"rate and epoch by fold: {[(one['rate'], one['epoch']) for one in chosen]}; "
                f"F1 {', '.join(f'{kind} {100 * total_scores(table).f1:.2f}' for kind, table in counts.items())}"
            )
    tables: dict[str, np.ndarray] = {}
    for (kind_of_head, seed), every in runs.items():
        fold = make_folds(gold.pairs, len(every[0]["chosen"]), seed=0)
        for kind in every[0]["counts"]:
            table = np.zeros_like(every[0]["counts"][kind])
            picked = [max(every, key=lambda run: run["chosen"][part]["dev_f1"][kind]) for part in range(fold.max() + 1)]
            for part, run in enumerate(picked):
                table[fold == part] = run["counts"][kind][fold == part]
            tables[f"trained {kind_of_head}, {kind}, seed {seed}"] = table
            if len(every) > 1:
                print(f"- {kind_of_head}, {kind}: targets by fold {[run['linked_null'] for run in picked]}")
    for orders, neighbours, word in (
        ((0.0,), (0.0,), "no word order"),
        ((1.0,), (0.0,), "word order"),
        ((0.5, 1.0), (0.15, 0.3), "word order and neighbours"),
    ):
        found = evaluate(gold, model=DEFAULT_MODEL, orders=orders, neighbours=neighbours, method_names=REFERENCES)
        for one in found.methods:
            tables[f"untrained {one.label}, {word}"] = one.counts
    head("Trained and untrained, F1")
    print("| method | F1 | precision | recall |\n|---|---|---|---|")
    for name, table in tables.items():
        scores, f1 = total_scores(table), f1_interval(table)
        print(
            f"| {name} | {100 * f1.value:.2f} [{100 * f1.low:.1f}, {100 * f1.high:.1f}] "
            f"| {100 * scores.precision:.2f} | {100 * scores.recall:.2f} |"
        )
    head("Differences, paired")
    print("| trained | against | difference | p |\n|---|---|---|---|")
    for name in tables:
        if not name.startswith("trained sinkhorn"):
            continue
        _, kind, seed = name.split(", ")
        for other in tables:
            rival = other.startswith("untrained") or (kind in other.split(", ") and seed in other.split(", "))
            if rival and other != name:
                test = paired_test(tables[name], tables[other])
                gap = test.difference
                print(
                    f"| {name} | {other} | {100 * gap.value:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}] "
                    f"| {test.p_value:.4f} |"
                )


def transfer_heads(data: list[Path]) -> None:
    """Heads trained on English paraphrases with the multilingual model, on translations; nothing tuned on them."""
    english_set = read_gold(data[0])
    layer = load_model(MULTILINGUAL_MODEL).info.layer(None)
    kinds = [(kind, 0.6) for kind in ("sinkhorn", "bidirectional", "softmax", "scalars")] + [("sinkhorn", 0.0)]
    trained_tables: dict[str, dict[str, np.ndarray]] = {language: {} for language in LANGUAGES}
    sets = xlwa(data[1])
    pairs = word_pairs(english_set, model=MULTILINGUAL_MODEL, layer=layer, centre=True)
    for kind, noise in kinds:
        one = train_head(pairs, HeadConfig(head=kind, neighbours=0, refinement=0, noise=noise))
        name = f"trained {kind}, noise {noise:g}"
        held = ", ".join(f"{rule} {100 * value:.2f}" for rule, value in one.dev_f1.items())
        print(
            f"- {name}: rate {one.learning_rate:g}, epoch {one.epoch}, {one.seconds:.0f} s, English held back: {held}"
        )
        for language, gold in sets.items():
            found = transfer(one, word_pairs(gold, model=MULTILINGUAL_MODEL, layer=layer, centre=True))
            trained_tables[language] |= {f"{name}, {rule}": table for rule, table in found.items()}
    reference = "trained sinkhorn, noise 0.6, grown"
    names = ("cosine", "bidirectional-grown", "partial", "partial-null", "partial-grown", "unbalanced-grown")
    for language, gold in sets.items():
        head(f"English to {language}, everything chosen on English paraphrases")
        tables = dict(trained_tables[language])
        for centre in (False, True):
            found = evaluate(gold, model=MULTILINGUAL_MODEL, centre=centre, method_names=names, dev=english_set)
            word = "centred" if centre else "raw"
            tables |= {f"untrained {one.label}, {word}": one.counts for one in found.methods}
        own = evaluate(gold, model=MULTILINGUAL_MODEL, method_names=names)
        tables |= {f"untrained {one.label}, raw, tuned on other folds of the set": one.counts for one in own.methods}
        print(f"| method | F1 | precision | recall | {reference} − it |\n|---|---|---|---|---|")
        for name, table in tables.items():
            f1, scores = f1_interval(table), total_scores(table)
            gap = paired_test(tables[reference], table).difference
            print(
                f"| {name} | {100 * f1.value:.2f} [{100 * f1.low:.1f}, {100 * f1.high:.1f}] | "
                f"{100 * scores.precision:.1f} | {100 * scores.recall:.1f} | "
                f"{100 * gap.value:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}] |"
            )


def speed(data: list[Path]) -> None:
    head("300 pairs, five methods")
    gold = read_gold(data[0]).subset(range(300))
    for name, options in (
        ("first", {}),
        ("again", {}),
        ("with both curves", {"epsilon_curve": True, "layer_curve": True}),
    ):
        started, cpu = time.perf_counter(), time.process_time()
        evaluate(gold, model=DEFAULT_MODEL, method_names=FIVE, **options)
        print(f"- {name}: {time.perf_counter() - started:.1f} s ({time.process_time() - cpu:.1f} s of CPU)")


if __name__ == "__main__":
    parts = {
        "english": english,
        "translations": translations,
        "last-layer": last_layer,
        "defaults": defaults,
        "curves": curves,
        "speed": speed,
        "trained": trained,
        "transfer": transfer_heads,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    arguments = parser.parse_args()
    parts[arguments.part](arguments.data)
