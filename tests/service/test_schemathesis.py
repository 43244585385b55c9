"""Whatever the API's own document allows, and much that it does not, is answered as the document says."""

from itertools import cycle, product

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from nbgpu.service.api import ROUTES
from nbgpu.service.openapi import build_document
from service.api_site import authorization, make_books, serving

CONFIG = schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": False}}})
SCHEMA = schemathesis.openapi.from_dict(build_document("", ROUTES.items()), config=CONFIG)
# An empty parameter is as good as none here, and what a schema can't say (a day, a reason, a zone) is refused with 400.
OWN_TESTS = [negative_data_rejection, positive_data_acceptance]
PEOPLE = ("ann", "ann/", "operator", "admin")
KNOWN = {"session_id": "a-1", "uuid": "GPU-0", "number": "1", "name": "own", "kind": "budgets"}
ENOUGH = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where the API answers."""
    books = make_books(tmp_path_factory.mktemp("api"))
    with serving(books) as found:
        yield found.rstrip("/")


@pytest.fixture(scope="module")
def turn():
    """Whose turn it is, one after the other; every second time about something that is there."""
    return cycle(product(PEOPLE, (False, True)))


@SCHEMA.parametrize()
@ENOUGH
def test_answers_are_as_the_document_says(case, address, turn):
    who, known = next(turn)
    for name in set(KNOWN) & set(case.path_parameters if known else ()):
        case.path_parameters[name] = KNOWN[name]
    headers = authorization(who)
    case.call_and_validate(base_url=address, headers=headers, excluded_checks=OWN_TESTS)
