"""The `nbgpu` service: `python -m nbgpu.wiring.service`, told of its deployment as the hub is.

It answers at once and gathers its parts afterwards: the hub does not wait for it. It ends with the hub that started it,
and one runs for a deployment: two would count each second twice.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nbgpu.core.errors import NbgpuError
from nbgpu.service.app import ADDRESS, PREFIX, make_app, serve
from nbgpu.service.books import Books, DoctorBook
from nbgpu.service.callers import HubAuth
from nbgpu.service.logs import configure_logs
from nbgpu.service.loops import Loops
from nbgpu.wiring.beside import end_with_the_hub, take_file_lock
from nbgpu.wiring.deployment import Deployment, open_deployment
from nbgpu.wiring.ports import find_port, is_free

if TYPE_CHECKING:
    from nbgpu.wiring.sampling import Sampling

HEALTH_TOKEN = "health-token"  # noqa: S105 - the name of the file that keeps it; it opens nothing else
COOKIE_SECRET = "service-cookie-secret"  # noqa: S105 - the name of the file that keeps it
LOCK_FILE = "service.lock"
URL_FOR_SERVERS = "NBGPU_SERVICE_URL"  # the same variable names it to the servers
LOCK_SECONDS = 20.0  # for the service of a hub that has just ended to end, too
BUILD_AGAIN = 5.0  # seconds

log = logging.getLogger("nbgpu.service")


def service_port(deployment: Deployment) -> int:
    """Return the loopback port of the deployment's service; chosen once."""
    file = _port_file(deployment)
    if not file.exists():
        draft = deployment.data / f".service-port-{os.getpid()}"
        draft.write_text(f"{find_port()}\n")
        draft.replace(file)
    return int(file.read_text())


def ensure_service_port(deployment: Deployment) -> int:
    """Return a port that the service can have: another where somebody else has taken it."""
    port = service_port(deployment)
    lock = take_lock(deployment, seconds=0)
    if lock is None:
        return port  # the service of the hub before, which is about to end
    with lock:
        if not is_free(port):
            _port_file(deployment).unlink()
    return service_port(deployment)


def find_address(deployment: Deployment) -> str | None:
    """Return where the service answers on this machine, like "http://127.0.0.1:20000/services/nbgpu/"; None: never."""
    return f"http://{ADDRESS}:{service_port(deployment)}{PREFIX}" if _port_file(deployment).exists() else None


def read_health(deployment: Deployment) -> dict[str, Any] | None:
    """Return what the running service says of itself; None when none answers."""
    if not _port_file(deployment).exists():
        return None
    url = f"http://{ADDRESS}:{service_port(deployment)}{PREFIX}health"
    request = urllib.request.Request(url, headers={"Authorization": f"token {deployment.secret(HEALTH_TOKEN)}"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError, ValueError), direct.open(request, timeout=3) as answer:
        found = json.load(answer)
        return found if isinstance(found, dict) else None
    return None


def take_lock(deployment: Deployment, *, seconds: float = LOCK_SECONDS) -> IO[str] | None:
    """Take the right to be the deployment's service, as an open file; None where another keeps it for so long."""
    return take_file_lock(deployment.data / LOCK_FILE, seconds=seconds)


class Work:
    """The loops, once they can be built: the database may be away when the service begins."""

    def __init__(self, build: "Callable[[], Sampling]") -> None:
        self._build = build
        self._sampling: Sampling | None = None
        self._loops: Loops | None = None
        self._error: str | None = None
        self._is_simulated = False
        self._metrics: Callable[[], bytes] | None = None
        self._ending = threading.Event()
        self._doctor: DoctorBook | None = None

    def begin(self) -> None:
        """Build and start, in the background, and again until it goes."""
        threading.Thread(target=self._begin, name="nbgpu-begin", daemon=True).start()

    def end(self) -> None:
        """Stop the loops and write what was sampled since the last minute."""
        self._ending.set()
        if self._loops is not None and self._sampling is not None:
            self._loops.stop()
            try:
                self._sampling.writer.write()
            except NbgpuError as error:
                log.warning("The last minute is lost: %s", error)

    def health(self) -> dict[str, Any]:
        """Return how the service does."""
        if self._loops is None or self._sampling is None:
            return {"status": "starting", "problem": self._error}
        sampler, loops = self._sampling.sampler.health(), self._loops.health()
        stale = sampler["stale"] or any(loop["stale"] for loop in loops.values())
        return {"status": "stale" if stale else "ok", "sampler": sampler, "loops": loops}

    def books(self) -> Books | None:
        """Return what the API tells of; None while the service begins."""
        if self._sampling is None:
            return None
        from nbgpu.store.session_list import SqlSessionList
        from nbgpu.telemetry.server_stopper import ServerStopper
        from nbgpu.wiring.idle import ServiceIdle
        from nbgpu.wiring.images import ServiceImages

        adapters = self._sampling.adapters
        return Books(
            statements=adapters.statements,
            limits=adapters.limits,
            prices=adapters.prices,
            board=adapters.board,
            broadcasts=adapters.broadcasts,
            maintenance=adapters.maintenance,
            images=ServiceImages(adapters),
            doctor=self._doctor,
            policies=adapters.policy_desk,
            credits=adapters.credit_desk,
            clock=adapters.clock,
            timezone=adapters.settings.billing.timezone,
            account_id=adapters.deployment.prefix,
            currency=adapters.settings.billing.currency,
            flavors={each.slug: each for each in adapters.settings.flavors},
            idle=ServiceIdle(adapters.database, adapters.settings.idle_site, self._sampling.idle_watch),
            sessions=SqlSessionList(adapters.database, adapters.idle, adapters.clock),
            pool=self._sampling.pool,
            audit=adapters.audit,
            stopper=ServerStopper(adapters.hub_api, adapters.leases, adapters.audit),
            find_due=adapters.idle.due,
            metrics=self._metrics,
            is_simulated=self._is_simulated,
            is_local=adapters.is_local,
        )

    def _begin(self) -> None:
        from nbgpu.wiring.metrics import build_metrics
        from nbgpu.wiring.money import Money

        while not self._ending.is_set():
            try:
                sampling = self._build()
                self._is_simulated = sampling.adapters.inventory.snapshot().simulated
                loops = Loops([*sampling.loops(), *Money(sampling.adapters).loops()])
            except NbgpuError as error:
                if str(error) != self._error:
                    log.warning("The service can't begin yet: %s", error)
                self._error = str(error)
            except Exception as error:
                log.exception("The service can't begin yet")
                self._error = f"{type(error).__name__}: {error}"
            else:
                self._metrics = build_metrics(sampling, self.health)
                self._doctor = _build_doctor(sampling)
                self._sampling, self._loops = sampling, loops
                loops.start()
                return
            self._ending.wait(BUILD_AGAIN)


def _build() -> "Sampling":
    # Imported late: with them come the database and Docker, and the service answers before.
    from nbgpu.settings import load
    from nbgpu.wiring.adapters import Adapters
    from nbgpu.wiring.sampling import Sampling

    return Sampling(Adapters(open_deployment(), load(_settings_file())))


def _build_doctor(sampling: "Sampling") -> DoctorBook:
    from nbgpu.wiring.doctor import ServiceDoctor, doctor_command

    adapters = sampling.adapters
    return ServiceDoctor(doctor_command(adapters.deployment, _settings_file()), adapters.clock)


def _settings_file() -> Path:
    return Path(os.environ.get("NBGPU_CONFIG", "nbgpu.toml"))


def _port_file(deployment: Deployment) -> Path:
    return deployment.data / "service-port"


def _place_for_servers(port: int) -> tuple[str, int] | None:
    """Return the second address and port to listen on; None where servers reach the first one."""
    url = urlsplit(os.environ.get(URL_FOR_SERVERS, ""))
    place = (url.hostname or "", url.port or 0)
    return place if all(place) and place != (ADDRESS, port) else None


class LateHubAuth:
    """JupyterHub's `HubAuth`, which reads its settings from the environment, made when somebody first asks.

    Its import takes seconds, in which the service would not answer.
    """

    def __init__(self) -> None:
        self._auth: HubAuth | None = None

    async def get_user(self, handler: Any, *, sync: bool) -> dict[str, Any] | None:
        """Return the hub's model of whoever made a request."""
        if self._auth is None:
            self._auth = await asyncio.to_thread(_make_auth)
        return await self._auth.get_user(handler, sync=sync)


def _make_auth() -> HubAuth:
    from jupyterhub.services import auth

    made: HubAuth = auth.HubAuth()
    return made


def _load_pages(find_books: Callable[[], Books | None]) -> list[tuple[Any, ...]]:
    if "JUPYTERHUB_API_TOKEN" not in os.environ:
        return []  # no hub has started it: nobody could log in
    from nbgpu.service.pages.routes import page_routes

    return page_routes(PREFIX, find_books)


def main(arguments: list[str]) -> None:
    """Be the service until told to end; the argument is the hub's process id, 0 for none."""
    end_with_the_hub(int(arguments[0]) if arguments else 0)
    configure_logs()
    deployment = open_deployment()
    lock = take_lock(deployment)
    if lock is None:
        raise SystemExit(f"Another nbgpu service runs for {deployment.data}.")
    work = Work(_build)
    work.begin()
    try:
        cookies = deployment.secret(COOKIE_SECRET)
        app = make_app(work.health, deployment.secret(HEALTH_TOKEN), work.books, LateHubAuth(), cookie_secret=cookies)
        port = service_port(deployment)
        load_pages = partial(_load_pages, work.books)
        asyncio.run(serve(port, app, for_servers=_place_for_servers(port), load_pages=load_pages))
    except OSError as error:
        raise SystemExit(f"The service can't listen on port {service_port(deployment)}: {error}") from error
    finally:
        work.end()
        lock.close()


if __name__ == "__main__":
    main(sys.argv[1:])
