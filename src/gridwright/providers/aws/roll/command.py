"""The command itself: `roll.pyz`, which a timer of the head node runs each minute."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.node_programs.drain import Queue, ended_jobs, retain_hardware
from gridwright.node_programs.scratch.command import complain, say
from gridwright.node_programs.scratch.commands import Ended, alone, interruptible, run
from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble
from gridwright.providers.aws.roll.aws import (
    CONFIGURATION,
    RollAws,
    RollConfiguration,
    Table,
    read_configuration,
)
from gridwright.providers.aws.roll.deciding import Due, SeenGrid, decide

# Which targets of Lustre a client on this machine reaches, by the state of its imports.

_LIMIT_S = 20.0
_ASK = ("lctl", "get_param", "osc.*.import", "mdc.*.import")
_FIELD = re.compile(r"^    (target|state): (\S+)$", re.MULTILINE)
_WELL = frozenset({"FULL", "IDLE"})
"""Connected, and connected on the next use: a client lets go of a target that it does not use (Lustre
Operations Manual, osc.*.idle_timeout)."""


def unserved(targets: Collection[str], runner: Callable[[Sequence[str], float], Ended] = run) -> str:
    """The targets that are not served, in words; empty where a client has all of them."""
    desired = {each for each in targets if each != "MGS"}
    if not desired:
        return ""
    asked = runner(_ASK, _LIMIT_S)
    states = states_of(asked.output)
    bad = {name: state for name, state in states.items() if name in desired and state not in _WELL}
    if bad:
        return "targets are not served: " + ", ".join(f"{name} is {bad[name]}" for name in sorted(bad))
    missing = sorted(desired - states.keys())
    if missing:
        why = "" if asked.well else f" ({asked})"
        return (
            f"this machine is no client of {', '.join(missing)}, so that nobody tells whether they serve{why}"
        )
    return ""


def states_of(text: str) -> dict[str, str]:
    """State of the import of each target, as lctl prints them; of two clients the worse one."""
    found: dict[str, str] = {}
    target = ""
    for name, value in _FIELD.findall(text):
        if name == "target":
            target = value.removesuffix("_UUID")
        elif target and found.get(target) in (None, *_WELL):
            found[target] = value
    return found


# Files by which slurm.conf says of each node what it is at the moment, while nodes are replaced.

_RESTART = ("systemctl", "restart", "slurmctld")
"""It reads the hardware of nodes only when it starts (scontrol reconfigure of 22.05.8); jobs go on."""
_READING_LIMIT_S = 90.0


@dataclass(frozen=True)
class HardwareLines:
    """`there` is what slurmctld has, `wanted` what it is to have when all nodes are replaced."""

    there: Path | None
    wanted: Path
    runner: Callable[[Sequence[str], float], Ended] = run

    def keep(self, file: Path, held: Collection[str]) -> None:
        """Remember a file that is about to be installed, and have it say of held nodes what they still are.

        Raises ScratchError. The playbook installs the file then; it may run more than once.
        """
        beside = file.with_name(f"{file.name}.wanted")
        try:
            text = (beside if beside.exists() else file).read_text(encoding="utf-8")
            _write(beside, text)
            _write(self.wanted, text)
            _write(file, self._retain_held(text, held))
        except OSError as error:
            raise ScratchError(
                Trouble(f"{error.filename}: {error.strerror}", "run the playbook again")
            ) from None

    def bring(self, held: Collection[str]) -> bool:
        """Have slurmctld know nodes that are replaced as what they are now; whether anything was new.

        Raises ScratchError.
        """
        if self.there is None or not self.wanted.exists() or not self.there.exists():
            return False
        try:
            text = self._retain_held(self.wanted.read_text(encoding="utf-8"), held)
            if text == self.there.read_text(encoding="utf-8"):
                return False
            _write(self.there, text)
        except OSError as error:
            raise ScratchError(
                Trouble(f"{error.filename}: {error.strerror}", "mend it; the next run goes on")
            ) from None
        ended = self.runner(_RESTART, _READING_LIMIT_S)
        if not ended.well:
            raise ScratchError(
                Trouble(str(ended), "see why slurmctld does not start: journalctl -u slurmctld")
            )
        return True

    def _retain_held(self, text: str, held: Collection[str]) -> str:
        if self.there is None or not self.there.exists():
            return text
        try:
            return retain_hardware(text, self.there.read_text(encoding="utf-8"), held)
        except ValueError as error:
            remedy = "correct it, or move it away and run the playbook again"
            raise ScratchError(Trouble(f"{self.there}: {error}", remedy)) from None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


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
