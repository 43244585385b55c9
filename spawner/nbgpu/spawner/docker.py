"""Servers as Docker containers: DockerSpawner, with leases, limits and a clean end.

What differs from DockerSpawner: containers are removed and made anew, never restarted (old image, environment and
devices); images come from the catalogue by id and are never pulled at a start; "can't ask" is not "gone"; calls go
through a pool of threads, each with a time limit.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, TypeVar

from docker.errors import APIError
from dockerspawner import DockerSpawner
from traitlets import Integer, Unicode, default

from nbgpu.core.errors import NameTaken, ServerDied
from nbgpu.core.leases import Lease
from nbgpu.core.menu import Choice
from nbgpu.spawner import container, docker_calls, names
from nbgpu.spawner.before_stop import run_in_container
from nbgpu.spawner.deaths import DeathWatch
from nbgpu.spawner.endings import LAST_LINES, describe_last_words
from nbgpu.spawner.flavored import FlavoredSpawner
from nbgpu.spawner.threads import in_thread, see_through

T = TypeVar("T")
_KILLED = 137  # exit code of what SIGKILL ended


class GPUDockerSpawner(FlavoredSpawner, DockerSpawner):  # type: ignore[misc]  # DockerSpawner has no types
    """Runs each server in a container that has exactly the leased devices."""

    calls = Integer(8, config=True, help="Docker calls at one time, for all users together.")
    stop_timeout = Integer(10, config=True, help="Seconds that a server has to end by itself.")
    home = Unicode(container.HOME, config=True, help="Where the home volume is mounted.")

    _pool: ClassVar[ThreadPoolExecutor | None] = None
    _deaths: ClassVar[DeathWatch | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What the site configured; each start builds its own from these.
        self._site_host_config: dict[str, Any] = self._eval_if_callable(self.extra_host_config)
        self._site_create_kwargs: dict[str, Any] = self._eval_if_callable(self.extra_create_kwargs)
        self._grant_environment: dict[str, str] = {}
        self._was_told_to_end = False  # by us: a container that is killed then did not run out of memory

    @default("object_name")
    def _object_name_default(self) -> str:
        return names.container_name(self.prefix, self.server_ref)

    @default("use_internal_ip")
    def _use_internal_ip_default(self) -> bool:
        return True

    @property
    def will_resume(self) -> bool:
        """Never: each start makes a new container, so the hub revokes the old one's token when it ends."""
        return False

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The threads of all Docker calls: one slow call must not block everybody's."""
        cls = type(self)
        if cls._pool is None:
            cls._pool = ThreadPoolExecutor(self.calls, thread_name_prefix="docker")
        return cls._pool

    def _docker(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make one call; the client's own timeout bounds it. Raises APIError for an answer, else EngineUnavailable."""
        return docker_calls.call(self._late_client, method, *args, **kwargs)

    async def _in_pool(self, function: Callable[..., T], *args: Any) -> T:
        """Run one of `docker_calls` in the pool."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, function, self._late_client, *args)

    @property
    def _late_client(self) -> docker_calls.LateClient:
        """The client, made in the pool: making it asks the engine, for which the event loop must not wait."""
        return docker_calls.LateClient(lambda: self.client)

    # Start

    async def launch(self, lease: Lease, choice: Choice) -> str:
        """Create and start the container; return its URL."""
        volume = await self.find_home(names.home_volume_name(self.prefix, self.user.name))
        await in_thread(self._configure, lease, choice, volume)
        try:
            # An existing volume stays as it is.
            await self.docker("create_volume", volume, labels={container.DEPLOYMENT_LABEL: self.prefix})
            await see_through(self._create())
            await see_through(self.start_object())
        except APIError as error:
            raise docker_calls.to_engine_error(error) from error
        return await self._find_url()

    async def _find_url(self) -> str:
        try:
            ip, port = await self.get_ip_and_port()
        except APIError as error:
            raise docker_calls.to_engine_error(error) from error
        return f"http://{ip}:{port}"

    def _configure(self, lease: Lease, choice: Choice, volume: str) -> None:
        """Set the traits from which DockerSpawner builds its create call. It asks the driver: use a thread."""
        grant = self.desk.grant(lease)
        flavor = choice.flavor
        self.image = lease.image_id
        self.mem_limit, self.cpu_limit = flavor.memory, flavor.cpus
        home = {"binds": {volume: {"bind": self.home, "mode": "rw"}}}
        self.extra_host_config = merge(
            container.build_host_config(flavor), home, self._site_host_config, dict(grant.host_config)
        )
        labels = container.build_labels(self.prefix, names.server_slug(self.server_ref), lease)
        self.extra_create_kwargs = merge(self._site_create_kwargs, {"labels": labels})
        self._grant_environment = {
            **container.build_environment(flavor, lease, self.desk.devices(lease)),
            **grant.environment,
            container.SERVICE_VARIABLE: self.service_url,
        }

    async def _create(self) -> None:
        self._was_told_to_end = False
        created = await self.create_object()
        self.object_id = created[self.object_id_key]

    def get_env(self) -> dict[str, str]:
        """Return the server's environment; what the lease says comes last and wins."""
        return {**super().get_env(), **self._grant_environment}

    async def pull_image(self, image: str) -> None:
        """Never pull: images are built or loaded ahead, and started by id."""

    async def find_started_at(self) -> datetime:
        """Return the container's own start time."""
        found = await self._inspect(self.object_id)
        if found is None:
            raise ServerDied("The container is gone.")
        return datetime.fromisoformat(found["State"]["StartedAt"])

    # State

    @property
    def deaths(self) -> DeathWatch:
        """What notices the ends of this deployment's containers."""
        cls = type(self)
        if cls._deaths is None:
            cls._deaths = DeathWatch(self._late_client, f"{container.DEPLOYMENT_LABEL}={self.prefix}")
        return cls._deaths

    def start_polling(self) -> None:
        """Ask now and then whether the server runs, and at once when Docker tells of its end."""
        super().start_polling()
        if self.object_id:
            self.deaths.watch(self.object_id, self.poll_and_notify)

    def stop_polling(self) -> None:
        """Ask no more."""
        super().stop_polling()
        self.deaths.forget(self.object_id)

    async def _inspect(self, name_or_id: str) -> dict[str, Any] | None:
        return await self._in_pool(docker_calls.inspect, name_or_id)

    async def find_end(self) -> str | None:
        """Return None while the container runs, else why it ended, with its last words."""
        found = await self._inspect(self.object_id) if self.object_id else None
        if found is None:
            return "The container is gone."
        state = found["State"]
        if state["Running"]:
            return None
        end = describe_end(state, was_told=self._was_told_to_end)
        return f"{end} {await self.find_last_words()}".strip()

    async def find_last_words(self) -> str:
        """Return the container's last log lines, cut and printable."""
        if not self.object_id:
            return ""
        try:
            raw: bytes = await self.docker("logs", self.object_id, tail=LAST_LINES)
        except APIError:
            return ""
        return describe_last_words(raw)

    # End

    async def run_before_stop(self, seconds: float) -> None:
        """Run the image's script in the container."""
        if self.object_id:
            await run_in_container(self.docker, self.object_id, seconds, name=self._log_name)

    async def shut_down(self, *, now: bool) -> datetime | None:
        """End and remove the container and see it gone; return its own end, where known. Idempotent."""
        if not self.object_id:
            return None
        self._was_told_to_end = True
        self.deaths.forget(self.object_id)  # this end is no news
        ended_at = await self._in_pool(
            partial(docker_calls.end, container_id=self.object_id, grace=0 if now else self.stop_timeout)
        )
        self.object_id = ""
        return ended_at

    async def take_up(self, lease: Lease) -> str | None:
        """Take up the container of an open lease where it still runs; return its URL, else None."""
        found = await self._inspect(self.object_name)
        if found is None or not found["State"]["Running"]:
            return None
        if (found["Config"].get("Labels") or {}).get(container.SESSION_LABEL) != lease.session_id:
            return None
        self.object_id = found["Id"]
        # The server keeps the token it was started with; the hub registers that one again.
        token = read_variable(found["Config"]["Env"], "JUPYTERHUB_API_TOKEN")
        if token:
            self.api_token = token
        return await self._find_url()

    async def remove_home(self, volume: str) -> None:
        """Delete a home volume with all files in it. Idempotent."""
        try:
            await self.docker("remove_volume", volume)
        except APIError as error:
            if not docker_calls.is_missing(error):
                raise docker_calls.to_engine_error(error) from error

    async def mark_archived(self, volume: str) -> None:
        """Mark a home volume by another: a volume's own name and labels never change. Idempotent."""
        try:
            await self.docker(
                "create_volume", names.archive_mark(volume), labels={container.DEPLOYMENT_LABEL: self.prefix}
            )
        except APIError as error:
            raise docker_calls.to_engine_error(error) from error

    async def is_archived(self, volume: str) -> bool:
        """Whether a home volume is marked so."""
        try:
            await self.docker("inspect_volume", names.archive_mark(volume))
        except APIError as error:
            if docker_calls.is_missing(error):
                return False
            raise docker_calls.to_engine_error(error) from error
        return True

    async def clear_leftovers(self) -> dict[str, datetime | None]:
        """Remove an earlier container of this server. Raises NameTaken for one that is not ours."""
        found = await self._inspect(self.object_name)
        if found is None:
            return {}
        labels = found["Config"].get("Labels") or {}
        if labels.get(container.DEPLOYMENT_LABEL) != self.prefix:
            raise NameTaken(
                f"A container that nbgpu did not make has the name {self.object_name}. "
                "Ask an administrator to rename or remove it."
            )
        self.log.warning("Removing %s, left over by an earlier start", self.object_name)
        ended_at = await self._in_pool(partial(docker_calls.end, container_id=found["Id"]))
        return {labels.get(container.SESSION_LABEL, ""): ended_at}


def merge(*layers: dict[str, Any]) -> dict[str, Any]:
    """Return the layers merged, dicts key by key; later layers win."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def read_variable(environment: list[str], name: str) -> str | None:
    """Return a variable's value from Docker's list of NAME=value."""
    return next((each.partition("=")[2] for each in environment if each.startswith(f"{name}=")), None)


def describe_end(state: dict[str, Any], *, was_told: bool = False) -> str:
    """Return why a container ended, from its inspected state; `was_told` if it was asked to.

    Docker's OOMKilled stays set from the first process in the container that ran out of memory, a notebook's kernel
    say: the server itself did only if it was killed, and not by us.
    """
    code = state.get("ExitCode")
    if state.get("OOMKilled") and code == _KILLED and not was_told:
        return "The server ran out of memory and was ended. Take a flavor with more RAM."
    error = state.get("Error")
    return f"The container ended with exit code {code}" + (f": {error}." if error else ".")
