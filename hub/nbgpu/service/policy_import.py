"""Many quotas, budgets or credits of one CSV file: all of them or none, and twice the same file does nothing twice."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Protocol

from nbgpu.core.errors import InvalidOptions, Refusal
from nbgpu.core.import_rows import ImportRow, Mistake, guard_cell, read_rows
from nbgpu.core.ledger import Charge, build_credit
from nbgpu.core.policy_edits import PolicyChange, PolicyKind
from nbgpu.core.reasons import parse_reason
from nbgpu.core.texts import Text
from nbgpu.core.units import parse_price, render_price
from nbgpu.service.csv_file import write_csv
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.settings.edits import FIELDS

CREDIT_FIELDS = ("user", "amount", "reason", "group", "key")
_NEEDED = {PolicyKind.BUDGET: ("name", "amount"), PolicyKind.QUOTA: ("name",)}
_LONGEST = 255  # characters of a name or key


class LedgerBook(Protocol):
    """The ledger. May block."""

    def find_new(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Return those whose key is not there yet."""

    def post_new(self, charges: Iterable[Charge]) -> tuple[Charge, ...]:
        """Add those whose key is not there yet, in one transaction; return them."""


class PeopleBook(Protocol):
    """Who there was. May block."""

    def find_unknown(self, usernames: Iterable[str]) -> frozenset[str]:
        """Return those of whom nothing is known."""


class AuditWriter(Protocol):
    """The audit log. May block."""

    def record(self, *, actor: str, action: str, subject: str, detail: str) -> None:
        """Add a row."""


@dataclass(frozen=True, slots=True)
class PolicyImport:
    """What a file of quotas or budgets asks for; with mistakes nothing of it is done."""

    changes: tuple[PolicyChange, ...]
    mistakes: tuple[Mistake, ...]


@dataclass(frozen=True, slots=True)
class CreditImport:
    """What a file of credits asks for: lines that are new, and how many were given before."""

    charges: tuple[Charge, ...]
    known: int
    mistakes: tuple[Mistake, ...]

    @property
    def total(self) -> int:
        """What is given in all, in micro-units."""
        return -sum(each.billed_cost for each in self.charges)


def read_policies(desk: PolicyDesk, kind: PolicyKind, text: str) -> PolicyImport:
    """Return a file's changes. Raises InvalidOptions where it is no such file at all."""
    rows, mistakes = read_rows(text, FIELDS[kind], needed=_NEEDED[kind])
    changes: dict[str, PolicyChange] = {}
    lines: dict[str, int] = {}
    for row in rows:
        try:
            change = desk.draft(kind, row.fields)
        except Refusal as refusal:
            mistakes.append(Mistake(row.line, refusal.text))
            continue
        _check_single(row, change.name, lines, mistakes)
        changes[change.name] = change
    return PolicyImport(tuple(changes.values()), _in_order(mistakes))


def write_policies(desk: PolicyDesk, kind: PolicyKind) -> IO[bytes]:
    """Return what was set as a file that `read_policies` takes, open at its start; nbgpu.toml's is not in it."""
    fields = FIELDS[kind]
    rows = (
        [guard_cell(each.fields.get(key, "")) for key in fields] for each in desk.entries(kind) if not each.is_fixed
    )
    return write_csv(fields, rows)


class CreditDesk:
    """Credits by the file. All may block."""

    def __init__(
        self,
        ledger: LedgerBook,
        people: PeopleBook,
        audit: AuditWriter,
        *,
        currency: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._ledger = ledger
        self._people = people
        self._audit = audit
        self._clock = clock
        self.currency = currency

    def read(self, text: str, *, by: str, with_unknown: bool = False) -> CreditImport:
        """Return a file's credits; who never had a server is a mistake unless `with_unknown`. Raises InvalidOptions."""
        rows, mistakes = read_rows(text, CREDIT_FIELDS, needed=("user", "amount", "reason"))
        at = int(self._clock().timestamp())
        charges: dict[str, Charge] = {}
        lines: dict[str, int] = {}
        users: dict[str, int] = {}
        for row in rows:
            try:
                charge = _read_credit(row, currency=self.currency, at=at, by=by)
            except Refusal as refusal:
                mistakes.append(Mistake(row.line, refusal.text))
                continue
            _check_single(row, charge.charge_key, lines, mistakes)
            charges[charge.charge_key] = charge
            users.setdefault(charge.username, row.line)
        if not with_unknown:
            for name in self._people.find_unknown(users):
                text_of = Text("Nobody of the name “%(name)s” has ever had a server: a typing error?", name=name[:80])
                mistakes.append(Mistake(users[name], text_of))
        new = self._ledger.find_new(charges.values())
        return CreditImport(new, len(charges) - len(new), _in_order(mistakes))

    def give(self, found: CreditImport, *, by: str) -> CreditImport:
        """Post them, in one transaction; return what was given: somebody else may have been faster."""
        new = self._ledger.post_new(found.charges)
        given = CreditImport(new, found.known + len(found.charges) - len(new), ())
        if new:
            total, people = render_price(given.total), len({each.username for each in new})
            detail = f"{len(new)} credits of {total} {self.currency} in all to {people} people, of a file"
            self._audit.record(actor=by, action="ledger.import", subject="credits", detail=detail)
        return given


def explain_mistakes(mistakes: Sequence[Mistake]) -> str:
    """Return what is wrong with a file in a few lines, for who reads no page."""
    shown = [f"line {each.line}: {each.text}" for each in mistakes[:20]]
    more = [f"and {len(mistakes) - 20} more."] if len(mistakes) > 20 else []
    return "\n".join(["Nothing is done: these lines are wrong.", *shown, *more])


def _read_credit(row: ImportRow, *, currency: str, at: int, by: str) -> Charge:
    user, group, reason, own = (row.fields.get(key, "") for key in ("user", "group", "reason", "key"))
    amount = row.fields.get("amount", "")
    for name, text in (("user", user), ("group", group), ("key", own)):  # cut off, a key would be another's
        if len(text) > _LONGEST or not text.isprintable():
            raise InvalidOptions(Text("%(name)s: at most 255 characters, all of which can be printed.", name=name))
    if not user:
        raise InvalidOptions(Text("user: is missing."))
    try:
        micro = parse_price(amount)
    except ValueError as error:
        raise InvalidOptions(
            Text("The amount “%(amount)s” is not %(allowed)s.", amount=amount[:40], allowed=str(error))
        ) from None
    if not micro:
        raise InvalidOptions(Text("The amount is 0: nothing is given."))
    said = parse_reason(reason)
    key = own or "|".join((user, str(micro), said, group))
    digest = hashlib.sha256(f"{user}|{key}".encode()).hexdigest()[:40]
    return build_credit(
        key=f"import|{digest}",
        username=user,
        amount=micro,
        currency=currency,
        at=at,
        author=by,
        reason=said,
        billing_group=group,
    )


def _check_single(row: ImportRow, key: str, lines: dict[str, int], mistakes: list[Mistake]) -> None:
    before = lines.setdefault(key, row.line)
    if before != row.line:
        mistakes.append(Mistake(row.line, Text("It is the same as line %(line)s.", line=before)))


def _in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    return tuple(sorted(mistakes, key=lambda each: each.line))
