"""The culler's rights on a real hub: all of them are needed, they are enough, and they allow nothing else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.running import until
from local.running import LocalRun
from nbgpu.machine.host import Host
from nbgpu.machine.notebook import ensure_notebook
from nbgpu.machine.proxy import default_cache
from nbgpu.telemetry.cull_round import Round, cull_round
from nbgpu.wiring.culler import LOCK_FILE
from nbgpu.wiring.keep_culler import CULLER_SCOPES, CULLER_TOKEN

ROOT = Path(__file__).parents[2]
ENGINE = '\n[engine]\nkind = "local"\n'
# A service for each right, which has all the others.
ONE_LESS = """
from nbgpu.wiring.keep_culler import CULLER_SCOPES

for number, scope in enumerate(CULLER_SCOPES):
    name = f"without-{number}"
    c.JupyterHub.services.append({"name": name, "api_token": f"{number:064}", "display": False})
    others = [each for each in CULLER_SCOPES if each != scope]
    c.JupyterHub.load_roles.append({"name": name, "scopes": others, "services": [name]})
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Iterator[LocalRun]:
    """A hub with two running servers."""
    ensure_notebook(Host(), default_cache(), print)
    folder = tmp_path_factory.mktemp("site")
    (folder / "nbgpu.toml").write_text((ROOT / "nbgpu.toml").read_text() + ENGINE)
    (folder / "config.d").mkdir()
    (folder / "config.d" / "one_less.py").write_text(ONE_LESS)
    run = LocalRun(folder, folder / "nbgpu.toml")
    try:
        run.start()
        for user in ("ann", "bob"):
            run.ask_for(user, "cpu")
        for user in ("ann", "bob"):
            until(lambda user=user: run.is_ready(user), seconds=60)
        yield run
    finally:
        run.close()


@pytest.fixture
def sessions(run) -> dict[str, str]:
    return {lease["username"]: lease["session_id"] for lease in run.leases()}


def one_round(run: LocalRun, token: str, session_id: str) -> Round:
    due = [session_id]

    async def still_due():
        return due

    return asyncio.run(cull_round(f"{run.url}/api", token, due=due, still_due=still_due, pause=0.01))


def ask_due(run: LocalRun, token: str) -> httpx.Response:
    url = f"http://127.0.0.1:{run.port}/services/nbgpu/api/v1/idle/due"
    return httpx.get(url, headers={"Authorization": f"token {token}"}, trust_env=False)


FOR_THE_HUB = [each for each in CULLER_SCOPES if not each.startswith(("access:", "custom:"))]
FOR_THE_SERVICE = [each for each in CULLER_SCOPES if each not in FOR_THE_HUB]


def token_without(scope: str) -> str:
    return f"{CULLER_SCOPES.index(scope):064}"


@pytest.mark.parametrize("scope", FOR_THE_HUB)
def test_without_any_one_of_its_rights_at_the_hub_it_stops_nothing(run, sessions, scope):
    one_round(run, token_without(scope), sessions["ann"])
    assert run.is_ready("ann")
    assert ask_due(run, token_without(scope)).json() == {"due": []}


@pytest.mark.parametrize("scope", FOR_THE_SERVICE)
def test_without_its_rights_at_the_service_it_is_told_nothing(run, scope):
    assert ask_due(run, token_without(scope)).status_code == 403


def test_its_process_runs_beside_the_hub(run):
    assert (run.data / LOCK_FILE).exists()
    (log,) = run.data.glob("hub.log")
    assert "The culler ended" not in log.read_text()


def test_with_them_it_stops_what_is_due_and_may_do_nothing_else(run, sessions):
    token = (run.data / CULLER_TOKEN).read_text().strip()
    done = one_round(run, token, sessions["ann"])
    assert (done.examined, done.stopped) == (2, {sessions["ann"]})
    until(lambda: not run.api.get("/users/ann").json()["servers"])
    assert run.is_ready("bob")
    assert run.api.get("/users/ann").status_code == 200, "users stay"
    with httpx.Client(base_url=f"{run.url}/api", headers={"Authorization": f"token {token}"}) as culler:
        assert culler.post("/users/ann/server").status_code == 403
        assert culler.delete("/users/ann").status_code == 403
        assert culler.post("/users/ann/tokens").status_code in (403, 404)
        assert culler.get("/proxy").status_code == 403
        (bob,) = (each for each in culler.get("/users").json() if each["name"] == "bob")
    assert not {"groups", "roles", "auth_state", "last_activity"} & set(bob)
