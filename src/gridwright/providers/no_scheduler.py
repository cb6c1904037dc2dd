"""Findings about schedulers of grids in a cloud: nobody sets one up there, or its packages are lacking."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.setup.distributions import Distribution
from gridwright.spec.model import GridSpec


def nodes_without_jobs(spec: GridSpec, cloud: str) -> Iterator[Finding]:
    """Where the scheduler is this machine's own, or one that a site sets up; `cloud` is its name in words."""
    if spec.scheduler.runs_on_one_machine:
        yield Finding(
            "warning",
            "no-scheduler",
            f"the local scheduler is of the machine that Gridwright runs on: nodes on {cloud} get no jobs "
            "from it",
            "Write scheduler: {type: slurm}",
        )
    elif spec.scheduler.is_of_sites_alone:
        yield Finding(
            "warning",
            "no-scheduler",
            f"nothing sets scheduler {spec.scheduler.type} up on {cloud}: nodes get no jobs from it",
            "Write scheduler: {type: slurm}, or set it up on the nodes yourself",
        )


def scheduler_not_packaged(spec: GridSpec, found: Distribution | None) -> Iterator[Finding]:
    """Where the distribution of nodes lacks packages of the scheduler; None where only the image knows it."""
    if found is None or not spec.scheduler.needs_head_node or not lacks_scheduler(spec, found):
        return
    yield Finding(
        "warning",
        "no-scheduler-repository",
        f"{found.title} has no packages of the scheduler that fit, and no repository of the site is named: "
        "nodes come up only where their image has these packages",
        "Write setup: {variables: {slurm_repository: https://...}}, a dnf repository with Slurm and munge",
    )


def lacks_scheduler(spec: GridSpec, found: Distribution) -> bool:
    """Whether the site has to name a repository with the scheduler, and does not."""
    built = found.built
    return (
        built is not None and built.slurm.origin == "site" and "slurm_repository" not in spec.setup.variables
    )
