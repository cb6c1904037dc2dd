"""A tree moves from ext4 to XFS by the real command, through kills and a full disk; disks need root."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disks import loop_mount, run
from tests.support.trees import tree_of, untouched

COMMAND = (str(Path(sys.executable).with_name("gridwright")), "repo", "import")
LIMIT_S = 60
_ENTRIES = ((0x01, 7, -1), (0x02, 6, 1234), (0x04, 5, -1), (0x08, 7, 1235), (0x10, 7, -1), (0x20, 0, -1))
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in _ENTRIES)
"""As Linux keeps it (include/uapi/linux/posix_acl_xattr.h): a user and a group have rights of their own."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    with loop_mount(tmp_path, mib=64) as old, loop_mount(tmp_path, mib=320, kind="xfs") as new:
        yield old, new


def fill(root: Path, seed: int) -> None:
    """A tree with all that a copy has to keep."""
    chance = random.Random(seed)  # noqa: S311 - contents
    for place in range(60):
        below = root / f"d{place % 7}" / os.fsdecode(b"\xff\n")
        below.mkdir(parents=True, exist_ok=True)
        file = below / f"rows-{seed}-{place}"
        file.write_bytes(chance.randbytes(chance.choice([0, 1, 4096, 150_000])))
        os.utime(file, ns=(place * 10**9 + 7, place * 10**9 + 123_456_789))
        if place % 5 == 0:
            (root / f"hard-{seed}-{place}").hardlink_to(file)
            (root / f"link-{seed}-{place}").symlink_to(file.name)
        os.chown(file, 1000 + place, 2000)
        file.chmod(0o4710 if place % 2 else 0o640)
        os.setxattr(file, "user.place", b"%d" % place)
        os.setxattr(file, "trusted.place", b"\0")
    for kind in ("access", "default"):
        os.setxattr(root / "d1", f"system.posix_acl_{kind}", ACL)
    with (root / "sparse").open("wb") as sparse:
        sparse.truncate(64 << 20)
    os.mkfifo(root / f"pipe-{seed}")


def migrating(source: Path, library: Path, *flags: str) -> list[str]:
    return [*COMMAND, "--directory", str(library), "--from", str(source), *flags]


def ended(source: Path, library: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        migrating(source, library, *flags), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def copied(library: Path) -> int:
    """Files that are there; directories come and go meanwhile."""
    return sum(name.startswith("rows-") for _, _, names in os.walk(library) for name in names)


def parts(library: Path) -> list[Path]:
    return list(library.rglob(".gridwright-part-*"))


def order_after(process: subprocess.Popen[bytes], library: Path, count: int, order: signal.Signals) -> None:
    """Send an order when so many files are there, or the command has ended."""
    until = time.monotonic() + LIMIT_S
    while process.poll() is None and copied(library) < count:
        assert time.monotonic() < until, f"{copied(library)} files after {LIMIT_S} s"
    process.send_signal(order)
    process.wait(timeout=LIMIT_S)


def test_a_tree_moves_through_kills(disks: tuple[Path, Path]) -> None:
    source, library = disks
    fill(source, 1)
    before = untouched(source)
    killed = 0
    for count in (1, 9, 25):
        with subprocess.Popen(migrating(source, library, "--bandwidth", "500kB/s")) as process:
            order_after(process, library, count, signal.SIGKILL)
            killed += process.returncode == -signal.SIGKILL
    assert killed == 3
    with subprocess.Popen(
        migrating(source, library, "--bandwidth", "500kB/s"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        order_after(process, library, 40, signal.SIGTERM)
        said = process.stdout.read() if process.stdout else b""
        assert process.returncode not in (0, 1), said.decode()
    assert parts(library) == []
    done = ended(source, library, "--verify")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert untouched(source) == before
    assert tree_of(library) == tree_of(source)
    assert (library / "sparse").stat().st_blocks == 0

    fill(source, 2)
    for each in sorted(source.glob("d3/*/rows-1-*")):
        each.unlink()
    with contextlib.suppress(OSError):
        (source / "d4").rename(source / "d9")
    # More than a tenth of what is here goes.
    done = ended(source, library, "--cut-over", "--verify", "--delete-up-to", "100")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert tree_of(library) == tree_of(source)


def test_a_full_disk_is_named_and_holds_no_halves(tmp_path: Path) -> None:
    source, library = tmp_path / "old", tmp_path / "new"
    source.mkdir()
    library.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=2m", "none", library)
    try:
        for place in range(8):
            (source / f"rows-{place}").write_bytes(os.urandom(500_000))
        planned = ended(source, library, "--dry-run")
        assert planned.returncode == 1
        assert "are to be copied, and" in planned.stdout
        done = ended(source, library)
        assert "the disk is full" in done.stderr
        assert done.returncode != 0
        assert parts(library) == []
        for each in library.glob("rows-*"):
            assert each.read_bytes() == (source / each.name).read_bytes()
        run("mount", "-o", "remount,size=8m", library)
        done = ended(source, library, "--verify")
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        run("umount", library)
