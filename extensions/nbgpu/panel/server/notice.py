"""The file in which the hub tells a server of its stop or of a lost GPU, read again when it has changed."""

import json
from pathlib import Path
from typing import Any

LONGEST = 10_000  # bytes


class NoticeFile:
    """Reads the file that `NBGPU_NOTICE_FILE` names. Without one there are no notices."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._seen: tuple[int, int] | None = None
        self.notice: dict[str, Any] | None = None  # `text`, `stop_at` (ISO 8601 or None), `cause`

    def look(self) -> bool:
        """Read what is new; whether there was something. Never raises."""
        seen = self._stamp()
        if seen == self._seen:
            return False
        self._seen, before = seen, self.notice
        self.notice = self._read()
        return self.notice != before

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_ino) if found is not None else None

    def _read(self) -> dict[str, Any] | None:
        try:
            with self._path.open("rb") as file:  # type: ignore[union-attr]  # its stamp was just read
                found = json.loads(file.read(LONGEST))
        except (OSError, ValueError, AttributeError):
            return None
        return found if isinstance(found, dict) and isinstance(found.get("text"), str) else None
