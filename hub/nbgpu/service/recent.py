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
    """Values that are at most `age` seconds old; safe to use from many threads, of which one reads at a time.

    Where they are read `together`, whoever needs one read anew has all those read with it that are too old and were
    asked for lately: thousands that are asked for one by one are then one query. What nobody asks for is forgotten.
    """

    def __init__(self, age: float, *, together: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._age = age
        self._together = together
        self._clock = clock
        self._kept: dict[K, _Kept[V]] = {}
        self._lock = threading.Lock()

    def get(self, keys: Iterable[K], read: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return the values of keys; those that `read`, which may block, does not know are left out."""
        keys = list(keys)
        with self._lock:
            now = self._clock()
            wanted = [key for key in keys if not self._is_fresh(key, now)]
            if wanted:
                self._read(dict.fromkeys(wanted), read, now)
            for key in keys:
                if key in self._kept:
                    self._kept[key].asked_at = now
            return {key: self._kept[key].value for key in keys if key in self._kept}

    def _is_fresh(self, key: K, now: float) -> bool:
        return key in self._kept and now - self._kept[key].read_at < self._age

    def _read(self, wanted: dict[K, None], read: Callable[[list[K]], Mapping[K, V]], now: float) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if now - kept.asked_at < 2 * self._age}
        old = {key: None for key in self._kept if not self._is_fresh(key, now)} if self._together else {}
        found = read(list(wanted | old))
        for key in wanted:
            self._kept.pop(key, None)  # also one that is not there any more
        for key, value in found.items():
            asked_at = self._kept[key].asked_at if key in self._kept else now
            self._kept[key] = _Kept(value, now, asked_at)
