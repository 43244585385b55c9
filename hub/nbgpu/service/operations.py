"""What each part of the REST API takes and gives, and who may ask at all: it is checked and told of by this alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from nbgpu.core.errors import InvalidOptions, NotAllowed
from nbgpu.core.scopes import BILL, OPERATE, READ_ALL
from nbgpu.service.callers import Caller


class May(StrEnum):
    """Who may ask at all; finer rules stay in the handler."""

    ANYBODY = "anybody"  # without a token
    OWN = "own"  # whoever may use the service
    READ_ALL = "read-all"
    OPERATE = "operate"
    BILL = "bill"
    SERVER = "server"  # a server's own token
    CULL = "cull"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter in the query; `schema` is JSON Schema."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path. Without `answer` it is told by `media` alone, or has no body where `status` is 204."""

    summary: str
    answer: type[BaseModel] | None
    may: May = May.OWN
    parameters: tuple[Parameter, ...] = ()
    body: type[BaseModel] | None = None
    upload: str | None = None  # instead of a body: the media type of a file, which the handler reads
    status: int = 200
    refusals: tuple[int, ...] = ()  # beside 400, 401, 403, 405 and 503, which all have
    media: tuple[str, ...] = ("application/json",)


def _check_written(value: object) -> object:
    """Refuse numbers, which would be taken for seconds since 1970. Raises ValueError."""
    if isinstance(value, datetime) or (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[Tt ]", value)):
        return value
    raise ValueError('write a time as ISO 8601 with a timezone, like "2026-03-10T13:00:00+01:00"')


SentInstant = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_check_written)]


class Body(BaseModel):
    """What is sent: each field with its type and range, and nothing else beside them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Answer(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # the service must answer at once


DAY = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}  # of a parameter's schema
Instant = Annotated[  # ISO 8601 as Python writes it, "+00:00" and not "Z", as all of the service does
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
B = TypeVar("B", bound=BaseModel)

_NEEDED: Mapping[May, tuple[Callable[[Caller], bool], str]] = {
    May.ANYBODY: (lambda _: True, ""),
    May.OWN: (lambda _: True, ""),
    May.READ_ALL: (lambda caller: caller.reads_all, f"This is for tokens with the scope {READ_ALL}."),
    May.OPERATE: (lambda caller: caller.operates, f"This is for administrators, and tokens with the scope {OPERATE}."),
    May.BILL: (lambda caller: caller.bills, f"This is for administrators, and tokens with the scope {BILL}."),
    May.SERVER: (
        lambda caller: caller.server is not None,
        "A server tells of its own session, with its own token; this token is another's.",
    ),
    May.CULL: (lambda caller: caller.culls, "Only the culler's own token may ask which servers are due."),
    May.METRICS: (
        lambda caller: caller.reads_metrics,
        "This token may not read metrics: its role needs the scope read:metrics.",
    ),
}


def check_may(caller: Caller, may: May) -> None:
    """Raise NotAllowed, with what is needed, where somebody may not ask at all."""
    allows, sentence = _NEEDED[may]
    if not allows(caller):
        raise NotAllowed(sentence)


def parse_body(model: type[B], body: bytes) -> B:
    """Return what was sent; nothing is an empty object. Raises InvalidOptions: which field is wrong, what it may be."""
    if b"\\u0000" in body:
        raise InvalidOptions("The body has a NUL character, which is in no text that can be kept.")
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(each) for each in first["loc"])[:80] or "The body"
        fields = ", ".join(model.model_fields)
        raise InvalidOptions(f"{where}: {first['msg']}. It is a JSON object with: {fields}.") from None
