"""The answer of a sweep in a sentence."""

from __future__ import annotations

from gridwright.runs.stream_sweep.record import Binding, StreamSweepRecord
from gridwright.units import counted

_BINDS: dict[Binding, str] = {
    "cores": "the cores bind",
    "memory": "memory binds",
    "data": "library data binds",
    "work": "library work binds",
    "util": "library util binds",
    "other": "something that is no core, no memory and no library binds",
}


def jobs(number: int) -> str:
    """Such as `1 job at once`."""
    return f"{counted(number, 'job')} at once"


def streams_text(number: int) -> str:
    """Such as `1 stream`."""
    return f"{number:,} stream{'' if number == 1 else 's'}"


def binding_words(binds: Binding | None) -> str:
    """Such as `library data binds`."""
    return _BINDS[binds] if binds is not None else "it is not known what binds"


def answer(record: StreamSweepRecord) -> str:
    """What the sweep says of the grid, and why no more where that is known."""
    return " ".join(
        part for part in (_carried(record), _beyond(record), _ended(record), _disturbed(record)) if part
    )


def _carried(record: StreamSweepRecord) -> str:
    would = "carries" if record.command == "workload" else "would carry"
    if record.carries is None:
        return f"How many jobs {record.grid} {would} at once is not proven."
    if record.carries == 0:
        return f"{record.grid} {would} no job as required, not even one alone: {_bound(record)}."
    if record.falls_at is None:
        return f"{record.grid} {would} at least {jobs(record.carries)}{_once(record)}."
    least, when = ("at least ", f"with {record.falls_at:,}") if record.at_least else ("", "beyond that")
    return f"{record.grid} {would} {least}{jobs(record.carries)}{_once(record)}; {when} {_bound(record)}."


def _bound(record: StreamSweepRecord) -> str:
    more = f" ({record.resource})" if record.resource and record.binds != "cores" else ""
    return f"{binding_words(record.binds)}{more}"


def _once(record: StreamSweepRecord) -> str:
    return "" if record.confirmed else " (seen once)"


def _beyond(record: StreamSweepRecord) -> str:
    """Why the first number of streams that does not hold does not."""
    point = next((point for point in record.curve if point.streams == record.falls_at), None)
    if point is None or not point.why:
        return ""
    return f"With {streams_text(point.streams)}: {point.why}."


def _ended(record: StreamSweepRecord) -> str:
    last = record.steps[-1] if record.steps else None
    if record.ended_by == "most":
        return f"No more than {streams_text(record.most_streams)} were tried."
    if record.ended_by == "time":
        return f"The time limit of {(record.within_s or 0.0) / 60:,.0f} min left no room for another step."
    if record.ended_by == "disturbed" and last is not None:
        unjudged = next((point.why for point in record.curve if point.streams == last.streams), None)
        return f"{streams_text(last.streams)} could not be judged: {unjudged or 'disturbed'}."
    if record.ended_by == "interrupted":
        return "The sweep was interrupted."
    if record.ended_by == "failed" and last is not None:
        return f"The step with {streams_text(last.streams)} could not be run; see the findings."
    return "" if record.ended_by == "knee" else "The sweep goes on."


def _disturbed(record: StreamSweepRecord) -> str:
    """That steps were judged although they were disturbed; empty if none was."""
    disturbed = sum(step.disturbed is not None for step in record.steps)
    if not disturbed or not record.allow_disturbed:
        return ""
    were = "step was" if disturbed == 1 else "steps were"
    return f"Judged although {disturbed} {were} disturbed: it proves nothing about a quiet grid."
