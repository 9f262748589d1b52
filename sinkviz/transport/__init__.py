"""Entropic transport: the Sinkhorn operator, its path over ε, attention as its first half-step, and the exact end."""

from sinkviz.transport.exact import exact_plan
from sinkviz.transport.partner import with_null_partner
from sinkviz.transport.path import HalfSteps, SinkhornPath, half_steps, sinkhorn_path
from sinkviz.transport.result import SinkhornResult
from sinkviz.transport.scale import cost_scale
from sinkviz.transport.solver import sinkhorn, softmax_attention

__all__ = [
    "HalfSteps",
    "SinkhornPath",
    "SinkhornResult",
    "cost_scale",
    "exact_plan",
    "half_steps",
    "sinkhorn",
    "sinkhorn_path",
    "softmax_attention",
    "with_null_partner",
]
