"""A small network that corrects the score of a pair of points by what stands around them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sinkviz.transformer.layers import log_weights

TEMPERATURE = 0.1
"""τ of the soft maximum, in units of the cosine."""

_PAIRS_AT_ONCE = 2**20


def soft_maximum(cosines: Tensor, weights: Tensor) -> Tensor:
    """Return τ log Σ_j w_j exp(cosines_ij / τ), shape (…, n, 1): how near the measure comes to each point.

    Up to its sign this is the soft c-transform of 0, the first half-step of Sinkhorn's iteration. A point of weight 0
    is absent.

    Args:
        cosines: shape (…, n, m). weights: shape (…, m).

    >>> soft_maximum(torch.tensor([[1.0, 0.0]]), torch.tensor([1.0, 0.0])).tolist()
    [[1.0]]
    """
    return TEMPERATURE * torch.logsumexp(
        cosines / TEMPERATURE + log_weights(weights).unsqueeze(-2), dim=-1, keepdim=True
    )


class Refinement(nn.Module):
    """R(x, y) = MLP(LayerNorm(φ(x, y))), 0 before training.

    φ(x, y) holds cos(x_a, y_b) for all |a|, |b| ≤ r, where x_a is the word a places after x and part of its point;
    how near ν comes to x, and μ to y (`soft_maximum`); and the learned score of the pair. So a word that stands between
    two linked words can be told from one that only looks alike.

    Args:
        neighbours: r ≥ 1.
        width: hidden coordinates.
        dropout: share of them set to 0 in training.
    """

    def __init__(self, neighbours: int, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        features = (2 * neighbours + 1) ** 2 + 3
        self.norm = nn.LayerNorm(features)
        self.enter = nn.Linear(features, width)
        self.drop = nn.Dropout(dropout)
        self.leave = nn.Linear(width, 1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)

    def forward(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor, own: Tensor, score: Tensor) -> Tensor:
        """Return R, shape (…, n, m).

        Args:
            x, y: points of length 1 with those of their neighbours, shapes (…, n, 2r + 1, d) and (…, m, 2r + 1, d).
            a, b: weights, shapes (…, n) and (…, m).
            own: cos(x, y), shape (…, n, m).
            score: learned score, shape (…, n, m).
        """
        row = soft_maximum(own, b)
        column = soft_maximum(own.transpose(-1, -2), a).transpose(-1, -2)
        # Many features for each pair: long texts take them some rows at a time.
        step = max(1, _PAIRS_AT_ONCE // max(1, score.numel() // score.shape[-2]))
        parts = [
            self._rows(
                x[..., at : at + step, :, :], y, row[..., at : at + step, :], column, score[..., at : at + step, :]
            )
            for at in range(0, score.shape[-2], step)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)

    def _rows(self, x: Tensor, y: Tensor, row: Tensor, column: Tensor, score: Tensor) -> Tensor:
        around = torch.einsum("...nad,...mbd->...nmab", x, y).flatten(-2)
        rest = torch.stack((row.expand_as(score), column.expand_as(score), score), dim=-1)
        hidden = nn.functional.gelu(self.enter(self.norm(torch.cat((around, rest), dim=-1))))
        corrected: Tensor = self.leave(self.drop(hidden))
        return corrected[..., 0]
