"""Build the adapters of one deployment from its settings: for the hub and for the `nbgpu` command alike."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import docker
from docker import DockerClient
from docker.errors import DockerException
from requests.exceptions import RequestException
from sqlalchemy import Engine

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.menu import Menu
from nbgpu.core.ports import Clock, Fleet, Inventory
from nbgpu.images.catalog import Catalog, load_catalog
from nbgpu.nvml import open_inventory
from nbgpu.nvml.open import Mode
from nbgpu.nvml.simulator.process_view import show_devices
from nbgpu.nvml.simulator.state import SimulatedDriver
from nbgpu.service.app import ADDRESS
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.service.policy_import import CreditDesk
from nbgpu.settings import Settings
from nbgpu.settings.edits import describe_file
from nbgpu.spawner.desk import Desk, ImageShelf
from nbgpu.spawner.device_access import DeviceAccess, SimulatedAccess, ToolkitAccess
from nbgpu.spawner.docker_calls import LateClient
from nbgpu.spawner.fleet import DockerFleet
from nbgpu.spawner.idling import Idling
from nbgpu.spawner.local_devices import ProcessAccess
from nbgpu.spawner.turnstile import Turnstile
from nbgpu.store import SqlAuditLog, SqlHomes, SqlLeaseStore, open_database
from nbgpu.store.board import SqlBoard
from nbgpu.store.broadcasts import SqlBroadcasts
from nbgpu.store.clock import utc_now
from nbgpu.store.idle import SqlIdle
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.maintenance import SqlMaintenance
from nbgpu.store.metering import SqlMetering
from nbgpu.store.policies import SqlPolicies
from nbgpu.store.prices import SqlPrices
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.store.statements import SqlStatements
from nbgpu.store.usage import SqlUsage
from nbgpu.telemetry.health import CheckedInventory
from nbgpu.telemetry.hub_api import HubApi
from nbgpu.telemetry.reconciler import Reconciler
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.local import PYTHON_VARIABLE, engine_of, hub_port, open_sessions
from nbgpu.wiring.network import find_gateway
from nbgpu.wiring.service import ensure_service_port
from nbgpu.wiring.shelf import DockerShelf, LocalShelf

HUB_API_PORT = 8081  # on the gateway of the deployment's own network
SERVICE_PORT = 8082  # there, too: fixed, since running servers keep it
RECONCILER_TOKEN = "reconciler-token"  # noqa: S105 - the name of the file that keeps it

MODES: Mapping[str, Mode] = {"auto": "auto", "nvidia": "real", "simulated": "simulated"}


@dataclass(frozen=True)
class Adapters:
    """The parts of one deployment, each built when it is first asked for."""

    deployment: Deployment
    settings: Settings

    @cached_property
    def docker(self) -> DockerClient:
        """The engine. Raises EngineUnavailable."""
        return self.connect(self.settings.engine.call_timeout.total_seconds())

    def connect(self, timeout: float) -> DockerClient:
        """Return a client whose calls take at most `timeout` seconds; its first one is made here. EngineUnavailable."""
        try:
            return docker.from_env(timeout=timeout, max_pool_size=self.settings.engine.calls)
        except (DockerException, RequestException) as error:
            raise EngineUnavailable(f"Docker does not answer: {error}") from error

    @cached_property
    def catalog(self) -> Catalog:
        """The images that can be built and started."""
        return load_catalog()

    @cached_property
    def database(self) -> Engine:
        """Our database, brought up to date. Raises StoreError."""
        return open_database(self.database_url)

    @property
    def database_url(self) -> str:
        """Where our database is."""
        return self.settings.database.url or self.deployment.database_url

    @cached_property
    def leases(self) -> SqlLeaseStore:
        """The lease store."""
        return SqlLeaseStore(self.database, policies=self.policies)

    @cached_property
    def policies(self) -> SqlPolicies:
        """Quotas and budgets, of nbgpu.toml and of the database."""
        return SqlPolicies(self.database, self.settings.policies)

    @cached_property
    def policy_desk(self) -> PolicyDesk:
        """Where quotas and budgets are changed."""
        settings = self.settings
        file, flavors = describe_file(settings.budget, settings.quota), {each.slug for each in settings.flavor}
        return PolicyDesk(self.policies, self.limits, file=file, flavors=flavors)

    @cached_property
    def credit_desk(self) -> CreditDesk:
        """Where credits are given by the file."""
        currency = self.settings.billing.currency
        return CreditDesk(self.ledger, self.statements, self.audit, currency=currency, clock=self.clock)

    @cached_property
    def homes(self) -> SqlHomes:
        """Which home volume is whose."""
        return SqlHomes(self.database)

    @cached_property
    def audit(self) -> SqlAuditLog:
        """The audit log."""
        return SqlAuditLog(self.database)

    @cached_property
    def broadcasts(self) -> SqlBroadcasts:
        """Messages to everybody."""
        return SqlBroadcasts(self.database)

    @cached_property
    def maintenance(self) -> SqlMaintenance:
        """Whether servers are started."""
        return SqlMaintenance(self.database)

    @cached_property
    def board(self) -> SqlBoard:
        """What every page tells everybody."""
        return SqlBoard(self.database)

    @cached_property
    def usage(self) -> SqlUsage:
        """What sessions use."""
        return SqlUsage(self.database)

    @cached_property
    def quarantines(self) -> SqlQuarantines:
        """Devices that are not leased for a fault."""
        return SqlQuarantines(self.database)

    @cached_property
    def ledger(self) -> SqlLedger:
        """The ledger's charges."""
        return SqlLedger(self.database)

    @cached_property
    def statements(self) -> SqlStatements:
        """What was used and what it cost, added up."""
        return SqlStatements(self.database)

    @cached_property
    def prices(self) -> SqlPrices:
        """The price sheets."""
        return SqlPrices(self.database)

    @cached_property
    def metering(self) -> SqlMetering:
        """What is known of sessions for their charges."""
        return SqlMetering(self.database)

    @cached_property
    def limits(self) -> SqlLimits:
        """Quotas and budgets as they stand."""
        return SqlLimits(self.database, self.policies, idle=self.settings.idle_site)

    @cached_property
    def idle(self) -> SqlIdle:
        """What is found of servers' idleness."""
        return SqlIdle(self.database, self.settings.idle_site)

    @property
    def clock(self) -> Clock:
        """The time."""
        return utc_now

    @cached_property
    def hub_api(self) -> HubApi:
        """The hub, with a token that may only list, start and stop servers."""
        return HubApi(f"{self.hub_url}/hub/api", self.deployment.secret(RECONCILER_TOKEN))

    @cached_property
    def hub_url(self) -> str:
        """Where the hub listens for servers: on their network's gateway, or on loopback. Raises EngineError."""
        if self.is_local:
            return f"http://127.0.0.1:{hub_port(self.deployment)}"
        return f"http://{self._gateway}:{HUB_API_PORT}"

    @cached_property
    def service_url(self) -> str:
        """Where the `nbgpu` service listens for servers. Raises EngineError."""
        if self.is_local:
            return f"http://{ADDRESS}:{ensure_service_port(self.deployment)}"
        return f"http://{self._gateway}:{SERVICE_PORT}"

    @cached_property
    def _gateway(self) -> str:
        return find_gateway(self.connect, self.deployment)

    @cached_property
    def is_local(self) -> bool:
        """Whether servers are processes of this account."""
        return engine_of(self.deployment, self.settings) == "local"

    @cached_property
    def fleet(self) -> Fleet:
        """What runs of this deployment."""
        if self.is_local:
            return open_sessions(self.deployment)
        return DockerFleet(LateClient(lambda: self.docker.api), self.deployment.prefix)

    @cached_property
    def images(self) -> ImageShelf:
        """The images that servers can start with."""
        if self.is_local:
            return LocalShelf(self.catalog, Path(os.environ.get(PYTHON_VARIABLE, sys.executable)))
        return DockerShelf(LateClient(lambda: self.docker), self.catalog)

    @cached_property
    def reconciler(self) -> Reconciler:
        """The reconciler, with a token that may only list and start servers."""
        return Reconciler(
            leases=self.leases,
            fleet=self.fleet,
            hub=self.hub_api,
            audit=self.audit,
            inventory=self.inventory,
        )

    @cached_property
    def inventory(self) -> Inventory:
        """The driver, NVIDIA's or the simulated one as the settings say; with leftovers held back."""
        gpus = self.settings.gpus
        driver = open_inventory(self.deployment.simulator_root, gpus.simulated, mode=MODES[gpus.driver])
        return CheckedInventory(driver, self.leases, self.fleet, self.quarantines)

    @cached_property
    def access(self) -> DeviceAccess:
        """The way devices get to servers, which goes with the driver and the engine."""
        if not self.inventory.snapshot().simulated:
            return ProcessAccess() if self.is_local else ToolkitAccess()
        driver = SimulatedDriver(self.deployment.simulator_root)
        if self.is_local:
            return ProcessAccess(partial(show_devices, driver))

        def mounts(device_uuids: Sequence[str]) -> dict[str, str]:
            return {str(host): str(inside) for host, inside in driver.mounts(tuple(device_uuids)).items()}

        return SimulatedAccess(mounts)

    @cached_property
    def menu(self) -> Menu:
        """The flavors."""
        return Menu(self.settings.flavors)

    def build_desk(self, on_doubt: Callable[[str], None]) -> Desk:
        """Return the admission desk; `on_doubt` is told of sessions whose end is not certain."""
        return Desk(
            menu=self.menu,
            leases=self.leases,
            homes=self.homes,
            audit=self.audit,
            on_delete=self.settings.homes.on_delete,
            inventory=self.inventory,
            access=self.access,
            images=self.images,
            currency=self.settings.billing.currency,
            purse=self.limits,
            board=self.board,
            prices=self.prices,
            idling=Idling(self.settings.idle_site, self.idle),
            turnstile=Turnstile(self.settings.engine.starts),
            on_doubt=on_doubt,
        )
