"""Catalogues are in step with the code: every text is in them, translated, with the same places to fill."""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po

from nbgpu.spawner.i18n import DEFAULT, LANGUAGES, LOCALE

ROOT = Path(__file__).parents[2]
FOLDERS = {tag: LOCALE / tag.replace("-", "_") / "LC_MESSAGES" for tag in LANGUAGES if tag != DEFAULT}
PLACES = re.compile(r"%\(\w+\)s|%")


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> set[str]:
    """Every text of the code, as `make texts` finds them."""
    file = tmp_path_factory.mktemp("texts") / "nbgpu.pot"
    command = re.search(r'"\$pybabel" -q (extract .*?)\n  -o "\$template" (.*)', (ROOT / ".ci/texts").read_text())
    assert command is not None
    pybabel = shutil.which("pybabel", path=str(Path(sys.executable).parent))
    assert pybabel is not None
    options, folders = command[1].rstrip(" \\").split(), command[2].split()
    subprocess.run([pybabel, "-q", *options, "-o", str(file), *folders], cwd=ROOT, check=True)
    return {message.id for message in read_po(io.BytesIO(file.read_bytes())) if message.id}


def read_catalogue(language: str) -> Catalog:
    return read_po(io.BytesIO((FOLDERS[language] / "nbgpu.po").read_bytes()), abort_invalid=True)


@pytest.mark.parametrize("language", FOLDERS)
def test_the_catalogue_has_exactly_the_texts_of_the_code(language, texts):
    catalogue = read_catalogue(language)
    assert {message.id for message in catalogue if message.id} == texts, "run `make texts` and translate what is new"
    assert not catalogue.obsolete


@pytest.mark.parametrize("language", FOLDERS)
def test_every_text_is_translated_with_its_places(language):
    for message in read_catalogue(language):
        if message.id:
            assert message.string, message.id
            assert not message.fuzzy, message.id
            assert sorted(PLACES.findall(message.string)) == sorted(PLACES.findall(message.id)), message.id


@pytest.mark.parametrize("language", FOLDERS)
def test_the_compiled_catalogue_is_the_written_one(language):
    compiled = io.BytesIO()
    write_mo(compiled, read_catalogue(language))
    with (FOLDERS[language] / "nbgpu.mo").open("rb") as file:
        committed = {message.id: message.string for message in read_mo(file)}
    assert committed == {message.id: message.string for message in read_mo(io.BytesIO(compiled.getvalue()))}
