"""Carries the steps out: looks, decides, does one thing, and looks again until all targets are mounted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gridwright.node_programs.lustre_targets.judging import Act
from gridwright.node_programs.lustre_targets.problems import ClaimError, ManagementSilentError
from gridwright.node_programs.lustre_targets.states import FORMATTED, FORMATTING
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.oci.targets.configuration import TargetsConfiguration
from gridwright.providers.oci.targets.deciding import NetworkStep, SeenServer, TargetStep, next_of_server
from gridwright.providers.oci.targets.ledger import TargetLedger, TargetNote

MGS_S = 900.0
"""The management server may be made at the same time."""
_PAUSE_S = 5.0
_MOST_STEPS = 2000
"""Far above what 32 targets take: who comes here is going round in circles."""


class ServerMachine(SeenServer, Protocol):
    """What changes the machine."""

    def start_network(self, link: str) -> None:
        """Bring Lustre's network up on an interface."""

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of a disk. What it held is lost."""

    def mount(self, path: str, target: DesiredTarget) -> None:
        """Start the target. Raises ManagementSilentError where nobody registers it."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""


@dataclass
class Serving:
    """One server on its way."""

    configuration: TargetsConfiguration
    machine: ServerMachine
    ledger: TargetLedger
    tell: Callable[[str], None] = lambda _: None
    """Hears of each step before it is carried out."""
    _since: dict[str, float] = field(default_factory=dict)

    def look(self) -> NetworkStep | TargetStep | None:
        """The next step. Raises ClaimError where nothing may be done."""
        return next_of_server(self.configuration, self.machine, self.ledger)

    def run(self) -> None:
        """Go on until all is mounted. Raises ClaimError."""
        for _ in range(_MOST_STEPS):
            step = self.look()
            if step is None:
                return
            self.do(step)
        raise ClaimError(Trouble("the targets do not come up", "see what it does: --json; report it"))

    def do(self, step: NetworkStep | TargetStep) -> None:
        """Carry one step out. Raises ClaimError."""
        if isinstance(step, NetworkStep):
            self.tell(str(step))
            self.machine.start_network(step.link)
            return
        act, target = step.verdict.act, step.target
        if act is Act.AWAIT:
            self._wait(step)
            return
        self.tell(str(step))
        if act is Act.NOTE_FORMATTING:
            self.ledger.write(target.name, TargetNote(step.volume, FORMATTING))
        elif act is Act.NOTE_FORMATTED:
            self.ledger.write(target.name, TargetNote(step.volume, FORMATTED))
        elif act is Act.FORMAT:
            self.machine.format(step.path, target, self.configuration.mgs_of(target))
        elif act is Act.MOUNT:
            try:
                self.machine.mount(step.path, target)
            except ManagementSilentError:
                # A network that answers is no management server: a mount alone shows that one runs.
                if step.verdict.silence is None:
                    raise
                self._wait(step)

    def _wait(self, step: TargetStep) -> None:
        now = self.machine.now()
        name, silence = step.target.name, step.verdict.silence
        began = self._since.setdefault(name, now)
        if now - began >= MGS_S and silence is not None:
            raise ClaimError(Trouble(f"{silence.what}; waited {MGS_S:.0f} s", silence.remedy))
        self.machine.wait(_PAUSE_S)
