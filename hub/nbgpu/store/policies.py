"""Quotas and budgets in the database, beside those of nbgpu.toml: each judgement reads them in its own transaction.

Hub, service and command are three processes. What holds is kept in memory with the table's revision, which each
transaction asks for: one look into an index, where most sites have nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from sqlalchemy import Engine, bindparam, func, select, text
from sqlalchemy.orm import Session

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.errors import ChangedMeanwhile, InvalidOptions, StoreError, UnknownPolicy
from nbgpu.core.policy_edits import NEW, PolicyChange, PolicyEntry, PolicyKind, describe_fields, merge
from nbgpu.core.ports import Clock
from nbgpu.core.quotas import QuotaPolicy
from nbgpu.core.texts import Text
from nbgpu.settings.edits import parse_fields
from nbgpu.settings.limits import BudgetSettings
from nbgpu.store.audit import audit_row
from nbgpu.store.clock import utc_now
from nbgpu.store.policy_schema import PolicyRow
from nbgpu.store.work import retried, unit_of_work

_EDITING_LOCK = 7_206_151  # any number: PostgreSQL's advisory lock of whoever changes policies
_TABLE = PolicyRow.metadata.tables["policies"]
_NEWEST = select(func.max(_TABLE.c.revision))
_CHANGED = select(_TABLE.c.id, _TABLE.c.kind, _TABLE.c.fields, _TABLE.c.revision).where(
    _TABLE.c.revision > bindparam("revision")
)
Policy = Budget | QuotaPolicy


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read last: the table's revision, what was set by its row's number, and what holds."""

    revision: int
    parsed: Mapping[int, Policy]
    policies: Policies


class SqlPolicies:
    """The quotas and budgets of one site; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, file: Policies, clock: Clock = utc_now) -> None:
        self.file = file
        self._engine = engine
        self._clock = clock
        self._cached = _Read(NEW, {}, file)

    def read(self, db: Session) -> Policies:
        """Return what holds as this transaction sees it."""
        cached, newest = self._cached, db.connection().scalar(_NEWEST) or NEW
        if newest == cached.revision:
            return cached.policies
        # A transaction that began before others may see less than them.
        base = cached if newest > cached.revision else _Read(NEW, {}, self.file)
        found, revision = dict(base.parsed), base.revision
        for number, kind, fields, changed in db.connection().execute(_CHANGED, {"revision": base.revision}):
            revision = max(revision, changed)
            found.pop(number, None)
            if fields is not None:
                found[number] = self._parse(PolicyKind(kind), fields)
        self._cached = read = _Read(revision, found, self._merge(found[each] for each in sorted(found)))
        return read.policies

    @retried
    def entries(self) -> tuple[PolicyEntry, ...]:
        """Return what was set, by kind and name."""
        query = select(PolicyRow).order_by(PolicyRow.kind, PolicyRow.name)
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_to_entry(row) for row in db.scalars(query) if row.fields is not None)

    @retried
    def newest(self) -> int:
        """Return the revision of the newest change, of whichever policy."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return db.scalar(_NEWEST) or NEW

    def build(self, entries: Iterable[PolicyEntry]) -> Policies:
        """Return what holds with these beside the file's. Raises StoreError where one makes no sense."""
        return self._merge(self._parse(each.kind, each.fields) for each in entries)

    def _parse(self, kind: PolicyKind, fields: Mapping[str, str]) -> Policy:
        try:
            found = parse_fields(kind, fields)
        except InvalidOptions as error:
            raise StoreError(f"A quota or budget of the database makes no sense to this nbgpu: {error}") from error
        return found.to_budget(self.file.zone) if isinstance(found, BudgetSettings) else found.to_policy()

    def _merge(self, policies: Iterable[Policy]) -> Policies:
        found = list(policies)
        quotas = [each for each in found if isinstance(each, QuotaPolicy)]
        return merge(self.file, quotas, [each for each in found if isinstance(each, Budget)])

    def change(self, changes: Sequence[PolicyChange], *, by: str, seen: int | None = None) -> int:
        """Do all of it or nothing, each with its row in the audit log; return how many differ from what was.

        `seen` is what `newest` was when somebody looked at what it does; None: nobody did. Raises ChangedMeanwhile
        where somebody else was faster, UnknownPolicy for what is not there to be removed.
        """
        with unit_of_work(self._engine) as db:
            if self._engine.dialect.name == "postgresql":
                db.execute(text(f"SELECT pg_advisory_xact_lock({_EDITING_LOCK})"))
            known = {(row.kind, row.name): row for row in db.scalars(select(PolicyRow))}
            newest = max((row.revision for row in known.values()), default=NEW)
            if seen is not None and seen != newest:
                raise ChangedMeanwhile(Text("Budgets or quotas were changed since you looked: look again."))
            revision = newest + 1
            now = self._clock()
            return sum(
                _change(db, known.get((each.kind, each.name)), each, (revision, by, now), self.file.zone)
                for each in changes
            )


def current_policies(db: Session, source: Policies | SqlPolicies) -> Policies:
    """Return what holds in a transaction."""
    return source if isinstance(source, Policies) else source.read(db)


def _change(
    db: Session, row: PolicyRow | None, change: PolicyChange, stamp: tuple[int, str, datetime], zone: tzinfo
) -> bool:
    """Do one change; False where it is so already."""
    revision, by, now = stamp
    before = row.fields if row is not None else None
    found = row.revision if row is not None and before is not None else NEW
    if change.expected is not None and change.expected != found:
        raise _explain_changed(row, change, zone)
    if before is None and change.fields is None:
        raise UnknownPolicy(Text("There is no “%(name)s” that could be removed: look again.", name=change.name))
    if before == change.fields:
        return False
    if row is None:
        row = PolicyRow(kind=change.kind, name=change.name)
        db.add(row)
    row.fields = dict(change.fields) if change.fields is not None else None
    row.revision, row.author, row.changed_at = revision, by[:255], now
    verb = "remove" if change.fields is None else "set"
    detail = f"{describe_fields(change.fields)} (before: {describe_fields(before)})"
    db.add(audit_row(now, actor=by, action=f"{change.kind}.{verb}", subject=change.name, detail=detail))
    return True


def _explain_changed(row: PolicyRow | None, change: PolicyChange, zone: tzinfo) -> ChangedMeanwhile:
    if row is None:
        return ChangedMeanwhile(Text("“%(name)s” is not there any more: look again.", name=change.name))
    return ChangedMeanwhile(
        Text(
            "“%(name)s” was changed meanwhile by %(who)s at %(time)s: look again.",
            name=change.name,
            who=row.author,
            time=row.changed_at.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z"),
        )
    )


def _to_entry(row: PolicyRow) -> PolicyEntry:
    return PolicyEntry(
        kind=PolicyKind(row.kind),
        name=row.name,
        fields=row.fields or {},
        revision=row.revision,
        author=row.author,
        changed_at=row.changed_at,
    )
