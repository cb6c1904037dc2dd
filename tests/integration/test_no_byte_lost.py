"""A random walk of users, machines, a third party at the bucket, kills and every verb: no byte is lost.

What a program was told is stored is promised until a user overwrites or removes that very content, or the
third party does so in the bucket. After each step every promised content is in one of two libraries, its
trash or the bucket that both share; where a file and its object were changed both, both stay until an
administrator names a side.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.disks import loop_mount
from tests.support.forked import called
from tests.support.object_store import BUCKET, StoreServer

NAMES = ("a", "b", "c", "sub/a", "sub/b", "other/a")
SIZES = (16, 16, 16, 16, 100, 5_000, 70_000, 9_000_000)
"""Most have one size, so that only contents and times differ."""
STEPS = 50
LIBRARIES = (0, 0, 1)
"""Which of two libraries each machine works on; all have one bucket."""
VERBS = (
    ("export",),
    ("export", "--deletions"),
    ("import",),
    ("import", "--contents"),
    ("import", "--contents", "--deletions"),
    ("release",),
    ("verify",),
    ("status",),
)
KILLED_AT = (
    *("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.setxattr", "os.utime"),
    *("os.chmod", "os.chown", "os.truncate", "socket.connect", "sqlite3.connect", "ctypes.call_function"),
)
"""Events of Python before which a command is killed (`sys.addaudithook`)."""
Step = tuple[str, int, Sequence[Any]]
"""What is done, in which library, and with what."""


def content(number: int, size: int) -> bytes:
    """What no other write has, of a size."""
    return (b"%016d" % number * (size // 16 + 1))[:size]


def number_of(data: bytes) -> int | None:
    """Which write a content is of; None for an empty one and for no whole one."""
    if not data[:16].isdigit():
        return None
    number = int(data[:16])
    return number if content(number, len(data)) == data else None


@dataclass
class World:
    """Two libraries, their bucket, and what was promised."""

    libraries: tuple[Path, Path]
    state: Path
    server: StoreServer
    prefix: str
    promised: dict[int, str] = field(default_factory=dict)
    """The number of a content, and who wrote it where."""
    written: int = 0
    held: dict[tuple[int, str], int] = field(default_factory=dict)
    """Files that a user has open for writing, by the library and the name that they were opened under."""
    place: int = 0
    client: Any = None

    def __post_init__(self) -> None:
        self.client = self.server.client()

    @property
    def library(self) -> Path:
        """The one that the step is in."""
        return self.libraries[self.place]

    def file(self, name: str) -> bytes | None:
        """The content of a file; None where there is none."""
        try:
            return (self.library / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def object(self, name: str) -> bytes | None:
        """The content of an object; None where there is none."""
        try:
            return bytes(self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")["Body"].read())
        except self.client.exceptions.NoSuchKey:
            return None

    def end(self, data: bytes | None) -> None:
        """Somebody has overwritten or removed a content: nobody keeps it any more."""
        if data is not None and (number := number_of(data)) is not None:
            self.promised.pop(number, None)

    def promise(self, why: str, size: int) -> bytes:
        """A content that is about to be written."""
        self.written += 1
        self.promised[self.written] = why
        return content(self.written, size)

    def somewhere(self) -> set[int]:
        """The numbers of all contents that the libraries and the bucket have."""
        found = set[int | None]()
        for place, _, names in (each for library in self.libraries for each in os.walk(library)):
            for name in names:
                path = Path(place, name)
                if stat.S_ISREG(path.lstat().st_mode):
                    found.add(number_of(path.read_bytes()))
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        for page in pages:
            for each in page.get("Contents", ()):
                body = self.client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
                found.add(number_of(body))
        return {each for each in found if each is not None}

    def lost(self) -> dict[int, str]:
        """What was promised and is nowhere."""
        somewhere = self.somewhere()
        return {number: why for number, why in self.promised.items() if number not in somewhere}


def by_user(world: World, name: str, size: int, how: str) -> None:
    """A user writes a file in one of the ways of programs."""
    path = world.library / name
    if path.is_dir():
        return
    path.parent.mkdir(exist_ok=True)
    before = world.file(name)
    world.end(before)
    if how in ("same", "mapped") and before:
        size = len(before)
    how = how if before else "renamed"
    if how == "renamed":
        # What a user has open of the file before is nowhere from then on, and no fault of Gridwright.
        drop(world, name)
    data = world.promise(f"{how} {name}", size)
    _WAYS[how](path, data)


def _renamed(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.new")
    _plain(part, data)
    part.rename(path)


def _plain(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _same(path: Path, data: bytes) -> None:
    """As tools do that keep times: same size, same mtime."""
    before = path.stat()
    _plain(path, data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _mapped(path: Path, data: bytes) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = data
        mapped.flush()


_WAYS: dict[str, Callable[[Path, bytes], None]] = {
    "renamed": _renamed, "in place": _plain, "same": _same, "mapped": _mapped,
}  # fmt: skip


def removed(world: World, name: str) -> None:
    """A user removes a file."""
    world.end(world.file(name))
    drop(world, name)
    (world.library / name).unlink(missing_ok=True)


def moved(world: World, name: str, to: str) -> None:
    """A user renames a file, maybe over another."""
    if name == to or world.file(name) is None or (world.library / to).is_dir():
        return
    world.end(world.file(to))
    drop(world, name)
    drop(world, to)
    (world.library / to).parent.mkdir(exist_ok=True)
    (world.library / name).rename(world.library / to)


def touched(world: World, name: str, mode: int) -> None:
    """A user changes attributes and times of a file."""
    if world.file(name) is not None:
        (world.library / name).chmod(mode)
        os.utime(world.library / name)


def held(world: World, name: str) -> None:
    """A user opens a file to write it later."""
    drop(world, name)
    if world.file(name) is not None:
        world.held[world.place, name] = os.open(world.library / name, os.O_RDWR)


def held_write(world: World, name: str, size: int) -> None:
    """A user writes a file that was opened earlier."""
    descriptor = world.held.get((world.place, name))
    if descriptor is None:
        return
    world.end(os.pread(descriptor, 1 << 24, 0))
    data = world.promise(f"open file {name}", size)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    os.fsync(descriptor)


def drop(world: World, name: str) -> None:
    """Close what a user has open there."""
    if (descriptor := world.held.pop((world.place, name), None)) is not None:
        os.close(descriptor)


def put(world: World, name: str, size: int) -> None:
    """The third party writes an object."""
    world.end(world.object(name))
    data = world.promise(f"object {name}", size)
    world.client.put_object(Bucket=BUCKET, Key=f"{world.prefix}/{name}", Body=data)


def deleted(world: World, name: str) -> None:
    """The third party deletes an object."""
    world.end(world.object(name))
    world.client.delete_object(Bucket=BUCKET, Key=f"{world.prefix}/{name}")


def forgotten(world: World, machine: int) -> None:
    """A machine loses all that it knows."""
    shutil.rmtree(world.state / str(machine), ignore_errors=True)


def verb(world: World, machine: int, words: Sequence[str], kill_at: int) -> None:
    """A command on a machine, killed at an event of it where that is above 0."""
    world.place = LIBRARIES[machine]
    flags = ("--directory", str(world.library), "--bucket", f"s3://{BUCKET}/{world.prefix}")
    (world.state / str(machine)).mkdir(exist_ok=True)
    errors = world.state / "errors"
    with (world.state / "output").open("wb") as output:
        status = called(
            ["repo", words[0], *flags, *words[1:]],
            world.state,
            stdout=output.fileno(),
            errors=errors,
            environment={"GRIDWRIGHT_REPOSITORY_STATE": str(world.state / str(machine))},
            before=(lambda: _kill_at(kill_at)) if kill_at else None,
        )
    told = errors.read_text()
    assert "Traceback" not in told and status in (0, 1, 2, 3, -signal.SIGKILL), f"{status}: {told[-3000:]}"


def _kill_at(number: int) -> None:
    left = number

    def count(event: str, _arguments: object) -> None:
        nonlocal left
        if event in KILLED_AT:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def preferred(world: World, machine: int, side: str) -> None:
    """An administrator names the side that wins."""
    world.place = LIBRARIES[machine]
    for name in NAMES:
        file, there = world.file(name), world.object(name)
        if file != there and None not in (file, there):
            world.end(there if side == "files" else file)
    words = (
        ("export", "--prefer", "files")
        if side == "files"
        else ("import", "--contents", "--prefer", "objects")
    )
    verb(world, machine, words, 0)


def raced(world: World, machine: int, words: Sequence[str], name: str, how: str, wait_s: float) -> None:
    """A command, and a user who writes a file meanwhile: another process, as on a grid."""
    world.place = LIBRARIES[machine]
    ours, theirs = os.pipe()
    writer = os.fork()
    if not writer:
        time.sleep(wait_s)
        before = dict(world.promised)
        by_user(world, name, 16, how)
        ended = [number for number in before if number not in world.promised]
        os.write(theirs, json.dumps([ended, world.written]).encode())
        os._exit(0)
    os.close(theirs)
    try:
        verb(world, machine, words, 0)
    finally:
        os.waitpid(writer, 0)
        with os.fdopen(ours) as said:
            text = said.read()
    if text:
        ended, written = json.loads(text)
        for number in ended:
            world.promised.pop(number, None)
        if written > world.written:
            world.written = written
            world.promised[written] = f"{how} {name}, beside {words}"


ACTIONS: dict[str, Callable[..., None]] = {
    "user": by_user, "removed": removed, "moved": moved, "touched": touched, "held": held,
    "held_write": held_write, "put": put, "deleted": deleted, "forgotten": forgotten, "verb": verb,
    "preferred": preferred, "raced": raced,
}  # fmt: skip


def steps(seed: int, count: int) -> Iterator[Step]:
    """A random walk; the same for a seed."""
    chance = random.Random(seed)  # noqa: S311
    weights = {
        "user": 10, "removed": 2, "moved": 2, "touched": 1, "held": 2, "held_write": 3, "put": 4,
        "deleted": 1, "forgotten": 1, "verb": 16, "preferred": 1, "raced": 6,
    }  # fmt: skip
    for _ in range(count):
        action = chance.choices(list(weights), list(weights.values()))[0]
        name, size = chance.choice(NAMES), chance.choice(SIZES)
        machine, how = chance.randrange(len(LIBRARIES)), chance.choice(list(_WAYS))
        words, place = chance.choice(VERBS), LIBRARIES[chance.randrange(len(LIBRARIES))]
        yield (
            action,
            place,
            {
                "user": (name, size, how),
                "removed": (name,),
                "moved": (name, chance.choice(NAMES)),
                "touched": (name, chance.choice((0o600, 0o644, 0o755))),
                "held": (name,),
                "held_write": (name, size),
                "put": (name, size),
                "deleted": (name,),
                "forgotten": (machine,),
                "verb": (machine, words, chance.choice((0, 0, chance.randrange(1, 400)))),
                "preferred": (machine, chance.choice(("files", "objects"))),
                "raced": (machine, words, name, how, chance.random() * 0.4),
            }[action],
        )


def walk(world: World, walked: Sequence[Step]) -> tuple[list[Step], dict[int, str]]:
    """Take steps until something is lost; what was done, and what is lost."""
    done: list[Step] = []
    for action, place, arguments in walked:
        done.append((action, place, arguments))
        world.place = place
        ACTIONS[action](world, *arguments)
        if action in ("verb", "raced", "preferred", "held_write") and (lost := world.lost()):
            return done, lost
    return done, {}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loop_mount(tmp_path_factory.mktemp("disk"), mib=600) as mounted:
        yield mounted


@pytest.mark.root
@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(each, marks=pytest.mark.thorough) for each in range(2, 200))]
)
def test_no_byte_that_was_stored_is_gone_from_both_sides(
    seed: int, disk: Path, server: StoreServer, tmp_path: Path
) -> None:
    libraries = disk / f"walk{seed}", disk / f"walk{seed}-other"
    for each in libraries:
        each.mkdir()
    world = World(libraries, tmp_path, server, f"walk{seed}")
    try:
        done, lost = walk(world, list(steps(seed, STEPS)))
    finally:
        for descriptor in world.held.values():
            os.close(descriptor)
        for each in libraries:
            shutil.rmtree(each)
    assert not lost, f"{lost} after\n" + "\n".join(map(repr, done))
