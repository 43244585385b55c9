"""How the service's pages look: templates in the reader's language, in the hub's frame, without inline scripts."""

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

import nbgpu.spawner
from nbgpu.spawner.i18n import COOKIE, LANGUAGES, Translator

STATIC = Path(__file__).parent / "static"
SHARED = Path(nbgpu.spawner.__file__).parent / "templates"  # of the hub's pages: style, times, languages
SHARED_FILES = r"nbgpu\.css|page\.js"

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # the hub's style draws its own icons so
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


@cache
def _environment() -> Environment:
    loader = PackageLoader("nbgpu.service.pages")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def render(name: str, translator: Translator, **values: Any) -> str:
    """Return a page as HTML; all text is escaped."""
    return (
        _environment()
        .get_template(name)
        .render(
            _=translator.markup,
            say=translator.say,
            span=translator.span,
            time=translator.time,
            lang=translator.language,
            languages=LANGUAGES,
            lang_cookie=COOKIE,
            quote=quote,
            **values,
        )
    )
