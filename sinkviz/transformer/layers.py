"""Measure attention and its block: every key counts with its mass, every other step is pointwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def log_weights(weights: Tensor) -> Tensor:
    """Return log of the weights, −inf (an absent atom) where a weight is 0, with a zero gradient there.

    Args:
        weights: shape (…, n), ≥ 0.

    >>> log_weights(torch.tensor([1.0, 0.0])).tolist()
    [0.0, -inf]
    """
    present = weights > 0
    return torch.where(present, weights, 1.0).log().masked_fill(~present, -torch.inf)


def doubly_stochastic_shift(scores: Tensor, log_mass: Tensor, iterations: int) -> Tensor:
    """Return the column potential g of a self-coupling of a measure, in units of ε = 1.

    The row softmax of S_ij + g_j + log a_j, times a_i, is then the Sinkhorn iterate with marginals (a, a).

    Args:
        scores: S, shape (…, n, n).
        log_mass: log a, shape (…, n), broadcast over heads; −inf for absent atoms.
        iterations: pairs of updates, from g = 0; unrolled by autograd.

    Source: Sander et al., "Sinkformers", arXiv 2110.11773, section 3, with masses.
    """
    mass = log_mass.unsqueeze(-2)
    shift = torch.zeros_like(scores[..., 0, :])
    for _ in range(iterations):
        f = -torch.logsumexp(scores + shift.unsqueeze(-2) + mass, dim=-1)
        shift = -torch.logsumexp(scores + f.unsqueeze(-1) + mass.transpose(-1, -2), dim=-2)
    return shift


class MeasureAttention(nn.Module):
    """Attention of a point to a measure.

    Att(μ, x) = Σ_h W_h ∫ w_h(x, y) V_h y dμ(y) with w_h ∝ exp(⟨Q_h x, K_h y⟩ / √k), k = width / heads.
    On an empirical measure the mass enters as log a_j added to the scores; an atom of weight 0 is absent. Hence
    splitting an atom changes nothing, and the order of the atoms neither.

    Args:
        width: coordinates of a point.
        heads: number of heads; divides the width.
        sinkhorn_iterations: 0 = softmax; otherwise this many Sinkhorn pairs make the attention doubly stochastic
            against the measure (Sinkformer).

    Raises:
        ValueError: a width that the heads do not divide.

    Source: Furuya, de Hoop, Peyré, arXiv 2408.01367, section 2; Fraiman, arXiv 2603.25860, section 2.

    >>> attention = MeasureAttention(8, 2)
    >>> attention(torch.randn(3, 8), torch.tensor([0.5, 0.25, 0.25]).log()).shape
    torch.Size([3, 8])
    """

    def __init__(self, width: int, heads: int, sinkhorn_iterations: int = 0) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads: expected a divisor of the width {width}, got {heads}")
        self.heads = heads
        self.sinkhorn_iterations = sinkhorn_iterations
        self.project = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)

    def _parts(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count, width = points.shape[-2:]
        parts = self.project(points).reshape(*points.shape[:-2], count, 3, self.heads, width // self.heads)
        query, key, value = parts.movedim(-3, 0)
        return query.transpose(-2, -3), key.transpose(-2, -3), value.transpose(-2, -3)

    def _bias(self, query: Tensor, key: Tensor, log_mass: Tensor) -> Tensor:
        bias = log_mass.unsqueeze(-2)
        if self.sinkhorn_iterations:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            bias = bias + doubly_stochastic_shift(scores, bias, self.sinkhorn_iterations)
        return bias.unsqueeze(-2)

    def forward(self, points: Tensor, log_mass: Tensor) -> Tensor:
        """Return what each point receives.

        Args:
            points: shape (…, n, width).
            log_mass: shape (…, n), log of the weights as `log_weights` gives it.
        """
        query, key, value = self._parts(points)
        bias = self._bias(query, key, log_mass)
        received = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        mixed: Tensor = self.mix(received.transpose(-2, -3).flatten(-2))
        return mixed

    def weights(self, points: Tensor, log_mass: Tensor) -> Tensor:
        """Return the attention itself, shape (…, heads, n, n); rows sum to 1, masses included."""
        query, key, _ = self._parts(points)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights: Tensor = (scores + self._bias(query, key, log_mass)).softmax(dim=-1)
        return weights


class EncoderBlock(nn.Module):
    """One layer: x + Att(μ, x), then x + MLP(x), each on a layer-normalised point (pointwise, so mass-consistent)."""

    def __init__(self, width: int, heads: int, expansion: int, sinkhorn_iterations: int = 0) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = MeasureAttention(width, heads, sinkhorn_iterations)
        self.network_norm = nn.LayerNorm(width)
        self.network = nn.Sequential(
            nn.Linear(width, expansion * width), nn.GELU(), nn.Linear(expansion * width, width)
        )

    def forward(self, points: Tensor, log_mass: Tensor) -> Tensor:
        """Map points of shape (…, n, width) to the same shape."""
        points = points + self.attention(self.attention_norm(points), log_mass)
        changed: Tensor = points + self.network(self.network_norm(points))
        return changed

    def attention_weights(self, points: Tensor, log_mass: Tensor) -> Tensor:
        """Return the attention of this block on its input, shape (…, heads, n, n)."""
        return self.attention.weights(self.attention_norm(points), log_mass)
