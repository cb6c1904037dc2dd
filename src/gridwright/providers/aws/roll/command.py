"""The command itself: `roll.pyz`, which a timer of the head node runs each minute."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.node_programs.drain.queue import Queue, ended_jobs
from gridwright.node_programs.scratch.alone import alone, interruptible
from gridwright.node_programs.scratch.problems import Interrupted, ScratchError
from gridwright.node_programs.scratch.report import complain, say
from gridwright.providers.aws.roll.aws import RollAws, Table
from gridwright.providers.aws.roll.configuration import CONFIGURATION, RollConfiguration, read_configuration
from gridwright.providers.aws.roll.deciding import decide
from gridwright.providers.aws.roll.hardware_lines import HardwareLines
from gridwright.providers.aws.roll.lustre import unserved
from gridwright.providers.aws.roll.observed import Due, SeenGrid

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="roll",
        description="Replace machines that were launched with other data than their group has now: nodes "
        "drained first, some at a time.",
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what is due, and do nothing")
    parser.add_argument(
        "--keep-lines",
        type=Path,
        metavar="FILE",
        help="only have FILE, a slurm.conf that is to be installed, say of nodes what they still are",
    )
    given = parser.parse_args(arguments)
    try:
        with interruptible():
            configuration = read_configuration(given.config)
            with alone(ROOT / "run/gridwright/roll.lock", "another one is at work on this machine"):
                run = Run(configuration)
                if given.keep_lines:
                    run.lines.keep(given.keep_lines, run.held())
                else:
                    run.once(dry=given.dry_run)
    except ScratchError as error:
        complain(error.troubles)
        return error.status
    except Interrupted as error:
        return error.status
    return 0


@dataclass
class Run:
    """One look at the grid, and what is due then."""

    configuration: RollConfiguration
    aws: RollAws = field(init=False)
    queue: Queue = field(default_factory=Queue)
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.aws = RollAws(self.configuration)

    @property
    def lines(self) -> HardwareLines:
        """What slurm.conf says of nodes."""
        return HardwareLines(self.configuration.slurm_conf, ROOT / "var/lib/gridwright/slurm.conf.wanted")

    def held(self) -> frozenset[str]:
        """Names of machines that are still what they were. Raises ScratchError."""
        names = self.aws.table().names
        return frozenset(
            names[each.id]
            for group in self.aws.groups()
            for each in group.instances
            if each.outdated and each.id in names
        )

    def look(self) -> SeenGrid:
        """What is to be seen now. Raises ScratchError."""
        groups = self.aws.groups()
        has_queue = self.configuration.slurm_conf is not None
        queue = self.queue.nodes() if has_queue else None
        rolls = any(group.outdated for group in groups)
        drained = any(node.is_drained_by_us for node in (queue or {}).values())
        # As a rule there is nothing to replace, and the table of a large grid is long.
        table = self.aws.table() if rolls or drained else Table()
        return SeenGrid(
            groups=groups,
            names=table.names,
            set_up=table.set_up,
            has_queue=has_queue,
            queue=queue,
            unserved=unserved(self.configuration.targets) if rolls else "",
            now=self.clock(),
        )

    def once(self, *, dry: bool) -> None:
        """Look, and do what is due. Raises ScratchError."""
        seen = self.look()
        due = decide(seen, self.configuration.drain_limit_s) if seen.set_up else Due()
        for line in _lines(due):
            say(line)
        if dry:
            return
        # What is told comes first: it says what is about to be done, should this run be killed.
        self._tell(due)
        try:
            self._carry_out(seen, due)
        finally:
            for failure in self.queue.failures:
                say(failure)

    def _carry_out(self, seen: SeenGrid, due: Due) -> None:
        self.queue.resume(due.resume)
        for job in ended_jobs(seen.queue or {}, due.end_on):
            say(f"job {job} had the time that aws.drain_limit gives it, and starts again elsewhere")
            self.queue.end(job)
        self.queue.drain(due.drain, seen.now)
        for instance in due.terminate:
            self.aws.terminate(instance)
        if self.configuration.slurm_conf is not None:
            held = {
                seen.names[each.id]
                for group in seen.groups
                for each in group.outdated
                if each.id in seen.names and each.id not in due.terminate
            }
            self.lines.bring(held)

    def _tell(self, due: Due) -> None:
        """One row; without anything to roll it is written all the same, so that `up` knows somebody looks."""
        at = datetime.datetime.fromtimestamp(self.clock(), datetime.timezone.utc)  # noqa: UP017 - 3.9
        groups = [
            {
                "group": each.group,
                "total": each.total,
                "left": each.left,
                "halted": each.halted,
                "waits": list(each.waits),
                "kept": each.kept,
            }
            for each in due.standing
        ]
        self.aws.tell({"at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "groups": json.dumps(groups)})


def _lines(due: Due) -> list[str]:
    lines = [
        f"{each.group}: {each.total - each.left} of {each.total} are as they should be"
        for each in due.standing
        if each.left
    ]
    lines += [f"{each.group}: halted: {each.halted}" for each in due.standing if each.halted]
    lines += [f"{each.group}: {text}" for each in due.standing for text in each.waits]
    for what, names in (
        ("used again", due.resume),
        ("jobs are ended on", due.end_on),
        ("drained", due.drain),
        ("replaced", due.terminate),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    return lines
