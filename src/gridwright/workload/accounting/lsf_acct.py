"""Reads LSF's `lsb.acct`: one line for each event, its fields as `lsb.acct(5)` has them.

    "JOB_FINISH" "10.1" 1527327585 7610 1000 33554438 1 1527326745 0 0 1527326746 "user" "queue" ...

Fields are numbers, and texts in quotes in which a quote is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gridwright.workload.accounting.job import AccountedJob, Accounts, command_name

_FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_DONE, _EXIT = 64, 32
_BLOCK_BYTES = 512
"""What ru_inblock and ru_oublock count on Linux (getrusage(2))."""
_KIB = 1024
_BEFORE_HOSTS = 22
"""The field that tells how many hosts were asked for; two lists of hosts follow."""
_RUSAGE = 19


def read_events(lines: Iterable[str]) -> Accounts:
    """Read the jobs that finished; other events are passed over."""
    accounts = Accounts()
    for number, line in enumerate(lines, start=1):
        if line.startswith('"JOB_FINISH"'):
            accounts.add(number, partial(_job, line))
    return accounts


@dataclass(slots=True)
class _Event:
    """The fields of one event, read one after the other."""

    fields: Sequence[str]
    at: int

    def text(self) -> str:
        self.at += 1
        return self.fields[self.at - 1]

    def number(self) -> float:
        return float(self.text())

    def texts(self) -> list[str]:
        return [self.text() for _ in range(int(self.number()))]


def _job(line: str) -> AccountedJob | None:
    """One job; None if it ended before it began. Raises ValueError and IndexError if it is damaged."""
    fields = [
        found[2] if found[2] is not None else found[1].replace('""', '"') for found in _FIELD.finditer(line)
    ]
    ended, job_id, cores = float(fields[2]), int(fields[3]), int(fields[6])
    submitted, started = float(fields[7]), float(fields[10])
    event = _Event(fields, _BEFORE_HOSTS)
    event.texts()
    hosts = event.texts()
    state, _ = int(event.number()), event.number()
    name, command = event.text(), event.text()
    usage = [event.number() for _ in range(_RUSAGE)]
    event.text(), event.text()
    exit_status, _ = int(event.number()), event.number()
    event.text(), event.text()
    element, most_kib = int(event.number()), event.number()
    if not started or state not in (_DONE, _EXIT):
        return None
    return AccountedJob(
        id=f"{job_id}[{element}]" if element else str(job_id),
        name=name or command_name(command),
        node=",".join(dict.fromkeys(host.rpartition("*")[2] for host in hosts)),
        ok=state == _DONE,
        reason=_reason(state, exit_status),
        cores=cores,
        submitted=submitted,
        started=started,
        ended=ended,
        real_s=ended - started,
        user_s=_known(usage[0]),
        system_s=_known(usage[1]),
        peak_memory_bytes=_bytes(most_kib, _KIB),
        device_read_bytes=_bytes(usage[10], _BLOCK_BYTES),
        device_written_bytes=_bytes(usage[11], _BLOCK_BYTES),
    )


def _reason(state: int, exit_status: int) -> str | None:
    if state == _DONE:
        return None
    code, signal = exit_status >> 8, exit_status & 0x7F
    return f"EXIT: signal {signal}" if signal else f"EXIT: exit status {code}"


def _known(value: float) -> float | None:
    """LSF has -1 for what it does not know."""
    return None if value < 0 else value


def _bytes(value: float, unit: int) -> int | None:
    """A size; zero, too, is what LSF has where it did not look."""
    return round(value * unit) if value > 0 else None
