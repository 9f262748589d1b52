"""Training data: padded pairs of measures with their target couplings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of measures with the couplings that a model shall learn; padding has weight 0.

    Attributes:
        x, y: points, shapes (B, n, d) and (B, m, d), float32.
        a, b: weights, shapes (B, n) and (B, m), float64, sum 1.
        plan: the target coupling of each pair, shape (B, n, m), float64.

    Raises:
        ValueError: shapes that do not fit.
    """

    x: Tensor
    a: Tensor
    y: Tensor
    b: Tensor
    plan: Tensor

    def __post_init__(self) -> None:
        (count, n), (_, m) = self.a.shape, self.b.shape
        if (
            self.x.shape[:2] != (count, n)
            or self.y.shape[:2] != (count, m)
            or self.plan.shape != (count, n, m)
            or count == 0
        ):
            shapes = [tuple(t.shape) for t in (self.x, self.a, self.y, self.b, self.plan)]
            raise ValueError(
                "pairs: expected x (B, n, d), a (B, n), y (B, m, d), b (B, m), plan (B, n, m) with B >= 1, "
                f"got {shapes}"
            )

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Pairs:
        """Return the chosen pairs, without columns of padding that none of them needs."""
        a, b = self.a[index], self.b[index]
        n = int((a > 0).sum(1).max())
        m = int((b > 0).sum(1).max())
        return Pairs(self.x[index, :n], a[:, :n], self.y[index, :m], b[:, :m], self.plan[index, :n, :m])

    def pair(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return one pair without padding as float64 arrays x, a, y, b, plan."""
        n, m = int((self.a[k] > 0).sum()), int((self.b[k] > 0).sum())
        return (
            self.x[k, :n].double().numpy(),
            self.a[k, :n].numpy(),
            self.y[k, :m].double().numpy(),
            self.b[k, :m].numpy(),
            self.plan[k, :n, :m].numpy(),
        )
