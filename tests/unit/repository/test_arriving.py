"""What an import has fetched is on disk before it gets its name, whichever flush is the faster one."""

from __future__ import annotations

import errno
import os
import queue
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.repository import arriving
from gridwright.repository.arriving import ALONE_BYTES, Arrived, Fetching, Flushed, HeldDirectory, flushing
from tests.unit.repository.test_manifest_rows import ROW


def fetched(directory: int, count: int, size: int) -> list[Fetching]:
    """Files that are whole."""
    held = HeldDirectory(b"", directory)
    row = replace(ROW, size=size)
    found = []
    for number in range(count):
        name = b"%d" % number
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, dir_fd=directory)
        os.truncate(descriptor, size)
        found.append(Fetching(row, name, held.hold(), name, descriptor, None))
    held.let_go()
    return found


def flushed_of(directory: int, files: list[Fetching]) -> Flushed:
    """All of them, when the flush has ended."""
    arrived: Arrived = queue.SimpleQueue()
    with flushing(directory, arrived) as flush:
        for each in files:
            flush.add(each)
        assert flush.begin(even_few=True)
        found = arrived.get(timeout=60)
        flush.ended()
    assert isinstance(found, Flushed)
    return found


@pytest.mark.parametrize(("size", "are_alone"), [(ALONE_BYTES, True), (ALONE_BYTES - 1, False), (0, False)])
def test_large_files_are_flushed_each_and_small_ones_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, are_alone: bool
) -> None:
    calls: list[tuple[str, int]] = []
    for place, name in ((os, "fsync"), (arriving, "sync_file_system")):
        kernel = getattr(place, name)

        def noted(descriptor: int, kernel: object = kernel, name: str = name) -> None:
            kernel(descriptor)  # type: ignore[operator]
            calls.append((name, descriptor))

        monkeypatch.setattr(place, name, noted)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        files = fetched(directory, 5, size)
        done = flushed_of(directory, files)
        assert done.files == files
        assert done.future.exception() is None
        descriptors = [each.descriptor for each in files]
        wanted = [("fsync", each) for each in descriptors] if are_alone else [("sync_file_system", directory)]
        assert calls == wanted
        for each in files:
            each.close()
    finally:
        os.close(directory)


def test_a_flush_that_fails_says_so_of_all_that_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        files = fetched(directory, 3, ALONE_BYTES)
        done = flushed_of(directory, files)
        failure = done.future.exception()
        assert isinstance(failure, OSError)
        assert failure.errno == errno.EIO
        for each in done.files:
            each.drop()
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(directory)
