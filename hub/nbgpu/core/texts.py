"""Sentences that can be put into a reader's language later.

Who says something (the domain, a spawner) does not know who reads it: the log, the API and the database take the
English of `str(text)`; a page takes the template to its message catalogue and fills it in the reader's language.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """An English template with `%(name)s` places, and what fills them: plain values or other texts."""

    template: str
    params: Mapping[str, object] = field(hash=False)

    def __init__(self, template: str, /, **params: object) -> None:
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "params", params)

    def __str__(self) -> str:
        return self.template % self.params if self.params else self.template


def mark(sentence: str) -> str:
    """Return a sentence as it is; the call marks it for the catalogues, where plain English is kept and shown later."""
    return sentence


def enumerate_texts(items: Iterable[object]) -> Text:
    """Return a list as one text: "a, b, c". Every language has its own comma."""
    first, *rest = items
    if rest:
        return Text("%(first)s, %(rest)s", first=first, rest=enumerate_texts(rest))
    return first if isinstance(first, Text) else Text(str(first))
