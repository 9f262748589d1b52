"""Word alignment: links from couplings, gold links that people made, and how well the two agree."""

from __future__ import annotations

from sinkviz.alignment.align import align
from sinkviz.alignment.evaluation import EvaluationCancelledError, EvaluationResult, evaluate
from sinkviz.alignment.gold import GoldPair, GoldSet, dump_gold, gold_from_files, mini_gold, read_gold
from sinkviz.alignment.links import links_from_coupling
from sinkviz.alignment.metrics import (
    JudgedLinks,
    PairedTest,
    Scores,
    average_precision,
    count_links,
    judge_links,
    paired_test,
    total_scores,
)

__all__ = [
    "EvaluationCancelledError",
    "EvaluationResult",
    "GoldPair",
    "GoldSet",
    "JudgedLinks",
    "PairedTest",
    "Scores",
    "align",
    "average_precision",
    "count_links",
    "dump_gold",
    "evaluate",
    "gold_from_files",
    "judge_links",
    "links_from_coupling",
    "mini_gold",
    "paired_test",
    "read_gold",
    "total_scores",
]
