"""What every page tells everybody, read in one go."""

from sqlalchemy import Engine

from nbgpu.core.board import Board
from nbgpu.core.ports import Clock
from nbgpu.store.broadcasts import read_broadcasts
from nbgpu.store.clock import utc_now
from nbgpu.store.maintenance import read_maintenance
from nbgpu.store.work import retried, unit_of_work


class SqlBoard:
    """The board of one deployment; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def read(self) -> Board:
        """Return what holds now."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return Board(read_broadcasts(db, self._clock()), read_maintenance(db))
