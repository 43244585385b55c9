"""The API's own document: it is valid, needs no token, tells of each path and is answered again only when it is new."""

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from nbgpu.service.api import ROUTES
from nbgpu.service.handler import to_etag
from nbgpu.service.money_answers import PricesAnswer
from nbgpu.service.openapi import build_document
from service.api_site import authorization, make_books, serving

PREFIX = "/services/nbgpu/"
DOCUMENT = build_document(PREFIX.rstrip("/"), ROUTES.items())


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Asks the API as an administrator."""
    with (
        serving(make_books(tmp_path_factory.mktemp("api")), PREFIX) as address,
        httpx.Client(base_url=f"{address}api/v1/", headers=authorization("admin"), trust_env=False) as found,
    ):
        yield found


def test_it_is_a_valid_document():
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    names = [
        operation["operationId"]
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
        if "summary" in operation
    ]
    assert len(names) == len(set(names)) == sum(len(handler.operations) for handler in ROUTES.values())


def test_each_method_that_is_answered_is_in_it():
    for handler in set(ROUTES.values()):
        own = {method for method in ("get", "post", "put", "delete", "patch") if method in vars(handler)}
        assert {method.lower() for method in handler.operations} >= own, handler


def test_each_operation_says_what_it_answers():
    silent = {
        (path, method)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if method != "parameters" and not operation["responses"].keys() - {"400", "401", "403", "503"}
    }
    assert silent == set()


def test_what_needs_if_match_says_so():
    needing = {
        (path, method): [each["name"] for each in operation.get("parameters", ())]
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if method != "parameters" and "428" in operation["responses"]
    }
    assert {method for _, method in needing} == {"put", "delete"}
    assert all("If-Match" in names for names in needing.values())


def test_it_needs_no_token(client):
    answer = client.get("openapi.json", headers={"Authorization": ""})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DOCUMENT


@pytest.mark.parametrize("path", ["openapi.json", "prices", "pool", "broadcasts", "audit"])
def test_what_is_as_it_was_is_not_sent_again(client, path):
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    other = client.get(path, headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_the_etag_is_that_of_what_is_answered(client):
    answer = client.get("prices")
    assert answer.headers["etag"] == to_etag(PricesAnswer.model_validate_json(answer.content))


@pytest.mark.parametrize("path", ["openapi.json", "prices", "pool"])
def test_what_can_be_asked_again_may_be_kept(client, path):
    assert "no-cache" in client.get(path).headers["cache-control"]
    assert client.get(path, params={"nothing": "1"}).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["nothing", "sessions/a-1/nothing", "broadcasts/one", "pool/"])
def test_a_path_that_is_none_is_a_problem_detail(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "openapi.json" in answer.json()["detail"]


def test_a_method_that_is_none_says_which_there_are(client):
    answer = client.delete("pool")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["detail"] == "There is no such method here; there are: GET."
