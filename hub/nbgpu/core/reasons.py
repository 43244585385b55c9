"""Why somebody did something, in their own words, as it is kept. Pure."""

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.texts import Text

LONGEST = 200  # characters


def parse_reason(text: str) -> str:
    """Return a reason as one line that can be printed anywhere. Raises InvalidOptions where it says nothing."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())[:LONGEST]
    if not line:
        raise InvalidOptions(Text("Say why: the reason is kept in the audit log."))
    return line
