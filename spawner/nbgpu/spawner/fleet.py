"""The containers of a deployment as Docker lists them, for the reconciler."""

from datetime import datetime
from typing import Any

from docker.errors import APIError

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.reconcile import ContainerFact
from nbgpu.spawner.container import DEPLOYMENT_LABEL, DEVICES_LABEL, SESSION_LABEL
from nbgpu.spawner.docker_calls import call, end, finished_at, inspect

_ALIVE = ("running", "paused", "restarting")


class DockerFleet:
    """Lists and ends containers by the deployment's label; others are never seen."""

    def __init__(self, client: Any, deployment: str) -> None:
        """Take a `docker.APIClient` and the value of the deployment label."""
        self._client = client
        self._deployment = deployment

    def containers(self) -> tuple[ContainerFact, ...]:
        """Return all containers of the deployment, running or not. Raises EngineUnavailable."""
        return self._list(self._label)

    def find(self, session_id: str) -> ContainerFact | None:
        """Return the container of a session; of several that name none, any. Raises EngineUnavailable."""
        labels = [self._label, f"{SESSION_LABEL}={session_id}"] if session_id else [self._label]
        return next((each for each in self._list(*labels) if each.session_id == session_id), None)

    def _list(self, *labels: str) -> tuple[ContainerFact, ...]:
        try:
            found = call(self._client, "containers", all=True, filters={"label": list(labels)})
        except APIError as error:
            raise EngineUnavailable(f"Docker can't list its containers: {error.explanation}") from error
        return tuple(
            ContainerFact(
                id=each["Id"],
                session_id=each["Labels"].get(SESSION_LABEL, ""),
                running=each["State"] in _ALIVE,
                finished_at=self._finished_at(each),
                device_uuids=tuple(filter(None, each["Labels"].get(DEVICES_LABEL, "").split(","))),
            )
            for each in found
        )

    def end(self, container_id: str) -> datetime | None:
        """End and remove a container and see it gone; return its own end, where known. Idempotent. EngineError."""
        return end(self._client, container_id)

    def _finished_at(self, listed: dict[str, Any]) -> datetime | None:
        """When one that is dead ended: the list does not say, and there are few."""
        found = None if listed["State"] in _ALIVE else inspect(self._client, listed["Id"])
        return finished_at(found["State"]) if found is not None else None

    @property
    def _label(self) -> str:
        return f"{DEPLOYMENT_LABEL}={self._deployment}"
