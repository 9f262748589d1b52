"""Heads that learn word links on top of a frozen embedding model: the Sinkhorn Transformer on text, and its rivals.

Every head shares one score, from α = 1, γ = w = R = 0, so that training starts at the untrained coupling,

    s(x, y) = α cos(x, y) + Σ_k γ_k (cos(x₋ₖ, y₋ₖ) + cos(x₊ₖ, y₊ₖ)) + w ⟨Q(μ, x), K(ν, y)⟩ / √out + R(x, y)

where x₋ₖ and x₊ₖ are the words k places before and after x and R is a small network on the cosines of the words around
both (`sinkviz.transformer.refinement`), and one learned price z of having no partner. They differ in what is made of s:

* "sinkhorn": the balanced plan with a null partner on each side. Loss KL(π ‖ P), whose gradient in the cost and in z
  is (π − P)/ε exactly (`sinkviz.transformer.fenchel_young_loss`), on converged plans only;
* "bidirectional": softmax attention in both directions, each with a null partner; mean of both cross-entropies;
* "softmax": softmax attention of source words over target words and null; cross-entropy;
* "scalars": the Sinkhorn head with w = R = 0: α, γ and z only.

The target π of a pair has the marginals (a, 1)/2 and (b, 1)/2: gold links and null partners, projected onto them by
Sinkhorn iterations. Possible links count half as much as sure ones. A pair counts with its number of words, as it does
in the F1 of all links.

Gold links are few, so every head learns with the same restraint: Q = K (paraphrase has no direction), pairs shown in
either direction, dropout on the points, and the average of the weights over the last steps in place of the last ones.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sinkviz import transport
from sinkviz.alignment.evaluation import EvaluationCancelledError, make_folds
from sinkviz.alignment.gold import GoldPair, GoldSet
from sinkviz.alignment.links import NULL_RULES, beats_null, choose, mutual_argmax, share_matrix
from sinkviz.alignment.metrics import f1_of_sums
from sinkviz.transformer import SinkhornTransformer, fenchel_young_loss, pad, with_neighbours

Head = Literal["sinkhorn", "bidirectional", "softmax", "scalars"]
HEADS: tuple[Head, ...] = get_args(Head)
Counts = NDArray[np.int64]

TOLERANCE = 1e-5
THRESHOLDS = tuple(round(0.06 + 0.04 * k, 2) for k in range(22))
GROWTHS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)


@dataclass(frozen=True)
class HeadConfig:
    """A head and how it is trained; the defaults are those of the shipped checkpoint.

    Attributes:
        head: which one.
        width, layers, heads, out: sizes of both encoders.
        epsilon: ε, absolute; fixed, since α scales the score.
        epochs: most passes over the training pairs; pairs that were held back choose the epoch.
        batch: pairs in a step.
        learning_rates: rates of the encoders that are tried; pairs that were held back choose.
        scalar_rate: rate of α, w and z.
        weight_decay: decoupled, on the encoders.
        dropout: share of the points' coordinates set to 0 in training.
        noise: length of the noise that is added to a point in training, in lengths of the point. It makes like words
            less alike, as words of two languages are; 0 = none.
        average: decay of the running average of the weights, which is what is evaluated and kept; 0 = the last ones.
        linked_null: what a linked word gives to the null partner in the target, against 1 for a link.
        neighbours: how many words before and after a word enter its point; 0 = none.
        refinement: hidden width of the network that corrects scores by the words around; 0 = none, as it must be
            without neighbours. The scalars have none.
        shared: whether Q = K.
        turned: whether pairs are shown in a random direction.
        parts: parts of the pairs that are held back in turn to choose rate, epoch and thresholds.
        seed: of the weights, the order of the pairs and the parts.
    """

    head: Head = "sinkhorn"
    width: int = 64
    layers: int = 2
    heads: int = 4
    out: int = 64
    epsilon: float = 0.1
    epochs: int = 8
    batch: int = 16
    learning_rates: tuple[float, ...] = (1e-3, 3e-3)
    scalar_rate: float = 3e-2
    weight_decay: float = 0.01
    dropout: float = 0.3
    noise: float = 0.0
    average: float = 0.98
    linked_null: float = 0.0
    neighbours: int = 2
    refinement: int = 16
    shared: bool = True
    turned: bool = True
    parts: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise ValueError(f"head: expected one of {', '.join(HEADS)}, got {self.head!r}")
        for name, least in (("epochs", 1), ("batch", 1), ("parts", 2), ("neighbours", 0), ("refinement", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
        if self.refinement and not self.neighbours:
            raise ValueError(
                f"refinement: expected 0 without neighbours, got {self.refinement}; it reads the words around, so give "
                "neighbours >= 1 or refinement 0"
            )
        if not self.learning_rates:
            raise ValueError("learning_rates: expected at least one, got none")
        for name, value in (
            ("epsilon", self.epsilon),
            ("scalar_rate", self.scalar_rate),
            *(("learning_rates", rate) for rate in self.learning_rates),
        ):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: expected finite numbers > 0, got {value}")
        if not 0 <= self.noise <= 10:
            raise ValueError(f"noise: expected a number from 0 to 10, got {self.noise}")
        for name, value in (
            ("dropout", self.dropout),
            ("average", self.average),
            ("linked_null", self.linked_null),
        ):
            if not 0 <= value < 1:
                raise ValueError(f"{name}: expected a number from 0 to below 1, got {value}")


@dataclass(frozen=True, eq=False)
class WordPair:
    """Word vectors of a pair of texts with its gold links.

    Attributes:
        source, target: shape (n, d) and (m, d), float32.
        gold: the pair.
    """

    source: Tensor
    target: Tensor
    gold: GoldPair


def word_pairs(
    gold: GoldSet,
    *,
    model: str | None = None,
    layer: int | None = None,
    centre: bool = False,
    device: str = "auto",
    progress: Callable[[float, str], None] | None = None,
) -> list[WordPair]:
    """Embed the words of a gold set, as `sinkviz.embed(words, unit="word")` does.

    Raises:
        ValueError: a word for which the model has no token (its pair is named).
    """
    from sinkviz.alignment.words import default_model
    from sinkviz.embedding import embed_batch

    texts = [list(words) for pair in gold.pairs for words in (pair.source, pair.target)]
    name = default_model(gold) if model is None else model
    measures = embed_batch(texts, model=name, layer=layer, unit="word", centre=centre, device=device, progress=progress)
    result = []
    for k, pair in enumerate(gold.pairs):
        source, target = measures[2 * k], measures[2 * k + 1]
        if (len(source), len(target)) != (len(pair.source), len(pair.target)):
            raise ValueError(f"{gold.name}, pair {pair.id!r}: expected words that {name} has tokens for; leave it out")
        result.append(WordPair(torch.tensor(source.points), torch.tensor(target.points), pair))
    return result


class AlignmentHead(nn.Module):
    """A score with a price of having no partner; see the top of this module.

    Args:
        dim: coordinates of a word vector.
        config: sizes and kind.
    """

    def __init__(self, dim: int, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.score = SinkhornTransformer(
            dim,
            width=config.width,
            layers=config.layers,
            heads=config.heads,
            out=config.out,
            epsilon=config.epsilon,
            normalisation="softmax" if config.head == "softmax" else "sinkhorn",
            residual=True,
            neighbours=config.neighbours,
            refinement=0 if config.head == "scalars" else config.refinement,
        )
        if config.shared:
            self.score.key_encoder = self.score.query_encoder
        # For the plan a pair competes with two null partners, for attention with one.
        self.null_cost = nn.Parameter(torch.tensor(-0.15 if config.head in ("sinkhorn", "scalars") else -0.3))
        if config.head == "scalars":
            for parameter in (*self.score.query_encoder.parameters(), *self.score.key_encoder.parameters()):
                parameter.requires_grad_(False)
            self.score.score_scale.requires_grad_(False)

    @property
    def balanced(self) -> bool:
        """Whether the head makes a coupling (or attention)."""
        return self.config.head in ("sinkhorn", "scalars")

    def transformer(self) -> SinkhornTransformer:
        """Return the score as a model of its own, in evaluation mode; encoders that were shared are written twice."""
        model = SinkhornTransformer.from_config(self.score.config)
        model.load_state_dict(self.score.state_dict())
        return model.eval()

    def cost(self, batch: _Batch) -> Tensor:
        """Return the cost of a batch, shape (B, n, m), float64."""
        keep = 1 - self.config.dropout
        x, y = batch.x, batch.y
        if self.training and self.config.noise:
            x, y = (_noisy(points, self.config.noise) for points in (x, y))
        if self.training and keep < 1 and self.config.head != "scalars":
            own = slice(self.score.config.dim)
            shown_x, shown_y = (functional.dropout(points[..., own], 1 - keep) for points in (x, y))
            query = self.score.query_encoder(shown_x, batch.a.float())
            key = self.score.key_encoder(shown_y, batch.b.float())
            return self.score._cost(query, key, x, batch.a, y, batch.b).double()
        return self.score.cost_tensor(x, batch.a.float(), y, batch.b.float()).double()

    def loss(self, batch: _Batch) -> Tensor:
        """Return the mean loss of a batch, in nat; items whose plan did not converge are left out."""
        cost = self.cost(batch)
        words = ((batch.a > 0).sum(1) + (batch.b > 0).sum(1)).double()
        weight = words / words.sum()
        epsilon = self.config.epsilon
        price = self.null_cost.double()
        if self.balanced:
            wider = _augment(cost, price)
            a, b = batch.null_weights
            with torch.no_grad():
                result = transport.sinkhorn(wider.detach(), a, b, epsilon=epsilon, tolerance=TOLERANCE)
            good = torch.from_numpy(np.asarray(result.status) == "converged")
            losses = fenchel_young_loss(wider, result.plan, batch.plan, a, b, epsilon=epsilon)
            weight = torch.where(good, weight, 0.0)
            return (torch.where(good, losses, 0.0) * weight).sum() / weight.sum().clamp(min=1e-12)
        rows = (weight * _cross_entropy(-cost / epsilon, -price / epsilon, batch.row_target, batch.a, batch.b)).sum()
        if self.config.head == "softmax":
            return rows
        columns = _cross_entropy(-cost.mT / epsilon, -price / epsilon, batch.column_target.mT, batch.b, batch.a)
        return (rows + (weight * columns).sum()) / 2

    @torch.no_grad()
    def shares(self, batch: _Batch) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the shares of a batch (−inf in the padding), and which pairs beat the null partner."""
        cost = self.cost(batch)
        epsilon = self.config.epsilon
        mask = ((batch.a > 0)[:, :, None] & (batch.b > 0)[:, None, :]).numpy()
        if self.balanced:
            a, b = batch.null_weights
            plan = transport.sinkhorn(
                _augment(cost, self.null_cost.double()), a, b, epsilon=epsilon, tolerance=TOLERANCE
            ).plan.numpy()
            real, null_source, null_target = plan[:, :-1, :-1], plan[:, :-1, -1], plan[:, -1, :-1]
            found = share_matrix(real, null_source, null_target)
            return np.where(mask, found, -np.inf), beats_null(real, null_source, null_target) & mask
        null = -float(self.null_cost) / epsilon
        forward, null_row = _attention(-cost / epsilon, null, batch.b)
        share, beats = forward, forward > null_row[..., None]
        if self.config.head == "bidirectional":
            backward, null_column = _attention(-cost.mT / epsilon, null, batch.a)
            share, beats = (forward * backward.mT).sqrt(), beats & (backward > null_column[..., None]).mT
        return np.where(mask, share.numpy(), -np.inf), np.asarray(beats.numpy() & mask)


def _noisy(points: Tensor, noise: float) -> Tensor:
    length = points.norm(dim=-1, keepdim=True) / math.sqrt(points.shape[-1])
    return points + noise * length * torch.randn_like(points)


def _augment(cost: Tensor, price: Tensor) -> Tensor:
    count, n, m = cost.shape
    right = price.expand(count, n, 1)
    below = torch.cat([price.expand(count, 1, m), price.new_zeros(count, 1, 1)], dim=2)
    return torch.cat([torch.cat([cost, right], dim=2), below], dim=1)


def _logits(scores: Tensor, null: Tensor | float, weights: Tensor) -> Tensor:
    present = weights > 0
    mass = torch.where(present, weights, 1.0).log().masked_fill(~present, -torch.inf)
    beyond = torch.as_tensor(null, dtype=scores.dtype).expand(*scores.shape[:-1], 1)
    return torch.cat([scores + mass[:, None, :], beyond], dim=-1)


def _cross_entropy(scores: Tensor, null: Tensor, target: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return −Σ_i a_i Σ_j t_ij log attention_ij for each pair, the null partner last among the j; shape (B,)."""
    logs = _logits(scores, null, columns).log_softmax(-1)
    logs = torch.where(torch.isfinite(logs), logs, 0.0)
    return -((target * logs).sum(-1) * rows).sum(-1)


def _attention(scores: Tensor, null: float, weights: Tensor) -> tuple[Tensor, Tensor]:
    both = _logits(scores, null, weights).softmax(-1)
    return both[..., :-1], both[..., -1]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Padded pairs: points, weights, target plan with null partners, and target attention of rows and columns."""

    x: Tensor
    a: Tensor
    y: Tensor
    b: Tensor
    plan: Tensor
    row_target: Tensor
    column_target: Tensor
    indices: NDArray[np.int64]

    @property
    def null_weights(self) -> tuple[Tensor, Tensor]:
        one = self.a.new_ones(len(self.a), 1)
        return torch.cat([self.a, one], dim=1) / 2, torch.cat([self.b, one], dim=1) / 2


UNLINKED = 1e-5
EXCESS = 0.005
"""Least weight of the null partner against 1 for a link: it takes what a link cannot carry when words differ in weight,
rather than pairs that are not linked (weight UNLINKED). Larger ones teach a null partner that is too cheap: at 0.02
links that must beat it lose 0.6 points of F1."""


def target_plan(pair: GoldPair, linked_null: float = 0.0) -> NDArray[np.float64]:
    """Return the coupling that a pair's links ask for, shape (n + 1, m + 1), null partners last.

    Links (possible ones half) and null partners, projected onto the marginals (a, 1)/2 and (b, 1)/2 in the sense of
    relative entropy, by Sinkhorn iterations.

    Args:
        linked_null: what a linked word gives to the null partner, against 1 for a link. It keeps the null partner
            between links and non-links, which is what linking without a threshold needs.

    >>> plan = target_plan(GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0)})))
    >>> plan.round(2).tolist()
    [[0.25, 0.0, 0.0], [0.0, 0.0, 0.25], [0.0, 0.25, 0.25]]
    """
    n, m = len(pair.source), len(pair.target)
    kernel = np.full((n + 1, m + 1), UNLINKED)
    for i, j in pair.possible:
        kernel[i, j] = 1.0 if (i, j) in pair.sure else 0.5
    kernel[:n, m] = np.where(kernel[:n, :m].max(1) > UNLINKED, max(linked_null, EXCESS), 1.0)
    kernel[n, :m] = np.where(kernel[:n, :m].max(0) > UNLINKED, max(linked_null, EXCESS), 1.0)
    kernel[n, m] = 1.0
    a = np.append(np.full(n, 0.5 / n), 0.5)
    b = np.append(np.full(m, 0.5 / m), 0.5)
    row, column = np.ones(n + 1), np.ones(m + 1)
    for _ in range(2_000):
        row = a / (kernel @ column)
        column = b / (row @ kernel)
        if np.abs(row * (kernel @ column) - a).sum() < 1e-9:
            break
    return np.asarray(row[:, None] * kernel * column)


def target_attention(pair: GoldPair, linked_null: float = 0.0) -> NDArray[np.float64]:
    """Return the attention of source words that a pair's links ask for, shape (n, m + 1), null partner last.

    Args:
        linked_null: as for `target_plan`.

    >>> target_attention(GoldPair(("a", "b"), ("c", "d"), frozenset({(0, 0), (0, 1)}))).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    n, m = len(pair.source), len(pair.target)
    table = np.zeros((n, m + 1))
    for i, j in pair.possible:
        table[i, j] = 1.0 if (i, j) in pair.sure else 0.5
    table[:, m] = np.where(table.sum(1) > 0, linked_null, 1.0)
    return np.asarray(table / table.sum(1, keepdims=True))


def _turned(pair: GoldPair) -> GoldPair:
    return GoldPair(
        pair.target,
        pair.source,
        frozenset((j, i) for i, j in pair.sure),
        frozenset((j, i) for i, j in pair.possible),
    )


class _Data:
    """Pairs with their points and targets, made once."""

    def __init__(self, pairs: Sequence[WordPair], linked_null: float, neighbours: int = 0) -> None:
        self.pairs = list(pairs)
        self.points = [
            tuple(with_neighbours(points, neighbours) for points in (pair.source, pair.target)) for pair in pairs
        ]
        self.plans = [target_plan(pair.gold, linked_null) for pair in pairs]
        self.rows = [target_attention(pair.gold, linked_null) for pair in pairs]
        self.columns = [target_attention(_turned(pair.gold), linked_null) for pair in pairs]

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, indices: Sequence[int] | NDArray[np.int64], turned: Sequence[bool] | None = None) -> _Batch:
        """Return a batch of the pairs at `indices`; those that are marked turned run from target to source."""
        marks = [False] * len(indices) if turned is None else list(turned)
        sides = [self.points[k][::-1] if mark else self.points[k] for k, mark in zip(indices, marks, strict=True)]
        x, a = pad([side[0] for side in sides], [_uniform(side[0]) for side in sides])
        y, b = pad([side[1] for side in sides], [_uniform(side[1]) for side in sides])
        n, m = a.shape[1], b.shape[1]
        plan = torch.zeros(len(sides), n + 1, m + 1, dtype=torch.float64)
        rows = torch.zeros(len(sides), n, m + 1, dtype=torch.float64)
        columns = torch.zeros(len(sides), n + 1, m, dtype=torch.float64)
        for k, (index, mark) in enumerate(zip(indices, marks, strict=True)):
            source, target = len(sides[k][0]), len(sides[k][1])
            table = torch.from_numpy(self.plans[index].T if mark else self.plans[index])
            plan[k, :source, :target] = table[:-1, :-1]
            plan[k, :source, m], plan[k, n, :target], plan[k, n, m] = table[:-1, -1], table[-1, :-1], table[-1, -1]
            forward, backward = self.rows[index], self.columns[index]
            if mark:
                forward, backward = backward, forward
            attention = torch.from_numpy(forward)
            rows[k, :source, :target], rows[k, :source, m] = attention[:, :-1], attention[:, -1]
            attention = torch.from_numpy(backward).T
            columns[k, :source, :target], columns[k, n, :target] = attention[:-1], attention[-1]
        return _Batch(x, a, y, b, plan, rows, columns, np.asarray(indices))

    def batches(self, indices: NDArray[np.int64], size: int = 64) -> list[_Batch]:
        order = sorted(indices.tolist(), key=lambda k: len(self.pairs[k].source) + len(self.pairs[k].target))
        return [self.take(order[start : start + size]) for start in range(0, len(order), size)]


def _uniform(points: Tensor) -> Tensor:
    return torch.full((len(points),), 1 / len(points), dtype=torch.float64)


@dataclass(frozen=True)
class Decoding:
    """How links are taken from the shares of a head.

    Attributes:
        rule: "mutual" or "grown" (thresholds chosen on pairs that were held back), or without any, "null" (the
            largest of row and column, and more than the null partner has in both) or "beats-null" (more than the null
            partner has in both).
        threshold, growth: for the first two.
    """

    rule: Literal["mutual", "grown", "null", "beats-null"]
    threshold: float = 0.0
    growth: float | None = None


def decodings(kind: str) -> tuple[Decoding, ...]:
    """Return the decodings of a kind, one of `KINDS`, among which pairs that were held back choose."""
    if kind == "null":
        return (Decoding("null"),)
    if kind == "beats-null":
        return (Decoding("beats-null"),)
    if kind == "mutual":
        return tuple(Decoding("mutual", threshold) for threshold in THRESHOLDS)
    return tuple(
        Decoding("grown", threshold, growth) for threshold in THRESHOLDS for growth in GROWTHS if growth < threshold
    )


KINDS = ("mutual", "grown", "null", "beats-null")


def _decode(
    share: NDArray[np.float64], beats: NDArray[np.bool_], mutual: NDArray[np.bool_], decoding: Decoding
) -> NDArray[np.bool_]:
    null = beats if decoding.rule in NULL_RULES else None
    return choose(share, decoding.rule, decoding.threshold, decoding.growth, mutual=mutual, null=null)


def count(
    head: AlignmentHead, data: _Data, indices: NDArray[np.int64], options: Sequence[Decoding]
) -> NDArray[np.int64]:
    """Return counts (options, pairs, 4) of a head on the pairs at `indices`, in their order."""
    head.eval()
    place = {int(k): position for position, k in enumerate(indices)}
    table = np.zeros((len(options), len(indices), 4), dtype=np.int64)
    for batch in data.batches(indices):
        share, beats = head.shares(batch)
        mutual = mutual_argmax(share)
        sure = np.zeros(share.shape, dtype=bool)
        possible = np.zeros(share.shape, dtype=bool)
        for b, k in enumerate(batch.indices):
            for i, j in data.pairs[k].gold.possible:
                possible[b, i, j] = True
                sure[b, i, j] = (i, j) in data.pairs[k].gold.sure
        rows = [place[int(k)] for k in batch.indices]
        for option, decoding in enumerate(options):
            marks = _decode(share, beats, mutual, decoding)
            table[option, rows] = np.stack(
                [
                    marks.sum((1, 2)),
                    sure.sum((1, 2)),
                    (marks & possible).sum((1, 2)),
                    (marks & sure).sum((1, 2)),
                ],
                axis=1,
            )
    return table


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """A head after training, and how it came about.

    Attributes:
        head: the module, trained on all pairs with the rate and epoch that were chosen.
        decodings: for each kind, the decoding that was chosen.
        learning_rate, epoch: those that were chosen; epoch 0 is the untrained score.
        dev_f1: F1 for each kind on pairs that were held back, of heads trained on the others; it chose the settings.
        history: one row for each rate and epoch: mean loss and F1 on pairs that were held back.
        seconds: wall-clock time.
    """

    head: AlignmentHead
    decodings: dict[str, Decoding]
    learning_rate: float
    epoch: int
    dev_f1: dict[str, float]
    history: tuple[dict[str, float], ...] = field(default=())
    seconds: float = 0.0


def _fit(
    data: _Data,
    train: NDArray[np.int64],
    config: HeadConfig,
    rate: float,
    cancelled: Callable[[], bool] | None,
) -> Iterator[tuple[float, AlignmentHead]]:
    """Train on the pairs at `train` and yield after each epoch its mean loss and the averaged head.

    The untrained head comes first. It ends early where the loss is no longer finite.
    """
    torch.manual_seed(config.seed)
    head = AlignmentHead(data.pairs[0].source.shape[1], config)
    averaged = copy.deepcopy(head).eval()
    yield math.nan, averaged
    optimiser = _optimiser(head, config, rate)
    steps = config.epochs * math.ceil(len(train) / config.batch)
    generator = np.random.default_rng(config.seed)
    step = 0
    for _ in range(config.epochs):
        losses = []
        head.train()
        order = generator.permutation(train)
        for start in range(0, len(order), config.batch):
            part = order[start : start + config.batch]
            turned = (generator.random(len(part)) < 0.5).tolist() if config.turned else None
            warm = min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / steps))
            for group in optimiser.param_groups:
                group["lr"] = group["rate"] * warm
            optimiser.zero_grad()
            loss = head.loss(data.take(part, turned))
            loss.backward()
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
            step += 1
            # The first steps would weigh for long otherwise.
            decay = min(config.average, step / (step + 10)) if config.average else 0.0
            with torch.no_grad():
                for kept, new in zip(averaged.parameters(), head.parameters(), strict=True):
                    kept.lerp_(new, 1 - decay)
            if cancelled is not None and cancelled():
                raise EvaluationCancelledError("the training was stopped")
        mean = float(np.mean(losses))
        if not math.isfinite(mean):
            return
        yield mean, averaged


def train_head(
    pairs: Sequence[WordPair],
    config: HeadConfig,
    *,
    select: str = "mutual",
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TrainedHead:
    """Train a head. Each part of the pairs is held back once, to choose rate, epoch and thresholds; the head that is
    returned is then trained on all of them.

    Args:
        pairs: embedded pairs with gold links, at least 10.
        config: what and how.
        select: the kind of decoding whose F1 on the pairs held back chooses rate and epoch.
        progress, cancelled: as in `sinkviz.alignment.evaluation.evaluate`.

    Raises:
        ValueError: too few pairs, an unknown kind, pairs that share so many texts that parts cannot be held back.
        EvaluationCancelledError: it was stopped.
    """
    if len(pairs) < 10:
        raise ValueError(f"train: expected at least 10 pairs, got {len(pairs)}")
    if select not in KINDS:
        raise ValueError(f"select: expected one of {', '.join(KINDS)}, got {select!r}")
    started = time.perf_counter()
    data = _Data(pairs, config.linked_null, config.neighbours)
    fold = make_folds([pair.gold for pair in pairs], config.parts, seed=config.seed)
    parts = [np.flatnonzero(fold == part) for part in range(config.parts)]
    options = {kind: decodings(kind) for kind in KINDS}
    rows: list[dict[str, float]] = []
    best: tuple[float, float, int, list[dict[str, Tensor]]] | None = None
    jobs = len(config.learning_rates) * len(parts) + 1

    def report(done: int, epoch: int, line: str) -> None:
        if progress is not None:
            progress((done + epoch / config.epochs) / jobs, f"{config.head}, {line}, epoch {epoch}")

    for number, rate in enumerate(config.learning_rates):
        tables = np.zeros((config.epochs + 1, len(options[select]), len(pairs), 4), dtype=np.int64)
        losses: list[list[float]] = [[] for _ in range(config.epochs + 1)]
        states: list[list[dict[str, Tensor]]] = [[] for _ in range(config.epochs + 1)]
        for position, dev in enumerate(parts):
            train = np.setdiff1d(np.arange(len(pairs)), dev)
            for epoch, (loss, head) in enumerate(_fit(data, train, config, rate, cancelled)):
                tables[epoch][:, dev] = count(head, data, dev, options[select])
                losses[epoch].append(loss)
                states[epoch].append({name: tensor.detach().clone() for name, tensor in head.state_dict().items()})
                report(number * len(parts) + position, epoch, f"rate {rate:g}, part {position + 1} of {len(parts)}")
        for epoch in range(config.epochs + 1):
            if len(states[epoch]) < len(parts):
                break
            found = float(f1_of_sums(tables[epoch].sum(1)).max())
            rows.append({"rate": rate, "epoch": epoch, "loss": float(np.mean(losses[epoch])), "dev_f1": found})
            if best is None or found > best[0]:
                best = found, rate, epoch, states[epoch]
    assert best is not None
    _, rate, epoch, kept = best
    head = AlignmentHead(pairs[0].source.shape[1], config)
    every = {kind: np.zeros((len(options[kind]), len(pairs), 4), dtype=np.int64) for kind in KINDS}
    for dev, state in zip(parts, kept, strict=True):
        head.load_state_dict(state)
        for kind in KINDS:
            every[kind][:, dev] = count(head, data, dev, options[kind])
    values = {kind: f1_of_sums(every[kind].sum(1)) for kind in KINDS}
    chosen = {kind: options[kind][int(values[kind].argmax())] for kind in KINDS}
    for reached, (_, final) in enumerate(_fit(data, np.arange(len(pairs)), config, rate, cancelled)):
        head.load_state_dict(final.state_dict())
        report(jobs - 1, reached, f"rate {rate:g}, all pairs")
        if reached == epoch:
            break
    head.eval()
    dev_f1 = {kind: float(values[kind].max()) for kind in KINDS}
    return TrainedHead(head, chosen, rate, epoch, dev_f1, tuple(rows), time.perf_counter() - started)


def _optimiser(head: AlignmentHead, config: HeadConfig, rate: float) -> torch.optim.Optimizer:
    scalars = [head.null_cost, head.score.residual_scale, head.score.score_scale]
    if config.neighbours:
        scalars.append(head.score.neighbour_scale)
    names = {id(parameter) for parameter in scalars}
    encoders = [p for p in head.parameters() if id(p) not in names and p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in scalars if p.requires_grad], "rate": config.scalar_rate, "weight_decay": 0.0}
    ]
    if encoders:
        groups.append({"params": encoders, "rate": rate, "weight_decay": config.weight_decay})
    return torch.optim.AdamW(groups, lr=rate)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Counts of a head on pairs that it was not trained on, one table for each kind of decoding.

    Attributes:
        head: which one.
        linked_null: its target, see `HeadConfig`.
        seeds: the seeds that were run.
        counts: kind → shape (seeds, pairs, 4).
        parameters: trained numbers.
        seconds: wall-clock time of each training.
        chosen: what pairs that were held back chose in each run.
    """

    head: Head
    linked_null: float
    seeds: tuple[int, ...]
    counts: dict[str, Counts]
    parameters: int
    seconds: tuple[float, ...]
    chosen: tuple[dict[str, Any], ...]


def cross_validate(
    pairs: Sequence[WordPair],
    config: HeadConfig,
    *,
    folds: int = 5,
    fold_seed: int = 0,
    seeds: Sequence[int] = (0, 1),
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> CrossValidation:
    """Train on all folds but one and count links on that one, for each fold and seed.

    The folds are those of `sinkviz.alignment.evaluate` with the same seed, so that trained and untrained methods
    compare pair by pair. In each run, parts of the training folds are held back to choose rate, epoch and thresholds.
    """
    fold = make_folds([pair.gold for pair in pairs], folds, seed=fold_seed)
    tables = {kind: np.zeros((len(seeds), len(pairs), 4), dtype=np.int64) for kind in KINDS}
    seconds, chosen = [], []
    data = _Data(pairs, config.linked_null, config.neighbours)
    parameters = 0
    for number, seed in enumerate(seeds):
        for part in range(folds):
            train, test = np.flatnonzero(fold != part), np.flatnonzero(fold == part)

            def report(share: float, line: str, done: int = number * folds + part) -> None:
                if progress is not None:
                    progress((done + share) / (len(seeds) * folds), line)

            found = train_head(
                [pairs[int(k)] for k in train], replace(config, seed=seed), progress=report, cancelled=cancelled
            )
            for kind in KINDS:
                tables[kind][number, test] = count(found.head, data, test, [found.decodings[kind]])[0]
            seconds.append(found.seconds)
            chosen.append(
                {
                    "seed": seed,
                    "fold": part,
                    "rate": found.learning_rate,
                    "epoch": found.epoch,
                    "decodings": {kind: asdict(decoding) for kind, decoding in found.decodings.items()},
                    "dev_f1": found.dev_f1,
                }
            )
            parameters = sum(p.numel() for p in found.head.parameters() if p.requires_grad)
    return CrossValidation(
        config.head, config.linked_null, tuple(seeds), tables, parameters, tuple(seconds), tuple(chosen)
    )


def transfer(found: TrainedHead, pairs: Sequence[WordPair]) -> dict[str, Counts]:
    """Return the counts of a trained head on other pairs, kind → (pairs, 4), nothing tuned again."""
    data = _Data(pairs, found.head.config.linked_null, found.head.config.neighbours)
    indices = np.arange(len(pairs))
    return {kind: cast("Counts", count(found.head, data, indices, [found.decodings[kind]])[0]) for kind in KINDS}
