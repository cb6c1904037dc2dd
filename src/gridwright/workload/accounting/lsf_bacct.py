"""Reads `bacct -l`: a paragraph for each job, wrapped at 80 columns, its dates mostly without a year.

Job <101>, Job Name <test155>, User <sanders>, Project <default>, Status <EXIT>
                     , Queue <normal>, Command <run_g03 test155.com>
Fri Apr 23 14:42:54: Submitted from host <lewis2>, CWD <$HOME>;
Fri Apr 23 14:43:00: Dispatched to <comp-002>;
Fri Apr 23 14:43:00: Completed <exit>.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.02        6              6     exit         0.0035     2M     25M
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Iterator
from functools import partial

from gridwright.schedulers.sacct_figures import parse_size
from gridwright.workload.accounting.job import AccountedJob, Accounts, command_name

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
        accounts.add(begun, partial(_job, paragraph, now))
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


def _job(lines: list[str], now: float) -> AccountedJob | None:
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
