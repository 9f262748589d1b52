"""Overlapping windows over texts that are longer than a model reads at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def window_starts(length: int, size: int) -> list[int]:
    """Return where windows of `size` tokens start, each overlapping the one before by half or more.

    The last one ends with the text, so that it has as much context as the others.

    >>> window_starts(5, 8), window_starts(20, 8)
    ([0], [0, 4, 8, 12])
    """
    if length <= size:
        return [0]
    step = max(1, size // 2)
    return [*range(0, length - size, step), length - size]


def most_central(length: int, size: int) -> NDArray[np.int64]:
    """Return for each token the window in which it is farthest from both ends, the earlier one on a tie.

    An end of the text is no cut: there, a window has all the context that there is. So a token's distance counts
    only to the ends that cut the text.

    >>> most_central(12, 8).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    starts = window_starts(length, size)
    tokens = np.arange(length)
    best = np.zeros(length, dtype=np.int64)
    record = np.full(length, -1)
    for index, start in enumerate(starts):
        end = min(start + size, length)
        left = tokens - start if start > 0 else np.full(length, length)
        right = end - 1 - tokens if end < length else np.full(length, length)
        distance = np.where((tokens >= start) & (tokens < end), np.minimum(left, right), -1)
        better = distance > record
        best[better] = index
        record[better] = distance[better]
    return best
