"""Where the workload of a grid runs: on this machine, or on the grid's nodes as jobs of its scheduler."""

from __future__ import annotations

from gridwright.errors import environment_error, input_error
from gridwright.grid.grid import Grid
from gridwright.workload.messages import GridSource
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
    if not grid.head.sees_state:
        raise environment_error(
            f"the workload of grid {spec.name} runs on its own machines: jobs leave what they measured in "
            f"{grid.state}, and the part of Gridwright that is brought to nodes has no engines for the tests",
            where=grid.head.name,
            remedy=f"install gridwright[workload] where all nodes see it, and run it on {grid.head.name}; "
            "or leave the workload out: gridwright prove --skip workload",
        )
    up = grid.up()
    return OnGrid(
        state=str(grid.state),
        facts=GridSource(spec.source_text, str(spec.file) if spec.file else None),
        nodes=[node.name for node in up],
        cores=min(max(1, node.cores) for node in up),
    )
