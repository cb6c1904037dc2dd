"""What a watch keeps on disk: its state, whole whenever it is killed, and the log of changes.

The log has what opened and closed, which others lay on a time line: bounded JSON lines, the newest last.
`status_document` and `status_text` tell people and programs what is known.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gridwright import handed_files
from gridwright.atomic import naming
from gridwright.errors import GRAVEST_FIRST, GridwrightError, Level, environment_error
from gridwright.messages import Extensible, MessageError, decode, encode, plain
from gridwright.own_directories import state_home
from gridwright.refusals import refusal
from gridwright.spec.model import GridSpec
from gridwright.trusted import open_directory, open_file
from gridwright.units import format_duration
from gridwright.watch.damping import Changed, KnownFinding, RoundNumbers, Step
from gridwright.watch.notifications import FindingReason, Notification, clock, folded, place
from gridwright.watch.rounds import FindingKey

_LOG, _FORMER_LOG = "changes.jsonl", "changes.former.jsonl"
MOST_LOG_BYTES = 2 * 2**20
"""Of each of both files: from then on the log is the former one, and that one goes. 5000 changes or more."""


@dataclass(frozen=True, slots=True)
class LoggedChange(Extensible):
    """A step of a finding, as it is kept; times in seconds since 1970."""

    number: int
    """Rises from change to change."""
    at_s: float
    step: Step
    name: str
    nodes: list[str]
    target: str
    level: Level
    since_s: float
    found: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """Something that happened, for a time line."""

    time: float
    """In seconds since 1970."""
    kind: Step
    what: str
    """The finding in words."""
    where: str
    """Nodes, folded, and what of them; of a finding without nodes its file system, or nothing."""
    link: str
    """The name of the finding, which `gridwright help` explains, and the documents have as an anchor."""


def change_marks(directory: Path, start_s: float, end_s: float) -> list[ChangeMark]:
    """What opened, closed or flapped between two times (seconds since 1970), in the order of its happening.

    `directory` is that of a watch (`state.watch_directory`). Where there is none, or it cannot be read, there
    are no marks. Nodes of one round with the same finding are one mark.
    """
    from gridwright.spec.hosts import fold_hosts

    together: dict[tuple[float, Step, str, str], list[LoggedChange]] = {}
    for change in read_changes(directory):
        if start_s <= change.at_s <= end_s:
            together.setdefault((change.at_s, change.step, change.name, change.target), []).append(change)
    found = []
    for (at_s, step, name, target), changes in together.items():
        nodes = fold_hosts(dict.fromkeys(node for each in changes for node in each.nodes))
        where = ": ".join(each for each in (nodes, target) if each)
        found.append(ChangeMark(at_s, step, f"{name} {step}: {changes[0].found}", where, name))
    return sorted(found, key=lambda mark: mark.time)


def read_changes(directory: Path) -> Iterator[LoggedChange]:
    """All changes that are kept, the oldest first; a line that a kill or a full disk tore is passed over."""
    last = 0
    for name in (_FORMER_LOG, _LOG):
        try:
            with handed_files.open_file(directory / name, follows=False) as file:
                lines = file.read().split(b"\n")
        except OSError:
            continue
        for line in lines:
            try:
                change = decode(line, LoggedChange)
            except (MessageError, UnicodeDecodeError):
                continue
            if change.number > last:
                last = change.number
                yield change


def logged_changes(changes: Sequence[Changed], first: int, at_s: float) -> list[LoggedChange]:
    """Changes of a round as they are kept, numbered from `first` on."""
    return [
        LoggedChange(
            number,
            at_s,
            change.step,
            change.finding.key.name,
            list(change.finding.key.nodes),
            change.finding.key.target,
            change.finding.level,
            change.finding.since_s,
            change.finding.found,
            change.why,
        )
        for number, change in enumerate(changes, first)
    ]


def append_changes(directory: Path, changes: Sequence[LoggedChange]) -> None:
    """Put changes at the end that are not there yet, on disk. Raises OSError and GridwrightError."""
    there = max((change.number for change in read_changes(directory)), default=0)
    lines = [encode(change) + b"\n" for change in changes if change.number > there]
    if not lines:
        return
    opened = open_directory(directory)
    try:
        with naming(directory / _LOG):
            _append(opened, lines)
    finally:
        os.close(opened)


def _append(directory: int, lines: Sequence[bytes]) -> None:
    file = open_file(directory, _LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(file).st_size
        # What a kill tore keeps its line to itself.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        data = memoryview((b"\n" if torn else b"") + b"".join(lines))
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
        size = os.fstat(file).st_size
    finally:
        os.close(file)
    if size > MOST_LOG_BYTES:
        os.replace(_LOG, _FORMER_LOG, src_dir_fd=directory, dst_dir_fd=directory)


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


RECENT = 20
"""Changes that are shown in text."""
MOST_CHANGES = 1000
"""Those of a document; the log has more."""


def status_document(directory: Path, state: WatchState, now_s: float) -> dict[str, Any]:
    """What is open, and how rounds and receivers are, in plain values; times in seconds since 1970."""
    last = state.last_round
    return {
        "grid": state.grid,
        "directory": str(directory),
        "now_s": now_s,
        "last_round": plain(last) if last is not None else None,
        "last_all_s": state.last_all_s,
        "rounds": plain(state.numbers),
        "open": [_plain(each, state, now_s) for each in _sorted(state.open)],
        "receivers": {name: _receiver(receiver) for name, receiver in state.receivers.items()},
        "changes": [plain(change) for change in list(read_changes(directory))[-MOST_CHANGES:]],
    }


def status_text(directory: Path, state: WatchState, now_s: float) -> str:
    """The same in words, the gravest first."""
    lines = [f"Grid {state.grid}: {_rounds(state, now_s)}"]
    rows = folded(
        (("flapping" if each.is_flapping else "open", each, "") for each in state.open), state.explained
    )
    lines += [""] if rows else ["Nothing is open."]
    for row in rows:
        flaps = ", flapping" if row.change == "flapping" else ""
        lines.append(f"{row.level} {row.name}: {place(row)}{row.found}")
        lines.append(f"  since {clock(row.since_s)} ({format_duration(now_s - row.since_s)}){flaps}")
        lines += [f"  mend: {row.remedy}"] if row.remedy else []
    unseen = [each for each in state.open if last_looked_is_old(each, state)]
    if unseen:
        lines += ["", f"{len(unseen)} of these could not be looked at in the last round: nobody answered."]
    held = sum(not each.is_told for each in state.open)
    if held:
        lines += ["", f"{held} of these are not told yet: their nodes get no jobs."]
    lines += ["", *(_receiver_line(name, receiver, now_s) for name, receiver in state.receivers.items())]
    recent = list(read_changes(directory))[-RECENT:]
    lines += ["Last changes:"] if recent else []
    for change in reversed(recent):
        where = " ".join(each for each in ("+".join(change.nodes), change.target) if each)
        lines.append(f"  {clock(change.at_s)} {change.step} {change.name}{f': {where}' if where else ''}")
    return "\n".join(lines).rstrip() + "\n"


def last_looked_is_old(finding: KnownFinding, state: WatchState) -> bool:
    """Whether its place did not answer in the last round that would have looked at it."""
    last = state.last_round
    if last is None or last.problem or (finding.pace == "all" and not last.everything):
        return False
    return finding.last_looked_s < last.began_s


def _rounds(state: WatchState, now_s: float) -> str:
    last = state.last_round
    if last is None:
        return "no round has ended yet."
    ago = f"{format_duration(now_s - last.ended_s)} ago"
    if last.problem:
        return f"the last round, {ago}, told nothing: {last.problem}"
    silent = f", {last.silent} silent" if last.silent else ""
    what = "all checks" if last.everything else "cheap checks"
    every = (
        f", all checks {format_duration(now_s - state.last_all_s)} ago"
        if state.last_all_s is not None
        else ""
    )
    return f"last round {ago} ({what}, {last.nodes} node{'s'[: last.nodes != 1]}{silent}){every}."


def _receiver_line(name: str, receiver: Receiver, now_s: float) -> str:
    sent = f"{receiver.sent} sent"
    if receiver.last_sent_s is not None:
        sent += f", the last {format_duration(now_s - receiver.last_sent_s)} ago"
    waits = f"; {len(receiver.waiting)} waiting" if receiver.waiting else ""
    if receiver.failures:
        failed = f"; {receiver.failures} tries in a row failed: {receiver.last_problem}"
        return f"{name}: {sent}{waits}{failed}"
    return f"{name}: {sent}{waits}{f' (at last: {receiver.last_problem})' if receiver.last_problem else ''}"


def _receiver(receiver: Receiver) -> dict[str, Any]:
    found: dict[str, Any] = plain(receiver)
    return {**found, "waiting": [each.document() for each in receiver.waiting]}


def _sorted(findings: Iterable[KnownFinding]) -> list[KnownFinding]:
    return sorted(findings, key=lambda each: (GRAVEST_FIRST[each.level], each.since_s, each.key))


def _plain(finding: KnownFinding, state: WatchState, now_s: float) -> dict[str, Any]:
    explanation = state.explained.get(finding.key.name)
    return {
        "name": finding.key.name,
        "nodes": list(finding.key.nodes),
        "target": finding.key.target,
        "level": finding.level,
        "found": finding.found,
        "expected": finding.expected,
        "reason": explanation.reason if explanation else "",
        "remedy": explanation.remedy if explanation else "",
        "since_s": finding.since_s,
        "opened_s": finding.opened_s,
        "last_seen_s": finding.last_seen_s,
        "last_looked_s": finding.last_looked_s,
        "age_s": max(0.0, now_s - finding.since_s),
        "flapping": finding.is_flapping,
        "told": finding.is_told,
        "pace": finding.pace,
    }
