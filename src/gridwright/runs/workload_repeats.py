"""The repeats of a workload: cut out of its launches, summed up test by test, and judged by their median."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.repeats import RepeatedFigure, reaches, repeated
from gridwright.runs.workload_judge import (
    JudgedRequirement,
    WorkloadNeeds,
    judge_libraries,
    judge_own,
    ratio_of,
)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The launches of one repeat; of all, where the workload was not repeated."""

    launches: Sequence[LaunchRecord]
    whole: bool
    """Whether it ran to its end."""

    @property
    def disturbed(self) -> bool:
        """Whether a launch of it was."""
        return any(launch.disturbed for launch in self.launches)

    @property
    def wall_s(self) -> float | None:
        """Seconds from the first start to the last end."""
        starts = [launch.started for launch in self.launches if launch.started is not None]
        ends = [launch.ended for launch in self.launches if launch.ended is not None]
        return max(ends) - min(starts) if starts and ends else None

    @property
    def ratio(self) -> float | None:
        """The CPU/real ratio that is judged."""
        return ratio_of(launch for launch in self.launches if launch.ok)


def repeats_of(launches: Sequence[LaunchRecord], size: int | None) -> list[Repeat]:
    """The repeats in their order; `size` is how many launches each has, None where it is not known."""
    groups: dict[int | None, list[LaunchRecord]] = {}
    for launch in launches:
        groups.setdefault(launch.repeat, []).append(launch)
    return [
        Repeat(group, whole=number is None or size is None or len(group) >= size)
        for number, group in groups.items()
    ]


def counting_repeats(repeats: Sequence[Repeat], *, allow_disturbed: bool) -> list[Repeat]:
    """Those that ran to their end undisturbed, or `allow_disturbed`."""
    return [repeat for repeat in repeats if repeat.whole and (allow_disturbed or not repeat.disturbed)]


def judge_repeats(
    needs: WorkloadNeeds, repeats: Sequence[Repeat], concurrency: float | None
) -> list[JudgedRequirement]:
    """Hold the median of repeats that count against what is required; libraries over all their launches.

    Open where the median reaches a requirement by no more than chance can do.
    """
    requirements = [
        judge_own(needs, [x for x in repeat.launches if x.ok], repeat.wall_s) for repeat in repeats
    ]
    found = [_by_median(one) for one in zip(*requirements, strict=True)]
    whole = [launch for repeat in repeats for launch in repeat.launches if launch.ok]
    return [*found, *judge_libraries(needs, whole, concurrency)]


def _by_median(one: Sequence[JudgedRequirement]) -> JudgedRequirement:
    """One requirement, judged in each repeat, as judged over all."""
    values = [requirement.measured for requirement in one if requirement.measured is not None]
    first = one[0]
    return JudgedRequirement(
        figure=first.figure,
        of=first.of,
        required=first.required,
        measured=statistics.median(values) if values else None,
        met=reaches(values, first.required, at_most=first.figure == "real_s"),
        repeats=len(values),
    )


def repeated_workload(
    repeats: Sequence[Repeat], *, ran: int, allow_disturbed: bool
) -> Iterator[RepeatedFigure]:
    """Real time and CPU/real ratio of the workload in all, then of each test, over `ran` repeats begun."""
    counted = counting_repeats(repeats, allow_disturbed=allow_disturbed)
    yield repeated("wall_s", _known(repeat.wall_s for repeat in counted), ran=ran)
    yield repeated("ratio", _known(repeat.ratio for repeat in counted), ran=ran)
    for test in dict.fromkeys(launch.test for repeat in repeats for launch in repeat.launches):
        for figure, value in _OF_TEST.items():
            own = [[x for x in repeat.launches if x.ok and x.test == test] for repeat in counted]
            yield repeated(figure, _known(map(value, own)), ran=ran, of=test)


def _real_s(launches: Sequence[LaunchRecord]) -> float | None:
    known = _known(launch.real_s for launch in launches)
    return statistics.fmean(known) if known else None


_OF_TEST: dict[str, Callable[[Sequence[LaunchRecord]], float | None]] = {"real_s": _real_s, "ratio": ratio_of}


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
