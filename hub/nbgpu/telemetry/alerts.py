"""Alerts of budgets, sent to the addresses that a site has set: mail, webhooks and more, by Apprise."""

import logging
from collections.abc import Iterable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Protocol

from nbgpu.core.budgets import Alert
from nbgpu.core.errors import AlertError
from nbgpu.core.units import render_money

PERIOD = 30.0  # seconds between two looks for alerts to send

log = logging.getLogger("nbgpu.alerts")


class AlertStore(Protocol):
    """Where alerts are kept. May block."""

    def alerts(self, *, unsent: bool = False) -> tuple[Alert, ...]:
        """Return the newest alerts; or all that are still to be sent."""

    def note_sent(self, alert_ids: Iterable[int]) -> None:
        """Note that alerts were sent."""


class Sender(Protocol):
    """Sends a message to all addresses. May block for as long as these take."""

    def send(self, title: str, body: str, *, urgent: bool) -> None:
        """Send. Raises AlertError when an address did not take it."""


class AppriseSender:
    """Sends to the addresses of an Apprise configuration file, which is read anew for each message."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def send(self, title: str, body: str, *, urgent: bool) -> None:
        """Send. Raises AlertError when the file can't be used or an address did not take the message."""
        from apprise import Apprise, AppriseConfig, NotifyType  # large, and most sites send nothing

        if not self._file.is_file():
            raise AlertError(f"{self._file}: there is no such file; [billing] notify_file names it.")
        addresses = Apprise()
        addresses.add(AppriseConfig(str(self._file)))
        if not len(addresses):
            raise AlertError(f"{self._file}: there is no address in it that Apprise knows.")
        kind = NotifyType.WARNING if urgent else NotifyType.INFO
        if not addresses.notify(title=title, body=body, notify_type=kind):
            raise AlertError(f"An address of {self._file} did not take the alert “{title}”.")


class AlertLoop:
    """Sends what is to be sent, oldest first; `tick` blocks: use a thread of its own, addresses may be slow."""

    def __init__(self, store: AlertStore, sender: Sender | None, *, currency: str, zone: tzinfo) -> None:
        """Without a sender alerts are shown on pages only."""
        self._store = store
        self._sender = sender
        self._currency = currency
        self._zone = zone

    def tick(self) -> None:
        """Send all alerts that are still to be sent. Raises AlertError: those that are left are tried again."""
        for alert in sorted(self._store.alerts(unsent=True), key=lambda each: each.id):
            title, body = self.describe(alert)
            log.info("%s. %s", title, body)
            if self._sender is not None:
                self._sender.send(title, body, urgent=alert.percent >= 100)
            self._store.note_sent([alert.id])

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
