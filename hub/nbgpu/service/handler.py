"""What all of the REST API has in common: who asks, what parameters there are, how errors are told."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel
from tornado.web import HTTPError, MissingArgumentError, RequestHandler

from nbgpu.core.errors import InvalidOptions, NbgpuError, NotAllowed, Refusal, UnknownUser
from nbgpu.service.books import Books
from nbgpu.service.callers import Caller, HubAuth, to_caller
from nbgpu.service.operations import May, Operation, check_may, parse_body
from nbgpu.service.statuses import Statuses
from nbgpu.service.turns import Turns

RETRY_AFTER = 10  # seconds

T = TypeVar("T")

log = logging.getLogger("nbgpu.service")


class ApiHandler(RequestHandler):
    """What all of the API has in common: who asks, what parameters there are, how errors are told."""

    operations: ClassVar[Mapping[str, Operation]] = {}  # by method
    caching: ClassVar[str] = "no-store"  # of its answers; "no-cache" where an ETag is to be asked with
    body: Any = None  # as the operation's model has it

    def initialize(
        self, find_books: Callable[[], Books | None], auth: HubAuth, turns: Turns, statuses: Statuses
    ) -> None:
        """Take what finds the books, which are not there at once, the hub's word on who asks, and what all share."""
        self._find_books = find_books
        self._auth = auth
        self._turns = turns
        self.statuses = statuses

    def set_default_headers(self) -> None:
        """Answers are somebody's own, and no page."""
        self.set_header("Cache-Control", self.caching)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.clear_header("Server")

    async def prepare(self) -> None:
        """Find out who asks, and read what is sent.

        405 for a method that is none here, 401 without a token that the hub knows, 403 with one that may not ask here,
        400 for a parameter or a body that makes no sense.
        """
        operation = self.operations.get(self.request.method or "")
        if operation is None:
            allowed = ", ".join(sorted(self.operations))
            raise HTTPError(
                HTTPStatus.METHOD_NOT_ALLOWED, reason=f"There is no such method here; there are: {allowed}."
            )
        if operation.may is not May.ANYBODY:
            self.caller = await self._find_caller()
            check_may(self.caller, operation.may)
        self._check_parameters(operation)
        if any("\0" in each for each in self.path_kwargs.values()):
            raise InvalidOptions("The path has a character that is in no name.")
        if operation.body is not None:
            self.body = parse_body(operation.body, self.request.body)

    async def _find_caller(self) -> Caller:
        model = await self._auth.get_user(self, sync=False)
        if model is None:
            raise HTTPError(HTTPStatus.UNAUTHORIZED, reason="A token of the hub is needed: Authorization: token …")
        caller = to_caller(model)
        if caller is None:
            raise HTTPError(HTTPStatus.FORBIDDEN, reason="This token may not use the nbgpu service.")
        return caller

    def _check_parameters(self, operation: Operation) -> None:
        known = [parameter.name for parameter in operation.parameters]
        unknown = sorted(set(self.request.query_arguments) - set(known))
        if unknown:
            allowed = ", ".join(known) or "none"
            raise InvalidOptions(f"There is no parameter “{unknown[0][:40]}”; there are: {allowed}.")

    @property
    def books(self) -> Books:
        """The books. 503 while the service begins."""
        return needed(self._find_books())

    def text(self, name: str) -> str | None:
        """Return a parameter; None without it, or where it is empty."""
        return self.get_query_argument(name, "") or None

    def whose(self) -> str | None:
        """Return the user that is asked about; None is everybody. Raises NotAllowed."""
        user = self.text("user")
        if self.caller.reads_all:
            return user
        if self.caller.server is not None:
            raise NotAllowed("A server's own token reads of its own session only: GET sessions.")
        if user not in (None, self.caller.name) or not self.caller.is_user:
            raise NotAllowed("This token reads its own user's usage only.")
        return self.caller.name

    async def groups_of(self, user: str) -> tuple[str, ...] | None:
        """Return the caller's groups where it is about them; None: those of the user's newest session.

        Raises UnknownUser.
        """
        if self.caller.is_user and user == self.caller.name:
            return self.caller.groups
        if not await asyncio.to_thread(self.books.statements.knows, user):
            raise UnknownUser(f"Nobody of the name “{user[:80]}” has ever had a server. Look for a typing error.")
        return None

    def answer(self, found: BaseModel) -> None:
        """Answer with the operation's status."""
        self.set_status(self.operations[self.request.method or ""].status)
        self.set_header("Content-Type", "application/json")
        self.write(found.model_dump_json())

    def check_match(self, current: BaseModel) -> None:
        """See that who changes something has seen it as it is: If-Match has the ETag of the GET that answers `current`;
        "*" matches whatever is there.

        428 without it, 412 where somebody else was faster.
        """
        wanted = self.request.headers.get("If-Match")
        if wanted is None:
            reason = "Send If-Match with the ETag of the GET: two people must not undo each other's changes unseen."
            raise HTTPError(HTTPStatus.PRECONDITION_REQUIRED, reason=reason)
        sent = [each.strip().removeprefix("W/") for each in wanted.split(",")]
        if "*" not in sent and to_etag(current) not in sent:
            reason = "It has been changed since you read it. GET it again, and look at what is there now."
            raise HTTPError(HTTPStatus.PRECONDITION_FAILED, reason=reason)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Have a turn at what takes long. 503 where too many others wait."""
        try:
            async with self._turns.take():
                yield
        except TimeoutError:
            reason = "Many statements are being made at this moment. Try again in a moment."
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=reason) from None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with problem details; what is not ours to tell is told in general words."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        detail = HTTPStatus(status_code).phrase
        if isinstance(error, Refusal):
            status_code, detail = error.status_code, str(error)
        elif isinstance(error, NbgpuError):
            status_code, detail = HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        elif isinstance(error, MissingArgumentError | HTTPError) and error.reason:
            detail = error.reason
        self.set_status(status_code)
        self.set_header("Cache-Control", "no-store")
        if status_code == HTTPStatus.UNAUTHORIZED:
            self.set_header("WWW-Authenticate", "Bearer")
        elif status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(sorted(self.operations)))
        elif status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            self.set_header("Retry-After", str(RETRY_AFTER))
        self.set_header("Content-Type", "application/problem+json")
        problem = {"type": "about:blank", "title": HTTPStatus(status_code).phrase, "status": status_code}
        self.finish(json.dumps(problem | {"detail": detail}, ensure_ascii=False))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log a surprise with its traceback; a refusal is in its answer."""
        if isinstance(value, NbgpuError):
            log.info("%s %s: %s", self.request.method, self.request.path, value)
        else:
            super().log_exception(typ, value, tb)


class NothingHandler(ApiHandler):
    """All paths under the API's that are none of its own."""

    async def prepare(self) -> None:
        """Say where it is told what there is."""
        reason = "There is nothing at this path. GET api/v1/openapi.json tells of all that there are."
        raise HTTPError(HTTPStatus.NOT_FOUND, reason=reason)


def needed(found: T | None) -> T:
    """Return one of the books. 503 while the service begins."""
    if found is None:
        raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason="The service is starting. Try again in a moment.")
    return found


def to_etag(found: BaseModel) -> str:
    """Return the ETag that Tornado gives to an answer."""
    digest = hashlib.sha1(found.model_dump_json().encode(), usedforsecurity=False)
    return f'"{digest.hexdigest()}"'
