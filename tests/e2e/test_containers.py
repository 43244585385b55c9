"""What a server's container is to Docker, and what it can reach."""

import json

import pytest

from e2e.running import until

pytestmark = pytest.mark.docker
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3); print('reached')"


def address(container, network):
    container.reload()
    return container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"]


def environment(container):
    return dict(each.split("=", 1) for each in container.attrs["Config"]["Env"])


@pytest.fixture(scope="module")
def pair(shared_hub):
    """Two people's servers: one with a GPU slice, one without a GPU."""
    users = shared_hub.add_user("gina"), shared_hub.add_user("carl")
    shared_hub.start_all([(users[0], "", {"profile": "mig-1g"}), (users[1], "", {"profile": "cpu"})])
    yield users
    shared_hub.stop_all()


@pytest.mark.case(35)
def test_limits_and_hardening(shared_hub, pair):
    container = shared_hub.container(pair[0])
    host, config = container.attrs["HostConfig"], container.attrs["Config"]
    assert config["User"] not in ("", "0", "root")
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert (host["Privileged"], host["Init"], host["PidsLimit"]) == (False, True, 1024)
    assert host["Memory"] == host["MemorySwap"] == 4 * 2**30
    assert host["ShmSize"] == 2 * 2**30
    assert (host["CpuQuota"], host["CpuPeriod"]) == (200_000, 100_000)
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}
    assert not host["PortBindings"]
    assert host["RestartPolicy"]["Name"] in ("", "no")


def test_the_limits_hold_inside(shared_hub, pair):
    status = shared_hub.run_in(pair[0], "cat", "/proc/self/status")[1]
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert set(fields["Uid"].split()) == {"1000"}
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert shared_hub.run_in(pair[0], "df", "--output=size", "-B1", "/dev/shm")[1].split()[-1] == str(2 * 2**30)


def test_each_sees_its_own_devices_and_thread_share(shared_hub, pair):
    for user in pair:
        variables = environment(shared_hub.container(user))
        uuids = ",".join(shared_hub.lease(user).allocation.device_uuids)
        assert variables["NVIDIA_VISIBLE_DEVICES"] == (uuids or "void")
        assert variables["NBGPU_DEVICES"] == uuids
        assert {variables[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {"2"}
    assert environment(shared_hub.container(pair[0]))["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    code, output = shared_hub.run_in(pair[1], "python3", "-c", "import pynvml; pynvml.nvmlInit()")
    assert code != 0
    assert "NVMLError" in output


def test_nobody_reaches_another_but_everybody_the_hub(shared_hub, pair):
    network = f"{shared_hub.prefix}-net"
    containers = [shared_hub.container(user) for user in pair]
    gateway = shared_hub.engine.networks.get(network).attrs["IPAM"]["Config"][0]["Gateway"]
    for own, other in (containers, containers[::-1]):
        code, output = own.exec_run(["python3", "-c", CONNECT, address(other, network), "8888"])
        assert (code, b"TimeoutError" in output or b"timed out" in output) == (1, True), output
        assert own.exec_run(["python3", "-c", CONNECT, address(own, network), "8888"]).exit_code == 0
        code, output = own.exec_run(["curl", "-sS", "-m", "5", f"http://{gateway}:8081/hub/api"])
        assert code == 0, output
        assert json.loads(output)["version"]


def test_the_home_is_there_in_the_next_server_with_another_flavor(shared_hub, pair):
    user = pair[1]
    volume = f"{shared_hub.prefix}-home-{user}"
    mounts = {mount["Destination"]: mount for mount in shared_hub.container(user).attrs["Mounts"]}
    assert (mounts["/home/nbgpu"]["Type"], mounts["/home/nbgpu"]["Name"]) == ("volume", volume)
    assert shared_hub.run_in(user, "sh", "-c", "echo kept > ~/file; echo lost > /tmp/file")[0] == 0
    before = shared_hub.container(user).id
    shared_hub.stop_server(user)
    shared_hub.started(user, profile="t4-shared")
    assert shared_hub.container(user).id != before
    look = "cat ~/file; test ! -e /tmp/file && echo lost"  # the server has a folder of its own there
    assert shared_hub.run_in(user, "sh", "-c", look) == (0, "kept\nlost\n")
    until(lambda: len(shared_hub.containers()) == 2)
