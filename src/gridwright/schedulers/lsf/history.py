"""Reads how jobs ended from bhist, where bjobs no longer has them: LSF forgets them after CLEAN_PERIOD."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import BatchRow
from gridwright.schedulers.batch.tools import BatchTools
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.lsf.commands import NO_JOBS, plain_node
from gridwright.schedulers.lsf.endings import Ending, ending
from gridwright.schedulers.lsf.queue import moment

_AT_ONCE = 200
_JOB = re.compile(r"^Job <(\d+)(?:\[(\d+)\])?>,", re.MULTILINE)
EVENT = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}\s+\d+ \d+:\d+:\d+(?: \d{4})?): (.*)$", re.MULTILINE)
"""A line of a job's history: when, and what."""


def read_history(tools: BatchTools, requested: Mapping[JobTag, int | None]) -> list[BatchRow]:
    """What bhist has of these jobs, by their numbers. Raises GridwrightError (ENVIRONMENT)."""
    numbers = [str(number) for number in requested.values() if number is not None]
    rows: list[BatchRow] = []
    for first in range(0, len(numbers), _AT_ONCE):
        command = ["bhist", "-a", "-l", "-UF", "-n", "0", *numbers[first : first + _AT_ONCE]]
        printed = tools.query(
            command,
            allowed=lambda answer: any(
                each in (answer.stdout + answer.stderr).decode(errors="replace").lower() for each in NO_JOBS
            ),
        )
        rows += [row for row in parse_history(printed.decode(errors="replace")) if row.tag in requested]
    return rows


def parse_history(text: str) -> Iterator[BatchRow]:
    """The ends in what `bhist -l -UF` prints: a block for each job, with a line for each event."""
    begins = [each.start() for each in _JOB.finditer(text)]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        block = text[begin:end]
        named = _JOB.match(block)
        described = re.search(r"Job Description <([^>]*)>", block)
        tag = tag_of(described[1]) if described else None
        events = [(each[1], each[2]) for each in EVENT.finditer(block)]
        if named is None or tag is None or (how := _ending(events)) is None:
            continue
        started = next((when for when, what in events if what.startswith(("Started", "Starting"))), "")
        node = next((each for _, what in events if (each := _node(what)) is not None), None)
        yield BatchRow(
            number=int(named[1]),
            tag=tag,
            positions=(int(named[2]) if named[2] else WHOLE,),
            state=how.state,
            exit_status=how.exit_status,
            signal=how.signal,
            reason=how.reason,
            node=node,
            started=moment(started),
            ended=moment(events[-1][0]),
        )


def _node(event: str) -> str | None:
    found = re.search(r"(?:Dispatched|Started)[^<]*(?:<\d+>[^<]*)?<([^>]*)>", event)
    return plain_node(found[1]) if found else None


def _ending(events: Sequence[tuple[str, str]]) -> Ending | None:
    """How a job ended by its events; None where it has not."""
    stat, code, reason = "", "", ""
    for _, what in events:
        if what.startswith("Done successfully"):
            stat = "DONE"
        elif exited := re.match(r"Exited with exit code (\d+)", what):
            stat, code = "EXIT", exited[1]
        elif signalled := re.match(r"Exited by signal (\d+)", what):
            stat, code = "EXIT", str(128 + int(signalled[1]))
        elif what.startswith(("Exited", "Completed <exit>")):
            stat = "EXIT"
        reason = what if "TERM_" in what else reason
    return ending(stat, code, reason) if stat else None
