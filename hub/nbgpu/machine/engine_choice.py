"""Which engine a deployment gets: decided once, when it is first started, and kept in its data folder.

Homes and running servers belong to an engine, so a deployment that has one keeps it unless it is told otherwise, and
then only once nothing of it runs any more.
"""

from collections.abc import Callable

from nbgpu.core.errors import EngineUnavailable, SetupError
from nbgpu.machine import engine
from nbgpu.machine.host import Host
from nbgpu.machine.steps import NoEngine, Wanted, set_up, steps
from nbgpu.settings import Settings
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.local import EngineKind, check_local_address, record_engine, recorded_engine

Say = Callable[[str], None]


def ensure_engine_of(deployment: Deployment, settings: Settings, host: Host, say: Say) -> EngineKind:
    """Set the machine up for the deployment's engine and record which that is. Raises SetupError, SettingsError."""
    recorded, wanted = recorded_engine(deployment), settings.engine.kind
    if recorded is not None and wanted not in ("auto", recorded):
        _check_nothing_runs(deployment, settings, recorded, wanted)
    if recorded is not None and wanted == "auto":
        wanted = recorded

    def take_local() -> None:  # before anything is made for it: what is then left can be purged without Docker
        check_local_address(settings.hub.address)
        record_engine(deployment, "local")

    kind = bring_engine(host, wanted, say, on_local=take_local)
    record_engine(deployment, kind)
    return kind


def bring_engine(
    host: Host, wanted: Wanted, say: Say, *, for_tests: bool = False, on_local: Callable[[], None] = lambda: None
) -> EngineKind:
    """Set the machine up; "auto" takes processes where no Docker engine can be had, and says why. SetupError.

    `on_local` is called before the machine is set up for processes.
    """
    if wanted != "auto":
        if wanted == "local":
            on_local()
        set_up(steps(host, wanted, for_tests=for_tests))
        return wanted
    problems = engine.blockers(host)
    if not problems:
        try:
            set_up(steps(host, "docker", for_tests=for_tests))
        except NoEngine as error:
            problems = [str(error)]
        else:
            return "docker"
    say("No Docker engine can be had here; servers run as processes of this account, for one person trying it out:")
    for problem in problems:
        say(f"  - {problem}")
    on_local()
    set_up(steps(host, "local", for_tests=for_tests))
    return "local"


def _check_nothing_runs(deployment: Deployment, settings: Settings, recorded: EngineKind, wanted: str) -> None:
    how = (
        f"End its notebooks with `make down`, with the same DATA, before its engine is changed to {wanted}, or use "
        "another data folder. Homes stay with their engine."
    )
    try:
        running = [each for each in Adapters(deployment, settings).fleet.containers() if each.running]
    except EngineUnavailable as error:
        raise SetupError(
            f"{deployment.data} has notebooks in {recorded}, which can't be asked: {error} {how}"
        ) from error
    if running:
        raise SetupError(f"{deployment.data} has {len(running)} notebooks that run in {recorded}. {how}")
