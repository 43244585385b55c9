"""Alerts of budgets, sent to the addresses that a site has set."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Protocol

from nbgpu.core.budgets import Alert
from nbgpu.core.errors import AlertError
from nbgpu.core.units import render_money

PERIOD = 30.0  # seconds between two looks for alerts to send
FIRST = 60.0  # seconds after which an alert that no address took is tried again; then twice as long, and so on
LONGEST = 3600.0

log = logging.getLogger("nbgpu.alerts")


class AlertStore(Protocol):
    """Where alerts are kept. May block."""

    def alerts(self, *, unsent: bool = False) -> tuple[Alert, ...]:
        """Return the newest alerts; or all that are still to be sent."""

    def note_sent(self, alert_ids: Iterable[int]) -> None:
        """Note that alerts were sent."""


class Sender(Protocol):
    """Sends a message to all addresses. May block for as long as these take."""

    def send(self, title: str, body: str, *, urgent: bool) -> bool:
        """Send; return whether any address took it. Raises AlertError where there is no address."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """An alert that no address took so far."""

    delay: float  # seconds
    until: float  # of the monotonic clock


class AlertLoop:
    """Sends what is to be sent, oldest first; `tick` blocks: use a thread of its own, addresses may be slow."""

    def __init__(
        self,
        store: AlertStore,
        sender: Sender | None,
        *,
        currency: str,
        zone: tzinfo,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a sender alerts are shown on pages only."""
        self._store = store
        self._sender = sender
        self._currency = currency
        self._zone = zone
        self._monotonic = monotonic
        self._waits: dict[int, _Wait] = {}
        self._sent: set[int] = set()  # also those that the database did not take as sent yet

    def tick(self) -> None:
        """Send what is to be sent; of several of one budget and period the highest alone, which says it all.

        What an address took is sent. Raises AlertError while there is an alert that none took: it is tried again after
        a minute, two, four and so on, at most an hour apart, and holds up no other.
        """
        unsent = self._store.alerts(unsent=True)
        self._waits = {each.id: self._waits[each.id] for each in unsent if each.id in self._waits}
        for alerts in group_alerts(unsent):
            if self._is_sent(max(alerts, key=lambda each: (each.percent, each.id))):
                self._store.note_sent([each.id for each in alerts])
        self._sent.clear()
        if self._waits:
            raise AlertError(
                f"Alerts that no address took so far: {len(self._waits)}. They are tried again, at most "
                f"{LONGEST / 60:g} min apart; the log names the addresses, [billing] notify_file their file."
            )

    def _is_sent(self, alert: Alert) -> bool:
        """Send an alert when it is its time; return whether it is sent now or was before."""
        if alert.id in self._sent:
            return True
        wait, now = self._waits.get(alert.id), self._monotonic()
        if wait is not None and now < wait.until:
            return False
        title, body = self.describe(alert)
        log.info("%s. %s", title, body)
        if self._sender is not None and not self._sender.send(title, body, urgent=alert.percent >= 100):
            delay = min(2 * wait.delay, LONGEST) if wait is not None else FIRST
            self._waits[alert.id] = _Wait(delay, now + delay)
            return False
        self._waits.pop(alert.id, None)
        self._sent.add(alert.id)
        return True

    def describe(self, alert: Alert) -> tuple[str, str]:
        """Return an alert's title and body."""
        title = f"Budget {alert.budget} of {alert.owner}: {alert.percent} % spent"
        spent, amount = render_money(alert.spent), render_money(alert.amount)
        body = f"{spent} of {amount} {self._currency} were spent at {self._render(alert.raised_at)}."
        if alert.percent >= 100:
            return title, f"{body} Servers that it pays for are stopped after a grace, and none is started."
        if alert.forecast is not None:
            return title, f"{body} At this pace all of it is spent by {self._render(alert.forecast)}."
        return title, f"{body} At this pace it lasts to the end of its period."

    def _render(self, instant: datetime) -> str:
        return instant.astimezone(self._zone).strftime("%Y-%m-%d %H:%M %Z")


def group_alerts(alerts: Iterable[Alert]) -> list[list[Alert]]:
    """Return the alerts of each budget, owner and period together, in the order in which each began, oldest first."""
    groups: dict[tuple[str, str, int], list[Alert]] = {}
    for alert in sorted(alerts, key=lambda each: each.id):
        groups.setdefault((alert.budget, alert.owner, alert.period_start), []).append(alert)
    return list(groups.values())
