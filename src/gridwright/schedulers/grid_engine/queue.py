"""Reads the jobs that wait and run from qstat -xml."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from xml.etree import ElementTree

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import BatchRow
from gridwright.schedulers.batch.tools import BatchTools
from gridwright.schedulers.grid_engine.commands import expand_ranges
from gridwright.schedulers.grid_engine.xml_answer import parse_answer, text_of
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_tag import tag_of

NOT_STARTED = "Grid Engine could not start it, and does not try again (state E)"


def read_queue(tools: BatchTools) -> list[BatchRow]:
    """The jobs of this user and of Gridwright. Raises GridwrightError (ENVIRONMENT)."""
    return list(parse_queue(parse_answer(tools.query(["qstat", "-xml"]), "qstat")))


def parse_queue(root: ElementTree.Element) -> Iterator[BatchRow]:
    """The rows of jobs that are ours, whatever the tree above them."""
    for each in root.iter("job_list"):
        tag = tag_of(text_of(each, "JB_name"))
        number = text_of(each, "JB_job_number")
        if tag is None or not number.isdigit():
            continue
        letters = text_of(each, "state")
        queue, _, node = text_of(each, "queue_name").partition("@")
        tasks = text_of(each, "tasks")
        state, reason = state_of(letters)
        yield BatchRow(
            number=int(number),
            tag=tag,
            positions=expand_ranges(tasks) if tasks else (WHOLE,),
            state=state,
            reason=reason,
            node=node or None,
            queue=queue or None,
            started=moment(text_of(each, "JAT_start_time")),
            leaving="d" in letters,
        )


def state_of(letters: str) -> tuple[JobState, str | None]:
    """Our state for the letters of qstat(1), and what they say of a job that waits."""
    if "E" in letters:
        return JobState.WAITING, NOT_STARTED
    if "d" in letters and "r" not in letters and "t" not in letters:
        return JobState.WAITING, "it is being deleted"
    if any(each in letters for each in "rtR") and "q" not in letters:
        return JobState.RUNNING, "it is being deleted" if "d" in letters else None
    if any(each in letters for each in "sST"):
        return JobState.RUNNING, "it is suspended"
    if "h" in letters:
        return JobState.WAITING, "it is held: for jobs that it waits for, or by an order (qhold)"
    return JobState.WAITING, None


def moment(text: str) -> float | None:
    """Seconds since 1970 of a time of qstat, in UTC."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def read_messages(tools: BatchTools, number: int) -> str | None:
    """Why a job waits, as sge_qmaster tells it; None where it does not."""
    printed = tools.query(["qstat", "-j", str(number), "-xml"])
    try:
        root = parse_answer(printed, "qstat")
    except Exception:
        return None
    found = [text_of(each, "MES_message") for each in root.iter("element")]
    found += [text_of(each, "QIM_message") for each in root.iter("element")]
    return "; ".join(dict.fromkeys(each for each in found if each)) or None
