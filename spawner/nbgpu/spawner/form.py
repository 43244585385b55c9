"""The inside of the spawn form, rendered from the menu view."""

from functools import cache

from jinja2 import Environment, PackageLoader

from nbgpu.spawner.cards import KIND_TITLES, group_cards
from nbgpu.spawner.desk import MenuView
from nbgpu.spawner.i18n import Translator


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("nbgpu.spawner"), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def render_form(view: MenuView, translator: Translator) -> str:
    """Return HTML: the cards by kind, then the images. All text is escaped."""
    return (
        _environment()
        .get_template("menu.html")
        .render(
            view=view,
            groups=group_cards(view.cards),
            kind_titles=KIND_TITLES,
            _=translator.markup,
            span=translator.span,
            time=translator.time,
        )
    )
