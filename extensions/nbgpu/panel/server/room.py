"""Who looks at a server's GPUs, and what they are given: each frame of the one sampler, and the session's state.

The sampler runs while somebody is here. Browsers get what the page draws, kernels whole frames.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from nbgpu.panel.codec import as_json, encode_frame
from nbgpu.panel.frames import Frame
from nbgpu.panel.sampler import Sampler
from nbgpu.panel.wire import past_to_wire, to_wire


class Looker(Protocol):
    """One who looks. `send` never raises and never waits; whoever is slow loses frames."""

    is_kernel: bool

    def send(self, text: str) -> None: ...


class Room:
    """All who look. For the server's own thread, but for the sampler's frames, which `in_loop` brings there."""

    def __init__(self, sampler: Sampler, in_loop: Callable[[Callable[[], None]], object]) -> None:
        self._sampler = sampler
        self._in_loop = in_loop
        self._lookers: list[Looker] = []
        self._leave: Callable[[], None] | None = None
        self._session: Mapping[str, Any] | None = None

    @property
    def count(self) -> int:
        """How many look."""
        return len(self._lookers)

    def enter(self, looker: Looker) -> None:
        """Give to `looker` from now on, and what was before."""
        for text in self._past(looker):
            looker.send(text)
        self._lookers.append(looker)
        if self._leave is None:
            self._leave = self._sampler.subscribe(self._bring)

    def leave(self, looker: Looker) -> None:
        """Give no more. Idempotent."""
        if looker in self._lookers:
            self._lookers.remove(looker)
        if not self._lookers and self._leave is not None:
            self._leave()
            self._leave = None

    def hurry(self) -> None:
        """Take the next frame now."""
        self._sampler.hurry()

    def tell(self, session: Mapping[str, Any]) -> None:
        """Tell everybody how the session is."""
        self._session = session
        self._send(lambda _is_kernel: _dump({"session": session}))

    def _bring(self, frame: Frame) -> None:
        """Bring a frame from the sampler's thread to ours."""
        self._in_loop(partial(self._show, frame))

    def _show(self, frame: Frame) -> None:
        self._send(lambda is_kernel: self._dump_frame(frame, is_kernel=is_kernel))

    def _send(self, write: Callable[[bool], str]) -> None:
        """Send to each what is written once for all of its kind."""
        texts = {kind: write(kind) for kind in {each.is_kernel for each in self._lookers}}
        for looker in tuple(self._lookers):
            looker.send(texts[looker.is_kernel])

    def _past(self, looker: Looker) -> list[str]:
        texts = [_dump({"session": self._session})]
        frames = self._sampler.history
        if looker.is_kernel:
            return texts + [_dump({"frame": encode_frame(frame), "past": True}) for frame in frames]
        texts.append(_dump({"past": past_to_wire(frames)}))
        return texts + ([self._dump_frame(frames[-1], is_kernel=False)] if frames else [])

    def _dump_frame(self, frame: Frame, *, is_kernel: bool) -> str:
        plain = encode_frame(frame) if is_kernel else to_wire(frame, interval_s=self._sampler.interval_s)
        return _dump({"frame": plain})


def _dump(message: Mapping[str, Any]) -> str:
    return json.dumps(message, default=as_json, separators=(",", ":"))
