"""The command itself: `claim.pyz`, and `gridwright node claim`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.alone import alone, interruptible
from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble
from gridwright.node_programs.scratch.report import complain, say
from gridwright.providers.aws.claim.aws import Aws
from gridwright.providers.aws.claim.claiming import Claimant
from gridwright.providers.aws.claim.configuration import CONFIGURATION, read_configuration
from gridwright.providers.aws.claim.steps import Step, Wait
from gridwright.providers.aws.claim.this_machine import ThisMachine, plain


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

    def tell(step: Step) -> None:
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
