"""What is asked for again and again is read from the database now and then only."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Kept(Generic[V]):
    value: V
    read_at: float
    asked_at: float


class Recent(Generic[K, V]):
    """Values that are about `age` seconds old at most; safe to use from many threads, of which one reads at a time.

    Whoever needs one read anew has all those read with it that are too old and were asked for lately: thousands that
    are asked for one by one are then one query. Meanwhile others get the values as they were, and only who asks for
    one that was never read waits. What nobody asks for is forgotten.
    """

    def __init__(self, age: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._age = age
        self._clock = clock
        self._kept: dict[K, _Kept[V]] = {}
        self._lock = threading.Lock()  # of what is kept
        self._reading = threading.Lock()

    def get(self, keys: Iterable[K], read: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return the values of keys; those that `read`, which may block, does not know are left out."""
        keys = list(keys)
        if self._wanted(keys):
            must_wait = any(key not in self._kept for key in keys)
            if self._reading.acquire(blocking=must_wait):
                try:
                    self._read(self._wanted(keys), read)  # somebody else may have read them meanwhile
                finally:
                    self._reading.release()
        return self._take(keys)

    def _take(self, keys: list[K]) -> dict[K, V]:
        with self._lock:
            now, found = self._clock(), {key: self._kept[key] for key in keys if key in self._kept}
            for kept in found.values():
                kept.asked_at = now
            return {key: kept.value for key, kept in found.items()}

    def _wanted(self, keys: list[K]) -> list[K]:
        with self._lock:
            now = self._clock()
            return [key for key in keys if key not in self._kept or now - self._kept[key].read_at >= self._age]

    def _read(self, wanted: list[K], read: Callable[[list[K]], Mapping[K, V]]) -> None:
        if not wanted:
            return
        with self._lock:
            now = self._clock()
            self._kept = {key: kept for key, kept in self._kept.items() if now - kept.asked_at < 3 * self._age}
            old = [key for key, kept in self._kept.items() if now - kept.read_at >= self._age]
        found = read(list(dict.fromkeys([*wanted, *old])))
        with self._lock:
            for key in wanted:
                self._kept.pop(key, None)  # also one that is not there any more
            for key, value in found.items():
                asked_at = self._kept[key].asked_at if key in self._kept else now
                self._kept[key] = _Kept(value, now, asked_at)
