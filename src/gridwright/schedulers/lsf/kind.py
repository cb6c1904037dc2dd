"""The kind `lsf`: its section of the grid spec, and how it is opened.

Reads what jobs of all users have used from bacct, LSF's own accounting.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gridwright.schedulers.batch.kind import BatchKind
from gridwright.schedulers.batch.system import BatchTools
from gridwright.schedulers.lsf.commands import plain_node, says
from gridwright.schedulers.lsf.queue import ending, job_blocks, moment, size
from gridwright.schedulers.lsf.section import LsfSection
from gridwright.schedulers.usage import JobUsage
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.system import BatchSystem
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


_FIGURES = re.compile(r"^\s*(CPU_T\s.*)\n\s*(\S.*)$", re.MULTILINE)
_DEFAULT_PROJECT = "default"
_MINUTE_S = 60.0
_LONG_S = 120.0


def read_accounting(tools: BatchTools, since: float, until: float) -> list[JobUsage]:
    """Jobs of all users that ended from `since` to `until`, as far as LSF's current accounting file goes.

    Raises GridwrightError (ENVIRONMENT) where LSF does not answer.
    """
    # bacct takes times to the minute.
    between = ",".join(
        time.strftime("%Y/%m/%d/%H:%M", time.localtime(each)) for each in (since, until + _MINUTE_S)
    )
    printed = tools.query(
        ["bacct", "-u", "all", "-l", "-UF", "-C", between],
        allowed=says,
        timeout_s=_LONG_S,
    )
    usage = parse_accounting(printed.decode(errors="replace"))
    return [each for each in usage if each.ended is not None and since <= each.ended <= until]


def parse_accounting(text: str) -> Iterator[JobUsage]:
    """The jobs in what `bacct -l -UF` prints: a block for each, with its events and a table of figures."""
    for named, events, block in job_blocks(text):
        if events:
            yield _usage(named, events, _figures(block))


def _usage(named: re.Match[str], events: list[tuple[str, str]], figures: dict[str, str]) -> JobUsage:
    # What a user named stands before and behind these fields, and may look like them.
    head = named[3].strip().partition(", Command <")[0]
    project = _field(head, "Project")
    how = ending(_field(head, "Status") or "EXIT", "", " ".join(what for _, what in events))
    started = next(
        (event for event in events if re.match(r"(\[\d+\] )?(Dispatched|started|Started)", event[1])), None
    )
    cpu = figures.get("CPU_T", "")
    return JobUsage(
        id=named[1] + (f"_{named[2]}" if named[2] else ""),
        name=_field(head, "Job Name") or "",
        state=how.state,
        user=_field(head, "User"),
        account=None if project == _DEFAULT_PROJECT else project,
        queue=_field(head, "Queue"),
        node=None if started is None else _started_on(started[1]),
        cores=1 if started is None else _slots(started[1]),
        submitted=moment(events[0][0]),
        started=None if started is None else moment(started[0]),
        ended=moment(events[-1][0]),
        cpu_s=float(cpu) if re.fullmatch(r"\d+(\.\d+)?", cpu) else None,
        memory_peak_bytes=size(figures.get("MEM", "")) or None,
    )


def _field(head: str, name: str) -> str | None:
    """The last field of this name: those that users choose freely come first."""
    found = re.findall(rf"(?:^|, ){name} <([^>]*)>", head)
    return found[-1] if found else None


def _figures(block: str) -> dict[str, str]:
    found = _FIGURES.search(block)
    return dict(zip(found[1].split(), found[2].split(), strict=False)) if found else {}


def _started_on(event: str) -> str | None:
    found = re.search(r"<([^>]*)>", event.partition("on ")[2] or event)
    return plain_node(found[1]) if found else None


def _slots(event: str) -> int:
    """Slots of a job: `Dispatched 4 Task(s) on Host(s) <a> <a> <b> <b>`, or a host for each, or `<4*a>`."""
    if tasks := re.search(r"(\d+) Task\(s\)", event):
        return int(tasks[1])
    hosts = re.findall(r"<(?:(\d+)\*)?[^<>\s]+>", event)
    return sum(int(number or 1) for number in hosts) or 1


class LsfKind(BatchKind[LsfSection]):
    """Hands jobs to LSF through its own commands on the head node."""

    spec_model = LsfSection

    def system(self, spec: GridSpec, head: HeadNode) -> BatchSystem:
        """The LSF of a grid."""
        from gridwright.schedulers.lsf.system import Lsf

        return Lsf(spec, head)

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What bacct has of all users; of jobs that were submitted here our own record, which is exact."""
        from gridwright.schedulers.batch.directories import make_batch_directories
        from gridwright.schedulers.batch.record import BatchRecord
        from gridwright.schedulers.batch.recorded import recorded_usage
        from gridwright.schedulers.lsf.commands import tools
        from gridwright.schedulers.lsf.section import section_of
        from gridwright.schedulers.state_directory import state_directory

        self.open(spec, head).jobs()
        directories = make_batch_directories(state_directory(spec), "lsf")
        with BatchRecord(directories.record) as record:
            own, numbers = list(recorded_usage(record)), set(record.identifiers())
        others = read_accounting(tools(section_of(spec), head), since, until)
        return [
            *(each for each in own if each.ended is not None and since <= each.ended <= until),
            *(other for other in others if other.id.partition("_")[0] not in numbers),
        ]

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A lab has only what everybody may have."""
        yield (
            ("type",),
            FieldError("a lab has no LSF, which is IBM's product", "write slurm or grid_engine for a lab"),
        )


KIND = LsfKind()
