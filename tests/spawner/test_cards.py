"""The cards and the form: what a person reads is what is there, escaped, with the reason for what can't be had."""

from datetime import UTC, datetime, timedelta

import pytest
from bs4 import BeautifulSoup

from nbgpu.core.devices import Device, InventorySnapshot
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import Lease, LeaseState, ServerRef
from nbgpu.core.placement import Allocation, Slot
from nbgpu.spawner.cards import build_card
from nbgpu.spawner.stock import build_stock, explain_shortage
from support.site import make_flavor

NOW = datetime(2026, 11, 30, tzinfo=UTC)
A100 = Device(uuid="GPU-0", name="NVIDIA A100", memory_total=80 * 2**30)
T4 = Device(uuid="GPU-1", name="Tesla T4", memory_total=15 * 2**30)
SLICE = Device(
    uuid="MIG-a", name="NVIDIA H100 MIG 1g.10gb", parent_uuid="GPU-2", mig_profile="1g.10gb", memory_total=10 * 2**30
)
H100 = Device(uuid="GPU-2", name="NVIDIA H100", mig_enabled=True)
MACHINE = InventorySnapshot(NOW, (A100, T4, H100, SLICE))

ONE = make_flavor("one", FlavorKind.GPU, model="A100", display_name="One A100")
SHARED = make_flavor("shared", FlavorKind.SHARED, slots=4, model="T4")
MIG = make_flavor("mig", FlavorKind.MIG, mig_profile="1g.10gb")
CPU = make_flavor("cpu", FlavorKind.CPU, time_limit=timedelta(hours=12))


def lease(flavor: str, *slots: Slot) -> Lease:
    return Lease(
        session_id="s",
        server=ServerRef("ann"),
        flavor=flavor,
        image="base",
        image_id="sha256:1",
        price_per_hour=0,
        state=LeaseState.ACTIVE,
        allocation=Allocation(slots),
        created_at=NOW,
    )


@pytest.mark.parametrize(
    ("flavor", "device"),
    [
        (ONE, "1 × NVIDIA A100, 80 GiB"),
        (make_flavor("two", FlavorKind.GPU, gpus=2, model="A100"), "2 × NVIDIA A100, 80 GiB each"),
        (SHARED, "1/4 of Tesla T4, 15 GiB in all"),
        (MIG, "NVIDIA H100 MIG 1g.10gb, 10 GiB"),
        (CPU, ""),
        (make_flavor("v100", FlavorKind.GPU, model="V100"), "V100"),
    ],
)
def test_a_card_says_which_device(flavor, device):
    assert str(build_card(flavor, MACHINE, [], currency="USD").device or "") == device


def test_a_card_says_machine_price_and_limit():
    card = build_card(CPU, MACHINE, [], currency="CNY")
    assert (str(card.machine), str(card.price)) == ("2 CPU cores, 1 GiB RAM", "0.60 CNY per hour")
    assert card.time_limit == timedelta(hours=12)
    assert "Not isolated: up to 4 people" in str(build_card(SHARED, MACHINE, [], currency="USD").isolation)


@pytest.mark.parametrize(
    ("flavor", "leases", "text"),
    [
        (ONE, [], "1 of 1 free"),
        (ONE, [lease("one", Slot("GPU-0"))], "0 of 1 free"),
        (SHARED, [lease("shared", Slot("GPU-1", 0, 4))], "3 of 4 free"),
        (MIG, [], "1 of 1 free"),
        (CPU, [], ""),
        (make_flavor("few", FlavorKind.CPU, max_servers=3), [lease("few")], "2 of 3 free"),
        (make_flavor("few", FlavorKind.SHARED, slots=4, model="T4", max_servers=2), [], "2 of 2 free"),
    ],
)
def test_a_card_counts_what_is_free(flavor, leases, text):
    assert str(build_card(flavor, MACHINE, leases, currency="USD").stock_text or "") == text


@pytest.mark.parametrize(
    ("flavor", "machine", "problem"),
    [
        (ONE, MACHINE, None),
        (CPU, InventorySnapshot(NOW, problem="The driver is gone."), None),
        (ONE, InventorySnapshot(NOW, problem="The driver is gone."), "The driver is gone."),
        (ONE, InventorySnapshot(NOW), "This machine has no such GPU."),
        (
            MIG,
            InventorySnapshot(NOW, (H100,)),
            "The GPUs are in MIG mode, but no 1g.10gb slice is configured.",
        ),
        (
            ONE,
            InventorySnapshot(NOW, (Device(uuid="GPU-0", name="NVIDIA A100", problem="The GPU is lost."),)),
            "The GPU is lost.",
        ),
    ],
)
def test_what_cant_be_had_says_why(flavor, machine, problem):
    stock = build_stock(flavor, machine, [])
    assert (str(stock.problem) if stock.problem else None, stock.available) == (problem, problem is None)
    assert (stock.remedy is None) == stock.available, "what can't be had says what would change that"


def test_a_shortage_offers_what_is_free():
    leases = [lease("one", Slot("GPU-0"))]
    text = explain_shortage(ONE, [ONE, SHARED, CPU], MACHINE, leases)
    assert str(text) == (
        "No “One A100” can start now: All are in use. Free instead: “SHARED” (4), “CPU”. Or try again later."
    )
    assert "Nothing else is free" in str(explain_shortage(ONE, [ONE], MACHINE, leases))


@pytest.mark.parametrize(
    ("limits", "leases", "free_at"),
    [
        ({"one": timedelta(hours=2)}, [lease("one", Slot("GPU-0"))], NOW + timedelta(hours=2)),
        ({"one": None}, [lease("one", Slot("GPU-0"))], None),
        ({"one": timedelta(hours=2)}, [], None),
        # Four quarters, of which the first to reach its limit is enough.
        (
            {"short": timedelta(hours=1), "long": timedelta(hours=9)},
            [lease(name, Slot("GPU-1", number, 4)) for number, name in enumerate(("long", "short", "long", "long"))],
            NOW + timedelta(hours=1),
        ),
        # One A100 that was cut up: free only when the last slot is.
        (
            {"short": timedelta(hours=1), "long": timedelta(hours=9)},
            [lease("short", Slot("GPU-0", 0, 2)), lease("long", Slot("GPU-0", 1, 2))],
            NOW + timedelta(hours=9),
        ),
    ],
)
def test_what_is_in_use_says_when_a_time_limit_frees_it(limits, leases, free_at):
    flavor = SHARED if any(slot.device_uuid == "GPU-1" for each in leases for slot in each.allocation.slots) else ONE
    assert build_stock(flavor, MACHINE, leases, limits).free_at == free_at


async def read_form(site, user: str = "ann") -> BeautifulSoup:
    return BeautifulSoup(await site.users[user].spawner.get_options_form(), "html.parser")


async def test_the_form_has_a_card_a_flavor_that_one_may_take(site):
    form = await read_form(site)
    slugs = [each["value"] for each in form.select('input[name="profile"]')]
    assert slugs == ["cpu", "one", "two", "shared"], "the staff's flavor is not shown to others"
    assert [each["value"] for each in form.select('input[name="profile"][checked]')] == ["cpu"]
    assert all(each.find_parent("label") for each in form.select("input"))


async def test_what_is_taken_is_disabled_with_the_reason(site):
    from support.users import start

    await start(site.users["bob"], profile="two")
    card = (await read_form(site)).select_one('input[value="one"]')
    assert card.has_attr("disabled")
    assert "All are in use." in card.find_parent("label").get_text()


async def test_an_image_that_is_not_built_is_disabled(site):
    image = (await read_form(site)).select_one('input[name="image"][value="pytorch"]')
    assert image.has_attr("disabled")
    assert "Not built on this machine yet." in image.find_parent("label").get_text()


async def test_the_last_choice_is_selected_again(site):
    from support.users import start

    await start(site.users["ann"], profile="shared")
    await site.users["ann"].stop()
    form = await read_form(site)
    assert [each["value"] for each in form.select('input[name="profile"][checked]')] == ["shared"]


async def test_a_last_choice_that_is_gone_falls_back_to_the_default(site):
    site.users["ann"].spawner.orm_spawner.user_options = {"profile": "<script>", "image": ["x"]}
    form = await read_form(site)
    assert [each["value"] for each in form.select('input[name="profile"][checked]')] == ["cpu"]
    assert form.find("script") is None


async def test_texts_of_the_site_are_escaped(site, monkeypatch):
    site.desk.menu.flavors = (
        make_flavor("evil", FlavorKind.CPU, display_name="<script>alert(1)</script>", description='"><img src=x>'),
    )
    form = await read_form(site)
    assert form.find("script") is None
    assert form.find("img") is None
    assert "<script>alert(1)</script>" in form.get_text()
