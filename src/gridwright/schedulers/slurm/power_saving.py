"""Slurm's power saving: nodes that are powered on for jobs that wait (slurm.conf(5), power_save guide)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gridwright.node_programs.power.asking import RESUME, RESUME_FAILED, SUSPEND
from gridwright.schedulers.slurm.parameters import SlurmParameters
from gridwright.schedulers.slurm.setting import ConfigurationSection, Setting
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import Queue

POWERED_STATE = "CLOUD"
"""Of nodes that are powered: they are off until they are wanted, and nobody waits for them to register."""


def power_section(spec: GridSpec, parameters: SlurmParameters) -> Iterator[ConfigurationSection]:
    """The settings of power saving; none where all nodes are always on."""
    powered = spec.powered_nodes()
    if not powered:
        return
    timing = parameters.timing
    settings = [
        Setting("ResumeProgram", RESUME, "Leaves a line for what has machines powered on and off."),
        Setting("SuspendProgram", SUSPEND),
        Setting("ResumeFailProgram", RESUME_FAILED),
        Setting(
            "ResumeTimeout",
            timing.resume,
            "A node that has not registered so many seconds after it was powered on is down, and its jobs "
            "start elsewhere.",
        ),
        Setting(
            "SuspendTimeout",
            timing.suspend,
            "A node is powered on again no sooner than so many seconds after it was powered off.",
        ),
        Setting("ResumeRate", 0, "All at once: who powers them on asks for many machines in one call."),
        Setting("SuspendRate", 0),
    ]
    if static := [node.name for node in parameters.nodes if node.name not in powered]:
        settings.append(Setting("SuspendExcNodes", fold_hosts(static), "These are always on."))
    settings += [
        Setting(
            "SlurmctldParameters",
            "cloud_dns",
            "Names of nodes resolve whether they are on or off: addresses are theirs for good.",
        ),
        Setting("PrivateData", "cloud", "Whatever it sounds like: users see nodes that are off."),
    ]
    yield ConfigurationSection("Power saving: queues below say when idle nodes go", settings)


def suspend_time(spec: GridSpec, queue: Queue) -> str | None:
    """SuspendTime of a partition; None where all of its nodes are always on. The spec has one for a queue."""
    groups = queue.nodes if queue.nodes is not None else list(spec.nodes)
    idle = [spec.nodes[name].idle_s for name in groups if spec.nodes[name].powered_names(name)]
    return str(math.ceil(max(idle))) if idle else None
