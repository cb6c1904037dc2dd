"""Which lock holds for everybody, by the file system that is mounted."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest

from gridwright.repository import file_locks
from gridwright.repository.file_locks import LOCKS, HoldsForAll, lock_of, take_lease

PAGE = Path(__file__).parents[3] / "docs" / "repository.md"


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    for each in LOCKS.values():
        assert (each.name, each.lock.value) in {(name, lock) for name, lock, _ in rows}, each


def test_what_is_mounted_counts(tmp_path: Path) -> None:
    with Path("/proc/self/stat").open("rb") as file:
        assert lock_of(file.fileno()).lock is HoldsForAll.NONE
    with (Path("/dev/shm") / f"gridwright-{os.getpid()}").open("wb") as file:
        os.unlink(file.name)  # noqa: PTH108
        assert lock_of(file.fileno()).name == "tmpfs"


@pytest.mark.parametrize("magic", [0x0BD00BD0, 0x6969, 0x65735546, 0x00C36400, 0x47504653, 0x12345678])
def test_a_lease_of_this_kernel_is_not_trusted_on_a_shared_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: int
) -> None:
    """The kernel grants it, as on Lustre it was while another client wrote."""
    (tmp_path / "file").write_bytes(b"x")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        monkeypatch.setattr(file_locks, "_file_system_type", lambda _: magic)
        with pytest.raises(OSError, match="nothing tells whether another client"):
            take_lease(descriptor)
    finally:
        os.close(descriptor)
