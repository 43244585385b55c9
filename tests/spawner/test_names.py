"""Names: valid, DNS-safe, bounded, distinct and stable for any user and server."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.leases import ServerRef
from nbgpu.spawner.names import container_name, home_volume_name

PREFIX = "nbgpu-abcdef"
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
AWKWARD = [
    "ann",
    "Ann",
    "ANN",
    "ann--b",
    "x.y.z@example.org",
    "x_y_z@example.org",
    "KimLee42",
    "kimlee42",
    "..",
    "a/b",
    "a_b",
    "a-b",
    "-ann",
    "_ann",
    ".ann",
    "4ever",
    "名前",
    "ünï",
    "uni",
    "a" * 200,
    "a" * 199 + "b",
    "home-ann",
    "a b",
    "a\nb",
    "%2e%2e",
]


@pytest.mark.case(1)
@pytest.mark.case(2)
def test_awkward_names_give_valid_and_distinct_names():
    servers = [ServerRef(user, server) for user in AWKWARD for server in ("", "a", "b", "x" * 30)]
    names = [container_name(PREFIX, server) for server in servers]
    assert all(DNS_LABEL.fullmatch(name) for name in names)
    assert len(set(names)) == len(servers)
    homes = [home_volume_name(PREFIX, user) for user in AWKWARD]
    assert all(DNS_LABEL.fullmatch(home) for home in homes)
    assert len(set(homes)) == len(AWKWARD)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (ServerRef("ann"), "nbgpu-abcdef-ann"),
        (ServerRef("ann", "two"), "nbgpu-abcdef-ann--two"),
        (ServerRef("x.y@example.org"), "nbgpu-abcdef-x-y-example-o-9f6c2084"),
    ],
)
def test_names_never_change(server, name):
    """A container, and above all a home, is found again by these names: a new rule needs a migration."""
    assert container_name(PREFIX, server) == name


@pytest.mark.case(4)
def test_the_home_is_the_users_whatever_the_server():
    assert home_volume_name(PREFIX, "x.y@example.org") == "nbgpu-abcdef-home-x-y-example-o-9f6c2084"


USERS = st.text(min_size=1, max_size=255)
SERVERS = st.text(max_size=30)


@pytest.mark.case(1)
@pytest.mark.case(3)
@given(USERS, SERVERS, USERS, SERVERS)
def test_distinct_servers_have_distinct_valid_names(user, server, other_user, other_server):
    first, second = ServerRef(user, server), ServerRef(other_user, other_server)
    names = container_name(PREFIX, first), container_name(PREFIX, second)
    assert all(DNS_LABEL.fullmatch(name) for name in names)
    assert (names[0] == names[1]) == (first == second)
