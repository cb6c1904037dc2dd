"""What `gridwright catalog qualify` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gridwright.catalog import load_catalog
from gridwright.catalog.qualify import (
    MEMORY_BYTES_PER_CORE,
    NETWORK_BYTES_PER_S_PER_CORE,
    RULE,
    FamilyMarks,
    qualify,
)
from gridwright.cli.arguments import Reader
from gridwright.cli.output import LazyResult, Output
from gridwright.report.figures import ABSENT, plain
from gridwright.report.table import Cell, columns_of, rows_table
from gridwright.report.terminal.frame import framed, printed

_MARK = {True: Cell("yes", "met"), False: Cell("no", style="red")}


def show_marks(
    file: Path | None, network: str | None, memory: str | None, beside: Path, *, every: bool, json: bool
) -> None:
    """Read the thresholds, mark all families and print them."""
    thresholds = _thresholds(network, memory)
    if file is not None:
        beside = file.parent
        of_spec = _required(file)
        thresholds = [
            asked if asked is not None else of for asked, of in zip(thresholds, of_spec, strict=True)
        ]
    network_used, memory_used = thresholds
    network_used = NETWORK_BYTES_PER_S_PER_CORE if network_used is None else network_used
    memory_used = MEMORY_BYTES_PER_CORE if memory_used is None else memory_used
    marks = qualify(load_catalog(beside).instances.values(), network_used, memory_used)
    Output("catalog qualify", json=json).show(
        LazyResult(
            document=lambda: _document(marks, network_used, memory_used),
            text=lambda: _text(marks, network_used, memory_used, every=every),
        )
    )


def _thresholds(network: str | None, memory: str | None) -> list[float | None]:
    """Thresholds on the command line; a rate is taken per core, with `/core` or without."""
    reader = Reader()
    if network is not None and "/" in network and not network.rstrip().endswith("core"):
        network = f"{network}/core"
    found = [reader.core_rate("--network", network), reader.size("--memory", memory)]
    reader.finish(True)
    return found


def _required(file: Path) -> list[float | None]:
    """What a spec asks of each core: the rate of all libraries together, as plan reads it, and memory."""
    from gridwright.cli.spec_file import load
    from gridwright.plan.needs import read_needs

    needs = read_needs(load(file))
    return [needs.rate(needs.libraries), needs.requirements.memory_per_core]


def _document(marks: Sequence[FamilyMarks], network: float, memory: float) -> dict[str, object]:
    return {
        "threshold_network_bytes_per_s_per_core": network,
        "threshold_memory_bytes_per_core": memory,
        "rule": RULE,
        "families": [_entry(mark) for mark in marks],
    }


def _entry(marks: FamilyMarks) -> dict[str, object]:
    published = marks.published
    return {
        "family": marks.family,
        "provider": marks.provider,
        "network_meets": marks.network_meets,
        "memory_meets": marks.memory_meets,
        "sizes": marks.sizes,
        "network_bytes_per_s_per_core": {"lowest": marks.network_lowest, "highest": marks.network_highest},
        "memory_bytes_per_core": {"lowest": marks.memory_lowest, "highest": marks.memory_highest},
        "network_misses": list(marks.network_misses),
        "memory_misses": list(marks.memory_misses),
        "current": marks.current,
        "published": None
        if published is None
        else {
            "network_meets": published.network_meets,
            "memory_meets": published.memory_meets,
            "fact_id": published.fact,
        },
    }


@printed
def _text(
    console: Console, marks: Sequence[FamilyMarks], network: float, memory: float, *, every: bool
) -> None:
    shown = [mark for mark in marks if every or mark.current or mark.published]
    columns = columns_of(
        ["family", "network", "memory", "published"],
        ["sizes", "MB/s per core", "GB per core", "sizes that miss"],
    )
    rows = (
        (
            each.family,
            _MARK[each.network_meets],
            _MARK[each.memory_meets],
            _published(each),
            str(each.sizes),
            _range(each.network_lowest / 1e6, each.network_highest / 1e6),
            _range(each.memory_lowest / 1e9, each.memory_highest / 1e9),
            str(len({*each.network_misses, *each.memory_misses})),
        )
        for each in shown
    )
    title = f"Families against {network / 1e6:g} MB/s and {memory / 1e9:g} GB for each physical core"
    console.print(framed(rows_table(title, columns, rows)))
    console.print(RULE, markup=False)
    console.print("Published: network/memory as paper 4632-2020 marks the family.", markup=False)
    if len(shown) < len(marks):
        console.print(f"{len(marks) - len(shown)} families of previous generations: --all", markup=False)


def _published(marks: FamilyMarks) -> str:
    words = {True: "yes", False: "no"}
    found = marks.published
    return f"{words[found.network_meets]}/{words[found.memory_meets]}" if found else ABSENT


def _range(low: float, high: float) -> str:
    return plain(low) if plain(low) == plain(high) else f"{plain(low)} to {plain(high)}"
