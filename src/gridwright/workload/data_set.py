"""A data set on disk: its manifest, what of it is there, how an agent has it made, and how it is removed.

    DATA/gridwright-workload/<scale>-seed<seed>-v<version>/
        manifest.json
        copy-0/transactions.arrow ...

It is kept from run to run. `gridwright workload clean` removes it.

Other users may write the library. So a data set is believed only below directories of root's or of the
user who runs this that nobody else can write; else that user has own ones in DATA/gridwright-workload-UID.
All is opened name by name from the library on, without following links.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import selectors
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.atomic import write_atomically
from gridwright.beneath import DIRECTORY, descriptor_path, remove_tree
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.messages import encode
from gridwright.own_directories import temporary_directory
from gridwright.runs.workload_events import WORKLOAD_EVENTS, DataFailed, DataReady, WorkloadEvent
from gridwright.trusted import open_directory, read_file, why_untrusted
from gridwright.workload.launches.program_request import TableFacts
from gridwright.workload.messages import DataRequest, RunRequest, Scale
from gridwright.workload.programs.program import absent_engines

if TYPE_CHECKING:
    from gridwright.workload.messages import Made
    from gridwright.workload.session import OnGrid


HOME = "gridwright-workload"
_MANIFEST = "manifest.json"
_LOCK = ".maker"
"""Who makes the data set has it; nobody else can open it."""
_IN_USE = ".in-use"
_FORMER_LOCK = ".lock"
"""Every user could take that of earlier releases."""
_PARTIAL = ".partial"
_FACTS = {"rows", "sha256", "checksum", "expected"}
_OURS = re.compile(r"[a-z]+-seed\d+-v\d+")
_HOMES = re.compile(rf"{HOME}(-\d+)?")
_COPY = re.compile(r"copy-\d+")
_TABLE = re.compile(r"(?P<copy>copy-\d+)/[a-z]+\.(arrow|csv)")
_OUR_FILES = re.compile(r"[a-z]+\.(arrow|csv)(\.partial)?|\.?manifest\.json(\.\d+\.part)?")
_MOST_BYTES = 1 << 24
"""Of a manifest: one of a hundred copies has a hundredth of that."""
_MODE = 0o755
_ANY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
VERSION = 1
"""Goes up whenever the same seed and scale would give other bytes."""


class Locked(Exception):
    """Another process is making this data set, or uses it."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of a scale and a seed, in the directory of a library; it need not be there yet."""

    directory: Path
    scale: Scale
    seed: int

    @classmethod
    def of(cls, library: Path, scale: Scale, seed: int) -> DataSet:
        """The data set that belongs to a scale and a seed."""
        name = f"{scale.name}-seed{seed}-v{VERSION}"
        return cls(library / _home(library, name) / name, scale, seed)

    def path(self, table: str, copy: int, suffix: str) -> Path:
        """Where a table of a copy lies."""
        return self.directory / f"copy-{copy}" / f"{table}.{suffix}"

    def entries(self) -> dict[str, Any]:
        """What the manifest says of each table that is whole, by `copy/table`. Raises OSError.

        A table whose file is gone, or of another size, counts as not there; so does a manifest
        that cannot be read.
        """
        try:
            with self._opened() as directory:
                manifest = json.loads(read_file(directory, _MANIFEST, _MOST_BYTES))
                if manifest["units"] != self.scale.units:
                    return {}
                found = manifest["tables"].items()
                return {name: entry for name, entry in found if _is_there(directory, entry)}
        except (FileNotFoundError, GridwrightError):
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _opened(self, *, make: bool = False) -> contextlib.AbstractContextManager[int]:
        return opened_below(self.directory.parents[1], self.directory.parts[-2:], make=make)

    def record(self, made: dict[str, tuple[Path, Made]]) -> None:
        """Add tables, by `copy/table`, to the manifest. Raises OSError, GridwrightError."""
        tables = self.entries()
        for name, (path, facts) in made.items():
            fields = asdict(facts)
            fields["bytes"] = fields.pop("bytes_")
            tables[name] = {"file": str(path.relative_to(self.directory))} | fields
        manifest = {
            "schema": 1,
            "version": VERSION,
            "scale": self.scale.name,
            "seed": self.seed,
            "units": self.scale.units,
            "tables": dict(sorted(tables.items())),
        }
        with self._opened() as directory:
            place = Path(descriptor_path(directory)) / _MANIFEST
            write_atomically(place, json.dumps(manifest, indent=1) + "\n", 0o644)

    def facts(self, copy: int) -> dict[str, TableFacts]:
        """What a launch needs to know of the tables of a copy, by table. Raises OSError."""
        return {
            name.split("/", 1)[1]: TableFacts(
                path=self.directory / entry["file"],
                rows=entry["rows"],
                bytes_=entry["bytes"],
                checksum=entry["checksum"],
                expected=entry["expected"],
            )
            for name, entry in self.entries().items()
            if name.startswith(f"{copy}/")
        }

    def evict(self) -> None:
        """Take its files out of this node's page cache, where the kernel agrees (posix_fadvise(2))."""
        with contextlib.suppress(OSError, GridwrightError), self._opened() as directory:
            for entry in self.entries().values():
                with contextlib.suppress(OSError):
                    fd = os.open(entry["file"], os.O_RDONLY | _ANY, dir_fd=directory)
                    try:
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    finally:
                        os.close(fd)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from making the same data set. Raises Locked, OSError, and as `opened_below`.

        A file system without flock(2), such as Lustre without that mount option, is not locked:
        tables are renamed into place, so that two makers only do the work twice.
        """
        with self._opened(make=True) as directory, _locked(directory, _LOCK, fcntl.LOCK_EX, 0o600):
            yield

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep its owner from removing the data set meanwhile; any number may use it.

        Where this user may not write, and no user who may has used it, nothing is locked. Who may only read
        it can hold the lock of a remover, too, and keeps nobody from using what is there.
        Raises BlockingIOError if it is being removed now.
        """
        with contextlib.ExitStack() as held:
            try:
                directory = held.enter_context(self._opened())
                held.enter_context(_locked(directory, _IN_USE, fcntl.LOCK_SH, 0o644))
            except Locked:
                if not self.entries():
                    what = "another process is removing the data set"
                    raise BlockingIOError(errno.EWOULDBLOCK, what, str(self.directory)) from None
            except (OSError, GridwrightError):
                pass
            yield

    def remove_partial(self) -> None:
        """Remove what a killed maker left half written; only with the lock."""
        with contextlib.suppress(OSError, GridwrightError), self._opened() as directory:
            for name in _names(directory, _COPY):
                with _subdirectory(directory, name) as copy:
                    _unlink(copy, [each for each in _names(copy, _OUR_FILES) if each.endswith(_PARTIAL)])


def _home(library: Path, name: str) -> str:
    """The directory of a library with the data set of a name: the one of all, or this user's own."""
    own = f"{HOME}-{os.geteuid()}"
    there = library / HOME
    try:
        status = there.lstat()
        if not stat.S_ISDIR(status.st_mode) or why_untrusted(status):
            return own
        status = (there / name).lstat()
        return own if not stat.S_ISDIR(status.st_mode) or why_untrusted(status) else HOME
    except FileNotFoundError:
        return own if there.is_dir() and not os.access(there, os.W_OK) else HOME
    except OSError:
        return HOME


@contextlib.contextmanager
def opened_below(library: Path, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of a directory of data, reached by names from a library on; with `make`, made.

    Raises OSError, and GridwrightError where one of them is a link, or can be written by other users.
    """
    with contextlib.ExitStack() as opened:
        here = os.open(library, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, here)
        for name in names:
            here = open_directory(name, directory=here, make=_MODE if make else None)
            opened.callback(os.close, here)
        yield here


def _is_there(directory: int, entry: dict[str, Any]) -> bool:
    """Whether an entry of the manifest names a table of the open data set that is whole."""
    with contextlib.suppress(OSError):
        named = _TABLE.fullmatch(entry["file"])
        if named is None or why_untrusted(os.stat(named["copy"], dir_fd=directory, follow_symlinks=False)):
            return False
        status = os.stat(entry["file"], dir_fd=directory, follow_symlinks=False)
        same = stat.S_ISREG(status.st_mode) and status.st_size == entry["bytes"]
        return bool(same and entry.keys() >= _FACTS)
    return False


@contextlib.contextmanager
def _locked(directory: int, name: str, kind: int, mode: int) -> Iterator[None]:
    """A lock on a file of an open directory. Raises Locked, and OSError."""
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | _ANY, mode, dir_fd=directory)
    except OSError:
        # A shared lock needs no more than to read.
        fd = os.open(name, os.O_RDONLY | _ANY, dir_fd=directory)
    try:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked from None
        except OSError:
            pass
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _subdirectory(directory: int, name: str) -> Iterator[int]:
    """Open a directory by name. Raises OSError: NotADirectoryError also where it is a link."""
    opened = os.open(name, DIRECTORY, dir_fd=directory)
    try:
        yield opened
    finally:
        os.close(opened)


def _unlink(directory: int, names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def _names(directory: int, pattern: re.Pattern[str]) -> list[str]:
    return sorted(filter(pattern.fullmatch, os.listdir(directory)))


def remove_data(library: Path) -> list[Path]:
    """Remove data sets in a library, root those of all users; returns their directories.

    Only what has a name of ours is removed; a file of someone else stays, with its directory. Raises, after
    the others were removed, Locked where one is used, and OSError.
    """
    removed, failures = list[Path](), list[OSError | Locked]()
    with contextlib.ExitStack() as opened:
        try:
            top = opened.enter_context(opened_below(library, ()))
        except FileNotFoundError:
            return []
        for home in _names(top, _HOMES):
            # What is no directory, or one that others closed, is none of ours.
            with (
                contextlib.suppress(NotADirectoryError, PermissionError),
                _subdirectory(top, home) as place,
            ):
                for name in _names(place, _OURS):
                    try:
                        if _remove_set(place, name):
                            removed.append(library / home / name)
                    except (Locked, OSError) as error:
                        failures.append(error)
            with contextlib.suppress(OSError):
                os.rmdir(home, dir_fd=top)
    if failures:
        raise failures[0]
    return removed


def _remove_set(home: int, name: str) -> bool:
    """Remove a data set of an open directory; False where it is none of ours. Raises Locked, OSError."""
    with contextlib.ExitStack() as opened:
        try:
            place = opened.enter_context(_subdirectory(home, name))
        except (NotADirectoryError, PermissionError):
            return False
        if os.geteuid() not in (0, os.fstat(place).st_uid):
            return False
        opened.enter_context(_locked(place, _LOCK, fcntl.LOCK_EX, 0o600))
        opened.enter_context(_locked(place, _IN_USE, fcntl.LOCK_EX, 0o644))
        # Without it nobody begins to use the tables.
        _unlink(place, [_MANIFEST])
        for copy in _names(place, _COPY):
            with contextlib.suppress(NotADirectoryError), _subdirectory(place, copy) as tables:
                _unlink(tables, _names(tables, _OUR_FILES))
            with contextlib.suppress(OSError):
                os.rmdir(copy, dir_fd=place)
        _unlink(place, [*_names(place, _OUR_FILES), _FORMER_LOCK, _LOCK, _IN_USE])
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=home)
    return True


_STOP_S = 1.0


class DataPreparation:
    """Runs `gridwright.workload.prepare`; `ended` and `status` say how it goes."""

    def __init__(
        self,
        request: RunRequest,
        selector: selectors.BaseSelector,
        say: Callable[[WorkloadEvent], None],
    ) -> None:
        """Start it. Raises OSError."""
        self._say = say
        self._selector = selector
        self._rest = b""
        self._ready = False
        self.ended = False
        self.status: ExitStatus | None = None
        if lacking := absent_engines():
            self._fail(
                f"the engines of the tests are not installed: {', '.join(lacking)}",
                "run: pip install 'gridwright[workload]'",
            )
            return
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gridwright.workload.prepare", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        asked = DataRequest(
            libraries=request.libraries,
            scale=request.scale,
            seed=request.seed,
            copies=request.copies,
            streams=[[launch.test for launch in stream] for stream in request.streams],
            keep=request.keep,
            workers=request.workers,
        )
        if self._process.stdin is not None:
            self._process.stdin.write(encode(asked) + b"\n")
            self._process.stdin.flush()
        if self._process.stdout is not None:
            selector.register(self._process.stdout.fileno(), selectors.EVENT_READ, self._read)

    def stop(self) -> None:
        """End it; it removes what is half made."""
        if self.ended:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        fd = self._process.stdout.fileno()
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            self._selector.unregister(fd)
            self._finish()
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            event = WORKLOAD_EVENTS.read(json.loads(line))
            if isinstance(event, DataFailed):
                self.status = event.exit
                for problem in event.problems:
                    self._say(problem)
            elif event is not None:
                self._ready = self._ready or isinstance(event, DataReady)
                self._say(event)

    def _finish(self) -> None:
        self.ended = True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        if not self._ready and self.status is None:
            self._fail(
                f"the process that makes the data ended without a word ({self._process.returncode})",
                "look into the run's log, and for an out-of-memory kill in `dmesg`",
            )

    def _fail(self, what: str, remedy: str) -> None:
        self.ended = True
        self.status = ExitStatus.ENVIRONMENT
        self._say(Problem(what=what, remedy=remedy))


def clean(libraries: dict[str, Path], place: OnGrid | None, stop: threading.Event) -> list[str]:
    """Remove the data sets in the library data; returns their directories.

    `place` None means this machine. Raises GridwrightError (ENVIRONMENT) where a run uses the data, or where
    they cannot be removed, and KeyboardInterrupt where `stop` was set meanwhile.
    """
    if place is None:
        return _remove(libraries["data"])
    return _remove_on_node(place, libraries, stop)


def _remove(directory: Path) -> list[str]:

    try:
        return [str(path) for path in remove_data(directory)]
    except Locked:
        raise _in_use(directory) from None
    except OSError as error:
        raise environment_error(
            f"cannot be removed: {error.strerror}", where=str(error.filename or directory)
        ) from error


def _remove_on_node(place: OnGrid, libraries: dict[str, Path], stop: threading.Event) -> list[str]:
    """The same by a job on a node: this machine may not see the library."""
    from gridwright.runs.workload_events import WORKLOAD_EVENTS, ChoreDone

    problems: list[Problem] = []
    done: ChoreDone | None = None
    scratch = temporary_directory("gridwright-clean-")
    try:
        with place.worker(place.request(libraries), scratch / "log") as agent:
            for event in map(WORKLOAD_EVENTS.read, agent.events(stop)):
                if isinstance(event, Problem):
                    problems.append(event)
                elif isinstance(event, ChoreDone):
                    done = event
    finally:
        remove_tree(scratch)
    if stop.is_set():
        raise KeyboardInterrupt
    if done is not None and done.locked:
        raise _in_use(libraries["data"])
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    if done is None:
        raise environment_error(f"the data were not removed: {agent.end}")
    return done.removed


def _in_use(directory: Path) -> GridwrightError:
    return environment_error(
        "a run is making data there, or uses it, now",
        where=str(directory),
        remedy="wait until it has ended; a shared file system keeps the locks of a lost node for minutes",
    )
