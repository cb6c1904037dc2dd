"""What a watch knows, in one file that is whole whenever it is killed: findings, and notices that wait."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright import handed_files
from gridwright.errors import GridwrightError, environment_error
from gridwright.messages import Extensible, MessageError, decode, encode
from gridwright.own_directories import state_home
from gridwright.refusals import refusal
from gridwright.spec.model import GridSpec
from gridwright.trusted import open_directory, open_file
from gridwright.watch.change_log import LoggedChange
from gridwright.watch.damping import KnownFinding, RoundNumbers
from gridwright.watch.notifications import FindingReason, Notification
from gridwright.watch.round_messages import FindingKey

FILE, LOCK = "state.json", "watch.lock"
SERVICE = Path("/var/lib/gridwright-watch")
"""Where the service of the head node keeps what it knows, by grid."""
_REMEDY = "name a directory of your own, with none above it that others write: --state DIR"
HERE = "this-machine"
"""The name of a watch without a spec."""


@dataclass(frozen=True, slots=True)
class LastRound(Extensible):
    """How a round went; times in seconds since 1970."""

    began_s: float
    ended_s: float
    everything: bool
    nodes: int = 0
    silent: int = 0
    problem: str = ""
    """Why it came to nothing."""


@dataclass(frozen=True, slots=True)
class Receiver(Extensible):
    """Who gets notices: what waits, and how sending went."""

    waiting: list[Notification] = field(default_factory=list)
    sent: int = 0
    last_sent_s: float | None = None
    failures: int = 0
    """Tries in a row that failed."""
    last_problem: str = ""
    last_problem_s: float | None = None


@dataclass(frozen=True, slots=True)
class WatchState(Extensible):
    """All that a watch knows."""

    grid: str
    mark: str
    """Tells notices of this watch from those of another one of the same grid."""
    schema: int = 1
    numbers: RoundNumbers = field(default_factory=RoundNumbers)
    findings: list[KnownFinding] = field(default_factory=list)
    explained: dict[str, FindingReason] = field(default_factory=dict)
    """Reason and remedy of findings, by name."""
    last_round: LastRound | None = None
    last_all_s: float | None = None
    """When all checks were done last, in seconds since 1970."""
    changes: int = 0
    """The number of the last change."""
    notices: int = 0
    unlogged: list[LoggedChange] = field(default_factory=list)
    """Changes that may not be in the log yet."""
    receivers: dict[str, Receiver] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[FindingKey, KnownFinding]:
        """Findings by what makes them the same."""
        return {finding.key: finding for finding in self.findings}

    @property
    def open(self) -> list[KnownFinding]:
        """Those that are open."""
        return [finding for finding in self.findings if finding.is_open]

    def with_receivers(self, names: Sequence[str]) -> WatchState:
        """The same for these receivers; what waits for others is dropped with them."""
        return replace(self, receivers={name: self.receivers.get(name, Receiver()) for name in names})


def watch_directory(spec: GridSpec | None) -> Path:
    """Where the watch of a grid keeps what it knows: with the service where there is one, else with the user.

    The latter is below the state directory of the XDG Base Directory Specification; grids of one name whose
    specs are in different directories have one each.
    """
    name = spec.name if spec is not None else HERE
    if (SERVICE / name / FILE).exists():
        return SERVICE / name
    if spec is not None and spec.file is not None:
        place = os.fsencode(spec.file.parent.resolve())
        name = f"{name}-{hashlib.sha256(place).hexdigest()[:8]}"
    return state_home() / "gridwright" / "watch" / name


def read_state(directory: Path) -> WatchState | None:
    """What a watch knows; None where there is none. Raises GridwrightError (ENVIRONMENT)."""
    path = directory / FILE
    try:
        with handed_files.open_file(path, follows=False) as file:
            return decode(file.read(), WatchState)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, MessageError) as error:
        raise environment_error(
            f"what the watch knows cannot be read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            remedy=f"see who may read it; where the disk failed, remove {path}: the watch then begins anew",
        ) from error


def new_state(grid: str) -> WatchState:
    """That of a watch which has seen nothing."""
    return WatchState(grid, secrets.token_hex(4))


def write_state(directory: Path, state: WatchState) -> None:
    """Keep it: a reader or a crash has the old one or the new one. Raises GridwrightError (ENVIRONMENT)."""
    part = f".{FILE}.part"
    try:
        opened = open_directory(directory, remedy=_REMEDY)
        try:
            flags = os.O_WRONLY | os.O_CREAT
            with os.fdopen(open_file(opened, part, flags, 0o644, remedy=_REMEDY), "wb") as file:
                file.truncate(0)
                file.write(encode(state))
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, FILE, src_dir_fd=opened, dst_dir_fd=opened)
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        raise unwritable(error, directory / FILE) from error


def unwritable(error: OSError, path: Path) -> GridwrightError:
    """The error of a state directory that takes nothing."""
    why = refusal(path, error, "name another directory with --state", writes=True)
    return environment_error(
        f"what the watch knows cannot be written: {why.reason}", where=str(path), remedy=why.remedy
    )


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Be the only watch of a directory, which is made where it is not there.

    Raises GridwrightError (ENVIRONMENT) where another one is at work, or nothing can be written.
    """
    path = directory / LOCK
    try:
        opened = open_directory(directory, make=0o755, remedy=_REMEDY)
        try:
            # Who may read a file may lock it.
            file = open_file(opened, LOCK, os.O_RDWR | os.O_CREAT, remedy=_REMEDY)
        finally:
            os.close(opened)
        os.fchmod(file, 0o600)
    except OSError as error:
        raise unwritable(error, path) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(directory, file) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def _taken(directory: Path, file: int) -> GridwrightError:
    with contextlib.suppress(OSError, ValueError):
        number = int(os.pread(file, 32, 0))
        return environment_error(
            f"process {number} watches this grid already",
            where=str(directory),
            remedy="see what it found: gridwright watch --status; or end it first",
        )
    return environment_error("another process watches this grid already", where=str(directory))
