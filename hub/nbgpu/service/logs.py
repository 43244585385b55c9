"""The service's log: one line an event, in the hub's own form, since it goes where the hub's goes."""

import logging
import sys

FORM = "[%(levelname)1.1s %(asctime)s.%(msecs)03d %(name)s] %(message)s"
LONGEST = 2000  # characters of one event


class OneLine(logging.Formatter):
    """Formats each event as one line, a traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, cut to a bound."""
        line = " | ".join(part.strip() for part in super().format(record).splitlines() if part.strip())
        return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def configure_logs() -> None:
    """Send all logs to standard error, which is the hub's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(FORM, datefmt="%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("alembic", "httpx", "tornado.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
