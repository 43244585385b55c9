"""Home volumes: each user's, as it was first named."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nbgpu.core.errors import StoreError
from nbgpu.store.leases import utc_now
from nbgpu.store.schema import HomeRow


class SqlHomes:
    """Which volume is whose; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def ensure(self, username: str, volume: str) -> str:
        """Return the user's volume; `volume` is kept as theirs when they have none. Raises StoreError."""
        try:
            with Session(self._engine) as db, db.begin():
                row = db.get(HomeRow, username)
                if row is None:
                    row = HomeRow(username=username, volume=volume, created_at=self._clock())
                    db.add(row)
                return row.volume
        except IntegrityError as error:
            raise StoreError(
                f"The home volume {volume} is another user's already. Ask an administrator to look at the table homes."
            ) from error
