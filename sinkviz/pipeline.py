"""The few functions that join the rooms: texts to measures, measures to a coupling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sinkviz.coupling import DEFAULT_EPSILON, MECHANISMS, Coupling, Mechanism, cost_unit
from sinkviz.measure import Measure

if TYPE_CHECKING:
    import torch

    from sinkviz.transformer import SinkhornTransformer
    from sinkviz.transport import SinkhornPath

EpsilonUnit = Literal["scale", "absolute"]
Words = str | Sequence[str]

CUDA_PAIRS = 512 * 512
"""Problems with fewer pairs are solved on the CPU: there, launching kernels costs more than the work."""


def embed(text: Words, **options: Any) -> Measure:
    """Turn a text, or a list of words as it stands, into a measure of token embeddings.

    Args:
        text: the text or its words.
        **options: model, layer, unit ("token", "word" or "sentence": what is *solved on*), weights ("uniform" or
            one number per atom), centre, device, window; see `sinkviz.embedding.embed`.

    Returns:
        The measure: points (n, d) float32, weights (n,) float64 with sum 1.

    Raises:
        ValueError: an empty or unreadable text, a model or a layer that does not exist, weights that do not fit.

    Example:
        >>> embed("A small fish.", unit="word").labels
        ['A', 'small', 'fish', '.']
    """
    from sinkviz.embedding import embed as embed_text

    return embed_text(text, **options)


def cosine_cost(source: Measure, target: Measure) -> NDArray[np.float64]:
    """Return C_ij = −cos(x_i, y_j), shape (n, m), float64; a point of length 0 has cosine 0 with everything.

    Raises:
        ValueError: points of different dimensions or from different models or layers.
    """
    if source.dimension != target.dimension:
        raise ValueError(
            f"points: expected the same dimension on both sides, got {source.dimension} and {target.dimension}; "
            "embed both texts with one model"
        )
    one, other = source.origin, target.origin
    if one.model and other.model and (one.model, one.layer) != (other.model, other.layer):
        raise ValueError(
            "points: expected both measures from one model and layer, got "
            f"{one.model} layer {one.layer} and {other.model} layer {other.layer}"
        )

    def directions(points: NDArray[np.float32]) -> NDArray[np.float64]:
        exact = points.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        return np.asarray(np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0))

    cosines = directions(source.points) @ directions(target.points).T
    return np.asarray(-cosines)


def solver_device(rows: int, columns: int) -> str:
    """Return where a problem of this size is solved: "cuda" for large ones where there is a card, else "cpu"."""
    import torch

    return "cuda" if rows * columns >= CUDA_PAIRS and torch.cuda.is_available() else "cpu"


def epsilon_scale(cost: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """Return the cost's scale, and the unit that relative values of ε are measured in (see `cost_unit`)."""
    from sinkviz.transport import cost_scale

    scale = float(cost_scale(_tensor(cost), _tensor(a), _tensor(b)))
    return scale, cost_unit(cost, scale, a, b)


def _tensor(array: NDArray[Any], device: str = "cpu") -> torch.Tensor:
    import torch

    # A copy where numpy's array is read-only: torch cannot share such memory safely.
    return torch.tensor(array, dtype=torch.float64, device=device)


def _array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return cast("NDArray[np.float64]", tensor.detach().cpu().double().numpy())


def _positive(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected a number > 0, got {value!r}") from error
    if not np.isfinite(number) or number <= 0:
        hint = '; for ε = 0 use mechanism="exact"' if name == "epsilon" and number == 0 else ""
        raise ValueError(f"{name}: expected a finite number > 0, got {value}{hint}")
    return number


def _measures(source: Words | Measure, target: Words | Measure, embedding: dict[str, Any]) -> tuple[Measure, Measure]:
    given = [side for side in (source, target) if isinstance(side, Measure)]
    if len(given) == 2 and embedding:
        raise ValueError(
            f"embedding options: expected none for two measures, got {', '.join(sorted(embedding))}; "
            "they apply when texts are given"
        )
    if len(given) == 1 and not embedding and given[0].origin.model:
        origin = given[0].origin
        embedding = {
            "model": origin.model,
            "layer": origin.layer,
            "unit": given[0].unit,
            "centre": origin.centred,
        }
    first = source if isinstance(source, Measure) else embed(source, **embedding)
    second = target if isinstance(target, Measure) else embed(target, **embedding)
    return first, second


def couple(
    source: Words | Measure,
    target: Words | Measure,
    *,
    mechanism: Mechanism = "sinkhorn",
    epsilon: float | None = None,
    epsilon_unit: EpsilonUnit | None = None,
    relaxation: float | None = None,
    null_cost: float | None = None,
    encoder: SinkhornTransformer | None = None,
    **embedding: Any,
) -> Coupling:
    """Couple two texts or measures.

    Solves min_P ⟨C, P⟩ + ε KL(P ‖ a⊗b) with the marginals that the mechanism asks for, where C_ij = −cos(x_i, y_j),
    or −⟨Q(μ, x_i), K(ν, y_j)⟩/√d when an encoder is given.

    Args:
        source, target: texts, lists of words, or measures.
        mechanism: "sinkhorn" (both marginals exact), "softmax" (rows exact: attention on the same scores),
            "relaxed" (columns pulled towards their weights by ρ KL), "partial" (a null partner on each side), or
            "exact" (ε = 0).
        epsilon: strength of the entropy; default 0.35 of the cost's scale, or the encoder's own.
        epsilon_unit: "scale" (units of `cost_scale`, the default) or "absolute" (units of the cost, the default with
            an encoder). It holds for `relaxation` too.
        relaxation: ρ ≥ 0 for "relaxed": 0 = softmax, inf = sinkhorn.
        null_cost: price of having no partner for "partial", in the cost's units; with "softmax", attention gets the
            same null partner.
        encoder: a SinkhornTransformer.
        **embedding: options of `embed` for arguments that are texts.

    Returns:
        The coupling, with `status` and both marginal errors; a solve that fails is told there, not raised.

    Raises:
        ValueError: an option that is out of range or does not belong to the mechanism; measures that do not fit.

    Source: Fraiman, arXiv 2603.25860, section 2.

    Example:
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]], labels=["cat", "dog"])
        >>> couple(x, x, mechanism="exact").plan.tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism: expected one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    if (relaxation is not None) != (mechanism == "relaxed"):
        raise ValueError(
            f'relaxation: give a number >= 0 with mechanism="relaxed" and with no other, '
            f'got {relaxation} with "{mechanism}"'
        )
    if mechanism == "partial" and null_cost is None:
        raise ValueError('null_cost: mechanism="partial" needs the price of having no partner')
    if null_cost is not None and mechanism not in ("partial", "softmax"):
        raise ValueError(
            f'null_cost: give it with mechanism="partial" or "softmax", got {null_cost} with "{mechanism}"'
        )
    if mechanism == "exact" and epsilon not in (None, 0, 0.0):
        raise ValueError(f'epsilon: mechanism="exact" is the problem with ε = 0, got {epsilon}; leave it out')
    first, second = _measures(source, target, embedding)
    if encoder is None:
        cost, default, absolute = cosine_cost(first, second), DEFAULT_EPSILON, False
    else:
        cost, default = encoder.cost(first, second)
        absolute = True
    if epsilon_unit not in (None, "scale", "absolute"):
        raise ValueError(f'epsilon_unit: expected "scale" or "absolute", got {epsilon_unit!r}')
    if epsilon_unit == "scale" and encoder is not None and epsilon is None:
        raise ValueError('epsilon: give a value when epsilon_unit="scale" is used with an encoder')
    absolute = absolute if epsilon_unit is None else epsilon_unit == "absolute"
    if absolute and epsilon is None and encoder is None and mechanism != "exact":
        raise ValueError('epsilon: give a value when epsilon_unit="absolute" is used')
    strength = 0.0 if mechanism == "exact" else _positive("epsilon", default if epsilon is None else epsilon)
    return couple_cost(
        cost,
        first,
        second,
        mechanism=mechanism,
        epsilon=strength,
        epsilon_unit="absolute" if absolute else "scale",
        relaxation=relaxation,
        null_cost=null_cost,
    )


def couple_cost(
    cost: NDArray[np.float64],
    source: Measure,
    target: Measure,
    *,
    mechanism: Mechanism = "sinkhorn",
    epsilon: float = DEFAULT_EPSILON,
    epsilon_unit: EpsilonUnit = "scale",
    relaxation: float | None = None,
    null_cost: float | None = None,
) -> Coupling:
    """Couple two measures under a given cost (n, m); the rest as in `couple`."""
    from sinkviz import transport

    a, b = source.weights, target.weights
    scale, unit = epsilon_scale(cost, a, b)
    unit = 1.0 if epsilon_unit == "absolute" else unit
    strength = epsilon * unit
    common: dict[str, Any] = {
        "source": source,
        "target": target,
        "cost": cost,
        "cost_scale": scale,
        "epsilon": strength,
        "mechanism": mechanism,
        "relaxation": None if relaxation is None else relaxation * (unit or 1.0),
        "null_cost": null_cost,
    }
    constant = unit == 0 or (mechanism == "exact" and scale == 0)
    if constant and null_cost is None:
        # Every plan costs the same, so the entropy alone decides: independence, for each ε and in the limit 0.
        return Coupling(
            plan=np.outer(a, b),
            f=cost @ b,
            g=np.zeros(len(b)),
            status="closed_form",
            residual=0.0,
            iterations=0,
            **common,
        )
    if mechanism == "exact":
        plan = _array(transport.exact_plan(_tensor(cost), _tensor(a), _tensor(b)))
        residual = float(np.abs(plan.sum(1) - a).sum() + np.abs(plan.sum(0) - b).sum())
        return Coupling(plan=plan, f=None, g=None, status="exact", residual=residual, iterations=0, **common)
    if constant:
        strength = common["epsilon"] = epsilon
    device = common["device"] = solver_device(*cost.shape)
    result = transport.sinkhorn(
        *_problem(cost, a, b, null_cost, device),
        epsilon=strength,
        column_relaxation=_relaxation(mechanism, common["relaxation"]),
    )
    common |= {
        "status": str(result.status),
        "residual": float(result.residual),
        "iterations": int(result.iterations),
    }
    return _coupling(result.plan, result.f, result.g, common)


def couple_half_steps(
    cost: NDArray[np.float64],
    source: Measure,
    target: Measure,
    *,
    steps: float,
    epsilon: float = DEFAULT_EPSILON,
    epsilon_unit: EpsilonUnit = "scale",
    null_cost: float | None = None,
) -> Coupling:
    """Return what 0.5, 1, 1.5, … Sinkhorn half-steps from g = 0 make of the scores: from attention to the coupling.

    Half-step ½ is softmax attention. Whole numbers of steps end on the columns, the others on the rows. The status is
    "max_iterations" unless both marginals are already within the tolerance.

    Raises:
        ValueError: steps that are not 0.5, 1, 1.5, …; the rest as in `couple`.
    """
    from sinkviz import transport

    a, b = source.weights, target.weights
    scale, unit = epsilon_scale(cost, a, b)
    strength = epsilon * (1.0 if epsilon_unit == "absolute" else unit or 1.0)
    device = solver_device(*cost.shape)
    run = transport.half_steps(*_problem(cost, a, b, null_cost, device), epsilon=strength, steps=[steps])
    errors = float(run.row_error[0]), float(run.column_error[0])
    return _coupling(
        run.plan(0),
        run.f[0],
        run.g[0],
        {
            "source": source,
            "target": target,
            "cost": cost,
            "cost_scale": scale,
            "epsilon": strength,
            "mechanism": "sinkhorn" if null_cost is None else "partial",
            "status": "converged" if max(errors) <= 1e-6 else "max_iterations",
            "residual": max(errors),
            "iterations": int(np.ceil(steps)),
            "null_cost": null_cost,
            "device": device,
        },
    )


def _coupling(plan: torch.Tensor, f: torch.Tensor, g: torch.Tensor, common: dict[str, Any]) -> Coupling:
    """Return a solver's plan as a coupling; with a null partner the real block counts times 2."""
    rows, columns = common["cost"].shape
    whole = _array(plan)
    if common["null_cost"] is not None:
        whole = 2 * whole
        common |= {"null_source": whole[:rows, columns], "null_target": whole[rows, :columns]}
        common["residual"] *= 2
    return Coupling(plan=whole[:rows, :columns], f=_array(f)[:rows], g=_array(g)[:columns], **common)


def _problem(
    cost: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    null_cost: float | None,
    device: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return cost and weights as the solver takes them, with a null partner on each side where it has a price."""
    from sinkviz.transport import with_null_partner

    tensors = (_tensor(cost, device), _tensor(a, device), _tensor(b, device))
    return tensors if null_cost is None else with_null_partner(*tensors, null_cost=null_cost)


def _relaxation(mechanism: Mechanism, value: float | None) -> float | None:
    """Return the weight of the KL term on the columns; None = they are fixed."""
    if mechanism == "softmax":
        return 0.0
    if mechanism != "relaxed":
        return None
    if value is None or np.isnan(value) or value < 0:
        raise ValueError(f"relaxation: expected a number >= 0 or inf, got {value}")
    return None if np.isinf(value) else float(value)


@dataclass(frozen=True, eq=False)
class EpsilonPath:
    """The balanced couplings of two measures along a grid of ε, kept as potentials: (n + m) numbers an ε.

    Attributes:
        source, target: the measures.
        cost: C, shape (n, m).
        cost_scale: the unit of relative ε.
        epsilons: absolute ε of the grid, largest first, shape (E,).
        solved: potentials and statuses as `sinkviz.transport.sinkhorn_path` returns them; with a null partner they
            have one entry more on each side.
        null_cost: price of having no partner; None without a null partner.
        device: where the path was solved.
    """

    source: Measure
    target: Measure
    cost: NDArray[np.float64]
    cost_scale: float
    epsilons: NDArray[np.float64]
    solved: SinkhornPath
    null_cost: float | None = None
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.epsilons)

    def __getitem__(self, index: int) -> Coupling:
        if not -len(self) <= index < len(self):
            raise IndexError(f"path: expected an index from 0 to {len(self) - 1}, got {index}")
        rows, columns = self.cost.shape
        whole = _array(self.solved.plan(index)) * (1.0 if self.null_cost is None else 2.0)
        a, b = self.source.weights, self.target.weights
        if self.null_cost is not None:
            a, b = np.append(a, 1.0), np.append(b, 1.0)
        row_error = float(np.abs(whole.sum(1) - a).sum())
        column_error = float(np.abs(whole.sum(0) - b).sum())
        return Coupling(
            plan=whole[:rows, :columns],
            null_source=np.zeros(rows) if self.null_cost is None else whole[:rows, columns],
            null_target=np.zeros(columns) if self.null_cost is None else whole[rows, :columns],
            null_cost=self.null_cost,
            source=self.source,
            target=self.target,
            cost=self.cost,
            cost_scale=self.cost_scale,
            epsilon=float(self.epsilons[index]),
            f=_array(self.solved.f[index])[:rows],
            g=_array(self.solved.g[index])[:columns],
            mechanism="sinkhorn" if self.null_cost is None else "partial",
            status=str(self.solved.status[index]),
            residual=row_error + column_error,
            iterations=int(self.solved.iterations[index]),
            device=self.device,
        )


def default_epsilons(count: int = 41) -> NDArray[np.float64]:
    """Return a logarithmic grid of relative ε from 10 to 0.01, largest first."""
    return np.geomspace(10.0, 0.01, count)


def epsilon_path(
    source: Words | Measure,
    target: Words | Measure,
    epsilons: Sequence[float] | NDArray[np.float64] | None = None,
    *,
    epsilon_unit: EpsilonUnit = "scale",
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    cost: NDArray[np.float64] | None = None,
    null_cost: float | None = None,
    **embedding: Any,
) -> EpsilonPath:
    """Solve the balanced problem along a whole grid of ε, each from its neighbour.

    Args:
        source, target: texts, lists of words, or measures.
        epsilons: the grid, in units of the cost's scale; `default_epsilons()` if None. Sorted, largest first.
        epsilon_unit: "scale" or "absolute".
        progress: called with (solved, total) after each ε.
        cancelled: asked before each ε; True ends the path early with the part that is done.
        cost: the cost (n, m) to use instead of −cosine.
        null_cost: price of having no partner; adds a null partner on each side.
        **embedding: options of `embed` for arguments that are texts.

    Raises:
        ValueError: an empty grid, an ε that is not finite and positive, measures that do not fit.

    Example:
        >>> x = Measure.from_points([[1.0, 0.0], [0.0, 1.0]])
        >>> path = epsilon_path(x, x, [1.0, 0.1])
        >>> len(path), path[1].status
        (2, 'converged')
    """
    from sinkviz import transport

    first, second = _measures(source, target, embedding)
    grid = default_epsilons() if epsilons is None else np.asarray(epsilons, dtype=np.float64)
    if grid.ndim != 1 or len(grid) == 0:
        raise ValueError(f"epsilons: expected a list of at least one number, got shape {grid.shape}")
    for value in grid:
        _positive("epsilon", float(value))
    matrix = cosine_cost(first, second) if cost is None else cost
    scale, unit = epsilon_scale(matrix, first.weights, second.weights)
    absolute = np.sort(grid)[::-1] * (1.0 if epsilon_unit == "absolute" else unit or 1.0)
    device = solver_device(*matrix.shape)
    solved = transport.sinkhorn_path(
        *_problem(matrix, first.weights, second.weights, null_cost, device),
        epsilons=_tensor(absolute, device),
        progress=progress,
        cancelled=cancelled,
    )
    return EpsilonPath(
        source=first,
        target=second,
        cost=matrix,
        cost_scale=scale,
        epsilons=absolute[: len(solved.f)].copy(),
        solved=solved,
        null_cost=null_cost,
        device=device,
    )
