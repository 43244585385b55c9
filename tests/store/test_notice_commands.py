"""`nbgpu notices` and `nbgpu maintenance` as they are called, on a deployment's database."""

import json

import pytest

from nbgpu.core.errors import InvalidOptions, UnderMaintenance, UnknownNotice
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from store.test_money_commands import nbgpu, site

__all__ = ["nbgpu", "site"]


def test_a_message_is_sent_listed_and_withdrawn(nbgpu, site):
    assert "Nothing is shown" in nbgpu("notices")
    assert "Message 1 is shown until" in nbgpu("notices", "send", "Lunch\x1b[31m at 12", "--for", "4 h")
    assert "Lunch [31m at 12" in nbgpu("notices")
    (found,) = json.loads(nbgpu("notices", "--json"))
    assert (found["number"], found["text"]) == (1, "Lunch [31m at 12")
    assert "Message 1 is withdrawn" in nbgpu("notices", "withdraw", "1")
    with pytest.raises(UnknownNotice, match="not shown any more"):
        nbgpu("notices", "withdraw", "1")
    with pytest.raises(InvalidOptions, match='--for “soon” is not a number and s, min, h or d, like "8 h"'):
        nbgpu("notices", "send", "x", "--for", "soon")


def test_maintenance_begins_and_ends(nbgpu, site):
    assert nbgpu("maintenance") == "There is no maintenance: servers are started.\nServers that run: 0.\n"
    said = nbgpu("maintenance", "begin", "--reason", "new driver", "--stop-in", "2 h")
    assert "(new driver): no server is started, what runs is stopped at" in said
    cpu = next(flavor for flavor in site.settings.flavors if flavor.slug == "cpu")
    with pytest.raises(UnderMaintenance, match="new driver"):
        site.leases.acquire(ServerRef("bob"), Choice(cpu, "base"), "sha256:1", ())
    assert "what runs goes on" in nbgpu("maintenance", "begin", "--reason", "new driver")
    with pytest.raises(InvalidOptions, match="5 minutes at least"):
        nbgpu("maintenance", "begin", "--reason", "x", "--stop-in", "1 min")
    assert "(new driver)" in nbgpu("maintenance")
    assert "servers are started again" in nbgpu("maintenance", "end")
    assert nbgpu("maintenance", "end") == "There is no maintenance.\n"
    assert site.leases.acquire(ServerRef("bob"), Choice(cpu, "base"), "sha256:1", ()).server == ServerRef("bob")
