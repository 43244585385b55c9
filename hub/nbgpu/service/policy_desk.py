"""Quotas and budgets as they are looked at and changed: by pages, the REST API and the command alike."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nbgpu.core.authorize import Policies
from nbgpu.core.errors import InvalidOptions, UnknownPolicy
from nbgpu.core.policy_edits import PolicyChange, PolicyEffect, PolicyEntry, PolicyKind
from nbgpu.core.texts import Text
from nbgpu.settings.edits import parse_fields, write_fields


class PolicyBook(Protocol):
    """What was set while the site runs. May block."""

    def entries(self) -> tuple[PolicyEntry, ...]:
        """Return all."""

    def newest(self) -> int:
        """Return the revision of the newest change."""

    def build(self, entries: Sequence[PolicyEntry]) -> Policies:
        """Return what holds with these beside the file's."""

    def change(self, changes: Sequence[PolicyChange], *, by: str, seen: int | None = None) -> int:
        """Do all or nothing; return how many differ. Raises ChangedMeanwhile, UnknownPolicy."""


class EffectBook(Protocol):
    """What runs. May block."""

    def effect(self, after: Policies, names: Collection[str]) -> PolicyEffect:
        """Return what other policies would do to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One change beside what was."""

    change: PolicyChange
    before: Mapping[str, str] | None  # None: it is new

    @property
    def is_none(self) -> bool:
        """Whether it is so already."""
        return self.before == self.change.fields

    @property
    def verb(self) -> str:
        """What is done: "add", "change", "remove" or "keep"."""
        if self.is_none:
            return "keep"
        if self.before is None:
            return "add"
        return "change" if self.change.fields is not None else "remove"

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields of either, in their order, without the name."""
        both = {**(self.before or {}), **(self.change.fields or {})}
        return tuple(key for key in both if key != "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreview:
    """What changes would do."""

    differences: tuple[Difference, ...]
    effect: PolicyEffect
    seen: int  # the revision of the newest change that was looked at

    def count(self, verb: str) -> int:
        """Return how many are added, changed, removed or kept."""
        return sum(each.verb == verb for each in self.differences)


class PolicyDesk:
    """The quotas and budgets of a site. All may block."""

    def __init__(
        self,
        policies: PolicyBook,
        effects: EffectBook,
        *,
        file: tuple[PolicyEntry, ...] = (),
        flavors: Collection[str] | None = None,
    ) -> None:
        self._policies = policies
        self._effects = effects
        self._file = file
        self._flavors = flavors

    def entries(self, kind: PolicyKind) -> tuple[PolicyEntry, ...]:
        """Return those of nbgpu.toml, then those that were set."""
        return tuple(each for each in (*self._file, *self._policies.entries()) if each.kind is kind)

    def find(self, kind: PolicyKind, name: str) -> PolicyEntry:
        """Return one that was set. Raises UnknownPolicy, with where it stands where it is of nbgpu.toml."""
        found = [each for each in self.entries(kind) if each.name == name and name]
        if not found:
            raise UnknownPolicy(Text("There is no “%(name)s”: look again.", name=name[:80]))
        if found[0].is_fixed:
            raise UnknownPolicy(Text("“%(name)s” is set in nbgpu.toml, and changed there alone.", name=name[:80]))
        return found[0]

    def draft(self, kind: PolicyKind, fields: Mapping[str, str], *, expected: int | None = None) -> PolicyChange:
        """Return the change that sets a policy. Raises InvalidOptions: which field is wrong, what it may be."""
        policy = parse_fields(kind, fields, flavors=self._flavors)
        if any(each.kind is kind and each.name == policy.name for each in self._file):
            raise InvalidOptions(
                Text("“%(name)s” is set in nbgpu.toml: change it there, or take another name.", name=policy.name)
            )
        return PolicyChange(kind=kind, name=policy.name, fields=write_fields(policy), expected=expected)

    def preview(self, changes: Sequence[PolicyChange]) -> PolicyPreview:
        """Return what changes would do, without doing it."""
        seen = self._policies.newest()  # before the rest: what changes in between must not go unseen
        known = {(each.kind, each.name): each for each in self._policies.entries()}
        differences = tuple(
            Difference(change=each, before=found.fields if (found := known.get((each.kind, each.name))) else None)
            for each in changes
        )
        real = [each.change for each in differences if not each.is_none]
        for each in real:
            if each.fields is None:
                known.pop((each.kind, each.name), None)
            else:
                known[each.kind, each.name] = PolicyEntry(kind=each.kind, name=each.name, fields=each.fields)
        names = {each.name for each in real if each.kind is PolicyKind.BUDGET and each.fields is not None}
        effect = self._effects.effect(self._policies.build(list(known.values())), names)
        return PolicyPreview(differences=differences, effect=effect, seen=seen)

    def change(self, changes: Sequence[PolicyChange], *, by: str, seen: int | None = None) -> int:
        """Do all or nothing; return how many differ from what was. Raises ChangedMeanwhile, UnknownPolicy.

        With `seen` of a preview also where anything was changed since.
        """
        return self._policies.change(changes, by=by, seen=seen)


def removal(kind: PolicyKind, name: str, *, expected: int | None = None) -> PolicyChange:
    """Return the change that removes a policy."""
    return PolicyChange(kind=kind, name=name, fields=None, expected=expected)
