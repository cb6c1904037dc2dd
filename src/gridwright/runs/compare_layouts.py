"""Compares the phases of a test in two layouts, operation by operation."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridwright.runs.judge import counts
from gridwright.runs.layout_comparison import LayoutComparison, LayoutFigure
from gridwright.runs.phase_record import Op, PhaseRecord
from gridwright.runs.records import FindingRecord, LibraryRecord
from gridwright.runs.repeats import LEAST_PAIRS, PairedContrast, paired

_ALIKE = "no difference: files had the same layout on both sides"


def compared(library: LibraryRecord) -> LayoutComparison | None:
    """The comparison of a library with its figures; None where one layout alone was tested."""
    layouts = library.layouts
    if layouts is None:
        return None
    figures = _figures(library.phases, layouts.phases)
    if layouts.alike:
        # What differs then is chance, whatever the interval says.
        figures = [replace(each, differs=False, verdict=_ALIKE) for each in figures]
    return replace(layouts, figures=figures)


def alike_finding(library: LibraryRecord) -> FindingRecord | None:
    """Tell that both layouts were the same; None where they were not, or nobody knows."""
    layouts = library.layouts
    if layouts is None or layouts.default_found is None or not layouts.alike:
        return None
    return FindingRecord(
        level="warning",
        name="layouts-alike",
        text=f"library {library.library}: files had the layout {layouts.default_found.text} on both sides, "
        "so that nothing was compared",
        remedy="choose another layout than that of the directory; a file has no more stripes than there are "
        "targets",
    )


def _figures(own: Iterable[PhaseRecord], chosen: Iterable[PhaseRecord]) -> list[LayoutFigure]:
    sides = _by_operation(own), _by_operation(chosen)
    ops = dict.fromkeys(op for side in sides for op in side)
    return [_figure(op, *(side.get(op, {}) for side in sides)) for op in ops]


def _by_operation(phases: Iterable[PhaseRecord]) -> dict[Op, dict[int, PhaseRecord]]:
    """Phases by operation and repeat."""
    found: dict[Op, dict[int, PhaseRecord]] = {}
    for phase in phases:
        if phase.repeat is not None:
            found.setdefault(phase.op, {})[phase.repeat] = phase
    return found


def _figure(op: Op, own: Mapping[int, PhaseRecord], chosen: Mapping[int, PhaseRecord]) -> LayoutFigure:
    figure = "ops_per_s" if op == "metadata" else "per_core_bytes_per_s"
    a: list[float] = []
    b: list[float] = []
    for repeat in sorted(own.keys() & chosen.keys()):
        both = own[repeat], chosen[repeat]
        values = [getattr(phase, figure) for phase in both if counts(phase) and not phase.failed_nodes]
        if len(values) == len(both) and all(values):
            a.append(values[0])
            b.append(values[1])
    told = paired(a, b)
    ratios = [second / first for first, second in zip(a, b, strict=True)]
    ran = len(own.keys() | chosen.keys())
    return LayoutFigure(
        of=op,
        figure=figure,
        ran=ran,
        default=a,
        chosen=b,
        default_median=statistics.median(a) if a else None,
        chosen_median=statistics.median(b) if b else None,
        ratio=told.ratio if told else None,
        low=told.low if told else None,
        high=told.high if told else None,
        lowest=min(ratios, default=None),
        highest=max(ratios, default=None),
        differs=told.differs if told else None,
        least_change=told.least_change if told else None,
        verdict=_verdict(len(a), ran, told),
    )


def _verdict(pairs: int, ran: int, told: PairedContrast | None) -> str:
    if told is None:
        return f"nothing can be told: {pairs} of {ran} pairs count, and it takes {LEAST_PAIRS}"
    if told.differs:
        faster = "faster" if told.ratio > 1 else "slower"
        return f"the chosen layout is {faster}: {told.ratio:.3g} times the default"
    part = told.least_change * 100
    least = f"{part:.2g} %" if part < 10 else f"{part:.0f} %"
    told_by = f"{pairs} pairs could show; they would tell one of {least} four times out of five"
    return f"no difference that {told_by}"
