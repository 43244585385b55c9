"""The `nbgpu` service as a server reaches it, with the server's own token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

from nbgpu.core.errors import HubRefused, HubUnavailable

TIMEOUT_S = 10.0
LONGEST_ANSWER = 2**20  # bytes
_TROUBLE = 500  # from this HTTP status on it is the service's trouble, and no answer


@dataclass(frozen=True, slots=True)
class Link:
    """Where the service is, and which session this is."""

    url: str  # of the service, like "http://172.18.0.1:8082"
    session_id: str
    token: str = field(repr=False)

    async def report(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Tell a report; return the session's status. Raises HubError."""
        return await self._post("report", report)

    async def extend(self) -> dict[str, Any]:
        """Ask for more time; return the session's status. Raises HubError."""
        return await self._post("extend", {})

    async def _post(self, what: str, content: Mapping[str, Any]) -> dict[str, Any]:
        request = HTTPRequest(
            f"{self.url}/services/nbgpu/api/v1/sessions/{self.session_id}/{what}",
            method="POST",
            body=json.dumps(content),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
            connect_timeout=TIMEOUT_S,
            request_timeout=TIMEOUT_S,
            follow_redirects=False,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            if error.response is None or error.code >= _TROUBLE:
                raise _unavailable(error) from error
            raise HubRefused(_detail(error.response) or f"The hub's service answered {error.code}.") from error
        except (OSError, ValueError) as error:
            raise _unavailable(error) from error
        return _status(answer, self.session_id)


def find_link(environ: Mapping[str, str]) -> Link | None:
    """Return the link of a server that runs under a hub with nbgpu; None for any other."""
    names = ("NBGPU_SERVICE_URL", "NBGPU_SESSION_ID", "JUPYTERHUB_API_TOKEN")
    url, session_id, token = (environ.get(name, "") for name in names)
    return Link(url.rstrip("/"), session_id, token) if url and session_id and token else None


def _unavailable(error: Exception) -> HubUnavailable:
    return HubUnavailable(f"The hub's service does not answer; try again in a minute. ({error})")


def _status(answer: HTTPResponse, session_id: str) -> dict[str, Any]:
    try:
        found = json.loads(answer.body[:LONGEST_ANSWER])
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("session_id") != session_id:
        raise HubUnavailable("What answers in the place of the hub's service does not tell of this session.")
    return found


def _detail(response: HTTPResponse | None) -> str | None:
    """Return what a refusal says, for people."""
    try:
        found = json.loads(response.body) if response is not None else None
    except ValueError:
        return None
    detail = found.get("detail") if isinstance(found, dict) else None
    return detail if isinstance(detail, str) else None
