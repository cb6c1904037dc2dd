"""The verdict in words: is each requirement met, by which figure, and why not; and a run in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.report import figures
from gridwright.report.figures import ABSENT, against, listed, part_of, plain, required
from gridwright.report.table import MARKS, Mark, mark_of, mark_of_repeats, phase_of
from gridwright.report.workload.tables import judged_sentence, unjudged_sentence
from gridwright.runs.directory import LoadedRun
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import IotestRecord, LibraryRecord, RunRecord, figures_of, interference_words
from gridwright.runs.stream_sweep import jobs
from gridwright.runs.verdict import (
    JUDGED,
    JUDGED_KINDS,
    Grade,
    VerdictKind,
    has_wrong_data,
    unrequired,
    verdict_on,
    workload_met,
)
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import counted

HEADLINES: dict[VerdictKind, str] = {
    "met": "Requirements met",
    "missed": "Requirements missed",
    "unproven": "Not proven",
    "unrequired": "No requirement",
    "interrupted": "Interrupted: no verdict",
    "failed": "Failed: no verdict",
    "running": "Still running: no verdict",
}
LIBRARY_WORDS: dict[VerdictKind, str] = {
    "met": "met",
    "missed": "missed",
    "unproven": "not proven",
    "unrequired": "no requirement",
    "interrupted": "no verdict",
    "failed": "no verdict",
    "running": "no verdict",
}


@dataclass(frozen=True, slots=True)
class Score:
    """One operation of one library against what the library requires."""

    op: str
    mark: Mark
    rate: float | None
    text: str
    of_required: str
    node: str = ""
    """The node that it is of, where that is slower than the others."""

    @property
    def word(self) -> str:
        """The mark in words."""
        return MARKS[self.mark]


@dataclass(frozen=True, slots=True)
class LibraryVerdict:
    """One library against its requirement, by write and by read."""

    library: str
    filesystem: str
    kind: VerdictKind
    word: str
    required: float | None
    required_text: str
    scores: tuple[Score, ...]
    failed: tuple[str, ...] = ()
    """Operations that failed, such as a read that brought back wrong data."""
    disturbers: str = ""
    """What disturbed the operations that are not judged for it, in words."""
    repeats: int | None = None
    """Of how many repeats each rate is the median, at the least; None where it was measured once."""
    below: int = 0
    """How many rates of single repeats are below the requirement."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole run, in a headline and a sentence; `not_shown` says what its length leaves open."""

    kind: VerdictKind
    headline: str
    sentence: str
    libraries: tuple[LibraryVerdict, ...]
    grade: Grade | None = None
    not_shown: str = ""

    @property
    def colour_key(self) -> str:
        """The kind, for its colour: what a quick look meets is not shown as proven."""
        return "glimpsed" if self.kind == "met" and self.grade == "quick look" else self.kind


def _kind(met: bool | None) -> VerdictKind:
    return "unproven" if met is None else "met" if met else "missed"


def verdict_in_words(
    run: RunRecord, iotest: IotestRecord | None, workload: WorkloadRecord | None = None
) -> Verdict:
    """Put the verdict of a run into words."""
    kind = verdict_on(run, iotest, workload)
    libraries = tuple(_library(record, kind) for record in iotest.libraries) if iotest else ()
    if workload is None:
        sentence = _SENTENCES[kind](libraries)
    elif iotest is None or not iotest.libraries:
        sentence = _workload_sentence(kind, workload, run)
    else:
        sentence = _both_sentences(kind, libraries, iotest, workload)
    if run.unmeasured and kind in JUDGED_KINDS:
        sentence += f" Required, and not measured by this run: {listed(run.unmeasured)}."
    sentence += _although(iotest)
    headline = _headline(kind, iotest, workload)
    if run.grade == "quick look":
        headline = f"Quick look: {headline[0].lower()}{headline[1:]}"
    return Verdict(kind, headline, sentence, libraries, run.grade, _not_shown(run))


def _not_shown(run: RunRecord) -> str:
    """What the run leaves open: its length, and what the host of a guest may hold in memory."""
    said = run.not_shown or ""
    if run.grade is None or run.host.hypervisor is None:
        return said
    host = f"What the host of this guest ({run.host.hypervisor}) held in memory is not known."
    return f"{said} {host}".strip()


def _headline(kind: VerdictKind, iotest: IotestRecord | None, workload: WorkloadRecord | None) -> str:
    if kind == "missed" and iotest is not None and has_wrong_data(iotest.findings):
        return "Data were wrong"
    if kind == "met" and workload is not None and unrequired(workload):
        return "Requirements of libraries met; no requirement on the workload"
    if kind == "unrequired":
        return f"{HEADLINES[kind]} on the {'workload' if workload is not None else 'libraries'}"
    return HEADLINES[kind]


def _although(iotest: IotestRecord | None) -> str:
    """What disturbed phases that are judged all the same; empty if nothing did."""
    libraries = iotest.libraries if iotest else []
    phases = [phase for library in libraries for phase in library.phases if not phase.doubtful]
    said = interference_words(interference for phase in phases for interference in phase.disturbances)
    return f" Judged although disturbed: {said}." if said else ""


def _workload_sentence(kind: VerdictKind, workload: WorkloadRecord, run: RunRecord) -> str:
    if kind in _OPENINGS:
        return unjudged_sentence(workload, _OPENINGS[kind])
    said = judged_sentence(workload)
    if run.met is False and workload_met(workload) is not False:
        return f"{said} Another check of this run failed; see the findings."
    return said


def _both_sentences(
    kind: VerdictKind, libraries: tuple[LibraryVerdict, ...], iotest: IotestRecord, workload: WorkloadRecord
) -> str:
    """The libraries by their own verdict, then the workload: the one need not be missed with the other."""
    if kind in _OPENINGS:
        return f"{_SENTENCES[kind](libraries)} {unjudged_sentence(workload)}"
    own = _kind(iotest.met)
    if kind == "missed" and iotest.met is not False and workload_met(workload) is not False:
        own = "missed"
    return f"{_SENTENCES[own](libraries)} {judged_sentence(workload)}"


def _library(record: LibraryRecord, run_kind: VerdictKind) -> LibraryVerdict:
    judged = run_kind in JUDGED_KINDS
    required = record.requires_bytes_per_s_per_core
    scores = []
    values: list[list[float]] = []
    for op in JUDGED:
        phase = phase_of(record, op)
        rate = phase.judged_bytes_per_s_per_core if phase else None
        mark = mark_of(phase, required, judged)
        if counted := [repeat for repeat in record.repeats if repeat.of == op]:
            rate, mark = counted[0].median or rate, mark_of_repeats(record, op, judged)
            values += [counted[0].values]
        node = _slow_node(phase) if phase is not None else ""
        scores.append(Score(op, mark, rate, against(rate, required), part_of(rate, required), node))
    kind: VerdictKind = run_kind
    word = LIBRARY_WORDS[run_kind]
    if judged:
        kind = "unproven" if record.met is None else "met" if record.met else "missed"
        word = "no requirement" if required is None and record.met is None else LIBRARY_WORDS[kind]
    return LibraryVerdict(
        library=record.library,
        filesystem=record.filesystem or "",
        kind=kind,
        word=word,
        required=required,
        required_text=figures.required(required),
        scores=tuple(scores),
        failed=tuple(dict.fromkeys(phase.op for phase in record.phases if phase.status == "failed")),
        repeats=min(map(len, values), default=None),
        below=sum(value < (required or 0.0) for each in values for value in each),
        # The worst alone: a finding names the others.
        disturbers=interference_words(
            (
                interference
                for phase in record.phases
                if phase.doubtful
                for interference in phase.disturbances
            ),
            most=1,
        ),
    )


def _slow_node(phase: PhaseRecord) -> str:
    """The node whose figure is judged, where it is a tenth below that of all nodes together."""
    slowest, whole = phase.slowest_node, phase.per_core_bytes_per_s
    if slowest is None or whole is None or (slowest.per_core_bytes_per_s or 0.0) > 0.9 * whole:
        return ""
    return slowest.node if slowest.per_core_bytes_per_s == phase.judged_bytes_per_s_per_core else ""


def _rates(library: LibraryVerdict, lead: bool = True) -> str:
    """`work writes 131 and reads 98.4 MB/s per core and requires 125`."""
    if library.failed:
        return f"the {listed(list(library.failed))} of {library.library} failed; see the findings"
    verbs = {"write": "writes", "read": "reads"}
    said = [
        f"{verbs[score.op]} {score.text}{f' (node {score.node})' if score.node else ''}"
        for score in library.scores
        if score.rate is not None
    ]
    if not said:
        return f"{library.library} has no figure"
    measured = f"{library.library} {listed(said)} MB/s per core"
    if library.repeats:
        measured += f" in the median of {counted(library.repeats, 'repeat')}"
    if library.required is None:
        return measured
    below = (
        f" ({counted(library.below, 'repeat')} stayed below)"
        if library.below and library.kind == "met"
        else ""
    )
    return f"{measured} against the {library.required_text}{' it requires' if lead else ''}{below}"


def _together(libraries: list[LibraryVerdict]) -> str:
    return "; ".join(_rates(library, lead=not i) for i, library in enumerate(libraries))


def _sentence(text: str) -> str:
    """The text as a sentence; the name of a library keeps its small letter."""
    return f"The{text[3:]}." if text.startswith("the ") else f"{text}."


def _headroom(library: LibraryVerdict) -> float:
    rates = [score.rate for score in library.scores if score.rate is not None]
    return min(rates) / library.required if rates and library.required else float("inf")


def _met(libraries: tuple[LibraryVerdict, ...]) -> str:
    required = [library for library in libraries if library.required is not None]
    if not required:
        return "Every check of this run passed."
    if len(required) == 1:
        return f"{_rates(required[0])}."
    closest = min(required, key=_headroom)
    every = "Both" if len(required) == 2 else f"All {len(required)}"
    return f"{every} libraries reach their required rate; the closest, {_rates(closest)}."


def _missed(libraries: tuple[LibraryVerdict, ...]) -> str:
    missed = [library for library in libraries if library.kind == "missed"]
    if not missed:
        return "No library misses its requirement, but another check of this run failed; see the findings."
    rest = []
    met = [library.library for library in libraries if library.kind == "met"]
    unproven = [lib.library for lib in libraries if lib.kind == "unproven" and lib.required is not None]
    if met:
        rest.append(f"{listed(met)} {'meets its' if len(met) == 1 else 'meet their'} requirement")
    if unproven:
        rest.append(f"{listed(unproven)} {'is' if len(unproven) == 1 else 'are'} not proven")
    return _sentence(f"{_together(missed)}{'; ' + ', '.join(rest) if rest else ''}")


def _doubt(library: LibraryVerdict) -> str:
    """Why a library is not proven."""
    cached = [score.op for score in library.scores if score.mark == "cached"]
    absent = [score.op for score in library.scores if score.mark == "unmeasured"]
    partial = [score.op for score in library.scores if score.mark == "partial"]
    disturbed = [score.op for score in library.scores if score.mark == "disturbed"]
    untold = [score.op for score in library.scores if score.mark == "untold"]
    falling = [score.op for score in library.scores if score.mark == "falling"]
    reasons = []
    if falling:
        reasons.append(f"{_rates(library)}, but the {listed(falling)} still fell to less when it ended")
    if untold:
        cannot = f"so few repeats of so much spread cannot tell the {listed(untold)} from that"
        reasons.append(f"{_rates(library)}, but {cannot}")
    if disturbed:
        reasons.append(f"the {listed(disturbed)} of {library.library} was disturbed ({library.disturbers})")
    if cached:
        what = f"the {listed(cached)} of {library.library}"
        reasons.append(f"{what} came from the page cache and does not count")
    if partial:
        reasons.append(f"the {listed(partial)} of {library.library} was measured without all nodes")
    if absent:
        reasons.append(f"the {listed(absent)} of {library.library} was not measured")
    return ", and ".join(reasons) or f"{_rates(library)}, but this could not be judged"


def _unproven(libraries: tuple[LibraryVerdict, ...]) -> str:
    required = [library for library in libraries if library.required is not None]
    if not libraries:
        return "This run measured no library, so there is nothing to judge."
    if not required:
        return "The grid spec requires no rate of any library, so there is nothing to judge."
    doubted = [library for library in required if library.kind == "unproven"]
    met = [library.library for library in required if library.kind == "met"]
    rest = f"; {listed(met)} {'meets its' if len(met) == 1 else 'meet their'} requirement" if met else ""
    text = "; ".join(_doubt(library) for library in doubted)
    return _sentence(f"{text}{rest}") if text else "Not every requirement could be judged."


def _until_then(libraries: tuple[LibraryVerdict, ...], opening: str) -> str:
    measured = [library for library in libraries if any(score.rate is not None for score in library.scores)]
    if not measured:
        return f"{opening} before a figure was complete."
    return f"{opening}, so no requirement is judged. Measured until then: {_together(measured)}."


_OPENINGS: dict[VerdictKind, str] = {
    "interrupted": "The run was interrupted",
    "failed": "The run failed",
    "running": "The run has not ended",
}
_SENTENCES: dict[VerdictKind, Callable[[tuple[LibraryVerdict, ...]], str]] = {
    "met": _met,
    "missed": _missed,
    "unproven": _unproven,
    "unrequired": _unproven,
    "interrupted": lambda libraries: _until_then(libraries, _OPENINGS["interrupted"]),
    "failed": lambda libraries: _until_then(libraries, _OPENINGS["failed"]),
    "running": lambda libraries: _until_then(libraries, _OPENINGS["running"]),
}


KINDS: dict[VerdictKind, str] = {
    "met": "met",
    "missed": "missed",
    "unproven": "not proven",
    "unrequired": "no requirement",
    "interrupted": "interrupted",
    "failed": "failed",
    "running": "running",
}


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a list of runs says of one."""

    kind: VerdictKind
    grade: str | None
    """How much the run proves, such as `quick look`; None where its record does not say."""
    library: str | None = None
    op: str | None = None
    """The library and the operation of the figure; None for the workload."""
    requires_bytes_per_s_per_core: float | None = None
    per_core_bytes_per_s: float | None = None
    ratio: float | None = None
    """Mean CPU/real ratio of the launches, for a run of a workload alone."""
    carries: int | None = None
    """Jobs at once, for a sweep."""
    at_least: bool = False
    """Whether it may be more."""

    @property
    def requirement_text(self) -> str:
        """Such as `work 125 MB/s/core`."""
        if self.requires_bytes_per_s_per_core is None:
            return ABSENT
        return f"{self.library} {required(self.requires_bytes_per_s_per_core)} MB/s/core"

    @property
    def figure_text(self) -> str:
        """Such as `98.4 read`, and the library where nothing says of which one it is."""
        if self.carries is not None:
            return f"{'at least ' if self.at_least else ''}{jobs(self.carries)}"
        if self.ratio is not None:
            return f"CPU/real {plain(self.ratio)}"
        if self.per_core_bytes_per_s is None:
            return ABSENT
        said = f"{against(self.per_core_bytes_per_s, self.requires_bytes_per_s_per_core)} {self.op}"
        return said if self.requires_bytes_per_s_per_core is not None else f"{self.library} {said}"

    def document(self) -> dict[str, Any]:
        """The requirement and the figure, as JSON has them; null where there is none."""
        of = {"library": self.library, "op": self.op}
        rate, required = self.per_core_bytes_per_s, self.requires_bytes_per_s_per_core
        figure: dict[str, Any] | None = {**of, "per_core_bytes_per_s": rate} if rate is not None else None
        if self.carries is not None:
            figure = {"carries": self.carries, "at_least": self.at_least}
        return {
            "verdict": self.kind,
            "grade": self.grade,
            "requirement": {**of, "requires_bytes_per_s_per_core": required}
            if required is not None
            else None,
            "figure": {"cpu_real_ratio": self.ratio} if self.ratio is not None else figure,
        }


def is_summed_up(run: LoadedRun) -> bool:
    """Whether its figures fit each other: a list leaves out what is damaged."""
    try:
        with figures_of(run.path):
            summary = summarize(run)
            _ = summary.requirement_text, summary.figure_text
    except GridwrightError:
        return False
    return True


def summarize(loaded: LoadedRun) -> RunSummary:
    """Sum a run up: by the library that comes closest to its requirement, or falls the furthest below it."""
    verdict = verdict_in_words(loaded.run, loaded.iotest, loaded.workload)
    grade = loaded.run.grade
    if loaded.sweep is not None:
        kind = verdict.kind if verdict.kind != "unproven" or not loaded.sweep.carries else "unrequired"
        return RunSummary(kind, grade, carries=loaded.sweep.carries, at_least=loaded.sweep.at_least)
    if not verdict.libraries:
        ratio = loaded.workload.summary.ratio_mean if loaded.workload else None
        return RunSummary(verdict.kind, grade, ratio=ratio)
    library = min(verdict.libraries, key=lambda each: (each.required is None, _share(each)))
    op, rate = _lowest(library)
    return RunSummary(verdict.kind, grade, library.library, op, library.required, rate)


def _lowest(library: LibraryVerdict) -> tuple[str | None, float | None]:
    """The lower one of its figures, and of what it is."""
    measured = [(score.rate, score.op) for score in library.scores if score.rate is not None]
    rate, op = min(measured, default=(None, None))
    return op, rate


def _share(library: LibraryVerdict) -> float:
    """What part of its requirement a library reaches; without one, its figure itself."""
    rate = _lowest(library)[1]
    return float("inf") if rate is None else rate / (library.required or 1.0)
