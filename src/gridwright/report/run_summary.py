"""A run in one line: its verdict, its grade, and the figure that is closest to what is required."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.report.figures import ABSENT, against, plain, required
from gridwright.report.verdict import LibraryVerdict, verdict_in_words
from gridwright.runs.directory import LoadedRun
from gridwright.runs.records import figures_of
from gridwright.runs.stream_sweep import jobs
from gridwright.runs.verdict import VerdictKind

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
