"""What is left of a grid without its dead parts, and which input moves a prediction most, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.model.degraded import DegradedGrid, DegradedLibrary
from gridwright.model.sensitivity import InputEffect, NextBottleneck, Sensitivity
from gridwright.report.figures import ABSENT, listed, megabytes, plain, share
from gridwright.report.figures import required as required_rate
from gridwright.report.table import Cell, columns_of, rows_table
from gridwright.report.terminal.frame import lined, printed, say

_HOLDS = {True: "yes", False: "no", None: ABSENT}
_VERDICTS = {True: "all requirements hold", False: "requirements do not hold", None: "nothing is required"}
_STYLES = {True: "green", False: "bold red", None: ""}


@printed
def without_text(
    console: Console, grid: str, left: DegradedGrid | None, each: Sequence[DegradedGrid]
) -> None:
    """Print what is left without some parts, if any are named, and the table of one of each dead."""
    if left is not None:
        nodes = f"{left.nodes} node{'s'[: left.nodes != 1]} of {left.cores} cores in all"
        say(console, f"{grid} without {listed([*left.without])}: {nodes}", "bold")
        _print_table(console, [left], names=False)
        _print_why(console, [left])
        say(console, f"predicted: {_VERDICTS[left.holds]}", _STYLES[left.holds])
        console.print()
    say(console, f"{grid}: one of each dead", "bold")
    _print_table(console, each, names=True)
    _print_why(console, each)


def _print_table(console: Console, rows: Sequence[DegradedGrid], *, names: bool) -> None:
    words = (["without"] if names else []) + ["library", "its files"]
    figures = ["required", "write", "read", "of before", "holds"]
    cells = (
        (
            *((listed([*row.without]) if place == 0 else "",) if names else ()),
            library.library,
            _files(library),
            required_rate(library.requires_bytes_per_s_per_core),
            *(megabytes(rate.bytes_per_s_per_core) for rate in library.rates.values()),
            _least_part(library),
            Cell(_HOLDS[library.holds], style=_STYLES[library.holds]),
        )
        for row in rows
        for place, library in enumerate(row.libraries)
    )
    say(console, "MB/s of each core that is left, each library alone", "dim")
    console.print(lined(console, rows_table("", columns_of(words, figures), cells)))


def _files(library: DegradedLibrary) -> str:
    return "kept" if library.files == "kept" else f"{share(library.files_part)} {library.files}"


def _least_part(library: DegradedLibrary) -> str:
    parts = [rate.part for rate in library.rates.values() if rate.part is not None]
    return share(min(parts)) if parts else ABSENT


def _print_why(console: Console, rows: Sequence[DegradedGrid]) -> None:
    for row in rows:
        why = "; ".join(row.why)
        say(console, f"{listed([*row.without])}: {_VERDICTS[row.holds]}{f'. {why}' if why else ''}", indent=2)


@printed
def sensitivity_text(console: Console, found: Sensitivity) -> None:
    """Print what each input moves, the strongest first, and where the next bottlenecks start."""
    headroom = "" if found.headroom is None else f"; headroom {found.headroom:.2f}"
    say(console, f"{found.grid}: each input changed by {found.change * 100:.3g} %{headroom}", "bold")
    if found.headroom is not None:
        text = "Headroom is the least ratio of what is predicted to what is required; below 1 it is missed."
        say(console, text, "dim")
    figures = ("value", "less", "more", "elasticity", "headroom less", "more")
    columns = columns_of(("input", "moves most"), figures)
    console.print(lined(console, rows_table("", columns, map(_input_row, found.inputs))))
    say(console, "Next bottlenecks: by which factor what binds may grow before another limit binds", "bold")
    for words, names in _alike(found.next_bottlenecks).items():
        say(console, f"{listed(names)}: {words}", indent=2)


def _input_row(effect: InputEffect) -> list[str]:
    value = f"{megabytes(effect.value)} MB/s" if effect.unit == "bytes/s" else f"{effect.value:g}"
    headrooms = [
        ABSENT if figure is None else f"{figure:.2f}"
        for figure in (effect.headroom_less, effect.headroom_more)
    ]
    strongest = max(effect.effects, key=lambda effect: max(abs(effect.less), abs(effect.more)), default=None)
    if strongest is None or not effect.strongest:
        return [effect.input, "no library alone", value, "0 %", "0 %", "0", *headrooms]
    steeper = max(strongest.elasticity_less, strongest.elasticity_more, key=abs)
    return [
        effect.input,
        f"{strongest.library} {strongest.operation}",
        value,
        f"{strongest.less:+.1%}",
        f"{strongest.more:+.1%}",
        f"{steeper:+.2f}",
        *headrooms,
    ]


def _alike(bottlenecks: Sequence[NextBottleneck]) -> dict[str, list[str]]:
    """What is bound alike, under one line."""
    found: dict[str, list[str]] = {}
    for bottleneck in bottlenecks:
        name = bottleneck.library or "all at once"
        if bottleneck.factor is None:
            words = f"{bottleneck.bound_by} binds, and nothing else would"
        else:
            after = f"{bottleneck.next} binds" if bottleneck.next else "all that is required is served"
            words = f"{bottleneck.bound_by} binds; from {plain(bottleneck.factor)} times as much, {after}"
        found.setdefault(words, []).append(f"{name} {bottleneck.operation}")
    return found
