"""What the keys of nbgpu.toml are made of: sizes, spans, prices and names as people write them."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nbgpu.core.units import parse_price, parse_size, parse_span

SLUG = r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$"


def _text(parse: Callable[[str], Any]) -> Callable[[object], Any]:
    """Make a parser of texts say "got a number" in its own words instead of failing inside."""

    def before(value: object) -> object:
        return parse(str(value) if isinstance(value, str | int | float | Decimal) else repr(value))

    return before


Size = Annotated[int, BeforeValidator(_text(parse_size))]
Span = Annotated[timedelta, BeforeValidator(_text(parse_span))]
Price = Annotated[int, BeforeValidator(_text(parse_price))]
Slug = Annotated[str, Field(pattern=SLUG)]


class Section(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
