"""The ledger in the database: charges that are only ever added, in sealed batches.

A seal is a digest over a batch and the digest before it, written in the same transaction: a line that is changed, taken
out or put in later breaks the chain from there on, which `verify` finds. Only one transaction at a time adds lines.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from sqlalchemy import Engine, func, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nbgpu.core.ledger import Charge
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.schema import ChargeRow, SealRow
from nbgpu.store.work import freeze, retried, unit_of_work

_POSTING_LOCK = 7_206_149  # any number: PostgreSQL's advisory lock of whoever adds lines
_AT_ONCE = 500
FIELDS = tuple(field.name for field in fields(Charge))
_COLUMNS = ("id", *FIELDS, "recorded_at")
_values = attrgetter(*FIELDS)  # dataclasses.astuple copies deeply, which costs twenty times as much
_START = "0" * 64  # the digest before the first


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tamper check found."""

    charges: int
    seals: int
    head: str  # the newest digest: kept elsewhere, it proves later that nothing was cut off
    broken_from: int | None  # the first charge of the first batch that is not as it was posted


class SqlLedger:
    """Charges in a database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def post(self, charges: Iterable[Charge]) -> int:
        """Add those charges whose key is not there yet, in one transaction; return how many. Idempotent."""
        batch = list({charge.charge_key: charge for charge in charges}.values())
        if not batch:
            return 0
        try:
            with unit_of_work(self._engine) as db:
                return post_in(db, batch, to_seconds(self._clock()))
        except IntegrityError:  # some are there already, which is rare: only then is looked for them
            with unit_of_work(self._engine) as db:
                lock_ledger(db)
                return post_in(db, _without_known(db, batch), to_seconds(self._clock()))

    @retried
    def post_new(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Add those charges whose key is not there yet, in one transaction; return them. Idempotent."""
        batch = list({charge.charge_key: charge for charge in charges}.values())
        with unit_of_work(self._engine) as db:
            lock_ledger(db)
            new = tuple(_without_known(db, batch))
            post_in(db, new, to_seconds(self._clock()))
            return new

    @retried
    def find_new(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Return those whose key is not there yet."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_without_known(db, list(charges)))

    @retried
    def charges(self, *, session_id: str | None = None) -> tuple[Charge, ...]:
        """Return all charges, or those of a session, as they were posted."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(select_charges(db, None if session_id is None else [session_id]))

    @retried
    def charged_since(self, last_id: int) -> tuple[int, dict[str, int]]:
        """Return the newest charge's id, and the sums of those after `last_id`, in micro-units by flavor."""
        row = ChargeRow
        query = select(row.flavor, func.sum(row.billed_cost), func.max(row.id)).where(row.id > last_id)
        with unit_of_work(self._engine, reads_only=True) as db:
            found = db.execute(query.group_by(row.flavor)).all()
        newest = max((each[2] for each in found), default=last_id)
        return newest, {flavor: int(cost) for flavor, cost, _ in found}

    @retried
    def verify(self, *, head: str | None = None) -> Verdict:
        """Compute all seals anew. With `head`, the newest digest of an earlier check, that must be among them.

        Reads the table in one pass; memory does not grow with it. A head that is not found counts as broken from the
        first charge on.
        """
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            return _verify(db, head)


def post_in(db: Session, charges: Sequence[Charge], recorded_at: int) -> int:
    """Add charges within a transaction, with their seal; return how many. IntegrityError for a key that is there."""
    if not charges:
        return 0
    lock_ledger(db)
    last = db.execute(select(SealRow.id, SealRow.last_charge_id, SealRow.digest).order_by(SealRow.id.desc())).first()
    seal_id, last_id, digest = last or (0, 0, _START)
    rows = [(number, *_values(charge), recorded_at) for number, charge in enumerate(charges, start=last_id + 1)]
    db.connection().exec_driver_sql(_insert_statement(db), rows)
    db.execute(insert(SealRow).values(id=seal_id + 1, last_charge_id=rows[-1][0], digest=compute_digest(digest, rows)))
    return len(rows)


def select_charges(db: Session, session_ids: Iterable[str] | None = None, *, since: int = 0) -> Iterator[Charge]:
    """Yield all charges, or those of some sessions, each session's in the order of their posting.

    Only those that begin at `since` (seconds since 1970) or later.
    """
    query = select(*(getattr(ChargeRow, name) for name in FIELDS)).order_by(ChargeRow.id)
    if since:
        query = query.where(ChargeRow.charge_period_start >= since)
    if session_ids is None:
        yield from (Charge(*row) for row in db.execute(query))
        return
    for part in batches(session_ids):
        yield from (Charge(*row) for row in db.execute(query.where(ChargeRow.session_id.in_(part))))


def batches(items: Iterable[str]) -> Iterator[list[str]]:
    """Yield the items in lists that are short enough for one statement."""
    rest = iter(items)
    while part := list(islice(rest, _AT_ONCE)):
        yield part


def compute_digest(before: str, rows: Iterable[Sequence[Any]]) -> str:
    """Return the seal of a batch: over the digest before and each row's values, as Python writes them."""
    digest = hashlib.sha256(before.encode())
    for row in rows:
        digest.update(repr(tuple(row)).encode())
    return digest.hexdigest()


def lock_ledger(db: Session) -> None:
    """Let one transaction at a time add lines: ids have no gaps. SQLite has one writer anyhow."""
    if db.get_bind().dialect.name == "postgresql":
        db.execute(text(f"SELECT pg_advisory_xact_lock({_POSTING_LOCK})"))


def _insert_statement(db: Session) -> str:
    """Return the insert for the driver itself: the ORM's and Core's work on each row costs more than the row."""
    mark = "?" if db.get_bind().dialect.paramstyle == "qmark" else "%s"
    return f"INSERT INTO charges ({', '.join(_COLUMNS)}) VALUES ({', '.join([mark] * len(_COLUMNS))})"  # noqa: S608 - names of ours


def _without_known(db: Session, batch: Sequence[Charge]) -> list[Charge]:
    known: set[str] = set()
    for part in batches(charge.charge_key for charge in batch):
        known.update(db.scalars(select(ChargeRow.charge_key).where(ChargeRow.charge_key.in_(part))))
    return [charge for charge in batch if charge.charge_key not in known]


def _verify(db: Session, head: str | None) -> Verdict:
    columns = [getattr(ChargeRow, name) for name in _COLUMNS]
    rows = iter(db.execute(select(*columns).order_by(ChargeRow.id), execution_options={"yield_per": 1000}))
    count, digest, broken, seen_head = 0, _START, None, head in (None, _START)
    seals = db.execute(select(SealRow.last_charge_id, SealRow.digest).order_by(SealRow.id)).all()
    first = 1
    for last_id, sealed in seals:
        batch, rows = _take_until(rows, last_id)
        count += len(batch)
        digest = compute_digest(digest, batch)
        if digest != sealed and broken is None:
            broken = first
        digest = sealed  # go on from what is written, to count the rest
        first = last_id + 1
        seen_head = seen_head or sealed == head
    unsealed = sum(1 for _ in rows)
    if broken is None and unsealed:
        broken = first
    if broken is None and not seen_head:
        broken = 1
    return Verdict(count + unsealed, len(seals), digest, broken)


def _take_until(rows: Iterator[Any], last_id: int) -> tuple[list[Any], Iterator[Any]]:
    """Return the rows up to an id, and an iterator over the rest."""
    taken: list[Any] = []
    for row in rows:
        if row[0] > last_id:
            return taken, chain([row], rows)
        taken.append(row)
    return taken, iter(())
