"""The daemon of the double: takes jobs, starts them, ends them, and answers commands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.lsf_double.jobs import Element, Jobs, Refused, check_condition, holds, parse_index_list

_BJOBS: Mapping[str, Callable[[Element], str]] = {
    "jobid": lambda job: str(job.number),
    "jobindex": lambda job: str(job.index),
    "stat": lambda job: job.stat,
    "queue": lambda job: job.queue,
    "job_name": lambda job: f"{job.name}[{job.index}]" if job.index else job.name,
    "job_description": lambda job: job.description,
    "exec_host": lambda job: ":".join([job.host] * job.slots) if job.host else "",
    "exit_code": lambda job: str(job.code) if job.code else "",
    "exit_reason": lambda job: job.reason,
    "start_time": lambda job: _minute(job.started),
    "finish_time": lambda job: f"{_minute(job.finished)} L" if job.finished else "",
    "submit_time": lambda job: _minute(job.submitted),
    "max_mem": lambda _: "2 Mbytes",
    "pend_reason": lambda job: job.pending if job.stat == "PEND" else "",
    "proj_name": lambda job: job.project,
    "slots": lambda job: str(job.slots),
    "command": lambda job: job.command,
}
CLEANED_S = 3600.0
"""CLEAN_PERIOD of lsb.params."""


def _minute(moment: float) -> str:
    return time.strftime("%b %e %H:%M", time.localtime(moment)) if moment else ""


def as_json(command: str, counted: str, records: Sequence[Mapping[str, str]]) -> str:
    """As LSF writes it, with a stroke before each slash."""
    text = json.dumps({"COMMAND": command, counted: len(records), "RECORDS": list(records)}, indent=2)
    return text.replace("/", "\\/") + "\n"


def fields_of(arguments: list[str], known: Sequence[str]) -> list[str]:
    """Take -o FIELDS -json out of arguments. Raises Refused."""
    if "-json" not in arguments or "-o" not in arguments:
        raise Refused("the double prints only with -o and -json")
    arguments.remove("-json")
    at = arguments.index("-o")
    names = arguments[at + 1].split()
    del arguments[at : at + 2]
    for each in names:
        if each.partition(":")[0] not in known:
            raise Refused(f"{each}: Illegal field name.")
    return names


def bjobs(arguments: list[str], jobs: Jobs) -> tuple[int, str, str]:
    names = fields_of(arguments, list(_BJOBS))
    every = "-a" in arguments
    rest = [each for each in arguments if each != "-a"]
    if illegal := [each for each in rest if each.startswith("-")]:
        raise Refused(f"{illegal[0]}: Illegal option.")
    now = time.time()
    chosen = [
        job for each in jobs.values() for job in each if not job.ended or now - job.finished < CLEANED_S
    ]
    chosen = [job for job in chosen if every or rest or not job.ended]
    missing = [each for each in rest if not any(job.number == int(each) for job in chosen)]
    if rest:
        chosen = [job for job in chosen if str(job.number) in rest]
    found: list[Mapping[str, str]] = [{name.upper(): _BJOBS[name](job) for name in names} for job in chosen]
    found += [{"JOBID": each, "ERROR": f"Job <{each}> is not found"} for each in missing]
    if not found:
        return 0, "", f"No {'job' if every else 'unfinished job'} found\n"
    return 255 if missing else 0, as_json("bjobs", "JOBS", found), ""


def bhist(arguments: list[str], jobs: Jobs) -> tuple[int, str, str]:
    """History of jobs, each by its events; only in the form -a -l -UF -n 0 NUMBER..."""
    if arguments[:5] != ["-a", "-l", "-UF", "-n", "0"] or any(not each.isdigit() for each in arguments[5:]):
        raise Refused("the double prints history only with -a -l -UF -n 0 and numbers")
    blocks = [_history(job) for each in arguments[5:] for job in jobs.get(int(each), [])]
    if not blocks:
        return 255, "", "No matching job found\n"
    return 0, "\n".join(blocks) + "\n", ""


def _history(job: Element) -> str:
    lines = [
        f"Job <{job.id}>, Job Name <{job.name}>, Job Description <{job.description}>, User <{job.user}>, "
        f"Project <{job.project}>, Command <{job.command}>",
        f"{_moment(job.submitted)}: Submitted from host <head>, to Queue <{job.queue}>, CWD </>;",
    ]
    if job.started:
        lines.append(f"{_moment(job.started)}: Dispatched {job.slots} Task(s) on Host(s) <{job.host}>;")
        lines.append(f"{_moment(job.started)}: Starting (Pid {job.pid});")
    if job.stat == "DONE":
        lines.append(f"{_moment(job.finished)}: Done successfully. The CPU time used is 0.1 seconds;")
    elif job.stat == "EXIT":
        code = f"Exited with exit code {job.code}" if job.code else "Exited"
        lines.append(f"{_moment(job.finished)}: {code}. The CPU time used is 0.1 seconds;")
        lines.append(f"{_moment(job.finished)}: Completed <exit>; {job.reason};")
    return "\n".join(lines)


def bacct(arguments: list[str], jobs: Jobs) -> tuple[int, str, str]:
    """Jobs that have ended; only in the form -u all -l -UF -C time0,time1 (bacct of LSF 10.1)."""
    times = re.fullmatch(r"(\d{4}/\d\d/\d\d/\d\d:\d\d),(\d{4}/\d\d/\d\d/\d\d:\d\d)", arguments[-1])
    if arguments[:-1] != ["-u", "all", "-l", "-UF", "-C"] or times is None:
        raise Refused("the double tells its accounting only with -u all -l -UF -C time0,time1")
    begin, end = (time.mktime(time.strptime(each, "%Y/%m/%d/%H:%M")) for each in times.groups())
    ended = [job for each in jobs.values() for job in each if job.ended and begin <= job.finished <= end + 60]
    rule = "-" * 78
    blocks = "".join(f"\n{_accounted(job)}\n{rule}\n" for job in ended)
    return (
        0,
        f"Accounting information about jobs that are: \n  - submitted by all users.\n{rule}\n{blocks}",
        "",
    )


def _accounted(job: Element) -> str:
    reason = f"; {job.reason}" if job.reason else ""
    lines = [
        f"Job <{job.id}>, Job Name <{job.name}>, Job Description <{job.description}>, User <{job.user}>, "
        f"Project <{job.project}>, Status <{job.stat}>, Queue <{job.queue}>, Command <{job.command}>",
        f"{_moment(job.submitted)}: Submitted from host <head>, CWD </>;",
    ]
    if job.started:
        lines.append(f"{_moment(job.started)}: Dispatched {job.slots} Task(s) on Host(s) <{job.host}>;")
    word = "done" if job.stat == "DONE" else "exit"
    lines.append(f"{_moment(job.finished)}: Completed <{word}>{reason}.")
    wait = (job.started or job.finished) - job.submitted
    return "\n".join(
        [
            *lines,
            "\nAccounting information about this job:",
            "     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP",
            f"      0.10 {wait:8.0f} {job.finished - job.submitted:14.0f} {word:>8}    0.0025   2M   0M",
        ]
    )


def _moment(seconds: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(seconds))


def bhosts(arguments: list[str], hosts: Mapping[str, tuple[str, int, int]]) -> tuple[int, str, str]:
    """`hosts`: status, slots and used slots by name."""
    names = fields_of(arguments, ["host_name", "status", "max", "njobs", "run"])
    if arguments:
        raise Refused(f"{arguments[0]}: Bad host name, host group name or cluster name.")
    records = []
    for name, (status, slots, used) in hosts.items():
        values = {
            "host_name": name,
            "status": status,
            "max": str(slots),
            "njobs": str(used),
            "run": str(used),
        }
        records.append({each.upper(): values[each] for each in names})
    return 0, as_json("bhosts", "HOSTS", records), ""


def bqueues(arguments: list[str], queues: Mapping[str, Sequence[str]]) -> tuple[int, str, str]:
    if arguments == ["-l"]:
        blocks = [
            f"\nQUEUE: {name}\n  -- for tests\n\nPARAMETERS/STATISTICS\nPRIO NICE\n 30 0\n\n"
            f"DEFAULT LIMITS:\n RUNLIMIT\n 10.0 min\n\nMAXIMUM LIMITS:\n RUNLIMIT\n 600.0 min\n\n"
            f"SCHEDULING POLICIES:  EXCLUSIVE\nUSERS: all\nHOSTS:  {' '.join(hosts)}\nRERUNNABLE :  no\n"
            for name, hosts in queues.items()
        ]
        return 0, "\n".join(blocks), ""
    names = fields_of(arguments, ["queue_name", "status", "description", "priority", "max", "njobs"])
    for each in arguments:
        if each not in queues:
            return 255, "", f"{each}: No such queue\n"
    records = [
        {one.upper(): {"queue_name": name, "status": "Open:Active"}.get(one, "-") for one in names}
        for name in queues
    ]
    return 0, as_json("bqueues", "QUEUES", records), ""


def lshosts(arguments: list[str], hosts: Mapping[str, int]) -> tuple[int, str, str]:
    if arguments != ["-w"]:
        raise Refused("the double prints only with -w")
    lines = ["HOST_NAME                       type       model  cpuf ncpus maxmem maxswp server RESOURCES"]
    lines += [
        f"{name}  X86_64  Intel_E5  15.0  16 {size // 2**20}M  -  Yes (mg)" for name, size in hosts.items()
    ]
    return 0, "\n".join(lines) + "\n", ""


def lsload(arguments: list[str], hosts: Mapping[str, int]) -> tuple[int, str, str]:
    if arguments != ["-w"]:
        raise Refused("the double prints only with -w")
    lines = ["HOST_NAME               status  r15s   r1m  r15m   ut    pg    ls    it   tmp   swp   mem"]
    lines += [
        f"{name}  ok  0.1 0.1 0.1  1%  0.0  1  0  10G  0M {size // 2**20}M" for name, size in hosts.items()
    ]
    return 0, "\n".join(lines) + "\n", ""


def chosen(arguments: Sequence[str], jobs: Jobs) -> list[tuple[str, list[Element]]]:
    """The jobs that bkill names: NUMBER or NUMBER[LIST]. Raises Refused."""
    found = []
    for word in arguments:
        parts = re.fullmatch(r"(\d+)(?:\[([\d,:-]+)\])?", word)
        if parts is None:
            raise Refused(f"{word}: Illegal job ID.")
        elements = jobs.get(int(parts[1]), [])
        if parts[2]:
            indices = set(parse_index_list(parts[2], 10**6))
            elements = [each for each in elements if each.index in indices]
        found.append((word, elements))
    return found


_VALUES = frozenset(
    ("-J", "-Jd", "-o", "-oo", "-e", "-eo", "-cwd", "-env", "-n", "-R", "-M", "-q", "-W", "-m", "-w", "-P")
) | frozenset(("-U", "-u", "-b", "-sla", "-gpu", "-i", "-app", "-g", "-sp"))
_BARE = frozenset(("-x", "-r", "-rn", "-ti", "-B", "-N", "-H", "-K", "-I"))
_REFUSED_TOGETHER = (("-r", "-rn"), ("-K", "-I"))
_UNITS = {
    "": 1,
    "K": 1,
    "KB": 1,
    "M": 1024,
    "MB": 1024,
    "G": 1024**2,
    "GB": 1024**2,
    "T": 1024**3,
    "TB": 1024**3,
}
"""In KB, the default of LSF_UNIT_FOR_LIMITS."""
MOST_ELEMENTS = 1000
"""MAX_JOB_ARRAY_SIZE of lsb.params, by default."""


def read_options(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options with their values, and the words of the command."""
    given: dict[str, list[str]] = {}
    words = list(arguments)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in _BARE:
            given.setdefault(option, []).append("")
        elif option in _VALUES:
            if not words:
                raise Refused(f"{option}: option requires an argument. Job not submitted.")
            given.setdefault(option, []).append(words.pop(0))
        else:
            raise Refused(f"{option}: Illegal option. Job not submitted.")
    for option, values in given.items():
        if len(values) > 1 and option != "-R":
            raise Refused(f"{option}: option is given more than once. Job not submitted.")
    for first, second in _REFUSED_TOGETHER:
        if first in given and second in given:
            raise Refused(f"{first} and {second} cannot be used together. Job not submitted.")
    if not words:
        raise Refused("No command is specified. Job not submitted.")
    return given, words


def submitted(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    number: int,
    jobs: Jobs,
    queues: Mapping[str, Sequence[str]],
    hosts: Sequence[str],
) -> list[Element]:
    """The jobs that a call of bsub asks for. Raises Refused."""
    options, words = read_options(arguments)

    def one(option: str) -> str | None:
        return options[option][0] if option in options else None

    queue = one("-q") or next(iter(queues))
    if queue not in queues:
        raise Refused(f"{queue}: No such queue. Job not submitted.")
    wanted = tuple((one("-m") or "").split())
    for each in wanted:
        if each.rstrip("!+0123456789") not in {*hosts, *(host.rstrip("0123456789") for host in hosts)}:
            raise Refused(f"{each}: Bad host name, host group name or cluster name. Job not submitted.")
    if (condition := one("-w")) is not None:
        check_condition(condition, jobs)
    elif "-ti" in options:
        raise Refused("-ti: Use only with the -w option. Job not submitted.")
    name, indices = _name(one("-J") or "")
    memory = _requirements(options.get("-R", []))
    element = Element(
        number=number,
        index=0,
        name=name or " ".join(words),
        description=one("-Jd") or "",
        queue=queue,
        # Words are one line of a shell, as they stand.
        command=" ".join(words),
        slots=_slots(one("-n")),
        memory=memory,
        memory_limit=_limit(one("-M")),
        minutes=_minutes(one("-W")),
        hosts=wanted,
        exclusive="-x" in options,
        rerunnable="-r" in options,
        condition=condition or "",
        orphan="-ti" in options,
        begin=_begin(one("-b")),
        project=one("-P") or "default",
        environment=_environment(one("-env"), environment),
        output=one("-o") or one("-oo") or os.devnull,
        directory=one("-cwd") or environment.get("PWD", "/"),
    )
    shlex.split(element.command)
    return [_copy(element, index) for index in indices] if indices else [element]


def _copy(element: Element, index: int) -> Element:
    values = {name: getattr(element, name) for name in element.__dataclass_fields__}
    return Element(**values | {"index": index, "kill_at": []})


def _name(text: str) -> tuple[str, list[int]]:
    if "[" not in text and "]" not in text:
        return text, []
    found = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\](?:%(\d+))?", text)
    if found is None or not found[1]:
        raise Refused("Bad job name or job array index list. Job not submitted.")
    return found[1], parse_index_list(found[2], MOST_ELEMENTS)


def _slots(text: str | None) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)?", text):
        raise Refused(f"{text}: Bad argument for option -n. Job not submitted.")
    return int(text.partition(",")[0])


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9]\d*)([KMGT]B?)?!?", text)
    if found is None:
        raise Refused(f"{text}: Bad MEMLIMIT specification. Job not submitted.")
    return int(found[1]) * _UNITS[found[2] or ""] * 1024


def _minutes(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(?:(\d+):)?(\d+)(?:/\S+)?", text)
    if found is None or not int(found[1] or 0) * 60 + int(found[2]):
        raise Refused(f"{text}: Bad RUNLIMIT specification. Job not submitted.")
    return int(found[1] or 0) * 60 + int(found[2])


def _begin(text: str | None) -> float:
    if text is None:
        return 0.0
    fields = text.split(":")
    if not 2 <= len(fields) <= 5 or not all(each.isdigit() for each in fields):
        raise Refused(f"{text}: Bad time specification. Job not submitted.")
    now = time.localtime()
    whole = [*[str(each) for each in now[:3]][: 5 - len(fields)], *fields]
    return time.mktime(time.strptime(":".join(whole), "%Y:%m:%d:%H:%M"))


def _requirements(texts: Sequence[str]) -> int:
    """Memory in bytes that resource requirements reserve."""
    memory = 0
    for text in texts:
        rest = text
        while rest.strip():
            found = re.match(r"\s*(select|order|rusage|span|same|cu|affinity)\[([^\[\]]*)\]", rest)
            if found is None:
                raise Refused("Bad resource requirement syntax. Job not submitted.")
            if found[1] == "rusage":
                memory = _reserved(found[2]) or memory
            rest = rest[found.end() :]
    return memory


def _reserved(text: str) -> int:
    memory = 0
    for part in re.split(r"[:,]", text):
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)=([0-9.]+)([KMGT]B?)?\s*", part)
        if found is None:
            raise Refused("Bad resource requirement syntax. Job not submitted.")
        if found[1] == "mem":
            # Without a unit rusage is in MB.
            memory = int(float(found[2]) * _UNITS[found[3] or "MB"]) * 1024
    return memory


def _environment(text: str | None, caller: Mapping[str, str]) -> dict[str, str]:
    plain = {name: caller[name] for name in ("HOME", "USER", "LOGNAME", "SHELL") if name in caller}
    if text is None or text == "all":
        return dict(caller)
    if text == "none":
        return plain
    raise Refused(f"{text}: Bad environment specification. Job not submitted.")


QUEUES = {"normal": ("lsf1", "lsf2", "lsf3"), "short": ("lsf1",)}
HOSTS = dict.fromkeys(("lsf1", "lsf2", "lsf3"), (16, 2 << 30))
"""Slots and bytes of memory."""
_TERMINATE_S = 1.0
"""JOB_TERMINATE_INTERVAL; LSF's own default is 10 s."""
_MINUTE_S = float(os.environ.get("LSF_DOUBLE_MINUTE", "60"))
_REASONS = {
    "TERM_OWNER": "job killed by owner",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_ORPHAN_SYSTEM": "the orphan job is automatically terminated by LSF",
}


class Mbatchd:
    """State of one LSF."""

    def __init__(self) -> None:
        self.jobs: Jobs = {}
        self.last = 100

    def answer(
        self, command: str, arguments: list[str], environment: Mapping[str, str], uid: int = 0
    ) -> tuple[int, str, str]:
        commands: Mapping[str, Callable[[], tuple[int, str, str]]] = {
            "bsub": lambda: self._bsub(arguments, environment, uid),
            "bkill": lambda: self._bkill(arguments, uid),
            "bjobs": lambda: bjobs(arguments, self.jobs),
            "bacct": lambda: bacct(arguments, self.jobs),
            "bhist": lambda: bhist(arguments, self.jobs),
            "bhosts": lambda: bhosts(arguments, {name: self._host(name) for name in HOSTS}),
            "bqueues": lambda: bqueues(arguments, QUEUES),
            "lshosts": lambda: lshosts(arguments, {name: size for name, (_, size) in HOSTS.items()}),
            "lsload": lambda: lsload(arguments, {name: self._free(name)[1] for name in HOSTS}),
        }
        try:
            return commands[command]()
        except Refused as refused:
            return 255, "", f"{refused}\n"

    def _bsub(self, arguments: list[str], environment: Mapping[str, str], uid: int) -> tuple[int, str, str]:
        elements = submitted(
            arguments, environment, number=self.last + 1, jobs=self.jobs, queues=QUEUES, hosts=list(HOSTS)
        )
        for each in elements:
            each.uid = uid
        self.last += 1
        self.jobs[self.last] = elements
        default = "" if "-q" in arguments else "default "
        return 0, f"Job <{self.last}> is submitted to {default}queue <{elements[0].queue}>.\n", ""

    def _bkill(self, arguments: list[str], uid: int) -> tuple[int, str, str]:
        out, err, status = "", "", 0
        for word, elements in chosen(arguments, self.jobs):
            if not elements:
                err, status = f"{err}Job <{word}>: No matching job found\n", 255
            elif uid not in (0, elements[0].uid):
                err, status = f"{err}Job <{word}>: User permission denied\n", 255
            elif all(each.ended for each in elements):
                err, status = f"{err}Job <{word}>: Job has already finished\n", 255
            else:
                for each in elements:
                    self.end(each, "TERM_OWNER")
                out += f"Job <{word}> is being terminated\n"
        return status, out, err

    def end(self, job: Element, term: str) -> None:
        """End a job: at once where it waits, else by signals to its process group, one after the other."""
        if job.ended or job.term:
            return
        job.term = term
        if not job.pid:
            self._finish(job, "EXIT", 0)
            return
        now = time.time()
        steps = enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        job.kill_at = [(now + step * _TERMINATE_S, number) for step, number in steps]

    def _finish(self, job: Element, stat: str, code: int) -> None:
        job.stat, job.code, job.finished = stat, code, time.time()
        job.reason = f"{job.term}: {_REASONS[job.term]}" if job.term else ""
        job.kill_at = []

    def _free(self, host: str) -> tuple[int, int]:
        slots, memory = HOSTS[host]
        for each in self._running():
            if each.host == host:
                slots -= each.slots
                memory -= each.memory
                slots = 0 if each.exclusive else slots
        return max(0, slots), max(0, memory)

    def _host(self, host: str) -> tuple[str, int, int]:
        slots = HOSTS[host][0]
        free = self._free(host)[0]
        return "ok" if free else "closed_Full", slots, slots - free

    def _running(self) -> list[Element]:
        return [job for each in self.jobs.values() for job in each if job.stat == "RUN"]

    def turn(self) -> None:
        """One turn of scheduling: what ended, what is to be ended, what starts."""
        self._reap()
        now = time.time()
        for job in self._running():
            while job.kill_at and job.kill_at[0][0] <= now:
                _, number = job.kill_at.pop(0)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, number)
            if job.minutes is not None and now - job.started > job.minutes * _MINUTE_S:
                self.end(job, "TERM_RUNLIMIT")
        free = {name: list(self._free(name)) for name in HOSTS}
        for each in self.jobs.values():
            for job in each:
                if job.stat == "PEND":
                    self._consider(job, free, now)

    def _consider(self, job: Element, free: dict[str, list[int]], now: float) -> None:
        met = holds(job.condition, self.jobs, job.index) if job.condition else True
        if met is None and job.orphan:
            self.end(job, "TERM_ORPHAN_SYSTEM")
            return
        if not met:
            job.pending = "Job dependency condition not satisfied;"
            return
        if job.begin > now:
            job.pending = "Job has specified start time;"
            return
        fitting = [
            name
            for name, (slots, memory) in free.items()
            if name in (job.hosts or QUEUES[job.queue])
            and slots >= (HOSTS[name][0] if job.exclusive else job.slots)
            and memory >= job.memory
        ]
        if not fitting:
            job.pending = "Not enough job slots or memory on hosts;"
            return
        host = max(fitting, key=lambda name: free[name][0])
        free[host][0] -= HOSTS[host][0] if job.exclusive else job.slots
        free[host][1] -= job.memory
        self._start(job, host)

    def _start(self, job: Element, host: str) -> None:
        environment = job.environment | {
            "PATH": "/usr/bin:/bin",
            "LSB_JOBID": str(job.number),
            "LSB_JOBINDEX": str(job.index),
            "LSB_HOSTS": " ".join([host] * job.slots),
            "LSB_QUEUE": job.queue,
            "LSB_JOBNAME": job.name,
        }
        # The user opens the log, as sbatchd has it.
        words = ["/bin/sh", "-c", f'exec >>"$0" 2>&1; {job.command}', job.output]
        if job.uid:
            words = ["setpriv", f"--reuid={job.uid}", f"--regid={job.uid}", "--clear-groups", "--", *words]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, cwd=job.directory, env=environment, start_new_session=True
        )
        process.returncode = 0  # It is waited for by its number.
        job.pid, job.host, job.stat, job.started = process.pid, host, "RUN", time.time()

    def _reap(self) -> None:
        running = {each.pid: each for each in self._running()}
        while running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            job = running.pop(pid, None)
            if job is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            self._finish(job, "DONE" if code == 0 and not job.term else "EXIT", code)


def serve(directory: Path) -> None:
    """Answer commands until the end of this process."""
    mbatchd = Mbatchd()
    (directory / "mbatchd.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(str(directory / "mbatchd.sock"))
        (directory / "mbatchd.sock").chmod(0o666)
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            if selector.select(0.05):
                connection, _ = listener.accept()
                with connection:
                    _answer(mbatchd, connection)
            mbatchd.turn()


def _answer(mbatchd: Mbatchd, connection: socket.socket) -> None:
    asked = b""
    while not asked.endswith(b"\n"):
        part = connection.recv(1 << 16)
        if not part:
            return
        asked += part
    question = json.loads(asked)
    # LSF takes the word of eauth for who asks; here the kernel says it (unix(7)).
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    answer = mbatchd.answer(question["command"], question["arguments"], question["environment"], uid)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(json.dumps(answer).encode())


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
