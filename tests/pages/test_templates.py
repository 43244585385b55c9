"""The hub's pages as the hub renders them: its own templates under ours, names of any kind, and whose data is shown."""

from pathlib import Path
from types import SimpleNamespace

import jupyterhub
import pytest
from bs4 import BeautifulSoup
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH
from tornado.httputil import HTTPHeaders

import nbgpu.spawner
from nbgpu.core.errors import NoCapacity
from nbgpu.core.texts import Text
from nbgpu.spawner.failures import to_spawn_exception
from nbgpu.spawner.i18n import get_translator
from nbgpu.spawner.pages import build_template_vars
from support.users import start

OURS = Path(nbgpu.spawner.__file__).parent / "templates"
HUBS = Path(DATA_FILES_PATH) / "templates"
EVIL = "<i>&\"'x/y"


class Handler:
    """What our functions ask of the handler that renders a page."""

    def __init__(self, user, *, accepted: str = "en", cookie: str | None = None) -> None:
        self.current_user = user
        self.request = SimpleNamespace(headers=HTTPHeaders({"Accept-Language": accepted}))
        self._cookie = cookie

    def get_cookie(self, name: str) -> str | None:
        return self._cookie

    def static_url(self, path: str, **_: object) -> str:
        return f"/static/{path}"


@pytest.fixture
def render(site):
    """Return a function that renders a page as the hub does for who asks."""
    hubs = FileSystemLoader(HUBS)
    loader = ChoiceLoader([PrefixLoader({"templates": hubs}, "/"), FileSystemLoader([OURS, HUBS])])
    environments = {mode: Environment(loader=loader, autoescape=True, enable_async=mode) for mode in (True, False)}

    async def render(name: str, handler: Handler, *, sync: bool = False, **more: object) -> BeautifulSoup:
        names = {
            "base_url": "/hub/",
            "prefix": "/",
            "user": handler.current_user,
            "static_url": handler.static_url,
            "parsed_scopes": {},
            "no_spawner_check": True,
            "xsrf": "token",
            "nbgpu_simulated": True,
            **{key: value(None) if callable(value) else value for key, value in build_template_vars(site.desk).items()},
            **more,
        }
        template = environments[not sync].get_template(name)
        return BeautifulSoup(template.render(names) if sync else await template.render_async(names), "html.parser")

    return render


def viewer(name: str, *, admin: bool = False):
    return SimpleNamespace(name=name, admin=admin, json_escaped_name=name, escaped_name=name)


@pytest.mark.parametrize(
    ("accepted", "cookie", "language", "home"),
    [
        ("en", None, "en", "Home"),
        ("zh", None, "zh-CN", "主页"),
        ("zh", "en", "en", "Home"),
        ("en", "zh-CN", "zh-CN", "主页"),
    ],
)
async def test_the_language_is_set_before_anything_is_read(render, accepted, cookie, language, home):
    page = await render("page.html", Handler(viewer("ann"), accepted=accepted, cookie=cookie))
    first = page.head.find_all(["script", "link", "style"])[0]
    assert first.text == f'document.documentElement.lang = "{language}";'
    assert page.select_one(".nav-link").text == home
    pressed = {each["lang"]: each["aria-pressed"] for each in page.select("[data-language]")}
    assert pressed == {tag: "true" if tag == language else "false" for tag in ("en", "zh-CN")}


@pytest.mark.parametrize(
    ("scopes", "managed"),
    [
        ((), []),
        (("custom:nbgpu:usage:read",), ["alerts"]),
        (("custom:nbgpu:bill",), ["limits", "alerts"]),
        (("custom:nbgpu:operate",), ["sessions", "pool", "alerts", "notices", "audit", "images", "doctor"]),
        (("admin-ui",), ["sessions", "pool", "limits", "alerts", "notices", "audit", "images", "doctor"]),
    ],
)
async def test_the_bar_has_the_pages_that_the_services_has(render, scopes, managed):
    page = await render("page.html", Handler(viewer("ann")), parsed_scopes={key: {} for key in scopes})
    found = [each["href"].removeprefix("/services/nbgpu/") for each in page.select("a[href^='/services/nbgpu/']")]
    assert found == ["servers", "usage", "prices", *managed]


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
async def test_errors_are_rendered_without_a_loop_and_say_where_to_go(render, status):
    name = "404.html" if status == 404 else "error.html"
    texts = {"status_code": status, "status_message": "Because", "message": EVIL, "message_html": ""}
    page = await render(name, Handler(viewer("ann")), sync=True, **texts)
    assert page.select_one("main a")["href"] == "/hub/home"
    assert (EVIL in page.main.text) == (status != 404)
    assert page.main.find("i") is None


@pytest.mark.parametrize(
    ("status", "asked", "again"),
    [
        (503, "/services/nbgpu/usage?by=day", "/services/nbgpu/usage?by=day"),
        (503, "/services/nbgpu/../../hub/logout", "/services/nbgpu/servers"),
        (503, "/services/nbgpu/%2e%2E/%2e%2e/hub/logout", "/services/nbgpu/servers"),
        (503, "/services/nbgpu/x;url=https://evil.example", "/services/nbgpu/servers"),
        (503, "https://evil.example/services/nbgpu/", None),
        (503, "//evil.example/services/nbgpu/", None),
        (503, "/user/ann/", None),
        (404, "/services/nbgpu/usage", None),
        (503, "", None),
    ],
)
async def test_who_finds_the_service_away_waits_for_the_page_and_goes_nowhere_else(render, status, asked, again):
    handler = Handler(viewer("ann"))
    handler.request.query_arguments = {"url": [asked.encode()]}
    words = "Your server appears to be down."
    texts = {"status_code": status, "status_message": "Because", "message": "", "message_html": words}
    page = await render("error.html", handler, sync=True, **texts)
    refresh = page.head.select_one("meta[http-equiv=refresh]")
    assert (refresh and refresh["content"]) == (again and f"3; url={again}")
    assert ("comes back by itself" in page.main.text, words in page.main.text) == (again is not None, again is None)


async def test_a_failed_start_says_why_and_what_to_do(render, site):
    user = site.users["ann"]
    user.spawner.orm_spawner.user_options = {"profile": "one", "image": "base"}
    fault = to_spawn_exception(NoCapacity(Text("All are in use.")), get_translator("en"))
    page = await render(
        "not_running.html",
        Handler(user, accepted="zh"),
        server_name="",
        spawn_url="/hub/spawn/ann?next=%2Fuser",
        failed=True,
        failed_message="All are in use.",
        exception=fault,
    )
    assert "已全部占用。" in page.select_one("#failure").text
    again = page.find("form")
    assert again["action"] == "/hub/spawn/ann?next=%2Fuser&_xsrf=token"
    assert {each["name"]: each["value"] for each in again.find_all("input")} == {"profile": "one", "image": "base"}
    assert page.select_one("#start")["href"] == "/hub/spawn/ann?next=%2Fuser"


async def test_a_choice_that_is_gone_is_not_offered_again(render, site):
    user = site.users["ann"]
    user.spawner.orm_spawner.user_options = {"profile": "staff", "image": "base"}
    page = await render("not_running.html", Handler(user), server_name="", spawn_url="/hub/spawn/ann")
    assert page.find("form") is None
    assert page.select_one("#start").text.strip() == "Choose a flavor"


@pytest.mark.parametrize(
    ("name", "admin", "shown"), [("ann", False, True), ("bob", False, False), ("root", True, True)]
)
async def test_only_the_owner_and_administrators_see_why_a_server_stopped(render, site, name, admin, shown):
    user = site.users["ann"]
    await start(user, profile="one")
    await user.stop()
    handler = Handler(user if name == "ann" else viewer(name, admin=admin))
    page = await render("not_running.html", handler, user=user, server_name="", spawn_url="/hub/spawn/ann")
    assert ("stopped on request" in page.main.text) == shown
    assert (page.find("form") is not None) == shown


async def test_names_of_any_kind_are_escaped_in_texts_and_addresses(render):
    user = SimpleNamespace(name=EVIL, escaped_name="%3Ci%3E", json_escaped_name="x", admin=False)
    spawner = SimpleNamespace(name="ü/<b>")
    page = await render("spawn_pending.html", Handler(user), spawner=spawner, progress_url="/p?a=1&b=2")
    assert page.main.find("b") is None
    assert "ü/<b>" in page.h1.text
    assert page.select_one("#choose-again")["href"] == "/hub/spawn/%3Ci%3E/%C3%BC%2F%3Cb%3E"
    assert page.find(role="progressbar")["aria-label"] == "Start of the server"
    script = next(each.text for each in page.find_all("script") if "server_url" in each.text)
    assert "<b>" not in script
    assert "/hub/api/users/%3Ci%3E/servers/%C3%BC%2F%3Cb%3E" in script


async def test_no_page_has_handlers_in_its_attributes():
    assert jupyterhub.__version__
    for file in OURS.glob("*.html"):
        tags = BeautifulSoup(file.read_text(), "html.parser").find_all(True)
        assert [name for tag in tags for name in tag.attrs if name.startswith("on")] == [], file.name


async def test_the_home_page_lists_what_each_server_holds(render, site):
    user = site.users["ann"]
    await start(user, profile="two")
    page = await render(
        "home.html",
        Handler(user),
        url="/user/ann/",
        default_server=user.spawner,
        allow_named_servers=True,
        named_server_limit_per_user=3,
        invalid_server_names=[],
    )
    row = page.select_one('[data-server-name=""]')
    facts = dict(
        zip([each.text for each in row.select("dt")], [each.text.strip() for each in row.select("dd")], strict=True)
    )
    assert facts["Flavor"] == "TWO"
    assert facts["Devices"] == "NVIDIA A100, NVIDIA A100"
    assert facts["Price"] == "0.60 USD per hour"
    assert row["data-api"] == "/hub/api/users/ann/server"
    assert row.select_one("#stop")
    assert page.select_one("#new-server")["data-spawn"] == "/hub/spawn/ann/"
