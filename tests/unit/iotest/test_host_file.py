"""The file below a loop device: found by what the kernel shows, and what of it is in memory is measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridwright.iotest.library_facts import HostFile, host_cache_findings, host_file_findings, host_files

SIZE = 8 << 20


def loop(block: Path, device: str, path: str, *, direct: bool) -> None:
    directory = block / device / "loop"
    directory.mkdir(parents=True)
    (directory / "backing_file").write_text(f"{path}\n")
    (directory / "dio").write_text("1\n" if direct else "0\n")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    path.write_bytes(os.urandom(SIZE))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path


def test_files_are_found_below_a_device_and_below_the_members_of_a_raid(tmp_path: Path) -> None:
    loop(tmp_path, "loop1", "/srv/one", direct=False)
    loop(tmp_path, "loop2", "/srv/two", direct=True)
    for member in ("loop1", "loop2", "sda"):
        (tmp_path / "md0" / "slaves" / member).mkdir(parents=True)
    assert host_files("loop1", tmp_path) == [HostFile("loop1", "/srv/one", direct=False)]
    assert {each.path for each in host_files("md0", tmp_path)} == {"/srv/one", "/srv/two"}
    assert host_files("sda", tmp_path) == host_files(None, tmp_path) == []


def test_what_is_in_the_page_cache_is_measured_and_told(image: Path) -> None:
    file = HostFile("loop0", str(image), direct=False)
    image.read_bytes()
    resident = file.resident_bytes()
    if resident is None:
        pytest.skip("this kernel has no cachestat(2), which Linux has since 6.5")
    assert resident >= SIZE
    (told,) = host_cache_findings("data", "read", [file])
    assert (told.name, told.level) == ("host-file-cache", "warning")
    assert str(image) in told.text
    descriptor = os.open(image, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    assert (file.resident_bytes() or 0) < SIZE / 2
    assert list(host_cache_findings("data", "read", [file])) == []


def test_a_device_that_passes_the_cache_by_is_not_named(image: Path) -> None:
    image.read_bytes()
    direct = HostFile("loop0", str(image), direct=True)
    assert (
        list(host_cache_findings("data", "read", [direct]))
        == list(host_file_findings("data", [direct]))
        == []
    )
    assert [each.name for each in host_file_findings("data", [HostFile("loop0", str(image), direct=False)])]


def test_a_file_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    gone = HostFile("loop0", str(tmp_path / "image (deleted)"), direct=False)
    assert gone.resident_bytes() is gone.used_bytes() is None
    assert list(host_cache_findings("data", "read", [gone])) == []
