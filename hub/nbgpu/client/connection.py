"""Asks the service's API, and reads its answers and refusals; knows none of its paths."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from nbgpu.core.errors import InvalidOptions, ServiceRefused, ServiceUnavailable

LONGEST = 500  # characters of a foreign answer's sentence that are shown
M = TypeVar("M", bound=BaseModel)
Query = Mapping[str, str | None]


class Connection:
    """Connections to one service with one token; safe to use from many threads."""

    def __init__(self, url: str, token: str, *, timeout: float, direct: bool) -> None:
        """Take the service's own address; `direct` passes by proxies that the environment names.

        Raises InvalidOptions.
        """
        if not token.isascii() or not token.isprintable():
            raise InvalidOptions("The token has a character that is in none. Copy it anew from the page Token.")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InvalidOptions(f"“{url[:80]}” is no address: {error}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidOptions(f"“{url[:80]}” is no address: give one like https://hub.example.org/services/nbgpu.")
        self._url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self._url}/api/v1/",
            headers={"Authorization": f"token {token}", "Accept": "application/json"},
            timeout=timeout,
            trust_env=not direct,
        )

    def close(self) -> None:
        """Close them."""
        self._http.close()

    def get(self, model: type[M], path: str, query: Query | None = None) -> M:
        """Return an answer; of the query what is None is not asked. Raises ServiceRefused, ServiceUnavailable."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        return self._read(model, self._send("GET", path, params=wanted))

    def post(self, model: type[M], path: str, body: Mapping[str, object]) -> M:
        """Have something done; return the answer. Raises as `get` does."""
        return self._read(model, self._send("POST", path, json=body))

    def tell(self, path: str, body: Mapping[str, object]) -> None:
        """Have something done, whatever is answered. Raises as `get` does."""
        self._send("POST", path, json=body)

    def _read(self, model: type[M], answer: httpx.Response) -> M:
        """Return what an answer says; fields that the model lacks, of a newer service, are left out."""
        try:
            return model.model_validate_json(answer.content, extra="ignore")
        except ValidationError as error:
            raise ServiceUnavailable(
                f"What {self._url} answers can't be read: it is no nbgpu service, or one of another version "
                f"({error.errors(include_url=False)[0]['msg']})."
            ) from error

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise ServiceUnavailable(f"The nbgpu service at {self._url} did not answer in time.") from error
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"No nbgpu service answers at {self._url} ({error}). Does the hub run? `nbgpu run` starts it."
            ) from error
        if not answer.is_success:
            raise _refusal(answer, self._url)
        return answer


def _refusal(answer: httpx.Response, url: str) -> ServiceRefused | ServiceUnavailable:
    """Return what the service says is wrong; another program's answer is told as such."""
    problem: Any = None
    if answer.headers.get("Content-Type", "").partition(";")[0] == "application/problem+json":
        try:
            problem = answer.json()
        except ValueError:
            problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("detail"), str):
        phrase = f"{answer.status_code} {answer.reason_phrase}"
        return ServiceUnavailable(f"Something else than the nbgpu service answers at {url}, or it is away: {phrase}.")
    sentence = problem["detail"][:LONGEST]
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServiceUnavailable(f"The nbgpu service at {url} can't do it now: {sentence}")
    return ServiceRefused(sentence, status=answer.status_code)
