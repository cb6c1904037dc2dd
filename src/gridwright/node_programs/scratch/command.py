"""The command itself, `scratch.pyz` and `gridwright node scratch`, and its output for people and programs."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.apply import Hands
from gridwright.node_programs.scratch.commands import alone, interruptible
from gridwright.node_programs.scratch.configuration import CONFIGURATION, Configuration, read_configuration
from gridwright.node_programs.scratch.machine import Machine, Roots, discover_disks, observe
from gridwright.node_programs.scratch.planning import plan_arrays as planned
from gridwright.node_programs.scratch.planning import short_of_disks
from gridwright.node_programs.scratch.plans import MOUNTED, ArrayPlan, Plan, Step
from gridwright.node_programs.scratch.problems import FAILED, WRONG_INPUT, Interrupted, ScratchError, Trouble
from gridwright.node_programs.scratch.state import State, read_state

LOCK = Path("/run/gridwright/scratch.lock")
"""Not in /run/lock, where all may make files on some systems."""
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True)
class Order:
    """What the user asks for."""

    config: Path = CONFIGURATION
    dry_run: bool = False
    json: bool = False
    wipe: tuple[str, ...] = ()
    roots: Roots = field(default_factory=Roots)
    lock: Path = LOCK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="scratch",
        description="Stripe, format and mount the disks of the instance store, as FILE has it. "
        "Disks that hold anything it did not make are left alone.",
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--wipe", action="append", default=[], metavar="DISK", help="overwrite this disk, whatever it holds"
    )
    given = parser.parse_args(arguments)
    return run(Order(given.config, given.dry_run, given.json, tuple(given.wipe)))


def run(order: Order) -> int:
    """Carry out an order and say what became of it; the exit status."""
    try:
        with interruptible():
            return _run(order)
    except ScratchError as error:
        complain(error.troubles)
        if order.json:
            say(failure(error.troubles))
        return error.status
    except Interrupted as error:
        trouble = Trouble(str(error), "what was begun is finished at the next start")
        complain([trouble])
        if order.json:
            say(failure([trouble]))
        return error.status


def _run(order: Order) -> int:
    configuration = read_configuration(order.config)
    if os.geteuid() != 0:
        raise ScratchError(Trouble("only root can look at disks", "run it with sudo"))
    with alone(order.lock, "another one is at work on the disks"):
        state = read_state(configuration.state_file)
        _wait_for_disks(configuration, state, order)
        machine = observe(configuration, order.roots)
        plan = _plan(configuration, state, machine, order)
        outcomes = [Outcome(array) for array in plan.arrays]
        if not order.json:
            _print(plan, machine, order)
        complain([*plan.troubles, *(trouble for array in plan.arrays for trouble in array.troubles)])
        if not order.dry_run and not plan.troubles:
            _carry_out(configuration, state, outcomes, order)
    if order.json:
        say(document(outcomes, plan, machine, dry=order.dry_run))
    return _status(plan, outcomes)


def _plan(configuration: Configuration, state: State, machine: Machine, order: Order) -> Plan:
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat()  # noqa: UP017 - 3.9
    wipe = [os.path.realpath(path) for path in order.wipe]
    return planned(configuration, state, machine, wipe, lambda: str(uuid.uuid4()), now)


def _wait_for_disks(configuration: Configuration, state: State, order: Order) -> None:
    """Early in a boot disks are still being found; give those that are expected their time."""
    deadline = time.monotonic() + (0 if order.dry_run else configuration.wait_seconds)
    told = ""
    while time.monotonic() < deadline:
        why = short_of_disks(configuration, state, discover_disks(configuration, order.roots)[1])
        if not why:
            return
        if why != told and not order.json:
            say(f"waiting up to {configuration.wait_seconds:.0f} s: {why}")
        told = why
        time.sleep(_LOOK_AGAIN_S)


def _print(plan: Plan, machine: Machine, order: Order) -> None:
    for array in plan.arrays:
        for line in _plan_lines(array):
            say(line)
    if order.dry_run or any(array.case != MOUNTED for array in plan.arrays):
        for line in _other_lines(plan, machine):
            say(line)


def _carry_out(configuration: Configuration, state: State, outcomes: Sequence[Outcome], order: Order) -> None:
    """Each array for itself: one that fails does not keep the others from being mounted."""
    hands = Hands(configuration, state, order.roots)
    for outcome in outcomes:
        begun = time.monotonic()
        try:
            hands.array(outcome.plan, outcome.tell)
        except ScratchError as error:
            outcome.troubles = error.troubles
        if outcome.done and not outcome.troubles:
            outcome.troubles = _not_come_true(configuration, hands.state, outcome, order)
        if outcome.troubles:
            complain(outcome.troubles)
        elif outcome.done and not order.json:
            desired = outcome.plan.desired
            say(
                f"array {desired.name} is mounted on {desired.mount_point} ({time.monotonic() - begun:.1f} s)"
            )


def _not_come_true(
    configuration: Configuration, state: State, outcome: Outcome, order: Order
) -> tuple[Trouble, ...]:
    """Look again and plan again: where there is anything left to do, it did not come out as planned."""
    after = _plan(configuration, state, observe(configuration, order.roots), Order())
    name = outcome.plan.desired.name
    again = next((array for array in after.arrays if array.desired.name == name), None)
    if again is None:
        return after.troubles
    left = [step.text() for step in again.steps if step.action != "tune"]
    troubles = list(again.troubles)
    if left:
        troubles.append(
            Trouble(f"array {name} did not come out as planned: {'; '.join(left)} is still to be done")
        )
    return tuple(troubles)


def _status(plan: Plan, outcomes: Sequence[Outcome]) -> int:
    if plan.troubles:
        return WRONG_INPUT if any("--wipe" in trouble.what for trouble in plan.troubles) else FAILED
    return 0 if all(outcome.well for outcome in outcomes) else FAILED


_SENTENCE = {
    "mounted": "is mounted and as configured; nothing to do",
    "mount": "is whole; it is mounted",
    "make": "is made",
    "rebuild": "is made anew, empty",
    "finish": "is finished",
    "refused": "is refused",
}


@dataclass
class Outcome:
    """What became of one array."""

    plan: ArrayPlan
    done: list[tuple[Step, float]] = field(default_factory=list)
    """Steps that were carried out, and their seconds."""
    troubles: tuple[Trouble, ...] = ()

    def tell(self, step: Step, seconds: float) -> None:
        """Remember a step that is done."""
        self.done.append((step, seconds))

    @property
    def well(self) -> bool:
        """Whether it is as configured now, or would be."""
        return not self.troubles and not self.plan.troubles


def complain(troubles: Iterable[Trouble]) -> None:
    """Print to stderr; the journal shows `<3>` as an error (sd-daemon(3))."""
    mark = "<3>" if "JOURNAL_STREAM" in os.environ else ""
    for trouble in troubles:
        for line in f"error: {trouble}".splitlines():
            sys.stderr.write(f"{mark}{line}\n")
    sys.stderr.flush()


def say(line: str) -> None:
    """Print a line at once, so that the journal has it when it happens."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _plan_lines(plan: ArrayPlan) -> Iterator[str]:
    """The plan of one array, as it is printed before anything is done."""
    desired = plan.desired
    striped = f"RAID 0 of {len(plan.disks)} disks, chunk {desired.chunk_bytes // 1024} KiB"
    kind = striped if len(plan.disks) > 1 else "one disk"
    size = f"{sum(disk.bytes for disk in plan.disks) / 1e9:.1f} GB"
    what = f", {kind}, {desired.format}, {size}" if plan.disks else ""
    yield f"array {desired.name} on {desired.mount_point}{what}: {_SENTENCE[plan.case]}"
    for disk in plan.disks:
        yield f"  disk {disk.path}: {disk.model or disk.transport}, serial {disk.serial}"
    for note in plan.notes:
        yield f"  note: {note}"
    for number, step in enumerate(plan.steps, 1):
        limit = f" (at most {step.limit_s:.0f} s)" if step.argv else ""
        yield f"  {number}. {step.text()}"
        yield f"     {step.why}{limit}"


def _other_lines(plan: Plan, machine: Machine) -> Iterator[str]:
    """Disks that no array has, and why."""
    used = {disk.name for array in plan.arrays for disk in array.disks}
    for disk in machine.disks:
        if disk.name not in used:
            claim = plan.claims.get(disk.name)
            why = (
                claim.found
                if claim
                else f"no rule has it as an instance store{', ' + disk.used if disk.used else ''}"
            )
            yield f"not used: {disk.path}: {disk.model or disk.transport}, serial {disk.serial}: {why}"


def document(outcomes: Iterable[Outcome], plan: Plan, machine: Machine, *, dry: bool) -> str:
    """The JSON document."""
    outcomes = list(outcomes)
    return json.dumps(
        {
            "schema": 1,
            "command": "node scratch",
            "ok": not plan.troubles and all(outcome.well for outcome in outcomes),
            "dry_run": dry,
            "steps": [step.text() for step in plan.steps()],
            "arrays": [_array(outcome) for outcome in outcomes],
            "disks": [
                {
                    "path": disk.path,
                    "model": disk.model,
                    "serial": disk.serial,
                    "bytes": disk.bytes,
                    "transport": disk.transport,
                    "standing": plan.claims[disk.name].standing
                    if disk.name in plan.claims
                    else "no instance store",
                    "found": plan.claims[disk.name].found if disk.name in plan.claims else disk.used,
                }
                for disk in machine.disks
            ],
            "problems": [_problem(trouble) for trouble in plan.troubles],
        },
        indent=2,
    )


def failure(troubles: Iterable[Trouble]) -> str:
    """The JSON document where there is no plan."""
    problems = [_problem(trouble) for trouble in troubles]
    return json.dumps({"schema": 1, "command": "node scratch", "ok": False, "problems": problems}, indent=2)


def _problem(trouble: Trouble) -> dict[str, Any]:
    return {"what": trouble.what, "remedy": trouble.remedy}


def _array(outcome: Outcome) -> dict[str, Any]:
    plan = outcome.plan
    seconds = {id(step): took for step, took in outcome.done}
    return {
        "name": plan.desired.name,
        "mount_point": str(plan.desired.mount_point),
        "case": plan.case,
        "ok": outcome.well,
        "device": plan.device,
        "disks": [{"path": disk.path, "serial": disk.serial, "model": disk.model} for disk in plan.disks],
        "steps": [
            {
                "action": step.action,
                "text": step.text(),
                "argv": list(step.argv),
                "why": step.why,
                "limit_s": step.limit_s,
                "destroys": [disk.path for disk in step.destroys],
                "seconds": round(seconds[id(step)], 3) if id(step) in seconds else None,
            }
            for step in plan.steps
        ],
        "notes": list(plan.notes),
        "problems": [_problem(trouble) for trouble in (*plan.troubles, *outcome.troubles)],
    }
