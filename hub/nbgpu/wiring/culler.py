"""The culler: `python -m nbgpu.wiring.culler HUB_PID`, kept by the hub as the `nbgpu` service is.

It asks the service which idle servers are due. While none is, it asks the hub nothing: a list of thousands of users
costs the hub something. It outlives the absence of both, and ends with the hub.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Collection

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from nbgpu.service.app import ADDRESS, PREFIX
from nbgpu.service.logs import configure_logs
from nbgpu.telemetry.cull_round import FIRST_PAUSE, cull_round
from nbgpu.wiring.beside import end_with_the_hub, take_file_lock
from nbgpu.wiring.deployment import Deployment, open_deployment
from nbgpu.wiring.service import service_port

LOCK_FILE = "culler.lock"
LOCK_SECONDS = 20.0  # for the culler of a hub that has just ended to end, too
PERIOD = 15.0  # seconds between two rounds
ASK_SECONDS = 10.0
FRESH = 2.0  # seconds for which an answer is good enough to stop by it
# The library makes all its coroutines first: those of the pages before one that fails are never run.
NEVER_RUN = r"coroutine '.*handle_user' was never awaited"

log = logging.getLogger("nbgpu.culler")


class Service:
    """The `nbgpu` service, as far as the culler asks it."""

    def __init__(self, deployment: Deployment, token: str) -> None:
        self._deployment = deployment
        self._token = token
        self._problem = ""
        self._known: frozenset[str] = frozenset()
        self._asked = float("-inf")

    async def due(self) -> Collection[str]:
        """Return the sessions that are to be stopped now; none where that can't be asked."""
        now = asyncio.get_running_loop().time()
        if now - self._asked >= FRESH:
            self._known = await self._ask()
            self._asked = now
        return self._known

    async def _ask(self) -> frozenset[str]:
        try:
            answer = await AsyncHTTPClient().fetch(self._request())
            found = frozenset(str(each["session_id"]) for each in json.loads(answer.body)["due"])
        except (HTTPClientError, OSError, ValueError, KeyError, TypeError) as error:
            self._tell(f"The service can't be asked which servers are due, and none is stopped for that: {error}")
            return frozenset()
        self._tell("")
        return found

    def _request(self) -> HTTPRequest:
        # Its port is another after a start of the hub that found the old one taken.
        url = f"http://{ADDRESS}:{service_port(self._deployment)}{PREFIX}api/v1/idle/due"
        return HTTPRequest(url, headers={"Authorization": f"token {self._token}"}, request_timeout=ASK_SECONDS)

    def _tell(self, problem: str) -> None:
        """Log a trouble once, not every round."""
        if problem != self._problem:
            log.warning("%s", problem or "The service answers again")
        self._problem = problem


class Culler:
    """Makes rounds."""

    def __init__(
        self, *, service: Service, hub_url: str, token: str, period: float = PERIOD, pause: float = FIRST_PAUSE
    ) -> None:
        """Take whom to ask; `hub_url` is that of the hub's API, `token` the culler's own."""
        self._service = service
        self._hub_url = hub_url
        self._token = token
        self._period = period
        self._pause = pause

    async def run(self) -> None:
        """Make rounds until cancelled, the first one after a while: the service begins as this does."""
        while True:
            await asyncio.sleep(self._period)
            try:
                await self.round()
            except Exception:
                log.exception("A round failed; the next one comes")

    async def round(self) -> None:
        """Stop what is due."""
        due = sorted(await self._service.due())
        if not due:
            return
        ask = self._service.due
        done = await cull_round(self._hub_url, self._token, due=due, still_due=ask, pause=self._pause)
        log.info(
            "Examined %d running servers: %d were due, %d of them were told to stop",
            done.examined,
            len(due),
            len(done.stopped),
        )


async def _run(culler: Culler) -> None:
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    work = asyncio.create_task(culler.run())
    await ending.wait()
    work.cancel()


def main(arguments: list[str]) -> None:
    """Be the culler until told to end; the argument is the hub's process id, 0 for none."""
    end_with_the_hub(int(arguments[0]) if arguments else 0)
    configure_logs()
    warnings.filterwarnings("ignore", NEVER_RUN, RuntimeWarning)
    deployment = open_deployment()
    lock = take_file_lock(deployment.data / LOCK_FILE, seconds=LOCK_SECONDS)
    if lock is None:
        raise SystemExit(f"Another culler runs for {deployment.data}.")
    token = os.environ["JUPYTERHUB_API_TOKEN"]
    service = Service(deployment, token)
    with lock:
        asyncio.run(_run(Culler(service=service, hub_url=os.environ["JUPYTERHUB_API_URL"], token=token)))


if __name__ == "__main__":
    main(sys.argv[1:])
