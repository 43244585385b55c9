"""The unit of work: one short transaction, whose failure is an error of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import Session

from nbgpu.core.errors import StoreError

READS_ONLY = "nbgpu_reads_only"  # the execution option that tells SQLite's BEGIN what follows


@contextmanager
def unit_of_work(engine: Engine, *, reads_only: bool = False) -> Iterator[Session]:
    """Give a session in a transaction that is committed at the end, rolled back on any error.

    One that only reads waits for no writer. Raises IntegrityError as it is, which callers know the meaning of, and
    StoreError for what they can't help: the database is locked for too long, read-only, full or gone, or all
    connections are in use for too long.
    """
    try:
        chosen = engine.execution_options(**{READS_ONLY: True}) if reads_only else engine
        with Session(chosen, expire_on_commit=False) as db, db.begin():
            yield db
    except IntegrityError:
        raise
    except (DBAPIError, NoConnection) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise StoreError(f"The database did not do what was asked ({cause}). Try again in a minute.") from error
