"""The sampler of a process: its own, or that of the Jupyter server it belongs to, so that one thread asks the driver.

The server's extension (`nbgpu.panel.server`) gives frames to its kernels over a socket in a folder that only this
account may enter. It sends lines of JSON; a byte from here asks for a frame at once.
"""

import json
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from nbgpu.nvml import NvmlInventory
from nbgpu.panel.codec import decode_frame
from nbgpu.panel.collect import Collector
from nbgpu.panel.sampler import Sampler

SOCKET_VARIABLE = "NBGPU_PANEL_SOCKET"
SILENCE_S = 5.0  # after which the server's sampler is taken for gone
AGAIN_S = 10.0  # until it is asked again
_BAD = (OSError, ValueError, TypeError, KeyError)  # another version's lines may be different


class SharedSampler(Sampler):
    """Takes the server's frames; reads by itself while the server gives none."""

    def __init__(self, collector: Collector, path: str, **kwargs: Any) -> None:
        super().__init__(collector, **kwargs)
        self._path = path
        self._line: socket.socket | None = None

    def hurry(self) -> None:
        """Take the next frame now, not when it is due."""
        super().hurry()
        line = self._line
        if line is not None:
            with suppress(OSError):
                line.send(b"!")

    def _run(self) -> None:
        ask_at = time.monotonic()
        while self._goes_on():
            try:
                if time.monotonic() >= ask_at:
                    self._follow()
                    continue
            except _BAD:
                self.session = None
                ask_at = time.monotonic() + AGAIN_S
            self._try_tick()
            self._wake.wait(self.interval_s)

    def _follow(self) -> None:
        """Take frames until nobody listens. Raises one of `_BAD` when they don't come."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(SILENCE_S)
            line.connect(self._path)
            self._line = line
            try:
                with line.makefile("rb") as lines:
                    for each in lines:
                        self._take(json.loads(each))
                        if not self._listeners:
                            return
            finally:
                self._line = None
        raise ConnectionError("the server's sampler has gone")

    def _take(self, message: dict[str, Any]) -> None:
        if "session" in message:
            self.session = message["session"]
        if "frame" in message:
            frame = decode_frame(message["frame"])
            newest = self._frames[-1].taken_at if self._frames else None
            if message.get("past") and (newest is None or frame.taken_at > newest):
                self._frames.append(frame)  # from before we listened: it is no news
            elif not message.get("past"):
                self._publish(frame)


_making = threading.Lock()
_shared: list[Sampler] = []


def shared_sampler() -> Sampler:
    """Return the sampler of this process."""
    with _making:
        if not _shared:
            _shared.append(make_sampler(os.environ.get(SOCKET_VARIABLE, "")))
        return _shared[0]


def make_sampler(path: str) -> Sampler:
    """Return a sampler that takes the frames of the server whose socket is at `path`; empty: there is none."""
    collector = Collector(NvmlInventory(limit_s=1.0))
    return SharedSampler(collector, path) if path else Sampler(collector)
