"""Others open, change and replace a file while it is released, and the release is killed: nothing is lost.

The release runs in a fork, on real files with leases of the kernel. An audit hook of that fork acts before a
chosen one of its system calls, so that each interleaving comes to pass, and not only the likely ones.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet  # noqa: F401 - before the forks, whose steps are counted
import pytest

from gridwright.repository.below import ASIDE, c_library
from gridwright.repository.content import crc64_of
from gridwright.repository.file_locks import is_open_elsewhere
from gridwright.repository.known_file import KnownFile
from gridwright.repository.release import ReleaseOptions, _LocalRelease, put_back_left, release
from gridwright.repository.settings import OpenRepository, RepositorySettings
from gridwright.repository.store import StoreError, StoreFault, WrittenObject
from tests.support.as_user import open_to_all
from tests.support.skips import root_only

pytestmark = root_only
ALICE, MALLORY = 2001, 2002
CONTENT, MORE = b"content " * 4000, b"what alice adds"
CALLS = ("os.", "fcntl.", "open")
LONGEST_S = 8.0
Act = Callable[[], None]


class Heads:
    """A store that has the object of the one file, as it was exported, and takes all that it is given."""

    bucket, place = "site-sas", "store"

    def __init__(self) -> None:
        self.requests = SimpleNamespace(by_kind={})

    def head(self, key: str, _version: None = None) -> Any:
        if key != "prod/file":
            raise StoreError(StoreFault.NOT_THERE, key, "there is none")
        entry = SimpleNamespace(etag="etag", size=len(CONTENT))
        return SimpleNamespace(result=lambda: SimpleNamespace(entry=entry, crc64=None))

    def put(self, *_what: object) -> WrittenObject:
        return WrittenObject("etag", None, None)

    def send(self, *_what: object) -> Any:
        return SimpleNamespace(result=self.put)

    def delete(self, _key: str, _etag: str | None = None) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that all may enter."""
    monkeypatch.setattr("gridwright.repository.release.GRACE_S", 0.02)
    open_to_all(tmp_path)
    return tmp_path


def exported(library: Path) -> Path:
    """A file of alice in a new library of hers, as it was exported."""
    library.mkdir()
    file = library / "file"
    file.write_bytes(CONTENT)
    for each in (library, file):
        os.chown(each, ALICE, ALICE)
    with opened(library) as repository, file.open("rb") as descriptor:
        status = os.fstat(descriptor.fileno())
        repository.known.put(
            KnownFile(
                b"file", status.st_mode, ALICE, ALICE, len(CONTENT), status.st_blocks, status.st_atime_ns,
                status.st_mtime_ns, status.st_ctime_ns, status.st_ino, 1, "prod/file", "etag", None,
                crc64_of(descriptor.fileno()), None, None, None, is_name_only=False,
            )
        )  # fmt: skip
    return file


class opened:
    """The repository of a library."""

    def __init__(self, library: Path) -> None:
        settings = RepositorySettings("archive", library, "s3://site-sas/prod")
        self.repository = OpenRepository.open(settings, Heads())  # type: ignore[arg-type]

    def __enter__(self) -> OpenRepository:
        return self.repository

    def __exit__(self, *_error: object) -> None:
        self.repository.close()


def other(uid: int, act: Act) -> int:
    """A process of somebody else that does something; its pid. It ends with 1 where it cannot."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        # A lease stays as long as anybody has its descriptor.
        os.closerange(3, 4096)
        if uid:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        act()
        status = 0
    except (PermissionError, FileNotFoundError):
        status = 1
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    """How a process of ours ended: its exit status, or minus the number of its signal."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"{pid} did not end: {Path(f'/proc/{pid}/wchan').read_text()}")


def waits_or_ended(pid: int) -> None:
    """Wait until a process has ended, or waits for a lease."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z" or "break_lease" in Path(f"/proc/{pid}/wchan").read_text():
            return
        time.sleep(0.001)
    raise AssertionError("it neither ended nor waits")


def releasing(library: Path, step: Callable[[int, str], None]) -> tuple[int, Path]:
    """Release in a fork, with `step` called before each of its system calls; how it ended, and its report."""
    report = library.parent / "report"
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            with opened(library) as repository:
                count = [0]

                def hook(event: str, _arguments: tuple[object, ...]) -> None:
                    if event.startswith(CALLS) and threading.current_thread() is threading.main_thread():
                        count[0] += 1
                        calls, count[0] = count[0], -1 << 30
                        step(calls, event)
                        count[0] = calls

                sys.addaudithook(hook)
                done = release(repository, ReleaseOptions())
                report.write_text(f"{ {n: c.count for n, c in done.done.items()} } {done.problems}")
            status = 0
        except BaseException:
            import traceback

            report.write_text(traceback.format_exc())
        finally:
            os._exit(status)
    return pid, report


def steps(library: Path) -> list[str]:
    """The system calls of a release of one file, of which each is one of the moments below."""
    log = library.parent / "steps"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str) -> None:
        os.write(descriptor, f"{event}\n".encode())

    pid, _ = releasing(library, lambda _count, event: note(event))
    assert ended(pid) == 0
    return log.read_text().split()


def put_all_back(library: Path) -> list[tuple[bytes, str]]:
    """What the next command does first."""
    with opened(library) as repository:
        return put_back_left(repository)


def is_only_in_bucket(library: Path) -> bool:
    with opened(library) as repository:
        row = repository.known.get(b"file")
    return row is not None and row.is_only_in_bucket


def leftovers(library: Path) -> list[str]:
    return [each.name for each in library.iterdir() if each.name.startswith(ASIDE.decode())]


def append(file: Path) -> Act:
    def act() -> None:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND), "wb") as opened_file:
            opened_file.write(MORE)

    return act


def read(file: Path) -> Act:
    def act() -> None:
        assert file.read_bytes() == CONTENT

    return act


def replace(file: Path) -> Act:
    def act() -> None:
        new = file.with_name("new")
        new.write_bytes(MORE)
        new.rename(file)

    return act


OTHERS = {
    "alice appends": (ALICE, append),
    "mallory reads": (MALLORY, read),
    "alice replaces": (ALICE, replace),
    "root appends": (0, append),
}
"""Who does what to the file. Where he may not, since he came after the release, nothing is lost."""


def seen(file: Path, who: str, how_it_ended: int) -> None:
    """What somebody did is in the file of that name; what nobody changed is here, or in the bucket."""
    assert how_it_ended in (0, 1), who
    changes = OTHERS[who][1] is not read
    if not file.exists():
        assert is_only_in_bucket(file.parent), "a deletion of a user, which would delete the object"
        assert not (changes and how_it_ended == 0), "what was written is lost"
        return
    content = file.read_bytes()
    if how_it_ended == 0 and changes:
        assert content.endswith(MORE), "what was written is lost"
    if OTHERS[who][1] is not replace:
        assert content.removesuffix(MORE) == CONTENT, "no file has zeros for what is in the bucket"


def came_at(place: Path, step: int, who: str, *, kill: bool = False) -> int:
    """Have somebody come before a step of a release, and look what became of it all; how he ended."""
    file = exported(place / f"library{step}")
    uid, act = OTHERS[who]
    reader, writer = os.pipe()

    def at(count: int, _event: str) -> None:
        if count == step:
            pid = other(uid, act(file))
            os.write(writer, f"{pid} ".encode())
            waits_or_ended(pid)
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)

    adopts_orphans()
    releaser, report = releasing(file.parent, at)
    assert ended(releaser) == (-signal.SIGKILL if kill else 0), report.read_text()
    os.close(writer)
    with os.fdopen(reader) as pipe:
        how = ended(int(pipe.read()))
    if kill:
        assert put_all_back(file.parent) == []
    assert leftovers(file.parent) == []
    seen(file, who, how)
    return how


def adopts_orphans() -> None:
    """Have whom a fork of ours has started be ours when it is gone."""
    assert c_library().prctl(36, 1, 0, 0, 0) == 0


THOROUGH = [
    pytest.param(each, marks=() if each == "alice appends" else pytest.mark.thorough) for each in OTHERS
]


@pytest.mark.few(1)
@pytest.mark.parametrize("who", THOROUGH)
def test_who_comes_at_any_step_loses_nothing(place: Path, who: str) -> None:
    count = len(steps(exported(place / "first").parent))
    assert count > 10
    ends = [came_at(place, step, who) for step in range(1, count + 1)]
    assert ends.count(0) > 5, ends


@pytest.mark.parametrize("who", THOROUGH)
def test_a_release_that_is_killed_at_any_step_loses_nothing(place: Path, who: str) -> None:
    count = len(steps(exported(place / "first").parent))
    ends = [came_at(place, step, who, kill=True) for step in range(1, count + 1)]
    assert ends.count(0) > 5, ends


def test_who_resolved_the_name_before_and_opens_it_after_has_the_file(place: Path) -> None:
    """At each step from the lease to the end of the grace, as if its open(2) had been held up so long."""
    first = exported(place / "first")
    calls = steps(first.parent)
    leased, removed = calls.index("fcntl.fcntl"), calls.index("os.remove", calls.index("fcntl.fcntl"))
    assert removed > leased + 4
    for step in range(leased + 3, removed):
        file = exported(place / f"library{step}")
        resolved = os.open(file, os.O_PATH)
        start, begin = os.pipe()
        writer = late_writer(resolved, start)

        def at(count: int, _event: str, step: int = step, begin: int = begin, writer: int = writer) -> None:
            if count == step:
                os.write(begin, b"!")
                waits_or_ended(writer)

        releaser, report = releasing(file.parent, at)
        assert ended(releaser) == 0, report.read_text()
        assert ended(writer) == 0
        assert file.read_bytes() == CONTENT + MORE, (step, calls[step - 1])
        assert leftovers(file.parent) == []
        assert "left, as they are open" in report.read_text()
        for each in (resolved, start, begin):
            os.close(each)


def late_writer(resolved: int, start: int) -> int:
    """A process of alice that has resolved a name, and opens it when it is let go on."""
    pid = os.fork()
    if pid:
        return pid
    os.read(start, 1)
    os.closerange(start + 2, 4096)
    os.setresgid(ALICE, ALICE, ALICE)
    os.setresuid(ALICE, ALICE, ALICE)
    append(Path(f"/proc/self/fd/{resolved}"))()
    os._exit(0)


def test_a_writer_who_keeps_opening_it_loses_no_record(place: Path) -> None:
    """Races of two processes on both cores, by chance."""
    file = exported(place / "library")
    file.parent.chmod(0o777)
    count = place / "count"
    count.touch(mode=0o666)
    count.chmod(0o666)

    def writes() -> None:
        descriptor = os.open(count, os.O_WRONLY | os.O_APPEND)
        while True:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND), "wb") as opened_file:
                opened_file.write(b"+")
            os.write(descriptor, b"+")

    for _ in range(20):
        writer = other(ALICE, writes)
        releaser, report = releasing(file.parent, lambda _count, _event: None)
        assert ended(releaser) == 0, report.read_text()
        time.sleep(0.01)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        assert leftovers(file.parent) == []
    told, written = count.stat().st_size, file.stat().st_size - len(CONTENT)
    assert told <= written <= told + 20
    assert told > 0


def test_nobody_who_opens_a_leased_file_ends_its_holder(place: Path) -> None:
    """In the thread of a process whose signals have their default actions."""
    file = exported(place / "library")

    def opens() -> None:
        while True:
            append(file)()

    writer = other(ALICE, opens)

    def looks() -> None:
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        descriptor = os.open(file, os.O_RDONLY)
        looker = threading.Thread(target=lambda: [is_open_elsewhere(descriptor) for _ in range(20_000)])
        looker.start()
        looker.join()

    try:
        assert ended(other(0, looks)) == 0
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)


def test_attributes_that_were_changed_after_the_export_are_not_taken_back(place: Path) -> None:
    """A file that its owner closed to others does not come back as one that all may read."""
    file = exported(place / "library")
    file.chmod(0o600)
    releaser, report = releasing(file.parent, lambda _count, _event: None)
    assert ended(releaser) == 0
    assert "left, as they were changed" in report.read_text()
    assert (file.stat().st_mode & 0o777, file.read_bytes()) == (0o600, CONTENT)


def test_a_file_with_another_name_since_the_export_stays(place: Path) -> None:
    """Two names of one file stay two names of it."""
    file = exported(place / "library")
    other_name = file.with_name("other")
    other_name.hardlink_to(file)
    releaser, report = releasing(file.parent, lambda _count, _event: None)
    assert ended(releaser) == 0
    assert "left, as they have another name" in report.read_text()
    assert (file.samefile(other_name), file.read_bytes()) == (True, CONTENT)


@pytest.mark.parametrize("way", ["nothing else", "changes the file", "keeps the file"])
def test_who_exchanges_the_directory_aside_hides_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    library, finish = place / "library", _LocalRelease._finish
    file = exported(library)

    def exchanged(self: _LocalRelease) -> None:
        for aside in filter(Path.is_dir, library.glob(f"{ASIDE.decode()}*")):
            aside.rename(library / "x")
            aside.touch()
            if way == "changes the file":
                next(library.glob("x/*/file")).chmod(0o600)
            elif way == "keeps the file":
                monkeypatch.setattr("gridwright.repository.release.AsideDirectory.free", keeps)
        finish(self)

    def keeps(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(_LocalRelease, "_finish", exchanged)
    with opened(library) as repository:
        report = release(repository, ReleaseOptions())
        monkeypatch.undo()
    if way == "keeps the file":
        ((name, why),) = report.problems
        assert (name, file.exists()) == ("file", False)
        assert "not here any more" in why
        assert "gridwright repo import archive file brings it" in why
    else:
        assert report.problems == []
        assert list(report.done) == ["released" if way == "nothing else" else "left, as they were changed"]
        assert file.exists() == (way == "changes the file")
