"""One small cache for measures, shared by all sessions: they are immutable, so nobody can see another's edits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentlyUsed(Generic[Value]):
    """A thread-safe cache of what was used last, bounded by the total size of its values.

    Two threads that miss the same key compute it once: the second waits for the first. A computation that fails is
    not remembered.

    Example:
        >>> squares = RecentlyUsed(limit=2, size=lambda value: 1)
        >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0)
        (9, 9)
    """

    def __init__(self, limit: int, size: Callable[[Value], int]) -> None:
        self._limit = limit
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._busy: dict[Hashable, threading.Event] = {}

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of `key`, computing it where it is missing."""
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
                waiting = self._busy.get(key)
                if waiting is None:
                    mine = self._busy[key] = threading.Event()
                    break
            waiting.wait()
        try:
            value = compute()
            with self._lock:
                self._values[key] = value
                while len(self._values) > 1 and sum(map(self._size, self._values.values())) > self._limit:
                    self._values.popitem(last=False)
            return value
        finally:
            with self._lock:
                del self._busy[key]
            mine.set()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values
