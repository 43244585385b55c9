"""The newest answer to a question that may hang: it is waited for shortly, and counts when it comes."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from nbgpu.core.errors import StoreError

T = TypeVar("T")


class Latest(Generic[T]):
    """Asks in a thread of its own, one question at a time; for one caller at a time."""

    def __init__(self, ask: Callable[[], T], first: T, *, wait: float) -> None:
        """Take the question (it may raise StoreError), what stands for an answer before there is one, and seconds."""
        self._ask = ask
        self._answer = first
        self._wait = wait
        self._asked: threading.Thread | None = None

    def get(self) -> T:
        """Return the answer; an earlier one while the database hangs or is away."""
        if self._asked is None or not self._asked.is_alive():
            self._asked = threading.Thread(target=self._learn, name="nbgpu-ask", daemon=True)
            self._asked.start()
        self._asked.join(self._wait)
        return self._answer

    def _learn(self) -> None:
        try:
            self._answer = self._ask()
        except StoreError:
            return  # the loops that write say so
