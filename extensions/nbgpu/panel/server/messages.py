"""What a browser sends, as far as it tells that a person did something. What can't be read tells nothing."""

import json
import re
import struct
from typing import Any

V1 = "v1.kernel.websocket.jupyter.org"
# What a terminal answers by itself when a program asks it: attributes, the cursor's place, a change of focus.
_ANSWERS = re.compile(r"(\x1b\[[?>=]?[\d;]*[cnR]|\x1b\[[IO]|\x1b[\]P][^\x07\x1b]*(\x07|\x1b\\))+")


def sends_code(message: str | bytes, subprotocol: str | None) -> bool:
    """Whether a message to a kernel is code that somebody runs, or what they typed when code asked for it.

    Silent requests are those of programs.
    """
    try:
        header, content = _parts_v1(message) if subprotocol == V1 else _parts(message)
        kind = header.get("msg_type")
        return kind == "input_reply" or (kind == "execute_request" and not content.get("silent"))
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, struct.error):
        return False


def _parts_v1(message: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and content. The parts: channel, header, parent header, metadata, content, buffers."""
    data = message.encode() if isinstance(message, str) else message
    (count,) = struct.unpack_from("<Q", data)
    offsets = struct.unpack_from(f"<{count}Q", data, 8)
    header: dict[str, Any] = json.loads(data[offsets[1] : offsets[2]])
    is_code = header.get("msg_type") == "execute_request"
    return header, json.loads(data[offsets[4] : offsets[5]]) if is_code else {}


def _parts(message: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(message, bytes):
        (_, begin, *_) = struct.unpack_from("!II", message)
        end = struct.unpack_from("!I", message, 8)[0] if struct.unpack_from("!I", message)[0] > 1 else None
        message = message[begin:end].decode()
    plain = json.loads(message)
    return plain["header"], plain["content"]


def is_typed(message: str | bytes) -> bool:
    """Whether a message to a terminal is something typed."""
    try:
        kind, *rest = json.loads(message)
        return kind == "stdin" and bool(rest) and _ANSWERS.fullmatch(str(rest[0])) is None
    except (ValueError, TypeError):
        return False
