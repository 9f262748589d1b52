"""What the Inside page walks through: an encoder's way from two texts to a cost, the same form for every encoder.

"none" compares the hidden vectors of the embedding model themselves; "heads" takes the queries and keys that one of its
heads computes, across the two texts; a trained model brings encoders of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sinkviz.embedding import model_info
from sinkviz.measure import Measure, Unit

if TYPE_CHECKING:
    from sinkviz.coupling import Coupling
    from sinkviz.transformer import SinkhornTransformer

Numbers = NDArray[np.float64]
SideName = Literal["source", "target"]
Attention = Callable[[SideName, int, int | None], Numbers]


@dataclass(frozen=True, eq=False)
class Walk:
    """Two texts on their way through one encoder.

    Attributes:
        source, target: the measures that go in, in the weights that are solved on.
        stage_names: of the clouds before the first layer and after each.
        stages: the clouds in one fixed plane for each space, shapes (S, n, 2) and (S, m, 2).
        kept: share of the variance over all stages that those planes keep, for source and target.
        one_space: whether both clouds lie in one space at every stage, so that they may be drawn together.
        heads: attention heads of a layer; 0 where there are no layers.
        width: coordinates of a point inside the layers.
        attention: own attention of a text at a layer, from 1, of one head or the mean of all (None): (n, n), rows sum
            to 1.
        query, key: Q(μ, x), shape (n, d), and K(ν, y), shape (m, d).
        cost: C, shape (n, m).
        own_epsilon: ε that belongs to the encoder, absolute; None for "none".
        mechanism: "sinkhorn", "softmax" or "relaxed": how the encoder's scores become a plan.
        relaxation: ρ, absolute, for "relaxed".
        residual: TeX of the terms that a trained model's cost has beside ⟨Q, K⟩; "" for none.
        notes: what a reader must know, in plain sentences.
    """

    source: Measure
    target: Measure
    stage_names: tuple[str, ...]
    stages: tuple[Numbers, Numbers]
    kept: tuple[float, float]
    one_space: bool
    heads: int
    width: int
    attention: Attention
    query: Numbers
    key: Numbers
    cost: Numbers
    own_epsilon: float | None
    mechanism: Literal["sinkhorn", "softmax", "relaxed"] = "sinkhorn"
    relaxation: float | None = None
    residual: str = ""
    notes: tuple[str, ...] = ()


def fixed_plane(stages: list[Numbers], weights: list[Numbers]) -> tuple[list[Numbers], float]:
    """Project clouds of several stages on the two leading principal axes of all of them together.

    Args:
        stages: clouds of shape (n_k, d). weights: their weights, shape (n_k,); every cloud counts alike.

    Returns:
        the clouds in that plane, shape (n_k, 2), and the share of the variance it keeps.
    """
    whole = np.concatenate(stages).astype(np.float64)
    mass = np.concatenate(weights) / len(weights)
    mean = mass @ whole
    scaled = np.sqrt(mass)[:, None] * (whole - mean)
    _, values, axes = np.linalg.svd(scaled, full_matrices=False)
    plane = np.zeros((2, whole.shape[1]))
    count = min(2, len(values))
    plane[:count] = axes[:count]
    peak = np.abs(plane).argmax(axis=1)
    plane *= np.where(plane[np.arange(2), peak] < 0, -1.0, 1.0)[:, None]
    total = float((values**2).sum())
    kept = float((values[:2] ** 2).sum()) / total if total > 0 else 1.0
    return [(cloud.astype(np.float64) - mean) @ plane.T for cloud in stages], kept


def _embedding_stages(
    texts: tuple[str, str], weighted: tuple[Measure, Measure], model: str, last: int, centre: bool
) -> tuple[tuple[str, ...], tuple[Numbers, Numbers], float]:
    from sinkviz.embedding import hidden_layers

    unit = weighted[0].unit
    clouds: list[Numbers] = []
    weights: list[Numbers] = []
    for text, measure in zip(texts, weighted, strict=True):
        for one in hidden_layers(text, layers=range(last + 1), model=model, unit=unit, centre=centre):
            clouds.append(one.points.astype(np.float64))
            weights.append(measure.weights)
    flat, kept = fixed_plane(clouds, weights)
    names = ("input embeddings", *(f"after layer {layer} of {last}" for layer in range(1, last + 1)))
    return names, (np.stack(flat[: last + 1]), np.stack(flat[last + 1 :])), kept


def grouped(values: Numbers, group: NDArray[np.int64], count: int) -> Numbers:
    """Return the means of rows over groups, shape (count, d)."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, group, values)
    return np.asarray(sums / np.bincount(group, minlength=count)[:, None])


def _embedding_attention(texts: tuple[str, str], model: str, unit: Unit) -> Attention:
    def attention(side: SideName, layer: int, head: int | None) -> Numbers:
        from sinkviz.embedding import attention_projections

        text = texts[0] if side == "source" else texts[1]
        found = attention_projections(text, layer=layer, head=head, model=model)
        scores = found.query.astype(np.float64) @ found.key.astype(np.float64).transpose(0, 2, 1) * found.scale
        scores -= scores.max(-1, keepdims=True)
        shares = np.exp(scores)
        tokens = (shares / shares.sum(-1, keepdims=True)).mean(0)
        group, spans = found.measure.group(unit)
        # A word attends as its tokens do on average, and receives what they receive together.
        columns = np.zeros((len(tokens), len(spans)))
        np.add.at(columns.T, group, tokens.T)
        return grouped(columns, group, len(spans))

    return attention


def walk_none(texts: tuple[str, str], weighted: tuple[Measure, Measure], model: str, layer: int, centre: bool) -> Walk:
    """Return the way without an encoder: C = −cos(x, y) of the hidden vectors of one layer."""
    from sinkviz.pipeline import cosine_cost

    names, stages, kept = _embedding_stages(texts, weighted, model, layer, centre)
    cost = cosine_cost(*weighted)

    def unit_rows(points: NDArray[np.float32]) -> Numbers:
        exact = points.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        return np.asarray(np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0))

    return Walk(
        source=weighted[0],
        target=weighted[1],
        stage_names=names,
        stages=stages,
        kept=(kept, kept),
        one_space=True,
        heads=model_info(model).heads if layer > 0 else 0,
        width=model_info(model).dimension,
        attention=_embedding_attention(texts, model, weighted[0].unit),
        query=unit_rows(weighted[0].points),
        key=unit_rows(weighted[1].points),
        cost=cost,
        own_epsilon=None,
    )


def walk_heads(texts: tuple[str, str], weighted: tuple[Measure, Measure], model: str, layer: int, head: int) -> Walk:
    """Return the way through one head of the embedding model, its queries and keys across the two texts.

    C = −⟨q(x), k(y)⟩ with q = W_Q h + b_Q, k = W_K h + b_K at hidden state h = layer − 1. The model itself divides by
    √d, so its temperature on this cost is ε = √d.
    """
    from sinkviz.embedding import attention_projections

    unit = weighted[0].unit
    sides = []
    measures = []
    for text, measure, name in zip(texts, weighted, ("query", "key"), strict=True):
        found = attention_projections(text, layer=layer, head=head, model=model)
        group, spans = found.measure.group(unit)
        # Queries and keys are affine in the vector: those of a mean are the mean of those.
        sides.append(grouped(getattr(found, name)[0].astype(np.float64), group, len(spans)))
        measures.append(
            found.measure.with_weights(np.ones(len(found.measure))).coarsen(unit).with_weights(measure.weights)
        )
    query, key = sides
    names, stages, kept = _embedding_stages(texts, weighted, model, layer - 1, False)
    return Walk(
        source=measures[0],
        target=measures[1],
        stage_names=names,
        stages=stages,
        kept=(kept, kept),
        one_space=True,
        heads=model_info(model).heads if layer > 1 else 0,
        width=model_info(model).dimension,
        attention=_embedding_attention(texts, model, unit),
        query=query,
        key=key,
        cost=-query @ key.T,
        own_epsilon=math.sqrt(query.shape[1]),
    )


def walk_model(weighted: tuple[Measure, Measure], model: SinkhornTransformer) -> Walk:
    """Return the way through the encoders of a trained model.

    Raises:
        ValueError: points of another dimension than the model was made for.
    """
    trace = model.trace_measures(*weighted)
    config = model.config
    flat: list[Numbers] = []
    kept = []
    for one, measure in zip((trace.query, trace.key), weighted, strict=True):
        clouds = [state.double().numpy() for state in one.states]
        planes, share = fixed_plane(clouds, [measure.weights] * len(clouds))
        flat.append(np.stack(planes))
        kept.append(share)

    def attention(side: SideName, layer: int, head: int | None) -> Numbers:
        found = (trace.query if side == "source" else trace.key).attentions[layer - 1].double().numpy()
        return np.asarray(found.mean(0) if head is None else found[head])

    notes = []
    residual = ""
    if config.residual:
        residual = r"-\alpha\cos(x_i,y_j)"
        if config.neighbours:
            k, total = ("1", "") if config.neighbours == 1 else ("k", rf"\sum_{{k=1}}^{{{config.neighbours}}}")
            cosines = rf"\cos(x_{{i-{k}}},y_{{j-{k}}})+\cos(x_{{i+{k}}},y_{{j+{k}}})"
            residual += rf"-{total}\gamma_{{{k}}}\left({cosines}\right)"
        if config.refinement:
            residual += r"-R(x_i,y_j)"
        alpha, weight = (float(one.detach()) for one in (model.residual_scale, model.score_scale))
        beside = "".join(
            f"{float(scale):.3g} · (cosine {distance} before + cosine {distance} after) + "
            for distance, scale in enumerate(model.neighbour_scale.detach() if config.neighbours else (), start=1)
        )
        notes.append(
            f"This model adds what it has learned to the plain cosine: score = {alpha:.3g} · cosine + {beside}"
            f"{weight:.3g} · ⟨Q, K⟩/√{config.out}{' + R' if config.refinement else ''}."
        )
        if config.refinement:
            words = 2 * config.neighbours + 1
            notes.append(
                f"R is a small network ({config.refinement} hidden numbers) on the cosines of the {words} words around "
                f"a source word with the {words} around a target word, how near either text comes to the other's word, "
                "and ⟨Q, K⟩."
            )
    if config.normalisation == "sinkformer":
        notes.append(
            "A Sinkformer balances the attention in every layer, not only at the end. It is here for comparison; the "
            "theorem speaks of ordinary layers with one balanced last step."
        )
    if config.normalisation == "softmax":
        notes.append("This model ends in softmax: its plan keeps the rows only.")
    layers = config.layers
    return Walk(
        source=weighted[0],
        target=weighted[1],
        stage_names=("entering", *(f"after layer {layer} of {layers}" for layer in range(1, layers + 1))),
        stages=(flat[0], flat[1]),
        kept=(kept[0], kept[1]),
        one_space=False,
        heads=config.heads if layers > 0 else 0,
        width=config.width,
        attention=attention,
        query=trace.query.output.double().numpy(),
        key=trace.key.output.double().numpy(),
        cost=trace.cost.double().numpy(),
        own_epsilon=model.epsilon,
        mechanism={"softmax": "softmax", "relaxed": "relaxed"}.get(config.normalisation, "sinkhorn"),  # type: ignore[arg-type]
        relaxation=config.relaxation,
        residual=residual,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class Iterations:
    """Sinkhorn's iteration from g = 0, and how fast it goes.

    Attributes:
        steps: half-steps, shape (S,): k + ½ has exact rows, a whole k exact columns.
        row_error, column_error: L1 errors of the marginals, shape (S,).
        predicted_rate: σ₂² of the converged plan: what a whole step multiplies the error by in the end.
        measured_rate: what it was multiplied by over the last whole steps above rounding; None with fewer than two.
        plan: from the index of a half-step to its plan, (n, m).
    """

    steps: Numbers
    row_error: Numbers
    column_error: Numbers
    predicted_rate: float
    measured_rate: float | None
    plan: Callable[[int], Numbers]


ROUNDING = 1e-13
_MOST_KEPT = 240


def second_singular_value(plan: Numbers, a: Numbers, b: Numbers) -> float:
    """Return σ₂ of diag(a)^−½ P diag(b)^−½, over the atoms with mass; 0 where there is no second one.

    Near the solution a whole Sinkhorn step multiplies the error by σ₂² (Knight, SIAM J. Matrix Anal. 30 (2008)).
    """
    rows, columns = a > 0, b > 0
    scaled = plan[np.ix_(rows, columns)] / np.sqrt(np.outer(a[rows], b[columns]))
    values = np.linalg.svd(scaled, compute_uv=False)
    return min(1.0, float(values[1])) if len(values) > 1 else 0.0


def iterate(walk: Walk, coupling: Coupling) -> Iterations:
    """Run the plain iteration of the balanced problem at the coupling's ε, until rounding or 20,000 half-steps.

    Args:
        walk: gives cost and weights. coupling: the balanced plan at that ε; its spectrum predicts the rate.
    """
    from sinkviz import transport

    a, b = walk.source.weights, walk.target.weights
    rate = second_singular_value(coupling.plan, a, b) ** 2
    wanted = 12.0 if rate < 1e-6 else min(10_000.0, max(6.0, math.log(1e-13) / math.log(min(rate, 1 - 1e-9)) + 4))
    last = math.ceil(wanted)
    every = np.arange(1, 2 * last + 1)
    if len(every) > _MOST_KEPT:
        # Whole steps come with the half-step before them, so that both errors are seen at every place kept.
        whole = np.unique(np.geomspace(1, last, _MOST_KEPT // 2).round().astype(int))
        every = np.unique(np.concatenate([2 * whole - 1, 2 * whole]))
    # Copies: a measure's weights are read-only, and torch wants memory that may be written.
    run = transport.half_steps(
        walk.cost.copy(), a.copy(), b.copy(), epsilon=coupling.epsilon, steps=[k / 2 for k in every]
    )
    steps = np.asarray(every / 2)
    rows, columns = run.row_error.cpu().numpy(), run.column_error.cpu().numpy()
    measured = measured_rate(steps, columns)
    return Iterations(steps, rows, columns, rate, measured, lambda k: np.asarray(run.plan(k).cpu().numpy()))


def measured_rate(steps: Numbers, column_error: Numbers) -> float | None:
    """Return the factor per whole step by which the column error fell, over the last two decades above rounding."""
    halves = (steps % 1 > 0) & (column_error > 100 * ROUNDING)
    places, errors = steps[halves], column_error[halves]
    if len(places) < 2:
        return None
    first = min(len(places) - 2, int(np.flatnonzero(errors <= 100 * errors[-1])[0]))
    span = float(places[-1] - places[first])
    return float((errors[-1] / errors[first]) ** (1 / span))
