"""The pages of images, of the doctor's findings and of alerts."""

import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nbgpu.core.budgets import Alert
from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.findings import Finding, Level
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from nbgpu.images.listing import ListedImage
from nbgpu.wiring.doctor import ServiceDoctor
from service.browse import EVIL
from service.pool_site import NOW, PoolSite, browsing, make_devices
from service.test_pages import parse
from support.site import until

IMAGE = ListedImage(
    slug="pytorch",
    display_name="PyTorch",
    description=EVIL,
    variant="cuda",
    python="3.12",
    cuda="13.0",
    cudnn="9.20",
    minimum_driver="580.65",
    frameworks={"torch": "2.13.0"},
    state="out of date",
    id="sha256:0123456789abcdef",
    size_bytes=5 * 2**30,
    built_at=NOW,
)


@pytest.fixture
def site(tmp_path):
    found = PoolSite(tmp_path, make_devices(2, 0))
    yield found
    found.engine.dispose()


class Images:
    """Images as a test decides them."""

    def __init__(self, found) -> None:
        self.found = found

    def look(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def doctor(printed: str, code: int = 0) -> ServiceDoctor:
    """Return one whose command prints a text."""
    return ServiceDoctor([sys.executable, "-c", f"print({printed!r}); raise SystemExit({code})"], lambda: NOW)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("images", {"root", "eve"}), ("doctor", {"root", "eve"}), ("alerts", {"root", "eve", "rita", "bill"})],
)
async def test_who_may_open_which_page(site, path, allowed):
    limits = SimpleNamespace(alerts=tuple)
    found = site.books(images=Images(()), doctor=doctor("[]"), limits=limits)
    for name in ("ann", "rita", "bill", "eve", "root"):
        async with browsing(found, name) as client:
            assert ((await client.get(path)).status_code == 200) is (name in allowed), name


async def test_an_image_says_what_it_brings_and_how_it_gets_up_to_date(site):
    async with browsing(site.books(images=Images((IMAGE,)))) as client:
        page = parse(await client.get("images"))
    row = page.select_one("[data-image=pytorch]")
    text = " ".join(row.text.split())
    for words in ("torch 2.13.0, CUDA 13.0", "Python 3.12", "driver 580.65 or newer", "out of date", EVIL, "5 GiB"):
        assert words in text
    assert row.select_one("code").text == "nbgpu images build pytorch"


async def test_images_that_nobody_has_or_can_be_asked_for(site):
    async with browsing(site.books(images=Images(None))) as client:
        assert "no image" in parse(await client.get("images")).select_one("main").text
    away = EngineUnavailable("Docker does not answer.")
    async with browsing(site.books(images=Images(away))) as client:
        page = await client.get("images")
    assert (page.status_code, "Docker does not answer." in page.text) == (503, True)


async def test_the_doctor_looks_by_itself_and_anew(site, tmp_path):
    script = (
        "import json, pathlib, sys; file = pathlib.Path(sys.argv[1]);"
        "file.write_text((file.read_text() if file.exists() else '') + 'x');"
        "print(json.dumps([dict(level='fail', subject='docker', found=file.read_text() + '<b>', advice='Mend it.')]))"
    )
    found = ServiceDoctor([sys.executable, "-c", script, str(tmp_path / "count")], lambda: NOW)
    async with browsing(site.books(doctor=found), "eve") as client:
        first = await client.get("doctor")
        assert ("Looking at everything" in first.text, first.headers["refresh"]) == (True, "2")
        await until(lambda: not found.latest().is_running)
        page = await client.get("doctor")
        assert "refresh" not in page.headers
        row = parse(page).select_one("[data-subject=docker]")
        assert "x<b>" in row.text
        assert "Mend it." in row.text
        token = parse(page).select_one("input[name=_xsrf]")["value"]
        assert (await client.post("doctor", data={"_xsrf": token})).status_code == 303
        await until(lambda: not found.latest().is_running)
        assert "xx<b>" in parse(await client.get("doctor")).select_one("[data-subject=docker]").text


@pytest.mark.parametrize("printed", ["", "no JSON", '[{"level": "odd"}]', "{}x"])
async def test_an_examination_that_fails_says_so(site, printed):
    found = doctor(printed, 3)
    found.begin()
    await until(lambda: not found.latest().is_running)
    async with browsing(site.books(doctor=found)) as client:
        page = parse(await client.get("doctor"))
    assert "Run nbgpu doctor on the machine itself" in page.select_one("[role=alert]").text


async def test_findings_are_taken_whatever_the_exit_code(site):
    found = doctor('[{"level": "ok", "subject": "disk", "found": "100 GiB", "advice": ""}]', 1)
    found.begin()
    await until(lambda: not found.latest().is_running)
    assert found.latest().findings == (Finding(Level.OK, "100 GiB", "", "disk"),)


def alert(percent: int, **fields) -> Alert:
    values = {"forecast": None, "sent_at": None, "raised_at": NOW} | fields
    known = {"id": 1, "budget": "ml", "owner": EVIL, "period_start": 0, "spent": 8_000_000, "amount": 10_000_000}
    return Alert(percent=percent, **known, **values)


async def test_alerts_tell_of_budgets_and_of_gpus_that_failed(site):
    alerts = (alert(100, sent_at=NOW), alert(80, forecast=NOW + timedelta(days=1)), alert(50))
    for uuid, kind in (("GPU-0", FaultKind.ECC), ("GPU-1", FaultKind.CORDON)):
        site.quarantines.put(Quarantine(uuid, NOW, Fault(kind, "It <failed>.")))
    found = site.books(limits=SimpleNamespace(alerts=lambda: alerts))
    async with browsing(found, "eve") as client:
        page = parse(await client.get("alerts"))
    assert [each["data-device"] for each in page.select("[data-device]")] == ["GPU-0"]
    rows = [" ".join(each.text.split()) for each in page.select("tbody tr")]
    assert ["now" in rows[0], "it lasts" in rows[2], "not yet" in rows[2], EVIL in rows[0]] == [True] * 4
    assert "8.00 of 10.00 USD" in rows[0]
    async with browsing(found, "rita") as client:
        assert parse(await client.get("alerts")).select("[data-device]") == []
