"""`nbgpu gpus` and `nbgpu gpus return`, on a simulated machine."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from nbgpu.cli import cordon, gpus
from nbgpu.cli.main import app
from nbgpu.core.errors import NbgpuError
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.settings import load
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.deployment import open_deployment

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SETTINGS = """
[gpus]
driver = "simulated"
simulated = "h100-mig"

[[flavor]]
slug = "cpu"
display_name = "CPU"
kind = "cpu"
cpus = 1
memory = "1 GiB"
images = ["base"]
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site of the local engine, whose hub does not run."""
    monkeypatch.setattr(cordon, "BETWEEN_LOOKS", 0)
    monkeypatch.setenv("NBGPU_SIMULATOR_ROOT", "")  # put back afterwards
    deployment = open_deployment(tmp_path / "data")
    (deployment.data / "engine").write_text("local\n")
    (tmp_path / "nbgpu.toml").write_text(SETTINGS)
    adapters = Adapters(deployment, load(tmp_path / "nbgpu.toml"))
    assert adapters.inventory.snapshot().devices
    yield adapters
    adapters.leases.close()


def run(site, *arguments: str):
    places = ["--data", str(site.deployment.data), "--config", str(site.deployment.data.parent / "nbgpu.toml")]
    return CliRunner().invoke(app, ["gpus", *arguments, *places])


def put(site, uuid: str, cause: str = "The driver reported Xid 79.") -> None:
    site.quarantines.put(Quarantine(uuid, NOW, Fault(FaultKind.XID, cause), last_good_at=NOW))


def test_a_device_in_quarantine_is_shown_with_its_cause(site):
    uuid = site.inventory.snapshot().devices[0].uuid
    put(site, uuid)
    shown = " ".join(run(site).output.split())
    assert "in quarantine since" in shown
    assert ". The driver reported Xid 79." in shown
    assert "Not sampled now" in shown
    rows = {row["uuid"]: row for row in json.loads(run(site, "--json").output)}
    assert rows[uuid]["quarantine"]["cause"] == "The driver reported Xid 79."
    assert rows[uuid]["quarantine"]["last_good_at"] == NOW.isoformat()
    assert [row["quarantine"] for row in rows.values()].count(None) == len(rows) - 1


def test_a_device_comes_back_with_its_instances_and_leaves_a_row_in_the_audit(site):
    devices = site.inventory.snapshot().devices
    parent = next(device.parent_uuid for device in devices if device.is_mig)
    migs = [device.uuid for device in devices if device.is_mig]
    for uuid in (parent, *migs):
        put(site, uuid)
    done = run(site, "return", parent)
    assert done.exit_code == 0, done.output
    assert done.output.count("is leased again") == 8
    assert site.quarantines.open() == {}
    assert {row.subject for row in site.audit.latest() if row.action == "gpu.return"} == {parent, *migs}


def test_a_device_that_still_has_a_fault_stays(site):
    """Its fault hides its UUID from a process that has not seen it before, like this command."""
    devices = site.inventory.snapshot().devices
    uuid = next(device.uuid for device in devices if not device.mig_enabled and not device.is_mig)
    put(site, uuid)
    SimulatedDriver(site.deployment.simulator_root).set(uuid, **{"fault.*": "RESET_REQUIRED"})
    done = run(site, "return", uuid)
    assert isinstance(done.exception, NbgpuError)
    assert "stays in quarantine. It was read again: This GPU needs a reset" in str(done.exception)
    assert uuid in site.quarantines.open()


def test_one_that_the_driver_no_longer_has_can_be_struck_off(site):
    put(site, "GPU-sold")
    shown = run(site).output
    assert "GPU-sold: in quarantine since" in shown
    assert ", and the driver does not show it. The driver reported Xid 79." in shown
    assert run(site, "return", "GPU-sold").exit_code == 0
    assert site.quarantines.open() == {}


def test_a_gpu_is_taken_out_of_service_with_its_instances_and_comes_back(site):
    devices = site.inventory.snapshot().devices
    parent = next(device.parent_uuid for device in devices if device.is_mig)
    done = run(site, "cordon", parent, "--reason", "a\x1bfan \n is loud")
    assert done.exit_code == 0, done.output
    assert done.output.count("is leased to nobody new.") == 8
    shown = " ".join(run(site).output.split())
    assert "out of service since" in shown
    assert "has taken it out of service: a fan is loud" in shown
    again = run(site, "cordon", parent, "--reason", "twice")
    assert f"{parent} is out of service already." in str(again.exception)
    assert run(site, "uncordon", parent).output.count("is leased again") == 8
    assert site.quarantines.open() == {}
    assert {row.detail for row in site.audit.latest() if row.action == "gpu.cordon"} == {"a fan is loud"}


def test_a_device_of_which_nobody_knows_is_not_taken_out_of_service(site):
    assert "This machine has no device GPU-x." in str(run(site, "cordon", "GPU-x", "--reason", "any").exception)
    uuid = site.inventory.snapshot().devices[0].uuid
    assert "Say why" in str(run(site, "cordon", uuid, "--reason", " ").exception)
    put(site, uuid)
    assert f"{uuid} is not in quarantine" in str(run(site, "uncordon", uuid).exception), "a fault is no cordon"


def test_one_that_is_not_in_quarantine_is_refused_with_those_that_are(site):
    put(site, "GPU-other")
    done = run(site, "return", "GPU-x")
    assert "GPU-x is not in quarantine. In quarantine: GPU-other." in str(done.exception)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ({"stale": False, "sampled_s_ago": 1.4, "problem": None}, "Sampled 1 s ago."),
        ({"stale": True, "sampled_s_ago": 75.0, "problem": "Gone."}, "Stale: last sampled 75 s ago. Gone."),
        ({"stale": True, "sampled_s_ago": None, "problem": None}, "Stale: not sampled yet."),
        (None, "Not sampled now: the hub's nbgpu service does not answer. `nbgpu doctor` says more."),
    ],
)
def test_the_age_of_the_last_look_is_told(sampler, words):
    assert gpus.describe_sampler(sampler) == words
