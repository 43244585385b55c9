"""`GpuPanel`: the widget. Its state is set from the sampler's thread, so it goes on while a cell runs."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from nbgpu.panel.frames import READINGS, Frame, readings
from nbgpu.panel.history import History, history_of
from nbgpu.panel.sampler import Sampler
from nbgpu.panel.shared import shared_sampler
from nbgpu.panel.wire import past_to_wire, to_wire

FIRST_READING_S = 1.5
_HERE = Path(__file__).parent


def _numbers(kind: type[traitlets.TraitType[Any, Any]], meaning: str) -> Any:
    """Return a trait that has one number for each device, None where it is not reported."""
    return traitlets.List(trait=kind(allow_none=True), read_only=True, help=meaning)


def _past(_value: object, panel: Any) -> dict[str, Any]:
    """Return the past as it is now: a page that asks for the state of the widget gets it whole."""
    return past_to_wire(panel._sampler.history)


class GpuPanel(anywidget.AnyWidget):
    """The GPUs of this session, live.

    The traits have one entry for each device, in the driver's order, and change once a second also while a cell runs.
    Observers are called in the sampler's thread.
    """

    _esm = _HERE / "panel.js"
    _css = _HERE / "panel.css"
    _frame = traitlets.Dict().tag(sync=True)
    _session: Any = traitlets.Dict(None, allow_none=True).tag(sync=True)
    _past = traitlets.Any().tag(sync=True, to_json=_past)

    names: Any = traitlets.List(read_only=True, help="names, None where the driver has none")
    uuids: Any = traitlets.List(read_only=True, help="UUIDs: what tells devices apart")
    gpu_utilization = _numbers(traitlets.Int, "percent of the last moment in which something ran")
    memory_used = _numbers(traitlets.Int, "bytes")
    memory_total = _numbers(traitlets.Int, "bytes")
    temperature = _numbers(traitlets.Int, "°C")
    power = _numbers(traitlets.Float, "W")
    power_limit = _numbers(traitlets.Float, "W")
    sm_clock = _numbers(traitlets.Int, "MHz")
    memory_clock = _numbers(traitlets.Int, "MHz")
    ecc_errors = _numbers(traitlets.Int, "corrected and uncorrected, since the driver was loaded")
    problem = traitlets.Unicode(None, allow_none=True, read_only=True, help="why there is no GPU to show")

    def __init__(self, *, sampler: Sampler | None = None, **kwargs: Any) -> None:
        self._sampler = sampler or shared_sampler()
        self._seen = False
        self._asleep = False
        super().__init__(**kwargs)
        self._view_count = 0  # the browser then keeps it: a panel that nobody sees any more sends nothing
        self.observe(self._follow_views, "_view_count")
        self.on_msg(self._wake)
        self._stop = self._sampler.subscribe(self._show)
        frame = self._sampler.latest(wait_s=FIRST_READING_S)
        if frame is not None:
            self._show(frame)

    @property
    def history(self) -> History:
        """The last five minutes, a row for each device and second."""
        return history_of(self._sampler.history)

    def close(self) -> None:
        """Take the panel off the page for good."""
        self._stop()
        super().close()

    def _show(self, frame: Frame) -> None:
        """Take a frame over, in the sampler's thread."""
        if not self._asleep:
            self._frame = to_wire(frame, interval_s=self._sampler.interval_s)
            if self._session != self._sampler.session:
                self._session = self._sampler.session
        rows = [readings(each.sample) for each in frame.devices]
        values: dict[str, Any] = {name: [row[name] for row in rows] for name in READINGS}
        values["uuids"] = [each.device.uuid for each in frame.devices]
        values["names"] = [each.device.name for each in frame.devices]
        values["problem"] = frame.problem
        for name, value in values.items():
            if getattr(self, name) != value:  # checking each number again is most of what a frame costs
                self.set_trait(name, value)

    def _follow_views(self, change: Any) -> None:
        self._asleep = self._seen and not change["new"]
        self._seen = self._seen or bool(change["new"])

    def _wake(self, *_message: object) -> None:
        """Send again: a page shows the panel though another one has closed it."""
        self._asleep = False
