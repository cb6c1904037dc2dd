"""docs/papers.md: the model against every published figure, and what of the papers not to copy.

`gridwright predict --papers --markdown > docs/papers.md` brings the file up to date. The terminal words the
figures alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gridwright.model.papers import (
    INSTANCE_TABLE,
    LIMIT,
    LIMITS,
    PAPERS,
    PaperRow,
    PapersCheck,
    PaperSummary,
    measured_margins,
)
from gridwright.model.prediction import Kind
from gridwright.report.figures import ABSENT, GB, MB, count, plain
from gridwright.report.table import Cell, Table, columns_of, rows_table

KINDS: dict[Kind, str] = {
    "network": "network of nodes",
    "volume": "volumes",
    "instance store": "instance stores",
    "server": "servers",
    "stated": "rates that were stated or measured",
    "burst": "bursts, whatever binds",
    "workload": "CPU/real of the workload",
    "all": "all sustained rates",
}
"""What binds a prediction, in words."""
_SCALES = {"bytes/s": ("MB/s", MB), "bytes": ("GB", GB), "ratio": ("ratio", 1), "s": ("min", 60)}


def unit_text(unit: str) -> str:
    """The unit that values of this one are shown in."""
    return _SCALES[unit][0]


def _value_text(value: float | None, unit: str) -> str:
    """A value with three significant digits, in the unit that unit_text names."""
    if value is None:
        return ABSENT
    shown = value / _SCALES[unit][1]
    return f"{shown:.2f}" if unit == "ratio" else plain(shown)


def _error_text(error: float | None) -> str:
    """A signed error in percent; what rounds to nothing has no sign."""
    if error is None:
        return ABSENT
    return f"{error:+.1%}" if round(error, 3) else "0.0%"


def percent(part: float | None) -> str:
    """An absolute error in percent."""
    return ABSENT if part is None else f"{part:.1%}"


def by_reason(rows: Iterable[PaperRow]) -> dict[str, list[str]]:
    """Figures with their errors, by the reason that they share."""
    found: dict[str, list[str]] = {}
    for row in rows:
        figure = row.quantity if row.error is None else f"{row.quantity} ({_error_text(row.error)})"
        found.setdefault(row.why, []).append(f"{figure} [{row.fact_id}]")
    return found


def reach_text(check: PapersCheck) -> str:
    """Whether the medians reach what they have to."""
    table = _reached(check.instance_table, LIMITS[INSTANCE_TABLE])
    others = _reached(check.others, LIMIT)
    return (
        f"Median over {INSTANCE_TABLE}'s {count(check.instance_table.count)} figures: {table}; "
        f"over the {count(check.others.count)} of all other papers: {others}."
    )


def _reached(summary: PaperSummary, limit: float) -> str:
    median = summary.median_error
    if median is None:
        return "nothing predicted"
    return f"{percent(median)} ({'within' if median <= limit else 'above'} {limit:.0%})"


_INTRODUCTION = f"""# The model against the papers

Five papers on analytics grids over parallel file systems print what they measured. This page holds
`gridwright predict` against every one of these figures. Grids are described by the specs in
`examples/papers`, limits come from the catalogue as their providers list them, and
none of these measured rates is used to predict another.

- A **check** was predicted without the model knowing it. Only checks count.
- Other figures **do not count**: they repeat a figure in another unit or for each core, or the paper does not
  describe what they were measured on.

Errors are relative to the published value. A miss is a check that is off by more than the median may be:
{LIMITS[INSTANCE_TABLE]:.0%} for the table of instances of paper {INSTANCE_TABLE}, {LIMIT:.0%} for all others.

This page is made by `gridwright predict --papers --markdown > docs/papers.md`; a test holds it up to date.
"""

_MARGINS = """The same errors by what bound each figure. Predictions carry these margins: `python
tools/margins.py` writes them into the model's data.
"""

_CAVEATS = """
Read the summary with these in mind:

- 500 MB/s for each server of facts 000, and 1.5 and 3 GB/s for three and six servers of facts 001, are one
  finding told three times. That the model meets all three says little more than that it meets one.
- The efficiency factor of Lustre servers (0.86) rests on one measurement, of another cloud: more than
  5 GiB/s from two servers with 25 Gbit/s each.
- CPU/real ratios are of Gridwright's own tests and not of the papers' programs, on cores of another make. On
  the Oracle grid computation binds, so that ratio says little about its file systems.
- Of the ratio that is too low by 11.4%, reads from the page cache are worth 6.9 points: it holds what a job
  has just written. The rest, and the 6.9% of the Oracle grid, is unexplained: the programs are not published.
- Limits of volumes are today's. Where a limit of 2015 was lower, the note of the configuration says so.
- A configuration with an assumption in its note is checked together with that assumption.
"""


def papers_page(check: PapersCheck) -> str:
    """The page as Markdown."""
    parts = [
        _INTRODUCTION,
        "## Summary\n",
        *_markdown(summary_table(check)),
        "",
        reach_text(check),
        "",
        _MARGINS,
        *_markdown(margins_table(check)),
        _CAVEATS,
        "## Grids\n",
        *_markdown(rows_table("", columns_of(["configuration", "spec", "note"]), _configurations(check))),
        "",
        "## Predicted and published",
        *_figures(check),
        "",
        *_reasons("## Misses, with the likely reason", check.missed),
        *_reasons("## Not predicted", (row for row in check.of("check") if row.predicted is None)),
        "## What not to copy",
        "",
        "Statements and scripts of the papers that do not hold, and what to do instead.",
        *_advice(check),
    ]
    return "\n".join(parts) + "\n"


def summary_table(check: PapersCheck) -> Table:
    """How far off the checks of each paper are."""
    rows = (
        (
            paper.paper,
            PAPERS[paper.paper],
            str(paper.count),
            percent(paper.median_error),
            percent(paper.p90_error),
            percent(paper.worst_error),
            str(paper.not_predicted) if paper.not_predicted else ABSENT,
        )
        for paper in check.papers
    )
    columns = columns_of(["paper", ""], ["figures", "median", "90th percentile", "worst", "not predicted"])
    return rows_table("Absolute errors of the checks", columns, rows)


def margins_table(check: PapersCheck) -> Table:
    """The errors by what bound each figure."""
    rows = (
        (KINDS[margin.kind], count(margin.count), percent(margin.median), percent(margin.p90))
        for margin in measured_margins(check)
    )
    columns = columns_of(["bound by"], ["figures", "median", "90th percentile"])
    return rows_table("The same by what bound each: margins of predictions", columns, rows)


def figures_table(rows: Iterable[PaperRow], missed: str = "") -> Table:
    """What was predicted beside what is published; `missed` stands in the last column of what was missed."""
    columns = columns_of(("fact", "figure", "unit"), ("predicted", "published", "error"), "")
    return rows_table("", columns, (_figure(row, missed) for row in rows))


def _configurations(check: PapersCheck) -> Iterator[list[str]]:
    for configuration in check.configurations:
        link = (
            f"[{configuration.spec}](../examples/papers/{configuration.spec})"
            if configuration.spec
            else "none"
        )
        yield [f"`{configuration.name}`", link, configuration.note]


def _figures(check: PapersCheck) -> Iterator[str]:
    for paper, title in PAPERS.items():
        rows = [row for row in check.rows if row.paper == paper and not row.repeats]
        repeated = sum(row.paper == paper for row in check.rows) - len(rows)
        yield f"\n### {paper}: {title}\n"
        yield from _markdown(figures_table(rows, "**miss**"))
        if repeated:
            figures = "1 figure that repeats" if repeated == 1 else f"{repeated} figures that repeat"
            yield f"\n{figures} one of these is left out; `gridwright predict --papers --json` has all."


def _figure(row: PaperRow, missed: str) -> list[str | Cell]:
    roles = {"check": missed if row.missed else "", "context": "does not count"}
    return [
        f"`{row.fact_id}`",
        row.quantity,
        unit_text(row.unit),
        _value_text(row.predicted, row.unit),
        _value_text(row.published, row.unit),
        Cell(_error_text(row.error), style="yellow" if row.missed else ""),
        roles[row.role],
    ]


def _reasons(title: str, rows: Iterable[PaperRow]) -> Iterator[str]:
    """A section with a paragraph for each reason; nothing where there are no rows."""
    found = by_reason(rows)
    if found:
        yield title
        yield ""
    for reason, figures in found.items():
        yield f"**{reason[:1].upper()}{reason[1:].rstrip('.')}.**"
        yield ""
        yield from (f"- {figure}" for figure in figures)
        yield ""


def _advice(check: PapersCheck) -> Iterator[str]:
    for paper, title in PAPERS.items():
        rows = [[each.printed, each.instead] for each in check.advice if each.paper == paper]
        if rows:
            yield f"\n### {paper}: {title}\n"
            yield from _markdown(rows_table("", columns_of(["printed", "instead"]), rows))


def _markdown(table: Table) -> Iterator[str]:
    """A Markdown table."""
    yield _line([column.title for column in table.columns])
    yield _line(["---" if column.words else "---:" for column in table.columns])
    yield from (_line([cell.text for cell in row.cells]) for row in table.rows)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
