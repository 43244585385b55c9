"""The administrators' pages over a real database: the pool, cordon and return, stops with a reason, the audit log."""

import csv
import io
from datetime import timedelta

import httpx
import pytest

from nbgpu.core.errors import HubRefused, HubUnavailable
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import DeviceHealth, Fault, FaultKind, Quarantine
from nbgpu.core.leases import ServerRef
from nbgpu.core.reconcile import HubServer
from nbgpu.service.pages.audit import PAGE
from nbgpu.spawner.endings import explain_end
from nbgpu.store import SqlAuditLog
from nbgpu.telemetry.server_stopper import ServerStopper
from service.browse import EVIL, PREFIX
from service.idle_book import FakeIdleBook, make_view
from service.pool_site import NOW, PoolSite, browsing, make_devices
from service.test_pages import parse
from support.site import make_flavor


@pytest.fixture
def site(tmp_path):
    """Two whole GPUs and one that is cut in two."""
    whole, cut = make_devices(2, 0), make_devices(3, 2)[-3:]
    found = PoolSite(tmp_path, (*whole, *cut))
    yield found
    found.engine.dispose()


def device(page, uuid: str):
    return parse(page).select_one(f'[data-device="{uuid}"]')


def badges(page) -> dict[str, str]:
    return {each["data-device"]: each.select_one(".nbgpu-badge").text for each in parse(page).select("[data-device]")}


def alert(page) -> str:
    return parse(page).select_one("[role=alert]").text


async def hold(client, uuid: str, **changes: str) -> httpx.Response:
    """Send the form of a device, or something else in it."""
    form = parse(await client.get("pool", params={"device": uuid})).select_one("form.pool-form")
    fields = {each["name"]: each["value"] for each in form.select("input")}
    return await client.post("pool/hold", data=fields | changes)


@pytest.mark.parametrize("name", ["ann", "rita", "bill"])
@pytest.mark.parametrize("path", ["pool", "audit", "audit/file"])
async def test_who_operates_nothing_reads_nothing(site, name, path):
    async with browsing(site.books(), name) as client:
        page = await client.get(path)
    assert page.status_code == 403
    assert "for those who run this place" in alert(page)
    assert parse(page).select_one(f"a[href='{PREFIX}pool']") is None


@pytest.mark.parametrize("path", ["pool", "audit", "audit/file"])
async def test_an_operator_need_not_be_an_administrator(site, path):
    async with browsing(site.books(), "eve") as client:
        page = await client.get(path)
        assert page.status_code == 200
        servers = parse(await client.get("servers"))
    assert servers.select_one(f".dropdown-menu a[href='{PREFIX}pool']") is not None
    assert servers.select_one("a[href$='hub/admin']") is None


async def test_who_is_no_administrator_changes_nothing(site):
    view = make_view("s-1", ServerRef("bob"))
    stopper = ServerStopper(StoppingHub("any"), site.leases, site.audit)
    async with browsing(site.books(idle=FakeIdleBook(view), stopper=stopper), "ann") as client:
        await client.get("servers")
        token = client.cookies["_xsrf"]
        answers = [
            await client.post(path, data={"_xsrf": token, "reason": "x", "session_id": "s-1", "device": "GPU-0"})
            for path in ("pool/hold", "servers/stop")
        ]
    assert [each.status_code for each in answers] == [403, 403]
    assert site.audit.latest() == ()


async def test_each_device_shows_what_it_reports_and_who_is_on_it(site):
    site.lease("ann", FlavorKind.SHARED, slots=4)
    site.lease(EVIL, FlavorKind.MIG, mig_profile="1g.10gb", server=EVIL)
    site.read("GPU-1", gpu_utilization=None, temperature=None, power=None)
    flavors = {"shared": make_flavor("shared", FlavorKind.SHARED, slots=4, display_name="A <b>share</b>")}
    async with browsing(site.books(flavors=flavors)) as client:
        page = await client.get("pool")
    cut = "in MIG mode"
    assert badges(page) == {
        "GPU-0": "partly free",
        "GPU-1": "free",
        "GPU-2": cut,
        "MIG-2-0": "in use",
        "MIG-2-1": "free",
    }
    first, second, part = (device(page, uuid) for uuid in ("GPU-0", "GPU-1", "MIG-2-0"))
    values = {each.dt.text: each.dd.text for each in first.select(".pool-readings > div")}
    assert values == {"Load": "37 %", "Memory": "3 GiB / 80 GiB", "Temperature": "61 °C", "Power": "302 / 700 W"}
    assert first.select_one("progress")["value"] == "37"
    assert [each.dd.text for each in second.select(".pool-readings > div")] == ["n/a", "3 GiB / 80 GiB", "n/a", "n/a"]
    assert second.select_one("progress") is None, "not reported is not 0"
    assert "1 of 4 slots are held." in first.text
    assert "A <b>share</b>" in first.select_one(".pool-holders").text
    assert part.find_parent(attrs={"data-device": "GPU-2"}), "an instance is within its GPU"
    assert f"{EVIL}/{EVIL}" in part.select_one(".pool-holders").text
    assert part.find("i") is None
    there = part.select_one(".pool-holders a")["href"]
    assert httpx.URL(there).params["q"] == f"{EVIL}/{EVIL}"


async def test_a_device_goes_out_of_service_with_its_instances_and_comes_back(site):
    lease = site.lease("ann", FlavorKind.MIG, mig_profile="1g.10gb")
    async with browsing(site.books()) as client:
        done = await hold(client, "GPU-2", reason=" its <i>fan</i>\nis loud ")
        assert (done.status_code, done.headers["location"]) == (303, f"{PREFIX}pool?device=GPU-2&done=cordon")
        page = await client.get(done.headers["location"].removeprefix(PREFIX))
        assert "leased to nobody new" in parse(page).select_one("[role=status]").text
        assert {badges(page)[uuid] for uuid in ("GPU-2", "MIG-2-0", "MIG-2-1")} == {"out of service"}
        assert "root has taken it out of service: its <i>fan</i> is loud" in device(page, "MIG-2-0").text
        assert "ann" in device(page, lease.allocation.device_uuids[0]).text, "who is on it goes on"
        assert site.leases.find(lease.session_id).lost_devices == frozenset()
        back = await hold(client, "GPU-2", reason="mended")
        assert back.status_code == 303
        page = await client.get(back.headers["location"].removeprefix(PREFIX))
    assert "is leased again" in parse(page).select_one("[role=status]").text
    assert site.quarantines.open() == {}
    rows = {(row.actor, row.action, row.subject) for row in site.audit.latest()}
    assert rows == {
        ("root", f"gpu.{what}", uuid) for what in ("cordon", "return") for uuid in badges(page) if "2" in uuid
    }
    assert site.audit.latest()[0].detail.startswith("mended (had: ")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"reason": " \n"}, 400, "Say why"),
        ({"reason": "x", "device": "GPU-<i>"}, 409, "This machine has no device GPU-<i>."),
        ({"reason": "x", "what": "return"}, 409, "is not in quarantine"),
        ({"reason": "x", "what": "else"}, 400, "the form is old"),
        ({"reason": "x", "_xsrf": "forged"}, 403, "Reload the page"),
    ],
)
async def test_a_form_that_can_not_be_done_says_why(site, changes, status, words):
    async with browsing(site.books()) as client:
        answer = await hold(client, "GPU-0", **changes)
        assert (await client.get("pool/hold")).status_code == 302
    assert answer.status_code == status
    assert words in alert(answer)
    assert site.quarantines.open() == {}
    assert site.audit.latest() == ()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda site: site.read("GPU-0", problem="It needs a reset."), "It needs a reset."),
        (lambda site: setattr(site.sampler, "stale", True), "can't be read now"),
        (lambda site: site.marks.update({"GPU-0": DeviceHealth(clean=1)}), "for a moment only"),
    ],
)
async def test_a_device_that_does_not_read_well_stays(site, spoil, words):
    fault = Fault(FaultKind.XID, "The driver reported Xid 79.")
    site.quarantines.put(Quarantine("GPU-0", NOW, fault))
    spoil(site)
    async with browsing(site.books()) as client:
        answer = await hold(client, "GPU-0", reason="mended")
    assert answer.status_code == 409
    assert words in alert(answer)
    assert parse(answer).select_one("#reason")["value"] == "mended", "what was typed is not lost"
    assert badges(answer)["GPU-0"] == "in quarantine"
    assert "Xid 79" in device(answer, "GPU-0").text


async def test_while_the_driver_is_away_the_devices_stay_and_are_told_to_be_of_the_past(site):
    async with browsing(site.books()) as client:
        await client.get("pool")
        site.problem, site.sampler.stale = "The driver does not answer.", True
        page = await client.get("pool")
    assert len(badges(page)) == 5
    assert "The driver can't be asked now; this is how it was. The driver does not answer." in parse(page).text
    assert "Readings are old" in parse(page).select_one(".alert-warning").text


async def test_what_the_driver_does_not_show_is_told_and_can_be_struck_off(site):
    site.quarantines.put(Quarantine("GPU-sold", NOW, Fault(FaultKind.GONE, "It is gone.")))
    async with browsing(site.books(), **{"Accept-Language": "zh"}) as client:
        page = await client.get("pool")
        assert (await hold(client, "GPU-sold", reason="sold")).status_code == 303
    assert "It is gone." in device(page, "GPU-sold").text
    assert parse(page).html["lang"] == "zh-CN"
    assert site.quarantines.open() == {}


class StoppingHub:
    """The hub: what it runs, and how it answers."""

    def __init__(self, session_id: str | None = None, error: Exception | None = None) -> None:
        self.session_id, self.error = session_id, error
        self.stopped = []

    def find(self, server):
        return HubServer(server=server, session_id=self.session_id, pending=False) if self.session_id else None

    def stop(self, server):
        if self.error is not None:
            raise self.error
        self.stopped.append(server)


def stopping(site, hub: StoppingHub):
    """Return a session of bob's and books with which its server can be stopped."""
    lease = site.lease("bob")
    hub.session_id = hub.session_id and lease.session_id
    idle = FakeIdleBook(make_view(lease.session_id, ServerRef("bob")))
    return lease, site.books(idle=idle, stopper=ServerStopper(hub, site.leases, site.audit))


async def stop(client, reason: str = "It mines coins.", **changes: str) -> httpx.Response:
    """Send the form that stops the first server."""
    form = parse(await client.get("servers")).select_one("form[action$=stop]")
    fields = {each["name"]: each.get("value", "") for each in form.select("input")}
    return await client.post("servers/stop", data=fields | {"reason": reason} | changes)


async def test_an_administrator_stops_a_server_and_its_person_reads_why(site):
    hub = StoppingHub("any")
    lease, books = stopping(site, hub)
    async with browsing(books) as client:
        answer = await stop(client)
        assert answer.status_code == 303
        page = parse(await client.get(answer.headers["location"].removeprefix(PREFIX)))
    assert "The hub stops bob." in page.select_one("[role=status]").text
    assert hub.stopped == [ServerRef("bob")]
    (row,) = site.audit.latest()
    assert (row.actor, row.action, row.subject) == ("root", "server.stop", "bob")
    assert row.detail == f"It mines coins. ({lease.session_id})"
    site.leases.release(lease.session_id, "stopped")
    ended = site.leases.find(lease.session_id)
    assert str(explain_end(ended.release_reason).why) == "An administrator has stopped it: It mines coins."


async def test_people_stop_their_own_servers_and_need_no_reason(site):
    hub = StoppingHub("any")
    lease, books = stopping(site, hub)
    async with browsing(books, "bob") as client:
        page = parse(await client.get("servers"))
        assert page.select_one("[name=reason]") is None
        assert "Cost so far" in page.select_one(".nbgpu-server").text
        answer = await stop(client, "")
        page = parse(await client.get(answer.headers["location"].removeprefix(PREFIX)))
    assert (hub.stopped, page.select_one("[role=status]").text.strip()) == ([ServerRef("bob")], "The hub stops bob.")
    (row,) = site.audit.latest()
    assert (row.actor, row.action, row.detail) == ("bob", "server.stop", f"on request ({lease.session_id})")
    site.leases.release(lease.session_id, "stopped")
    assert site.leases.find(lease.session_id).release_reason == "stopped"


@pytest.mark.parametrize(
    ("hub", "reason", "status", "words", "kept"),
    [
        (StoppingHub("any", HubRefused("It is pending.")), "x", 503, "It is pending.", "stopped"),
        (StoppingHub("any", HubUnavailable("No answer.")), "x", 503, "No answer.", "stopped by an administrator: x"),
        (StoppingHub(None), "x", 404, "does not run any more", "stopped"),
        (StoppingHub("any"), "", 400, "Say why", "stopped"),
    ],
)
async def test_a_server_that_is_not_stopped_is_told(site, hub, reason, status, words, kept):
    lease, books = stopping(site, hub)
    async with browsing(books) as client:
        answer = await stop(client, reason)
    assert answer.status_code == status
    assert words in alert(answer)
    assert hub.stopped == []
    actions = [row.action for row in site.audit.latest()]
    assert actions == (["server.stop-failed", "server.stop"] if hub.error else [])
    site.leases.release(lease.session_id, "stopped")
    assert site.leases.find(lease.session_id).release_reason == kept


@pytest.fixture
def log(site):
    """Rows of three days, more than a page, each an hour after the one before; one of them is hostile."""
    times = iter(NOW + timedelta(hours=number) for number in range(72))
    log = SqlAuditLog(site.engine, lambda: next(times))
    for number in range(72):
        actor, subject = (EVIL, "=cmd()") if number == 71 else ("root", f"GPU-{number}")
        log.record(actor=actor, action="gpu.cordon" if number % 2 else "price.set", subject=subject, detail=EVIL)
    return log


async def rows_of(client, address: str):
    page = parse(await client.get(address))
    following = page.select_one("a[rel=next]")
    return page.select("tbody tr"), following and following["href"].removeprefix(PREFIX)


async def test_the_log_is_read_page_by_page_and_nothing_in_it_is_markup(site, log):
    async with browsing(site.books()) as client:
        first, following = await rows_of(client, "audit")
        second, end = await rows_of(client, following)
    assert (len(first), len(second), end) == (PAGE, 72 - PAGE, None)
    assert [each.text for each in first[0].select("td")][1:] == [EVIL, "gpu.cordon", "=cmd()", EVIL]
    assert first[0].find("i") is None
    numbers = [int(row["data-number"]) for row in (*first, *second)]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("action=gpu.", 36),
        ("actor=ROOT&subject=gpu-7", 2),
        ("from=2026-03-11&to=2026-03-11", 24),
        ("subject=nothing", 0),
    ],
)
async def test_the_page_and_the_file_hold_what_is_looked_for(site, log, query, found):
    async with browsing(site.books()) as client:
        page = await client.get(f"audit?{query}")
        file = await client.get(parse(page).select_one("a[download]")["href"].removeprefix(PREFIX))
    assert len(parse(page).select("tbody tr")) == found
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(list(csv.reader(io.StringIO(file.text)))) == 1 + found


async def test_a_spreadsheet_takes_nothing_in_the_file_for_a_formula(site, log):
    async with browsing(site.books()) as client:
        rows = list(csv.DictReader(io.StringIO((await client.get("audit/file")).text)))
    assert rows[0]["subject"] == "'=cmd()"
    assert len(rows) == 72


@pytest.mark.parametrize("query", ["from=yesterday", "to=0001-01-01", "below=x", "below=-1"])
async def test_what_can_not_be_looked_for_is_told(site, query):
    async with browsing(site.books()) as client:
        page = await client.get(f"audit?{query}")
    assert page.status_code == 400
    assert alert(page)
