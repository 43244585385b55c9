"""Price sheets in the database: rows with the instant from which they hold, only ever added."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nbgpu.core.ports import Clock
from nbgpu.core.price_edits import describe_price
from nbgpu.core.prices import ALWAYS, Price, PriceSheet
from nbgpu.store.audit import audit_row
from nbgpu.store.clock import utc_now
from nbgpu.store.schema import PriceRow
from nbgpu.store.work import retried, unit_of_work

SETTINGS, ADMIN = "settings", "admin"  # where a price comes from
_FIELDS = tuple(field.name for field in fields(Price))


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A price with who set it when."""

    price: Price
    source: str
    author: str
    recorded_at: datetime


class SqlPrices:
    """The prices of all SKUs; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def sheet(self) -> PriceSheet:
        """Return all prices there are and were."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return read_sheet(db)

    @retried
    def entries(self) -> tuple[PriceEntry, ...]:
        """Return all prices as they were recorded, oldest first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(select(PriceRow).order_by(PriceRow.id)).all()
        return tuple(PriceEntry(_to_price(row), row.source, row.author, row.recorded_at) for row in rows)

    def ensure(self, prices: Iterable[Price]) -> tuple[Price, ...]:
        """Take over the settings' prices; return those that are new. Idempotent.

        A SKU's first price holds always; later only a price that differs from the settings' last one is a change, from
        its instant: what an admin has set meanwhile stays until the settings are changed.
        """
        with unit_of_work(self._engine) as db:
            new = [each for each in (_ensure(db, price) for price in prices) if each is not None]
            for price in new:
                db.add(self._to_row(price, SETTINGS, SETTINGS))
            return tuple(new)

    def add(self, prices: Iterable[Price], *, author: str) -> None:
        """Set prices on an admin's authority, each with its row in the audit log."""
        now = self._clock()
        with unit_of_work(self._engine) as db:
            for price in prices:
                db.add(self._to_row(price, ADMIN, author))
                detail = describe_price(price)
                db.add(audit_row(now, actor=author, action="price.set", subject=price.sku_id, detail=detail))

    def _to_row(self, price: Price, source: str, author: str) -> PriceRow:
        values = {name: getattr(price, name) for name in _FIELDS}
        return PriceRow(**values, source=source, author=author[:255], recorded_at=self._clock())


def read_sheet(db: Session) -> PriceSheet:
    """Return all prices within a transaction."""
    return PriceSheet(map(_to_price, db.scalars(select(PriceRow).order_by(PriceRow.id))))


def _ensure(db: Session, price: Price) -> Price | None:
    rows = select(PriceRow).where(PriceRow.sku_id == price.sku_id).order_by(PriceRow.id.desc())
    if db.scalars(rows).first() is None:
        return replace(price, effective_from=ALWAYS)
    last = db.scalars(rows.where(PriceRow.source == SETTINGS)).first()
    if last is not None and _terms(_to_price(last)) == _terms(price):
        return None
    return price


def _terms(price: Price) -> tuple[str, int, str]:
    return price.unit, price.list_unit_price, price.currency


def _to_price(row: PriceRow) -> Price:
    return Price(**{name: getattr(row, name) for name in _FIELDS})
