"""Word links of two texts, with defaults that were chosen on dev data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from sinkviz.alignment.gold import WordLink
from sinkviz.alignment.links import NULL_RULES, Rule, choose, links_from_coupling, to_links
from sinkviz.alignment.methods import Score, ScoreSettings, Settings, batches, null_margin, shares

if TYPE_CHECKING:
    from sinkviz.alignment.training import Decoding
    from sinkviz.coupling import Mechanism
    from sinkviz.measure import Measure
    from sinkviz.transformer import SinkhornTransformer

NEIGHBOURS = 0.05
"""Weight of the words before and after: at 0.05 no mechanism loses more than 0.2 points on any of the dev sets and most
gain, up to 0.7; at 0.1 paraphrases gain more and Spanish loses."""

DEFAULTS: dict[str, Settings] = {
    name: replace(settings, score=replace(settings.score, neighbours=NEIGHBOURS))
    for name, settings in {
        "partial": Settings(ScoreSettings("partial", epsilon=0.5, null_margin=1.5, order=0.5), "grown", 0.34, 0.25),
        "sinkhorn": Settings(ScoreSettings("sinkhorn", epsilon=0.7, order=0.5), "grown", 0.3, 0.25),
        "unbalanced": Settings(ScoreSettings("unbalanced", epsilon=0.5, relaxation=1.5, order=0.5), "grown", 0.42, 0.3),
        "relaxed": Settings(ScoreSettings("relaxed", epsilon=0.5, relaxation=1.5, order=0.5), "grown", 0.42, 0.3),
        "bidirectional": Settings(ScoreSettings("bidirectional", epsilon=0.35, order=0.5), "grown", 0.3, 0.2),
        "softmax": Settings(ScoreSettings("softmax", epsilon=0.5, order=1.0), "threshold", 0.46),
        "cosine": Settings(ScoreSettings("cosine", order=1.0), "mutual", -np.inf),
    }.items()
}
"""What `align` uses for each mechanism: chosen on Edinburgh++ train (English) and XL-WA dev (es, it, ru) together;
"unbalanced" by the folds' choices on each, and "relaxed" takes the settings of "unbalanced" untuned.

The figures are in benchmarks/alignment.md.
"""

TRAINED_THRESHOLD = 0.0


def align(
    source: str | Sequence[str],
    target: str | Sequence[str],
    *,
    model: str | None = None,
    layer: int | None = None,
    mechanism: str = "partial",
    epsilon: float | None = None,
    null_cost: float | None = None,
    threshold: float | None = None,
    rule: Rule | None = None,
    growth: float | None = None,
    order: float | None = None,
    neighbours: float | None = None,
    encoder: SinkhornTransformer | str | None = None,
) -> list[WordLink]:
    """Return which words of two texts belong together.

    Both texts are embedded and coupled by words (uniform weights, cost −cosine plus a little word order), and the
    pairs that exchange enough of what they give and receive are links.

    Args:
        source, target: texts, or lists of words as they stand.
        model, layer: as in `sinkviz.embed`.
        mechanism: "partial" (coupling with a null partner), "sinkhorn", "relaxed", "unbalanced", "softmax" (attention
            of source words), "bidirectional" (attention in both directions) or "cosine".
        epsilon: in units of the cost's scale, or absolute with an encoder; None = what was best on dev data.
        null_cost: price of having no partner, in the cost's units, for mechanisms with a null partner.
        threshold: share of what two words give and receive that they must exchange, 0 to 1 (for "cosine" the cosine).
        rule: "mutual", "threshold", "grown", "argmax", "null" or "beats-null"; see `sinkviz.alignment.links.choose`.
        growth: share that a neighbour of a link must exceed, for rule "grown".
        order: weight of word order, in units of the cost's scale; 0 leaves it out. Not with an encoder, which reads
            order from the embeddings.
        neighbours: weight of the words before and after, which tell two like words apart; 0 leaves them out, 0.1 is
            better than the default 0.05 between paraphrases. Not with an encoder.
        encoder: the name of a trained model in `sinkviz.transformer.registry`, which also states its embedding, price
            and thresholds; or a SinkhornTransformer. Mechanism "partial", "sinkhorn" or "softmax".

    Returns:
        (i, j), source word i with target word j, in reading order. Words are those of the list, or those of
        `sinkviz.text.word_spans` for a text; punctuation marks are words.

    Raises:
        ValueError: an unknown mechanism or rule, an option out of range or that the mechanism lacks, a text that
            cannot be read.

    Example:
        >>> align(["the", "cat", "sleeps"], ["a", "cat", "is", "sleeping"])
        [(0, 0), (1, 1), (2, 3)]
        >>> align(["the", "cat", "sleeps"], ["a", "cat", "is", "sleeping"], encoder="word-alignment")
        [(0, 0), (1, 1), (2, 3)]
    """
    from sinkviz.embedding import DEFAULT_MODEL, embed

    if mechanism not in DEFAULTS:
        raise ValueError(f"mechanism: expected one of {', '.join(DEFAULTS)}, got {mechanism!r}")
    if rule is not None and rule not in get_args(Rule):
        raise ValueError(f"rule: expected one of {', '.join(get_args(Rule))}, got {rule!r}")
    for name, share in (("threshold", threshold), ("growth", growth)):
        low = -1.0 if mechanism == "cosine" else 0.0
        if share is not None and not low <= share <= 1:
            raise ValueError(f"{name}: expected a number from {low:g} to 1, got {share}")
    centre = False
    if isinstance(encoder, str):
        stated = _stated(encoder)
        centre = stated.centre
        encoder, model, layer = stated.encoder, _agreed("model", model, stated), _agreed("layer", layer, stated)
        if null_cost is None and mechanism == "partial":
            null_cost = stated.null_cost
        if mechanism == "partial" and growth is None:
            own = stated.decoding.get("grown" if rule is None and threshold is None else rule or "")
            if own is not None:
                rule, growth = own.rule, own.growth
                threshold = own.threshold if threshold is None else threshold
    name = DEFAULT_MODEL if model is None else model
    first = embed(source, model=name, layer=layer, unit="word", centre=centre)
    second = embed(target, model=name, layer=layer, unit="word", centre=centre)
    if encoder is None:
        found = _untrained(first, second, mechanism, epsilon, null_cost, threshold, rule, growth, order, neighbours)
    else:
        if order or neighbours:
            raise ValueError(f"order, neighbours: an encoder has its own, got {order} and {neighbours}; leave them out")
        found = _trained(first, second, mechanism, epsilon, null_cost, threshold, rule, growth, encoder)
    rows, columns = _word_numbers(source, first), _word_numbers(target, second)
    return [(rows[i], columns[j]) for i, j in found]


@dataclass(frozen=True, eq=False)
class _Stated:
    """What the description of a trained model says about its use."""

    encoder: SinkhornTransformer
    model: str
    layer: int
    centre: bool
    null_cost: float
    decoding: dict[str, Decoding]


def _stated(name: str) -> _Stated:
    from sinkviz.alignment.training import Decoding
    from sinkviz.transformer.registry import get

    checkpoint = get(name)
    about = checkpoint.about
    try:
        decoding = {str(kind): Decoding(**one) for kind, one in about["decoding"].items()}
        embedding = about["embedding"]
        return _Stated(
            checkpoint.load(),
            str(embedding["model"]),
            int(embedding["layer"]),
            bool(embedding.get("centre", False)),
            float(about["null_cost"]),
            decoding,
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"encoder: expected a model of `sinkviz train`, which states embedding, null_cost and decoding; {name!r} "
            f"does not ({type(error).__name__}: {error}). Load it and give the model itself, with a null_cost"
        ) from error


def _agreed(option: Literal["model", "layer"], given: Any, stated: _Stated) -> Any:
    own = getattr(stated, option)
    if given is not None and given != own:
        raise ValueError(f"{option}: the encoder was trained on {own!r}, got {given!r}; leave it out")
    return own


def _word_numbers(text: str | Sequence[str], measure: Measure) -> list[int]:
    """Return for each word of a measure which word of the text it is; a word without a token carries no atom."""
    from sinkviz.text import join_words, word_spans

    spans = word_spans(text) if isinstance(text, str) else join_words(text)[1]
    number = {start: index for index, (start, _) in enumerate(spans)}
    return [number[start] for start, _ in measure.word_spans]


def _chosen(default: Settings, threshold: float | None, rule: Rule | None, growth: float | None) -> Settings:
    kind = default.rule if rule is None else rule
    if growth is not None and rule is None:
        kind = "grown"
    neighbour = (default.growth or 0.25) if growth is None and kind == "grown" else growth
    level = default.threshold if threshold is None else threshold
    return replace(default, rule=kind, threshold=level, growth=neighbour)


def _untrained(
    first: Measure,
    second: Measure,
    mechanism: str,
    epsilon: float | None,
    null_cost: float | None,
    threshold: float | None,
    rule: Rule | None,
    growth: float | None,
    order: float | None,
    neighbours: float | None,
) -> list[WordLink]:
    from sinkviz.pipeline import cosine_cost

    settings = _chosen(DEFAULTS[mechanism], threshold, rule, growth)
    score = settings.score
    if epsilon is not None:
        score = replace(score, epsilon=epsilon)
    if order is not None:
        score = replace(score, order=order)
    if neighbours is not None:
        score = replace(score, neighbours=neighbours)
    batch = batches([-cosine_cost(first, second)])[0]
    if null_cost is not None:
        score = replace(score, null_margin=null_margin(batch, score, null_cost))
    found = shares(batch, score)
    if not found.converged.all():
        raise ValueError(
            f"align: expected a coupling that converges, got none with epsilon {score.epsilon}; use a larger epsilon"
        )
    if settings.rule in NULL_RULES and found.null is None:
        raise ValueError(
            f'rule: "{settings.rule}" needs a null partner; use mechanism="partial", or give attention a null_cost'
        )
    marks = choose(
        found.share,
        settings.rule,
        settings.threshold,
        settings.growth,
        null=found.null if settings.rule in NULL_RULES else None,
    )
    return to_links((marks & batch.mask)[0])


def _trained(
    first: Measure,
    second: Measure,
    mechanism: str,
    epsilon: float | None,
    null_cost: float | None,
    threshold: float | None,
    rule: Rule | None,
    growth: float | None,
    encoder: SinkhornTransformer,
) -> list[WordLink]:
    from sinkviz.pipeline import couple

    if mechanism not in ("partial", "sinkhorn", "softmax"):
        raise ValueError(f'mechanism: expected "partial", "sinkhorn" or "softmax" with an encoder, got {mechanism!r}')
    if mechanism == "partial" and null_cost is None:
        raise ValueError(
            'null_cost: mechanism="partial" with an encoder needs the price of having no partner; give the encoder by '
            "its name, or the price that its description states"
        )
    coupling = couple(
        first,
        second,
        mechanism=cast("Mechanism", mechanism),
        epsilon=epsilon,
        null_cost=null_cost,
        encoder=encoder,
    )
    kind: Rule = rule or ("null" if coupling.null_cost is not None and threshold is None else "mutual")
    if growth is not None and rule is None:
        kind = "grown"
    level = TRAINED_THRESHOLD if threshold is None else threshold
    return links_from_coupling(coupling, rule=kind, threshold=level, growth=growth)


__all__ = ["DEFAULTS", "Score", "align"]
