"""The lab that tests share which only look at one, and the order in which files of tests begin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lab import Lab
from tests.support.shared_lab import DIRECTORY, shared_lab

LONGEST_FIRST = (
    "test_schedulers",
    "test_lab_iotest",
    "test_batch_systems",
    "test_setup_lab",
    "test_bought_nodes",
    "test_lab_workload",
    "test_lab_faults",
    "test_outages",
    "test_slurm_jobs",
    "test_site_slurm",
    "test_backup_controller",
    "test_scale_servers",
    "test_broken_disks",
    "test_lab_reboots",
)
"""Each takes minutes, mostly waiting: one that began last would run alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first; the workers take files in this order."""
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(scope="session")
def common_lab(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Lab]:
    """A lab of MooseFS and Slurm, up: three compute and three storage nodes, and the controller.

    Other tests are looking at it meanwhile, so a test leaves its nodes, daemons and settings as they are.
    """
    base = tmp_path_factory.getbasetemp()
    with shared_lab((base if worker_id == "master" else base.parent) / DIRECTORY) as lab:
        yield lab
