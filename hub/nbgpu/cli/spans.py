"""Options that take a span, like "2 h"."""

from datetime import timedelta


def parse_span_option(text: str, option: str) -> timedelta:
    """Return a span. Raises InvalidOptions, which names the option."""
    from nbgpu.core.errors import InvalidOptions
    from nbgpu.core.units import parse_span

    try:
        return parse_span(text)
    except ValueError as error:
        raise InvalidOptions(f"{option} “{text[:40]}” is not {error}.") from None
