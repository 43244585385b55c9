"""The client against the real service: answers as values, lists as they go on, refusals in the service's own words."""

from contextlib import contextmanager
from datetime import date
from http.server import ThreadingHTTPServer
from threading import Thread

import pytest
from tornado.testing import bind_unused_port

from nbgpu.client import Client, ServiceRefused, ServiceUnavailable
from nbgpu.core.errors import InvalidOptions
from service.api_site import make_books, serving
from support.answering import Answering

PREFIX = "/services/nbgpu/"


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    return make_books(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def url(books):
    with serving(books, PREFIX) as found:
        yield found


@pytest.fixture
def admin(url):
    with Client(url, "admin", direct=True) as client:
        yield client


def test_money_and_prices_are_read(admin):
    assert [each.sku_id for each in admin.prices()] == ["cpu:host:on-demand", "gpu:gpu:on-demand", "gpu:host:on-demand"]
    assert {each.budget for each in admin.budgets()} == {"ml", "own"}
    assert {(each.budget, each.owner) for each in admin.budgets("bob")} == {("own", "bob")}
    assert [(each.kind, each.value, each.used) for each in admin.quotas("ann")] == [("servers", 3, 1)]
    statement = admin.usage("user,day", first="2026-03-01", last="2026-03-10", user="ann")
    assert (statement.from_, statement.to, statement.by) == (date(2026, 3, 1), date(2026, 3, 10), ["user", "day"])


def test_a_device_is_taken_out_of_service_and_given_back(admin):
    pool = admin.pool()
    assert [each.uuid for each in pool.devices] == ["GPU-0", "GPU-1"]
    assert [holder.user for holder in pool.devices[1].holders] == ["ann"]
    free = pool.devices[0].instances[0]
    assert admin.cordon(free.uuid, "a fan").state == "out"
    with pytest.raises(ServiceRefused, match="is out of service already") as refused:
        admin.cordon(free.uuid, "a fan")
    assert refused.value.status == 409
    assert admin.give_back(free.uuid, "a new fan").state == "free"
    newest = next(admin.audit(subject=free.uuid))
    assert (newest.actor, newest.action) == ("admin", "gpu.return")


def test_the_audit_log_goes_on_past_its_first_page(admin, books):
    for number in range(230):
        books.audit.record(actor="many", action="price.set", subject=str(number), detail="")
    found = [int(row.subject) for row in admin.audit(actor="MANY")]
    assert found == list(range(229, -1, -1))
    assert list(admin.audit(actor="many", last="2026-03-09")) == []


def test_a_session_is_read_and_kept_running(admin):
    session = admin.session("b-1")
    assert (session.user, session.idle) == ("bob", None)
    assert admin.extend("a-1", 7200).idle.extended_until is not None


def test_a_refusal_has_the_services_own_words(url):
    with Client(url, "ann", direct=True) as ann:
        with pytest.raises(ServiceRefused, match="This is for administrators") as refused:
            ann.pool()
        assert refused.value.status == 403
    with Client(url, "admin", direct=True) as admin, pytest.raises(ServiceRefused, match="“nobody”"):
        admin.budgets("nobody")
    with Client(url, "wrong", direct=True) as stranger, pytest.raises(ServiceRefused, match="A token of the hub"):
        stranger.prices()


def test_no_answer_is_told_with_the_address():
    sock, port = bind_unused_port()
    sock.close()
    address = f"http://127.0.0.1:{port}/services/nbgpu"
    with (
        Client(address, "t", direct=True) as client,
        pytest.raises(ServiceUnavailable, match=f"No nbgpu service answers at {address} "),
    ):
        client.prices()


def test_an_answer_that_does_not_come_is_not_waited_for():
    sock, port = bind_unused_port()
    with (
        sock,
        Client(f"http://127.0.0.1:{port}/services/nbgpu", "t", direct=True, timeout=0.2) as client,
        pytest.raises(ServiceUnavailable, match="did not answer in time"),
    ):
        client.prices()


@contextmanager
def another_program():
    """Run what answers each GET with an empty object, and everything else in HTML; give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_program_is_told_as_such():
    with another_program() as url, Client(url, "t", direct=True) as client:
        with pytest.raises(ServiceUnavailable, match="it is no nbgpu service, or one of another version"):
            client.prices()
        with pytest.raises(ServiceUnavailable, match="Something else than the nbgpu service answers"):
            client.cordon("GPU-0", "a fan")


@pytest.mark.parametrize(
    ("url", "token", "message"),
    [
        ("hub.example.org", "t", "is no address: give one like https://"),
        ("ftp://hub.example.org", "t", "is no address"),
        ("http://", "t", "is no address"),
        ("http://hub.example.org", "token…", "The token has a character"),
        ("http://hub.example.org", "a\nb", "The token has a character"),
    ],
)
def test_what_can_be_no_service_is_refused_at_once(url, token, message):
    with pytest.raises(InvalidOptions, match=message):
        Client(url, token)
