"""The unit of work: one short transaction, whose failure is an error of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import Session

from nbgpu.core.errors import StoreError
from nbgpu.store.trouble import explain

READS_ONLY = "nbgpu_reads_only"  # the execution option that tells SQLite's BEGIN what follows

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class ConnectionLost(StoreError):
    """The connection broke before anything was committed: the whole unit of work can be done again."""


@contextmanager
def unit_of_work(engine: Engine, *, reads_only: bool = False) -> Iterator[Session]:
    """Give a session in a transaction that is committed at the end, rolled back on any error.

    One that only reads waits for no writer. Raises IntegrityError as it is, which callers know the meaning of, and
    StoreError for what they can't help: the database is locked for too long, read-only, full or gone, or all
    connections are in use for too long.
    """
    committing = False
    try:
        chosen = engine.execution_options(**{READS_ONLY: True}) if reads_only else engine
        with Session(chosen, expire_on_commit=False) as db, db.begin():
            yield db
            db.flush()
            committing = True
    except IntegrityError:
        raise
    except DBAPIError as error:
        lost = error.connection_invalidated and not committing
        raise (ConnectionLost if lost else StoreError)(explain(error, engine)) from error
    except NoConnection as error:
        raise StoreError(explain(error, engine)) from error


def freeze(db: Session) -> None:
    """Have all of a transaction see one instant; call it before the first query.

    Without it PostgreSQL shows each query what was committed up to its own begin: a line that is posted between two
    queries would be missed, counted twice, or taken for one that was put in by hand.
    """
    if db.get_bind().dialect.name == "postgresql":
        db.connection(execution_options={"isolation_level": "REPEATABLE READ"})


def retried(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Do a method that is one unit of work a second time where the first one's connection broke before its commit.

    A connection that broke in the commit itself is not tried again: whether the work was done is not known then. Not
    for methods that take an iterator, which the second time has nothing left.
    """

    @wraps(method)
    def twice(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except ConnectionLost:
            return method(self, *args, **kwargs)

    return twice
