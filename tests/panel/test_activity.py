"""When a kernel is at work, what a person does, and how little a message that can't be read tells."""

import json
import struct
from typing import ClassVar
from uuid import uuid4

import pytest
from jupyter_server.services.kernels.connection.base import serialize_binary_message, serialize_msg_to_ws_v1

from nbgpu.panel.server.activity import LOOKS, SETTLE_S, Activity
from nbgpu.panel.server.messages import V1, is_typed, sends_code
from nbgpu.panel.server.watched import watch_kernels, watch_terminals


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def activity(seconds) -> Activity:
    return Activity(now_s=seconds)


# Each step is what happens before a look (seconds pass, code is sent) and the state then found; at work or not.
SENT, NOTHING = True, False
LIVES = {
    "a cell that was sent": [(SENT, "busy", 1), (NOTHING, "busy", 1), (NOTHING, "idle", 0)],
    "a cell that is over at the look": [(SENT, "idle", 0), (NOTHING, "idle", 0), (NOTHING, "busy", 0)],
    "a widget that polls, seen busy now and then": [(NOTHING, "busy", 0), (NOTHING, "idle", 0)] * 3,
    "a widget that polls, seen busy twice": [(NOTHING, "busy", 0)] * (LOOKS - 1) + [(NOTHING, "idle", 0)],
    "code that a widget's button runs for long": [(NOTHING, "busy", 0)] * (LOOKS - 1) + [(NOTHING, "busy", 1)] * 2,
    "a queue of cells": [(SENT, "busy", 1), (NOTHING, "busy", 1), (SENT, "busy", 1), (NOTHING, "idle", 0)],
    "polling after a cell": [(SENT, "busy", 1), (NOTHING, "idle", 0), (NOTHING, "busy", 0)],
    "a kernel that starts": [(NOTHING, "starting", 0), (NOTHING, None, 0)],
}


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_a_kernel_is_at_work_on_what_was_sent_to_it(activity, seconds, life):
    for sent, state, expected in life:
        if sent:
            activity.code_sent("k")
        seconds.now += 5
        activity.look({"k": state})
        assert (activity.kernels, activity.kernels_busy) == (1, expected)


def test_a_kernel_that_has_not_said_yet_that_it_is_busy_still_has_its_code(activity, seconds):
    activity.look({"k": "idle"})
    activity.code_sent("k")
    seconds.now += SETTLE_S / 2
    activity.look({"k": "idle"})
    seconds.now += 5
    activity.look({"k": "busy"})
    assert activity.kernels_busy == 1


def test_what_is_gone_is_forgotten(activity):
    activity.code_sent("k")
    activity.look({"k": "busy", "other": "busy"})
    activity.look({})
    assert (activity.kernels, activity.kernels_busy) == (0, 0)


def test_a_person_who_did_nothing_yet_is_not_one_who_did_something_now(activity, seconds):
    told = []
    activity.on_person = lambda: told.append(1)
    assert activity.person_s_ago is None
    activity.person()
    assert activity.person_s_ago == 0
    seconds.now += 12.54
    assert activity.person_s_ago == 12.5
    assert told == [1]


def _message(kind: str, content: dict, buffers: list[bytes]) -> dict:
    header = {"msg_id": uuid4().hex, "msg_type": kind, "username": "x", "session": "y", "date": None, "version": "5.3"}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": buffers}


def _v1(kind, content, buffers=()):
    message = _message(kind, content, [])
    parts = [json.dumps(message[part]).encode() for part in ("header", "parent_header", "metadata", "content")]
    return bytes(serialize_msg_to_ws_v1([*parts, *buffers], "shell")), V1


def _text(kind, content, buffers=()):
    message = _message(kind, content, list(buffers))
    if buffers:
        return serialize_binary_message({**message, "channel": "shell"}), None
    return json.dumps({**message, "channel": "shell"}), ""


@pytest.mark.parametrize("form", [_v1, _text])
@pytest.mark.parametrize("buffers", [(), (b"\0" * 100, b"x")])
@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("execute_request", {"code": "1", "silent": False}, True),
        ("execute_request", {"code": "1", "silent": True}, False),
        ("input_reply", {"value": "yes"}, True),
        ("comm_msg", {"comm_id": "c", "data": {"method": "update", "msg_type": "execute_request"}}, False),
        ("complete_request", {"code": "im", "cursor_pos": 2}, False),
        ("kernel_info_request", {}, False),
    ],
)
def test_code_that_somebody_runs_is_told_from_all_else(form, buffers, kind, content, expected):
    assert sends_code(*form(kind, content, buffers)) is expected


@pytest.mark.parametrize("subprotocol", [V1, None])
@pytest.mark.parametrize(
    "message",
    ["", b"", "{", b"\0" * 7, b"\xff" * 64, "[]", "null", '{"header": null}', struct.pack("<Q", 2**60), "é" * 9],
)
def test_what_is_no_message_tells_nothing(message, subprotocol):
    assert sends_code(message, subprotocol) is False


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('["stdin", "l"]', True),
        ('["stdin", "\\r"]', True),
        ('["stdin", "\\u001b[A"]', True),  # the key "up"
        ('["stdin", "\\u001b[?1;2c"]', False),  # answers that a terminal gives by itself
        ('["stdin", "\\u001b[24;80R"]', False),
        ('["stdin", "\\u001b]11;rgb:ffff/ffff/ffff\\u001b\\\\"]', False),
        ('["stdin", "\\u001b[I"]', False),
        ('["set_size", 24, 80, 600, 800]', False),
        ("[]", False),
        ("7", False),
        ("{", False),
    ],
)
def test_typing_is_told_from_what_a_terminal_says_by_itself(message, expected):
    assert is_typed(message) is expected


class Connection:
    """Jupyter's own, as far as it matters here."""

    kernel_id = "k"
    subprotocol = ""

    def __init__(self):
        self.heard = []

    def connect(self):
        return "connected"

    def disconnect(self):
        return "gone"

    def handle_incoming_message(self, message):
        self.heard.append(message)


def test_a_watched_connection_does_what_it_did_before(activity):
    connection = watch_kernels(Connection, activity)()
    code, _ = _text("execute_request", {"code": "1"})
    assert connection.connect() == "connected"
    assert len(activity.sockets) == 1
    for message in (code, "{"):
        connection.handle_incoming_message(message)
    assert connection.heard == [code, "{"]
    activity.look({"k": "busy"})
    assert (activity.kernels_busy, activity.person_s_ago) == (1, 0)
    assert connection.disconnect() == "gone"
    assert len(activity.sockets) == 0


async def test_a_watched_terminal_does_what_it_did_before(activity):
    class Socket:
        heard: ClassVar[list[str]] = []

        async def on_message(self, message):
            self.heard.append(message)

    socket = watch_terminals(Socket, activity)()
    await socket.on_message('["set_size", 1, 2]')
    assert activity.person_s_ago is None
    await socket.on_message('["stdin", "l"]')
    assert activity.person_s_ago == 0
    assert len(socket.heard) == 2
