"""Docker goes away, or hangs, while the hub runs and while it restarts: no notebook is lost, nothing is invented."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from e2e.running import agree, until

pytestmark = pytest.mark.docker
AWAY = 7  # seconds
PROMPT = 2  # seconds in which what needs no engine is answered
USERS = ("w-ann", "w-bob")


@pytest.fixture
def users(site):
    """Two people whose notebooks run, and one who has none."""
    for user in (*USERS, "w-new"):
        site.add_user(user)
    site.start_all([("w-ann", "", {"profile": "a100"}), ("w-bob", "", {"profile": "t4-shared"})])
    return USERS


def picture(site):
    """What is held and what runs."""
    containers = {each.labels["org.nbgpu.session"]: (each.id, each.attrs["State"]["Pid"]) for each in site.containers()}
    return {lease.session_id: (lease.server, lease.state) for lease in site.leases()}, containers


def is_whole(site):
    """Whether the hub says of every notebook that it runs, and each answers through the proxy."""
    models = [site.server(user) for user in USERS]
    return all(model and model["ready"] and not model["pending"] for model in models) and all(
        site.notebook(user, "api/status").status_code == httpx.codes.OK for user in USERS
    )


def timed(call, *args, **kwargs):
    """Return an answer and the seconds it took."""
    begun = time.monotonic()
    answer = call(*args, **kwargs)
    return answer, time.monotonic() - begun


def check_refused_plainly(site, user):
    answer, seconds = timed(site.start_server, user, profile="cpu")
    assert answer.status_code in (500, 503), answer.text
    assert "Docker" in answer.json()["message"]
    assert "Traceback" not in answer.text
    assert seconds < 30
    assert site.lease(user) is None
    assert site.server(user) is None


@pytest.mark.parametrize(("end", "away"), [("stop", AWAY), ("kill", 30)])
def test_the_hub_restarts_without_the_engine_and_loses_nothing(site, engine, users, end, away):
    before = picture(site)
    with engine.away():
        begun = time.monotonic()
        getattr(site, end)()
        site.start()
        until(lambda: is_whole(site), why="a running notebook is lost")
        check_refused_plainly(site, "w-new")
        time.sleep(max(0, away - (time.monotonic() - begun)))
        assert is_whole(site)
        assert picture(site) == before
    assert is_whole(site)
    assert picture(site) == before
    site.started("w-new", profile="cpu")
    for user in USERS:
        site.stop_server(user)  # what was taken up can be ended
    assert [lease.server.username for lease in site.leases()] == ["w-new"]


def test_the_hub_restarts_before_an_engine_that_hangs(site, engine, users):
    before = picture(site)
    with engine.hanging():
        site.stop()
        _, seconds = timed(site.start)
        assert seconds < 45
        until(lambda: is_whole(site), seconds=30, why="a running notebook is lost")
        assert picture(site) == before
    until(lambda: is_whole(site), why="a running notebook is lost")
    assert picture(site) == before


@pytest.mark.case(7)
def test_the_engine_goes_and_comes_back_while_the_hub_runs(site, engine, users):
    before = picture(site)
    with site.logged_in("w-new") as session, engine.away():
        check_refused_plainly(site, "w-new")
        page = session.get("/spawn")
        assert "Docker" in page.text
        assert "Traceback" not in page.text
        assert site.api.delete("/users/w-bob/server").status_code in (202, 204, 500)
        time.sleep(AWAY)
        assert picture(site)[1] == before[1]
        assert site.lease("w-bob") is not None, "what can't be ended keeps its devices"
    until(lambda: site.lease("w-bob") is None, seconds=60, why="the stop is not made up for")
    assert len(site.containers()) == 1
    assert site.notebook("w-ann", "api/status").status_code == httpx.codes.OK
    site.started("w-bob", profile="cpu")


def test_an_engine_that_hangs_holds_up_nobody_who_does_not_need_it(site, engine, users):
    crowd = [site.add_user(f"w-crowd-{number}") for number in range(10)]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(4 * len(crowd)) as pool:
        session = stack.enter_context(site.logged_in("w-ann"))
        lookers = [stack.enter_context(site.logged_in(user)) for user in crowd]
        headers = {"Authorization": f"token {site.token('w-ann')}"}
        with engine.hanging():
            asked = len(engine.calls)
            pages = [pool.submit(looker.get, "/spawn") for looker in lookers * 2]
            starts = [pool.submit(site.start_server, user, profile="cpu") for user in crowd]
            until(lambda: len(engine.calls) - asked > 5, why="nobody asks the engine")
            slow = []
            for _ in range(5):
                for path in ("/hub/home", "/hub/token", "/hub/api/users/w-ann", "/user/w-ann/api/status"):
                    answer, seconds = timed(session.get, site.url + path, headers=headers)
                    assert answer.status_code == httpx.codes.OK, path
                    slow += [(path, seconds)] if seconds > PROMPT else []
                time.sleep(0.3)
            assert slow == []
            answers = [each.result(90) for each in starts]
        # What takes more than ten seconds is answered with 202, and ends after that.
        assert {answer.status_code for answer in answers} <= {202, 500, 503}
        assert all("Docker" in answer.json()["message"] for answer in answers if answer.status_code != 202)
        assert all("Traceback" not in page.result(90).text for page in pages)
    agree(site)  # a start that was still waiting when the engine came back may have gone on
    assert {lease.server.username for lease in site.leases()} >= set(USERS)
    until(lambda: is_whole(site), why="a notebook is lost")


def test_a_first_start_without_the_engine_says_so_plainly(site_settings, engine, tmp_path):
    from faults.site import FaultySite

    site = FaultySite(tmp_path / "data", site_settings, engine.docker_host)
    with engine.away():
        site.launch()
        assert site.hub._process.wait(60) == 1
        site.stop()
    assert "Docker does not answer" in site.log()
    assert "Traceback" not in site.log()
    site.close()
