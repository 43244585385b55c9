"""A time limit around calls that can hang in the kernel, where no signal or exception reaches them."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from nbgpu.core.errors import DriverError

T = TypeVar("T")


class NoAnswer(DriverError):
    """A call ran past its limit, or an earlier one that did has not returned yet."""


class OneAtATime:
    """Runs one call at a time, each in a thread of its own that is given up on when it takes too long.

    At most one thread is ever stuck: until it returns, further calls fail at once. What a late call returns is
    dropped. The threads are daemons, so a stuck one does not hold up the end of the process.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._late: Future[object] | None = None

    @property
    def stuck(self) -> bool:
        """Whether a call that was given up on is still running."""
        return self._late is not None and not self._late.done()

    def call(self, read: Callable[[], T], *, limit_s: float) -> T:
        """Return or raise what `read` does. Raises NoAnswer after `limit_s` seconds, waiting for its turn included."""
        deadline = time.monotonic() + limit_s
        if self.stuck or not self._turn.acquire(timeout=limit_s):
            raise NoAnswer(_sentence(limit_s))
        try:
            if self.stuck:  # the one that was waited for got stuck
                raise NoAnswer(_sentence(limit_s))
            return self._run(read, deadline=deadline, limit_s=limit_s)
        finally:
            self._turn.release()

    def _run(self, read: Callable[[], T], *, deadline: float, limit_s: float) -> T:
        future: Future[T] = Future()
        threading.Thread(target=_fulfil, args=(future, read), name="nbgpu-nvml", daemon=True).start()
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            self._late = future  # type: ignore[assignment]  # only ever asked whether it is done
            raise NoAnswer(_sentence(limit_s)) from None


def _fulfil(future: Future[T], read: Callable[[], T]) -> None:
    """Run `read` and hand its outcome over, an error included: it belongs to the caller, not to this thread."""
    try:
        future.set_result(read())
    except BaseException as error:
        future.set_exception(error)


def _sentence(limit_s: float) -> str:
    return (
        f"The NVIDIA driver does not answer (nothing within {limit_s:g} s): "
        "restart this machine if this lasts; see `dmesg | grep -i nvrm`."
    )
