"""Trees of files with all that makes them hard to copy, and what of them has to come back."""

from __future__ import annotations

import dataclasses
import os
import random
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.repository.object_format import portable_mode

HOSTILE_NAMES = (
    b"plain", b"with space", "é…␛".encode(), "␛ff".encode(), b"\xff\xfe", b"a\nb", b"\x01\x7f", b"trailing.",
    b"...", b"%2e%2e", b"a+b&c=d?e#f", b"-rf", b"~", b"'\"\\$`", b"n" * 200, b"CON", b" ",
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What of a file has to come back."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int
    content: bytes
    links: int
    xattrs: tuple[tuple[str, bytes], ...]


def look_at(directory: Path) -> dict[bytes, Seen]:
    """All that is in a directory, but for what is Gridwright's own."""
    found: dict[bytes, Seen] = {}
    waiting = [b""]
    root = os.fsencode(directory)
    while waiting:
        below = waiting.pop()
        for name in sorted(os.listdir(os.path.join(root, below))):
            path = os.path.join(below, name)
            if path == b".gridwright":
                continue
            found[path] = _seen(os.path.join(root, path))
            if stat.S_ISDIR(found[path].mode):
                waiting.append(path)
    return found


def _seen(path: bytes) -> Seen:
    status = os.lstat(path)
    is_file, is_link = stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode)
    content = Path(os.fsdecode(path)).read_bytes() if is_file else os.readlink(path) if is_link else b""
    names = sorted(os.listxattr(path, follow_symlinks=False))
    return Seen(
        mode=status.st_mode, uid=status.st_uid, gid=status.st_gid, mtime_ns=status.st_mtime_ns,
        size=status.st_size if is_file else 0, content=content, links=status.st_nlink if is_file else 1,
        xattrs=tuple(
            (each, os.getxattr(path, each, follow_symlinks=False))
            for each in names if not each.endswith("gridwright.repository")
        ),
    )  # fmt: skip


def as_it_travels(seen: dict[bytes, Seen]) -> dict[bytes, Seen]:
    """A tree as objects bring it back: root's directories, too, lose a group that no bucket may give."""
    return {
        path: dataclasses.replace(each, mode=portable_mode(each.mode) & ~(0o2000 if each.gid < 1000 else 0))
        for path, each in seen.items()
    }


def make_tree(directory: Path, seed: int, files: int = 40, names: Sequence[bytes] = HOSTILE_NAMES) -> None:
    """A random tree: names of any bytes, empty, sparse and large files, links of both kinds, odd times."""
    chance = random.Random(seed)
    root = os.fsencode(directory)
    directories = [root]
    for place in range(6):
        name = chance.choice(names) + str(place).encode()
        directories.append(os.path.join(chance.choice(directories), name))
        os.mkdir(directories[-1])
    made = []
    for place in range(files):
        path = os.path.join(
            chance.choice(directories), chance.choice(names)[:190] + b"." + str(place).encode()
        )
        _make_file(path, chance)
        made.append(path)
    for place in range(3):
        os.link(chance.choice(made), os.path.join(chance.choice(directories), b"hard" + str(place).encode()))
        target = chance.choice([b"/nowhere", b"../\xff", b"x" * 300])
        os.symlink(target, os.path.join(chance.choice(directories), b"soft" + str(place).encode()))
    for path in directories[:0:-1]:
        os.chmod(path, chance.choice([0o755, 0o2770, 0o1777]))
        os.utime(path, ns=(0, chance.randrange(10**18)))


def _make_file(path: bytes, chance: random.Random) -> None:
    size = chance.choice([0, 1, 511, 4096, 65_537, 300_000])
    with Path(os.fsdecode(path)).open("wb") as file:
        file.write(chance.randbytes(size))
        if chance.random() < 0.2:
            file.truncate(size + 2_000_000)
    if chance.random() < 0.2:
        os.setxattr(path, "user.owner", chance.randbytes(9))
    if os.geteuid() == 0:
        os.chown(path, chance.randrange(1000, 60_000), chance.randrange(1000, 60_000))
    os.chmod(path, chance.choice([0o644, 0o600, 0o755, 0o2755, 0o400]))
    os.utime(path, ns=(chance.randrange(10**18), chance.randrange(-(10**17), 10**18)))
