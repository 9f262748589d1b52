"""The Sinkhorn Transformer: two measure encoders, a cost made from them, one Sinkhorn operator at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sinkviz import transport
from sinkviz.measure import Measure
from sinkviz.transformer.encoder import EncoderTrace, MeasureEncoder
from sinkviz.transformer.layers import log_weights
from sinkviz.transformer.refinement import Refinement
from sinkviz.transport import SinkhornResult

Normalisation = Literal["sinkhorn", "relaxed", "softmax", "sinkformer"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
Points = Tensor | Sequence[Tensor]


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shape of a `SinkhornTransformer`; stored with its weights.

    Attributes:
        dim: coordinates of a point (of its own vector, without neighbours).
        width, layers, heads, out, expansion: sizes of both encoders.
        epsilon: ε > 0, absolute (units of the cost); the start value if it is learned.
        normalisation: "sinkhorn" (balanced), "relaxed" (columns KL-relaxed), "softmax" (rows only, the paper's
            variant), "sinkformer" (balanced at the end and doubly stochastic attention in every layer).
        relaxation: weight ρ > 0 of the KL term on the columns, absolute; for "relaxed" only.
        learn_epsilon: whether ε is a parameter.
        residual: whether α·cosine(x, y) is added to a learned multiple w of the score, from α = 1 and w = 0: such a
            model starts as the untrained coupling.
        sinkhorn_iterations: Sinkhorn pairs in every layer, for "sinkformer".
        neighbours: r; a point is then (v_i, v_{i−1}, v_{i+1}, …, v_{i−r}, v_{i+r}), see `with_neighbours`, and the
            residual adds γ_k (cosine(x_{i−k}, y_{j−k}) + cosine(x_{i+k}, y_{j+k})) for k = 1 … r, learned from γ = 0.
        refinement: hidden width of a small network that corrects the score of a pair by the cosines of the 2r + 1 words
            around x with the 2r + 1 around y, see `Refinement`; it starts as 0, and 0 = none.

    Raises:
        ValueError: a field of the wrong kind or out of range.
    """

    dim: int
    width: int
    layers: int
    heads: int
    out: int
    epsilon: float
    normalisation: Normalisation = "sinkhorn"
    relaxation: float | None = None
    learn_epsilon: bool = False
    residual: bool = False
    expansion: int = 2
    sinkhorn_iterations: int = 8
    neighbours: int = 0
    refinement: int = 0

    def __post_init__(self) -> None:
        # Upper ends keep a foreign file from asking for more than a machine has.
        for name, least, most in (
            ("dim", 1, 65_536),
            ("width", 1, 65_536),
            ("layers", 0, 256),
            ("heads", 1, 1024),
            ("out", 1, 65_536),
            ("expansion", 1, 64),
            ("sinkhorn_iterations", 1, 1000),
            ("neighbours", 0, 16),
            ("refinement", 0, 4096),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name}: expected a whole number from {least} to {most}, got {value!r}")
        if self.width % self.heads:
            raise ValueError(f"heads: expected a divisor of the width {self.width}, got {self.heads}")
        for name in ("learn_epsilon", "residual"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.normalisation not in NORMALISATIONS:
            raise ValueError(f"normalisation: expected one of {', '.join(NORMALISATIONS)}, got {self.normalisation!r}")
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        if self.normalisation == "relaxed":
            object.__setattr__(self, "relaxation", _positive("relaxation", self.relaxation))
        elif self.relaxation is not None:
            raise ValueError(
                f"relaxation: only the normalisation 'relaxed' takes one, got {self.relaxation!r} "
                f"with {self.normalisation!r}"
            )

        if self.neighbours and not self.residual:
            raise ValueError(f"neighbours: they enter the residual only, got {self.neighbours} with residual=False")
        if self.refinement and not self.neighbours:
            raise ValueError(
                f"refinement: expected 0 without neighbours, got {self.refinement}; it reads the words around, so give "
                "neighbours >= 1 or refinement 0"
            )

    @property
    def point_dim(self) -> int:
        """Coordinates of a point with its neighbours, (2·neighbours + 1)·dim."""
        return (2 * self.neighbours + 1) * self.dim

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: object) -> ModelConfig:
        """Read a configuration back.

        Raises:
            ValueError: not a mapping, missing or unknown fields, or values that do not fit.
        """
        if not isinstance(fields, dict):
            raise ValueError(f"configuration: expected a JSON object, got {type(fields).__name__}")
        known = set(cls.__dataclass_fields__)
        unknown = sorted(str(name) for name in set(fields) - known)
        if unknown:
            raise ValueError(f"configuration: unknown fields {', '.join(unknown)!r:.200}; written by a newer version?")
        missing = sorted({"dim", "width", "layers", "heads", "out", "epsilon"} - set(fields))
        if missing:
            raise ValueError(f"configuration: missing fields {', '.join(missing)}")
        return cls(**fields)


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name}: expected a finite number > 0, got {value!r}")
    return float(value)


@dataclass(frozen=True, eq=False)
class Trace:
    """The way of two measures through a model, step by step.

    Attributes:
        query, key: clouds and attentions of each layer of the two encoders; their `output` are Q(μ, x) and K(ν, y).
        cost: shape (…, n, m).
        result: the coupling, with potentials and status.
    """

    query: EncoderTrace
    key: EncoderTrace
    cost: Tensor
    result: SinkhornResult


def pad(points: Sequence[Tensor], weights: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Join clouds of different sizes to one batch; what is added has weight 0, so it is absent.

    Args:
        points: B tensors of shape (n_k, d).
        weights: B tensors of shape (n_k,); uniform if None.

    Returns:
        points (B, max n, d) and weights (B, max n).

    Raises:
        ValueError: no clouds, or shapes that do not fit.

    >>> points, weights = pad([torch.ones(1, 2), torch.ones(3, 2)])
    >>> weights.shape, weights[0].tolist()
    (torch.Size([2, 3]), [1.0, 0.0, 0.0])
    """
    if not points:
        raise ValueError("points: expected at least one cloud, got an empty list")
    dims = {tuple(cloud.shape[1:]) for cloud in points}
    if any(cloud.ndim != 2 or len(cloud) == 0 for cloud in points) or len(dims) != 1:
        raise ValueError(
            f"points: expected clouds of shape (n, d) with n >= 1 and one d, got {[tuple(c.shape) for c in points][:4]}"
        )
    if weights is None:
        weights = [cloud.new_full((len(cloud),), 1 / len(cloud)) for cloud in points]
    if len(weights) != len(points) or any(w.shape != p.shape[:1] for w, p in zip(weights, points, strict=True)):
        raise ValueError("weights: expected one tensor of shape (n,) for each cloud of shape (n, d)")
    padded = nn.utils.rnn.pad_sequence(list(points), batch_first=True)
    return padded, nn.utils.rnn.pad_sequence(list(weights), batch_first=True)


def with_neighbours(points: Tensor, count: int) -> Tensor:
    """Give each point the vectors of those before and after it: x_i ↦ (x_i, x_{i−1}, x_{i+1}, …, x_{i−r}, x_{i+r}).

    This is how word order enters: as part of a point. Beyond either end stand zeros.

    Args:
        points: shape (n, d), in reading order. count: r ≥ 0.

    Returns:
        shape (n, (2r + 1)·d).

    >>> with_neighbours(torch.tensor([[1.0], [2.0], [3.0]]), 1).tolist()
    [[1.0, 0.0, 2.0], [2.0, 1.0, 3.0], [3.0, 2.0, 0.0]]
    """
    rows = len(points)
    blocks = [points]
    for distance in range(1, count + 1):
        beyond = points.new_zeros(min(distance, rows), points.shape[1])
        blocks += [torch.cat([beyond, points[: rows - len(beyond)]]), torch.cat([points[len(beyond) :], beyond])]
    return torch.cat(blocks, dim=1)


def _softmax_rows(cost: Tensor, a: Tensor, b: Tensor, epsilon: Tensor | float) -> SinkhornResult:
    """Return softmax attention as a joint plan, in closed form: training asks for it thousands of times."""
    scores = log_weights(b).unsqueeze(-2) - cost / epsilon
    plan = a.unsqueeze(-1) * scores.softmax(dim=-1)
    with torch.no_grad():
        f = -epsilon * torch.logsumexp(scores, dim=-1).double()
        row_error = (plan.sum(-1) - a).abs().sum(-1)
        column_error = (plan.sum(-2) - b).abs().sum(-1)
    batch = tuple(plan.shape[:-2])
    zeros = torch.zeros(batch)
    return SinkhornResult(
        plan=plan,
        f=f,
        g=torch.zeros_like(b, dtype=torch.float64),
        epsilon=epsilon.detach() if isinstance(epsilon, Tensor) else epsilon,
        status=np.full(batch, "converged") if batch else "converged",
        residual=row_error if batch else float(row_error),
        row_error=row_error if batch else float(row_error),
        column_error=column_error if batch else float(column_error),
        duality_gap=zeros if batch else 0.0,
        iterations=zeros.long() if batch else 0,
    )


class SinkhornTransformer(nn.Module):
    """T(μ, ν) = S_{c(μ,ν), ε}(μ, ν) with c(μ, ν)(x, y) = −⟨Q(μ, x), K(ν, y)⟩ / √out.

    Two encoders on measures, left as they are, and one Sinkhorn operator as the last interaction. The plan has the
    marginals μ and ν exactly (to the solver's tolerance), is permutation equivariant and mass consistent.

    Args:
        dim: coordinates of a point.
        width, layers, heads, out: sizes of both encoders.
        epsilon: ε > 0, absolute.
        normalisation: "sinkhorn" | "relaxed" | "softmax" | "sinkformer", see `ModelConfig`.
        relaxation, learn_epsilon, residual, expansion, sinkhorn_iterations, neighbours, refinement: see `ModelConfig`.

    Raises:
        ValueError: sizes or numbers out of range.

    Source: Fraiman, arXiv 2603.25860, section 2 (v3 for "softmax"); Sander et al., arXiv 2110.11773 for "sinkformer".

    Example:
        >>> _ = torch.manual_seed(0)
        >>> model = SinkhornTransformer(2, width=8, layers=1, heads=2, out=4, epsilon=0.1)
        >>> result = model(torch.randn(5, 2), None, torch.randn(3, 2), None)
        >>> result.plan.shape, result.status
        (torch.Size([5, 3]), 'converged')
    """

    def __init__(
        self,
        dim: int,
        *,
        width: int = 32,
        layers: int = 2,
        heads: int = 4,
        out: int = 16,
        epsilon: float = 0.1,
        normalisation: Normalisation = "sinkhorn",
        relaxation: float | None = None,
        learn_epsilon: bool = False,
        residual: bool = False,
        expansion: int = 2,
        sinkhorn_iterations: int = 8,
        neighbours: int = 0,
        refinement: int = 0,
    ) -> None:
        super().__init__()
        self.config = ModelConfig(
            dim=dim,
            width=width,
            layers=layers,
            heads=heads,
            out=out,
            epsilon=epsilon,
            normalisation=normalisation,
            relaxation=relaxation,
            learn_epsilon=learn_epsilon,
            residual=residual,
            expansion=expansion,
            sinkhorn_iterations=sinkhorn_iterations,
            neighbours=neighbours,
            refinement=refinement,
        )

        def encoder() -> MeasureEncoder:
            return MeasureEncoder(
                dim,
                width=width,
                layers=layers,
                heads=heads,
                out=out,
                expansion=expansion,
                sinkhorn_iterations=sinkhorn_iterations if normalisation == "sinkformer" else 0,
            )

        self.query_encoder = encoder()
        self.key_encoder = encoder()
        if learn_epsilon:
            self.log_epsilon = nn.Parameter(torch.tensor(math.log(self.config.epsilon)))
        if residual:
            self.residual_scale = nn.Parameter(torch.tensor(1.0))
            self.score_scale = nn.Parameter(torch.tensor(0.0))
        if neighbours:
            self.neighbour_scale = nn.Parameter(torch.zeros(neighbours))
        if refinement:
            self.refinement = Refinement(neighbours, refinement)

    @classmethod
    def from_config(cls, config: ModelConfig) -> SinkhornTransformer:
        """Build an untrained model of a given shape."""
        return cls(**config.as_dict())

    @property
    def epsilon(self) -> float:
        """ε in force, absolute: the configured one, or the learned one."""
        return float(self.log_epsilon.detach().exp()) if self.config.learn_epsilon else self.config.epsilon

    @property
    def epsilon_tensor(self) -> Tensor | float:
        """ε as the solver takes it: a number, or a tensor that carries a gradient if it is learned."""
        return self.log_epsilon.exp() if self.config.learn_epsilon else self.config.epsilon

    @property
    def parameter_count(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def _prepare(self, points: Points, weights: Points | None, name: str) -> tuple[Tensor, Tensor]:
        if not isinstance(points, Tensor):
            if isinstance(weights, Tensor):
                raise ValueError(f"{name}: expected a list of weights beside a list of clouds, got one tensor")
            points, weights = pad(points, weights)
        if points.ndim < 2 or points.shape[-1] != self.config.point_dim or points.shape[-2] == 0:
            raise ValueError(
                f"{name}: expected points of shape (…, n, {self.config.point_dim}) with n >= 1, got "
                f"{tuple(points.shape)}; the model was made for points of that dimension"
            )
        if weights is None:
            weights = points.new_full(points.shape[:-1], 1 / points.shape[-2])
        if not isinstance(weights, Tensor) or weights.shape != points.shape[:-1]:
            got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise ValueError(f"{name}: expected weights of shape {tuple(points.shape[:-1])}, got {got}")
        return points, weights

    def encode(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q(μ, x) of shape (…, n, out) and K(ν, y) of shape (…, m, out), in the model's dtype."""
        dtype = self.query_encoder.enter.weight.dtype
        own = slice(self.config.dim)
        query = self.query_encoder(x[..., own].to(dtype), a.to(dtype))
        return query, self.key_encoder(y[..., own].to(dtype), b.to(dtype))

    def _cost(self, query: Tensor, key: Tensor, x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> Tensor:
        score = query @ key.transpose(-1, -2) / math.sqrt(self.config.out)
        if self.config.residual:
            # Blocks of a point: its own vector and those of its neighbours, shape (…, n, 2r + 1, dim).
            x, y = (
                functional.normalize(one.to(score.dtype).unflatten(-1, (-1, self.config.dim)), dim=-1) for one in (x, y)
            )

            def cosine(block: int) -> Tensor:
                return x[..., block, :] @ y[..., block, :].transpose(-1, -2)

            own, learned = cosine(0), self.score_scale * score
            score = self.residual_scale * own + learned
            for distance in range(self.config.neighbours):
                beside = cosine(2 * distance + 1) + cosine(2 * distance + 2)
                score = score + self.neighbour_scale[distance] * beside
            if self.config.refinement:
                score = score + self.refinement(x, a.to(score.dtype), y, b.to(score.dtype), own, learned)
        return -score

    def cost_tensor(self, x: Points, a: Points | None, y: Points, b: Points | None) -> Tensor:
        """Return c(μ, ν), shape (…, n, m), differentiable; arguments as in `forward`."""
        x, a = self._prepare(x, a, "source")
        y, b = self._prepare(y, b, "target")
        return self._cost(*self.encode(x, a, y, b), x, a, y, b)

    def couple(
        self, cost: Tensor, a: Tensor, b: Tensor, *, init: tuple[Tensor, Tensor] | None = None
    ) -> SinkhornResult:
        """Turn a cost into a plan by this model's normalisation, in the widest dtype of the three.

        Args:
            cost: shape (…, n, m). a, b: weights, shapes (…, n) and (…, m). init: potentials to start from.
        """
        dtype = torch.promote_types(cost.dtype, torch.promote_types(a.dtype, b.dtype))
        cost, a, b = cost.to(dtype), a.to(dtype), b.to(dtype)
        epsilon = self.epsilon_tensor
        if self.config.normalisation == "softmax":
            return _softmax_rows(cost, a, b, epsilon)
        return transport.sinkhorn(cost, a, b, epsilon=epsilon, init=init, column_relaxation=self.config.relaxation)

    def forward(self, x: Points, a: Points | None, y: Points, b: Points | None) -> SinkhornResult:
        """Couple two measures, or a batch of pairs.

        Args:
            x, y: points, shapes (…, n, dim) and (…, m, dim); or lists of B clouds of any sizes. A model with neighbours
                takes points with theirs, `config.point_dim` coordinates.
            a, b: weights, shapes (…, n) and (…, m), sum 1, 0 = absent; or lists alike; uniform if None.

        Returns:
            SinkhornResult with plan (…, n, m), differentiable; status per item.

        Raises:
            ValueError: shapes that do not fit, weights without the same sum.
        """
        x, a = self._prepare(x, a, "source")
        y, b = self._prepare(y, b, "target")
        return self.couple(self._cost(*self.encode(x, a, y, b), x, a, y, b), a, b)

    @torch.no_grad()
    def trace(self, x: Points, a: Points | None, y: Points, b: Points | None) -> Trace:
        """Couple two measures and record every cloud and attention on the way; arguments as in `forward`."""
        x, a = self._prepare(x, a, "source")
        y, b = self._prepare(y, b, "target")
        dtype = self.query_encoder.enter.weight.dtype
        own = slice(self.config.dim)
        query = self.query_encoder.trace(x[..., own].to(dtype), a.to(dtype))
        key = self.key_encoder.trace(y[..., own].to(dtype), b.to(dtype))
        cost = self._cost(query.output, key.output, x, a, y, b)
        return Trace(query, key, cost, self.couple(cost, a, b))

    @torch.no_grad()
    def cost(self, source: Measure, target: Measure) -> tuple[NDArray[np.float64], float]:
        """Return the cost of two measures and the model's ε, as `couple(…, encoder=model)` asks for them.

        The neighbours of an atom, for a model that reads them, are the atoms before and after it in the measure.

        Returns:
            cost (n, m) float64 (computed in the model's dtype and on its device), ε absolute.

        Raises:
            ValueError: points of another dimension than the model was made for.

        >>> model = SinkhornTransformer(2, width=8, layers=1, heads=2, out=4, epsilon=0.1)
        >>> cost, epsilon = model.cost(Measure.from_points([[0, 1]]), Measure.from_points([[1, 0], [0, 0]]))
        >>> cost.shape, epsilon
        ((1, 2), 0.1)
        """
        x, y = self._points(source), self._points(target)
        a, b = (torch.tensor(one.weights, dtype=x.dtype, device=x.device) for one in (source, target))
        return np.asarray(self.cost_tensor(x, a, y, b).cpu().numpy(), dtype=np.float64), self.epsilon

    def trace_measures(self, source: Measure, target: Measure) -> Trace:
        """Return the `trace` of two measures, solved in float64."""
        x, y = self._points(source), self._points(target)
        a, b = (torch.tensor(one.weights, device=x.device) for one in (source, target))
        return self.trace(x, a, y, b)

    def _points(self, measure: Measure) -> Tensor:
        """Return the points of a measure as the model reads them, in its dtype and on its device."""
        parameter = self.query_encoder.enter.weight
        points = torch.tensor(measure.points, dtype=parameter.dtype, device=parameter.device)
        if points.shape[-1] != self.config.dim:
            raise ValueError(
                f"measure: expected points of {self.config.dim} coordinates, got {points.shape[-1]}; the model was "
                "made for points of that dimension"
            )
        return with_neighbours(points, self.config.neighbours)

    def with_epsilon(self, epsilon: float) -> SinkhornTransformer:
        """Return a model of the same weights (shared) at another fixed ε."""
        config = replace(self.config, epsilon=epsilon, learn_epsilon=False)
        other = SinkhornTransformer.from_config(config)
        other.load_state_dict(self.state_dict(), strict=False, assign=True)
        return other.train(self.training)

    def save(self, path: str | Path, *, about: dict[str, Any] | None = None) -> None:
        """Write weights and configuration to a safetensors file, atomically; see `checkpoints.save`."""
        from sinkviz.transformer import checkpoints

        checkpoints.save(self, path, about=about)

    @classmethod
    def load(cls, path: str | Path) -> SinkhornTransformer:
        """Read a model from a safetensors file, validated; see `checkpoints.load`."""
        from sinkviz.transformer import checkpoints

        return checkpoints.load(path)
