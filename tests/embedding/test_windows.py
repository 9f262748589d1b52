"""Windows cover a text, overlap, and give each token its best context."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkviz.embedding.windows import most_central, window_starts

LENGTH = st.integers(1, 400)
SIZE = st.integers(2, 64)


@given(LENGTH, SIZE)
def test_windows_cover_and_overlap(length: int, size: int) -> None:
    starts = window_starts(length, size)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert starts[-1] + size >= length
    if length > size:
        assert starts[-1] + size == length  # the last one is full
        assert all(0 < after - before <= max(1, size // 2) for before, after in itertools.pairwise(starts))
    else:
        assert starts == [0]


@settings(deadline=None)
@given(st.integers(1, 120), SIZE)
def test_each_token_is_taken_where_no_other_window_is_better(length: int, size: int) -> None:
    starts = window_starts(length, size)
    chosen = most_central(length, size)

    def room(token: int, start: int) -> float:
        end = min(start + size, length)
        if not start <= token < end:
            return -1.0
        left = np.inf if start == 0 else token - start
        right = np.inf if end == length else end - 1 - token
        return float(min(left, right))

    for token in range(length):
        rooms = [room(token, start) for start in starts]
        assert rooms[chosen[token]] == max(rooms)
        assert chosen[token] == rooms.index(max(rooms))


@given(st.integers(9, 400), st.integers(8, 64))
def test_no_token_stands_at_a_cut(length: int, size: int) -> None:
    starts = np.asarray(window_starts(length, size))[most_central(length, size)]
    tokens = np.arange(length)
    ends = np.minimum(starts + size, length)
    room = size // 4 - 1
    assert ((tokens - starts >= room) | (starts == 0)).all()
    assert ((ends - 1 - tokens >= room) | (ends == length)).all()


def test_short_texts_are_one_window() -> None:
    assert window_starts(254, 254) == [0]
    assert window_starts(255, 254) == [0, 1]
    assert most_central(3, 254).tolist() == [0, 0, 0]
