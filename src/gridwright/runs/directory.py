"""A run directory: made before anything is measured, loadable at every moment after, removable at the end.

What its parts measured, they say together.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.atomic import write_atomically
from gridwright.beneath import make_private, remove_tree
from gridwright.errors import ExitStatus, GridwrightError, environment_error, input_error
from gridwright.refusals import refusal
from gridwright.runs.host import host_facts, software_versions
from gridwright.runs.iotest_events import (
    IOTEST_EVENTS,
    IotestEvent,
    IotestStep,
    LibraryDone,
    PhaseDone,
    PhaseProgress,
    RemovalBegun,
    ScratchMade,
)
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.journal import Event, Journal, read_journal, readable
from gridwright.runs.parquet import write_launches
from gridwright.runs.phase_record import Status, Sweep
from gridwright.runs.place import (
    BEGAN,
    CLOCKS_DIFFER,
    RUN_FILE,
    check_place,
    is_to_come,
    open_for_runs,
    own_runs,
    run_directories,
    run_owner,
)
from gridwright.runs.records import (
    FindingRecord,
    IotestRecord,
    NodeCheck,
    Record,
    RunRecord,
    damaged,
    load_record,
    unreadable,
)
from gridwright.runs.samples import SampleRow, read_samples, with_node, write_samples
from gridwright.runs.stream_sweep import SWEEP_FILE, StreamSweepRecord, load_sweep
from gridwright.runs.verdict import Graded, VerdictKind, exit_status, grade_of, make_verdict, met_of
from gridwright.runs.worker_process import is_alive, process_facts
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    AgentAlive,
    DataProgress,
    LaunchEnded,
    TableMade,
    WorkloadDone,
    WorkloadEvent,
    WorkloadStep,
)
from gridwright.runs.workload_record import WorkloadRecord, WorkloadReducer

if TYPE_CHECKING:
    from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Results:
    """What a run measured; None where it holds no such part."""

    iotest: IotestRecord | None
    workload: WorkloadRecord | None
    checks: list[NodeCheck] = field(default_factory=list)
    status: Status = "complete"
    unmeasured: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> VerdictKind:
        """The verdict on the run."""
        return make_verdict(self.status, self.iotest, self.workload, self.checks, self.unmeasured)

    @property
    def met(self) -> bool | None:
        """Whether all that is required is met; None where nothing is, or it is open."""
        return met_of(self.verdict)

    def graded(self, memory_bytes: int) -> Graded | None:
        """How much it shows; None for a run that did not end. `memory_bytes` is that of this machine."""
        return grade_of(self.iotest, self.workload, memory_bytes) if self.status == "complete" else None

    @property
    def findings(self) -> list[FindingRecord]:
        """Those of all parts."""
        parts = [part for part in (self.iotest, self.workload) if part is not None]
        return [*self.checks, *(finding for part in parts for finding in part.findings)]


def _results_of(
    path: Path,
    status: Status,
    iotest: IotestReducer,
    workload: WorkloadReducer,
    checks: list[NodeCheck],
    unmeasured: list[str],
) -> Results:
    """What the parts of a run at `path` have measured so far."""
    others = workload.begun or (path / SWEEP_FILE).exists()
    measured = iotest.libraries or iotest.findings or not others
    return Results(
        iotest.record(readable(str(path)), status) if measured else None,
        workload.record(readable(str(path)), status) if workload.begun else None,
        checks,
        status,
        unmeasured,
    )


IOTEST_FILE = "iotest.json"
_WORKLOAD_FILE = "workload.json"
_LAUNCHES_FILE = "launches.parquet"
SAMPLES_FILE = "samples.parquet"
REPORT_FILE = "report.html"
JOURNAL_FILE = "journal.jsonl"
LOGS = "logs"
_QUIET_S = 600.0
"""A run journals a sample a second; one that is quiet this long has ended."""
_UNSEEN = (
    *(PhaseProgress, ScratchMade, RemovalBegun, LibraryDone),
    *(AgentAlive, DataProgress, TableMade, WorkloadDone),
)
"""Events that tell a watcher where things stand and are not part of what was measured."""
RunEvent = IotestEvent | WorkloadEvent | NodeCheck
"""What a run is told: of its parts, and what was found wrong with nodes before."""


class RunDirectory:
    """The directory of a run that is going on."""

    def __init__(self, path: Path, opened: int, record: RunRecord) -> None:
        """`opened` is its descriptor, by which all of its files go, whatever its name means by then."""
        self.path = path
        self._opened = opened
        self.record = record
        self.iotest = IotestReducer()
        self.workload = WorkloadReducer()
        self.checks: list[NodeCheck] = []
        self._journal = Journal(JOURNAL_FILE, directory=opened)

    @classmethod
    def of_spec(
        cls,
        runs: Path,
        spec: GridSpec,
        *,
        command: list[str],
        what: list[str],
        name: str | None = None,
        unmeasured: Sequence[str] = (),
    ) -> RunDirectory:
        """Make one with what `spec` tells of its run, named after the grid unless `name` says otherwise.

        `unmeasured` are requirements of the spec that the run leaves out, in words.
        Raises GridwrightError if that cannot be written to.
        """
        return cls.create(
            runs,
            name or spec.name,
            command=command,
            what=what,
            spec_path=str(spec.file) if spec.file else None,
            spec_text=spec.source_text,
            heading=spec.report.lines(),
            unmeasured=unmeasured,
        )

    @classmethod
    def create(
        cls,
        runs: Path,
        name: str,
        *,
        command: list[str],
        what: list[str],
        spec_path: str | None = None,
        spec_text: str | None = None,
        heading: Mapping[str, str] | None = None,
        unmeasured: Sequence[str] = (),
    ) -> RunDirectory:
        """Make `RUNS/<utc time>-<name>/`. Raises GridwrightError if that cannot be written to."""
        now = datetime.now(UTC)
        record = RunRecord(
            name=readable(name),
            command=readable(command),
            what=what,
            started=now.isoformat(timespec="seconds"),
            status="running",
            spec_path=readable(spec_path),
            spec_text=readable(spec_text),
            heading=readable(dict(heading or {})),
            unmeasured=readable(list(unmeasured)),
            host=host_facts(),
            software=software_versions(),
            process=process_facts(),
        )
        try:
            above = open_for_runs(runs)
            try:
                path, opened = _make(runs, above, f"{now:{BEGAN}}-{_plain(name)}", record)
            finally:
                os.close(above)
            return cls(path, opened, record)
        except OSError as error:
            why = refusal(
                runs / "run", error, "give another place with --runs DIR or GRIDWRIGHT_RUNS", writes=True
            )
            raise environment_error(
                f"the run directory cannot be made: {why.reason}", where=str(runs), remedy=why.remedy
            ) from error

    def take(self, event: RunEvent) -> None:
        """Journal an event and account for it. Raises GridwrightError if it cannot be written."""
        event = readable(event)
        _give(event, self.iotest, self.workload, self.checks)
        if isinstance(event, _UNSEEN):
            return
        try:
            self._journal.append(_line(event), durable=isinstance(event, PhaseDone | LaunchEnded))
        except OSError as error:
            raise environment_error(
                f"the run's journal cannot be written: {error.strerror}",
                where=str(self.path / JOURNAL_FILE),
                remedy="free space there, or give another place with --runs DIR",
            ) from error

    def finish(self, status: Status) -> Results:
        """Write the final files, then drop the journal. Raises GridwrightError."""
        unmeasured = self.record.unmeasured
        results = _results_of(self.path, status, self.iotest, self.workload, self.checks, unmeasured)
        graded = results.graded(self.record.host.memory_bytes)
        self.record = self.record.model_copy(
            update={
                "status": status,
                "verdict": results.verdict,
                "met": results.met,
                "grade": graded.grade if graded else None,
                "not_shown": (graded.not_shown or None) if graded else None,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "findings": results.findings,
                "checks": results.checks,
            }
        )
        try:
            if results.iotest is not None:
                _write_json(self._opened, IOTEST_FILE, results.iotest)
            if results.workload is not None:
                _write_json(self._opened, _WORKLOAD_FILE, results.workload)
                write_launches(_LAUNCHES_FILE, results.workload.launches, directory=self._opened)
            samples = [*self.iotest.samples, *self.workload.samples]
            write_samples(SAMPLES_FILE, samples, self.record.host.hostname, directory=self._opened)
            _write_json(self._opened, RUN_FILE, self.record)
            self._journal.close()
            os.unlink(JOURNAL_FILE, dir_fd=self._opened)
            os.close(self._opened)
        except OSError as error:
            raise environment_error(
                f"the run's results cannot be written: {error.strerror}",
                where=str(self.path / str(error.filename or "")),
                remedy="the journal holds what was measured: free space, then `gridwright runs show`",
            ) from error
        return results

    def exit_status(self, ended: ExitStatus) -> ExitStatus:
        """The exit status of the command that made this finished run; `ended` is how its processes ended."""
        return exit_status(ended, self.record.verdict, self.record.findings)


def read_event(line: Event, *, workload: bool) -> RunEvent | None:
    """The event of a line of a journal; `workload` is whether that has begun, which comes after iotest.

    None where its kind is not known. Raises ValueError where it is none of its kind.
    """
    kind = line.get("event")
    if kind == "check":
        return NodeCheck.model_validate({key: value for key, value in line.items() if key != "event"})
    return WORKLOAD_EVENTS.read(line) if workload or kind == "workload" else IOTEST_EVENTS.read(line)


def _line(event: RunEvent) -> Event:
    if isinstance(event, NodeCheck):
        return {"event": "check"} | event.model_dump()
    return WORKLOAD_EVENTS.plain(event) if isinstance(event, WorkloadStep) else IOTEST_EVENTS.plain(event)


def _give(event: RunEvent, iotest: IotestReducer, workload: WorkloadReducer, checks: list[NodeCheck]) -> None:
    """Hand an event to the part of the run it belongs to: the workload comes after iotest."""
    if isinstance(event, NodeCheck):
        checks.append(event)
    elif isinstance(event, IotestStep | Sweep):
        iotest.take(event)
    elif isinstance(event, WorkloadStep) or workload.begun:
        workload.take(event)
    else:
        iotest.take(event)


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run as it stands on disk; `iotest` is None if nothing of it was measured."""

    path: Path
    run: RunRecord
    iotest: IotestRecord | None
    samples: list[SampleRow] = field(default_factory=list)
    workload: WorkloadRecord | None = None
    sweep: StreamSweepRecord | None = None
    owner: int = field(default_factory=os.geteuid)
    """The number of the user whose its directory is."""


def load_run(path: Path, *, with_samples: bool = True) -> LoadedRun:
    """Load a run, whole, going on or killed. Raises GridwrightError if it is none, or damaged."""
    loaded = _load_parts(path, with_samples=with_samples)
    owner = run_owner(path)
    return replace(
        loaded,
        sweep=load_sweep(path, loaded.run.status),
        owner=loaded.owner if owner is None else owner,
    )


def _load_parts(path: Path, *, with_samples: bool) -> LoadedRun:
    run = _load_record(path / RUN_FILE)
    if run.status != "running":
        return _load_finished(path, run, with_samples=with_samples)
    if loaded := _load_journal(path, run):
        return loaded
    # It has ended since, and dropped its journal, or it was killed before it had one.
    run = _load_record(path / RUN_FILE)
    if run.status != "running":
        return _load_finished(path, run, with_samples=with_samples)
    return LoadedRun(path, run.model_copy(update={"status": _status(path, run)}), None)


def _load_record(run_file: Path) -> RunRecord:
    found = load_record(run_file, RunRecord)
    if found is not None:
        try:
            for moment in (found.started, found.finished or found.started):
                datetime.fromisoformat(moment).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise damaged(run_file, error) from error
    if found is None:
        raise input_error(
            "this is no run directory: it has no run.json",
            where=str(run_file.parent),
            remedy="name a directory that `gridwright runs list` shows",
        )
    return found


def _load_finished(path: Path, run: RunRecord, *, with_samples: bool) -> LoadedRun:
    iotest = load_record(path / IOTEST_FILE, IotestRecord)
    workload = load_record(path / _WORKLOAD_FILE, WorkloadRecord)
    file = path / SAMPLES_FILE
    try:
        samples = read_samples(file) if with_samples and os.path.lexists(file) else []
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise damaged(file, error) from error
    return LoadedRun(path, run, iotest, samples, workload)


def _load_journal(path: Path, run: RunRecord) -> LoadedRun | None:
    """Load a run that goes on, or was killed; None if it has no journal."""
    journal = path / JOURNAL_FILE
    status = _status(path, run)
    try:
        iotest, workload = IotestReducer(), WorkloadReducer()
        checks: list[NodeCheck] = []
        for line in read_journal(journal):
            event = read_event(line, workload=workload.begun)
            if event is not None:
                _give(event, iotest, workload, checks)
        results = _results_of(path, status, iotest, workload, checks, run.unmeasured)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(journal, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(journal, error) from error
    told = {"status": status, "met": None, "findings": results.findings, "checks": checks}
    run = run.model_copy(update=told)
    rows = with_node([*iotest.samples, *workload.samples], run.host.hostname)
    measured = results.iotest if iotest.libraries or iotest.findings else None
    return LoadedRun(path, run, measured, rows, results.workload)


def _status(path: Path, run: RunRecord) -> Status:
    """A run whose process is gone was interrupted; so was one of another host that long says nothing."""
    alive = is_alive(run.process)
    if alive is None:
        files = [file for file in (path / JOURNAL_FILE, path / RUN_FILE) if file.exists()]
        alive = any(time.time() - file.stat().st_mtime < _QUIET_S for file in files)
    return "running" if alive else "interrupted"


def list_runs(runs: Path, damaged: Callable[[GridwrightError], object] = lambda _: None) -> list[LoadedRun]:
    """Load all runs in a directory, oldest first; what is damaged is left out, and its error given away.

    Raises GridwrightError (INPUT) for what is there and no directory.
    """
    check_place(runs)
    found = []
    for path in run_directories(runs):
        try:
            found.append(load_run(path, with_samples=False))
        except GridwrightError as error:
            damaged(error)
    return found


def _make(runs: Path, above: int, name: str, record: RunRecord) -> tuple[Path, int]:
    """Make a run directory that has its `run.json` from the moment it is there; with its descriptor."""
    unnamed = f".{name}.{secrets.token_hex(8)}"
    opened = make_private(above, unnamed.encode())
    try:
        os.mkdir(LOGS, dir_fd=opened)
        _write_json(opened, RUN_FILE, record)
        os.fchmod(opened, _given_mode(os.stat(LOGS, dir_fd=opened)))
        for number in range(1, 1000):
            last = name if number == 1 else f"{name}-{number}"
            with contextlib.suppress(FileNotFoundError):
                os.stat(last, dir_fd=above, follow_symlinks=False)
                continue
            with contextlib.suppress(FileExistsError):
                os.rename(unnamed, last, src_dir_fd=above, dst_dir_fd=above)
                return (runs / last).absolute(), opened
        raise FileExistsError(17, "a thousand runs of this name began in this second", str(runs / name))
    except BaseException:
        os.close(opened)
        remove_tree(unnamed, directory=above)
        raise


def _given_mode(made: os.stat_result) -> int:
    """The mode of a run, as the system gave it to a new directory by umask, setgid bit and ACLs.

    So users share runs by the group of a shared directory. Others never write there, nor root's group.
    """
    return stat.S_IMODE(made.st_mode) & ~(stat.S_IWOTH if os.geteuid() else stat.S_IWGRP | stat.S_IWOTH)


def _plain(name: str) -> str:
    """A name that is one plain path component."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80] or "run"


def _write_json(directory: int, name: str, record: Record) -> None:
    text = record.model_dump_json(by_alias=True, indent=1) + "\n"
    write_atomically(name, text, directory=directory)


_FILES = frozenset(
    {RUN_FILE, IOTEST_FILE, _WORKLOAD_FILE, _LAUNCHES_FILE, SAMPLES_FILE, REPORT_FILE, JOURNAL_FILE}
)
_PART = re.compile(r"\.(?P<file>.+)\.\d+\.part")
"""A file that was being written when its process was killed; see `gridwright.atomic`."""
_TO_COME = "it began in the future by this machine's clock, so its age is not known; `runs rm` takes its name"
_REMOVED = ".{}.removed"
"""What a run is called while it goes: a run that is half gone is listed by nobody."""


@dataclass(frozen=True, slots=True)
class RunOnDisk:
    """A run directory, as far as its removal is concerned."""

    path: Path
    age_s: float | None
    """Since it began; None where that is not known."""
    size_bytes: int
    kept: str | None
    """Why it must not be removed; None where it may."""


def look_at_run(path: Path, now: datetime) -> RunOnDisk:
    """Say whether a run may be removed: it has ended, and holds nothing but what a run leaves."""
    size = sum(entry.stat(follow_symlinks=False).st_size for entry in _entries(path))
    if path.is_symlink():
        return RunOnDisk(path, None, size, "it is a link to another place")
    try:
        run = load_run(path, with_samples=False).run
    except GridwrightError as error:
        return RunOnDisk(path, None, size, f"it cannot be read: {error.problems[0].what}")
    age_s = _age_s(run.started, now)
    if run.status == "running":
        return RunOnDisk(path, age_s, size, "it is in progress")
    foreign = sorted({_top(path, entry) for entry in _entries(path) if not _is_ours(path, entry)})
    kept = f"it holds what no run leaves: {', '.join(foreign)}" if foreign else None
    return RunOnDisk(path, age_s, size, kept)


def runs_below(runs: Path, now: datetime) -> list[RunOnDisk]:
    """The runs of who asks in a directory, the newest first; those of the future are last, and stay."""
    disks = [look_at_run(path, now) for path in reversed(own_runs(run_directories(runs)))]
    to_come = [disk for disk in disks if _is_to_come(disk, now)]
    return [
        *(disk for disk in disks if disk not in to_come),
        *(replace(each, kept=each.kept or _TO_COME) for each in to_come),
    ]


def _is_to_come(run: RunOnDisk, now: datetime) -> bool:
    return is_to_come(run.path, now) or (run.age_s is not None and run.age_s < -CLOCKS_DIFFER.total_seconds())


def remove_run(path: Path) -> None:
    """Remove a run that may be removed; one that somebody else removed meanwhile is no error.

    Raises GridwrightError (status ENVIRONMENT) where the file system refuses.
    """
    going = path.with_name(_REMOVED.format(path.name))
    try:
        remove_tree(going)
        path.rename(going)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _stays(error.filename or path, error.strerror) from error
    if not remove_tree(going):
        raise _stays(going, "something in it stays")


def _stays(path: str | Path, reason: str | None) -> GridwrightError:
    return environment_error(f"cannot be removed: {reason}", where=str(path), remedy="see who owns it")


def remove_leavings(runs: Path) -> None:
    """Remove what is left of runs whose removal was interrupted."""
    for path in own_runs(runs.glob(_REMOVED.format("*"))):
        # What somebody else has put there under such a name, such as a file, is none of them.
        with suppress(OSError):
            if (path / RUN_FILE).exists() or (path / LOGS).exists() or not any(path.iterdir()):
                remove_tree(path)


def _age_s(started: str, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(started).astimezone(UTC)).total_seconds()
    except ValueError:
        return None


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a run; what is mounted there counts, and is not entered."""
    try:
        with os.scandir(path) as entries:
            found = list(entries)
    except OSError:
        return
    for entry in found:
        yield entry
        if entry.is_dir(follow_symlinks=False) and not os.path.ismount(entry.path):
            yield from _entries(Path(entry.path))


def _is_ours(path: Path, entry: os.DirEntry[str]) -> bool:
    """Whether a run leaves such an entry: one of its files, or a log."""
    top = _top(path, entry)
    mode = entry.stat(follow_symlinks=False).st_mode
    if top == LOGS:
        return stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not os.path.ismount(entry.path))
    part = _PART.fullmatch(top)
    return stat.S_ISREG(mode) and (part["file"] if part else top) in _FILES


def _top(path: Path, entry: os.DirEntry[str]) -> str:
    return Path(entry.path).relative_to(path).parts[0]
