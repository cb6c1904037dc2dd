"""Makes the record of iotest from its events: the same way for a run that ended and one that was killed.

Compares the phases of a test in two layouts, operation by operation.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gridwright.errors import Finding, Problem
from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import (
    DeviceDetected,
    IotestEvent,
    LayoutSeen,
    LibraryBegun,
    LibraryDone,
    NodesKnown,
    PhaseBegun,
    PhaseDone,
    RepeatBegun,
    SampleTaken,
)
from gridwright.runs.journal import recorded_finding
from gridwright.runs.phase_record import (
    ActualLayout,
    LayoutComparison,
    LayoutFigure,
    Op,
    PhaseRecord,
    RecordedNode,
    Status,
    Sweep,
)
from gridwright.runs.records import (
    FindingRecord,
    IotestRecord,
    LibraryRecord,
    interference_finding,
    interference_words,
)
from gridwright.runs.repeats import LEAST_PAIRS, PairedContrast, paired
from gridwright.runs.samples import SampleRow
from gridwright.runs.verdict import counts, has_no_verdict, judge_library, judge_run, repeated_figures

_ALIKE = "no difference: files had the same layout on both sides"


def compared(library: LibraryRecord) -> LayoutComparison | None:
    """The comparison of a library with its figures; None where one layout alone was tested."""
    layouts = library.layouts
    if layouts is None:
        return None
    figures = _figures(library.phases, layouts.phases)
    if layouts.alike:
        # What differs then is chance, whatever the interval says.
        figures = [replace(figure, differs=False, verdict=_ALIKE) for figure in figures]
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
    contrast = paired(a, b)
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
        ratio=contrast.ratio if contrast else None,
        low=contrast.low if contrast else None,
        high=contrast.high if contrast else None,
        lowest=min(ratios, default=None),
        highest=max(ratios, default=None),
        differs=contrast.differs if contrast else None,
        least_change=contrast.least_change if contrast else None,
        verdict=_verdict(len(a), ran, contrast),
    )


def _verdict(pairs: int, ran: int, contrast: PairedContrast | None) -> str:
    if contrast is None:
        return f"nothing can be told: {pairs} of {ran} pairs count, and it takes {LEAST_PAIRS}"
    if contrast.differs:
        faster = "faster" if contrast.ratio > 1 else "slower"
        return f"the chosen layout is {faster}: {contrast.ratio:.3g} times the default"
    part = contrast.least_change * 100
    least = f"{part:.2g} %" if part < 10 else f"{part:.0f} %"
    told_by = f"{pairs} pairs could show; they would tell one of {least} four times out of five"
    return f"no difference that {told_by}"


@dataclass(slots=True)
class IotestReducer:
    """Takes events one by one; `record` is what they amount to so far."""

    libraries: list[LibraryRecord] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    nodes: list[RecordedNode] = field(default_factory=list)
    _repeat: int | None = None
    _tested: int = -1
    """The library that is being tested, by its place in the list."""
    _chosen: bool = False
    """Whether it is tested in a chosen layout, beside its own."""
    _open: PhaseBegun | None = None
    _moved: list[SampleRow] = field(default_factory=list)

    def take(self, event: IotestEvent) -> None:
        """Account for one event."""
        match event:
            case LibraryBegun():
                self._close_open("interrupted")
                self._begin(event)
            case RepeatBegun():
                self._close_open("interrupted")
                self._repeat = event.number
            case NodesKnown():
                self.nodes = event.nodes
            case Finding() | Problem():
                # What is wrong with a library is told in each repeat.
                if (record := recorded_finding(event, failure="library-failed")) not in self.findings:
                    self.findings.append(record)
            case PhaseBegun():
                self._open, self._moved = event, []
            case SampleTaken():
                self._sample(event)
            case LibraryDone():
                self._close_open(event.status)
            case DeviceDetected() if self.libraries:
                library = self.libraries[self._tested]
                self.libraries[self._tested] = replace(library, device=event.device)
            case PhaseDone() if self.libraries:
                self._open = None
                self._phases().append(replace(event.phase, repeat=self._repeat))
            case LayoutSeen() if self.libraries:
                self._set_actual_layout(event.layout)
            case Sweep() if self.libraries:
                self.libraries[self._tested].sweeps.append(event)

    def record(self, run: str, status: Status) -> IotestRecord:
        """Judge what was measured. `status` is that of the run."""
        if status != "running":
            self._close_open("interrupted")
        unknown = has_no_verdict(status, self.findings)
        for number, library in enumerate(self.libraries):
            broken = unknown and any(phase.status == "failed" for phase in _all_phases(library))
            self.libraries[number] = replace(
                library,
                met=None if broken else judge_library(library),
                repeats=repeated_figures(library.phases),
                layouts=compared(library),
            )
        return IotestRecord(
            run=run,
            status=status,
            libraries=self.libraries,
            findings=[*self.findings, *self._disturbed(), *filter(None, map(alike_finding, self.libraries))],
            met=None if unknown else judge_run(self.libraries),
            nodes=self.nodes,
        )

    def _begin(self, event: LibraryBegun) -> None:
        """Turn to a library: to that of the first repeat, where it is tested again."""
        names = [library.library for library in self.libraries]
        asked = event.layout
        self._chosen = asked is not None and asked.chosen
        if self._repeat is not None and event.library in names:
            self._tested = names.index(event.library)
            return
        self._tested = len(self.libraries)
        layouts = LayoutComparison(name=asked.name, text=asked.text) if asked else None
        self.libraries.append(
            LibraryRecord(**shared_fields(event, LibraryRecord), met=None, more=event.more, layouts=layouts)
        )

    def _phases(self) -> list[PhaseRecord]:
        """Those of the library in the layout that is being tested."""
        library = self.libraries[self._tested]
        return library.layouts.phases if self._chosen and library.layouts else library.phases

    def _set_actual_layout(self, layout: ActualLayout) -> None:
        library = self.libraries[self._tested]
        if library.layouts is not None:
            layouts = library.layouts
            layouts = (
                replace(layouts, chosen_found=layout)
                if layout.chosen
                else replace(layouts, default_found=layout)
            )
            self.libraries[self._tested] = replace(library, layouts=layouts)

    def _disturbed(self) -> Iterator[FindingRecord]:
        """What disturbed phases, all in one."""
        phases = [(library.library, phase) for library in self.libraries for phase in _all_phases(library)]
        found = [(name, phase) for name, phase in phases if phase.disturbances]
        if not found:
            return
        ops: dict[str, list[str]] = {}
        for name, phase in found:
            ops.setdefault(name, []).append(phase.op)
        which = ", ".join(f"{' and '.join(dict.fromkeys(each))} of {name}" for name, each in ops.items())
        said = interference_words(interference for _, phase in found for interference in phase.disturbances)
        allowed = found[0][1].asked.allow_disturbed
        text = f"{len(found)} of {len(phases)} phases were disturbed, {which}: {said}"
        left_out = "" if allowed or self._repeat is None else "; those repeats do not count"
        yield interference_finding(f"{text}{left_out}", allowed=allowed)

    def _sample(self, event: SampleTaken) -> None:
        library = self.libraries[self._tested].library if self.libraries else None
        row = SampleRow(**shared_fields(event, SampleRow), library=library)
        self.samples.append(row)
        self._moved.append(row)

    def _close_open(self, status: Status) -> None:
        """Keep what the samples say of a phase that never came to its result."""
        event, self._open = self._open, None
        if event is None or not self.libraries:
            return
        read = sum(row.read_bytes or 0 for row in self._moved)
        written = sum(row.written_bytes or 0 for row in self._moved)
        seconds = max((row.elapsed_s or 0.0 for row in self._moved), default=None)
        self._phases().append(
            PhaseRecord(
                **shared_fields(event, PhaseRecord),
                repeat=self._repeat,
                status="interrupted" if status == "complete" else status,
                bytes=read + written if self._moved else None,
                read_bytes=read if self._moved else None,
                written_bytes=written if self._moved else None,
                seconds_last=seconds,
                # Without its closing fsync a write has no rate; see gridwright.iotest.outcome.
                rate_last_bytes_per_s=read / seconds if seconds and read and not written else None,
            )
        )


def _all_phases(library: LibraryRecord) -> list[PhaseRecord]:
    """Those in its own layout, and those in a chosen one."""
    return [*library.phases, *(library.layouts.phases if library.layouts else ())]
