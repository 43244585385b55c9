"""Quotas and budgets that are set while the site runs, beside those of nbgpu.toml. Pure.

A table of nbgpu.toml is somebody's version-controlled truth: it is changed there alone. Of two budgets of one name that
of the file holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Account, Budget
from nbgpu.core.leases import ServerRef
from nbgpu.core.quotas import QuotaPolicy

NEW = 0  # the revision of what is not there yet


class PolicyKind(StrEnum):
    """What a policy caps."""

    BUDGET = "budget"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """A quota or budget by its name, with its fields as people write them, by the keys of nbgpu.toml."""

    kind: PolicyKind
    name: str
    fields: Mapping[str, str]
    revision: int = NEW
    author: str = ""
    changed_at: datetime | None = None  # None: it stands in nbgpu.toml

    @property
    def is_fixed(self) -> bool:
        """Whether it is changed in nbgpu.toml alone."""
        return self.changed_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """What is to be of a quota or budget."""

    kind: PolicyKind
    name: str
    fields: Mapping[str, str] | None  # None: it is removed
    expected: int | None = None  # the revision that was looked at; None is any


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEffect:
    """What a change does to those who run servers now."""

    concerned: int = 0  # servers that run of people it is for
    ending: tuple[ServerRef, ...] = ()  # are told and stopped, with their grace
    shortened: tuple[ServerRef, ...] = ()  # may run for less long than now
    overspent: tuple[Account, ...] = ()  # more is spent already than may be


def merge(file: Policies, quotas: Iterable[QuotaPolicy], budgets: Iterable[Budget]) -> Policies:
    """Return what holds: the file's, and beside them those that were set since."""
    names = {each.name for each in file.budgets}
    added = tuple(each for each in budgets if each.name not in names)
    return replace(file, quotas=(*file.quotas, *quotas), budgets=(*file.budgets, *added))


def describe_fields(fields: Mapping[str, str] | None) -> str:
    """Return a policy as one line, for the audit log."""
    return "; ".join(f"{key} {value}" for key, value in fields.items()) if fields is not None else "nothing"
