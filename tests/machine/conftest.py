"""A machine made of a table: which programs it has, and what each command does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nbgpu.machine.host import CommandFailed, Host


@dataclass
class FakeHost(Host):
    """Stands at the seam of `Host`. `on_run` maps a word of a command to what happens then."""

    programs: set[str] = field(default_factory=set)
    root: bool = True
    sudo: bool = False
    apt: bool = True
    systemd: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    on_run: dict[str, Callable[[], None]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def is_root(self) -> bool:
        return self.root

    def root_prefix(self) -> tuple[str, ...] | None:
        if self.root:
            return ()
        return ("sudo", "-n") if self.sudo else None

    def has_apt(self) -> bool:
        return self.apt

    def has_systemd(self) -> bool:
        return self.systemd

    def succeeds(self, *command: str) -> bool:
        self.ran.append(" ".join(command))
        return True

    def output(self, *command: str) -> str:
        return self.outputs.get(" ".join(command), "")

    def run(
        self,
        command: Sequence[str],
        *,
        report: Callable[[str], None],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.ran.append(" ".join(command))
        for word, action in self.on_run.items():
            if word in command:
                action()

    def brings(self, *programs: str) -> Callable[[], None]:
        """Return an action that puts programs on the machine."""
        return lambda: self.programs.update(programs)


def fails(text: str) -> Callable[[], None]:
    """Return an action that fails as a command does."""

    def action() -> None:
        raise CommandFailed(text)

    return action


@pytest.fixture
def details() -> list[str]:
    """What a step reported."""
    return []
