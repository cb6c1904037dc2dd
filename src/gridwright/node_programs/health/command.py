"""The command itself: `health.pyz`, which slurmd runs as its HealthCheckProgram."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.node_programs.health.configuration import (
    CONFIGURATION,
    HealthConfiguration,
    HealthError,
    Verdict,
    node_verdict,
    read_configuration,
)
from gridwright.node_programs.health.looking import MEMORY, Glance, Memory, look_at, read_memory, write_memory
from gridwright.node_programs.health.slurm import Act, SlurmNode, decide, own_name, reason_of
from gridwright.node_programs.scratch.disks import mounts
from gridwright.node_programs.scratch.problems import WRONG_INPUT

TABLE = Path("/proc/self/mountinfo")
_AGAIN_S = 1.0
"""A table that changes while it is read can lack a line: what is not there is looked for twice."""


@dataclass(frozen=True)
class HealthCheck:
    """What one check works with."""

    config: Path = CONFIGURATION
    table: Path = TABLE
    memory: Path = MEMORY
    node: SlurmNode = field(default_factory=lambda: SlurmNode(own_name()))
    pause: Callable[[float], None] = time.sleep


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="health",
        description="See whether this node has the mounts that it must have; else have Slurm drain it.",
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what is wrong, ask and tell Slurm nothing"
    )
    given = parser.parse_args(arguments)
    check = HealthCheck(config=given.config)
    try:
        return show(check) if given.dry_run else run(check)
    except HealthError as error:
        # A node is not drained for a file that is wrong: nothing is known of what it must have.
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT


def run(check: HealthCheck) -> int:
    """Look, and have Slurm drain the node or use it again where that is due. Raises HealthError."""
    if not check.config.exists():
        # Slurm was set up by hand, and nobody has said what a node must have.
        return 0
    configuration = read_configuration(check.config)
    before = read_memory(check.memory)
    verdict, glances = _look(check, configuration, before)
    # What was slow once may be a server that fails over: twice in a row holds jobs off.
    wrong = [*verdict.certain.values()]
    wrong += [text for path, text in verdict.unsure.items() if path in before.unsure]
    doubtful = not verdict.unsure.keys() <= before.unsure
    after = Memory(
        frozenset(verdict.unsure),
        {
            path: glance.left
            for path, glance in glances.items()
            if glance.left is not None and glance.left.pid
        },
        before.may_be_drained,
    )
    if wrong or (before.may_be_drained and not doubtful):
        after = replace(after, may_be_drained=_settle(check.node, wrong, doubtful=doubtful))
    write_memory(check.memory, after)
    return 0


def show(check: HealthCheck) -> int:
    """Print what is wrong, for people; the exit status is 1 where anything is. Raises HealthError."""
    verdict, _ = _look(check, read_configuration(check.config), Memory())
    for text in (*verdict.certain.values(), *verdict.unsure.values()):
        sys.stdout.write(f"{text}\n")
    return int(bool(verdict.certain or verdict.unsure))


def _look(
    check: HealthCheck, configuration: HealthConfiguration, before: Memory
) -> tuple[Verdict, dict[str, Glance]]:
    # The look comes first, as it mounts what an automounter keeps unmounted.
    glances = look_at(configuration.paths, before.hanging, configuration.limit_s)
    verdict = node_verdict(configuration, mounts(check.table.read_text(errors="replace")), glances)
    if verdict.certain:
        check.pause(_AGAIN_S)
        verdict = node_verdict(configuration, mounts(check.table.read_text(errors="replace")), glances)
    return verdict, glances


def _settle(node: SlurmNode, wrong: Sequence[str], *, doubtful: bool) -> bool:
    """Have Slurm do what is due; whether the node may be drained for us from now on."""
    known = node.ask()
    if known is None:
        return True
    act = decide(wrong, known, doubtful=doubtful)
    if act is Act.NOTHING:
        return known.is_ours
    reason = reason_of(wrong)
    done = node.carry_out(act, reason)
    return act is Act.DRAIN or not done
