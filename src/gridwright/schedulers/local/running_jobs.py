"""The jobs that run: the runner has each started under a guard, learns of its end, and takes over others.

Guards outlive their runner, so jobs go on and their ends are recorded. Only where a guard was killed, or
the machine stopped, a job was interrupted: what is left of it is ended before it gets its next state, so
that no job ever runs twice at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from gridwright.beneath import remove_tree
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_request import filled
from gridwright.schedulers.local.job_table import JobRow, job_environment, private_directories, read_rows
from gridwright.schedulers.local.launcher import (
    AnswerKind,
    GuardAnswer,
    GuardLauncher,
    LaunchOrder,
    group_name,
    is_launcher,
    take_launch_lock,
)
from gridwright.schedulers.local.outcome import (
    GUARD_KILLED,
    MACHINE_STOPPED,
    ExitRecord,
    ExitRecords,
    JobOutcome,
    JobPhase,
    RunningJob,
    boot_identity,
    outcome_of,
    tell_guard,
)
from gridwright.schedulers.local.processes import (
    GroupPlaces,
    Process,
    all_pids,
    end_group,
    identify,
    job_of,
    make_places,
    send_signal,
    with_descendants,
)
from gridwright.schedulers.local.store import NO_INDEX, JobKey, Store
from gridwright.schedulers.process_tree import children, die_with_parent

_TRIES = 5


class DirectoryRemoval:
    """Processes that remove the directories of jobs; each is a child of this one."""

    def __init__(self) -> None:
        self._removers: dict[int, RunningJob] = {}

    def is_done(self, live: RunningJob) -> bool:
        """Whether the directories of a job are removed, or cannot be; a process is at it otherwise."""
        if live.remover is not None:
            return False
        if live.is_removed or not live.directories:
            return True
        full = []
        for directory in live.directories:
            try:
                os.rmdir(directory)  # noqa: PTH106 - bytes
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    full.append(directory)
        if not full:
            live.directories = [each for each in live.directories if os.path.lexists(each)]
            return True
        live.remover = _fork_remover(full)
        self._removers[live.remover] = live
        return False

    def pids(self) -> set[int]:
        """The processes that are at it."""
        return set(self._removers)

    def take_end(self, pid: int, status: int) -> RunningJob | None:
        """The job that an ended child has removed directories of, if it is one that did."""
        live = self._removers.pop(pid, None)
        if live is not None:
            live.remover = None
            live.directories = [directory for directory in live.directories if os.path.lexists(directory)]
            # One that was killed may be tried again.
            live.removals += 1
            live.is_removed = not os.WIFSIGNALED(status) or live.removals >= _TRIES
        return live


def _fork_remover(directories: Sequence[bytes]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for directory in directories:
            remove_tree(directory)
    finally:
        os._exit(0)


_OPENS = """
import os, sys
names, command = sys.argv[1:4], sys.argv[4:]
try:
    if names[0]:
        os.dup2(os.open(names[0], os.O_RDONLY), 0)
    for number in (1, 2):
        if names[number]:
            os.dup2(os.open(names[number], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
    if names[1] and not names[2]:
        os.dup2(1, 2)
    os.execvp(command[0], command)
except OSError as error:
    what = error.filename or command[0]
    print(f"gridwright: cannot be started: {what}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""
"""No shell: one would drop variables whose names it cannot hold. It becomes the command itself."""


def stream_files(row: JobRow, key: JobKey) -> list[str]:
    """The files of standard input, output and error; an empty text where there is none of its own."""
    values = {
        "job": str(key),
        "index": "" if key.element == NO_INDEX else str(key.element),
        "name": os.fsdecode(row.name),
    }
    paths = (row.options.stdin, row.options.stdout, row.options.stderr)
    return [filled(path, values) if path else "" for path in paths]


def job_command(row: JobRow, key: JobKey) -> Sequence[bytes]:
    """Program and arguments to start."""
    files = stream_files(row, key)
    if not any(files):
        return row.command
    opens = [sys.executable, "-I", "-S", "-c", _OPENS, *files]
    return [*map(os.fsencode, opens), *row.command]


class RunningJobs:
    """All jobs that run under guards, whoever has started them."""

    def __init__(self, store: Store, poll: select.poll) -> None:
        """`poll` learns of files that tell of ends. Raises OSError."""
        self._store = store
        self._poll = poll
        self.records = ExitRecords(store.state)
        self._places = GroupPlaces()
        self._launcher: GuardLauncher | None = None
        self._jobs: dict[int, RunningJob] = {}
        """Those with guards, by the slot of guard and record."""
        self._pending_orders: set[int] = set()
        """Slots of those that are cancelled, and whose guards have not been told."""
        self._ended: dict[int, RunningJob] = {}
        """Those whose directories are being removed, by their slot."""
        self._removal = DirectoryRemoval()
        self._reported: list[tuple[RunningJob, str]] = []
        self._free: list[int] = []
        """Slots below the highest that is taken; the last ones have guards that wait."""
        self._slots = 1

    @property
    def live(self) -> Iterator[RunningJob]:
        """All that take room: those that run, and those whose directories are being removed."""
        yield from self._jobs.values()
        yield from self._ended.values()

    def __len__(self) -> int:
        return len(self._jobs) + len(self._ended)

    def take_over(self) -> None:
        """Settle what a runner before has left, and go on with what still runs.

        Raises OSError, or sqlite3.Error: nothing has changed then but what is removed.
        """
        self._places = make_places(f"gridwright-{self._store.identity}")
        lock = take_launch_lock(self._store.state, self.records.file)
        try:
            survivors = _recover(self._store, self.records, self._places)
        except BaseException:
            os.close(lock)
            raise
        taken = {live.slot for live in survivors}
        self._slots = max(taken, default=0) + 1
        self._free = [slot for slot in range(1, self._slots) if slot not in taken]
        self._jobs = {live.slot: live for live in survivors}
        for slot, live in self._jobs.items():
            self._poll_guard(live)
            if live.cancel is not None:
                self._pending_orders.add(slot)
        self._launch(lock)

    def _poll_guard(self, live: RunningJob) -> None:
        if live.guard is not None:
            self._poll.register(live.guard, select.POLLIN)

    def _launch(self, lock: int) -> None:
        self._launcher = GuardLauncher(self._store.state, lock, self.records.file, self._places)
        self._poll.register(self._launcher.answers, select.POLLIN)

    def start(self, row: JobRow, key: JobKey, attempt: int) -> None:
        """Have a job started. Raises OSError where there is no room for its record."""
        slot = self._free.pop() if self._free else self._slots
        try:
            self.records.reserve(slot)
        except OSError:
            if slot != self._slots:
                self._free.append(slot)
            raise
        self._slots = max(self._slots, slot + 1)
        directories = private_directories(self._store, row, key, attempt)
        removed = [] if row.is_kept else directories
        self._jobs[slot] = RunningJob(row, key, attempt, slot=slot, directories=removed)
        order = LaunchOrder(
            key=key,
            attempt=attempt,
            time_limit_s=row.time_limit_s,
            memory_bytes=row.memory_bytes,
            log=self._store.log_of(key),
            directory=row.directory,
            command=job_command(row, key),
            environment=job_environment(self._store, row, key, attempt),
            private=directories,
        )
        if self._launcher is not None:
            # Where it is gone, or the guard, that is learned of soon, and what became of this order.
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                self._launcher.order(slot, order)

    def cancel(self, key: JobKey, why: str) -> None:
        """Have a job end, if it runs."""
        for slot, live in self._jobs.items():
            if live.key == key and live.cancel is None:
                live.cancel = why
                self._pending_orders.add(slot)

    def has_pending_orders(self) -> bool:
        """Whether an order to a guard waits to be sent."""
        return bool(self._pending_orders)

    def poll(self) -> list[tuple[RunningJob, str]]:
        """Jobs of which something is to be recorded, with why they were not started where that is so."""
        self._reap()
        self._tell_guards()
        if self._launcher is not None:
            for answer in self._launcher.take_answers():
                self._heed(answer)
        self._look_at_survivors()
        for slot, live in list(self._ended.items()):
            if self._removal.is_done(live):
                del self._ended[slot]
                self._reported.append((live, ""))
        reported, self._reported = self._reported, []
        return reported

    def _tell_guards(self) -> None:
        """Have jobs end that are cancelled; one that has no record yet is about to have one."""
        for slot in list(self._pending_orders):
            live = self._jobs.get(slot)
            record = None if live is None else self.records.read(slot)
            if live is None or live.cancel is None or live.is_of(record):
                self._pending_orders.discard(slot)
                if record is not None and live is not None and live.cancel is not None:
                    tell_guard(record, signal.SIGTERM)

    def _heed(self, answer: GuardAnswer) -> None:
        if self._launcher is not None and answer.kind in (AnswerKind.LOST, AnswerKind.NOT_FORKED):
            self._launcher.forget_guard(answer.slot)
        if answer.slot not in self._jobs:
            # A guard that waited was killed.
            return
        if answer.kind in (AnswerKind.NOT_FORKED, AnswerKind.UNRECORDED):
            self._refuse(answer.slot, os.strerror(answer.number))
        else:
            self._end(answer.slot)

    def _refuse(self, slot: int, why: str) -> None:
        self._reported.append((self._jobs.pop(slot), why))

    def _end(self, slot: int) -> None:
        """A guard is done with a job, or has ended: tell from its record what became of the job."""
        live = self._jobs[slot]
        record = self.records.read(slot)
        if record is None or not live.is_of(record):
            self._refuse(slot, "its guard was killed before it started")
            return
        if record.phase is JobPhase.REFUSED:
            self._refuse(slot, record.text)
            return
        if record.phase is not JobPhase.OVER:
            hanging = _end_lost(self._store, [live], self._places, self._known())
            live.outcome = lost_outcome(live, record, hangs=bool(hanging))
        else:
            live.outcome = outcome_of(record, live.row, live.cancel)
        del self._jobs[slot]
        self._ended[slot] = live

    def _look_at_survivors(self) -> None:
        """Find the ends of guards whose launcher is gone."""
        for slot, live in list(self._jobs.items()):
            if live.guard is not None and live.guard_has_ended():
                self._poll.unregister(live.guard)
                live.forget_guard()
                self._end(slot)

    def _reap(self) -> None:
        """Take the status of all children that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._launcher is not None and pid == self._launcher.pid:
                self._replace_launcher(self._launcher, status)
            else:
                self._removal.take_end(pid, status)

    def _replace_launcher(self, launcher: GuardLauncher, status: int) -> None:
        """The launcher was killed: its guards go on, and another one makes those to come."""
        if os.WIFEXITED(status):
            raise RuntimeError(f"the launcher of jobs ended with status {os.WEXITSTATUS(status)}")
        for answer in launcher.take_answers():
            self._heed(answer)
        # Guards that wait end by that.
        self._close_launcher()
        lock = take_launch_lock(self._store.state, self.records.file)
        for slot, live in list(self._jobs.items()):
            if live.guard is not None:
                continue
            record = self.records.read(slot)
            if record is not None and live.is_of(record) and live.watch_guard(record.guard):
                self._poll_guard(live)
            else:
                # It may have written its record, and ended, in this very moment.
                self._end(slot)
        self._launch(lock)

    def _known(self) -> set[int]:
        """Children of this process that belong to no job that is lost."""
        launcher = {self._launcher.pid} if self._launcher is not None else set()
        guards = {record.guard.pid for slot in self._jobs if (record := self.records.read(slot))}
        return launcher | guards | self._removal.pids()

    def release(self, jobs: Iterable[RunningJob]) -> None:
        """Use the records of jobs for others: the store knows how they ended."""
        for slot in (live.slot for live in jobs if live.slot):
            if self._launcher is not None and self._launcher.has_guard(slot):
                self._free.append(slot)
            else:
                self._free.insert(0, slot)

    def kill_all(self) -> None:
        """Kill all jobs at once: the state directory is gone, and nobody will ask for them."""
        for slot, live in self._jobs.items():
            record = self.records.read(slot)
            if record is not None and live.is_of(record):
                tell_guard(record, signal.SIGUSR1)

    def close(self) -> None:
        """Let go of the launcher, which removes control groups when its guards have ended."""
        self._close_launcher()

    def _close_launcher(self) -> None:
        if self._launcher is not None:
            self._poll.unregister(self._launcher.answers)
            self._launcher.close()
            self._launcher = None


_GONE_S = 10.0
"""A process that outlives SIGKILL by this much hangs in the kernel: its job is not started again."""
_PAUSE_S = 0.02
"""Seconds between two searches: a process shows no environment while it becomes another program."""

_OVER = """
UPDATE tasks SET exit_status=?, signal=?, reason=?, started=COALESCE(?, started), ended=?, state=?,
    user_s=?, system_s=?, peak_bytes=?
WHERE job=? AND idx=? AND state='running'
"""
_AGAIN = """
UPDATE tasks SET state='waiting', attempt=?, started=NULL, reason=NULL
WHERE job=? AND idx=? AND state='running'
"""
_CANCELLED = """
UPDATE tasks SET state='cancelled', reason=cancel, ended=?
WHERE job=? AND idx=? AND state='waiting' AND cancel IS NOT NULL
"""


def record_end(store: Store, live: RunningJob) -> int | None:
    """Record what became of an attempt, within a transaction; the number of the next one if it waits again.

    It does where it was not started, and where it was interrupted and is to be restarted.
    """
    outcome = live.outcome
    if outcome is None:
        return _record_wait(store, live, live.attempt)
    if outcome.is_interrupted and live.row.is_restarted and live.cancel is None:
        return _record_wait(store, live, live.attempt + 1)
    ended = time.time() if outcome.ended is None else outcome.ended
    times = (outcome.user_s, outcome.system_s, outcome.peak_bytes)
    status = (outcome.exit_status, outcome.signal, live.reason, outcome.started)
    store.change(_OVER, (*status, ended, outcome.state.value, *times, *live.key))
    return None


def _record_wait(store: Store, live: RunningJob, attempt: int) -> int | None:
    """Have a job wait for its next attempt, unless a command has cancelled it meanwhile."""
    store.change(_AGAIN, (attempt, *live.key))
    return None if store.change(_CANCELLED, (time.time(), *live.key)) else attempt


def _recover(store: Store, records: ExitRecords, places: GroupPlaces) -> list[RunningJob]:
    """Give jobs that were running their next state, where nobody guards them any more; the others.

    No job may be about to start (`take_launch_lock`). Raises sqlite3.Error: nothing is recorded then.
    """
    found = {(record.key, record.attempt): (slot, record) for slot, record in records.read_all().items()}
    boot = boot_identity()
    same_boot = store.setting("boot") == boot.hex()
    survivors: list[RunningJob] = []
    settled: list[tuple[RunningJob, ExitRecord | None]] = []
    for live in _running(store):
        live.slot, record = found.get((live.key, live.attempt), (0, None))
        if record is not None and record.boot == boot and live.watch_guard(record.guard):
            live.began = record.began
            survivors.append(live)
        else:
            settled.append((live, record))
    lost = [
        live
        for live, record in settled
        if record is None or record.phase in (JobPhase.RUNNING, JobPhase.ENDED)
    ]
    hanging = _end_lost(store, lost, places, ()) if lost else set()
    for live, _ in settled:
        if live.key not in hanging:
            live.directories = [directory for directory in live.directories if not remove_tree(directory)]
    with store.transaction(durable=True):
        for live, record in settled:
            started = not same_boot and (live.attempt > 0 or os.path.exists(store.log_of(live.key)))  # noqa: PTH110
            live.outcome = _settled(live, record, started=started, hangs=live.key in hanging)
            record_end(store, live)
        store.put_setting("boot", boot.hex())
    return survivors


def _running(store: Store) -> list[RunningJob]:
    """The jobs that the store says to be running."""
    found = []
    for row in read_rows(store, "running"):
        for index, attempt, cancel in store.all(
            "SELECT idx, attempt, cancel FROM tasks WHERE job=? AND state='running'", (row.id,)
        ):
            key = JobKey(row.id, index)
            directories = [] if row.is_kept else private_directories(store, row, key, attempt)
            found.append(RunningJob(row, key, attempt, slot=0, directories=directories, cancel=cancel))
    return found


def _end_lost(
    store: Store, lost: Collection[RunningJob], places: GroupPlaces, known: Collection[int]
) -> set[JobKey]:
    """Kill all processes of jobs whose guards were killed; of which jobs some do not end.

    They are found by their control groups, by their descent from this process or its parent, who have adopted
    what is left (`known` are children of these that are to stay), and by token and log.
    """
    deadline = time.monotonic() + _GONE_S
    keys = {live.key for live in lost}
    clean = 0
    while True:
        groups = [end_group(places, group_name(live.slot)) for live in lost if live.slot]
        found = _find(store, keys)
        strays = _strays(store, known)
        clean = 0 if found or strays or not all(groups) else clean + 1
        # Twice: a process may have escaped a search by starting another one.
        if clean == 2:
            return set()
        if time.monotonic() > deadline:
            return set(found.values())
        send_signal([*found, *strays], signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _find(store: Store, keys: Collection[JobKey]) -> dict[Process, JobKey]:
    """Processes of some jobs, by what they show, with all that descend from them."""
    owners = {pid: key for pid in all_pids() if (key := job_of(store, pid)) is not None and key in keys}
    return {
        process: key
        for pid, key in owners.items()
        for process in identify(with_descendants([pid]))
        if process.pid != os.getpid()
    }


def _strays(store: Store, known: Collection[int]) -> list[Process]:
    """What has come to this process, or to its supervisor, when its own parents ended."""
    here, above = os.getpid(), os.getppid()
    adopted: Iterable[int] = children(here)
    if _is_supervisor(above):
        adopted = [*adopted, *children(above)]
    tops = [pid for pid in adopted if pid not in known and pid != here and not is_launcher(pid, store.state)]
    return identify(with_descendants(tops))


def _is_supervisor(pid: int) -> bool:
    """Whether a process is the supervisor of this one, whose command line is the same."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as its, open("/proc/self/cmdline", "rb") as mine:  # noqa: PTH123
            return its.read() == mine.read()
    except OSError:
        return False


def _settled(live: RunningJob, record: ExitRecord | None, *, started: bool, hangs: bool) -> JobOutcome | None:
    """What became of a job that nobody guards; None: it was not started.

    `started` is whether one without a record was: the machine may have stopped before that was on the disk.
    """
    if record is None:
        if hangs or started:
            return _interrupted(MACHINE_STOPPED, live, hangs=hangs)
        return None
    if record.phase is JobPhase.REFUSED:
        return None
    if record.phase is JobPhase.OVER:
        return outcome_of(record, live.row, live.cancel)
    return lost_outcome(live, record, hangs=hangs)


def lost_outcome(live: RunningJob, record: ExitRecord, *, hangs: bool) -> JobOutcome:
    """What became of a job whose guard ended before it was done."""
    if record.wait_status is not None:
        return outcome_of(record, live.row, live.cancel)
    why = GUARD_KILLED if record.boot == boot_identity() else MACHINE_STOPPED
    return _interrupted(why, live, hangs=hangs)


def _interrupted(why: str, live: RunningJob, *, hangs: bool) -> JobOutcome:
    if hangs:
        why = f"{why}, and its processes cannot be ended"
    if live.cancel is not None:
        return JobOutcome(JobState.CANCELLED, reason=live.cancel)
    return JobOutcome(JobState.NODE_FAILED, reason=why, is_final=hangs)
