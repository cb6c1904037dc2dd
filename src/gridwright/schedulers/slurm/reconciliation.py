"""Reconciles our record of jobs with Slurm, at the start of every call.

slurmctld saves its state every few seconds. Killed in between, it forgets jobs that sbatch had an answer
for (see losses), brings back jobs that had ended or were cancelled, and gives numbers of lost jobs to
others. So a job is known by the token in its name; what has ended in our record stays so, and is cancelled
when Slurm brings it back; what was cancelled is cancelled again.

Finds jobs that Slurm started a second time, while they ran or after they had run.

A slurmctld that was killed after it had started a job and before it saved that has the job as waiting when it
comes back, and starts it again. On the same node, slurmd refuses that; slurmctld then drains the node
("Duplicate jobid") and cancels the job, or holds it where it may be requeued (seen with 22.05). On another,
our script finds that the run has begun, and ends. The first run goes on, or was killed with the second. That
is not what the user wanted: such a job is settled like one that was lost.

Handles jobs that Slurm no longer knows: forgotten, or lost with a slurmctld that was killed.

- One that never began is submitted again. Before that a fence is put up, which the script of the lost
  attempt looks at: it cannot begin any more.
- One that had begun (the file of its run is there) goes on. slurmd kills it when it registers with the new
  slurmctld, unless it ends before. Its script writes down how. Where nothing is written by then, it starts
  again if its request says so, and has failed with its node if not.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import JobEnd, Submission
from gridwright.schedulers.batch.recorded import CANCELLED_BY_USER, adopt, note_seen
from gridwright.schedulers.job import JobState, JobTag
from gridwright.schedulers.slurm.accounting import (
    BY_DEPENDENCY,
    believed_row,
    corrected,
    ended_by_script,
    ended_by_slurm,
    ended_otherwise,
    last_run,
    read_past,
    resolve,
    write_ends,
)
from gridwright.schedulers.slurm.cluster import Cluster, read_boot_time, read_cluster, read_nodes
from gridwright.schedulers.slurm.job_script import REPEATED, JobDirectories
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.submission import (
    LEASE_S,
    NUMBER,
    SbatchCall,
    SlurmAccess,
    elements_of,
    scancel,
    slurm_name,
    submit_request,
    use_up_numbers,
)
from gridwright.schedulers.slurm.tools import QueueRow, Tools, by_tag, job_state, read_queue

SKEW_S = 5.0
"""Clocks of the head node and of this machine may differ by so much."""


@dataclass(frozen=True, slots=True)
class MissingJobs:
    """Jobs of one submission that neither the queue nor the accounting knows."""

    submission: Submission
    elements: tuple[int, ...]
    alone: bool
    """Whether the queue knows none of the submission's jobs."""
    refused: bool = False
    """Whether the queue does know them, and a node refused them: see collisions."""


def settle_missing(
    access: SlurmAccess, record: JobRecord, absent: Sequence[MissingJobs], *, complete: bool
) -> None:
    """End what has ended, and submit again what was lost; `complete`: see AccountingAnswer.

    Raises GridwrightError (ENVIRONMENT) where nobody answers.
    """
    cluster = read_cluster(access.tools, record)
    boot = read_boot_time(access.tools)
    age = seconds(cluster.config, "MinJobAge", 300.0)
    now = time.time()
    lost = [each for each in absent if is_lost(each, complete, boot, age, now)]
    for jobs in lost:
        # First the fence, then the look at the runs: a script that begins meanwhile sees it.
        access.directories.fence(jobs.submission.tag)
    begun = access.directories.runs_begun()
    for jobs in absent:
        if jobs not in lost:
            ends = _forgotten(access, record, jobs, begun, sure=is_forgotten(jobs, age, now))
            write_ends(record, [jobs.submission], ends)
    if any(each.submission.number is not None and each.submission.orphaned_until is None for each in lost):
        use_up_numbers(access, record)
    until = (boot or now) + orphan_life_s(cluster)
    for jobs in lost:
        if elements := _settled(access, record, jobs, begun, until, now):
            _again(access, record, cluster, jobs, begun, elements)


def note_orphans(access: SlurmAccess, record: JobRecord, tokens: Collection[str]) -> None:
    """Write down that jobs were refused because they run: Slurm tells that only for a while."""
    until: float | None = None
    for token in tokens:
        submission = record.by_token(token)
        if submission is not None and submission.live and submission.orphaned_until is None:
            if until is None:
                cluster = read_cluster(access.tools, record)
                until = (read_boot_time(access.tools) or time.time()) + orphan_life_s(cluster)
            record.orphaned(token, until)


def is_lost(jobs: MissingJobs, complete: bool, boot: float | None, min_job_age_s: float, now: float) -> bool:
    """Whether Slurm lost a submission with its controller, or never had it.

    Slurm keeps an ended job for MinJobAge (0: always), so one that it knew more recently than that and does
    not know now was lost. Later than that it may have ended; with a complete accounting it would be in there.
    """
    submission = jobs.submission
    if jobs.refused:
        return True
    if not jobs.alone:
        return False
    if submission.number is None or submission.orphaned_until is not None:
        return True
    if min_job_age_s == 0 or now - submission.seen < min_job_age_s - SKEW_S:
        return True
    return complete and boot is not None and boot > submission.seen - SKEW_S


def is_forgotten(jobs: MissingJobs, min_job_age_s: float, now: float) -> bool:
    """Whether a job that was not lost must have ended: Slurm has had the time to forget it."""
    return now - jobs.submission.seen > max(min_job_age_s, 60.0)


def orphan_life_s(cluster: Cluster) -> float:
    """The longest that a job runs which slurmctld does not know, in seconds after the start of slurmctld.

    It asks nodes to register within a third of SlurmdTimeout (slurm.conf(5)), and kills what it does not
    know.
    """
    registers = seconds(cluster.config, "SlurmdTimeout", 300.0) / 3
    return registers + 2 * seconds(cluster.config, "MessageTimeout", 10.0) + SKEW_S


def _forgotten(
    access: SlurmAccess, record: JobRecord, jobs: MissingJobs, begun: Mapping[str, int], *, sure: bool
) -> list[JobEnd]:
    """Ends of jobs that were not lost; `sure`: see is_forgotten.

    Of an element that is cancelled while it waits Slurm keeps nothing at all, as long as others of its array
    are there (seen with 22.05).
    """
    ends = []
    cancelled = record.cancelled(jobs.submission.token)
    doomed = resolve(record, jobs.submission.request).doomed_elements
    for element in jobs.elements:
        if end := ended_by_script(access.directories, jobs.submission, element, begun):
            ends.append(end)
        elif element in doomed:
            ends.append(ended_otherwise(jobs.submission, element, JobState.CANCELLED, BY_DEPENDENCY))
        elif element in cancelled:
            ends.append(ended_otherwise(jobs.submission, element, JobState.CANCELLED, CANCELLED_BY_USER))
        elif last_run(jobs.submission.tag, element, begun) is None:
            if sure or not jobs.alone:
                sentence = "it was cancelled in Slurm before it began"
                ends.append(ended_otherwise(jobs.submission, element, JobState.CANCELLED, sentence))
        elif sure:
            sentence = "it was killed, and Slurm no longer knows why: it keeps no accounting of it"
            ends.append(ended_otherwise(jobs.submission, element, JobState.FAILED, sentence))
    return ends


def _settled(
    access: SlurmAccess,
    record: JobRecord,
    jobs: MissingJobs,
    begun: Mapping[str, int],
    until: float,
    now: float,
) -> list[int]:
    """Write down what has ended of a lost submission; elements to be submitted, none while orphans run."""
    submission = jobs.submission
    cancelled = record.cancelled(submission.token)
    ends: list[JobEnd] = []
    orphans: list[int] = []
    elements: list[int] = []
    for element in jobs.elements:
        if end := ended_by_script(access.directories, submission, element, begun):
            ends.append(end)
        elif element in cancelled:
            ends.append(ended_otherwise(submission, element, JobState.CANCELLED, CANCELLED_BY_USER))
        elif last_run(submission.tag, element, begun) is not None:
            orphans.append(element)
        else:
            elements.append(element)
    limit = submission.orphaned_until or until
    if orphans and now < limit:
        if submission.orphaned_until is None:
            record.orphaned(submission.token, limit)
        write_ends(record, [submission], ends)
        return []
    if submission.request.restart:
        elements += orphans
    else:
        sentence = "slurmctld was killed before it saved this job, and Slurm ended it on its node"
        ends += [ended_otherwise(submission, orphan, JobState.NODE_FAILED, sentence) for orphan in orphans]
    write_ends(record, [submission], ends)
    return elements


def _again(
    access: SlurmAccess,
    record: JobRecord,
    cluster: Cluster,
    jobs: MissingJobs,
    begun: Mapping[str, int],
    elements: Sequence[int],
) -> None:
    """Submit again the jobs of a submission that Slurm lost."""
    submission = jobs.submission
    waits_for = resolve(record, submission.request)
    if waits_for.unsent:
        return
    interrupted = any(last_run(submission.tag, element, begun) is not None for element in elements)
    tag = record.claim(submission.tag, time.time() + LEASE_S, interrupted=interrupted)
    if tag is None:
        return
    call = SbatchCall(
        request=submission.request,
        tag=tag,
        elements=elements_of(elements),
        after=waits_for.after,
        doomed=waits_for.doomed is not None,
        doomed_elements=sorted(waits_for.doomed_elements & set(elements)),
    )
    try:
        tag, number = submit_request(access, record, cluster, call)
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            record.released([tag.token])
            raise
        sentence = f"slurmctld had lost it and refuses it now: {error.problems[0].what}"
        ends = [ended_otherwise(submission, element, JobState.CANCELLED, sentence) for element in elements]
        write_ends(record, [submission], ends)
        return
    record.accepted([(tag, number)])
    scancel(access, call.doomed_jobs(number))


def seconds(config: Mapping[str, str], key: str, default: float) -> float:
    """A time in Slurm's configuration, such as `300 sec`."""
    first = config.get(key, "").split(" ", maxsplit=1)[0]
    return float(first) if first.isdigit() else default


DRAINED = "Duplicate jobid"
_HELD = "launch failed"


def may_be_refused(row: QueueRow, *, cancelled: bool) -> bool:
    """Whether a job ended, or waits again, as one that was started twice does."""
    if row.words[0] == "PENDING":
        return row.reason.startswith(_HELD)
    if row.words == ("FAILED",):
        return row.exit_status == REPEATED
    return row.words == ("CANCELLED",) and row.node is not None and not cancelled


def drained_nodes(tools: Tools) -> frozenset[str]:
    """Nodes that refused a job. Raises GridwrightError (ENVIRONMENT)."""
    nodes = read_nodes(tools).values()
    return frozenset(node.state.name for node in nodes if (node.state.reason or "").startswith(DRAINED))


def was_refused(
    directories: JobDirectories, run: str | None, row: QueueRow, drained: Collection[str] | None
) -> bool:
    """Whether it was started twice.

    `run` is the file of its last run. `drained` are the nodes that refused a job; None where it is known that
    this one was refused, although they may have been resumed.
    """
    if row.words == ("FAILED",):
        # A command may end with that status too, and then it stands in the file.
        return run is not None and directories.run_status(run) != REPEATED
    if drained is None:
        return True
    return row.node in drained if row.node is not None else bool(drained)


def resume(tools: Tools, nodes: Collection[str]) -> None:
    """Let nodes take jobs again that were drained for this alone, where this user may."""
    for node in sorted(nodes):
        try:
            tools.query(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        except GridwrightError:
            return


_JUST_NOW_S = 3.0
_SEEN_EVERY_S = 20.0
"""How often it is written down that Slurm listed a job: less often than any sensible MinJobAge."""


@dataclass
class QueueView:
    """The jobs that have not ended, and their rows in Slurm's queue."""

    live: list[Submission] = field(default_factory=list)
    rows: Mapping[JobTag, Sequence[QueueRow]] = field(default_factory=dict)

    def has(self, submission: Submission) -> bool:
        """Whether Slurm's number of a submission is its own: seen in the queue, or given to it just now."""
        return bool(self.rows.get(submission.tag)) or time.time() - submission.seen < _JUST_NOW_S

    def row(self, submission: Submission, element: int) -> QueueRow | None:
        """The row of a job in the queue."""
        for row in self.rows.get(submission.tag, ()):
            if element in row.elements:
                return row
        return None


def reconcile(access: SlurmAccess, record: JobRecord) -> QueueView:
    """Bring the record up to date and submit what Slurm has lost. Raises GridwrightError (ENVIRONMENT)."""
    live = record.live()
    if not live:
        return QueueView()
    began = time.time()
    queue = read_queue(access.tools, sum(len(each.elements) for each in live))
    rows = by_tag(queue)
    if adopt(record, live, {tag: listed[0].job_id for tag, listed in rows.items()}):
        live = record.live()
    standing = QueueView(live, rows)
    refused = _refused(access, record, standing)
    missing = _write_ends(access, record, standing, refused)
    numbers = [f"{row.job_id}" for row in queue if row.name == NUMBER and row.words[0] == "PENDING"]
    scancel(access, numbers + _to_cancel(record, standing, began))
    absent, complete = _ask_accounting(access, record, standing, missing)
    absent += _quiet(record, standing, refused)
    if absent:
        settle_missing(access, record, absent, complete=complete)
    if refused:
        note_orphans(access, record, refused)
        resume(access.tools, drained_nodes(access.tools))
    note_seen(record, standing.live, rows, now=began, every_s=_SEEN_EVERY_S)
    return QueueView(record.live(), rows)


def _refused(access: SlurmAccess, record: JobRecord, standing: QueueView) -> dict[str, set[int]]:
    """Elements of which Slurm started a run twice, by token: see collisions."""
    begun: dict[str, int] | None = None
    refused: dict[str, set[int]] = {}
    for submission in standing.live:
        ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        found = {
            element: row
            for element, row in _placed(standing.rows.get(submission.tag, ())).items()
            if element not in ended and may_be_refused(row, cancelled=element in cancelled)
        }
        if not found:
            continue
        begun = access.directories.runs_begun() if begun is None else begun
        drained = drained_nodes(access.tools) if submission.orphaned_until is None else None
        elements = {
            element
            for element, row in found.items()
            if was_refused(access.directories, last_run(submission.tag, element, begun), row, drained)
        }
        if elements:
            refused[submission.token] = elements
    return refused


def _quiet(record: JobRecord, standing: QueueView, refused: Mapping[str, set[int]]) -> list[MissingJobs]:
    """Refused elements to be settled: those of arrays of which no other element is to come any more.

    A next attempt is one of a whole submission.
    """
    found = []
    for submission in standing.live:
        elements = refused.get(submission.token)
        if elements and set(submission.elements) - elements <= record.ended(submission.token).keys():
            found.append(MissingJobs(submission, tuple(sorted(elements)), alone=False, refused=True))
    return found


def _write_ends(
    access: SlurmAccess, record: JobRecord, standing: QueueView, refused: Mapping[str, set[int]]
) -> dict[str, tuple[int, ...]]:
    """Write down what has ended by the queue; elements that the queue does not have, by token."""
    ends: list[JobEnd] = []
    missing: dict[str, tuple[int, ...]] = {}
    now = time.time()
    for submission in standing.live:
        if submission.number is None and submission.held(now):
            continue
        known, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        placed = _placed(standing.rows.get(submission.tag, ()))
        lost = []
        for element in submission.elements:
            if element in known or element in refused.get(submission.token, ()):
                continue
            if element not in placed:
                lost.append(element)
            elif end := ended_by_slurm(submission, element, placed[element], element in cancelled):
                ends.append(corrected(access.directories, submission, end))
        if lost:
            missing[submission.token] = tuple(lost)
    write_ends(record, standing.live, ends)
    return missing


def _placed(rows: Sequence[QueueRow]) -> dict[int, QueueRow]:
    """Rows by element. An element that was requeued can be in two, and the one that has not ended counts."""
    placed: dict[int, QueueRow] = {}
    for row in rows:
        for element in row.elements:
            if element not in placed or not job_state(row.words).state.final:
                placed[element] = row
    return placed


def _to_cancel(record: JobRecord, standing: QueueView, began: float) -> list[str]:
    """What a restarted slurmctld brought back, by its numbers: earlier attempts, ended and cancelled jobs."""
    live = {each.token: each for each in standing.live}
    targets: list[str] = []
    for tag, rows in standing.rows.items():
        submission = live.get(tag.token) or record.by_token(tag.token)
        if submission is None:
            continue
        cancelled, ended = record.cancelled(tag.token), record.ended(tag.token)
        for row in rows:
            state = job_state(row.words)
            if state.state.final or "COMPLETING" in row.words:
                continue
            for element in row.elements:
                known = ended.get(element)
                if (
                    tag.attempt < submission.attempt
                    or element in cancelled
                    or (known is not None and known.recorded < began)
                ):
                    targets.append(f"{row.job_id}" if element == WHOLE else f"{row.job_id}_{element}")
    return targets


def _ask_accounting(
    access: SlurmAccess, record: JobRecord, standing: QueueView, missing: Mapping[str, tuple[int, ...]]
) -> tuple[list[MissingJobs], bool]:
    """Write down what has ended by the accounting; what it does not know, and whether it is complete."""
    if not missing:
        return [], True
    chosen = [each for each in standing.live if each.token in missing]
    cluster = read_cluster(access.tools, record)
    since = min(each.submitted for each in chosen)
    past = read_past(
        access.tools,
        cluster.config,
        {each.tag: slurm_name(each.request.label, each.tag) for each in chosen},
        since,
    )
    begun, adopted = access.directories.runs_begun(), dict[JobTag, int]()
    ends: list[JobEnd] = []
    absent: list[MissingJobs] = []
    for submission in chosen:
        cancelled = record.cancelled(submission.token)
        lost = []
        for element in missing[submission.token]:
            run = last_run(submission.tag, element, begun)
            wrote = access.directories.run_status(run) if run is not None else None
            row = believed_row(past.rows.get((submission.tag, element), ()), submission.number, wrote)
            if row is not None and submission.number is None:
                adopted[submission.tag] = row.job_id
            if row is None:
                lost.append(element)
            elif end := ended_by_slurm(submission, element, row, element in cancelled):
                ends.append(corrected(access.directories, submission, end))
        if lost:
            absent.append(MissingJobs(submission, tuple(lost), not standing.rows.get(submission.tag)))
    record.accepted(adopted.items())
    write_ends(record, standing.live, ends)
    return absent, past.complete
