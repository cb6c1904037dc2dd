"""The report of files that a task could not do: REPORT_CSV_20191124, which FSx puts into the bucket.

Columns are file, status and error (Amazon FSx API Reference, CompletionReport); whether a line of titles
comes first is not said there, so that one is passed over.
"""

from __future__ import annotations

import csv
import io

from gridwright.providers.aws.data_repository.tasks import Task
from gridwright.repository.keys import shown
from gridwright.repository.store import ObjectStore, StoreError

_TITLE = "filepath"


def failures_of(task: Task, store: ObjectStore) -> list[tuple[str, str]]:
    """File and reason of each that failed, from the report; what it does not tell is one line of its own."""
    if not task.failed and task.state != "FAILED":
        return []
    found: list[tuple[str, str]] = []
    if task.failed and task.report is not None:
        key = f"{task.report.removeprefix('s3://').partition('/')[2]}/{task.id}/failures.csv"
        try:
            found = read_failures(store.get(key.lstrip("/")))
        except StoreError as error:
            found = [(task.id, f"{task.failed} files failed, and its report: {error.problems[0].what}")]
        else:
            if len(found) < task.failed:
                lacking = task.failed - len(found)
                found.append((task.id, f"{lacking} more files failed, which its report does not name"))
    elif task.failed:
        found = [(task.id, f"{task.failed} files failed, and it made no report")]
    if task.failure or not found:
        found.append((task.id, task.failure or "it failed, and AWS does not say why"))
    return found


def read_failures(text: bytes) -> list[tuple[str, str]]:
    """File and reason of each line."""
    lines = io.StringIO(text.decode("utf-8-sig", "backslashreplace"), newline="")
    found = []
    for row in csv.reader(lines, skipinitialspace=True):
        cells = [each.strip() for each in row]
        if not cells or not cells[0] or cells[0].replace(" ", "").casefold() == _TITLE:
            continue
        why = ": ".join(each for each in cells[1:] if each) or "no reason is given"
        found.append((shown(cells[0]), shown(why)))
    return found
