"""`nbgpu doctor`: looks at all a site stands on, and says of each finding what to do about it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from nbgpu.core.errors import NbgpuError
from nbgpu.core.findings import Finding, Level
from nbgpu.machine import checks
from nbgpu.wiring.adapters import Adapters


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one examination."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing stands in the way of servers; warnings do not."""
        return all(finding.level is not Level.FAIL for finding in self.findings)


class Subject(StrEnum):
    """What is looked at, in this order."""

    DRIVER = "driver"
    TOOLKIT = "toolkit"
    DOCKER = "docker"
    HUB = "hub"
    SAMPLER = "sampler"
    NETWORK = "network"
    IMAGES = "images"
    CLOCK = "clock"
    DISK = "disk"
    DATABASE = "database"
    SECRETS = "secrets"


CHECKS: dict[Subject, Callable[[Adapters], Finding]] = {
    Subject.DRIVER: checks.check_driver,
    Subject.TOOLKIT: checks.check_toolkit,
    Subject.DOCKER: checks.check_docker,
    Subject.HUB: checks.check_hub,
    Subject.SAMPLER: checks.check_sampler,
    Subject.NETWORK: checks.check_network,
    Subject.IMAGES: checks.check_images,
    Subject.CLOCK: checks.check_clock,
    Subject.DISK: checks.check_disk,
    Subject.DATABASE: checks.check_database,
    Subject.SECRETS: checks.check_secrets,
}


OF_DOCKER = {Subject.TOOLKIT, Subject.DOCKER, Subject.NETWORK, Subject.IMAGES, Subject.CLOCK}


def examine(site: Adapters) -> Report:
    """Look at everything that this site stands on; a check that can't be made is a finding, too."""
    chosen = {subject: check for subject, check in CHECKS.items() if not (site.is_local and subject in OF_DOCKER)}
    return Report(tuple(_look(subject, check, site) for subject, check in chosen.items()))


def _look(subject: Subject, check: Callable[[Adapters], Finding], site: Adapters) -> Finding:
    try:
        return check(site).about(subject)
    except NbgpuError as error:
        return Finding(Level.FAIL, str(error), "Mend that first, then run nbgpu doctor again.").about(subject)
