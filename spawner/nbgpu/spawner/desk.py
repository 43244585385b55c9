"""The admission desk: every start, whatever its way in, is judged and given its lease here.

Engine-neutral and synchronous: each method may ask the driver, the database or the engine, so callers use a thread.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from nbgpu.core.board import Board
from nbgpu.core.devices import Device
from nbgpu.core.errors import EngineError, ImageMissing, InvalidOptions, NoCapacity, NotAllowed
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.homes import OnDelete
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import IMAGE_KEY, Choice, Menu, parse_options
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import AuditLog, Homes, Inventory, LeaseStore
from nbgpu.core.prices import PriceSheet, price_flavor
from nbgpu.core.texts import Text
from nbgpu.spawner.cards import Card, ImageView, build_card
from nbgpu.spawner.device_access import DeviceAccess, DeviceGrant
from nbgpu.spawner.idling import Idling
from nbgpu.spawner.purse import Meter, Purse, build_meters
from nbgpu.spawner.sessions import SessionView, build_session_view
from nbgpu.spawner.stock import explain_shortage
from nbgpu.spawner.turnstile import Turnstile


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuView:
    """All that the spawn page shows."""

    cards: tuple[Card, ...]
    images: tuple[ImageView, ...]
    selected: Choice
    simulated: bool


class ImageShelf(Protocol):
    """The catalogue's images and which of them are on this machine."""

    def find_id(self, slug: str) -> str | None:
        """Return the engine's immutable id of an image, None when it is not built. Raises EngineUnavailable."""

    def remedy(self, slug: str) -> Text:
        """Return the sentence that says how an image that is not built can be had."""

    def views(self) -> tuple[ImageView, ...]:
        """Return all images as people read them. Raises EngineUnavailable."""


class Notices(Protocol):
    """What every page tells everybody."""

    def read(self) -> Board:
        """Return what holds now. Raises StoreError."""


class Prices(Protocol):
    """The price sheets."""

    def sheet(self) -> PriceSheet:
        """Return all prices. Raises StoreError."""


class Desk:
    """Judges options, hands out leases, tells what is free."""

    def __init__(
        self,
        *,
        menu: Menu,
        leases: LeaseStore,
        homes: Homes,
        audit: AuditLog,
        inventory: Inventory,
        access: DeviceAccess,
        images: ImageShelf,
        currency: str,
        turnstile: Turnstile,
        purse: Purse | None = None,
        idling: Idling | None = None,
        board: Notices | None = None,
        prices: Prices | None = None,
        on_delete: OnDelete = OnDelete.ARCHIVE,
        on_doubt: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Take the parts; `on_doubt` is told of sessions whose end is not certain."""
        self.menu = menu
        self._leases = leases
        self._homes = homes
        self._audit = audit
        self._on_delete = on_delete
        self._inventory = inventory
        self._access = access
        self._images = images
        self._currency = currency
        self._purse = purse
        self._idling = idling
        self._board = board
        self._prices = prices
        self.turnstile = turnstile
        self.doubt = on_doubt

    def board(self) -> Board:
        """Return what every page tells everybody. Raises StoreError."""
        return self._board.read() if self._board is not None else Board()

    def admit(self, options: object, groups: frozenset[str]) -> Choice:
        """Return what `options` (anything) asks for. Raises InvalidOptions, NotAllowed or ImageMissing."""
        choice = self.menu.choose(options, groups)
        if not parse_options(options).get(IMAGE_KEY):
            built = next((slug for slug in choice.flavor.images if self._images.find_id(slug)), choice.image)
            choice = Choice(choice.flavor, built)
        self.image_id(choice.image)
        return choice

    def image_id(self, slug: str) -> str:
        """Return the engine's immutable id of a catalogue image. Raises ImageMissing."""
        image_id = self._images.find_id(slug)
        if image_id is None:
            raise ImageMissing(
                Text(
                    "The image “%(image)s” is not on this machine. Take another one. %(remedy)s",
                    image=slug,
                    remedy=self._images.remedy(slug),
                )
            )
        return image_id

    def acquire(self, server: ServerRef, choice: Choice, groups: frozenset[str]) -> Lease:
        """Give the server its devices. Raises NoCapacity, with what is free instead, and ImageMissing."""
        needs_devices = choice.flavor.kind is not FlavorKind.CPU
        devices = self._inventory.snapshot().devices if needs_devices else ()
        image_id = self.image_id(choice.image)
        choice = replace(choice, flavor=price_flavor(choice.flavor, self._sheet(), to_seconds(datetime.now(UTC))))
        try:
            return self._leases.acquire(server, choice, image_id, devices, groups=groups)
        except NoCapacity:
            eligible, inventory = self.menu.eligible(groups), self._inventory.snapshot()
            raise NoCapacity(explain_shortage(choice.flavor, eligible, inventory, self._leases.open_leases())) from None

    def grant(self, lease: Lease) -> DeviceGrant:
        """Return what lets the lease's devices, and no other, into its container. Raises EngineError."""
        try:
            return self._access.grant(lease.allocation.device_uuids)
        except KeyError as error:
            raise EngineError(
                f"The device {error.args[0]} is gone from the machine. Start again to get another one."
            ) from error

    def devices(self, lease: Lease) -> tuple[Device, ...]:
        """Return the lease's devices that the driver still has."""
        if not lease.allocation.slots:
            return ()
        known = self._inventory.snapshot().by_uuid
        return tuple(known[uuid] for uuid in lease.allocation.device_uuids if uuid in known)

    def find_open(self, server: ServerRef) -> Lease | None:
        """Return the lease that an earlier life of the server still has."""
        return self._leases.find_server(server)

    def home_volume(self, username: str, proposed: str) -> str:
        """Return the name of the user's home volume: as it was first named, else as proposed."""
        return self._homes.ensure(username, proposed)

    def retire_home(self, username: str) -> tuple[str, OnDelete] | None:
        """Do with a deleted user's home what the site has decided; return its volume, if it has one, and what."""
        if self._on_delete is OnDelete.KEEP:
            return None
        volume = self._homes.archive(username)
        if volume is None:
            return None
        self._audit.record(actor="hub", action=f"home.{self._on_delete}", subject=username, detail=volume)
        return volume, self._on_delete

    def pass_over_home(self, username: str) -> None:
        """Note that the user's home is an earlier person's: the next one asked for is another."""
        volume = self._homes.archive(username)
        if volume is not None:
            self._audit.record(actor="hub", action="home.passed_over", subject=username, detail=volume)

    def activate(self, session_id: str, started_at: datetime) -> None:
        """Note that the lease's container runs since `started_at`."""
        self._leases.activate(session_id, started_at)

    def mark_ending(self, session_id: str, *, billable: bool = True) -> None:
        """Note that the end was asked for: a stop that is broken off is then finished, not taken up again."""
        self._leases.mark_ending(session_id, billable=billable)

    def release(self, session_id: str, reason: str, ended_at: datetime | None = None, *, billable: bool = True) -> bool:
        """Give the devices back; False if they were already.

        `ended_at` is the engine's word where it has one; a server that never became ready is not billable.
        """
        return self._leases.release(session_id, reason, ended_at, billable=billable)

    def view(self, groups: frozenset[str], last_options: object, *, username: str = "") -> MenuView:
        """Return the menu as it is now for a person. Raises NotAllowed when no flavor is open to them."""
        inventory, leases = self._inventory.snapshot(), self._leases.open_leases()
        time_limits = {flavor.slug: flavor.time_limit for flavor in self.menu.flavors}
        sheet, now = self._sheet(), to_seconds(datetime.now(UTC))
        return MenuView(
            cards=tuple(
                build_card(
                    price_flavor(flavor, sheet, now),
                    inventory,
                    leases,
                    currency=self._currency,
                    time_limits=time_limits,
                    idle=self._idling.rule(username, groups, flavor) if self._idling is not None else None,
                )
                for flavor in self.menu.eligible(groups)
            ),
            images=self._images.views(),
            selected=self._preselect(groups, last_options),
            simulated=inventory.simulated,
        )

    def sessions(self, username: str, servernames: Iterable[str]) -> dict[str, SessionView]:
        """Return the newest session of each of a user's servers that has had one: the running or the last one."""
        newest = {name: self._leases.find_newest(ServerRef(username, name)) for name in servernames}
        found = {name: lease for name, lease in newest.items() if lease is not None}
        devices = self._inventory.snapshot().by_uuid
        running = [each.session_id for each in found.values() if each.released_at is None]
        costs = self._purse.costs(running) if self._purse is not None and running else {}
        idle = self._idling.views(username, found.values()) if self._idling is not None and found else {}
        sheet, now = self._sheet() if running else PriceSheet(()), to_seconds(datetime.now(UTC))
        return {
            name: build_session_view(
                lease,
                self.menu.get(lease.flavor),
                devices,
                self._currency,
                cost=costs.get(lease.session_id),
                price=sheet.hourly(lease.flavor, len(lease.allocation.slots), now) if not lease.released_at else None,
                idle=idle.get(lease.session_id),
                zone=self._idling.zone if self._idling is not None else UTC,
            )
            for name, lease in found.items()
        }

    def meters(self, username: str, groups: Iterable[str]) -> tuple[Meter, ...]:
        """Return what a person may still spend and use. Raises StoreError."""
        if self._purse is None:
            return ()
        groups = tuple(groups)
        accounts, quotas = self._purse.accounts(username, groups), self._purse.quotas(username, groups)
        return build_meters(accounts, quotas, self._currency, datetime.now(UTC))

    def _sheet(self) -> PriceSheet:
        return self._prices.sheet() if self._prices is not None else PriceSheet(())

    def _preselect(self, groups: frozenset[str], last_options: object) -> Choice:
        """The last choice where it can still be had, else the default."""
        for options in (last_options, {}):
            try:
                return self.admit(options, groups)
            except (InvalidOptions, NotAllowed, ImageMissing):
                continue
        return self.menu.choose({}, groups)
