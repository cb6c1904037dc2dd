"""The command itself: `claim.pyz`, and `gridwright node claim`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets import ClaimError, ManagementSilentError
from gridwright.node_programs.scratch.command import complain, say
from gridwright.node_programs.scratch.commands import alone, interruptible
from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble
from gridwright.providers.aws.claim.configuration import CONFIGURATION, Configuration, read_configuration
from gridwright.providers.aws.claim.deciding import (
    Cloud,
    Done,
    Machine,
    NextStep,
    Observation,
    Record,
    Step,
    Take,
    Wait,
    next_step,
)
from gridwright.providers.aws.claim.this_machine import Aws, ThisMachine, plain

# Carries a claim out: looks, decides, takes one step, and looks again until nothing is left to do.

_PAUSE_S = 2.0
_MOST_STEPS = 4000
"""Far above what a claim takes: who comes here is going round in circles."""


@dataclass
class Claimant:
    """One instance that claims what it is to be."""

    configuration: Configuration
    cloud: Cloud
    machine: Machine
    name_only: bool = False
    tell: Callable[[NextStep], None] = lambda _: None
    """Hears of each step before it is carried out, and of each wait as it begins."""
    mine: str | None = None
    _since: dict[str, float] = field(default_factory=dict)

    def look(self) -> NextStep:
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

    def do(self, step: NextStep) -> None:
        """Carry one step out. Raises ClaimError."""
        if isinstance(step, Wait):
            self._wait(step)
            return
        self.tell(step)
        if isinstance(step, Step):
            self._do(step)

    def _do(self, step: Step) -> None:
        if step.holds is not None:
            self.cloud.hold(step.holds)
        try:
            answer = step.do(self.cloud, self.machine)
        except ManagementSilentError:
            # A network that answers (lctl ping) is no management server: a mount alone shows that one runs.
            if step.silence is None:
                raise
            self._wait(step.silence)
            return
        if isinstance(step, Take):
            # Somebody was faster where there is none: the next look finds another slot.
            self.mine = answer.slot if isinstance(answer, Record) else None

    def _wait(self, step: Wait) -> None:
        now = self.machine.now()
        if step.what not in self._since:
            self._since[step.what] = now
            self.tell(step)
        if now - self._since[step.what] >= step.limit_s:
            trouble = f"{step.trouble.what}; waited {step.limit_s:.0f} s"
            raise ClaimError(Trouble(trouble, step.trouble.remedy))
        self.machine.wait(_PAUSE_S)


@dataclass(frozen=True)
class Order:
    """What the user asks for."""

    config: Path = CONFIGURATION
    name_only: bool = False
    dry_run: bool = False
    json: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="claim",
        description="Claim the name, the address and the volumes of a machine of a grid, as FILE has them.",
    )
    parser.add_argument("--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the claim file")
    parser.add_argument("--name-only", action="store_true", help="leave volumes for later")
    parser.add_argument("--dry-run", action="store_true", help="print the next step, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    return run(Order(given.config, given.name_only, given.dry_run, given.json))


def run(order: Order) -> int:
    """Carry out an order and say what became of it; the exit status."""
    done: list[str] = []
    try:
        with interruptible():
            return _run(order, done)
    except ScratchError as error:
        return _failed(order, done, error.troubles, error.status)
    except Interrupted as error:
        trouble = Trouble(str(error), "what was begun is finished at the next start")
        return _failed(order, done, (trouble,), error.status)


def _run(order: Order, done: list[str]) -> int:
    configuration = read_configuration(order.config)
    if os.geteuid() != 0:
        raise ScratchError(Trouble("only root can attach, format and mount", "run it with sudo"))

    def tell(step: NextStep) -> None:
        if not isinstance(step, Wait):
            done.append(str(step))
        if not order.json:
            say(str(step))

    machine = ThisMachine(configuration)
    claimant = Claimant(configuration, Aws(configuration), machine, order.name_only, tell)
    if order.dry_run:
        step = claimant.look()
        if order.json:
            say(_document(machine, done, {"next": str(step)}))
        else:
            say(f"next: {step}; what follows is seen when that is done")
        return 0
    with alone(configuration.directories.run / "claim.lock", "another one is claiming on this machine"):
        last = claimant.run()
    if order.json:
        say(_document(machine, done, {}))
    else:
        say(str(last) + ("" if done else "; nothing was to be done"))
    return 0


def _document(machine: ThisMachine, done: Sequence[str], more: dict[str, Any]) -> str:
    head = {"schema": 1, "command": "node claim", "ok": True, "instance": machine.instance()}
    return json.dumps(
        {**head, **plain(machine.identity()), "steps": list(done), **more, "problems": []}, indent=2
    )


def _failed(order: Order, done: Sequence[str], troubles: Sequence[Trouble], status: int) -> int:
    complain(troubles)
    if order.json:
        problems = [{"what": each.what, "remedy": each.remedy} for each in troubles]
        document = {"schema": 1, "command": "node claim", "ok": False, "steps": list(done)}
        say(json.dumps({**document, "problems": problems}, indent=2))
    return status
