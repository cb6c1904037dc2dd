"""Runs one job: `batch_job.pyz STATE TAG`, as the batch system starts it on a node.

Two processes watch over a job. The first is the one that the batch system knows: it takes its signals, and
ends with the job's status. The second has a session of its own, and every process of the job stays below
it. Should the batch system kill the first alone, the second ends all others and removes what they leave.

The wrapper of a job makes its private directories, runs its command, and lets nothing of it stay.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gridwright.node_programs.batch_job.job_file import (
    DOOMED,
    WHOLE,
    JobFile,
    RunEnd,
    part_of_a_name,
    read_end,
    read_job_file,
    run_name,
)

REPEATED = 75
"""Exit status where the same run goes on elsewhere: EX_TEMPFAIL of sysexits.h."""
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run the job that the arguments name; the exit status for the batch system."""
    state, tag = arguments
    try:
        job = read_job_file(str(Path(state, "jobs", f"{tag}.json")))
    except (OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"gridwright: the file of job {tag} cannot be read: {error}\n")
        return 1
    position = os.environ.get(job.position_variable, "")
    index = job.index(int(position)) if job.elements is not None else WHOLE
    _print_to_log(job, index)
    name = _begin(job, index)
    if isinstance(name, int):
        return name
    if (doomed := _doomed(job, index)) is not None:
        identifier, unneeded = doomed
        end = RunEnd(doomed=identifier, unneeded=unneeded, node=os.uname().nodename, ended=time.time())
        write_end(job, name, end)
        return DOOMED
    return _watch(job, index, name)


def _print_to_log(job: JobFile, index: int) -> None:
    """Open its output and its input. Raises OSError."""
    log = f"{job.log}.log" if index == WHOLE else f"{job.log}_{index}.log"
    output = _output(_placed(job.output, job, index) or log)
    error = _output(_placed(job.error, job, index)) if job.error else output
    given = os.open(_placed(job.input, job, index) or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((given, 0), (output, 1), (error, 2)):
        os.dup2(source, target)


def _placed(path: str, job: JobFile, index: int) -> str:
    number = os.environ.get(job.number_variable, "")
    values = {"job": number if index == WHOLE else f"{number}_{index}", "index": str(index), "name": job.name}
    return re.sub(r"\{(job|index|name)\}", lambda found: part_of_a_name(values[found[1]]), path)


def _output(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _begin(job: JobFile, index: int) -> str | int:
    """Take the next run; the begin of its files' names, or the exit status where there is nothing to run."""
    for run in itertools.count():
        name = run_name(index, run)
        begun = Path(job.runs, f"{name}.begun")
        try:
            os.close(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            ended = read_end(Path(job.runs, f"{name}.ended"))
            if ended is not None:
                return _exit_status(ended)
            if not job.restart:
                return REPEATED
            continue
        # The head node sets up the fence first and looks for runs then: one of us sees the other.
        if Path(job.fence).exists():
            begun.unlink()
            return 0
        return name
    raise AssertionError("itertools.count ends never")


def _doomed(job: JobFile, index: int) -> tuple[str, bool] | None:
    """The first job that this one waited for in vain, and whether that should have failed; None: no one."""
    for each in job.after:
        elements = [index] if each.type == "each" and index in each.elements else each.elements
        if each.type != "any" and all(_completed(each.runs, one) for one in elements) == (
            each.type == "not-ok"
        ):
            name = f"{each.identifier}_{index}" if each.type == "each" else each.identifier
            return name, each.type == "not-ok"
    return None


def _completed(runs: str, index: int) -> bool:
    last = None
    for run in itertools.count():
        if not Path(runs, f"{run_name(index, run)}.begun").exists():
            break
        last = read_end(Path(runs, f"{run_name(index, run)}.ended"))
    return last is not None and last.completed


def _watch(job: JobFile, index: int, name: str) -> int:
    """Start the keeper, hand signals on to it, and wait for it."""
    _adopt_orphans()
    orders, hand_on = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        status = 1
        try:
            os.close(hand_on)
            end = _run_job(job, index, name, orders)
            write_end(job, name, end)
            status = 0
        finally:
            os._exit(status)
    os.close(orders)
    for each in _FORWARDED:
        signal.signal(each, lambda number, _: _forward(hand_on, number))
    os.waitpid(keeper, 0)
    _end_all()
    ended = read_end(Path(job.runs, f"{name}.ended"))
    return _exit_status(ended) if ended is not None else 128 + signal.SIGKILL


def _forward(pipe: int, number: int) -> None:
    try:
        os.write(pipe, bytes([number]))
    except OSError:
        # The keeper has ended.
        return


def _exit_status(end: RunEnd) -> int:
    if end.status is not None:
        return end.status
    return 128 + (end.signal or 0) if end.signal else 0


def write_end(job: JobFile, name: str, end: RunEnd) -> None:
    """Write down how a run ended, whole or not at all."""
    path = Path(job.runs, f"{name}.ended")
    part = Path(f"{path}.part")
    with part.open("w", encoding="ascii") as file:
        file.write(end.text())
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


_LOOK_S = 0.25
"""How often memory is looked at."""
_NO_PROGRAM, _NOT_STARTED = 127, 126
"""Exit statuses of a shell: there is no such program, and it cannot be started."""


def _run_job(job: JobFile, index: int, name: str, orders: int) -> RunEnd:
    """Run a job to its end. `orders` is a pipe of signals for it; when it is closed, the job is killed.

    Does not return where it was closed: how the job ended is the batch system's to say.
    """
    os.setsid()
    _adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    run = name.rpartition(".")[2]
    tag = job.private if index == WHOLE else f"{job.private}_{index}"
    places: dict[str, str] = {}
    made: dict[str, int] = {}
    started = time.time()
    try:
        for variable, library in (("GRIDWRIGHT_WORK", job.work), ("GRIDWRIGHT_UTIL", job.util)):
            if library:
                place = _make_private(os.path.join(library, f"{tag}.{run}"))  # noqa: PTH118
                places[variable] = place
                made[place] = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}")
        for each in places.values():
            os.rmdir(each)  # noqa: PTH106
        return _end(started, status=1)
    # Until it has become the command, the child has memory of this process: the pipe is closed by execve.
    begun, mark = os.pipe()
    child = os.fork()
    if child == 0:
        _run_command(job, index, places)
    os.close(mark)
    end = _wait(job, child, orders, woken, begun)
    _end_all()
    os.chdir("/")
    if not job.keep:
        for each, descriptor in made.items():
            _remove(each, descriptor)
    if end is None:
        os._exit(1)
    status, signal_number, over = end
    return _end(started, status=status, signal_number=signal_number, over=over)


def _end(
    started: float, *, status: int | None = None, signal_number: int | None = None, over: int | None = None
) -> RunEnd:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return RunEnd(
        status=status,
        signal=signal_number,
        over_bytes=over,
        node=os.uname().nodename,
        started=started,
        ended=time.time(),
        user_s=used.ru_utime,
        system_s=used.ru_stime,
        most_bytes=used.ru_maxrss * 1024,
    )


def _wait(
    job: JobFile, child: int, orders: int, woken: int, begun: int
) -> tuple[int | None, int | None, int | None] | None:
    """Exit status, signal, and memory where it was ended for that; None where the batch system killed it."""
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    poll.register(woken, select.POLLIN)
    poll.register(begun, select.POLLIN)
    over, looks = None, False
    while True:
        ready = dict(poll.poll(int(_LOOK_S * 1000) if job.limit_bytes else None))
        if begun in ready:
            poll.unregister(begun)
            looks = job.limit_bytes is not None
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _ended():
                if pid == child and os.WIFSIGNALED(status):
                    return None, os.WTERMSIG(status), over
                if pid == child:
                    return os.WEXITSTATUS(status), None, None
        if orders in ready:
            numbers = os.read(orders, 64)
            if not numbers:
                return None
            for number in numbers:
                _signal_group(child, number)
        if looks and over is None and (used := memory_bytes(os.getpid())) > (job.limit_bytes or 0):
            over = used
            _say(f"the job used {used} bytes of memory, more than its {job.limit_bytes}, and is ended")
            _signal_group(child, signal.SIGKILL)


def _ended() -> Iterator[tuple[int, int]]:
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            yield pid, status
    except ChildProcessError:
        return


def _signal_group(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except OSError:
        # It has just ended, or not made its group yet.
        try:
            os.kill(child, number)
        except OSError:
            return


def _run_command(job: JobFile, index: int, places: dict[str, str]) -> None:
    """In the child: become the command, with its environment and in its directory."""
    status = _NOT_STARTED
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        try:
            os.chdir(job.directory)
        except OSError as error:
            _say(f"{job.directory}: {error.strerror}")
            os._exit(1)
        environment = _environment(job, index, places)
        try:
            os.execvpe(  # noqa: S606
                os.fsencode(job.command[0]), [os.fsencode(each) for each in job.command], environment
            )
        except OSError as error:
            status = _NO_PROGRAM if isinstance(error, FileNotFoundError) else _NOT_STARTED
            _say(f"{job.command[0]}: {error.strerror}")
    finally:
        os._exit(status)


def _environment(job: JobFile, index: int, places: dict[str, str]) -> dict[bytes, bytes]:
    """All of its environment: what was asked for, what the batch system gives, and what the job has."""
    found = {name: value for name, value in os.environ.items() if name.startswith(tuple(job.kept_prefixes))}
    found.update(job.environment)
    found.update(places)
    number = os.environ.get(job.number_variable, "")
    found["GRIDWRIGHT_JOB_ID"] = number if index == WHOLE else f"{number}_{index}"
    if index != WHOLE:
        found["GRIDWRIGHT_ARRAY_INDEX"] = str(index)
    return {os.fsencode(name): os.fsencode(value) for name, value in found.items()}


def _make_private(path: str) -> str:
    """Make a directory that is new, and so nobody else's; its path. Raises OSError.

    Who can list jobs knows its name. Where somebody has taken that, nobody knows the next.
    """
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        path = f"{path}.{os.urandom(8).hex()}"
        os.mkdir(path, 0o700)  # noqa: PTH102
    return path


def _remove(directory: str, descriptor: int) -> None:
    """Remove a directory that is open: another user may have given its name to another one of this user."""
    try:
        os.rmdir(directory)  # noqa: PTH106
    except OSError:
        from gridwright.beneath import empty_directory  # It takes its time, and many jobs leave nothing.

        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o700)  # The job may have closed it.
        empty_directory(descriptor)
        with contextlib.suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106


def _say(text: str) -> None:
    os.write(2, os.fsencode(f"gridwright: {text}\n"))


_PR_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h; see prctl(2)."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATIENCE_S = 60.0
"""What hangs in the kernel, on a dead mount, cannot be killed."""


def _adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends: none leaves by setsid or a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants(pid: int) -> Iterator[int]:
    """Yield the processes below `pid`, parents first (proc_pid_task(5), `children`)."""
    pending = [pid]
    while pending:
        parent = pending.pop()
        try:
            tasks = os.listdir(f"/proc/{parent}/task")  # noqa: PTH208 - several times a second
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{parent}/task/{task}/children", "rb") as file:  # noqa: PTH123
                    found = [int(word) for word in file.read().split()]
            except OSError:
                continue
            yield from found
            pending += found


def memory_bytes(pid: int) -> int:
    """Memory of all processes below `pid`: resident, less what is mapped from files (proc_pid_statm(5))."""
    total = 0
    for descendant in _descendants(pid):
        try:
            with open(f"/proc/{descendant}/statm", "rb") as file:  # noqa: PTH123
                fields = file.read().split()
        except OSError:
            continue
        if len(fields) > 2:
            total += (int(fields[1]) - int(fields[2])) * _PAGE
    return total


def _end_all() -> bool:
    """Kill every process below this one, and wait for all; whether none is left."""
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        for descendant in _descendants(os.getpid()):
            try:
                os.kill(descendant, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False
