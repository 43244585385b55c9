"""What nbgpu.toml may hold: every key, its type, its default and what it means.

The descriptions here are the reference: docs/reference/settings.md is held against them by a test.
"""

from datetime import timedelta
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from nbgpu.core.authorize import Policies
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.homes import OnDelete
from nbgpu.core.idle_policy import IdleSite
from nbgpu.settings.fields import Price, Section, Size, Slug, Span
from nbgpu.settings.idle import CullingSettings, IdleSettings
from nbgpu.settings.limits import BudgetSettings, QuotaSettings


class AuthSettings(Section):
    """Who may log in."""

    class_name: str = Field(
        "demo",
        alias="class",
        description='"demo" (one printed password, loopback only), or an authenticator that JupyterHub knows: '
        'the name of an entry point such as "github" or "pam", or "package.module.Class".',
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of that authenticator, by the names in its own documentation."
    )

    @property
    def demo(self) -> bool:
        """Whether the demo login is in use."""
        return self.class_name == "demo"


class HubSettings(Section):
    """Where the hub is served."""

    address: str = Field("127.0.0.1", description="Address to serve on; the demo login allows loopback only.")
    named_servers: int = Field(3, ge=0, le=100, description="Named servers a user may have beside the default one.")
    start_timeout: Span = Field(
        timedelta(minutes=2),
        description="How long a server may take to start and answer, the wait for its turn not counted.",
    )


class EngineSettings(Section):
    """What runs the servers, and how it is asked."""

    kind: Literal["auto", "docker", "local"] = Field(
        "auto",
        description='"docker": containers; "local": processes of the hub\'s own account, with no walls between them, '
        'for one person on loopback; "auto": Docker where it is or can be brought, else local. A data folder keeps '
        "its engine.",
    )
    calls: int = Field(8, ge=1, le=64, description="Docker calls at one time.")
    starts: int = Field(4, ge=1, le=256, description="Servers that boot at one time; the others wait with their place.")
    call_timeout: Span = Field(timedelta(seconds=30), description="Time limit of one Docker call.")
    before_stop: Span = Field(
        timedelta(seconds=60),
        le=timedelta(minutes=10),
        description="Time that a user's ~/.nbgpu/before-stop may take before their server is stopped; "
        '"0 s": it is not run.',
    )
    stop_timeout: Span = Field(
        timedelta(seconds=10), description="Time that a server has to end by itself before it is killed."
    )


class GpuSettings(Section):
    """Which GPUs are served."""

    driver: Literal["auto", "nvidia", "simulated"] = Field(
        "auto", description='"auto" takes the NVIDIA driver where there is one, else simulated GPUs.'
    )
    simulated: Literal["mixed", "8xA100", "h100-mig", "t4", "none"] = Field(
        "mixed", description="What the simulated driver has."
    )
    return_after: Span | None = Field(
        None,
        description='How long a device that had a fault must read well to be leased again by itself, like "30 min"; '
        "without it an administrator returns it: nbgpu gpus return.",
    )


class HomeSettings(Section):
    """What becomes of people's files."""

    on_delete: OnDelete = Field(
        OnDelete.ARCHIVE,
        description='When an admin deletes a user: "archive" keeps the home and never gives it to the next person of '
        'that name, "keep" gives it back to whoever has the name next, "wipe" deletes it.',
    )


class DatabaseSettings(Section):
    """Where leases, sessions and the audit log are kept."""

    url: str = Field(
        "",
        pattern=r"^(|sqlite:///.+|postgresql(\+psycopg)?://.*)$",
        description='"" is a SQLite file in the data folder; else "postgresql://user@host/name" (its password in '
        "PGPASSWORD or ~/.pgpass), for which nbgpu[postgresql] is installed. One hub a database.",
    )


class BillingSettings(Section):
    """Money: its currency, whose midnight counts, and who is told of budgets."""

    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="Currency of all prices, as in ISO 4217.")
    timezone: str = Field(
        "UTC", description='Zone in which days, weeks and months of quotas and budgets begin, like "Europe/Berlin".'
    )
    notify_file: str = Field(
        "",
        description="Apprise configuration file (mode 0600: it holds secrets) with the addresses, mail or webhook, "
        'that alerts of budgets go to; "" is the hub\'s pages only.',
    )

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            raise ValueError('a name of the tz database, like "Europe/Berlin" or "Asia/Shanghai"') from None
        return name


class FlavorSettings(Section):
    """One entry of the menu; the first that a person may take is their default."""

    slug: Slug = Field(description="Short name, as in the API: lower-case letters, digits, dots and hyphens.")
    display_name: str = Field(min_length=1, max_length=60, description="Name on the card.")
    description: str = Field("", max_length=300, description="One or two sentences on the card.")
    kind: FlavorKind = Field(
        description='"gpu": whole GPUs; "mig": one MIG instance; "shared": a slot of a GPU, not isolated; "cpu": none.'
    )
    gpus: int = Field(1, ge=1, le=16, description="Whole GPUs (kind gpu); several are NVLink peers where there are.")
    model: str | None = Field(None, description='Part of the GPU\'s name, like "A100"; without it any GPU will do.')
    mig_profile: str | None = Field(None, description='MIG profile, like "1g.10gb" (kind mig).')
    slots: int = Field(1, ge=1, le=48, description="Slots that a GPU is cut into, at least 2 (kind shared).")
    cpus: float = Field(gt=0, le=1024, description="CPU cores, the limit.")
    memory: Size = Field(ge=128 * 2**20, description="RAM, the limit; there is no swap beyond it.")
    shm: Size = Field(64 * 2**20, ge=2**20, description="Size of /dev/shm, counted in memory (PyTorch DataLoader).")
    pids: int = Field(1024, ge=64, le=65536, description="Processes and threads at one time, the limit.")
    images: list[Slug] = Field(min_length=1, description="Images it starts with; the first is the default.")
    groups: list[str] = Field(default_factory=list, description="Groups that may take it; empty is everybody.")
    price_per_hour: Price = Field(0, description='Price of an hour, like "1.20".')
    host_price_per_hour: Price = Field(
        0,
        description="The part of it that is for CPU, RAM and disk (not kind cpu, where all of it is): it goes on when "
        "a GPU is lost.",
    )
    time_limit: Span | None = Field(
        None,
        description='Longest session, like "12 h"; a server that has run so long is stopped, with a warning before.',
    )
    max_servers: int | None = Field(None, ge=1, description="Servers of this flavor at one time; without it no limit.")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        for key in ("gpus", "slots", "mig_profile", "model", "host_price_per_hour"):
            if key in self.model_fields_set and key not in _KEYS_OF_KIND[self.kind]:
                raise ValueError(f'{key} has no meaning for kind = "{self.kind}"; remove it or change kind')
        if self.kind is FlavorKind.MIG and not self.mig_profile:
            raise ValueError('kind = "mig" needs mig_profile, like "1g.10gb"')
        if self.kind is FlavorKind.SHARED and self.slots < 2:
            raise ValueError('kind = "shared" needs slots of at least 2')
        if self.host_price_per_hour > self.price_per_hour:
            raise ValueError("host_price_per_hour must not be more than price_per_hour: it is a part of it")
        if self.shm > self.memory:
            raise ValueError("shm must not be larger than memory: it is counted in it")
        return self

    def to_flavor(self) -> Flavor:
        """Return the domain's flavor."""
        fields = self.model_dump(exclude={"images", "groups", "gpus"})
        gpus = {FlavorKind.GPU: self.gpus, FlavorKind.CPU: 0}.get(self.kind, 1)
        return Flavor(**fields, images=tuple(self.images), groups=frozenset(self.groups), gpus=gpus)


_KEYS_OF_KIND = {
    FlavorKind.GPU: {"gpus", "model", "host_price_per_hour"},
    FlavorKind.MIG: {"mig_profile", "model", "host_price_per_hour"},
    FlavorKind.SHARED: {"slots", "model", "host_price_per_hour"},
    FlavorKind.CPU: set[str](),
}


class Settings(Section):
    """The whole file."""

    hub: HubSettings = HubSettings()
    auth: AuthSettings = AuthSettings()
    engine: EngineSettings = EngineSettings()
    gpus: GpuSettings = GpuSettings()
    homes: HomeSettings = HomeSettings()
    database: DatabaseSettings = DatabaseSettings()
    billing: BillingSettings = BillingSettings()
    culling: CullingSettings = CullingSettings()
    flavor: list[FlavorSettings] = Field(min_length=1)
    quota: list[QuotaSettings] = Field(default_factory=list)
    budget: list[BudgetSettings] = Field(default_factory=list)
    idle: list[IdleSettings] = Field(default_factory=list)

    @model_validator(mode="after")
    def _slugs_differ(self) -> Self:
        slugs = [flavor.slug for flavor in self.flavor]
        twice = sorted({slug for slug in slugs if slugs.count(slug) > 1})
        if twice:
            raise ValueError(f'two flavors have the slug "{twice[0]}"; give each its own')
        return self

    @model_validator(mode="after")
    def _limits_make_sense(self) -> Self:
        slugs = {flavor.slug for flavor in self.flavor}
        for quota in self.quota:
            if quota.flavor is not None and quota.flavor not in slugs:
                raise ValueError(
                    f'a quota is for flavor "{quota.flavor}", which there is not; allowed: {sorted(slugs)}'
                )
        names = [budget.name for budget in self.budget]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f'two budgets have the name "{twice[0]}"; give each its own')
        return self

    @model_validator(mode="after")
    def _idle_rules_make_sense(self) -> Self:
        slugs = {flavor.slug for flavor in self.flavor}
        without_gpu = {flavor.slug for flavor in self.flavor if flavor.kind is FlavorKind.CPU}
        for rule in self.idle:
            if rule.flavor is not None and rule.flavor not in slugs:
                raise ValueError(f'an idle rule is for flavor "{rule.flavor}", which there is not; {_among(slugs)}')
            if rule.move_to is not None and rule.move_to in without_gpu:
                self._check_move(rule)
            elif rule.move_to is not None:
                raise ValueError(
                    f'an idle rule has move_to = "{rule.move_to}", which is no flavor without a GPU; '
                    f"{_among(without_gpu)}"
                )
        return self

    def _check_move(self, rule: IdleSettings) -> None:
        """Whoever is told that their server goes on without a GPU must find it so."""
        target = next(each for each in self.flavor if each.slug == rule.move_to)
        if target.groups and rule.group not in target.groups:
            raise ValueError(
                f'an idle rule has move_to = "{target.slug}", which not everybody it is for may take; '
                "give the rule one of its groups, or take another flavor"
            )
        for flavor in self.flavor:
            fits = flavor.kind is not FlavorKind.CPU and rule.flavor in (None, flavor.slug)
            lacking = [each for each in flavor.images if each not in target.images] if fits else []
            if lacking:
                raise ValueError(
                    f'an idle rule has move_to = "{target.slug}", which lacks image "{lacking[0]}" of flavor '
                    f'"{flavor.slug}"; add it to its images, or give the rule another flavor'
                )

    @property
    def idle_site(self) -> IdleSite:
        """When servers are idle, in the domain's words."""
        return IdleSite(
            rules=tuple(each.to_rule() for each in self.idle),
            zone=ZoneInfo(self.billing.timezone),
            every=int(self.culling.every.total_seconds()),
        )

    @property
    def policies(self) -> Policies:
        """Quotas and budgets in the domain's words."""
        zone = ZoneInfo(self.billing.timezone)
        return Policies(
            quotas=tuple(quota.to_policy() for quota in self.quota),
            budgets=tuple(budget.to_budget(zone) for budget in self.budget),
            currency=self.billing.currency,
            zone=zone,
        )

    @property
    def flavors(self) -> tuple[Flavor, ...]:
        """The menu in the domain's words."""
        return tuple(flavor.to_flavor() for flavor in self.flavor)


def _among(slugs: set[str]) -> str:
    return f"allowed: {sorted(slugs)}"
