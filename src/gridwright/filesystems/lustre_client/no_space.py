"""Why a write found no space while the Lustre has some: a target of the file is full."""

from __future__ import annotations

import re

from gridwright.errors import GridwrightError
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.findings import NOTHING, listed
from gridwright.filesystems.lustre_client.layout import read_layout
from gridwright.units import format_bytes

LIMIT_S = 5.0
"""For `lfs df`, which waits for a target that is away."""
_ROW = re.compile(
    r"^(?P<target>\S+-OST(?P<index>[0-9a-f]{4}))_UUID\s+(?P<total>\d{1,20})\s+\d{1,20}\s+(?P<left>\d{1,20})\s",
    re.MULTILINE,
)


def no_space(run: Run, mount_point: str, path: str) -> str | None:
    """Which targets of a file are full, how full, and its layout; None where that is not what was wrong.

    Needs no root: both questions are anybody's. Never raises for what the file system does not tell.
    """
    try:
        told = run(["lfs", "df", mount_point], timeout_s=LIMIT_S).stdout.decode(errors="replace")
    except GridwrightError:
        return None
    rows = {int(row["index"], 16): row for row in _ROW.finditer(told)}
    try:
        layout = read_layout(run, path)
        lies_on = {ost for each in layout.components for ost in each.osts}
    except GridwrightError:
        lies_on = set()
    own = {index: row for index, row in rows.items() if not lies_on or index in lies_on}
    full = {index: row for index, row in own.items() if int(row["left"]) < NOTHING * int(row["total"])}
    if not full and not (lies_on and own):
        return None
    # A target refuses writes before it is full: of what is left, other clients have been promised a part.
    fullest = full or dict([min(own.items(), key=lambda each: int(each[1]["left"]) / int(each[1]["total"]))])
    words = [
        f"{row['target']} ({format_bytes(int(row['left']) * 1024)} left of "
        f"{format_bytes(int(row['total']) * 1024)})"
        for row in fullest.values()
    ]
    left = sum(int(row["left"]) for row in rows.values()) * 1024
    what = "full" if full else "the fullest, whose room may be promised to other clients (grants)"
    return (
        f"{what}: {listed(words)}, while all targets together have {format_bytes(left)}"
        f"{_layout_words(rows, lies_on)}"
    )


def _layout_words(rows: dict[int, re.Match[str]], lies_on: set[int]) -> str:
    if not lies_on:
        return ""
    names = [rows[index]["target"] if index in rows else f"OST{index:04x}" for index in sorted(lies_on)]
    return f"; the file lies on {len(names)} {'target' if len(names) == 1 else 'targets'}: {listed(names)}"
