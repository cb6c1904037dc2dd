"""What jobs used by our own record of them, which is exact where the accounting of a batch system is not."""

from __future__ import annotations

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.directories import BatchDirectories
from gridwright.schedulers.batch.record import BatchRecord
from gridwright.schedulers.batch.system import job_label
from gridwright.schedulers.usage import JobUsage
from gridwright.state_parts import this_user


def recorded_usage(directories: BatchDirectories, since: float, until: float) -> list[JobUsage]:
    """The jobs of this user that were submitted here and ended within a time, as their nodes told it.

    Raises GridwrightError (ENVIRONMENT).
    """
    found = []
    with BatchRecord(directories.record) as record:
        for submission in record.all():
            request = submission.request
            for element, end in record.ended(submission.token).items():
                if end.ended is None or not since <= end.ended <= until:
                    continue
                found.append(
                    JobUsage(
                        id=f"{submission.identifier}" + ("" if element == WHOLE else f"_{element}"),
                        name=job_label(request),
                        state=end.state,
                        user=this_user(),
                        account=request.options.account,
                        queue=end.queue,
                        node=end.node,
                        cores=request.cores,
                        submitted=submission.submitted,
                        started=end.started,
                        ended=end.ended,
                        cpu_s=end.user_s + end.system_s if end.started is not None else None,
                        memory_bytes=submission.memory,
                        memory_peak_bytes=end.most_bytes or None,
                        eligible=request.options.begin,
                    )
                )
    return found


def recorded_numbers(directories: BatchDirectories) -> set[str]:
    """The numbers of all jobs that this user submitted here. Raises GridwrightError (ENVIRONMENT)."""
    with BatchRecord(directories.record) as record:
        return {each.identifier for each in record.all() if each.identifier is not None}
