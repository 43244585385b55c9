"""The pool, put together for one deployment: what pages show of the devices, and what they have done to them."""

from collections.abc import Collection

from nbgpu.core.devices import Device, Readings
from nbgpu.core.gpu_health import DeviceHealth, find_objection
from nbgpu.core.pool import Pool, find_holders
from nbgpu.core.texts import Text
from nbgpu.telemetry.device_keeper import DeviceKeeper
from nbgpu.telemetry.gpu_watch import GpuWatch
from nbgpu.telemetry.sampler import Sampler
from nbgpu.wiring.adapters import Adapters

CLEAN = 3  # readings in a row before a device goes back by hand


class ServicePool:
    """The service's `PoolBook`: driver and database, and the sampler that has looked at the devices already."""

    def __init__(self, adapters: Adapters, *, sampler: Sampler, watch: GpuWatch, keeper: DeviceKeeper) -> None:
        self._adapters = adapters
        self._sampler = sampler
        self._watch = watch
        self._keeper = keeper
        self._devices: tuple[Device, ...] = ()  # as the driver last showed them

    def look(self) -> Pool:
        """Return how the devices are; while the driver can't be asked those of before. Raises StoreError."""
        snapshot = self._adapters.inventory.snapshot()
        if snapshot.problem is None:
            self._devices = snapshot.devices
        readings = self._sampler.readings
        return Pool(
            devices=self._devices,
            problem=snapshot.problem,
            samples={each.device_uuid: each for each in readings.samples} if readings is not None else {},
            sampled_at=readings.taken_at if readings is not None else None,
            is_stale=self._sampler.stale,
            holders=find_holders(self._adapters.leases.open_leases()),
            held_back=self._adapters.quarantines.open(),
        )

    def cordon(self, uuid: str, *, by: str, reason: str) -> None:
        """Lease a device to nobody new. Raises DriverError, DeviceRefused; StoreError."""
        self._keeper.cordon(uuid, by=by, reason=reason)

    def give_back(self, uuid: str, *, by: str, reason: str) -> None:
        """Lease a device again. Raises DeviceRefused; StoreError."""

        def find(uuids: set[str]) -> object:
            readings = None if self._sampler.stale else self._sampler.readings
            return why_not_yet(readings, self._watch.marks(), uuids)

        self._keeper.give_back(uuid, by=by, find_objection=find, reason=reason)


def why_not_yet(readings: Readings | None, marks: dict[str, DeviceHealth], uuids: Collection[str]) -> object:
    """Return what speaks against leasing devices again; None: nothing. `readings` None: there are none of now."""
    if readings is None:
        return Text("The GPUs can't be read now. Try again when they can.")
    problem = find_objection(readings.samples, uuids)
    if problem is not None:
        return problem
    shown = {each.device_uuid for each in readings.samples} & set(uuids)
    if any(marks.get(uuid, DeviceHealth()).clean < CLEAN for uuid in shown):
        return Text("It has read well for a moment only. Try again in some seconds.")
    return None
