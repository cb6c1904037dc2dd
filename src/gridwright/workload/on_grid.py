"""Where the workload of a grid runs: on this machine, or on the grid's nodes as jobs of its scheduler."""

from __future__ import annotations

from gridwright.errors import input_error
from gridwright.grid.grid import Grid
from gridwright.workload.session import OnGrid


def on_grid(grid: Grid) -> OnGrid | None:
    """How the workload runs on the nodes of a grid; None where it runs on this machine.

    Raises GridwrightError: status INPUT for a grid without a queue, ENVIRONMENT where no node is up.
    """
    spec = grid.spec
    if spec.scheduler.runs_on_one_machine:
        return None
    if not grid.has_queue:
        raise input_error(
            f"grid {spec.name} has no queue, and the workload runs each launch as a job",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: slurm}; or run the workload on one node, with scheduler: "
            "{type: local}. gridwright iotest needs no queue.",
        )
    up = grid.up()
    facts = {
        "state": str(grid.state),
        "spec_text": spec.source_text,
        "spec_file": str(spec.file) if spec.file else None,
    }
    return OnGrid(facts=facts, nodes=[node.name for node in up], cores=min(max(1, node.cores) for node in up))
