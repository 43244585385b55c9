"""Loopback ports that are chosen once for a deployment."""

import random
import socket

_PORTS = range(20_000, 32_000)  # below those that Linux gives to outgoing connections


def find_port() -> int:
    """Return a free port, chosen at random: the next deployment's hub may not listen yet when its neighbour looks."""
    return next(port for port in random.sample(_PORTS, len(_PORTS)) if is_free(port))


def is_free(port: int) -> bool:
    """Whether somebody could listen on a port of loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
