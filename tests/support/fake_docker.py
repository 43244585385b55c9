"""A Docker engine in memory, at the seam where DockerSpawner calls `docker.APIClient`.

tests/contract holds it to the real engine. A started container serves HTTP for real on a loopback address of its own,
so that waiting for a server, and noticing its death, are the real thing.
"""

import http.server
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import requests
from docker.errors import APIError, NotFound
from docker.types import HostConfig

from support.answering import Answering

API_VERSION = "1.41"
PORT = 8888
_NEVER = dict.fromkeys(("StartedAt", "FinishedAt"), "0001-01-01T00:00:00Z")


class FakeDockerClient:
    """The calls of `docker.APIClient` that we and DockerSpawner make. Thread-safe."""

    base_url = "http+docker://fake"
    _addresses = itertools.count(2)

    def __init__(self, *, network: str = "net") -> None:
        self.network = network
        self.images: dict[str, dict[str, Any]] = {}
        self.by_id: dict[str, dict[str, Any]] = {}  # by id
        self.volumes: dict[str, dict[str, str]] = {}
        self.created: list[dict[str, Any]] = []  # every create call, in order
        self.before: Callable[[str], None] = lambda method: None  # called with each method's name; may raise
        self.serve = True  # whether a started container answers HTTP
        self._servers: dict[str, http.server.HTTPServer] = {}
        self._ids = itertools.count(1)
        self._listeners: list[queue.Queue[dict[str, Any] | None]] = []
        self._lock = threading.RLock()

    def add_image(self, image_id: str, *, environment: tuple[str, ...] = ()) -> str:
        """Add an image with what it sets in its environment."""
        self.images[image_id] = {"Id": image_id, "Config": {"Cmd": ["serve"], "Env": list(environment)}}
        return image_id

    # The client's own calls

    def create_host_config(self, **kwargs: Any) -> dict[str, Any]:
        return HostConfig(API_VERSION, **kwargs)

    def inspect_image(self, image: str) -> dict[str, Any]:
        self.before("inspect_image")
        return self.images.get(image) or self._fail(404, f"No such image: {image}")

    def create_volume(self, name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
        self.before("create_volume")
        self.volumes.setdefault(name, labels or {})
        return {"Name": name, "Labels": self.volumes[name]}

    def inspect_volume(self, name: str) -> dict[str, Any]:
        self.before("inspect_volume")
        if name not in self.volumes:
            self._fail(404, f"get {name}: no such volume")
        return {"Name": name, "Labels": self.volumes[name]}

    def remove_volume(self, name: str) -> None:
        self.before("remove_volume")
        if self.volumes.pop(name, None) is None:
            self._fail(404, f"get {name}: no such volume")

    def create_container(self, image: str, name: str, **kwargs: Any) -> dict[str, Any]:
        self.before("create_container")
        with self._lock:
            self.inspect_image(image)
            if any(each["Name"] == f"/{name}" for each in self.by_id.values()):
                self._fail(409, f'Conflict. The container name "/{name}" is already in use')
            container_id = f"{next(self._ids):064x}"
            self.created.append({"image": image, "name": name, **kwargs})
            self.by_id[container_id] = {
                "Id": container_id,
                "Name": f"/{name}",
                "Image": image,
                "Config": {"Labels": kwargs.get("labels") or {}, "Env": self._environment(image, kwargs)},
                "HostConfig": kwargs.get("host_config") or {},
                "State": {"Running": False, "ExitCode": 0, "OOMKilled": False, "Error": ""} | _NEVER,
                "NetworkSettings": {"Networks": {self.network: {"IPAddress": ""}}},
                "logs": b"",
            }
            return {"Id": container_id}

    def start(self, container: str) -> None:
        self.before("start")
        with self._lock:
            found = self._find(container)
            # By process: test runs beside each other on one machine must not meet.
            process = os.getpid()
            address = f"127.{64 + process // 256 % 128}.{process % 256}.{next(self._addresses) % 250 + 2}"
            found["State"] |= {"Running": True, "StartedAt": _now()}
            found["NetworkSettings"]["Networks"][self.network]["IPAddress"] = address
            if self.serve:
                self._serve(found["Id"], address)

    def inspect_container(self, container: str) -> dict[str, Any]:
        self.before("inspect_container")
        with self._lock:
            return self._find(container)

    def containers(self, all: bool = False, filters: dict[str, list[str]] | None = None) -> list[dict[str, Any]]:
        self.before("containers")
        wanted = dict(label.split("=", 1) for label in (filters or {}).get("label", []))
        with self._lock:
            return [
                {
                    "Id": each["Id"],
                    "Labels": each["Config"]["Labels"],
                    "State": "running" if each["State"]["Running"] else "exited",
                }
                for each in self.by_id.values()
                if (all or each["State"]["Running"]) and wanted.items() <= each["Config"]["Labels"].items()
            ]

    def logs(self, container: str, tail: int | str = "all") -> bytes:
        self.before("logs")
        lines = self._find(container)["logs"].splitlines(keepends=True)
        return b"".join(lines if tail == "all" else lines[-int(tail) :])

    def stop(self, container: str, timeout: int = 10) -> None:
        self.before("stop")
        self.end(container, exit_code=0)

    def remove_container(self, container: str, force: bool = False, v: bool = False) -> None:
        self.before("remove_container")
        with self._lock:
            found = self._find(container)
            if found["State"]["Running"] and not force:
                self._fail(409, "You cannot remove a running container. Stop the container before attempting removal")
            self.end(container, exit_code=137)
            del self.by_id[found["Id"]]

    def events(
        self, since: int | None = None, filters: dict[str, str] | None = None, decode: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield the end of each container as it comes, until the engine is closed."""
        told: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._listeners.append(told)
        while (event := told.get()) is not None:
            yield event

    # What tests do to it

    def end(self, container: str, *, exit_code: int = 1, logs: bytes = b"", oom: bool = False) -> None:
        """End a container as if by itself."""
        with self._lock:
            found = self._find(container)
            if found["State"]["Running"]:
                for told in self._listeners:
                    told.put({"id": found["Id"], "status": "die", "time": int(time.time())})
                found["State"] |= {"Running": False, "ExitCode": exit_code, "OOMKilled": oom, "FinishedAt": _now()}
            found["logs"] += logs
            server = self._servers.pop(found["Id"], None)
        if server is not None:
            server.shutdown()
            server.server_close()

    def close(self) -> None:
        """End everything."""
        for container_id in list(self.by_id):
            self.end(container_id)
        for told in self._listeners:
            told.put(None)

    def _serve(self, container_id: str, address: str) -> None:
        server = http.server.ThreadingHTTPServer((address, PORT), Answering)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self._servers[container_id] = server

    def _environment(self, image: str, kwargs: dict[str, Any]) -> list[str]:
        """An image's variables under the container's, as Docker lists them."""
        variables = dict(each.split("=", 1) for each in self.images[image]["Config"]["Env"])
        return [f"{name}={value}" for name, value in (variables | (kwargs.get("environment") or {})).items()]

    def _find(self, container: str) -> dict[str, Any]:
        for each in self.by_id.values():
            if container in (each["Id"], each["Name"].lstrip("/")):
                return each
        return self._fail(404, f"No such container: {container}")

    @staticmethod
    def _fail(status: int, message: str) -> Any:
        raise answer(status, message)


def _now() -> str:
    """The time as Docker writes it, in nanoseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")


def answer(status: int, message: str) -> APIError:
    """Return the exception that an engine's error answer becomes."""
    response = requests.Response()
    response.status_code = status
    return (NotFound if status == 404 else APIError)(message, response=response, explanation=message)
