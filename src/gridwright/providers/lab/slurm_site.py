"""What the configuration of a lab's Slurm depends on."""

from __future__ import annotations

from gridwright.providers.controller import CONTROLLER
from gridwright.providers.rendering import Machine
from gridwright.schedulers.slurm.node_facts import node_facts
from gridwright.schedulers.slurm.site import Release, SlurmSite, Timing
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec

TIMING = Timing(node_down=8, message=5, credential=10, controller=10, inactive=30, kill=5)
"""For nodes that share one machine: measured to find a node that is powered off in 17 s, and to run its
jobs again in 30 s."""


def lab_site(spec: GridSpec, machine: Machine, release: Release) -> SlurmSite:
    """Nodes as the spec wants them, many times this machine; no systemd runs on them."""
    return SlurmSite(
        controller=CONTROLLER,
        nodes=node_facts(spec, dict.fromkeys(spec.nodes, machine.facts)),
        state=state_directory(spec),
        release=release,
        cgroups=machine.cgroups,
        systemd=False,
        declared=True,
        timing=TIMING,
    )
