"""The REST API as an OpenAPI 3.1 document, made of its routes: what is checked and what is told are the same."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar

from pydantic.json_schema import models_json_schema

from nbgpu.service.handler import ApiHandler
from nbgpu.service.operations import May, Operation

JSON = "application/json"
_REFERENCE = "#/components/schemas/{model}"
_ALWAYS = (400, 401, 403, 503)
_PART = re.compile(r"\(\?P<(\w+)>([^)]*)\)")  # of a route's pattern
_PROBLEM = {
    "type": "object",
    "description": "A problem detail (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was asked, what was found, what is allowed."},
    },
}
_WHO = {
    May.ANYBODY: "Everybody, without a token.",
    May.OWN: "Whoever may use the service; of their own, or of all with the scope for it.",
    May.READ_ALL: "Administrators, and the scopes custom:nbgpu:usage:read, :operate and :bill.",
    May.OPERATE: "Administrators, and the scope custom:nbgpu:operate.",
    May.BILL: "Administrators, and the scope custom:nbgpu:bill.",
    May.SERVER: "A server's own token.",
    May.CULL: "The culler, with the scope custom:nbgpu:cull.",
    May.METRICS: "The scope read:metrics.",
}
_IF_MATCH: Mapping[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag of the GET; without it where there is nothing yet.",
    "schema": {"type": "string"},
}


class DocumentHandler(ApiHandler):
    """The document, which needs no token: it tells nothing of this place."""

    caching = "no-cache"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="This document.", answer=None, may=May.ANYBODY)
    }

    @property
    def routes(self) -> Mapping[str, type[ApiHandler]]:
        """What it is of, by their patterns under the service's own path."""
        raise NotImplementedError

    async def get(self) -> None:
        """Answer with it; it is made once, when somebody asks."""
        prefix = (self.request.path or "").partition("/api/v1/")[0]
        text = await asyncio.to_thread(render_document, prefix, tuple(self.routes.items()))
        self.set_header("Content-Type", "application/json")
        self.write(text)


def to_path(pattern: str) -> str:
    """Return a route's pattern as documents write it: with its parameters in braces."""
    return "/" + _PART.sub(r"{\1}", pattern)


@cache
def render_document(prefix: str, routes: tuple[tuple[str, type[ApiHandler]], ...]) -> str:
    """Return the document as JSON."""
    return json.dumps(build_document(prefix, routes), ensure_ascii=False)


def build_document(prefix: str, routes: Iterable[tuple[str, type[ApiHandler]]]) -> dict[str, Any]:
    """Return the document of routes, given by their patterns under a path like "/services/nbgpu"."""
    from importlib.metadata import version

    routes = tuple(routes)
    models = {
        (model, mode)
        for _, handler in routes
        for each in handler.operations.values()
        for model, mode in ((each.body, "validation"), (each.answer, "serialization"))
        if model is not None
    }
    ordered = sorted(models, key=lambda pair: (pair[0].__name__, pair[1]))
    names, definitions = models_json_schema(ordered, ref_template=_REFERENCE)  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {"title": "The nbgpu service", "version": version("nbgpu")},
        "servers": [{"url": prefix or "/"}],
        "security": [{"token": []}],
        "paths": {to_path(pattern): _build_path(pattern, handler, names) for pattern, handler in routes},
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "A token of the hub: `token …`.",
                }
            },
        },
    }


def _name(method: str, pattern: str) -> str:
    words = re.findall(r"\w+", to_path(pattern).removeprefix("/api/v1"))
    return "_".join([method.lower(), *words])


def _build_path(pattern: str, handler: type[ApiHandler], names: Mapping[Any, Any]) -> dict[str, Any]:
    parts = _PART.findall(pattern)
    found: dict[str, Any] = {
        method.lower(): {
            "operationId": _name(method, pattern),
            **_build_operation(operation, names, always=(HTTPStatus.NOT_FOUND,) if parts else ()),
        }
        for method, operation in handler.operations.items()
    }
    if parts:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": f"^(?:{allowed})$"}}
            for name, allowed in parts
        ]
    return found


def _build_operation(
    operation: Operation, names: Mapping[Any, Any], *, always: tuple[HTTPStatus, ...]
) -> dict[str, Any]:
    refusals = {*(_ALWAYS if operation.may is not May.ANYBODY else (400,)), *always, *operation.refusals}
    built: dict[str, Any] = {
        "summary": operation.summary,
        "description": f"For: {_WHO[operation.may]}",
        "responses": {
            str(operation.status): _build_answer(operation, names),
            **{str(int(code)): _refusal(code) for code in sorted(refusals)},
        },
    }
    if operation.may is May.ANYBODY:
        built["security"] = []
    parameters: list[Mapping[str, Any]] = [
        {"name": each.name, "in": "query", "description": each.description, "schema": dict(each.schema)}
        for each in operation.parameters
    ]
    if HTTPStatus.PRECONDITION_REQUIRED in operation.refusals:
        parameters.append(_IF_MATCH)
    if parameters:
        built["parameters"] = parameters
    if operation.upload is not None:
        built["requestBody"] = {"required": True, "content": {operation.upload: {"schema": {"type": "string"}}}}
    if operation.body is not None:
        schema = names[operation.body, "validation"]
        built["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return built


def _build_answer(operation: Operation, names: Mapping[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    schemas = {media: {"type": "object" if media == JSON else "string"} for media in operation.media}
    if operation.answer is not None:
        schemas[JSON] = names[operation.answer, "serialization"]
    if operation.status != HTTPStatus.NO_CONTENT:
        answer["content"] = {media: {"schema": schema} for media, schema in schemas.items()}
    return answer


def _refusal(code: int) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model="Problem")}
    return {
        "description": HTTPStatus(code).phrase,
        "content": {"application/problem+json": {"schema": schema}},
    }
