"""What those who run the place tell everybody who has a server. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.texts import Text

LONGEST = 500  # characters
LEAST = timedelta(minutes=1)
MOST = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A message to everybody."""

    number: int
    text: str
    author: str
    sent_at: datetime
    until: datetime  # when it is shown no more
    withdrawn_at: datetime | None = None

    def is_shown(self, now: datetime) -> bool:
        """Whether it is shown at an instant."""
        return self.withdrawn_at is None and now < self.until


def parse_message(typed: str) -> str:
    """Return a message as one line that can be printed anywhere. Raises InvalidOptions."""
    line = " ".join("".join(each if each.isprintable() else " " for each in typed).split())
    if not line:
        raise InvalidOptions(Text("Write what everybody is to read."))
    if len(line) > LONGEST:
        raise InvalidOptions(
            Text(
                "The message has %(found)s characters; %(longest)s are shown. Say it shorter, or put a link into it.",
                found=len(line),
                longest=LONGEST,
            )
        )
    return line


def check_span(span: timedelta) -> timedelta:
    """Return for how long a message is to be shown. Raises InvalidOptions where that makes no sense."""
    if not LEAST <= span <= MOST:
        raise InvalidOptions(Text("A message is shown for a minute at least, and for 31 days at most."))
    return span


def shown(broadcasts: Iterable[Broadcast], now: datetime) -> tuple[Broadcast, ...]:
    """Return those that are shown at an instant."""
    return tuple(each for each in broadcasts if each.is_shown(now))
