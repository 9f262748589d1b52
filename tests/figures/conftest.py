"""Couplings to draw: small ones with known numbers, and texts that a stranger might paste."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from sinkviz.coupling import Coupling
from sinkviz.measure import Measure

HOSTILE = [
    "<b>bold</b>",
    "<script>alert(1)</script>",
    '<a href="javascript:alert(1)">x</a>',
    "$x^2$",
    ":red[x]",
    "&amp;",
    "&",
    "the",
    "the",
    "the",
    "2024-01-01",
    "%{x}",
    "two\nlines",
    "\u202eevil",
    "שלום",
    "日本語",
    "👩‍👩‍👧",
    "x" * 3000,
]


@dataclass(frozen=True)
class Maker:
    """Makes couplings of random points without any solver."""

    hostile: tuple[str, ...] = tuple(HOSTILE)

    def measure(self, labels: Sequence[str], seed: int = 0, weights: Sequence[float] | None = None) -> Measure:
        points = np.random.default_rng(seed).normal(size=(len(labels), 5))
        return Measure.from_points(points, weights=weights, labels=labels)

    def of_plan(
        self, plan: object, source: Sequence[str] | None = None, target: Sequence[str] | None = None
    ) -> Coupling:
        """A coupling whose marginals are the weights."""
        matrix = np.asarray(plan, dtype=np.float64)
        matrix = matrix / matrix.sum()
        a = self.measure(source or [f"s{i}" for i in range(matrix.shape[0])], 1, list(matrix.sum(1)))
        b = self.measure(target or [f"t{j}" for j in range(matrix.shape[1])], 2, list(matrix.sum(0)))
        return self.coupling(matrix, a, b, "sinkhorn")

    def coupling(
        self, plan: np.ndarray, source: Measure, target: Measure, mechanism: str, **fields: object
    ) -> Coupling:
        return Coupling(
            plan=plan,
            source=source,
            target=target,
            cost=-plan,
            cost_scale=0.5,
            epsilon=0.1,
            f=None,
            g=None,
            mechanism=mechanism,  # type: ignore[arg-type]
            status="converged",
            residual=0.0,
            iterations=1,
            **fields,  # type: ignore[arg-type]
        )

    def random(
        self,
        n: int,
        m: int,
        seed: int = 0,
        source: Sequence[str] | None = None,
        target: Sequence[str] | None = None,
        sharpness: float = 3.0,
    ) -> Coupling:
        rng = np.random.default_rng(seed)
        return self.of_plan(np.exp(sharpness * rng.normal(size=(n, m))), source, target)

    def attention(self, coupling: Coupling, seed: int = 9) -> Coupling:
        """The same measures with rows that keep their weights and columns that do not."""
        rows = np.exp(2 * np.random.default_rng(seed).normal(size=coupling.shape)) * coupling.target.weights
        rows *= (coupling.source.weights / rows.sum(1))[:, None]
        return self.coupling(rows, coupling.source, coupling.target, "softmax")

    def partial(self, n: int, m: int, seed: int = 0) -> Coupling:
        """A plan with null partners whose marginals are the weights."""
        full = self.random(n, m, seed)
        keep = np.random.default_rng(seed + 1).uniform(0.1, 0.9, size=(n, m))
        plan = full.plan * keep
        return replace(
            full,
            plan=plan,
            mechanism="partial",
            null_source=full.source.weights - plan.sum(1),
            null_target=full.target.weights - plan.sum(0),
            null_cost=0.3,
        )


@pytest.fixture(scope="session")
def make() -> Maker:
    return Maker()


@pytest.fixture(scope="session")
def every_figure() -> Callable[..., dict[str, object]]:
    """Draw every picture of a coupling."""

    def draw(coupling: Coupling, attention: Coupling, theme: str = "light") -> dict[str, object]:
        from sinkviz import figures
        from sinkviz.projection import shared_projection

        drawn = {
            "heatmap": figures.heatmap(coupling, theme=theme),
            "lift": figures.heatmap(coupling, colour="lift", theme=theme),
            "difference": figures.difference_heatmap(coupling, attention, theme=theme),
            "lines": figures.lines(coupling, theme=theme),
            "received": figures.received(coupling, theme=theme),
            "curves": figures.epsilon_curves([coupling], attention=[attention], mark=0.2, theme=theme),
        }
        for dimensions in (2, 3):
            projection = shared_projection(coupling.source, coupling.target, dimensions)
            drawn[f"clouds {dimensions}"] = figures.clouds(coupling, projection, theme=theme)
        return drawn

    return draw
