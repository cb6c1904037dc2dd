"""Makes the plan of a replay: a launch for each job of the profiles, in the streams in which they ran."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gridwright.runs.profiles import LaunchProfile, Profiles
from gridwright.spec.model import LibraryName
from gridwright.units import Bytes
from gridwright.workload.matrix import Matrix, MatrixEntry
from gridwright.workload.options import WorkloadOptions
from gridwright.workload.programs.registry import REPLAY
from gridwright.workload.replays.work import ReplayPhase, ReplayWork
from gridwright.workload.scales import Scale

_SPARE_MEMORY = 256 << 20
"""What the replaying process itself takes, and then some."""
_TIMES_AS_LONG = 20.0
"""A launch that takes so many times as long as its job is ended."""


def replay_options(
    profiles: Profiles, streams: Sequence[Sequence[str]], scale: Scale, *, hold_memory: bool, keep: bool
) -> WorkloadOptions:
    """The options of a run that replays these streams; `scale` is that of the tables it reads."""
    chosen = profiles.of(test for stream in streams for test in stream)
    works = {name: _work(profile, hold_memory) for name, profile in chosen.items()}
    entries = {
        name: MatrixEntry.model_construct(
            test=REPLAY,
            name=name,
            command=None,
            cores=profile.cores,
            memory=Bytes(_SPARE_MEMORY + round(1.25 * works[name].memory_bytes)),
            time_limit=max(scale.time_limit_s, _TIMES_AS_LONG * profile.real_s),
        )
        for name, profile in chosen.items()
    }
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", f"replay-of-{profiles.run}")[:63]
    matrix = Matrix.model_construct(
        name=label,
        description="",
        source="",
        copies=1,
        streams=tuple(tuple(entries[name] for name in stream) for stream in streams),
    )
    return WorkloadOptions(matrix=matrix, scale=scale, keep=keep, replayed=works)


def _by_name(sizes: Mapping[LibraryName, int]) -> dict[str, int]:
    return {str(library): size for library, size in sizes.items()}


def _work(profile: LaunchProfile, hold_memory: bool) -> ReplayWork:
    phases = [
        ReplayPhase(
            cpu_s=phase.cpu_s,
            threads=phase.threads,
            read_bytes=_by_name(phase.read_bytes),
            written_bytes=_by_name(phase.written_bytes),
            cached_bytes=_by_name(phase.cached_bytes or {}),
        )
        for phase in profile.phases
    ]
    return ReplayWork(phases, (profile.peak_memory_bytes or 0) if hold_memory else 0)
