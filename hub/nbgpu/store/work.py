"""The unit of work: one short transaction, whose failure is an error of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.orm import Session

from nbgpu.core.errors import StoreError


@contextmanager
def unit_of_work(engine: Engine) -> Iterator[Session]:
    """Give a session in a transaction that is committed at the end, rolled back on any error.

    Raises IntegrityError as it is, which callers know the meaning of, and StoreError for what they can't help: the
    database is locked for too long, read-only, full or gone.
    """
    try:
        with Session(engine, expire_on_commit=False) as db, db.begin():
            yield db
    except IntegrityError:
        raise
    except DatabaseError as error:
        raise StoreError(f"The database did not do what was asked ({error.orig}). Try again in a minute.") from error
