"""What a benchmark measures, and how it is told."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: ours against a yardstick of the same run, in `unit`; `goal` is on the ratio, else on ours."""

    name: str
    ours: float
    against: float | None
    unit: str
    goal: str

    @property
    def ratio(self) -> float | None:
        """Ours over the yardstick."""
        return self.ours / self.against if self.against else None

    def to_json(self) -> dict[str, Any]:
        """Return the figure as `make bench JSON=file` writes it."""
        return asdict(self) | {"ratio": self.ratio}

    def __str__(self) -> str:
        ratio = f"{self.ratio:.2f}x" if self.ratio is not None else "-"
        against = f"{self.against:.3f}" if self.against is not None else "-"
        return f"{self.name:<18} {self.ours:>9.3f} {self.unit:<9} against {against:>9}   {ratio:>7}   goal {self.goal}"


Benchmark = Callable[[], Iterator[Figure]]


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def percentile_95(values: Sequence[float]) -> float:
    """Return the value that 95 % do not exceed."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]
