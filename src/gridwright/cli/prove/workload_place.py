"""Where the workload of a grid runs: on this machine, or on the grid's nodes as jobs of its scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.grid_nodes import nodes_up
from gridwright.cli.spec_file import load_placed, note_this_machine
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.spec import GridSpec
    from gridwright.workload.session import OnGrid

_AGENT = "gridwright.cli.prove.workload_agent"


def load_with_place(file: Path | None) -> tuple[GridSpec, OnGrid | None]:
    """Load the spec of a grid to run the workload on, and how to run it there. Raises GridwrightError."""
    spec = load_placed(file)
    place = place_of(spec)
    if place is None:
        note_this_machine(spec)
    return spec, place


def place_of(spec: GridSpec) -> OnGrid | None:
    """How the workload runs on the nodes of a grid; None where it runs on this machine.

    Raises GridwrightError: status INPUT for a grid without a queue, ENVIRONMENT where no node is up.
    """
    if spec.scheduler.type == "local":
        return None
    if spec.scheduler.type == "ssh":
        raise input_error(
            f"grid {spec.name} has no queue, and the workload runs each launch as a job",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: slurm}; or run the workload on one node, with scheduler: "
            "{type: local}. gridwright iotest needs no queue.",
        )
    from gridwright.providers import head_node
    from gridwright.schedulers.opening import open_scheduler
    from gridwright.schedulers.state_directory import state_directory
    from gridwright.workload.session import OnGrid

    up = nodes_up(spec, open_scheduler(spec, head_node(spec)).nodes())
    facts = {
        "state": str(state_directory(spec)),
        "spec_text": spec.source_text,
        "spec_file": str(spec.file) if spec.file else None,
    }
    names = [node.name for node in up]
    return OnGrid(agent=_AGENT, facts=facts, nodes=names, cores=min(max(1, node.cores) for node in up))
