"""The output of the program: lines for people and the journal, and one JSON document for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.plans import ArrayPlan, Plan
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.steps import Step

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


def plan_lines(plan: ArrayPlan) -> Iterator[str]:
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


def other_lines(plan: Plan, machine: Machine) -> Iterator[str]:
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
