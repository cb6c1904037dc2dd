"""The parameters of a Slurm that Gridwright sets up: release, controllers, nodes and time-outs."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from gridwright.errors import input_error
from gridwright.schedulers.machines import GridMachines
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec

Release = tuple[int, int]
"""Year and month of a release of Slurm, such as (22, 5)."""

OLDEST: Release = (22, 5)
NEWEST: Release = (24, 11)
RELEASES: tuple[Release, ...] = (OLDEST, (23, 2), (23, 11), (24, 5), NEWEST)
"""Releases that the configuration is known to be valid for; Debian 12 has the first, Ubuntu 24.04 23.11."""


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
    health: int
    """HealthCheckInterval: a node that has lost its mounts takes jobs for no longer."""
    resume: int
    """ResumeTimeout: how long a node that is powered on may take to register."""
    suspend: int
    """SuspendTimeout: how long it takes at most until one that is powered off is gone."""


GRID = Timing(
    node_down=60,
    message=10,
    credential=60,
    controller=30,
    inactive=300,
    kill=30,
    health=60,
    resume=2400,
    suspend=120,
)
"""For real networks: a switch that restarts or a swapping node must not cost jobs. A machine of a cloud that
installs all that it needs has 40 minutes: its boot is tried three times in that."""
LAB = Timing(
    node_down=8,
    message=5,
    credential=10,
    controller=10,
    inactive=30,
    kill=5,
    health=10,
    resume=90,
    suspend=5,
)
"""For nodes that share one machine: measured to find a node that is powered off in 17 s, and to run its
jobs again in 30 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmParameters(GridMachines):
    """What the configuration of a Slurm depends on, beside the grid spec."""

    state: Path
    """The grid's state directory, the same on all nodes."""
    release: Release = OLDEST

    @property
    def backup(self) -> str:
        """The node that a backup controller runs on."""
        return self.nodes[0].name

    @property
    def timing(self) -> Timing:
        """How quickly it notices failures."""
        return LAB if self.share_one_machine else GRID

    @property
    def health_interval(self) -> int:
        """HealthCheckInterval, in seconds: a machine that all nodes share sees to one of them a second."""
        return max(self.timing.health, len(self.nodes)) if self.share_one_machine else self.timing.health


def slurm_parameters(spec: GridSpec, machines: GridMachines, release: Release) -> SlurmParameters:
    """The parameters of a grid's Slurm on these machines."""
    values = {field.name: getattr(machines, field.name) for field in fields(GridMachines)}
    return SlurmParameters(**values, state=state_directory(spec), release=release)


def parse_release(text: str) -> Release:
    """A release as `22.05`, `23.11.4`, or as `slurmctld -V` prints it.

    Raises GridwrightError (status INPUT) for one that no configuration is known for.
    """
    found = re.search(r"\b(2\d)\.(0?\d|1[0-2])\b", text)
    requested = (int(found[1]), int(found[2])) if found else None
    if requested is None or not OLDEST <= requested <= NEWEST:
        known = ", ".join(f"{year}.{month:02}" for year, month in RELEASES)
        raise input_error(
            f"{text.strip()[:60]!r} is no release of Slurm that Gridwright writes a configuration for",
            remedy=f"write one of {known}",
        )
    return requested
