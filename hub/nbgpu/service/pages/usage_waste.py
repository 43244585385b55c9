"""What was leased and did nothing: of whom, how much, and what it cost. Pure.

Of GPUs alone, whose work is sampled; what CPU servers cost is no part of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbgpu.core.prices import is_device_sku
from nbgpu.core.statement import Part, merge
from nbgpu.core.texts import Text

ORDERS: dict[str, tuple[Text, Callable[["WasteLine"], int]]] = {
    "idle_cost": (Text("Cost of idle time"), lambda line: line.idle_cost),
    "idle": (Text("Idle GPU-hours"), lambda line: line.idle_ms),
    "share": (Text("Idle share"), lambda line: line.idle_percent),
    "leased": (Text("Leased GPU-hours"), lambda line: line.leased_ms),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WasteLine:
    """The GPU time of one flavor, user or group, in one currency, as far as it was sampled."""

    key: str
    currency: str
    leased_ms: int
    busy_ms: int
    cost: int  # of the GPUs, micro-units

    @property
    def idle_ms(self) -> int:
        """How long GPUs were leased and did nothing; samples may be a little longer than the lease."""
        return max(0, self.leased_ms - self.busy_ms)

    @property
    def idle_percent(self) -> int:
        """The share of it."""
        return self.idle_ms * 100 // self.leased_ms if self.leased_ms else 0

    @property
    def idle_cost(self) -> int:
        """What that time cost, in micro-units."""
        return self.cost * self.idle_ms // self.leased_ms if self.leased_ms else 0


def build_waste(parts: Iterable[Part], order: str) -> Sequence[WasteLine]:
    """Return the lines of parts by something and SKU, what wastes most first; what nobody sampled is left out."""
    sampled = [each for each in parts if is_device_sku(each.key[1]) and each.amounts.busy_ms is not None]
    lines = [
        WasteLine(
            key=part.key[0],
            currency=part.currency,
            leased_ms=part.amounts.gpu_seconds * 1000,
            busy_ms=part.amounts.busy_ms or 0,
            cost=part.amounts.cost,
        )
        for part in merge(Part(each.key[:1], each.currency, each.amounts) for each in sampled)
        if part.amounts.gpu_seconds > 0
    ]
    rank = ORDERS[order][1]
    return sorted(lines, key=lambda line: (-rank(line), -line.leased_ms, line.key))
