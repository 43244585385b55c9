"""Why a session ended: the reason as it is kept, with the server's last words, and as its owner reads it. Pure."""

import re
from dataclasses import dataclass

from nbgpu.core.stops import STOPPED_BY_ADMIN
from nbgpu.core.texts import Text

LAST_LINES = 8
_LAST_LINES_LENGTH = 800  # characters: they go to a page
_LEAD = "Last log lines: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a session ended and what its owner can do now."""

    why: Text
    advice: Text | None = None
    words: str = ""  # the server's own last log lines


def describe_last_words(log: bytes) -> str:
    """Return the end of a server's log as the last part of a reason, cut and printable; empty where it said nothing."""
    text = "".join(each if each.isprintable() or each == "\n" else "?" for each in log.decode(errors="replace"))
    words = "\n".join(text.strip().splitlines()[-LAST_LINES:])[-_LAST_LINES_LENGTH:]
    return f"{_LEAD}{words}" if words else ""


def fit_reason(reason: str, length: int) -> str:
    """Return a reason of at most `length` characters: of last words the end is kept, which says most."""
    sentence, lead, words = reason.partition(_LEAD)
    room = length - len(sentence) - len(lead) - 1
    if len(reason) <= length or room <= 0:
        return reason[:length]
    return f"{sentence}{lead}…{words[-room:]}"


_RETRY = Text("Start it again. If this comes back, show an administrator what is written here.")
_ENDINGS: tuple[tuple[str, Text, Text | None], ...] = (
    (r"stopped$", Text("It was stopped on request: by you, by an administrator or by a rule of this hub."), None),
    (r"cancelled$", Text("The start was cancelled before the server was ready."), None),
    (r"reconciled: ", Text("It had ended or was lost, which the hub found when it compared what runs."), _RETRY),
    (r"left over by an earlier start", Text("It was left over from a start that was broken off."), None),
    (
        r"(failed start: )?The server ran out of memory",
        Text("It ran out of memory (RAM) and was ended."),
        Text("Take a flavor with more RAM, or load less data at a time."),
    ),
    (
        r"(failed start: )?The container is gone",
        Text("Its container is gone: somebody removed it, or the machine was restarted."),
        Text("Files in your home folder are kept. Start it again."),
    ),
    (
        r"(failed start: )?The server was killed",
        Text("It was killed: by somebody, or because memory (RAM) ran out."),
        _RETRY,
    ),
    (r"(failed start: )?The server ended with signal", Text("It was ended by a signal from outside."), _RETRY),
    (
        r"failed start: The server did not answer within",
        Text("It did not answer in time and was ended."),
        _RETRY,
    ),
)
_EXIT = re.compile(r"(?:failed start: )?The (?:container|server) ended with exit code (-?\d+)")
_LAST_WORDS = re.compile(rf"\s*{_LEAD}(.*)", re.DOTALL)


def explain_end(reason: str) -> Ending:
    """Return why a session ended, from the reason that was kept: those we write ourselves in the reader's language."""
    words = _LAST_WORDS.search(reason)
    said = words[1] if words else ""
    for pattern, why, advice in _ENDINGS:
        if re.match(pattern, reason):
            return Ending(why=why, advice=advice, words=said)
    code = _EXIT.match(reason)
    if code is not None:
        return Ending(why=Text("Its program ended with exit code %(code)s.", code=code[1]), advice=_RETRY, words=said)
    return _explain_other(_LAST_WORDS.sub("", reason), said)


def _explain_other(reason: str, words: str) -> Ending:
    """A reason that some other part of the program, or a site's own, gave in a sentence of its own."""
    if not reason:
        return Ending(why=Text("The reason is not known."), advice=_RETRY, words=words)
    sentence = reason.removeprefix(STOPPED_BY_ADMIN)
    if sentence != reason:
        return Ending(why=Text("An administrator has stopped it: %(reason)s", reason=sentence), words=words)
    sentence = reason.removeprefix("failed start: ")
    if sentence != reason:
        return Ending(why=Text("Its start failed: %(reason)s", reason=sentence), advice=_RETRY, words=words)
    return Ending(why=Text(reason), words=words)
