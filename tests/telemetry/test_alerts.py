"""Alerts: sent once, to a real web server; what could not be sent is tried again."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from nbgpu.core.budgets import Alert
from nbgpu.core.errors import AlertError
from nbgpu.telemetry.alerts import AlertLoop, AppriseSender

AT = datetime(2026, 3, 10, 12, tzinfo=UTC)


class Kept:
    """Alerts, kept."""

    def __init__(self, *percents: int) -> None:
        self.sent: list[int] = []
        self.all = [
            Alert(
                id=number,
                budget="pool",
                owner="ml",
                percent=percent,
                spent=5_000_000,
                amount=10_000_000,
                forecast=AT.replace(day=20) if percent < 80 else None,
                raised_at=AT,
                sent_at=None,
            )
            for number, percent in enumerate(percents)
        ]

    def alerts(self, *, unsent=False):
        return tuple(reversed([each for each in self.all if each.id not in self.sent]))

    def note_sent(self, alert_ids):
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


@pytest.fixture
def send(tmp_path):
    def send(kept: Kept, *lines: str) -> None:
        file = tmp_path / "apprise.conf"
        file.write_text("\n".join(lines))
        AlertLoop(kept, AppriseSender(file), currency="USD", zone=UTC).tick()

    return send


def test_alerts_go_to_the_addresses_of_the_file_oldest_first(send, receiver):
    messages, address = receiver
    kept = Kept(50, 80, 100)
    send(kept, address)
    assert [each["title"] for each in messages] == [f"Budget pool of ml: {each} % spent" for each in (50, 80, 100)]
    assert messages[0]["message"] == (
        "5.00 of 10.00 USD were spent at 2026-03-10 12:00 UTC. At this pace all of it is spent by 2026-03-20 12:00 UTC."
    )
    assert "lasts to the end of its period" in messages[1]["message"]
    assert "Servers that it pays for are stopped" in messages[2]["message"]
    assert kept.sent == [0, 1, 2]


def test_what_could_not_be_sent_is_tried_again(send, receiver):
    messages, address = receiver
    kept = Kept(50)
    with pytest.raises(AlertError, match="did not take the alert “Budget pool of ml: 50 % spent”"):
        send(kept, "json://127.0.0.1:1")
    send(kept, address)
    assert (len(messages), kept.sent) == (1, [0])


@pytest.mark.parametrize(("lines", "message"), [((), "no address in it"), (("nothing://here",), "no address in it")])
def test_a_file_without_an_address_is_told(send, lines, message):
    with pytest.raises(AlertError, match=message):
        send(Kept(50), *lines)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(AlertError, match="there is no such file"):
        AppriseSender(tmp_path / "none").send("a", "b", urgent=False)


def test_without_addresses_alerts_are_for_the_pages(caplog):
    kept = Kept(50)
    AlertLoop(kept, None, currency="USD", zone=UTC).tick()
    assert kept.sent == [0]
