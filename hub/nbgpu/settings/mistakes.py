"""What is wrong with a value, in one sentence: the same for nbgpu.toml, a form, the API and a CSV file."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from nbgpu.core.units import render_span

_LONGEST_VALUE = 60


def describe_mistake(place: str, mistake: Mapping[str, Any]) -> str:
    """Return a mistake of pydantic's as "key = value: what is wrong; what is allowed"."""
    message = str(mistake["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if mistake["type"] == "missing":
        return f"{place}: is missing; this key is required."
    if mistake["type"] == "extra_forbidden":
        return f"{place}: there is no such key; docs/reference/settings.md lists all."
    if mistake["type"] == "value_error" and isinstance(mistake["input"], dict):
        return f"{place}: {message}."
    return f"{place} = {_show(mistake['input'])}: is not allowed; allowed is {message}."


def _show(value: object) -> str:
    value = render_span(value) if isinstance(value, timedelta) else value
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
