"""Sessions on a real hub: four kinds of tokens and what each may, and the page of running servers in Chromium."""

import json

import httpx
import pytest
from playwright.sync_api import expect

from e2e.running import until
from pages.browsing import check, log_in, visit

pytestmark = [pytest.mark.docker, pytest.mark.browser]
REPORT = {"kernels": 1, "kernels_busy": 0, "terminals": 0, "terminal_jobs": 0, "person_s_ago": None, "sockets": 1}


@pytest.fixture
def servers(hub) -> dict[str, str]:
    """Servers of two people; the session of each."""
    users = [hub.add_user(name) for name in ("ida", "ivo")]
    hub.start_all([(user, "", {"profile": "cpu"}) for user in users])
    return {user: hub.lease(user).session_id for user in users}


class Api:
    """The service's API with one token."""

    def __init__(self, hub, token: str) -> None:
        self._url = f"{hub.url}/services/nbgpu/api/v1/sessions"
        self._headers = {"Authorization": f"token {token}"}

    def sessions(self) -> set[str]:
        answer = httpx.get(self._url, headers=self._headers, timeout=20).raise_for_status()
        return {each["session_id"] for each in answer.json()["sessions"]}

    def get(self, session: str) -> httpx.Response:
        return httpx.get(f"{self._url}/{session}", headers=self._headers, timeout=20)

    def post(self, session: str, what: str, body: object) -> httpx.Response:
        return httpx.post(f"{self._url}/{session}/{what}", headers=self._headers, json=body, timeout=20)


def server_token(hub, user: str) -> str:
    """Return the token that a server has of its hub."""
    code, output = hub.run_in(user, "printenv", "JUPYTERHUB_API_TOKEN")
    assert code == 0
    return output.strip()


def test_each_token_reads_and_extends_what_is_its_own(hub, servers):
    mine, theirs = servers["ida"], servers["ivo"]
    user, other = Api(hub, hub.token("ida")), Api(hub, hub.token("ivo"))
    token = server_token(hub, "ida")
    server, admin = Api(hub, token), Api(hub, hub.api.headers["Authorization"].removeprefix("token "))
    assert [api.sessions() for api in (user, server, other)] == [{mine}, {mine}, {theirs}]
    assert admin.sessions() == {mine, theirs}
    assert [api.get(theirs).status_code for api in (user, server, other, admin)] == [403, 403, 200, 200]
    told = [api.post(mine, "report", REPORT).status_code for api in (user, other, admin, server)]
    assert told == [403, 403, 403, 200]
    assert server.post(theirs, "report", REPORT).status_code == 403
    assert [api.post(mine, "extend", {}).status_code for api in (other, user, server)] == [403, 200, 200]
    last = [user.post(mine, "extend", {}).status_code for _ in range(3)]
    assert last == [200, 200, 409], "4 h are the most"
    found = admin.post(mine, "extend", {"seconds": 7200}).json()
    assert found["idle"]["extendable_s"] == 0
    usage = httpx.get(f"{hub.url}/services/nbgpu/api/v1/usage", headers={"Authorization": f"token {token}"}, timeout=20)
    assert usage.status_code == 403, "a notebook's code reads no more than its own session"
    written = json.loads(hub.command("audit", "--json", "--config", str(hub.settings)))
    by = [each["actor"] for each in written if each["action"] == "idle.extend" and mine in each["detail"]]
    assert sorted(by) == ["ida"] * 4 + ["nbgpu-scripts"]


def test_a_servers_token_has_no_more_than_it_needs(hub, servers):
    headers = {"Authorization": f"token {server_token(hub, 'ida')}"}
    found = httpx.get(f"{hub.url}/hub/api/user", headers=headers, timeout=20).json()["scopes"]
    assert set(found) == {
        "access:servers!server=ida/",
        "access:services!service=nbgpu",
        "users:activity!user=ida",
        "read:users:activity!user=ida",
        "read:users:groups!user=ida",
        "read:users:name!user=ida",
    }


def test_people_see_why_their_server_runs_and_keep_it(hub, servers, browser):
    api = Api(hub, server_token(hub, "ida"))

    def is_judged() -> bool:
        reasons = api.post(servers["ida"], "report", REPORT).json()["idle"]["reasons"]
        return {"kernel", "person"} <= {each["signal"] for each in reasons if each["state"] == "quiet"}

    until(is_judged, why="its report was not taken up")
    with visit(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
        log_in(page, hub, "ida", "/hub/home")
        expect(page.locator(".nbgpu-idle")).to_contain_text("Keep it running")
        page.get_by_role("link", name="Keep it running").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("My running servers")
        expect(page.locator(".nbgpu-server")).to_have_count(1)
        page.get_by_text("Why?").click()
        expect(page.locator(".nbgpu-reasons")).to_contain_text("No cell is running.")
        page.get_by_role("button", name="Extend by 1 h").click()
        expect(page.get_by_role("status").first).to_contain_text("not stopped for being idle before")
        expect(page.locator(".nbgpu-server")).to_contain_text("3 h in all can still be had")
        expect(page.locator("time").first).not_to_contain_text("UTC")
        assert refused == []
        page.get_by_text("Why?").click()
        check(page)
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("我正在运行的服务器")


def test_an_administrator_finds_everybodys_servers(hub, servers, browser):
    with visit(browser) as page:
        page.goto(f"{hub.url}/services/nbgpu/servers")
        page.locator("#username_input").fill("admin")
        page.locator("#password_input").fill((hub.data / "demo-admin-password").read_text().strip())
        page.locator("#login_submit").click()
        expect(page.locator(".nbgpu-server")).to_have_count(2)
        check(page)
        page.get_by_label("User, server or flavor").fill("ivo")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".nbgpu-server h2")).to_have_text(["ivo"])
        page.get_by_role("button", name="Extend by").click()
        expect(page.get_by_role("status").first).to_contain_text("ivo is not stopped")
        expect(page.locator(".nbgpu-server h2")).to_have_text(["ivo"])
