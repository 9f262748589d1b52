"""Attention weights of a model of your own: how far are they from a coupling?

The model here is the bundled MiniLM; any array of attention weights does, rows summing to 1.

    python examples/attention_of_your_model.py
"""

from __future__ import annotations

import numpy as np

from sinkviz.embedding import attention_projections
from sinkviz.own import coupling_from_attention
from sinkviz.pipeline import couple_cost

TEXT = "The river is wide, but the old man swam across it."


def attention_weights() -> tuple[np.ndarray, list[str]]:
    """Return the self-attention of every head in layer 3, shape (heads, n, n), and the tokens."""
    inside = attention_projections(TEXT, layer=3)
    scores = np.einsum("hid,hjd->hij", inside.query, inside.key) * inside.scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True), inside.measure.labels


def main() -> None:
    """Compare each head with the Sinkhorn coupling of its own scores."""
    weights, labels = attention_weights()
    print("head  off balance  most crowded token")
    for head in range(len(weights)):
        attention = coupling_from_attention(weights, head=head, source_labels=labels, target_labels=labels)
        crowded = int(attention.received.argmax())
        print(f"{head:>4}  {100 * attention.received_distance:>9.0f} %  {labels[crowded]}")
    balanced = couple_cost(attention.cost, attention.source, attention.target, epsilon=1, epsilon_unit="absolute")
    print(f"the last head's scores, coupled: {100 * balanced.received_distance:.0f} % off, {balanced.status}")


if __name__ == "__main__":
    main()
