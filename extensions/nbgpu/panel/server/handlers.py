"""What the extension answers to browsers, under `/nbgpu/`: the stream, more time, and the panel's own files."""

from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from jupyter_server.auth.decorator import allow_unauthenticated, authorized, ws_authenticated
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.utils import ensure_async
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, StaticFileHandler, authenticated
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from nbgpu.core.errors import HubError, HubRefused
from nbgpu.panel.server.room import Room

FOLDER = Path(__file__).parents[1]
FILES = r"(panel\.js|panel\.css|lab\.js)"
RESOURCE = "nbgpu"


class Session(Protocol):
    """What is asked of the server's session."""

    async def extend(self) -> None: ...

    def refresh(self) -> None: ...


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Gives a page of this server each frame, and the session's state when it changes."""

    auth_resource = RESOURCE
    is_kernel = False

    def initialize(self, room: Room, session: Session) -> None:
        """Take who gives."""
        self._room = room
        self._session = session

    def set_default_headers(self) -> None:
        """Set none: those of a page make no sense here."""

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the stream for whoever may read."""
        allowed = await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", RESOURCE))
        if not allowed:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin to give."""
        super().open(*args, **kwargs)
        self._room.enter(self)
        self._session.refresh()

    def on_message(self, message: str | bytes) -> None:
        """Take no notice: a page has nothing to say here."""

    def on_close(self) -> None:
        """Give no more."""
        self._room.leave(self)

    def send(self, text: str) -> None:
        """Give one message to the page; one that has gone is let go."""
        try:
            self.write_message(text)
        except (WebSocketClosedError, StreamClosedError):
            self._room.leave(self)


class ExtendHandler(APIHandler):
    """Asks the hub for more time."""

    auth_resource = RESOURCE

    def initialize(self, session: Session) -> None:
        """Take who asks."""
        self._session = session

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer with nothing; the new state comes by the stream. What the hub says against it is `message`."""
        try:
            await self._session.extend()
        except HubError as error:
            self.set_status(HTTPStatus.CONFLICT if isinstance(error, HubRefused) else HTTPStatus.SERVICE_UNAVAILABLE)
            self.finish({"message": str(error)})
        else:
            self.finish({})


class FileHandler(StaticFileHandler):
    """The panel's own files, which are nobody's secret."""

    @allow_unauthenticated
    async def get(self, path: str, include_body: bool = True) -> None:  # noqa: FBT001, FBT002 - Tornado's signature
        """Answer with a file."""
        await super().get(path, include_body)

    def set_extra_headers(self, path: str) -> None:
        """Have browsers ask each time whether it is still the same: its address does not change with it."""
        del path
        self.set_header("Cache-Control", "no-cache")


def routes(base: str, room: Room, session: Session) -> list[tuple[Any, ...]]:
    """Return the routes under the server's base address, like "/user/ann/"."""
    here = f"{base.rstrip('/')}/nbgpu"
    return [
        (f"{here}/stream", StreamHandler, {"room": room, "session": session}),
        (f"{here}/extend", ExtendHandler, {"session": session}),
        (f"{here}/static/{FILES}", FileHandler, {"path": str(FOLDER)}),
    ]
