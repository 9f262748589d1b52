"""What every function of this package accepts: arguments checked, converted and broadcast before any work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Number = float | Tensor

SINGLE = torch.Size()
"""The batch's shape of one problem."""
MASS_TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-5}
"""Largest relative difference of the two sums that counts as rounding of the caller's own arithmetic."""


@dataclass(slots=True)
class Problem:
    """A checked problem, or a batch of them: min ⟨C,P⟩ + ε KL(P‖a⊗b) + ρ₁ KL(P1‖a) + ρ₂ KL(Pᵀ1‖b).

    Attributes:
        cost: (…, n, m), float32 or float64; +inf forbids a pair.
        a, b: (…, n) and (…, m), float64.
        epsilon, row_relaxation, column_relaxation: numbers, or float64 tensors of the batch's shape; inf = balanced.
        batch: the batch's shape; () for a single problem.
        tolerance: largest L1 residual, as a share of the mass, that counts as converged.
        forbidden: whether any cost is +inf.
        low, high: least and greatest finite cost.
        weightless: whether any weight is 0.
        mass_a, mass_b, least: sums of the weights and least share of a sum, for a single problem.
    """

    cost: Tensor
    a: Tensor
    b: Tensor
    epsilon: Number
    row_relaxation: Number
    column_relaxation: Number
    batch: torch.Size
    tolerance: float
    forbidden: bool
    low: float
    high: float
    weightless: bool
    mass_a: float = math.nan
    mass_b: float = math.nan
    least: float = 0.0

    @property
    def needs_gradient(self) -> bool:
        """Whether an argument asks for a gradient."""
        if not torch.is_grad_enabled():
            return False
        numbers = (self.epsilon, self.row_relaxation, self.column_relaxation)
        return (
            self.cost.requires_grad
            or self.a.requires_grad
            or self.b.requires_grad
            or any(isinstance(x, Tensor) and x.requires_grad for x in numbers)
        )


def prepare(
    cost: Any,
    a: Any,
    b: Any,
    epsilon: Any,
    *,
    tolerance: float | None = None,
    row_relaxation: Any = None,
    column_relaxation: Any = None,
) -> Problem:
    """Check the arguments of a solve and bring them to one dtype, device and batch shape.

    Raises:
        ValueError: anything that no solver could answer; the message names the argument, what was expected, what came
            and what to do.
    """
    cost = _cost(cost)
    rows, columns = cost.shape[-2:]
    a = _weights(a, "a", rows, cost)
    b = _weights(b, "b", columns, cost)
    epsilon = _number(epsilon, "epsilon", cost)
    rows_pulled = math.inf if row_relaxation is None else _number(row_relaxation, "row_relaxation", cost)
    columns_pulled = math.inf if column_relaxation is None else _number(column_relaxation, "column_relaxation", cost)
    batch = _batch(cost, a, b, epsilon, rows_pulled, columns_pulled)
    if batch:
        cost = cost.expand(*batch, rows, columns)
        a, b = a.expand(*batch, rows), b.expand(*batch, columns)
        epsilon = _fill(epsilon, batch, cost)
        rows_pulled = _fill(rows_pulled, batch, cost)
        columns_pulled = _fill(columns_pulled, batch, cost)
    low, high, forbidden = _check_cost(cost)
    weightless, mass_a, mass_b, least = _check_weights(a, b, rows_pulled, columns_pulled, cost.dtype)
    problem = Problem(
        cost=cost,
        a=a,
        b=b,
        epsilon=epsilon,
        row_relaxation=rows_pulled,
        column_relaxation=columns_pulled,
        batch=batch,
        tolerance=_tolerance(tolerance, cost.dtype),
        forbidden=forbidden,
        low=low,
        high=high,
        weightless=weightless,
        mass_a=mass_a,
        mass_b=mass_b,
        least=least,
    )
    if forbidden:
        from sinkviz.transport.feasible import check_feasible

        check_feasible(problem)
    return problem


def _cost(cost: Any) -> Tensor:
    if not isinstance(cost, Tensor):
        try:
            # Numbers without a dtype of their own (lists) are read in float64.
            cost = torch.as_tensor(cost, dtype=None if hasattr(cost, "dtype") else torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"cost: expected a matrix of numbers, shape (…, n, m), got {_brief(cost)}") from error
    if cost.is_complex() or cost.dtype == torch.bool:
        raise ValueError(f"cost: expected real numbers, got {cost.dtype}")
    if cost.device.type == "mps":
        raise ValueError("cost: expected a CPU or CUDA tensor, got MPS, which has no float64; use cost.cpu()")
    if cost.ndim < 2 or cost.shape[-1] == 0 or cost.shape[-2] == 0:
        raise ValueError(
            f"cost: expected shape (…, n, m) with n, m >= 1, got {tuple(cost.shape)}; "
            "rows are source atoms, columns target atoms"
        )
    if cost.dtype in (torch.float64, torch.float32):
        return cost
    return cost.float() if cost.is_floating_point() else cost.double()


def _weights(weights: Any, name: str, size: int, cost: Tensor) -> Tensor:
    if weights is None:
        return torch.full((size,), 1.0 / size, dtype=torch.float64, device=cost.device)
    if not isinstance(weights, Tensor):
        try:
            weights = torch.as_tensor(weights, dtype=torch.float64, device=cost.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{name}: expected numbers, shape (…, {size}), got {_brief(weights)}") from error
    if weights.is_complex() or weights.dtype == torch.bool:
        raise ValueError(f"{name}: expected real numbers, got {weights.dtype}")
    if weights.ndim < 1 or weights.shape[-1] != size:
        raise ValueError(
            f"{name}: expected shape (…, {size}) to fit a cost of shape {tuple(cost.shape)}, got {tuple(weights.shape)}"
        )
    _same_device(weights, name, cost)
    return weights if weights.dtype == torch.float64 else weights.double()


def _number(value: Any, name: str, cost: Tensor) -> Number:
    positive = name == "epsilon"
    expected = "a finite number > 0" if positive else "a number >= 0, or inf for a fixed marginal"
    if not isinstance(value, Tensor):
        try:
            value = float(value)
        except (TypeError, ValueError):
            try:
                value = torch.as_tensor(value, dtype=torch.float64, device=cost.device)
            except (TypeError, ValueError, RuntimeError) as error:
                raise ValueError(f"{name}: expected {expected}, got {_brief(value)}") from error
    if isinstance(value, Tensor):
        if value.is_complex() or value.dtype == torch.bool:
            raise ValueError(f"{name}: expected {expected}, got {value.dtype}")
        if value.ndim == 0 and not value.requires_grad:
            value = float(value)
        else:
            _same_device(value, name, cost)
            value = value.double()
            wrong = ~(value.isfinite() & (value > 0)) if positive else ~(value >= 0)
            if bool(wrong.any()):
                first = float(value.detach()[wrong].reshape(-1)[0])
                raise ValueError(f"{name}: expected {expected}, got {first}{_hint(name, first)}")
            return value
    if not (0 < value < math.inf if positive else value >= 0):
        raise ValueError(f"{name}: expected {expected}, got {value}{_hint(name, value)}")
    return value


def _hint(name: str, value: float) -> str:
    return "; for the exact plan, ε = 0, use exact_plan" if name == "epsilon" and value == 0 else ""


def _same_device(value: Tensor, name: str, cost: Tensor) -> None:
    if value.device != cost.device:
        raise ValueError(f"{name}: expected the cost's device {cost.device}, got {value.device}")


def _batch(cost: Tensor, a: Tensor, b: Tensor, *numbers: Number) -> torch.Size:
    if cost.ndim == 2 and a.ndim == b.ndim == 1 and not any(isinstance(x, Tensor) for x in numbers):
        return SINGLE
    shapes = [cost.shape[:-2], a.shape[:-1], b.shape[:-1], *(x.shape for x in numbers if isinstance(x, Tensor))]
    if not any(shapes):
        return torch.Size()
    try:
        batch = torch.broadcast_shapes(*shapes)
    except RuntimeError as error:
        names = ("cost", "a", "b", "epsilon and relaxations")
        got = ", ".join(f"{names[min(k, 3)]} {tuple(shape)}" for k, shape in enumerate(shapes))
        raise ValueError(f"batch dimensions: expected shapes that broadcast together, got {got}") from error
    if 0 in batch:
        raise ValueError(f"batch dimensions: expected at least one problem, got batch shape {tuple(batch)}")
    return batch


def _fill(value: Number, batch: torch.Size, cost: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.expand(batch)
    return torch.full(batch, value, dtype=torch.float64, device=cost.device)


def _tolerance(tolerance: float | None, dtype: torch.dtype) -> float:
    if tolerance is None:
        return 1e-6 if dtype == torch.float64 else 1e-5
    try:
        tolerance = float(tolerance)
    except (TypeError, ValueError) as error:
        raise ValueError(f"tolerance: expected a number > 0, got {tolerance!r}") from error
    if not 0 < tolerance < math.inf:
        raise ValueError(f"tolerance: expected a finite number > 0, got {tolerance}")
    return tolerance


def view(tensor: Tensor) -> NDArray[Any]:
    """Return the tensor's own memory as an array: on the CPU a numpy call costs a third of a torch call."""
    return (tensor.detach() if tensor.requires_grad else tensor).numpy()


def extent(values: Tensor) -> tuple[float, float]:
    """Return least and greatest entry, NaN if one is NaN."""
    if values.is_cuda:
        low, high = torch.aminmax(values.detach())
        return low.item(), high.item()
    array = view(values)
    return float(np.minimum.reduce(array, axis=None)), float(np.maximum.reduce(array, axis=None))


def _check_cost(cost: Tensor) -> tuple[float, float, bool]:
    """Return the least and greatest finite cost, and whether a pair is forbidden."""
    low, high = extent(cost)
    if -math.inf < low and high < math.inf:
        return low, high, False
    values = cost.detach()
    for mask, what in ((values.isnan(), "NaN"), (values == -math.inf, "-inf")):
        if bool(mask.any()):
            place = tuple(int(k) for k in mask.nonzero()[0])
            raise ValueError(
                f"cost: expected finite numbers, or +inf for a forbidden pair, got {what} at index {place}"
            )
    finite = values[values.isfinite()]
    if finite.numel() == 0:
        return 0.0, 0.0, True
    return float(finite.min()), float(finite.max()), True


def _check_weights(
    a: Tensor, b: Tensor, rows_pulled: Number, columns_pulled: Number, dtype: torch.dtype
) -> tuple[bool, float, float, float]:
    """Check both weights, and that the sums agree where both marginals are fixed.

    Returns:
        Whether a weight is 0; for a single problem both sums, and the least weight as a share of its sum.
    """
    weightless, least = False, 1.0
    masses = [math.nan, math.nan]
    for k, (weights, name) in enumerate(((a, "a"), (b, "b"))):
        if weights.ndim == 1 and not weights.is_cuda:
            array = view(weights)
            low, mass = float(np.minimum.reduce(array)), float(np.add.reduce(array))
            if low >= 0 and 0 < mass < math.inf:
                masses[k] = mass
                weightless = weightless or low == 0
                least = min(least, low / mass)
                continue
        values = weights.detach()
        low, high = extent(values)
        if not (low >= 0 and high < math.inf):
            wrong = ~(values >= 0) | values.isinf()
            first = float(values[wrong].reshape(-1)[0])
            raise ValueError(f"{name}: expected finite weights >= 0, got {first}")
        weightless = weightless or low == 0
        total = values.sum(-1)
        if values.ndim == 1:
            mass = masses[k] = total.item()
            if not 0 < mass < math.inf:
                raise ValueError(f"{name}: expected weights with a finite sum > 0, got {mass}")
            least = min(least, low / mass)
        elif not bool(((total > 0) & (total < math.inf)).all()):
            place = tuple(int(k) for k in (~((total > 0) & (total < math.inf))).nonzero()[0])
            raise ValueError(
                f"{name}: expected weights with a finite sum > 0, got {float(total[place])} in item {place}"
            )
    limit = MASS_TOLERANCE[dtype]
    if isinstance(rows_pulled, float) and isinstance(columns_pulled, float) and a.ndim == b.ndim == 1:
        fixed = rows_pulled == math.inf and columns_pulled == math.inf
        if fixed and abs(masses[0] - masses[1]) > limit * masses[0]:
            raise ValueError(_sums(masses[0], masses[1]))
    else:
        sums = [weights.detach().sum(-1) for weights in (a, b)]
        wrong = (sums[0] - sums[1]).abs() > limit * sums[0]
        wrong = wrong & torch.as_tensor(rows_pulled == math.inf) & torch.as_tensor(columns_pulled == math.inf)
        if bool(wrong.any()):
            place = tuple(int(k) for k in wrong.nonzero()[0])
            total_a, total_b = (float(x.expand(wrong.shape)[place]) for x in sums)
            raise ValueError(_sums(total_a, total_b) + (f" (item {place})" if place else ""))
    return weightless, masses[0], masses[1], least


def _sums(mass_a: float, mass_b: float) -> str:
    return (
        f"a and b: expected equal sums, got {mass_a:.9g} for a and {mass_b:.9g} for b; "
        "normalise both, or relax a side with row_relaxation or column_relaxation"
    )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def check_grid(epsilons: Any, cost: Tensor) -> list[float]:
    """Return a grid of ε as numbers, in the order given.

    Raises:
        ValueError: empty, not one-dimensional, or an ε that is not finite and positive.
    """
    values = epsilons.detach().cpu().tolist() if isinstance(epsilons, Tensor) else epsilons
    if not isinstance(values, Sequence) and not hasattr(values, "__iter__"):
        raise ValueError(f"epsilons: expected a list of at least one number, got {_brief(values)}")
    grid = []
    for value in values:
        number = _number(value, "epsilon", cost)
        if isinstance(number, Tensor):
            raise ValueError(f"epsilons: expected a flat list of numbers, got {_brief(value)}")
        grid.append(number)
    if not grid:
        raise ValueError("epsilons: expected a list of at least one number, got none")
    return grid
