"""Commands that packages bring."""

import pytest
from tests.machine.conftest import FakeHost, fails

from nbgpu.core.errors import SetupError
from nbgpu.machine.packages import COMPILER, DEBOOTSTRAP, DOCKER_ENGINE, blockers, ensure_tools


def test_a_tool_that_is_there_runs_nothing(details):
    host = FakeHost(programs={"cc"})
    assert ensure_tools(host, [COMPILER], details.append) == "there"
    assert host.ran == []


def test_all_that_is_missing_comes_in_one_install(details):
    host = FakeHost()
    host.on_run["install"] = host.brings("gcc", "debootstrap")
    ensure_tools(host, [COMPILER, DEBOOTSTRAP], details.append)
    installs = [command for command in host.ran if " --yes " in command]
    assert len(installs) == 1
    assert installs[0].endswith("debootstrap gcc libc6-dev")


def test_split_packages_are_installed_where_they_exist(details):
    host = FakeHost(outputs={"apt-cache policy docker-cli": "docker-cli:\n  Candidate: 26.1\n"})
    host.on_run["install"] = host.brings("dockerd")
    ensure_tools(host, [DOCKER_ENGINE], details.append)
    assert host.ran[-1].endswith("ca-certificates docker.io iptables docker-cli")


def test_sudo_is_used_when_not_root(details):
    host = FakeHost(root=False, sudo=True)
    host.on_run["install"] = host.brings("gcc")
    ensure_tools(host, [COMPILER], details.append)
    assert all(command.startswith("sudo -n env DEBIAN_FRONTEND=noninteractive") for command in host.ran)


def test_an_interrupted_install_is_finished_first(details):
    host = FakeHost(outputs={"dpkg --audit": "docker.io is half configured"})
    host.on_run["install"] = host.brings("gcc")
    ensure_tools(host, [COMPILER], details.append)
    assert host.ran[0].endswith("dpkg --configure -a")


def test_a_dead_source_does_not_stop_the_install(details):
    host = FakeHost()
    host.on_run = {"update": fails("no such host"), "install": host.brings("gcc")}
    assert ensure_tools(host, [COMPILER], details.append) == "installed gcc libc6-dev"
    assert "no such host" in details


def test_a_failed_install_names_the_packages_and_the_cause(details):
    host = FakeHost(on_run={"install": fails("E: disk full")})
    with pytest.raises(SetupError, match=r"gcc libc6-dev could not be installed.*disk full"):
        ensure_tools(host, [COMPILER], details.append)


def test_a_package_without_its_command_is_an_error(details):
    with pytest.raises(SetupError, match=r"brought no command gcc"):
        ensure_tools(FakeHost(), [COMPILER], details.append)


@pytest.mark.parametrize(
    ("host", "how"),
    [
        (FakeHost(root=False), "as root: apt-get install gcc libc6-dev"),
        (FakeHost(apt=False), "with your package manager; Debian's names: gcc libc6-dev"),
    ],
)
def test_blockers_say_what_to_install(host, how, details):
    assert blockers(host, [COMPILER]) == [f"gcc (compiles the simulated driver): {how}"]
    with pytest.raises(SetupError, match=how):
        ensure_tools(host, [COMPILER], details.append)
