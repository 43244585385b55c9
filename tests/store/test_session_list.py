"""Lists of sessions in the database: each filter, each order, pages there and back while sessions come and go."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.session_list import Order, SessionQuestion, Wanted
from nbgpu.store import open_database
from nbgpu.store.idle import SqlIdle
from nbgpu.store.schema import ChargeRow, SessionRow
from nbgpu.store.session_list import SqlSessionList
from nbgpu.store.work import unit_of_work
from store.conftest import START

HOUR = timedelta(hours=1)
NOW = START + 100 * HOUR
PEOPLE = {  # user/server, flavor, groups, hour of the begin, hours that it ran, cost; None of those that run
    "s-1": ("ann", "", "a100", ["ml"], 1, 2, 500),
    "s-2": ("ann", "x%", "cpu", ["ml", "Käse"], 2, None, 0),
    "s-3": ("bob", "", "cpu", [], 2, 5, 900),
    "s-4": ("Bo", "y", "a100", ["mla"], 3, None, 700),
    "s-5": ("cy", "", "t4", ["ml"], 90, 1, 500),
}


def add(engine, session_id, user, server, flavor, groups, begin, ran, cost, *, number=0):
    began = START + begin * HOUR
    ended = began + ran * HOUR if ran is not None else None
    with unit_of_work(engine) as db:
        row = SessionRow(session_id=session_id, username=user, servername=server, flavor=flavor, user_groups=groups)
        row.image, row.image_id, row.price_per_hour, row.settled = "base", "i", 1, number % 2 == 0
        row.state, row.created_at, row.active_at, row.released_at = "active", began, began, ended
        row.release_reason = "stopped" if ended else None
        db.add(row)
        if cost:
            db.add(charge(number, session_id, cost))


def charge(number, session_id, cost):
    texts = dict.fromkeys(
        ["username", "billing_group", "flavor", "sku_id", "resource_id", "consumed_unit", "author"], ""
    )
    numbers = dict.fromkeys(["charge_period_start", "charge_period_end", "consumed_seconds", "list_unit_price"], 0)
    return ChargeRow(
        id=number,
        charge_key=session_id,
        session_id=session_id,
        billed_cost=cost,
        charge_category="Usage",
        charge_class="",
        billing_currency="USD",
        estimated=False,
        reason="",
        recorded_at=0,
        **texts,
        **numbers,
    )


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request, tmp_path_factory):
    """A database for all tests that only look."""
    is_sqlite = request.param == "sqlite"
    file = tmp_path_factory.mktemp("sessions") / "nbgpu.sqlite"
    engine = open_database(f"sqlite:///{file}" if is_sqlite else request.getfixturevalue("postgresql")())
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def sessions(engine):
    for number, (session_id, values) in enumerate(PEOPLE.items(), start=1):
        add(engine, session_id, *values, number=number)
    with unit_of_work(engine) as db:  # never ran: it is in no list
        db.add(
            SessionRow(
                session_id="s-0",
                username="dan",
                servername="",
                flavor="cpu",
                image="base",
                image_id="i",
                price_per_hour=1,
                state="pending",
                created_at=START,
            )
        )
    return SqlSessionList(engine, SqlIdle(engine, IdleSite(), lambda: NOW), lambda: NOW)


def ids(page):
    return [row.view.session_id for row in page.rows]


ALL = {"wanted": Wanted.ALL, "order": Order.STARTED}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ({}, ["s-4", "s-2"]),
        ({"wanted": Wanted.ENDED}, ["s-5", "s-3", "s-1"]),
        (ALL, ["s-1", "s-2", "s-3", "s-4", "s-5"]),
        (ALL | {"order": Order.USER, "username": "ann"}, ["s-1", "s-2"]),
        (ALL | {"order": Order.FLAVOR}, ["s-1", "s-4", "s-2", "s-3", "s-5"]),
        (ALL | {"order": Order.FLAVOR_DOWN}, ["s-5", "s-3", "s-2", "s-4", "s-1"]),
        (ALL | {"order": Order.COST}, ["s-2", "s-1", "s-5", "s-4", "s-3"]),
        (ALL | {"order": Order.DEAREST}, ["s-3", "s-4", "s-5", "s-1", "s-2"]),
        (ALL | {"order": Order.RAN}, ["s-5", "s-1", "s-3", "s-4", "s-2"]),
        (ALL | {"order": Order.LONGEST}, ["s-2", "s-4", "s-3", "s-1", "s-5"]),
        (ALL | {"username": "ann", "servername": ""}, ["s-1"]),
        (ALL | {"flavor": "cpu"}, ["s-2", "s-3"]),
        (ALL | {"group": "ml"}, ["s-1", "s-2", "s-5"]),
        (ALL | {"group": "Käse"}, ["s-2"]),
        (ALL | {"group": "m%"}, []),
        (ALL | {"group": "ML"}, []),
        (ALL | {"text": "BO"}, ["s-3", "s-4"]),
        (ALL | {"text": "ann/x% c"}, ["s-2"]),
        (ALL | {"text": "b_b"}, []),
        (ALL | {"since": START + 2 * HOUR}, ["s-2", "s-3", "s-4", "s-5"]),
        (ALL | {"before": START + 2 * HOUR}, ["s-1"]),
    ],
)
def test_what_is_looked_for_is_found_in_its_order(sessions, question, found):
    page = sessions.find(SessionQuestion(**question), count=10)
    assert (ids(page), page.total, page.is_more) == (found, len(found), False)


@pytest.mark.parametrize("order", Order)
def test_pages_go_there_and_back(sessions, order):
    question = SessionQuestion(wanted=Wanted.ALL, order=order)
    whole = sessions.find(question, count=10)
    first = sessions.find(question, count=2)
    second = sessions.find(question, count=2, edge=first.rows[-1].place)
    third = sessions.find(question, count=2, edge=second.rows[-1].place)
    back = sessions.find(question, count=2, edge=third.rows[0].place, backwards=True)
    begin = sessions.find(question, count=2, edge=second.rows[0].place, backwards=True)
    assert ids(first) + ids(second) + ids(third) == ids(whole)
    assert [each.is_more for each in (first, second, third)] == [True, True, False]
    assert (ids(back), back.is_more) == (ids(second), True)
    assert (ids(begin), begin.is_more) == (ids(first), False)
    assert {page.total for page in (first, second, third, back)} == {5}


def test_what_comes_and_goes_moves_no_page(sessions, engine):
    question = SessionQuestion(wanted=Wanted.ALL)
    first = sessions.find(question, count=2)
    add(engine, "s-6", "eve", "", "cpu", [], 95, None, 0)
    second = sessions.find(question, count=2, edge=first.rows[-1].place)
    with unit_of_work(engine) as db:
        db.delete(db.get_one(SessionRow, "s-6"))
    assert (ids(first), ids(second)) == (["s-5", "s-4"], ["s-3", "s-2"])


def test_why_it_ended_is_there_and_when(sessions):
    ended = sessions.find(SessionQuestion(wanted=Wanted.ENDED, username="bob"), count=1).rows[0]
    assert (ended.reason, ended.view.ended_at) == ("stopped", START + 7 * HOUR)


@settings(max_examples=8, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(1, 3), st.integers(0, 2)), max_size=9
    ),
    order=st.sampled_from(Order),
    count=st.integers(1, 4),
)
def test_pages_together_are_all_once_in_order(tmp_path_factory, values, order, count):
    engine = open_database(f"sqlite:///{tmp_path_factory.mktemp('list') / 'nbgpu.sqlite'}")
    for number, (user, flavor, begin, cost) in enumerate(values, start=1):
        add(engine, f"s-{number}", user, f"{number}", flavor, [], begin, number % 3, cost, number=number)
    found = SqlSessionList(engine, SqlIdle(engine, IdleSite(), lambda: NOW), lambda: NOW)
    question, places, page = SessionQuestion(wanted=Wanted.ALL, order=order), [], None
    while page is None or page.is_more:
        page = found.find(question, count=count, edge=places[-1] if places else None)
        places += [row.place for row in page.rows]
    engine.dispose()
    keys = [(each.value, each.created, each.session_id) for each in places]
    assert keys == sorted(keys, reverse=order.is_down)
    assert len({key[2] for key in keys}) == len(keys) == len(values)
