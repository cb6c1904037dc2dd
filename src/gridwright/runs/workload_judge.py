"""Judges a run of the workload, or the median of its repeats, against what is required of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.repeats import RepeatedFigure, known_values, reaches, repeated


def all_met(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are met: False if one is missed; None if one is open, or there is none."""
    known = {*answers}
    if False in known:
        return False
    return True if known == {True} else None


WAITED = 0.05
"""The part of the launches' real time that they wait for a library before it is judged: below it the library
held nothing back. The sentence on what held the cores back leaves out smaller parts, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNeeds(Extensible):
    """What is required of a run of the workload, and of each core of the libraries below it."""

    ratio: float | None = None
    tests: dict[str, float] = field(default_factory=dict)
    """CPU/real ratio by test."""
    real_s: float | None = None
    libraries: dict[str, float] = field(default_factory=dict)
    """Bytes per second and core, by library."""
    cores: int | None = None
    """Physical cores of all nodes."""

    @property
    def of_workload(self) -> bool:
        """Whether anything is required of the workload itself."""
        return self.ratio is not None or bool(self.tests) or self.real_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRequirement(Extensible):
    """One requirement, and what was measured; `met` is null where nothing was."""

    figure: Literal["ratio", "real_s", "bytes_per_s_per_core"]
    """CPU/real ratio; seconds from the first start to the last end; what a library delivered while launches
    waited for it, per core that waited."""
    of: str | None = None
    """The test or the library; null for the whole workload."""
    required: float
    measured: float | None
    met: bool | None
    waited_share: float | None = None
    """Of a library: the part of the launches' real time in which they waited for it."""
    repeats: int | None = field(default=None, metadata=LEFT_OUT)
    """Of how many repeats `measured` is the median; left out of a workload that was not repeated."""


def judge_workload(
    needs: WorkloadNeeds, launches: Sequence[LaunchRecord], wall_s: float | None, concurrency: float | None
) -> list[JudgedRequirement]:
    """Hold launches that ended well against what is required, and name libraries that held them back.

    `wall_s` is from the first start to the last end; `concurrency` is how many launches ran on average.
    """
    whole = [launch for launch in launches if launch.ok]
    return [*_judge_own(needs, whole, wall_s), *_judge_libraries(needs, whole, concurrency)]


def _judge_own(
    needs: WorkloadNeeds, whole: Sequence[LaunchRecord], wall_s: float | None
) -> list[JudgedRequirement]:
    """Hold launches that ended well against what is required of the workload itself, always in one order."""
    found = []
    if needs.ratio is not None:
        found.append(_ratio(None, needs.ratio, ratio_of(whole)))
    for test, required in needs.tests.items():
        found.append(_ratio(test, required, ratio_of(x for x in whole if x.test == test)))
    if needs.real_s is not None:
        met = wall_s <= needs.real_s if wall_s is not None else None
        found.append(JudgedRequirement(figure="real_s", required=needs.real_s, measured=wall_s, met=met))
    return found


def met_by(requirements: Sequence[JudgedRequirement]) -> bool | None:
    """Whether all requirements are met; None if there is none, or one is open."""
    return all_met(requirement.met for requirement in requirements)


def ratio_of(launches: Iterable[LaunchRecord]) -> float | None:
    """The CPU/real ratio that is judged: of single launches on average, or of the sums, whichever is lower.

    Many short launches that compute would hide a long one that waits in the mean, and the other way round
    in the sums. A launch on several cores counts as 1 at most: it would make up for others that wait.
    """
    return judged_ratio(
        ((launch.user_s or 0.0) + (launch.system_s or 0.0), launch.real_s)
        for launch in launches
        if launch.real_s and launch.user_s is not None
    )


def judged_ratio(times: Iterable[tuple[float, float]]) -> float | None:
    """The same of launches whose CPU and real seconds are given; None of none."""
    known = [(min(cpu, real), real) for cpu, real in times if real > 0.0]
    if not known:
        return None
    of_sums = sum(cpu for cpu, _ in known) / sum(real for _, real in known)
    return min(of_sums, statistics.fmean(cpu / real for cpu, real in known))


def _ratio(of: str | None, required: float, measured: float | None) -> JudgedRequirement:
    met = measured >= required if measured is not None else None
    return JudgedRequirement(figure="ratio", of=of, required=required, measured=measured, met=met)


def _judge_libraries(
    needs: WorkloadNeeds, launches: Sequence[LaunchRecord], concurrency: float | None
) -> list[JudgedRequirement]:
    """The libraries that launches, which ended well, waited for and that delivered less than they require.

    What was moved in all, through the page cache too, is put down to the time in which launches waited, so a
    library is never judged too low. More launches than cores share what the cores are owed. One that
    delivered enough is not proven by that: nothing may have been asked of it.
    """
    real_s = sum(launch.real_s or 0.0 for launch in launches)
    crowded = needs.cores is not None and concurrency is not None and concurrency > needs.cores
    share_of_core = (needs.cores or 1) / (concurrency or 1.0) if crowded else 1.0
    found = []
    for library, required in needs.libraries.items():
        traffic = [launch.libraries[library] for launch in launches if library in launch.libraries]
        waited_s = sum(each.read_wait_s + each.write_wait_s for each in traffic)
        if not real_s or waited_s < WAITED * real_s:
            continue
        moved = sum(each.read_bytes + each.written_bytes for each in traffic)
        delivered = moved / (waited_s * share_of_core)
        if delivered < required:
            found.append(
                JudgedRequirement(
                    figure="bytes_per_s_per_core",
                    of=library,
                    required=required,
                    measured=delivered,
                    met=False,
                    waited_share=waited_s / real_s,
                )
            )
    return found


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
        _judge_own(needs, [x for x in repeat.launches if x.ok], repeat.wall_s) for repeat in repeats
    ]
    found = [_by_median(one) for one in zip(*requirements, strict=True)]
    whole = [launch for repeat in repeats for launch in repeat.launches if launch.ok]
    return [*found, *_judge_libraries(needs, whole, concurrency)]


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
    yield repeated("wall_s", known_values(repeat.wall_s for repeat in counted), ran=ran)
    yield repeated("ratio", known_values(repeat.ratio for repeat in counted), ran=ran)
    for test in dict.fromkeys(launch.test for repeat in repeats for launch in repeat.launches):
        for figure, value in _OF_TEST.items():
            own = [[x for x in repeat.launches if x.ok and x.test == test] for repeat in counted]
            yield repeated(figure, known_values(map(value, own)), ran=ran, of=test)


def _real_s(launches: Sequence[LaunchRecord]) -> float | None:
    known = known_values(launch.real_s for launch in launches)
    return statistics.fmean(known) if known else None


_OF_TEST: dict[str, Callable[[Sequence[LaunchRecord]], float | None]] = {"real_s": _real_s, "ratio": ratio_of}
