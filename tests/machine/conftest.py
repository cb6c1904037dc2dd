"""The lab that tests share which only look at one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lab import Lab
from tests.support.shared_lab import DIRECTORY, shared_lab


@pytest.fixture(scope="session")
def common_lab(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Lab]:
    """A lab of MooseFS and Slurm, up: three compute and three storage nodes, and the controller.

    Other tests are looking at it meanwhile, so a test leaves its nodes, daemons and settings as they are.
    """
    base = tmp_path_factory.getbasetemp()
    with shared_lab((base if worker_id == "master" else base.parent) / DIRECTORY) as lab:
        yield lab
