"""Two layouts of files side by side, in words for terminal and page."""

from __future__ import annotations

from gridwright.report.figures import ABSENT, count, megabytes
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.runs.layout_comparison import LayoutComparison, LayoutFigure
from gridwright.runs.phase_record import ActualLayout
from gridwright.runs.records import LibraryRecord

TITLES = ("Pairs", "Default", "Chosen", "Ratio", "95 % interval", "Of single pairs")
VERDICT = "Verdict"
_UNITS = {"per_core_bytes_per_s": "MB/s per core", "ops_per_s": "operations/s"}


def layouts_table(library: LibraryRecord) -> Table | None:
    """A row for each operation; None where the library's own layout alone was tested."""
    layouts = library.layouts
    if layouts is None or not layouts.figures:
        return None
    columns = columns_of(("Operation", "Figure"), TITLES, VERDICT)
    rows = map(layout_row, layouts.figures)
    return rows_table(f"Layouts: {layouts_note(layouts)}", columns, rows, note=layouts.method)


def layouts_note(layouts: LayoutComparison) -> str:
    """The two layouts that were compared: as requested, and as files really had them."""
    default, chosen = _actual_text(layouts.default_found), _actual_text(layouts.chosen_found)
    return f"default, {default}; chosen {layouts.text}, {chosen}"


def layout_row(figure: LayoutFigure) -> list[str]:
    """The cells of an operation."""
    written = count if figure.figure == "ops_per_s" else megabytes
    return [
        figure.of,
        _UNITS.get(figure.figure, figure.figure),
        f"{len(figure.default)} of {figure.ran}",
        written(figure.default_median),
        written(figure.chosen_median),
        _ratio(figure.ratio),
        _span(figure.low, figure.high),
        _span(figure.lowest, figure.highest),
        figure.verdict,
    ]


def _actual_text(layout: ActualLayout | None) -> str:
    return f"of which a file had {layout.text}" if layout is not None else "of which no file was looked at"


def _ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3g}"


def _span(low: float | None, high: float | None) -> str:
    return ABSENT if low is None or high is None else f"{low:.3g} to {high:.3g}"
