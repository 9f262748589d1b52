"""Entropic transport: the Sinkhorn operator, its path over ε, attention as its first half-step, and the exact end."""

from sinkviz.transport.exact import exact_plan
from sinkviz.transport.result import SinkhornResult
from sinkviz.transport.scale import cost_scale
from sinkviz.transport.solver import SinkhornPath, half_steps, sinkhorn, sinkhorn_path, softmax_attention

__all__ = [
    "SinkhornPath",
    "SinkhornResult",
    "cost_scale",
    "exact_plan",
    "half_steps",
    "sinkhorn",
    "sinkhorn_path",
    "softmax_attention",
]
