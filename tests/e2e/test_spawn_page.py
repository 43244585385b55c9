"""What the spawn page says, and that it and the API say the same."""

import pytest
from bs4 import BeautifulSoup

pytestmark = pytest.mark.docker


def cards(page):
    """The flavors' cards by slug: texts, and whether each can be picked."""
    found = {}
    for card in page.select("label.nbgpu-card:has(input[name=profile])"):
        radio = card.find("input")
        found[radio["value"]] = {
            "title": card.select_one(".nbgpu-card-title").text,
            "price": card.select_one(".nbgpu-card-price").text,
            "device": device.text if (device := card.select_one(".nbgpu-card-device")) else None,
            "lines": [line.text for line in card.select(".nbgpu-card-line")],
            "badge": badge.text if (badge := card.select_one(".nbgpu-badge")) else None,
            "disabled": radio.has_attr("disabled"),
            "checked": radio.has_attr("checked"),
        }
    return found


def read_page(session):
    answer = session.get("/spawn")
    assert answer.status_code == 200
    return BeautifulSoup(answer.text, "html.parser")


FREE = {
    "cpu": ("CPU only", "0.02 USD per hour", None, "2 CPU cores, 2 GiB RAM", "No GPU is visible.", None),
    "mig-1g": (
        "Small GPU slice",
        "0.45 USD per hour",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb, 9.5 GiB",
        "2 CPU cores, 4 GiB RAM",
        "Memory and compute of its own, parted by the hardware.",
        "3 of 3 free",
    ),
    "mig-2g": (
        "Medium GPU slice",
        "0.85 USD per hour",
        "NVIDIA H100 80GB HBM3 MIG 2g.20gb, 19.5 GiB",
        "4 CPU cores, 6 GiB RAM",
        "Memory and compute of its own, parted by the hardware.",
        "2 of 2 free",
    ),
    "t4-shared": (
        "Shared T4",
        "0.10 USD per hour",
        "1/4 of Tesla T4, 15 GiB in all",
        "2 CPU cores, 4 GiB RAM",
        "Not isolated: up to 4 people take turns and share one memory.",
        "4 of 4 free",
    ),
    "a100": (
        "One A100",
        "1.90 USD per hour",
        "1 × NVIDIA A100-SXM4-80GB, 80 GiB",
        "4 CPU cores, 8 GiB RAM",
        "Yours alone.",
        "2 of 2 free",
    ),
    "a100x2": (
        "Two A100 with NVLink",
        "3.70 USD per hour",
        "2 × NVIDIA A100-SXM4-80GB, 80 GiB each",
        "8 CPU cores, 12 GiB RAM",
        "Yours alone.",
        "1 of 1 free",
    ),
}


def test_a_card_for_each_flavor_that_one_may_take(hub):
    with hub.logged_in("reader") as session:
        page = read_page(session)
    found = cards(page)
    assert {
        slug: (card["title"], card["price"], card["device"], *card["lines"][:2], card["badge"])
        for slug, card in found.items()
    } == FREE
    assert [slug for slug, card in found.items() if card["checked"]] == ["cpu"]
    assert not any(card["disabled"] for card in found.values())
    assert "Simulated GPUs" in page.select_one(".nbgpu-banner").text


def test_staff_see_one_more(hub):
    hub.add_user("boss", "staff")
    with hub.logged_in("boss") as session:
        assert set(cards(read_page(session))) == {*FREE, "staff-only"}


def test_taken_up_is_shown_refused_and_free_again(hub):
    winner, loser = hub.add_user("winner"), hub.add_user("loser")
    hub.started(winner, profile="a100x2")
    assert len({slot.device_uuid for slot in hub.lease(winner).allocation.slots}) == 2
    with hub.logged_in(loser) as session:
        found = cards(read_page(session))
    for slug in ("a100", "a100x2"):
        assert (found[slug]["disabled"], found[slug]["badge"]) == (True, "All are in use.")
    assert (found["mig-1g"]["disabled"], found["mig-1g"]["badge"]) == (False, "3 of 3 free")

    answer = hub.start_server(loser, profile="a100")
    assert answer.status_code == 503
    message = answer.json()["message"]
    assert message.startswith("No “One A100” can start now: All are in use. Free instead: “CPU only”, ")
    assert "“Small GPU slice” (3)" in message
    assert [lease.server.username for lease in hub.leases()] == [winner]

    hub.stop_server(winner)
    with hub.logged_in(winner) as session:
        again = cards(read_page(session))
    assert (again["a100x2"]["checked"], again["a100x2"]["badge"]) == (True, "1 of 1 free")
    assert not again["cpu"]["checked"]
