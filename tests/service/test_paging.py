"""Pages of lists, bodies and ETags: what is none is refused in words, and a cursor finds its place again."""

import base64
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders
from tornado.web import HTTPError

from nbgpu.core.errors import InvalidOptions
from nbgpu.service.handler import ApiHandler, to_etag
from nbgpu.service.money_answers import PricesAnswer, QuotasAnswer
from nbgpu.service.operations import parse_body
from nbgpu.service.paging import Page, parse_page, to_cursor
from nbgpu.service.session_bodies import ExtensionBody

BIG = st.integers(-(2**63), 2**63 - 1)


def parse(kinds=(int,), **parameters):
    return parse_page(parameters.get, kinds=kinds)


@given(st.text(max_size=200), BIG)
def test_a_cursor_finds_its_place_again(text, number):
    assert parse(kinds=(str, int), cursor=to_cursor(text, number)) == Page(100, (text, number))


@given(st.text(max_size=80))
def test_whatever_is_sent_is_a_page_or_refused(text):
    for name in ("cursor", "limit"):
        try:
            parse(**{name: text})
        except InvalidOptions as error:
            assert len(str(error)) < 200  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("limit", ["0", "501", "-1", "1.0", "ten", "1e2", "١", "99999999999"])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(InvalidOptions, match="it is a whole number from 1 to 500"):
        parse(limit=limit)


@pytest.mark.parametrize(
    "cursor",
    [
        "?",
        "é",
        to_cursor("one"),
        to_cursor(1, 2),
        to_cursor(),
        to_cursor(2**63),
        to_cursor(True),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
        base64.urlsafe_b64encode(b"[" * 1000).decode(),
        base64.urlsafe_b64encode(b"\xff").decode(),
        "A" * 2001,
    ],
)
def test_a_cursor_of_another_list_is_refused(cursor):
    with pytest.raises(InvalidOptions, match="This cursor is none of this list"):
        parse(cursor=cursor)


def test_a_body_with_a_nul_is_refused():
    with pytest.raises(InvalidOptions, match="The body has a NUL character"):
        parse_body(ExtensionBody, rb'{"seconds": "\u0000"}')


NOW = QuotasAnswer(user="ann", quotas=[])
THEN = QuotasAnswer(user="bob", quotas=[])


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 428),
        ("", 412),
        (to_etag(THEN), 412),
        (to_etag(PricesAnswer(prices=[])), 412),
        (to_etag(NOW), None),
        (f"W/{to_etag(NOW)}", None),
        (f"{to_etag(THEN)}, {to_etag(NOW)}", None),
    ],
)
def test_who_changes_something_has_seen_it_as_it_is(sent, status):
    request = SimpleNamespace(headers=HTTPHeaders({} if sent is None else {"If-Match": sent}))
    handler = SimpleNamespace(request=request)
    if status is None:
        ApiHandler.check_match(handler, NOW)
        return
    with pytest.raises(HTTPError, match=str(status)) as refused:
        ApiHandler.check_match(handler, NOW)
    assert refused.value.reason.endswith(".")
