"""The last minutes as rows that user code can read, plot or log."""

from collections.abc import Iterable
from typing import Any

from nbgpu.core.errors import SetupError
from nbgpu.panel.frames import Frame, readings


class History(list[dict[str, Any]]):
    """A row for each device and second, oldest first: time, device, uuid, name, readings (None: not reported)."""

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises SetupError where pandas is not installed."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise SetupError(
                "The history was asked for as a DataFrame and pandas is not installed here: "
                "run `pip install pandas`, or use the history as the list of rows that it is."
            ) from error
        return pandas.DataFrame(list(self))


def history_of(frames: Iterable[Frame]) -> History:
    """Return the rows of these frames. Percent, bytes, °C, W and MHz."""
    return History(
        {
            "time": frame.taken_at,
            "device": number,
            "uuid": each.device.uuid,
            "name": each.device.name,
            **readings(each.sample),
        }
        for frame in frames
        for number, each in enumerate(frame.devices)
    )
