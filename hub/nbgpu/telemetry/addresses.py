"""The addresses that a site has set for alerts, each written to by itself: mail, webhooks and more, by Apprise."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nbgpu.core.errors import AlertError

if TYPE_CHECKING:
    from apprise import Apprise, NotifyBase

log = logging.getLogger("nbgpu.alerts")


class AppriseSender:
    """Sends to the addresses of an Apprise configuration file, which is read anew for each message."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def send(self, title: str, body: str, *, urgent: bool) -> bool:
        """Send to each address; return whether any took it. Raises AlertError when there is none in the file.

        An address that took it is not written to again for the sake of one that did not, which is logged.
        """
        from apprise import Apprise, NotifyType  # large, and most sites send nothing

        kind, took = NotifyType.WARNING if urgent else NotifyType.INFO, 0
        for address in self._read():
            alone = Apprise()
            alone.add(address)
            if alone.notify(title=title, body=body, notify_type=kind):
                took += 1
            else:
                log.warning("%s of %s did not take the alert “%s”", name_address(address), self._file, title)
        return bool(took)

    def _read(self) -> "Apprise":
        from apprise import Apprise, AppriseConfig

        if not self._file.is_file():
            raise AlertError(f"{self._file}: there is no such file; [billing] notify_file names it.")
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its own lines quote addresses, which hold secrets
        addresses = Apprise()
        addresses.add(AppriseConfig(str(self._file)))
        if not len(addresses):
            raise AlertError(f"{self._file}: there is no address in it that Apprise knows.")
        return addresses


def name_address(address: "NotifyBase") -> str:
    """Return what may be told of an address: "jsons://example.org", or its schema alone.

    What stands in the place of the host is a token or a secret topic for some schemas: a host has a point in its name.
    """
    parts = urlsplit(str(address.url(privacy=True)))  # type: ignore[no-untyped-call]  # Apprise's own gap
    host = parts.hostname or ""
    is_host = host == "localhost" or (("." in host or ":" in host) and "..." not in host)
    return f"{parts.scheme}://{host}" if is_host else f"{parts.scheme}://…"
