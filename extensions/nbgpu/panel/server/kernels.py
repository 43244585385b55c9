"""The socket at which kernels of this server take its frames: in a folder that only this account may enter."""

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from nbgpu.panel.server.room import Room

MOST_WAITING = 2**20  # bytes for a kernel that does not read: one that is stopped, or holds Python's lock


class KernelLine:
    """A kernel that looks."""

    is_kernel = True

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send(self, text: str) -> None:
        """Give one line; a kernel that does not read loses lines."""
        transport = self._writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() < MOST_WAITING:
            self._writer.write(text.encode() + b"\n")


class KernelSocket:
    """Listens for kernels, from `open` to `close`."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> Path:
        """Listen; return where. Raises OSError."""
        self._folder = Path(tempfile.mkdtemp(prefix="nbgpu-"))  # mode 0700; a home may be of a kind without sockets
        path = self._folder / "panel"
        self._server = await asyncio.start_unix_server(self._serve, path)
        path.chmod(0o600)
        return path

    def close(self) -> None:
        """Listen no more, while the loop runs. Idempotent."""
        if self._server is not None:
            self._server.close()
        self.remove()

    def remove(self) -> None:
        """Take the socket off the disk; the loop that it was served from may be closed. Idempotent."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = KernelLine(writer)
        self._room.enter(line)
        try:
            while await reader.read(64):  # whatever it sends asks for a frame now
                self._room.hurry()
        except OSError:
            pass
        finally:
            self._room.leave(line)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
