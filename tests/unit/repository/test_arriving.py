"""What an import has fetched is on disk before it gets its name, whichever flush is the faster one."""

from __future__ import annotations

import ctypes
import errno
import os
import queue
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.repository import below, placing
from gridwright.repository.placing import ALONE_BYTES, Arrived, Fetching, Flushed, HeldDirectory, flushing
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
    for place, name in ((os, "fsync"), (placing, "sync_beside_others")):
        kernel = getattr(place, name)

        def noted(descriptor: int, kernel: object = kernel, name: str = name) -> object:
            calls.append((name, descriptor))
            return kernel(descriptor)  # type: ignore[operator]

        monkeypatch.setattr(place, name, noted)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        files = fetched(directory, 5, size)
        done = flushed_of(directory, files)
        assert done.files == files
        assert done.future.exception() is None
        descriptors = [each.descriptor for each in files]
        wanted = (
            [("fsync", each) for each in descriptors] if are_alone else [("sync_beside_others", directory)]
        )
        assert calls == wanted
        for each in files:
            each.close()
    finally:
        os.close(directory)


class Syncfs:
    """The C library of a kernel whose syncfs(2) fails so many times."""

    def __init__(self, failures: int) -> None:
        self._library, self._failures = below.c_library(), failures
        self.sync_file_range = self._library.sync_file_range

    def syncfs(self, descriptor: int) -> int:
        if self._failures:
            self._failures -= 1
            ctypes.set_errno(errno.ENOSPC)
            return -1
        return int(self._library.syncfs(descriptor))


@pytest.mark.parametrize(
    ("size", "failures", "tells"),
    [(ALONE_BYTES, 0, "fsync"), (0, 1, "fsync"), (0, 0, "write_back")],
    ids=["large", "small, beside a file of somebody else that is lost", "small, where syncfs tells nothing"],
)
def test_of_what_is_not_on_disk_the_file_alone_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, failures: int, tells: str
) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        files = fetched(directory, 3, size)

        def fails(descriptor: int) -> None:
            if descriptor == files[1].descriptor:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        library = Syncfs(failures)
        monkeypatch.setattr(below, "c_library", lambda: library)
        monkeypatch.setattr(os if tells == "fsync" else placing, tells, fails)
        done = flushed_of(directory, files)
        assert done.future.exception() is None
        assert [each.failure.errno if each.failure else 0 for each in done.files] == [0, errno.EIO, 0]
        for each in done.files:
            each.drop()
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(directory)


def test_a_file_system_that_cannot_be_flushed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Syncfs(2)
    monkeypatch.setattr(below, "c_library", lambda: library)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        files = fetched(directory, 2, 0)
        failure = flushed_of(directory, files).future.exception()
        assert isinstance(failure, OSError)
        assert (failure.errno, failure.filename) == (errno.ENOSPC, str(tmp_path))
        for each in files:
            each.drop()
    finally:
        os.close(directory)
