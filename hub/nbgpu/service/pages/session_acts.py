"""What can be done to sessions in the table: which there are, with what each needs, and how one is done."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.idle_view import IdleView
from nbgpu.core.reasons import parse_reason
from nbgpu.core.texts import Text
from nbgpu.service import session_acts
from nbgpu.service.books import Books
from nbgpu.service.bulk import Do
from nbgpu.service.callers import Caller
from nbgpu.service.handler import needed

SPANS = tuple(timedelta(hours=each) for each in (1, 2, 4, 8, 24, 72))


class Act(StrEnum):
    """What is done."""

    STOP = "stop"
    EXTEND = "extend"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen, and what it does to one session."""

    title: Text
    reason: str
    do: Do


def parse_act(text: Callable[[str], str], books: Books, caller: Caller) -> Chosen:
    """Return what a form, whose fields `text` gives, asks for. Raises InvalidOptions."""
    act = text("act")
    if act == Act.STOP:
        return _stop(parse_reason(text("reason")), books, caller)
    if act not in list(Act):
        raise InvalidOptions(Text("Choose what is to be done: stop, or extend."))
    span = _parse_span(text("span"))
    seconds, idle = int(span.total_seconds()), needed(books.idle)

    def extend(view: IdleView) -> Text:
        session_acts.click(idle, session_acts.find_running(idle, view.session_id), caller, seconds)
        return Text("It is extended.")

    def limit(view: IdleView) -> Text:
        session_acts.extend_limit(idle, session_acts.find_running(idle, view.session_id), caller, seconds)
        return Text("Its time limit is later.")

    if act == Act.EXTEND:
        return Chosen(Text("Not to be stopped for being idle for %(hours)s h more", hours=seconds // 3600), "", extend)
    return Chosen(Text("To run %(hours)s h longer than the time limit", hours=seconds // 3600), "", limit)


def _stop(reason: str, books: Books, caller: Caller) -> Chosen:
    stopper, idle = needed(books.stopper), needed(books.idle)

    def stop(view: IdleView) -> Text:
        session_acts.stop(stopper, session_acts.find_running(idle, view.session_id), caller, reason)
        return Text("The hub stops it.")

    return Chosen(Text("To be stopped"), reason, stop)


def _parse_span(typed: str) -> timedelta:
    for span in SPANS:
        if typed == str(int(span.total_seconds())):
            return span
    raise InvalidOptions(Text("Choose for how long."))
