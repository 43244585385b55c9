"""What a session costs: from its facts to the lines of the ledger. Pure.

A charge is leased time, from container facts; samples have no say in it. The rule, from the first second to the bill:

- A container's start and finish are cut to the whole second; what lies between is charged, each second once.
- Each resource of a session (its host, each device) is a line of its own, cut at every full hour of UTC and wherever
  the price changes.
- Cost is unit price x seconds / 3600, summed exactly from the session's start and rounded once, half to even, to the
  micro-unit; a line's cost is the difference of that sum at its two ends. So the lines add up to the whole.

What should be in the ledger is a function of the facts, so metering again changes nothing. Where late facts change what
was posted, the difference is a line of its own, a correction; no line is ever altered.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from nbgpu.core.periods import HOUR, Period
from nbgpu.core.prices import PriceSheet, device_sku, host_sku

METER = "meter"  # the author of what is posted by itself


class ChargeCategory(StrEnum):
    """FOCUS's categories, as far as they occur here."""

    USAGE = "Usage"
    CREDIT = "Credit"
    ADJUSTMENT = "Adjustment"


CORRECTION = "Correction"  # FOCUS's charge class of a line that mends an earlier one


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that a session holds, or held: `until` (seconds since 1970) where that ended before the session."""

    device_uuid: str
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """All that a session's charges depend on. Instants are seconds since 1970, by the clock at the session's start."""

    session_id: str
    username: str
    flavor: str
    started_at: int | None  # the container's own start; None where it never ran
    ended_at: int | None = None  # the container's own finish; None while it runs or where nobody knows
    seen_at: int | None = None  # when it was last seen running
    released: bool = False  # it is over
    billable: bool = True
    tariff: str = "on-demand"
    billing_group: str = ""
    clock_shift: int = 0  # s between the wall clock now and the one at the session's start
    holdings: tuple[Holding, ...] = ()
    posted_until: int | None = None  # the full hour up to which all that is due is in the ledger; None where unknown

    @property
    def estimated(self) -> bool:
        """Whether the end that is charged was not seen by anybody."""
        return self.released and self.billable and self.started_at is not None and self.ended_at is None

    def charged(self, now: int | None = None) -> Period:
        """Return the time to be charged: of a running session up to `now`, or without it to when it was last seen."""
        start = self.started_at
        if start is None or not self.billable:
            return Period(0, 0)
        end = self.ended_at
        if end is None:
            end = self.seen_at if self.released or now is None else now + self.clock_shift
        return Period(start, max(start, end if end is not None else start))

    @property
    def past_hours_end(self) -> int:
        """The full hour up to which all is certain, while the session goes on."""
        return _full_hour(self.charged().end)

    @property
    def unsure_from(self) -> int:
        """The full hour from which on the ledger may differ from these facts: an end that came late lies before."""
        if self.posted_until is None:
            return 0
        ends = [holding.until for holding in self.holdings if holding.until is not None]
        return min(self.posted_until, self.past_hours_end, *map(_full_hour, ends))


@dataclass(frozen=True, slots=True)
class Charge:
    """A line of the ledger; money in micro-units, instants in seconds since 1970."""

    charge_key: str
    session_id: str
    username: str
    billing_group: str
    flavor: str
    sku_id: str
    resource_id: str  # device UUID; "" is the server itself
    charge_category: str
    charge_period_start: int
    charge_period_end: int
    consumed_seconds: int
    consumed_unit: str
    list_unit_price: int
    billed_cost: int
    billing_currency: str
    charge_class: str = ""
    estimated: bool = False
    author: str = METER
    reason: str = ""

    @property
    def metered(self) -> bool:
        """Whether it follows from a session's facts: not by its author, who may be a person of that name."""
        return self.charge_category == ChargeCategory.USAGE and self.charge_key.startswith(f"{self.session_id}|")


def build_credit(
    *,
    key: str,
    username: str,
    amount: int,
    currency: str,
    at: int,
    author: str,
    reason: str,
    billing_group: str = "",
    session_id: str = "",
    flavor: str = "",
) -> Charge:
    """Return a line that gives money back (`amount` in micro-units, above 0), or takes more (below 0), by hand."""
    category = ChargeCategory.CREDIT if amount > 0 else ChargeCategory.ADJUSTMENT
    return Charge(
        charge_key=f"{category.value.lower()}|{key}",
        session_id=session_id,
        username=username,
        billing_group=billing_group,
        flavor=flavor,
        sku_id="",
        resource_id="",
        charge_category=category.value,
        charge_period_start=at,
        charge_period_end=at,
        consumed_seconds=0,
        consumed_unit="",
        list_unit_price=0,
        billed_cost=-amount,
        billing_currency=currency,
        author=author,
        reason=reason,
    )


def rate(facts: SessionFacts, sheet: PriceSheet, now: int | None = None, *, since: int = 0) -> tuple[Charge, ...]:
    """Return the charges of a session as far as its facts go; of a running one up to `now`.

    Only those that begin at `since`, a full hour, or later; they are the same as when all are rated.
    """
    whole = facts.charged(now)
    lines = list(_rate_line(facts, sheet, host_sku(facts.flavor, facts.tariff), "", whole, since))
    for holding in facts.holdings:
        held = whole if holding.until is None else whole.clip(Period(whole.start, holding.until))
        sku = device_sku(facts.flavor, facts.tariff)
        lines += _rate_line(facts, sheet, sku, holding.device_uuid, held, since)
    return tuple(lines)


def due(charges: Iterable[Charge], facts: SessionFacts) -> tuple[Charge, ...]:
    """Return those charges that are certain: all of a session that is over, else those of hours that are past."""
    if facts.released:
        return tuple(charges)
    end = facts.past_hours_end
    return tuple(each for each in charges if each.charge_period_end <= end)


def settle(wanted: Iterable[Charge], posted: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return the lines to add, so that what was posted becomes what is wanted.

    Lines that somebody added by hand (credits, adjustments) are not the meter's: they stay as they are.
    """
    rows: dict[str, list[Charge]] = {}
    for charge in posted:
        if charge.metered:
            rows.setdefault(_root(charge.charge_key), []).append(charge)
    targets = {charge.charge_key: charge for charge in wanted}
    new = [charge for key, charge in targets.items() if key not in rows]
    for key, found in rows.items():
        mended = _correct(found, targets.get(key))
        if mended is not None:
            new.append(mended)
    return tuple(new)


def total(charges: Iterable[Charge]) -> int:
    """Return the sum of costs, in micro-units."""
    return sum(charge.billed_cost for charge in charges)


def _rate_line(
    facts: SessionFacts, sheet: PriceSheet, sku_id: str, resource_id: str, period: Period, since: int
) -> Iterator[Charge]:
    """Yield one resource's lines, cut at hours and price changes; the exact sum goes on from line to line."""
    exact = 0  # micro-units x seconds of an hour
    for priced, price in sheet.parts(sku_id, period):
        exact += price.list_unit_price * priced.clip(Period(priced.start, since)).seconds
        fresh = priced.clip(Period(since, priced.end))
        for part in fresh.split(fresh.hours()):
            before = _round(exact)
            exact += price.list_unit_price * part.seconds
            yield Charge(
                charge_key="|".join((facts.session_id, sku_id, resource_id, str(part.start))),
                session_id=facts.session_id,
                username=facts.username,
                billing_group=facts.billing_group,
                flavor=facts.flavor,
                sku_id=sku_id,
                resource_id=resource_id,
                charge_category=ChargeCategory.USAGE.value,
                charge_period_start=part.start,
                charge_period_end=part.end,
                consumed_seconds=part.seconds,
                consumed_unit=price.unit,
                list_unit_price=price.list_unit_price,
                billed_cost=_round(exact) - before,
                billing_currency=price.currency,
                estimated=facts.estimated and part.end == period.end,
            )


def _full_hour(instant: int) -> int:
    return instant // HOUR * HOUR


def _round(exact: int) -> int:
    """Return micro-units from micro-unit seconds of an hour: rounded half to even."""
    whole, rest = divmod(exact, HOUR)
    return whole + (rest * 2 > HOUR or (rest * 2 == HOUR and whole % 2 == 1))


def _root(charge_key: str) -> str:
    """Return the key of the line that a correction mends."""
    return charge_key.partition("#")[0]


def _correct(rows: list[Charge], target: Charge | None) -> Charge | None:
    """Return the line that brings what was posted for one key to its target; None where it is there already."""
    seconds = (target.consumed_seconds if target else 0) - sum(row.consumed_seconds for row in rows)
    cost = (target.billed_cost if target else 0) - total(rows)
    if not seconds and not cost:
        return None
    first = rows[0]
    return replace(
        first,
        charge_key=f"{first.charge_key}#{len(rows)}",
        charge_class=CORRECTION,
        consumed_seconds=seconds,
        billed_cost=cost,
        estimated=target.estimated if target else False,
        reason="what is known of the session has changed",
    )


def by_session(charges: Iterable[Charge]) -> Mapping[str, list[Charge]]:
    """Return charges in lists by session."""
    found: dict[str, list[Charge]] = {}
    for charge in charges:
        found.setdefault(charge.session_id, []).append(charge)
    return found
