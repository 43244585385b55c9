"""The reader's language: chosen from cookie and browser, texts from message catalogues (gettext), English without one.

Catalogues lie in locale/; `make texts` brings them up to date and a test holds them to the code.
"""

import gettext
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from nbgpu.core.texts import Text
from nbgpu.core.units import render_span

LOCALE = Path(__file__).parent / "locale"
DOMAIN = "nbgpu"
COOKIE = "nbgpu-lang"
DEFAULT = "en"
LANGUAGES: Mapping[str, str] = {"en": "English", "zh-CN": "中文"}  # each by its own name


class Translator:
    """Puts texts into one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._catalogue = gettext.translation(DOMAIN, LOCALE, [language.replace("-", "_")], fallback=True)

    def say(self, text: object, /, **params: object) -> str:
        """Return a text, or a template and what fills it, as plain text."""
        template, filling = _parts(text, params)
        filled = {name: self.say(value) if isinstance(value, Text) else value for name, value in filling.items()}
        return self._find(template) % filled if filled else self._find(template)

    def markup(self, text: object, /, **params: object) -> Markup:
        """Return the same for HTML: escaped, but for params that are markup already."""
        template, filling = _parts(text, params)
        filled = {name: self.markup(value) if isinstance(value, Text) else value for name, value in filling.items()}
        found = escape(self._find(template))
        return found % filled if filled else found

    def span(self, span: timedelta) -> str:
        """Return a span like "1 h 30 min"."""
        words = render_span(span).split()
        pairs = zip(words[::2], words[1::2], strict=True)
        return " ".join(self.say(_UNITS[unit], count=count) for count, unit in pairs)

    @staticmethod
    def time(instant: datetime) -> Markup:
        """Return an element that page.js shows in the reader's own zone; without it, UTC stays."""
        utc = instant.astimezone(UTC)
        return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), f"{utc:%Y-%m-%d %H:%M} UTC")

    def _find(self, template: str) -> str:
        return self._catalogue.gettext(template) if template else ""  # the empty message is the catalogue's header


_UNITS = {
    "d": Text("%(count)s d").template,
    "h": Text("%(count)s h").template,
    "min": Text("%(count)s min").template,
    "s": Text("%(count)s s").template,
}


def _parts(text: object, params: dict[str, object]) -> tuple[str, Mapping[str, object]]:
    return (text.template, text.params) if isinstance(text, Text) else (str(text), params)


@cache
def get_translator(language: str) -> Translator:
    """Return the translator of one of LANGUAGES."""
    return Translator(language)


def translator_for(request_handler: Any) -> Translator:
    """Return the translator for who asks, from a Tornado handler; English where there is none."""
    if request_handler is None:
        return get_translator(DEFAULT)
    accepted = request_handler.request.headers.get("Accept-Language")
    return get_translator(choose_language(request_handler.get_cookie(COOKIE), accepted))


def choose_language(wanted: str | None, accepted: str | None) -> str:
    """Return one of LANGUAGES: the one switched to, else the first that the browser accepts, else English."""
    if wanted is not None and wanted in LANGUAGES:
        return wanted
    found = (_match(tag) for tag in _by_weight(accepted or ""))
    return next((language for language in found if language is not None), DEFAULT)


def _match(tag: str) -> str | None:
    """A language of ours for a tag like "zh-Hans-CN" or "en-GB"; of Chinese there is only the simplified."""
    primary = tag.split("-")[0].lower()
    return next((language for language in LANGUAGES if language.split("-")[0] == primary), None)


def _by_weight(accepted: str) -> list[str]:
    """The tags of an Accept-Language header, most wanted first; what is malformed or refused (q=0) is left out."""
    weighted = []
    for part in accepted.split(","):
        tag, _, parameter = part.strip().partition(";")
        try:
            weight = float(parameter.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if tag and weight > 0:
            weighted.append((-weight, tag.strip()))
    return [tag for _, tag in sorted(weighted, key=lambda each: each[0])]
