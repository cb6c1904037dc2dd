"""Fixtures of all tests; `root` marks those that mount file systems."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.support.command import Command

# How long an example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile("gridwright", deadline=None)
hypothesis.settings.load_profile("gridwright")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root: it mounts a file system")


@pytest.fixture
def gridwright(tmp_path: Path) -> Command:
    """The command, with its runs in `tmp_path/runs`."""
    return Command(tmp_path)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """An empty directory to test."""
    directory = tmp_path / "library"
    directory.mkdir()
    return directory
