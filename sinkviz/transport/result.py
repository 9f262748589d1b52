"""What a solve gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Status = Literal["converged", "stalled", "max_iterations"]
STATUSES: tuple[Status, ...] = ("converged", "stalled", "max_iterations")


@dataclass(frozen=True, eq=False, slots=True)
class SinkhornResult:
    """A plan, the potentials behind it, and how far they can be trusted.

    P_ij = a_i b_j exp((f_i + g_j − C_ij)/ε). For a single problem the last seven are plain Python values, for a batch
    tensors (`status`: an array of strings) of the batch's shape.

    Attributes:
        plan: (…, n, m), in the cost's dtype.
        f, g: (…, n) and (…, m), float64, in units of the cost as it was given. Balanced: ⟨b, g⟩ = 0.
        epsilon: the ε of the solve.
        status: "converged": the residual is within the tolerance; "stalled": the arithmetic can do no better;
            "max_iterations": the budget was used up.
        residual: largest of the two sides' L1 errors of the problem that was posed, as a share of the mass: a fixed
            marginal against its weights, a relaxed one against its optimality condition P1 = a exp(−f/ρ).
        row_error, column_error: ‖P1 − a‖₁ and ‖Pᵀ1 − b‖₁, recomputed from the plan. Off by design on a relaxed side.
        duality_gap: primal value at the plan minus dual value at the potentials, in units of the cost. On a fixed side
            it is ⟨P1 − a, f⟩, which may be negative by as much as the marginal is off.
        iterations: Sinkhorn, Newton and conjugate-gradient iterations together, each about two matrix–vector products.
    """

    plan: Tensor
    f: Tensor
    g: Tensor
    epsilon: float | Tensor
    status: Any
    residual: float | Tensor
    row_error: float | Tensor
    column_error: float | Tensor
    duality_gap: float | Tensor
    iterations: int | Tensor

    @property
    def converged(self) -> bool | Tensor:
        """Whether the status is "converged"; a boolean tensor for a batch."""
        if isinstance(self.status, str):
            return self.status == "converged"
        return torch.from_numpy(np.asarray(self.status == "converged"))


def status_names(codes: Tensor) -> NDArray[np.str_]:
    """Return the names of status codes, as an array of their shape."""
    return np.array(STATUSES)[codes.cpu().numpy()]
