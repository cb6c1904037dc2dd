"""A sweep over numbers of streams on the terminal: the curve, and the answer."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gridwright.report.figures import ABSENT, plain
from gridwright.report.stream_sweep.page import curve_row
from gridwright.report.table import Cell, columns_of, rows_table
from gridwright.report.terminal.frame import framed, print_findings, printed, say
from gridwright.runs.stream_sweep import CurvePoint, StreamSweepRecord, streams_text

_WIDTH = 20
"""Characters of a bar that is as long as a ratio of 1."""
_VERDICTS = {
    True: Cell("holds", "met"),
    False: Cell("too many", "missed"),
    None: Cell("not judged"),
}


@printed
def sweep_text(console: Console, record: StreamSweepRecord) -> None:
    """Print each number of streams in order, why some do not hold, the answer, and findings."""
    say(
        console, f"sweep of {record.matrix}{f', scale {record.scale}' if record.scale else ''}: {record.rule}"
    )
    if record.curve:
        columns = columns_of(
            ["", "largest wait", "verdict"], ["streams", "steps", "CPU/real", "launches/h", "wall time"]
        )
        title = "Numbers of streams (medians over their steps)"
        console.print(framed(rows_table(title, columns, map(_row, record.curve))))
    for point in record.curve:
        if point.why and point.streams != record.falls_at:
            say(console, f"{streams_text(point.streams)}: {point.why}", indent=2)
    if record.required_ratio is not None:
        of = "required" if record.required_by == "spec" else "0.9 of that of one stream alone"
        say(console, f"CPU/real {record.required_ratio:.3f} is the least ({of})")
    style = "bold green" if record.ended_by == "knee" and record.carries else "bold yellow"
    console.print(Text(record.answer, style=style))
    if record.assumptions:
        say(console, "Assumed:")
    for line in record.assumptions:
        say(console, line, indent=2)
    print_findings(console, record.findings)


def _row(point: CurvePoint) -> list[str | Cell]:
    waits = {cause: seconds for cause, seconds in point.waits_s.items() if cause != "cpu"}
    largest = max(waits, key=lambda cause: waits[cause], default=None)
    return [
        "#" * round(_WIDTH * min(1.0, point.ratio or 0.0)),
        f"{largest} {plain(waits[largest])} s" if largest else ABSENT,
        _VERDICTS[point.held],
        *curve_row(point)[:-1],
    ]
