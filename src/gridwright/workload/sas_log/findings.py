"""What a reader of the figures of a SAS log should know of them."""

from __future__ import annotations

from gridwright.errors import Finding
from gridwright.workload.sas_log.notes import TimingNote
from gridwright.workload.sas_log.sessions import MOST_STEPS, SasJob


def findings_of(
    name: str, job: SasJob, totals: TimingNote, sessions: int, *, ambiguous: bool
) -> list[Finding]:
    """The findings of the log `name`; `sessions` are the jobs in it, one after the other."""
    found = [*_of_sessions(name, job, sessions), *_of_times(name, totals)]
    if ambiguous:
        found.append(
            Finding(
                "warning",
                "sas-log-date-ambiguous",
                f"{name} has dates that can be read with the day or the month first, so the time of its "
                "start and end is left out",
                "Run the job with the option DATE, whose page headers name the month.",
            )
        )
    if job.step_notes > MOST_STEPS:
        found.append(
            Finding(
                "info",
                "sas-log-steps-left-out",
                f"{name} has {job.step_notes} steps: all count, the longest {MOST_STEPS} are listed",
                "Split the job, if you need every step.",
            )
        )
    return found


def _of_sessions(name: str, job: SasJob, sessions: int) -> list[Finding]:
    found = []
    if not job.has_ended:
        found.append(
            Finding(
                "warning",
                "sas-log-truncated",
                f'{name} has no closing note "The SAS System used": it was cut, or its session went on; '
                "the totals are the sums of its steps, without the time between them",
                "Give the log of a batch job that has ended.",
            )
        )
    if job.unclosed:
        found.append(
            Finding(
                "info",
                "sas-log-nested-session-open",
                f"{name} holds {job.within} sessions of SAS/CONNECT within its own, and "
                f"{job.unclosed} of them have no closing note: their CPU time is the sum of their steps",
                "Sign off from each session: its closing note then stands in the log.",
            )
        )
    if sessions > 1:
        found.append(
            Finding(
                "warning",
                "sas-log-several-sessions",
                f"{name} holds {sessions} sessions, one after the other: only the last is counted",
                "Give each job a log of its own.",
            )
        )
    return found


def _of_times(name: str, totals: TimingNote) -> list[Finding]:
    found = []
    if totals.real_s is None:
        found.append(
            Finding(
                "warning",
                "sas-log-no-real-time",
                f"{name} tells CPU time and no real time, as STIMER does on z/OS: it has no CPU/real ratio",
                "Run the job with the option FULLSTIMER, which tells the elapsed time, too.",
            )
        )
    if totals.all_user_s is None:
        found.append(
            Finding(
                "warning",
                "sas-log-no-cpu-time",
                f"{name} tells no CPU time, so it has no CPU/real ratio",
                "Run the job with the option FULLSTIMER.",
            )
        )
    elif totals.system_s is None:
        found.append(
            Finding(
                "info",
                "sas-log-no-fullstimer",
                f"{name} does not part user from system CPU time: all of it stands under user",
                "Run the job with the option FULLSTIMER, which also tells memory and the time of day.",
            )
        )
    return found
