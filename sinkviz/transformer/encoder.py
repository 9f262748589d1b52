"""Measure encoders: maps (μ, x) ↦ Q(μ, x) that see a cloud as a measure."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sinkviz.transformer.layers import EncoderBlock, log_weights


@dataclass(frozen=True, eq=False)
class EncoderTrace:
    """The inside of one encoder on one measure.

    Attributes:
        states: the cloud before the first layer and after each, layers + 1 tensors of shape (…, n, width).
        attentions: attention of each layer, tensors of shape (…, heads, n, n), rows sum to 1.
        output: the encoded points, shape (…, n, out).
    """

    states: tuple[Tensor, ...]
    attentions: tuple[Tensor, ...]
    output: Tensor


class MeasureEncoder(nn.Module):
    """A transformer encoder on measures: μ and x in X ↦ Q(μ, x) in R^out.

    Permutation equivariant and mass consistent at any depth: splitting an atom of mass a into two of mass a/2 changes
    no output. Word order enters only as part of a point.

    Args:
        dim: coordinates of a point.
        width: coordinates inside.
        layers: number of blocks; 0 leaves a linear map.
        heads: heads of each attention; divides the width.
        out: coordinates of the output.
        expansion: hidden width of the MLPs in multiples of `width`.
        sinkhorn_iterations: 0 = softmax attention; otherwise doubly stochastic attention in every layer.

    Raises:
        ValueError: sizes that are not positive, a width that the heads do not divide.

    Source: Fraiman, arXiv 2603.25860, section 2; Furuya, de Hoop, Peyré, arXiv 2408.01367.

    >>> encoder = MeasureEncoder(2, width=8, layers=1, heads=2, out=4)
    >>> encoder(torch.randn(5, 2), torch.full((5,), 0.2)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        dim: int,
        *,
        width: int,
        layers: int,
        heads: int,
        out: int,
        expansion: int = 2,
        sinkhorn_iterations: int = 0,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("dim", dim, 1),
            ("width", width, 1),
            ("layers", layers, 0),
            ("heads", heads, 1),
            ("out", out, 1),
            ("expansion", expansion, 1),
            ("sinkhorn_iterations", sinkhorn_iterations, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
        self.enter = nn.Linear(dim, width)
        self.blocks = nn.ModuleList(EncoderBlock(width, heads, expansion, sinkhorn_iterations) for _ in range(layers))
        self.leave = nn.Linear(width, out)

    def forward(self, points: Tensor, weights: Tensor) -> Tensor:
        """Encode a measure.

        Args:
            points: shape (…, n, dim), floating.
            weights: shape (…, n), ≥ 0, with a positive sum; 0 = absent.

        Returns:
            shape (…, n, out). Absent atoms get an output too; it influences nothing.
        """
        log_mass = log_weights(weights)
        state = self.enter(points)
        for block in self.blocks:
            state = block(state, log_mass)
        output: Tensor = self.leave(state)
        return output

    @torch.no_grad()
    def trace(self, points: Tensor, weights: Tensor) -> EncoderTrace:
        """Encode a measure and record the cloud and the attention of every layer."""
        log_mass = log_weights(weights)
        states = [self.enter(points)]
        attentions = []
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            attentions.append(block.attention_weights(states[-1], log_mass))
            states.append(block(states[-1], log_mass))
        return EncoderTrace(tuple(states), tuple(attentions), self.leave(states[-1]))
