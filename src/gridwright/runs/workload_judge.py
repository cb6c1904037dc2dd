"""Judges a run of the workload: against what is required of it, and of the libraries that it waited for."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.answers import all_met
from gridwright.runs.launch_record import LaunchRecord

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
    return [*judge_own(needs, whole, wall_s), *judge_libraries(needs, whole, concurrency)]


def judge_own(
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


def judge_libraries(
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
