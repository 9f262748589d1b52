"""Whether any plan at all avoids the forbidden pairs."""

from __future__ import annotations

import math

from torch import Tensor

from sinkviz.transport.problem import Problem

CAPACITY = 1 << 30
"""The maximum flow is computed in whole units; this many make up the mass."""


def check_feasible(problem: Problem) -> None:
    """Raise if the forbidden pairs (cost +inf) leave no plan with the marginals that are fixed.

    Both marginals fixed: a plan exists if and only if a maximum flow from the rows through the allowed pairs to the
    columns carries the whole mass. One marginal fixed: every atom with weight needs an allowed partner. None: always.

    Raises:
        ValueError: no plan exists; the message says how much mass has nowhere to go.
    """
    rows, columns = problem.cost.shape[-2:]
    cost = problem.cost.detach().reshape(-1, rows, columns)
    a, b = problem.a.detach().reshape(-1, rows), problem.b.detach().reshape(-1, columns)
    for k in range(len(cost)):
        item = f" in item {k} of the flattened batch" if problem.batch else ""
        fixed_rows = _at(problem.row_relaxation, k) == math.inf
        fixed_columns = _at(problem.column_relaxation, k) == math.inf
        if not (fixed_rows or fixed_columns):
            continue
        allowed = cost[k].isfinite() & (a[k, :, None] > 0) & (b[k, None, :] > 0)
        for fixed, weights, has_partner, name in (
            (fixed_rows, a[k], allowed.any(1), "row"),
            (fixed_columns, b[k], allowed.any(0), "column"),
        ):
            lost = (weights > 0) & ~has_partner
            if fixed and bool(lost.any()):
                index = int(lost.nonzero()[0])
                raise ValueError(
                    f"cost: infeasible{item}: {name} {index} has weight {float(weights[index]):.6g} but every pair "
                    "with weight is forbidden (+inf); allow a pair, take the weight away, or relax that side"
                )
        if fixed_rows and fixed_columns:
            missing = _missing(allowed, a[k], b[k])
            if missing > 0:
                raise ValueError(
                    f"cost: infeasible{item}: the forbidden pairs (+inf) leave no plan with these marginals; "
                    f"{missing:.6g} of the mass has nowhere to go; allow more pairs, or relax a side"
                )


def _at(value: float | Tensor, k: int) -> float:
    return float(value.detach().reshape(-1)[k]) if isinstance(value, Tensor) else value


def _missing(allowed: Tensor, a: Tensor, b: Tensor) -> float:
    """Return the share of the mass that no plan can carry; 0 if it is within the rounding of the whole units."""
    # Where one row and one column allow everything with weight on both sides, the flow below need not be computed.
    if bool((allowed | (a[:, None] == 0) | (b[None, :] == 0)).all()):
        return 0.0
    import numpy as np
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import maximum_flow

    rows, columns = allowed.shape
    mass = float(a.sum())
    units_a = (a / mass * CAPACITY).round().long().cpu().numpy()
    units_b = (b / float(b.sum()) * CAPACITY).round().long().cpu().numpy()
    pairs = allowed.nonzero().cpu().numpy()
    source, sink = rows + columns, rows + columns + 1
    start = np.concatenate([np.full(rows, source), pairs[:, 0], rows + np.arange(columns)])
    end = np.concatenate([np.arange(rows), rows + pairs[:, 1], np.full(columns, sink)])
    capacity = np.concatenate([units_a, np.full(len(pairs), CAPACITY), units_b]).astype(np.int32)
    graph: csr_array = coo_array((capacity, (start, end)), shape=(sink + 1, sink + 1)).tocsr()
    flow = int(maximum_flow(graph, source, sink).flow_value)
    wanted = min(int(units_a.sum()), int(units_b.sum()))
    # Every weight is rounded to whole units, so that much may be missing without meaning anything.
    slack = rows + columns
    return max(0, wanted - flow) / CAPACITY * mass if wanted - flow > slack else 0.0
