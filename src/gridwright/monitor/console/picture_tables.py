"""Tables of a picture as the page gets them: those of `top`, bounded, without what a viewer may not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from gridwright.monitor.console.pictures import causes_of
from gridwright.monitor.console.viewers import JobFacts, Viewer, users_seen_by
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import LibraryRow
from gridwright.monitor.served_views import SERVED_JOBS
from gridwright.monitor.table_cells import TableCell, TableRow, View, megabytes
from gridwright.monitor.table_cells import figure as cell_of
from gridwright.monitor.views import views

MOST_ROWS = 1000
"""Of a table: nobody reads more, and a browser with more gets slow."""
MOST_CAUSES = 20


def tables_of(frame: Frame, told: Mapping[str, JobFacts], viewer: Viewer) -> list[dict[str, Any]]:
    """All tables, as far as the viewer may see them; `told` is what the scheduler says of jobs."""
    return [
        _table(view)
        for view in (
            *(_seen(each, viewer) for each in views(frame)),
            _users(frame, told, viewer),
            *_beside_jobs(frame, viewer),
        )
    ]


def _table(view: View) -> dict[str, Any]:
    """A table as `top` has it, with the figures to sort by."""
    return {
        "title": view.title,
        "words": list(view.words),
        "figures": list(view.figures),
        "last": view.last,
        "rows": [
            {
                "key": row.key,
                "cells": [
                    {"text": cell.text, "value": cell.value, "style": cell.style} for cell in row.cells
                ],
            }
            for row in view.rows[:MOST_ROWS]
        ],
        "leftOut": max(0, len(view.rows) - MOST_ROWS),
    }


def _seen(view: View, viewer: Viewer) -> View:
    """The same without names that Lustre gives jobs, which tell programs and users: numbers are for all."""
    if view.title != SERVED_JOBS or viewer.is_administrator:
        return view
    told = (row for row in view.rows if re.fullmatch(r"[0-9_]+|other", row.cells[0].text))
    return replace(view, rows=tuple(told))


def library_now(row: LibraryRow) -> dict[str, Any]:
    """A row without the uses of all resources, of which there are some for each node."""
    found = asdict(replace(row, uses=(), binds=row.binds[:MOST_CAUSES]))
    return {**found, "causes": causes_of(row)[:MOST_CAUSES]}


def _users(frame: Frame, told: Mapping[str, JobFacts], viewer: Viewer) -> View:
    """Users with what their jobs do, as far as the viewer may know them."""
    rows = tuple(
        TableRow(
            each.user,
            (
                TableCell(each.user),
                cell_of(float(each.jobs), 0),
                cell_of(each.cpus),
                megabytes(each.read_bytes_per_s),
                megabytes(each.written_bytes_per_s),
            ),
        )
        for each in users_seen_by(viewer, frame.users, frame.jobs, told)
    )
    return View("Users", ("user",), ("jobs", "CPUs", "read MB/s", "write MB/s"), rows)


def _beside_jobs(frame: Frame, viewer: Viewer) -> list[View]:
    """What of nodes no job accounts for, and the processes of it that the viewer may know."""
    nodes = tuple(
        TableRow(
            row.node,
            (
                TableCell(row.node),
                cell_of(row.cpus),
                megabytes(row.read_bytes_per_s),
                megabytes(row.written_bytes_per_s),
            ),
        )
        for row in frame.others
    )
    processes = tuple(
        TableRow(
            f"{row.node} {each.user} {each.process}",
            (
                TableCell(each.process),
                TableCell(row.node),
                TableCell(each.user),
                cell_of(each.cpus),
                megabytes(each.moved_bytes_per_s),
            ),
        )
        for row in frame.others
        for each in row.processes
        if viewer.may_see(each.user)
    )
    return [
        View("Beside jobs", ("node",), ("CPUs", "read MB/s", "write MB/s"), nodes),
        View("Processes of no job", ("process", "of", "user"), ("CPUs", "moved MB/s"), processes),
    ]
