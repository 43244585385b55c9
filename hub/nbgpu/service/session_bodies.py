"""What may be sent about a session: read strictly, each field with its type and range, and nothing else beside them."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nbgpu.core.activity import Report
from nbgpu.core.errors import InvalidOptions

_MOST = 100_000  # of anything that is counted in one server
_LONGEST = 400 * 24 * 3600  # seconds


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class _Report(_Body):
    kernels: int = Field(ge=0, le=_MOST)
    kernels_busy: int = Field(ge=0, le=_MOST)
    terminals: int = Field(ge=0, le=_MOST)
    terminal_jobs: int = Field(ge=0, le=_MOST)
    person_s_ago: float | None = Field(ge=0, le=_LONGEST)
    sockets: int = Field(ge=0, le=_MOST)


class _Extension(_Body):
    seconds: int | None = Field(None, ge=60, le=_LONGEST)


B = TypeVar("B", bound=_Body)


def parse_report(body: bytes) -> Report:
    """Return what a server tells of itself. Raises InvalidOptions: which field is wrong, and what it may be."""
    found = _parse(_Report, body)
    return Report(
        kernels=found.kernels,
        kernels_busy=found.kernels_busy,
        terminals=found.terminals,
        terminal_jobs=found.terminal_jobs,
        person_ago=found.person_s_ago,
        sockets=found.sockets,
    )


def parse_extension(body: bytes) -> int:
    """Return the seconds that are asked for; 0 is as many as one click gives. Raises InvalidOptions."""
    return _parse(_Extension, body or b"{}").seconds or 0


def _parse(model: type[B], body: bytes) -> B:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(each) for each in first["loc"])[:80] or "The body"
        fields = ", ".join(model.model_fields)
        raise InvalidOptions(f"{where}: {first['msg']}. It is a JSON object with: {fields}.") from None
