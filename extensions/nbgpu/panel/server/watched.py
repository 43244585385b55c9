"""Jupyter's own connections to kernels and terminals, that tell the activity what people do, and else do as ever."""

import os
from collections.abc import Mapping
from typing import Any

from nbgpu.panel.server.activity import Activity
from nbgpu.panel.server.messages import is_typed, sends_code


def watch_kernels(connection: type[Any], activity: Activity) -> type[Any]:
    """Return a class of connections to kernels like this one, whatever a site has configured."""

    class WatchedConnection(connection):  # type: ignore[misc]  # known when the server runs
        def connect(self) -> Any:
            activity.sockets.add(self)
            return super().connect()

        def disconnect(self) -> Any:
            activity.sockets.discard(self)
            return super().disconnect()

        def handle_incoming_message(self, incoming_msg: str | bytes) -> Any:
            if sends_code(incoming_msg, getattr(self, "subprotocol", None)):
                activity.code_sent(self.kernel_id)
            return super().handle_incoming_message(incoming_msg)

    return WatchedConnection


def watch_terminals(socket: type[Any], activity: Activity) -> type[Any]:
    """Return a class of terminal sockets like this one."""

    class WatchedSocket(socket):  # type: ignore[misc]  # known when the server runs
        async def on_message(self, message: str | bytes) -> None:
            if is_typed(message):
                activity.person()
            await super().on_message(message)

    return WatchedSocket


def count_jobs(terminals: Mapping[str, Any]) -> int:
    """Return in how many terminals a program of the shell's runs in the foreground."""
    return sum(_has_job(each.ptyproc) for each in terminals.values())


def _has_job(shell: Any) -> bool:
    try:
        return os.tcgetpgrp(shell.fd) not in (shell.pid, 0)
    except OSError:  # it has just ended
        return False
