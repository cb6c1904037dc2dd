"""A library may be deeper than a process may have files open, or calls within each other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.beneath import Beneath, remove_tree
from gridwright.repository.trash import trashed
from gridwright.repository.unfinished import sweep
from tests.unit.test_beneath import deep

LEVELS = 1500
PART = b".gridwright-part-0123456789abcdef-1"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "library"
    place.mkdir()
    yield place
    assert remove_tree(place)


def test_what_a_killed_import_left_deep_is_removed(library: Path) -> None:
    path = deep(library, LEVELS)
    with Beneath(library) as below:
        directory, name = below.parent(path)
        for part in (PART, PART + b"0"):
            os.close(os.open(part, os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        os.mkdir(PART + b"1", dir_fd=directory)
        sweep(below)
        directory, name = below.parent(path)
        assert os.listdir(directory) == [os.fsdecode(name)]  # noqa: PTH208 - of a descriptor


def test_what_lies_deep_in_the_trash_is_counted(library: Path) -> None:
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    place = library / ".gridwright" / "trash" / name
    place.mkdir(parents=True, mode=0o700)
    deep(place, LEVELS)
    with Beneath(library) as below:
        assert [(each.name, each.count) for each in trashed(below.root)] == [(name, 1)]
