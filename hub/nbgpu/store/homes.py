"""Home volumes: each user's, as it was first named, and those of people who are gone."""

import itertools

from sqlalchemy import Engine, Select, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nbgpu.core.errors import StoreError
from nbgpu.core.homes import Home
from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.schema import HomeRow
from nbgpu.store.work import retried, unit_of_work


class SqlHomes:
    """Which volume is whose; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def ensure(self, username: str, volume: str) -> str:
        """Return the user's volume. Without one, `volume` becomes theirs, numbered if somebody had it before them.

        Raises StoreError when two users are given one volume at the same instant.
        """
        try:
            with unit_of_work(self._engine) as db:
                row = db.scalars(_in_use(username)).first()
                if row is None:
                    row = HomeRow(username=username, volume=_free_name(db, volume), created_at=self._clock())
                    db.add(row)
                return row.volume
        except IntegrityError as error:
            raise StoreError(f"The home volume {volume} was given to somebody else just now. Try again.") from error

    @retried
    def archive(self, username: str) -> str | None:
        """Put the user's home aside: nobody gets it again. Return its volume, None when there was none."""
        with unit_of_work(self._engine) as db:
            row = db.scalars(_in_use(username)).first()
            if row is None:
                return None
            row.archived_at = self._clock()
            return row.volume

    @retried
    def all(self) -> tuple[Home, ...]:
        """Return all homes, by user name, the one in use first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(select(HomeRow).order_by(HomeRow.username, HomeRow.id.desc()))
            return tuple(Home(row.username, row.volume, row.created_at, row.archived_at) for row in rows)


def _in_use(username: str) -> Select[HomeRow]:
    return select(HomeRow).where(HomeRow.username == username, HomeRow.archived_at.is_(None))


def _free_name(db: Session, volume: str) -> str:
    """The name itself, else with the first number that nobody had: an archived home is not given out again."""
    names = itertools.chain([volume], (f"{volume}-{number}" for number in itertools.count(2)))
    return next(name for name in names if db.scalar(select(HomeRow.id).where(HomeRow.volume == name)) is None)
