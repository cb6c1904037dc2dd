"""How a job of Slurm has ended, and what it used: by its accounting, the queue, or the job's own script.

It is slurmdbd, read by sacct, or the file of jobcomp/filetxt. `sacct -c` reads that file too, but of an
element of an array it shows neither the array nor the index (22.05), so the file is searched for our
tokens directly. A job that was requeued has a line for each run.

Slurm writes names, directories and wckeys of jobs as they are, newlines too (22.05): every user can put
lines of any content there. So a line counts for the user that it names alone, and what a job did by itself
counts only as its own script wrote it down: see `believed_row`. What was used counts by a line where that
can be and contradicts no earlier one, and this user's jobs are those of the record; the rest is
`forgeable`.

Resolves dependencies of jobs in our own record: Slurm takes a job that it has forgotten for completed.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import inf

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import (
    BY_TOKEN,
    JobEnd,
    Submission,
    doom_sentence,
    look_up,
    split_identifier,
)
from gridwright.schedulers.batch.recorded import CANCELLED_BY_USER, recorded_usage
from gridwright.schedulers.job import JobRequest, JobState, JobTag, exit_reason, tag_of
from gridwright.schedulers.job_request import Dependency, DependencyType, aftercorr_problems, parse_dependency
from gridwright.schedulers.slurm.cluster import Cluster, read_cluster
from gridwright.schedulers.slurm.job_script import JobDirectories
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.tools import QueueRow, ToolRefused, Tools, decode_end, job_state, reason
from gridwright.schedulers.usage import JobUsage, parse_elapsed, parse_size, parse_time, parse_usage
from gridwright.units import format_bytes

_AT_ONCE = 400
"""Tokens or names in one command, so that its arguments stay short."""
_HEAD = re.compile(r"JobId=(?P<JobId>\d+) UserId=(?P<User>[^\s()]*)\((?P<uid>\d+)\) GroupId=\S* Name=")
_MIDDLE = re.compile(
    r" JobState=(?P<State>[A-Z_]+) Partition=(?P<Partition>\S*) TimeLimit=\S* StartTime=(?P<Start>\S+)"
    r" EndTime=(?P<End>\S+) NodeList=(?P<NodeList>None assigned|\S*) NodeCnt=\d+ ProcCnt=(?P<AllocCPUS>\d+)"
    r" WorkDir="
)
_ACCOUNT = re.compile(r" ReservationName=\S* Tres=\S* Account=(?P<Account>\S*) QOS=\S* WcKey=")
_TAIL = re.compile(
    r" SubmitTime=(?P<Submit>\S+) EligibleTime=(?P<Eligible>\S+)"
    r"(?: ArrayJobId=(?P<ArrayJobId>\d+) ArrayTaskId=(?P<ArrayTaskId>\d+))?(?: \w+=\S*)*"
    r" ExitCode=(?P<ExitCode>\d+:\d+) ?"
)
"""Parts of a line between which users write freely (filetxt_jobcomp.c of Slurm 22.05)."""
FIELDS = "JobID,JobName,State,ExitCode,Start,End,Partition,NodeList"
"""What sacct is asked of each job, in its own words (sacct(1))."""


@dataclass(frozen=True, slots=True)
class AccountingAnswer:
    """An answer of the accounting."""

    rows: Mapping[tuple[JobTag, int], Sequence[QueueRow]]
    """All rows of a job, in the order in which they were written."""
    complete: bool
    """Whether a job that has ended must be in it; not where there is no accounting, or none we may read."""


def read_past(
    tools: Tools, config: Mapping[str, str], requested: Mapping[JobTag, str], since: float
) -> AccountingAnswer:
    """What is known of this user's submissions since a time; `requested` has the name of each in Slurm.

    Raises GridwrightError (ENVIRONMENT) where the database does not answer.
    """
    if not requested:
        return AccountingAnswer({}, complete=True)
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        return _from_database(tools, requested, since)
    kind = config.get("JobCompType", "jobcomp/none")
    if kind == "jobcomp/filetxt" and (past := _from_file(tools, config.get("JobCompLoc", ""), requested)):
        return past
    if kind != "jobcomp/none":
        return _from_sacct_c(tools, requested)
    return AccountingAnswer({}, complete=False)


def _chosen(
    rows: Sequence[QueueRow | None], requested: Mapping[JobTag, str], *, complete: bool
) -> AccountingAnswer:
    found: dict[tuple[JobTag, int], list[QueueRow]] = {}
    for row in rows:
        if row is not None and (tag := row.tag) in requested and tag is not None:
            found.setdefault((tag, row.elements[0]), []).append(row)
    return AccountingAnswer(found, complete)


def believed_row(rows: Sequence[QueueRow], job_id: int | None, script_status: int | None) -> QueueRow | None:
    """The row that says how a job of ours has ended; None where none is believed.

    `job_id` is Slurm's number where it is known, `script_status` what the script of the last run wrote down:
    it does so whenever the command ended by itself, in a directory that no other user can write.
    """
    wrote = None if script_status is None else decode_end(script_status, 0)
    matching = [row for row in rows if job_id is None or row.job_id == job_id]
    # The command came to its own end, which the script of the job writes down, too.
    by_itself = [
        row
        for row in matching
        if row.words == ("COMPLETED",) or (row.words == ("FAILED",) and row.exit_status is not None)
    ]
    agreeing = [row for row in by_itself if (row.exit_status, row.signal) == wrote]
    return next(iter(agreeing[::-1] or [row for row in matching if row not in by_itself][::-1]), None)


def _from_file(tools: Tools, path: str, requested: Mapping[JobTag, str]) -> AccountingAnswer | None:
    rows: list[QueueRow | None] = []
    tags = [str(tag) for tag in requested]
    for first in range(0, len(tags), _AT_ONCE):
        patterns = [part for tag in tags[first : first + _AT_ONCE] for part in ("-e", f"~{tag} ")]
        answer = tools.head.run(["grep", "-aF", *patterns, "--", path], timeout_s=60.0)
        if answer.status > 1:
            return None
        lines = answer.stdout.decode(errors="replace").split("\n")
        rows += [parse_completion(line, os.geteuid()) for line in lines]
    return _chosen(rows, requested, complete=True)


def _from_database(tools: Tools, requested: Mapping[JobTag, str], since: float) -> AccountingAnswer:
    rows: list[QueueRow | None] = []
    names = list(requested.values())
    # A day earlier: the clocks of the head node and of this machine need not agree, nor their zones.
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - 86_400))
    for first in range(0, len(names), _AT_ONCE):
        chosen = ",".join(names[first : first + _AT_ONCE])
        command = [
            "sacct",
            "-n",
            "-P",
            "-X",
            *_own(),
            "-S",
            start,
            f"--name={chosen}",
            f"--format={FIELDS}",
        ]
        rows += [parse_sacct(line) for line in tools.query(command).decode(errors="replace").splitlines()]
    return _chosen(rows, requested, complete=True)


def _from_sacct_c(tools: Tools, requested: Mapping[JobTag, str]) -> AccountingAnswer:
    try:
        output = tools.once(["sacct", "-c", "-n", "-P", *_own(), f"--format={FIELDS}"], timeout_s=60.0).stdout
    except (ToolRefused, GridwrightError):
        return AccountingAnswer({}, complete=False)
    rows = [parse_sacct(line) for line in output.decode(errors="replace").splitlines()]
    return _chosen(rows, requested, complete=False)


def _own() -> list[str]:
    """Jobs of this user alone: root is shown those of all, and their names may hold lines."""
    return ["-u", str(os.geteuid())]


def completion_fields(line: str) -> dict[str, str] | None:
    """The fields of a line of jobcomp/filetxt, by sacct's names for them; None where it is no whole one.

    Name and directory may hold anything, also what looks like a field. JobId and ArrayJobId are Slurm's
    numbers of the job and of its array, uid is that of the user.
    """
    head, at, end = _HEAD.match(line), line.rfind(" ReservationName="), line.rfind(" SubmitTime=")
    if head is None or not head.end() < at < end:
        return None
    middle = _MIDDLE.search(line, head.end(), at)
    account, tail = _ACCOUNT.match(line, at, end), _TAIL.fullmatch(line, end)
    if middle is None or account is None or tail is None:
        return None
    found = {"JobName": line[head.end() : middle.start()]}
    for part in (head, middle, account, tail):
        found |= part.groupdict(default="")
    array, element = found["ArrayJobId"], found["ArrayTaskId"]
    return found | {"JobID": f"{array}_{element}" if array else found["JobId"]}


def parse_completion(line: str, uid: int) -> QueueRow | None:
    """A line of jobcomp/filetxt; None where it is no job of ours, of the user with this number."""
    fields = completion_fields(line)
    return None if fields is None or fields["uid"] != str(uid) else _row(fields)


def sacct_fields(line: str, asked: str) -> dict[str, str] | None:
    """A line of sacct -P by the fields that it was asked for, of which JobName is the second; None: no such.

    A name may hold the separator, and no other field can.
    """
    names, cells = asked.split(","), line.split("|")
    extra = len(cells) - len(names)
    if extra < 0:
        return None
    return dict(zip(names, [cells[0], "|".join(cells[1 : 2 + extra]), *cells[2 + extra :]], strict=True))


def parse_sacct(line: str) -> QueueRow | None:
    """A line of sacct -P in our format; None where it is no job of ours, or elements that have not begun."""
    fields = sacct_fields(line, FIELDS)
    return None if fields is None or not fields["State"] else _row(fields)


def _row(fields: Mapping[str, str]) -> QueueRow | None:
    parts = split_identifier(fields["JobID"])
    if parts is None or tag_of(fields["JobName"]) is None:
        return None
    exit_status, signal = _ended_with(fields["ExitCode"])
    return QueueRow(
        job_id=int(parts[0]),
        indices=None if parts[1] is None else (parts[1],),
        name=fields["JobName"],
        words=(fields["State"].split()[0].rstrip("+"),),
        queue=fields["Partition"] or None,
        node=_node(fields["NodeList"]),
        started=parse_time(fields["Start"]),
        ended=parse_time(fields["End"]),
        exit_status=exit_status,
        signal=signal,
        accounted=True,
    )


def _ended_with(code: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"(\d+):(\d+)", code)
    return decode_end(int(match[1]), int(match[2])) if match else (None, None)


def _node(text: str) -> str | None:
    return None if text in ("", "(null)", "None") or text.startswith("None ") else text


_FIELDS = (
    "JobID,JobName,User,Account,Partition,State,NodeList,AllocCPUS,Submit,Eligible,Start,End,TotalCPU,ReqMem,"
    "MaxRSS,TRESUsageInTot,TRESUsageOutTot"
)
_PICK = """
/^JobId=[0-9]+ UserId=/ {
    if (!($1 in first)) first[$1] = $2
    at = match($0, / EndTime=[^ ]*/)
    if (at && (substr($0, at + 9, 10) >= since)) print (first[$1] == $2 ? " " : "!") $0
}
"""
"""Lines of the file whose jobs ended on that day or later; a day earlier is asked for than is wanted. Those
begin with `!` whose number an earlier line gives to another user."""
_DAY_S = 86_400.0
_LONG_S = 120.0
_APART_S = 60.0
"""Ends further apart are of two jobs with one number: a slurmctld that lost its state gives it out again."""
_APART_CLOCKS_S = 3700.0
"""How far the order of times of the file is off: an hour where clocks are put back, and what they differ."""


def read_usage(tools: Tools, record: JobRecord, since: float, until: float) -> list[JobUsage]:
    """Jobs of all users that ended from `since` to `until`, as far as Slurm shows them to this one.

    Raises GridwrightError (ENVIRONMENT) where Slurm does not answer.
    """
    cluster = read_cluster(tools, record)
    if "slurmdbd" in cluster.config.get("AccountingStorageType", ""):
        found = _usage_from_database(tools, cluster, since, until)
    elif cluster.config.get("JobCompType") == "jobcomp/filetxt":
        found = _usage_from_file(tools, cluster, since)
    else:
        found = []
    own = {usage.id: usage for usage in recorded_usage(record)}
    if any(each.forgeable for each in found):
        # What an own job used no line of a file says better.
        merged = [each for each in found if each.id not in own] + list(own.values())
    else:
        merged = [_with_own(each, own.get(each.id)) for each in found] or list(own.values())
    return [usage for usage in merged if usage.ended is not None and since <= usage.ended <= until]


def _with_own(usage: JobUsage, own: JobUsage | None) -> JobUsage:
    """A record of Slurm's with what only ours has: the processor time where there is no database."""
    if own is None or own.ended is None or abs(own.ended - (usage.ended or 0.0)) > _APART_S:
        return usage
    return replace(
        usage,
        name=own.name,
        state=own.state,
        cpu_s=own.cpu_s if usage.cpu_s is None else usage.cpu_s,
        memory_bytes=own.memory_bytes or usage.memory_bytes,
        cores=own.cores,
    )


def _usage_from_file(tools: Tools, cluster: Cluster, since: float) -> list[JobUsage]:
    path = cluster.config.get("JobCompLoc", "")
    day = time.strftime("%Y-%m-%d", time.localtime(since - _DAY_S))
    try:
        answer = tools.head.run(["awk", "-v", f"since={day}", _PICK, path], timeout_s=_LONG_S)
    except GridwrightError:
        return []
    if answer.status != 0:
        return []
    lines = answer.stdout.decode(errors="replace").split("\n")
    cores = sum(node.state.cores for node in cluster.nodes.values())
    return believed_usage(lines, _threads(cluster), cores, time.time())


def believed_usage(lines: Iterable[str], threads: int, cores: int, now: float) -> list[JobUsage]:
    """The last run of each job, by lines of jobcomp/filetxt in their order; `refused` is what cannot be.

    `cores` are those of the whole cluster. A line begins with `!` where an earlier one that is left out
    gives its number to another user, else with a blank.
    """
    read = [
        (line[0], fields, usage)
        for line in lines
        if (fields := completion_fields(line[1:])) and (usage := parse_completion_usage(line[1:], threads))
    ]
    fit = _in_order([each.ended or 0.0 for _, _, each in read])
    owners: dict[str, str | None] = {}
    last: dict[str, JobUsage] = {}
    refused: list[JobUsage] = []
    for (sign, fields, usage), fits in zip(read, fit, strict=True):
        # Elements of an array have numbers of their own, and all are of one user.
        numbers = {fields["JobId"], fields["ArrayJobId"] or fields["JobId"]}
        same_user = sign == " " and all(owners.get(number, usage.user) == usage.user for number in numbers)
        if same_user and fits and _can_be(usage, last.get(usage.id), cores, now):
            owners |= dict.fromkeys(numbers, usage.user)
            last[usage.id] = usage
        else:
            refused.append(replace(usage, refused=True))
    return [*last.values(), *refused]


def _in_order(ends: Sequence[float]) -> list[bool]:
    """Which lines are where their ends belong: lines are written in order of end.

    The longest sequence in order is taken as true: one line with another end does not spoil those around it.
    """
    tails: list[float] = []
    at_tail: list[int] = []
    before = list[int]()
    for at, end in enumerate(ends):
        place = bisect_right(tails, end)
        before.append(at_tail[place - 1] if place else -1)
        tails[place : place + 1], at_tail[place : place + 1] = [end], [at]
    at, true = at_tail[-1] if at_tail else -1, set[int]()
    while at >= 0:
        true.add(at)
        at = before[at]
    least = list(accumulate((end if at in true else 0.0 for at, end in enumerate(ends)), max))
    most = list(accumulate((ends[at] if at in true else inf for at in reversed(range(len(ends)))), min))
    return [
        low - _APART_CLOCKS_S <= end <= high + _APART_CLOCKS_S
        for end, low, high in zip(ends, least, reversed(most), strict=True)
    ]


def _can_be(usage: JobUsage, before: JobUsage | None, cores: int, now: float) -> bool:
    """Whether a line can be true, by itself and after an earlier one of its number."""
    times = [moment for moment in (usage.submitted, usage.started, usage.ended) if moment is not None]
    in_order = all(one <= other + _APART_CLOCKS_S for one, other in pairwise([*times, now]))
    if usage.ended is None or not in_order or (cores and usage.cores > cores):
        return False
    # One that was requeued has a line for each run, and they follow each other.
    again = before is None or (usage.started or usage.ended) >= (before.ended or 0.0) - _APART_S
    return again and (before is None or before.cores == usage.cores)


def parse_completion_usage(line: str, threads: int = 1) -> JobUsage | None:
    """A line of jobcomp/filetxt; None where it is no whole one."""
    fields = completion_fields(line)
    return None if fields is None else replace(_usage(fields, threads), forgeable=True)


def _usage_from_database(tools: Tools, cluster: Cluster, since: float, until: float) -> list[JobUsage]:
    start, end = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))
        # The zones of the head node and of this machine need not agree.
        for moment in (since - _DAY_S, min(until + _DAY_S, time.time() + _DAY_S))
    )
    command = ["sacct", "-a", "-n", "-P", "-S", start, "-E", end, f"--format={_FIELDS}"]
    text = tools.query(command, timeout_s=_LONG_S).decode(errors="replace")
    return parse_sacct_usage(text.splitlines(), _threads(cluster))


def parse_sacct_usage(lines: Iterable[str], threads: int = 1) -> list[JobUsage]:
    """Jobs out of what sacct -P prints in our format: a line for each, followed by those of its steps.

    Raises GridwrightError (ENVIRONMENT) for lines of another form.
    """
    usage: list[JobUsage] = []
    for line in lines:
        row = sacct_fields(line, _FIELDS)
        if row is None:
            raise environment_error(
                f"sacct printed what cannot be read: {line[:80]!r}",
                remedy="see sacct --version: releases 22.05 to 24.11 are known",
            )
        identifier, dot, _ = row["JobID"].partition(".")
        if dot:
            if usage and usage[-1].id == identifier:
                usage[-1] = _with_step(usage[-1], row)
            continue
        if "[" in identifier or not job_state([row["State"]]).state.final:
            continue
        usage.append(
            replace(
                _usage(row, threads),
                cpu_s=parse_elapsed(row["TotalCPU"]),
                memory_bytes=parse_size(row["ReqMem"]),
            )
        )
    return _last(usage)


def _with_step(job: JobUsage, row: Mapping[str, str]) -> JobUsage:
    """A job with what one of its steps used: the peak of the largest, and the bytes of all."""
    peak, read, written = (
        parse_size(row["MaxRSS"]),
        parse_usage(row["TRESUsageInTot"]).get("fs/disk"),
        parse_usage(row["TRESUsageOutTot"]).get("fs/disk"),
    )
    return replace(
        job,
        memory_peak_bytes=max(filter(None, (job.memory_peak_bytes, peak)), default=None),
        read_bytes=_sum(job.read_bytes, read),
        written_bytes=_sum(job.written_bytes, written),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _usage(row: Mapping[str, str], threads: int) -> JobUsage:
    """A record out of fields by the names that sacct has for them."""
    name, cpus, account = row["JobName"], row["AllocCPUS"], row["Account"]
    place = _node(row["NodeList"])
    return JobUsage(
        id=row["JobID"],
        name=name.rpartition("~")[0] if tag_of(name) else name,
        state=job_state([row["State"]]).state,
        user=row["User"] or None,
        account=None if account in ("", "(null)") else account,
        queue=row["Partition"] or None,
        node=place,
        cores=max(1, int(cpus) // threads) if cpus.isdigit() else 1,
        submitted=parse_time(row["Submit"]),
        eligible=parse_time(row["Eligible"]),
        # Slurm gives a job that was cancelled while it waited the time of that as its start.
        started=parse_time(row["Start"]) if place is not None else None,
        ended=parse_time(row["End"]),
    )


def _threads(cluster: Cluster) -> int:
    """CPUs of Slurm's that are one core."""
    return max((node.threads for node in cluster.nodes.values()), default=1)


def _last(usage: Iterable[JobUsage]) -> list[JobUsage]:
    """The last run of each job: one that was requeued has a line for each, and a number comes again."""
    last: dict[tuple[str, float | None], JobUsage] = {}
    for each in usage:
        last[each.id, each.submitted] = each
    return list(last.values())


_WORDS = {
    DependencyType.OK: "afterok",
    DependencyType.ANY: "afterany",
    DependencyType.NOT_OK: "afternotok",
    DependencyType.EACH: "aftercorr",
}
"""As sbatch(1) has them under --dependency."""


@dataclass
class ResolvedDependencies:
    """What a request waits for, in Slurm's words."""

    after: list[str] = field(default_factory=list)
    """Such as afterok:17 and afterany:18_3."""
    doomed: str | None = None
    """What has ended otherwise than it had to, as the record keeps it: the request is not to run."""
    doomed_elements: set[int] = field(default_factory=set)
    """Elements of the request's array that are not to run."""
    problems: list[Problem] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Identifiers that nobody knows."""
    unsent: bool = False
    """Whether one of them is not known to Slurm yet."""


def doomed_sentence(doomed: str) -> str:
    """Why a job was cancelled, in words; `doomed` as ResolvedDependencies has it."""
    kind, _, job = doomed.rpartition(":")
    return doom_sentence(job, unneeded=kind == DependencyType.NOT_OK)


def resolve(
    record: JobRecord,
    request: JobRequest,
    numbers: Mapping[str, int] | None = None,
    arrays: Mapping[str, Sequence[int] | None] | None = None,
) -> ResolvedDependencies:
    """Look up what a request waits for.

    Jobs that ended as they had to are left out, and one that did not dooms the request: Slurm may have
    forgotten both, and takes a dependency on a job that it does not know for satisfied. `numbers` has Slurm's
    numbers of jobs that were submitted just now, by token, and `arrays` their indices.
    """
    dependencies = ResolvedDependencies()
    for text in request.after:
        each = parse_dependency(text)
        if isinstance(each, Problem):
            continue
        token = each.job.removeprefix(BY_TOKEN)
        if numbers is not None and each.job.startswith(BY_TOKEN) and token in numbers:
            if each.type is DependencyType.EACH:
                dependencies.problems += aftercorr_problems(
                    request.array, (arrays or {}).get(token), each.job
                )
            dependencies.after.append(f"{_WORDS[each.type]}:{numbers[token]}")
        else:
            _resolve(record, request, each, dependencies)
    return dependencies


def _resolve(
    record: JobRecord, request: JobRequest, dependency: Dependency, dependencies: ResolvedDependencies
) -> None:
    submission, element = look_up(record, dependency.job)
    if submission is None or (element is not None and element not in submission.elements):
        dependencies.unknown.append(dependency.job)
        return
    name = submission.name_of(element)
    requested = submission.elements if element is None else (element,)
    if dependency.type is DependencyType.EACH:
        array = submission.request.array if element is None else None
        if unlike := list(aftercorr_problems(request.array, array, name)):
            dependencies.problems += unlike
            return
        requested = tuple(request.array or ())
    ended = record.ended(submission.token)
    word = _judged(dependency.type, ended, requested, name, dependencies)
    if word is not None:
        dependencies.unsent = dependencies.unsent or submission.number is None
        number = f"{submission.number}" if element is None else f"{submission.number}_{element}"
        dependencies.after.append(f"{_WORDS[word]}:{number}")


def _judged(
    kind: DependencyType,
    ended: Mapping[int, JobEnd],
    requested: Sequence[int],
    name: str,
    dependencies: ResolvedDependencies,
) -> DependencyType | None:
    """What is still to be waited for; None where that is nothing, or nothing that helps."""
    failed = [each for each in requested if each in ended and ended[each].state is not JobState.COMPLETED]
    all_ended = all(each in ended for each in requested)
    if kind is DependencyType.EACH:
        dependencies.doomed_elements.update(failed)
        return None if all_ended else kind
    if kind is DependencyType.OK and failed:
        dependencies.doomed = dependencies.doomed or name
        return None
    if kind is DependencyType.NOT_OK:
        if failed:
            # That it fails is certain, and Slurm may have forgotten the element that did.
            return None if all_ended else DependencyType.ANY
        if all_ended:
            dependencies.doomed = dependencies.doomed or f"{kind}:{name}"
            return None
    return None if all_ended else kind


_BY_ITSELF = (JobState.COMPLETED, JobState.FAILED)
BY_DEPENDENCY = "a job that it waited for did not complete"
_UNTOLD = ("", "None", "NonZeroExitCode", "TimeLimit", "OutOfMemory", "(null)")
"""Reasons that say no more than the state."""


def ended_by_slurm(submission: Submission, element: int, row: QueueRow, cancelled: bool) -> JobEnd | None:
    """What became of a job by Slurm's queue, or its accounting; None where it has not ended by them."""
    state = job_state(row.words)
    if not state.state.final:
        return None
    has_run = row.node is not None
    return _ended(
        submission,
        element,
        state.state,
        status=(row.exit_status, row.signal) if has_run or row.accounted else (None, None),
        sentence=_sentence(submission, state.sentence, row.reason, state.state, cancelled),
        row=row,
        restarts=row.restarts,
    )


def ended_otherwise(submission: Submission, element: int, state: JobState, sentence: str) -> JobEnd:
    """What became of a job that Slurm does not know."""
    return _ended(submission, element, state, sentence=sentence)


def ended_by_script(
    directories: JobDirectories, submission: Submission, element: int, begun: Mapping[str, int]
) -> JobEnd | None:
    """What became of a job by its own script; None where that has not written it down.

    `begun` has the last run of each job: see JobDirectories.
    """
    run = last_run(submission.tag, element, begun)
    status = directories.run_status(run) if run is not None else None
    if run is None or status is None:
        return None
    return _ended(
        submission,
        element,
        JobState.COMPLETED if status == 0 else JobState.FAILED,
        status=decode_end(status, 0),
        ended=directories.run_ended(run),
        restarts=int(run.rpartition(".")[2]),
    )


def corrected(directories: JobDirectories, submission: Submission, end: JobEnd) -> JobEnd:
    """The end of a job whose node failed, as Slurm has it, and whose script wrote down that it had ended.

    A slurmctld that was killed comes back with jobs as running that have ended meanwhile, and does not find
    them on their nodes.
    """
    if end.state is not JobState.NODE_FAILED:
        return end
    run = f"{_job(submission.tag, end.element)}.{end.restarts - submission.interruptions}"
    status = directories.run_status(run)
    if status is None:
        return end
    exit_status, signal = decode_end(status, 0)
    return replace(
        end,
        state=JobState.COMPLETED if status == 0 else JobState.FAILED,
        exit_status=exit_status,
        signal=signal,
        reason=None if status == 0 else exit_reason(exit_status, signal),
        ended=directories.run_ended(run),
    )


def _job(tag: JobTag, element: int) -> str:
    return f"{tag}" if element == WHOLE else f"{tag}_{element}"


def last_run(tag: JobTag, element: int, begun: Mapping[str, int]) -> str | None:
    """The name of the file of the last run of a job; None where it has not begun."""
    job = _job(tag, element)
    return f"{job}.{begun[job]}" if job in begun else None


def write_ends(record: JobRecord, submissions: Sequence[Submission], ends: Sequence[JobEnd]) -> None:
    """Write down ends, and which of them may have left private directories behind."""
    if not ends:
        return
    of = {submission.token: submission.request for submission in submissions}
    sweep = [
        each
        for each in ends
        if may_leave_directories(each)
        and each.token in of
        and not of[each.token].keep
        and {"work", "util"} & of[each.token].libraries.keys()
    ]
    by_dependency = [each for each in ends if each.reason == BY_DEPENDENCY and each.token in of]
    record.end([each for each in ends if each not in by_dependency], sweep=sweep)
    named = []
    for end in by_dependency:
        # Which one is known now, also where it ended at the same time.
        waited_for = resolve(record, of[end.token])
        culprit = waited_for.doomed
        if culprit is None and end.element in waited_for.doomed_elements:
            culprit = f"{_array_waited_for(record, of[end.token])}_{end.element}"
        named.append(replace(end, reason=doomed_sentence(culprit)) if culprit else end)
    record.end(named, sweep=[])


def _array_waited_for(record: JobRecord, request: JobRequest) -> str:
    """The array whose elements those of a request wait for, by the name that users know."""
    for text in request.after:
        each = parse_dependency(text)
        if isinstance(each, Dependency) and each.type is DependencyType.EACH:
            submission, element = look_up(record, each.job)
            return submission.name_of(element) if submission is not None else each.job
    return ""


def may_leave_directories(ended: JobEnd) -> bool:
    """Whether its script may have been killed before it removed the private directories."""
    return ended.state not in _BY_ITSELF or ended.signal is not None


def _ended(
    submission: Submission,
    element: int,
    state: JobState,
    *,
    status: tuple[int | None, int | None] = (None, None),
    sentence: str | None = None,
    row: QueueRow | None = None,
    ended: float | None = None,
    restarts: int = 0,
) -> JobEnd:
    exit_status, signal = status
    if state is JobState.COMPLETED:
        exit_status, signal = 0, None
    elif state is JobState.NODE_FAILED or exit_status == 0:
        # Slurm has 0 for a job that was ended before its command was, too.
        exit_status = None
    return JobEnd(
        token=submission.token,
        element=element,
        state=state,
        exit_status=exit_status,
        signal=signal,
        reason=sentence or (exit_reason(exit_status, signal) if state is JobState.FAILED else None),
        node=row.node if row is not None else None,
        queue=(row.queue if row is not None else None) or submission.request.queue,
        # Slurm gives a job that was cancelled while it waited the time of that as its start.
        started=row.started if row is not None and row.node is not None else None,
        ended=row.ended if row is not None else ended,
        restarts=submission.interruptions + restarts,
        attempt=submission.attempt,
    )


def _sentence(
    submission: Submission, of_state: str, slurms: str, state: JobState, cancelled: bool
) -> str | None:
    if submission.doomed is not None:
        return doomed_sentence(submission.doomed)
    if state is JobState.OUT_OF_MEMORY and submission.request.memory_bytes is not None:
        return f"used more memory than the {format_bytes(submission.request.memory_bytes)} that it may use"
    if of_state:
        return of_state
    if state is JobState.CANCELLED:
        if cancelled:
            return CANCELLED_BY_USER
        by_dependency = slurms.startswith("Dependency") or (not slurms and submission.request.after)
        return BY_DEPENDENCY if by_dependency else "it was cancelled in Slurm"
    untold = state is not JobState.FAILED or slurms in _UNTOLD
    return None if untold else reason(slurms).sentence
