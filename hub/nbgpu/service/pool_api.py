"""The API of the pool: each GPU and MIG instance, who is on it, and taking it out of service and back."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from nbgpu.core.errors import DeviceRefused
from nbgpu.core.reasons import parse_reason
from nbgpu.service.books import Books
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import Body, May, Operation
from nbgpu.service.pages.pool_rows import DeviceRow, HolderRow, build_rows
from nbgpu.service.pool_answers import DeviceAnswer, HolderAnswer, PoolAnswer

LONGEST = 2000  # characters that are read of a reason; fewer are kept


class ReasonBody(Body):
    """Why; it is kept in the audit log."""

    reason: str = Field(min_length=1, max_length=LONGEST)


class PoolHandler(ApiHandler):
    """The devices."""

    caching = "private, no-cache"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Each GPU and MIG instance: what it reports, who is on it, and whether it is leased.",
            answer=PoolAnswer,
            may=May.OPERATE,
        )
    }

    async def get(self) -> None:
        """Answer with them."""
        self.answer(await asyncio.to_thread(read_pool, self.books))


class CordonHandler(ApiHandler):
    """Takes a device out of service."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Lease a device, and what is cut from it, to nobody new; who is on it goes on.",
            answer=DeviceAnswer,
            may=May.OPERATE,
            body=ReasonBody,
            refusals=(409,),
        )
    }

    async def post(self, uuid: str) -> None:
        """Do it and answer with the device."""
        self.answer(await asyncio.to_thread(self._cordon, uuid))

    def _cordon(self, uuid: str) -> DeviceAnswer:
        needed(self.books.pool).cordon(uuid, by=self.caller.name, reason=parse_reason(self.body.reason))
        return read_device(self.books, uuid)


class ReturnHandler(ApiHandler):
    """Gives a device back to the pool."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Lease a device again; it is read first.",
            answer=DeviceAnswer,
            may=May.OPERATE,
            body=ReasonBody,
            refusals=(409,),
        )
    }

    async def post(self, uuid: str) -> None:
        """Do it and answer with the device."""
        self.answer(await asyncio.to_thread(self._give_back, uuid))

    def _give_back(self, uuid: str) -> DeviceAnswer:
        needed(self.books.pool).give_back(uuid, by=self.caller.name, reason=parse_reason(self.body.reason))
        return read_device(self.books, uuid)


def read_pool(books: Books) -> PoolAnswer:
    """Return the pool as it is. May block. 503 while the service begins."""
    pool = needed(books.pool).look()
    return PoolAnswer(
        devices=[_build(row) for row in build_rows(pool, books.flavors)],
        problem=pool.problem,
        sampled_at=pool.sampled_at,
        is_stale=pool.is_stale,
    )


def read_device(books: Books, uuid: str) -> DeviceAnswer:
    """Return one device as it is. May block. Raises DeviceRefused: there is none (any more)."""
    for device in read_pool(books).devices:
        for each in (device, *device.instances):
            if each.uuid == uuid:
                return each
    raise DeviceRefused(f"This machine has no device {uuid[:96]} any more.")


def _build(row: DeviceRow) -> DeviceAnswer:
    return DeviceAnswer(
        uuid=row.uuid,
        name=row.name,
        index=row.index,
        state=row.state,
        why=str(row.why) if row.why is not None else None,
        held_back_since=row.since,
        holders=[_build_holder(holder) for holder in row.holders],
        slots=row.slots,
        utilization_percent=row.utilization,
        memory_used_bytes=row.memory_used,
        memory_total_bytes=row.memory_total,
        temperature_celsius=row.temperature,
        power_watts=row.power,
        power_limit_watts=row.power_limit,
        instances=[_build(part) for part in row.parts],
    )


def _build_holder(holder: HolderRow) -> HolderAnswer:
    return HolderAnswer(
        user=holder.server.username,
        server=holder.server.servername,
        flavor=holder.flavor,
        since=holder.since,
        is_lost=holder.is_lost,
    )


DEVICE = "(?P<uuid>[^/]+)"
POOL_HANDLERS: dict[str, type[ApiHandler]] = {
    "pool": PoolHandler,
    f"pool/{DEVICE}/cordon": CordonHandler,
    f"pool/{DEVICE}/return": ReturnHandler,
}
