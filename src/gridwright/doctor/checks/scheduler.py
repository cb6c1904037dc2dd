"""Checks of the scheduler's own settings: a site's are its own, so they are looked at and never written."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.doctor.check import NodeJudgement, Topic, idle, judged
from gridwright.doctor.observation import Observation

SCHEDULER = Topic("Scheduler")


@SCHEDULER.check(
    "scheduler-setting-harmful",
    "warning",
    "a setting of the scheduler loses jobs or nodes",
    reason="What it costs is said with each.",
    source="gridwright help slurm, An existing Slurm",
    remedy="change it where the site keeps its scheduler's configuration",
)
def _harmful(observation: Observation) -> Iterator[NodeJudgement]:
    return _compared(observation, harmful=True)


@SCHEDULER.check(
    "scheduler-setting-differs",
    "info",
    "a setting of the scheduler leaves cores idle for longer than need be",
    reason="What it costs is said with each.",
    source="gridwright help slurm, An existing Slurm",
    remedy="change it where the site keeps its scheduler's configuration, or silence it with the reason",
)
def _differing(observation: Observation) -> Iterator[NodeJudgement]:
    return _compared(observation, harmful=False)


@SCHEDULER.check(
    "state-directory-unsafe",
    "warning",
    "the state directory is not as set-up makes it: a part is missing, or another user's",
    reason="Users cannot use a part that is missing. Whoever owns one, or can write a directory above it, "
    "keeps others from their queue. Nothing of it is run: each command stops there.",
    source="gridwright help jobs, The state directory",
    remedy="run gridwright setup as root; look at what is another user's, and move it away; what is above it "
    "is to be root's, writable for no other",
)
def _state(observation: Observation) -> Iterator[NodeJudgement]:
    if observation.state_faults is None:
        yield NodeJudgement((), idle("the grid has no state directory that users share"))
        return
    for state_fault in observation.state_faults or ["all is root's"]:
        yield NodeJudgement(
            (), judged(not observation.state_faults, state_fault, "root's, mode 755, and parts of mode 1777")
        )


def _compared(observation: Observation, *, harmful: bool) -> Iterator[NodeJudgement]:
    settings = [
        scheduler_setting
        for scheduler_setting in observation.scheduler_settings
        if scheduler_setting.harmful is harmful
    ]
    if not settings:
        yield NodeJudgement((), idle("no scheduler tells its settings"))
    for setting in settings:
        found = f"{setting.name} is {setting.found}" + ("" if setting.ok else f": {setting.cost}")
        recommended = f"{setting.name} {setting.recommended} ({setting.source})"
        yield NodeJudgement((), judged(setting.ok, found, recommended, setting.remedy))
