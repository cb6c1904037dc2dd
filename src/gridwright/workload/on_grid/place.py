"""Where the workload of a grid runs: on this machine, or on the grid's nodes as jobs of its scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright import __version__
from gridwright.errors import input_error
from gridwright.grid.grid import Grid
from gridwright.grid.node_python import Packages
from gridwright.workload.engines import ENGINES, absent_engines
from gridwright.workload.matrix import Matrix
from gridwright.workload.messages import GridSource
from gridwright.workload.session import GRID_AGENT, OnGrid

_AGENT_NEEDS = {"ClusterShell": "ClusterShell", "pydantic": "pydantic", "ruamel.yaml": "ruamel.yaml"}
"""What the agent of a grid imports beside what is brought to nodes; name of the package by its module."""
_WITHOUT = "or leave the workload out: gridwright prove --skip workload"


def on_grid(grid: Grid, matrix: Matrix | None) -> OnGrid | None:
    """How the workload runs on the nodes of a grid; None where it runs on this machine.

    `matrix` has its launches, None where data sets are only removed. Raises GridwrightError: status INPUT for
    a grid without a queue, and where the engines of tests are not installed; ENVIRONMENT where no node is up.
    """
    spec = grid.spec
    has_tests = matrix is not None and matrix.has_tests
    if spec.scheduler.runs_on_one_machine:
        _check_engines(has_tests=has_tests)
        return None
    if not grid.has_queue:
        raise input_error(
            f"grid {spec.name} has no queue, and the workload runs each launch as a job",
            where=str(spec.file) if spec.file else None,
            remedy="write scheduler: {type: slurm}; or run the workload on one node, with scheduler: "
            "{type: local}. gridwright iotest needs no queue.",
        )
    up = grid.up()
    here = grid.head.sees_state
    if here:
        _check_engines(has_tests=has_tests)
    file = spec.file if here or spec.file is None else spec.file.absolute()
    nodes = [node.name for node in up]
    return OnGrid(
        state=str(grid.state),
        facts=GridSource(spec.source_text, str(file) if file else None, on_head=not here),
        nodes=nodes,
        cores=min(max(1, node.cores) for node in up),
        most_cores=max(max(1, node.cores) for node in up),
        elsewhere=() if here else _agent_on_head(grid, nodes, has_tests=has_tests),
    )


def _check_engines(*, has_tests: bool) -> None:
    if has_tests and (lacking := absent_engines()):
        raise input_error(
            f"the engines of the tests are not installed: {', '.join(lacking)}",
            where="this Python",
            remedy="run: pip install 'gridwright[workload]'",
        )


def _agent_on_head(grid: Grid, nodes: Sequence[str], *, has_tests: bool) -> list[str]:
    """The command line that runs the agent on the head node; jobs run with its Python, too."""
    engines = {module: package for package, module in ENGINES.items()} if has_tests else {}
    needed = Packages(
        "packages that the workload needs",
        _AGENT_NEEDS | engines,
        f"gridwright[workload]=={__version__}",
        _WITHOUT,
    )
    return grid.head.argv([grid.shared_python(needed, nodes), "-P", "-m", GRID_AGENT])
