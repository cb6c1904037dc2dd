"""The parameters of a Slurm that Gridwright sets up: release, controllers, nodes and time-outs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gridwright.errors import input_error
from gridwright.schedulers.slurm.node_facts import NodeFacts

Release = tuple[int, int]
"""Year and month of a release of Slurm, such as (22, 5)."""

OLDEST: Release = (22, 5)
NEWEST: Release = (24, 11)
RELEASES: tuple[Release, ...] = (OLDEST, (23, 2), (23, 11), (24, 5), NEWEST)
"""Releases that the configuration is known to be valid for; Debian 12 has the first, Ubuntu 24.04 23.11."""


class Cgroups(StrEnum):
    """Which control groups the nodes have; a system with both kinds mounted counts as its v1 controllers."""

    V1 = "v1"
    V2 = "v2"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long Slurm waits before it acts, in seconds."""

    node_down: int
    """SlurmdTimeout: a node that has not answered for so long is down, and its jobs start elsewhere."""
    message: int
    """MessageTimeout: how long one message may take. Below 4, healthy nodes go down when slurmctld starts
    anew (measured with 22.05.8); it delays the discovery of a dead node as much as SlurmdTimeout does."""
    credential: int
    """cred_expire: a job of a node that failed starts elsewhere no sooner than so long after."""
    controller: int
    """SlurmctldTimeout: a backup controller takes over after so long."""
    inactive: int
    """InactiveLimit: the allocation of an srun or salloc that is gone ends after so long. By default never:
    a head node that crashes keeps nodes for good."""
    kill: int
    """KillWait: between SIGTERM and SIGKILL for a job over its time, to leave its directories clean."""


GRID = Timing(node_down=60, message=10, credential=60, controller=30, inactive=300, kill=30)
"""For real networks: a switch that restarts or a swapping node must not cost jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSite:
    """What the configuration of a Slurm depends on, beside the grid spec."""

    controller: str
    """Host name of the node that slurmctld runs on."""
    nodes: Sequence[NodeFacts]
    state: Path
    """The grid's state directory, the same on all nodes."""
    release: Release = OLDEST
    cgroups: Cgroups = Cgroups.V2
    systemd: bool = True
    """Whether systemd runs on the nodes, and hands out control groups."""
    swap_limits: bool = True
    """Whether control groups of the nodes can limit swap, as kernels can that account for it."""
    declared: bool = False
    """Whether nodes have what is said of them even if slurmd finds less, as in a lab."""
    timing: Timing = GRID

    @property
    def backup(self) -> str:
        """The node that a backup controller runs on."""
        return self.nodes[0].name


def parse_release(text: str) -> Release:
    """A release as `22.05`, `23.11.4`, or as `slurmctld -V` prints it.

    Raises GridwrightError (status INPUT) for one that no configuration is known for.
    """
    found = re.search(r"\b(2\d)\.(0?\d|1[0-2])\b", text)
    wanted = (int(found[1]), int(found[2])) if found else None
    if wanted is None or not OLDEST <= wanted <= NEWEST:
        known = ", ".join(f"{year}.{month:02}" for year, month in RELEASES)
        raise input_error(
            f"{text.strip()[:60]!r} is no release of Slurm that Gridwright writes a configuration for",
            remedy=f"write one of {known}",
        )
    return wanted


def detect_cgroups(mounts: str) -> Cgroups:
    """Which control groups a system has, out of its `/proc/mounts`.

    Slurm's plugin for v2 refuses a system that has v1 controllers mounted, too ("Hybrid mode is not
    supported"), so those come first. Without memory, freezer and cpuset v1 is of no use for jobs.
    """
    fields = [line.split() for line in mounts.splitlines()]
    v1 = {option for each in fields if len(each) > 3 and each[2] == "cgroup" for option in each[3].split(",")}
    if v1:
        return Cgroups.V1 if {"memory", "freezer", "cpuset"} <= v1 else Cgroups.NONE
    return Cgroups.V2 if any(len(each) > 2 and each[2] == "cgroup2" for each in fields) else Cgroups.NONE
