"""Alerts: sent once, to real web servers; what no address took is tried again, what one took is not."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from apprise import Apprise

from nbgpu.core.budgets import Alert
from nbgpu.core.errors import AlertError, StoreError
from nbgpu.telemetry.addresses import AppriseSender, name_address
from nbgpu.telemetry.alerts import AlertLoop

NOBODY = "json://127.0.0.1:1/a-token"
AT = datetime(2026, 3, 10, 12, tzinfo=UTC)


class Kept:
    """Alerts, kept: each of a pool's percent, or of (budget, start of its period, percent)."""

    def __init__(self, *raised: int | tuple[str, int, int]) -> None:
        self.sent: list[int] = []
        self.error: StoreError | None = None
        alerts = [("pool", 0, each) if isinstance(each, int) else each for each in raised]
        self.all = [
            Alert(
                id=number,
                budget=budget,
                owner="ml",
                period_start=period_start,
                percent=percent,
                spent=5_000_000,
                amount=10_000_000,
                forecast=AT.replace(day=20) if percent < 80 else None,
                raised_at=AT,
                sent_at=None,
            )
            for number, (budget, period_start, percent) in enumerate(alerts)
        ]

    def alerts(self, *, unsent=False):
        return tuple(reversed([each for each in self.all if each.id not in self.sent]))

    def note_sent(self, alert_ids):
        if self.error:
            raise self.error
        self.sent += alert_ids


@pytest.fixture
def receiver():
    """A web server that keeps what is posted, as a pair: its messages, its address."""
    messages: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield messages, f"json://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Site:
    """Alerts, a loop that sends them, its file of addresses and its clock."""

    def __init__(self, folder) -> None:
        self.file = folder / "apprise.conf"
        self.now = 0.0

    def begin(self, kept: Kept, *lines: str) -> AlertLoop:
        self.file.write_text("\n".join(lines))
        return AlertLoop(kept, AppriseSender(self.file), currency="USD", zone=UTC, monotonic=lambda: self.now)

    def tick(self, loop: AlertLoop, *, every: float, until: float) -> None:
        """Look again and again; an alert that is left is told each time."""
        while self.now < until:
            self.now += every
            with pytest.raises(AlertError, match="Alerts that no address took so far: 1"):
                loop.tick()


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def titles(messages) -> list[str]:
    return [each["title"].removeprefix("Budget ").removesuffix(" spent") for each in messages]


MONTHS = [("pool", 0, 50), ("pool", 1, 80), ("own", 1, 100)]


def test_alerts_go_to_the_addresses_of_the_file_oldest_first(site, receiver):
    messages, address = receiver
    kept = Kept(*MONTHS)
    site.begin(kept, address).tick()
    assert titles(messages) == ["pool of ml: 50 %", "pool of ml: 80 %", "own of ml: 100 %"]
    assert messages[0]["message"] == (
        "5.00 of 10.00 USD were spent at 2026-03-10 12:00 UTC. At this pace all of it is spent by 2026-03-20 12:00 UTC."
    )
    assert "lasts to the end of its period" in messages[1]["message"]
    assert "Servers that it pays for are stopped" in messages[2]["message"]
    assert kept.sent == [0, 1, 2]


def test_of_several_of_one_budget_and_period_the_highest_is_sent_alone(site, receiver):
    messages, address = receiver
    kept = Kept(50, 80, ("pool", 1, 50), 100, ("own", 0, 80))
    loop = site.begin(kept, address)
    loop.tick()
    loop.tick()
    assert titles(messages) == ["pool of ml: 100 %", "pool of ml: 50 %", "own of ml: 80 %"]
    assert sorted(kept.sent) == [0, 1, 2, 3, 4]


def test_an_address_that_takes_nothing_keeps_none_from_the_others_and_repeats_nothing(site, receiver, caplog):
    messages, address = receiver
    kept = Kept(*MONTHS)
    loop = site.begin(kept, NOBODY, address)
    for _ in range(3):
        loop.tick()
    assert (len(messages), kept.sent) == (3, [0, 1, 2])
    assert "json://127.0.0.1 of" in caplog.text
    assert "a-token" not in caplog.text


def test_what_no_address_took_is_tried_again_less_and_less_often(site, receiver, caplog):
    messages, address = receiver
    kept = Kept(50)
    loop = site.begin(kept, NOBODY)
    site.tick(loop, every=30, until=6 * 3600)
    tries = caplog.text.count("did not take the alert")
    assert tries == 7 + 4, "after 0, 1, 3, 7, 15, 31 and 63 minutes, then each hour"
    site.begin(kept, address)
    site.now += 3600
    loop.tick()
    assert (titles(messages), kept.sent) == (["pool of ml: 50 %"], [0])


def test_an_alert_that_is_left_holds_up_no_later_one(site, receiver):
    messages, address = receiver
    kept = Kept(50)
    loop = site.begin(kept, NOBODY)
    site.tick(loop, every=30, until=60)
    kept.all += [replace(each, id=7) for each in Kept(("own", 0, 80)).all]
    site.file.write_text(address)
    with pytest.raises(AlertError, match="Alerts that no address took so far: 1"):
        loop.tick()
    assert (titles(messages), kept.sent) == (["own of ml: 80 %"], [7])


def test_what_the_database_does_not_take_as_sent_is_not_sent_again(site, receiver):
    messages, address = receiver
    kept = Kept(50)
    kept.error = StoreError("full")
    loop = site.begin(kept, address)
    for _ in range(3):
        with pytest.raises(StoreError, match="full"):
            loop.tick()
    kept.error = None
    loop.tick()
    assert (len(messages), kept.sent) == (1, [0])


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("jsons://user:a-secret@example.org/a-secret?x=a-secret", "jsons://example.org"),
        ("mailto://user:a-secret@smtp.example.org?to=b@example.org", "mailto://smtp.example.org"),
        ("json://localhost/a-secret", "json://localhost"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general", "slack://…"),
        ("tgram://123456789:abcdefghijklmnopqrstuvwxyz/me", "tgram://…"),
        ("ntfy://a-secret", "ntfys://…"),
    ],
)
def test_what_is_told_of_an_address_is_no_secret(address, name):
    assert name_address(Apprise.instantiate(address)) == name


@pytest.mark.parametrize(("lines", "message"), [((), "no address in it"), (("nothing://here",), "no address in it")])
def test_a_file_without_an_address_is_told(site, lines, message, caplog):
    loop = site.begin(Kept(50), *lines)
    with pytest.raises(AlertError, match=message):
        loop.tick()
    assert "here" not in caplog.text, "an address that has a typing error has its secrets, too"


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(AlertError, match="there is no such file"):
        AppriseSender(tmp_path / "none").send("a", "b", urgent=False)


def test_without_addresses_alerts_are_for_the_pages(caplog):
    kept = Kept(50)
    AlertLoop(kept, None, currency="USD", zone=UTC).tick()
    assert kept.sent == [0]
