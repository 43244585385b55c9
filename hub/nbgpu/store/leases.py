"""The lease store: places a claim and writes its lease in one transaction, so that no two can take one slot."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Boolean, Engine, and_, bindparam, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from nbgpu.core.authorize import Authorization, Cause, Policies
from nbgpu.core.devices import Device
from nbgpu.core.errors import NoCapacity, StoreError
from nbgpu.core.leases import REASON_LENGTH, Lease, LeaseState, ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.periods import to_seconds
from nbgpu.core.placement import Allocation, PoolState, Slot, allocate
from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.limits import authorize_new
from nbgpu.store.maintenance import read_maintenance
from nbgpu.store.policies import SqlPolicies, current_policies
from nbgpu.store.schema import LeaseRow, SessionRow
from nbgpu.store.work import retried, unit_of_work

_ALLOCATION_LOCK = 7_206_147  # any number: PostgreSQL's advisory lock that admits one allocation at a time
_NO_POLICIES = Policies()

# What each start and stop asks and writes, built once: building a statement costs as much as running it.
_SESSIONS, _LEASES = SessionRow.metadata.tables["sessions"], SessionRow.metadata.tables["leases"]
_OPEN_SESSION = (_SESSIONS.c.session_id == bindparam("id"), _SESSIONS.c.released_at.is_(None))
_ACTIVATE = (
    update(_SESSIONS)
    .where(*_OPEN_SESSION, _SESSIONS.c.state == LeaseState.PENDING)
    .values(state=LeaseState.ACTIVE, active_at=bindparam("started_at"))
)
# What was once found not to be billable stays so, whoever finishes its end.
_BILLABLE = and_(_SESSIONS.c.billable, bindparam("is_billable", type_=Boolean))
_NOTE_REASON = update(_SESSIONS).where(*_OPEN_SESSION).values(release_reason=bindparam("reason"))
_MARK_ENDING = update(_SESSIONS).where(*_OPEN_SESSION).values(state=LeaseState.ENDING, billable=_BILLABLE)
_RELEASE = (
    update(_SESSIONS)
    .where(*_OPEN_SESSION)
    .values(
        state=LeaseState.RELEASED,
        released_at=bindparam("now"),
        release_reason=func.coalesce(_SESSIONS.c.release_reason, bindparam("reason")),  # one that was noted is kept
        ended_at=bindparam("end"),
        billable=_BILLABLE,
    )
)
# A device that was dropped keeps the time at which it was.
_RELEASE_SLOTS = (
    update(_LEASES)
    .where(_LEASES.c.session_id == bindparam("id"), _LEASES.c.released_at.is_(None))
    .values(released_at=bindparam("now"))
)
_SESSION_OF_SERVER = select(_SESSIONS.c.session_id).where(
    _SESSIONS.c.username == bindparam("username"),
    _SESSIONS.c.servername == bindparam("servername"),
    _SESSIONS.c.released_at.is_(None),
)
_TAKEN = select(_LEASES.c.device_uuid, _LEASES.c.slot, _LEASES.c.slots).where(_LEASES.c.released_at.is_(None))
_NEW_SESSION, _NEW_SLOTS = insert(_SESSIONS), insert(_LEASES)


class SqlLeaseStore:
    """Leases in a database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now, policies: Policies | SqlPolicies = _NO_POLICIES) -> None:
        self._engine = engine
        self._clock = clock
        self._policies = policies

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    @retried
    def acquire(
        self,
        server: ServerRef,
        choice: Choice,
        image_id: str,
        devices: tuple[Device, ...],
        *,
        groups: Collection[str] = (),
    ) -> Lease:
        """Place `choice` on `devices` and write a PENDING lease; `groups` are those of the server's user.

        Raises UnderMaintenance, QuotaExceeded, BudgetExceeded, NoCapacity; StoreError.
        """
        try:
            with unit_of_work(self._engine) as db:
                if self._engine.dialect.name == "postgresql":
                    db.execute(text(f"SELECT pg_advisory_xact_lock({_ALLOCATION_LOCK})"))
                now = self._clock()
                _refuse_in_maintenance(db)
                policies = current_policies(db, self._policies)
                authorization = authorize_new(db, server, choice, groups, policies, to_seconds(now))
                allocation = _place(db, choice, devices)
                lease = _build_lease(server, choice, image_id, allocation, authorization, now)
                _write(db, lease, groups)
                return lease
        except IntegrityError as error:
            raise StoreError(f"{server} has a session that is not ended yet. Try again in a minute.") from error

    @retried
    def activate(self, session_id: str, started_at: datetime) -> None:
        """Mark the lease ACTIVE as of the container's own start time."""
        with unit_of_work(self._engine) as db:
            db.connection().execute(_ACTIVATE, {"id": session_id, "started_at": started_at})

    @retried
    def mark_ending(self, session_id: str, *, billable: bool = True) -> None:
        """Note that the end was asked for: whatever happens now, the session is not taken up again.

        A start that failed is not billable, also where its end is left to somebody else.
        """
        with unit_of_work(self._engine) as db:
            db.connection().execute(_MARK_ENDING, {"id": session_id, "is_billable": billable})

    @retried
    def note_reason(self, session_id: str, reason: str | None) -> None:
        """Note why a session is about to end, which says more than who ends it will; None takes the note back."""
        with unit_of_work(self._engine) as db:
            noted = reason[:REASON_LENGTH] if reason is not None else None
            db.connection().execute(_NOTE_REASON, {"id": session_id, "reason": noted})

    @retried
    def release(self, session_id: str, reason: str, ended_at: datetime | None = None, *, billable: bool = True) -> bool:
        """Give the devices back; False if they were already. Idempotent.

        `ended_at` is the container's own finish time, None where nobody knows it; a start that failed is not billable.
        """
        session = {"id": session_id, "now": self._clock()}
        end = {"reason": reason[:REASON_LENGTH], "end": ended_at, "is_billable": billable}
        with unit_of_work(self._engine) as db:
            connection = db.connection()
            ended = connection.execute(_RELEASE, session | end).rowcount == 1
            if ended:
                connection.execute(_RELEASE_SLOTS, session)
            return ended

    @retried
    def find_server(self, server: ServerRef) -> Lease | None:
        """Return a server's open lease."""
        with unit_of_work(self._engine, reads_only=True) as db:
            session_id = db.connection().scalar(_SESSION_OF_SERVER, asdict(server))
            return _find(db, session_id) if session_id is not None else None

    @retried
    def held_devices(self) -> frozenset[str]:
        """Return the UUIDs of all devices in open leases."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return frozenset(db.connection().scalars(_TAKEN))

    @retried
    def drop_device(self, session_id: str, device_uuid: str) -> bool:
        """Take a device that is gone out of a session's open lease, which goes on; False if it was not in it."""
        with unit_of_work(self._engine) as db:
            dropped = db.scalars(
                update(LeaseRow)
                .where(
                    LeaseRow.session_id == session_id,
                    LeaseRow.released_at.is_(None),
                    LeaseRow.device_uuid == device_uuid,
                )
                .values(released_at=self._clock())
                .returning(LeaseRow.session_id)
            ).all()
            return bool(dropped)

    @retried
    def open_leases(self) -> tuple[Lease, ...]:
        """Return all leases that are not released, oldest first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(
                select(SessionRow)
                .where(SessionRow.released_at.is_(None))
                .order_by(SessionRow.created_at, SessionRow.session_id)
                .options(selectinload(SessionRow.slots))
            ).all()
            return tuple(_to_lease(row) for row in rows)

    @retried
    def find_open(self, session_id: str) -> Lease | None:
        """Return the lease of a session if it is not released."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return _find(db, session_id)

    @retried
    def find(self, session_id: str) -> Lease | None:
        """Return the lease of a session, released or not; None where there is no such session."""
        with unit_of_work(self._engine, reads_only=True) as db:
            row = db.get(SessionRow, session_id, options=[selectinload(SessionRow.slots)])
            return _to_lease(row) if row is not None else None

    @retried
    def find_newest(self, server: ServerRef) -> Lease | None:
        """Return a server's newest lease, released or not; None when it never had one."""
        with unit_of_work(self._engine, reads_only=True) as db:
            row = db.scalars(
                select(SessionRow)
                .where(SessionRow.username == server.username, SessionRow.servername == server.servername)
                .order_by(SessionRow.created_at.desc())
                .limit(1)
                .options(selectinload(SessionRow.slots))
            ).first()
            return _to_lease(row) if row is not None else None


def _refuse_in_maintenance(db: Session) -> None:
    found = read_maintenance(db)
    if found is not None:
        raise found.refuse()


def _find(db: Session, session_id: str) -> Lease | None:
    """The lease of a session if it is not released."""
    row = db.get(SessionRow, session_id, options=[selectinload(SessionRow.slots)])
    return _to_lease(row) if row is not None and row.released_at is None else None


def _place(db: Session, choice: Choice, devices: tuple[Device, ...]) -> Allocation:
    """Grant the choice against the leases in this transaction. Raises NoCapacity without advice: the caller adds it."""
    flavor = choice.flavor
    if flavor.max_servers is not None:
        running = db.scalar(
            select(func.count())
            .select_from(SessionRow)
            .where(SessionRow.flavor == flavor.slug, SessionRow.released_at.is_(None))
        )
        if (running or 0) >= flavor.max_servers:
            raise NoCapacity(f"All {flavor.max_servers} servers of “{flavor.display_name}” are in use.")
    taken = db.connection().execute(_TAKEN)
    state = PoolState(devices, frozenset(Slot(*row) for row in taken))
    allocation = allocate(state, flavor.claim)
    if allocation is None:
        raise NoCapacity(f"No “{flavor.display_name}” is free now.")
    return allocation


def _build_lease(
    server: ServerRef,
    choice: Choice,
    image_id: str,
    allocation: Allocation,
    authorization: Authorization,
    now: datetime,
) -> Lease:
    return Lease(
        session_id=str(uuid4()),
        server=server,
        flavor=choice.flavor.slug,
        image=choice.image,
        image_id=image_id,
        price_per_hour=choice.flavor.price_per_hour,
        state=LeaseState.PENDING,
        allocation=allocation,
        created_at=now,
        time_limit=choice.flavor.time_limit,
        authorized=_span(authorization.seconds),
        authorized_by=authorization.cause,
        billing_group=authorization.billing_group,
        paid_by=authorization.pool,
    )


def _span(seconds: int | None) -> timedelta | None:
    return timedelta(seconds=seconds) if seconds is not None else None


def _seconds(span: timedelta | None) -> int | None:
    return int(span.total_seconds()) if span is not None else None


def _write(db: Session, lease: Lease, groups: Collection[str]) -> None:
    """Insert a new lease's rows: as plain statements, which cost a third of the ORM's unit of work."""
    connection = db.connection()
    connection.execute(
        _NEW_SESSION,
        {
            **asdict(lease.server),
            "session_id": lease.session_id,
            "flavor": lease.flavor,
            "image": lease.image,
            "image_id": lease.image_id,
            "price_per_hour": lease.price_per_hour,
            "state": lease.state,
            "created_at": lease.created_at,
            "user_groups": sorted(groups),
            "billing_group": lease.billing_group,
            "paid_by": lease.paid_by,
            "time_limit": _seconds(lease.time_limit),
            "authorized_seconds": _seconds(lease.authorized),
            "authorized_by": lease.authorized_by,
        },
    )
    if lease.allocation.slots:
        rows = [
            {"session_id": lease.session_id, "position": position, **asdict(slot)}
            for position, slot in enumerate(lease.allocation.slots)
        ]
        connection.execute(_NEW_SLOTS, rows)


def _to_lease(row: SessionRow) -> Lease:
    return Lease(
        session_id=row.session_id,
        server=ServerRef(row.username, row.servername),
        flavor=row.flavor,
        image=row.image,
        image_id=row.image_id,
        price_per_hour=row.price_per_hour,
        state=LeaseState(row.state),
        allocation=Allocation(tuple(_to_slot(slot) for slot in row.slots if _was_held_to_the_end(row, slot))),
        created_at=row.created_at,
        active_at=row.active_at,
        released_at=row.released_at,
        release_reason=row.release_reason,
        time_limit=_span(row.time_limit),
        authorized=_span(row.authorized_seconds),
        authorized_by=Cause(row.authorized_by) if row.authorized_by is not None else None,
        billing_group=row.billing_group,
        paid_by=row.paid_by,
        stop_at=row.stop_at,
        stop_cause=Cause(row.stop_cause) if row.stop_cause is not None else None,
        lost_devices=frozenset(slot.device_uuid for slot in row.slots if slot.lost_at is not None),
    )


def _to_slot(row: LeaseRow) -> Slot:
    return Slot(row.device_uuid, row.slot, row.slots)


def _was_held_to_the_end(session: SessionRow, slot: LeaseRow) -> bool:
    """Whether the slot is, or was at the session's end, the session's; a device that vanished meanwhile is not."""
    return slot.released_at is None or slot.released_at == session.released_at
