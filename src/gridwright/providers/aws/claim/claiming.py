"""Carries a claim out: looks, decides, takes one step, and looks again until nothing is left to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gridwright.node_programs.lustre_targets.problems import ClaimError, ManagementSilentError
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.cloud import Cloud
from gridwright.providers.aws.claim.configuration import Configuration
from gridwright.providers.aws.claim.deciding import next_step
from gridwright.providers.aws.claim.machine import Machine
from gridwright.providers.aws.claim.observation import Observation
from gridwright.providers.aws.claim.steps import (
    AttachInterface,
    AttachVolume,
    Configure,
    Done,
    Format,
    Mount,
    Name,
    StartNetwork,
    Step,
    Take,
    Wait,
    Write,
)

_PAUSE_S = 2.0
_MOST_STEPS = 4000
"""Far above what a claim takes: who comes here is going round in circles."""


def _ignore(_step: Step) -> None:
    """Tell nobody."""


@dataclass
class Claimant:
    """One instance that claims what it is to be."""

    configuration: Configuration
    cloud: Cloud
    machine: Machine
    name_only: bool = False
    tell: Callable[[Step], None] = _ignore
    """Hears of each step before it is carried out, and of each wait as it begins."""
    mine: str | None = None
    _since: dict[str, float] = field(default_factory=dict)

    def look(self) -> Step:
        """The next step. Raises ClaimError where nothing may be done."""
        observation = Observation(self.cloud, self.machine, self.machine.instance())
        return next_step(self.configuration, observation, self.mine, name_only=self.name_only)

    def run(self) -> Done:
        """Go on until nothing is left to do. Raises ClaimError."""
        for _ in range(_MOST_STEPS):
            step = self.look()
            if isinstance(step, Done):
                return step
            self.do(step)
        raise ClaimError(Trouble("the claim does not come to an end", "see what it does: --json; report it"))

    def do(self, step: Step) -> None:
        """Carry one step out. Raises ClaimError."""
        if isinstance(step, Wait):
            self._wait(step)
            return
        self.tell(step)
        if isinstance(step, Take):
            taken = self.cloud.take(step.slot.name, step.over, self.machine.instance())
            # Somebody was faster where it is None: the next look finds another slot.
            self.mine = taken.slot if taken is not None else None
        elif isinstance(step, Write):
            self.cloud.write(step.record)
        elif isinstance(step, (Configure, Name, StartNetwork)):
            self._settle(step)
        else:
            self._guarded(step)

    def _guarded(self, step: Step) -> None:
        """What is seen from outside of this machine, or cannot be undone: only while the slot is ours."""
        if isinstance(step, (AttachInterface, AttachVolume, Format, Mount)):
            self.cloud.hold(step.record)
        if isinstance(step, AttachInterface):
            self.cloud.attach_interface(step.interface, self.machine.instance())
        elif isinstance(step, AttachVolume):
            self.cloud.attach_volume(step.volume, self.machine.instance(), step.device)
        elif isinstance(step, Format):
            self.machine.format(step.path, step.target, None if step.target.has_mgs else self._mgs(step))
        elif isinstance(step, Mount):
            self._mount(step)

    def _mount(self, step: Mount) -> None:
        """A network that answers (lctl ping) is no management server: a mount alone shows that one runs."""
        try:
            self.machine.mount(step.path, step.target)
        except ManagementSilentError:
            if step.wait is None:
                raise
            self._wait(step.wait)

    def _mgs(self, step: Format) -> str | None:
        """The NID that a target registers with; its own machine's where the MGS is on this one."""
        slot = self.configuration.slot(step.record.slot)
        if self.configuration.mgs is None and slot is not None:
            return f"{slot.address}@tcp"
        return self.configuration.mgs

    def _settle(self, step: Step) -> None:
        """What concerns this machine alone."""
        if isinstance(step, Configure):
            self.machine.configure(step.link, step.mac, step.address)
        elif isinstance(step, Name):
            self.machine.name(step.identity)
        elif isinstance(step, StartNetwork):
            self.machine.start_network(step.link)

    def _wait(self, step: Wait) -> None:
        now = self.machine.now()
        if step.what not in self._since:
            self._since[step.what] = now
            self.tell(step)
        if now - self._since[step.what] >= step.limit_s:
            trouble = f"{step.trouble.what}; waited {step.limit_s:.0f} s"
            raise ClaimError(Trouble(trouble, step.trouble.remedy))
        self.machine.wait(_PAUSE_S)
