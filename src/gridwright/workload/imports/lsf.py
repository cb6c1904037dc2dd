"""Reads LSF's accounting: `lsb.acct`, its fields as `lsb.acct(5)` has them, and what `bacct -l` printed.

`bacct -l` has a paragraph for each job, wrapped at 80 columns, its dates mostly without a year. `lsb.acct`
has one line for each event:

    "JOB_FINISH" "10.1" 1527327585 7610 1000 33554438 1 1527326745 0 0 1527326746 "user" "queue" ...

Fields are numbers, and texts in quotes in which a quote is doubled.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gridwright.schedulers.usage import parse_size
from gridwright.workload.imports.job import AccountedJob, Accounts, command_name

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


_JOB = re.compile(r"\s*Job <(\d+(?:\[\d+\])?)>")
_WRAPPED = re.compile(r"\s{10,}(?=\S)")
_EVENT = re.compile(r"\s*(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: \d{4})?): (.*)")
_DISPATCHED = re.compile(
    r"(?:\[\d+\] )?(?:[Dd]ispatched|[Ss]tarted).*?(?: to| on(?: Host\(s\))?)? (<.*?>)(?:[,;.]|$)"
)
_SLOTS = re.compile(r"Allocated <?(\d+)>? Slot\(s\)|(\d+) Processors Requested")
_LONGEST, _MOST_LINES = 1 << 16, 10_000
"""Characters of what was wrapped, and lines, of a job: the rest is left out."""
_YEARS_BACK = 28
"""After so many years each date has had each day of the week."""


def read_paragraphs(lines: Iterable[str], now: float) -> Accounts:
    """Read the jobs; `now` (Unix time) is when at the latest they ended."""
    accounts = Accounts()
    for begun, paragraph in _paragraphs(lines):
        accounts.add(begun, partial(_bacct_job, paragraph, now))
    return accounts


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each job, unwrapped, and the number of the first."""
    held: list[str] = []
    begun = 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if _JOB.match(text):
            if held:
                yield begun, held
            begun, held = number, [text.strip()]
        elif held and text.lstrip().startswith("---"):
            yield begun, held
            held = []
        elif held and held[-1] and _WRAPPED.match(text) and not held[-1].startswith(("CPU_T", "Accounting")):
            if len(held[-1]) < _LONGEST:
                held[-1] += text.lstrip()
        elif held and len(held) < _MOST_LINES:
            held.append(text.strip())
    if held:
        yield begun, held


def _bacct_job(lines: list[str], now: float) -> AccountedJob | None:
    """One job; None if it was never dispatched. Raises ValueError, KeyError and IndexError."""
    title, found = lines[0], _JOB.match(lines[0])
    if found is None:
        raise ValueError(title)
    figures = _figures(lines)
    submitted = started = ended = None
    node, cores, ending = "", 1, ""
    for line in lines[1:]:
        event = _EVENT.match(line)
        if event is None:
            continue
        at, text = _instant(event[1], now), event[2]
        if text.startswith("Submitted"):
            submitted = at
        elif dispatched := _DISPATCHED.match(text):
            started, node = at, _hosts(dispatched[1])
        elif text.startswith("Completed"):
            ended, ending = at, text
        if slots := _SLOTS.search(text):
            cores = int(slots[1] or slots[2])
    if started is None or ended is None:
        return None
    ok = figures["STATUS"] == "done"
    return AccountedJob(
        id=found[1],
        name=_attribute(title, "Job Name") or command_name(_attribute(title, "Command") or ""),
        node=node,
        ok=ok,
        reason=None if ok else ending.rstrip(". "),
        cores=cores,
        submitted=submitted,
        started=started,
        ended=ended,
        real_s=ended - started,
        user_s=float(figures["CPU_T"]),
        peak_memory_bytes=parse_size(figures.get("MEM", "").removesuffix("b")),
    )


def _attribute(title: str, name: str) -> str | None:
    found = re.search(rf"(?:^|, ){name} <(.*?)>(?:, [A-Z]|$)", title)
    return found[1] if found else None


def _hosts(text: str) -> str:
    names = (name.rpartition("*")[2] for name in re.findall(r"<(.*?)>", text))
    return ",".join(dict.fromkeys(names))


def _figures(lines: list[str]) -> dict[str, str]:
    """The table of figures: names in one line, values in the next."""
    at = next(index for index, line in enumerate([*lines, "CPU_T"]) if line.startswith("CPU_T"))
    return dict(zip(lines[at].split(), lines[at + 1].split(), strict=False))


def _instant(text: str, now: float) -> float:
    """Unix time, in local time; the year that is not told is the last in which the day of the week fits."""
    words = text.split()
    if len(words) == 5:
        return time.mktime(datetime.datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timetuple())  # noqa: DTZ007
    this_year = time.localtime(now).tm_year
    for year in range(this_year, this_year - _YEARS_BACK, -1):
        try:
            day = datetime.datetime.strptime(f"{' '.join(words[1:])} {year}", "%b %d %H:%M:%S %Y")  # noqa: DTZ007
        except ValueError:
            continue
        at = time.mktime(day.timetuple())
        if f"{day:%a}" == words[0] and at <= now:
            return at
    raise ValueError(text)
