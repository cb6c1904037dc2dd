"""What bacct, bjobs, bhist, bhosts, bqueues, lshosts and lsload of the double print."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence

from tests.support.lsf_double.jobs import Element, Jobs, Refused, parse_index_list

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
