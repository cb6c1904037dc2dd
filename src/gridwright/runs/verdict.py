"""The verdict on a run: what was measured held against what is required, and graded by what that can show.

It is made once, when the run ends, and stored in run.json.

Headline, colour, exit status, JSON and marks in charts are functions of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from gridwright.errors import ExitStatus
from gridwright.runs.phase_record import PhaseRecord, Status
from gridwright.runs.records import FindingRecord, IotestRecord, LibraryRecord, NodeCheck, RunRecord
from gridwright.runs.repeats import RepeatedFigure, reaches, repeated
from gridwright.runs.workload_judge import all_met
from gridwright.runs.workload_record import WorkloadRecord

JUDGED: tuple[Literal["write", "read"], ...] = ("write", "read")
"""The phases whose figures are held against a requirement."""


def judge_library(library: LibraryRecord) -> bool | None:
    """Say whether a library meets its requirement.

    Writes and reads are both required. The best complete figure of each counts: that of the node with the
    least, over the whole phase or, where it is less, over its last level. One figure below the requirement,
    or wrong data, is a miss; one that was not measured, or does not count (cached, interrupted), or still
    fell to less, leaves it open. So does one from which a node is missing: the others had the file system
    for themselves, so that they prove a miss, and nothing else. What something else disturbed proves
    neither. Where the test was repeated, the median of the repeats that count is judged, and the answer is
    open where it reaches the requirement by no more than chance can do. Where two layouts were compared, the
    library's own is judged: jobs have that one. None where nothing is required or the answer is open.
    """
    compared = library.layouts.phases if library.layouts else ()
    if any(phase.status == "failed" for phase in (*library.phases, *compared)):
        return False
    required = library.requires_bytes_per_s_per_core
    if required is None:
        return None
    return all_met(_answer([phase for phase in library.phases if phase.op == op], required) for op in JUDGED)


def judge_run(libraries: Iterable[LibraryRecord]) -> bool | None:
    """Say whether all libraries that require something get it; None if nothing does, or it is open."""
    return all_met(
        library.met
        for library in libraries
        if library.requires_bytes_per_s_per_core is not None or library.met is False
    )


def _answer(phases: list[PhaseRecord], required: float) -> bool | None:
    if any(phase.repeat is not None for phase in phases):
        return _answer_of_repeats(counting(phases), required)
    counted = [(judged_figure(phase), is_whole(phase, required)) for phase in counting(phases)]
    if not counted:
        return None
    if max(figure for figure, _ in counted) < required:
        return False
    return True if any(whole and figure >= required for figure, whole in counted) else None


def judged_figure(phase: PhaseRecord) -> float:
    """What of a phase is held against a requirement, in bytes per second and core."""
    return phase.judged_bytes_per_s_per_core or 0.0


def is_whole(phase: PhaseRecord, required: float) -> bool:
    """Whether a phase can show that a requirement is met: on all nodes, and not on the way below it."""
    fell_to = phase.fell_to_bytes_per_s_per_core
    return not phase.failed_nodes and (fell_to is None or fell_to >= required)


def _answer_of_repeats(counted: list[PhaseRecord], required: float) -> bool | None:
    met = reaches([judged_figure(phase) for phase in counted], required)
    return met if not met or all(is_whole(phase, required) for phase in counted) else None


def counting(phases: Iterable[PhaseRecord]) -> list[PhaseRecord]:
    """The phases whose figures count: whole, not cached, and not disturbed."""
    return [phase for phase in phases if counts(phase) and phase.per_core_bytes_per_s is not None]


def counts(phase: PhaseRecord) -> bool:
    """Whether figures of a phase count."""
    return phase.status == "complete" and not phase.cached and not phase.doubtful


def repeated_figures(phases: Iterable[PhaseRecord]) -> list[RepeatedFigure]:
    """Each operation over its repeats: the rate per core, or operations per second; none without repeats."""
    of: dict[str, list[PhaseRecord]] = {}
    for phase in phases:
        if phase.repeat is not None:
            of.setdefault(phase.op, []).append(phase)
    found = []
    for op, records in of.items():
        figure = "ops_per_s" if op == "metadata" else "per_core_bytes_per_s"
        taken = "ops_per_s" if op == "metadata" else "judged_bytes_per_s_per_core"
        values = [getattr(phase, taken) for phase in records if counts(phase)]
        known = [value for value in values if value is not None]
        found.append(repeated(figure, known, ran=len(records), of=op))
    return found


VerdictKind = Literal["met", "missed", "unproven", "unrequired", "interrupted", "failed", "running"]
"""`unproven`: a requirement was not measured, or its figures do not count. `unrequired`: nothing is
required."""
JUDGED_KINDS: tuple[VerdictKind, ...] = ("met", "missed", "unproven", "unrequired")
"""Verdicts on a run that ended."""
WRONG_DATA = "wrong-data"
"""The finding of bytes that are not those written."""
_NODE_FAILURES = frozenset({"node-lost", "node-failed"})
"""Findings of nodes that failed while the others went on."""


def has_wrong_data(findings: Iterable[FindingRecord]) -> bool:
    """Whether bytes came back that are not those written."""
    return any(finding.name == WRONG_DATA for finding in findings)


def has_no_verdict(status: Status, findings: Iterable[FindingRecord]) -> bool:
    """Whether a run failed: then nobody knows what it would have shown. Wrong data are a verdict."""
    return status == "failed" and not has_wrong_data(findings)


def make_verdict(
    status: Status,
    iotest: IotestRecord | None,
    workload: WorkloadRecord | None,
    checks: Iterable[NodeCheck] = (),
    unmeasured: Iterable[str] = (),
) -> VerdictKind:
    """Judge a run by its parts.

    `checks` are what was wrong with nodes before anything was measured; `unmeasured` are requirements whose
    part of the run was left out.
    """
    parts = [part for part in (iotest, workload) if part is not None]
    states = {status, *(part.status for part in parts)}
    if has_no_verdict(
        "failed" if "failed" in states else status, [f for part in parts for f in part.findings]
    ):
        return "failed"
    for state in ("interrupted", "running"):
        if state in states:
            return state
    answers: list[bool | None] = [None for _ in unmeasured]
    if iotest is not None and (iotest.requires_something or iotest.met is False):
        answers.append(iotest.met)
    if workload is not None and not unrequired(workload):
        answers.append(workload_met(workload))
    if False in answers or any(check.level == "error" for check in checks):
        return "missed"
    if not answers:
        return "unrequired" if parts else "unproven"
    return "met" if all_met(answers) else "unproven"


def verdict_on(
    run: RunRecord, iotest: IotestRecord | None, workload: WorkloadRecord | None = None
) -> VerdictKind:
    """The stored verdict; of a run that goes on, was killed, or is of an earlier release, one made now."""
    for kind in get_args(VerdictKind):
        if run.verdict == kind and run.status != "running":
            return kind  # type: ignore[no-any-return]
    kind = make_verdict(run.status, iotest, workload, run.checks, run.unmeasured)
    # Earlier releases stored no more than whether all was met.
    return "missed" if run.met is False and kind in JUDGED_KINDS else kind


def met_of(kind: VerdictKind) -> bool | None:
    """Whether all that is required is met; None where nothing is, or it is open."""
    return {"met": True, "missed": False}.get(kind)


def exit_status(ended: ExitStatus, kind: str | None, findings: Iterable[FindingRecord]) -> ExitStatus:
    """The exit status of a command that made a run; `ended` is how its processes ended.

    A node that failed while the others went on is a failure of the environment, whatever these measured.
    """
    if ended != ExitStatus.DONE:
        return ended
    if any(finding.name in _NODE_FAILURES for finding in findings):
        return ExitStatus.ENVIRONMENT
    return ExitStatus.MISSED if kind in ("missed", "unproven") else ExitStatus.DONE


def workload_met(record: WorkloadRecord) -> bool | None:
    """Whether every launch is right and all that is required is met; None where nothing is, or it is open."""
    if record.summary.failed or any(not launch.ok for launch in record.launches):
        return False
    # Earlier releases called right answers alone met.
    return record.met if record.summary.launches and record.requirements else None


def unrequired(record: WorkloadRecord) -> bool:
    """Whether it ran well, and nothing is required of it: there is no verdict then."""
    ran = bool(record.summary.launches) and not record.refused
    nothing = not record.requires_something and workload_met(record) is None
    return ran and nothing and not (record.doubtful and record.requirements)


Grade = Literal["quick look", "proof"]
TIMES_MEMORY = 2
"""How many times the memory of a node its streams move before memory can no longer hide a rate. Half of what
was moved went to the disk then, at the least."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The grade of a run, and in one line what was not shown; empty where all was."""

    grade: Grade
    not_shown: str = ""


def grade_of(
    iotest: IotestRecord | None, workload: WorkloadRecord | None, memory_bytes: int
) -> Graded | None:
    """Grade what was measured; None where nothing was.

    `memory_bytes` is that of the machine that ran it. A library is proven where every phase that is judged
    moved, on each node, twice the memory of the node, or was found steady, and did not still fall at its
    end; a workload where its launches moved as much on all nodes together. What a server or a controller
    holds is not known here.
    """
    short: list[str] = []
    falling: list[str] = []
    measured = False
    memory = _memory_by_node(iotest, memory_bytes)
    for library in iotest.libraries if iotest else []:
        phases = _judged(library)
        measured = measured or bool(phases)
        if any(not _lasted(phase, memory, memory_bytes) for phase in phases):
            short.append(library.library)
        elif any(phase.falling is not None for phase in phases):
            falling.append(library.library)
    if workload is not None and workload.launches and workload.matrix is not None:
        measured = True
        nodes = max(1, len({launch.node for launch in workload.launches}))
        moved = sum((x.read_bytes or 0) + (x.written_bytes or 0) for x in workload.launches)
        if moved < TIMES_MEMORY * nodes * max(memory.values(), default=memory_bytes):
            short.append("the workload")
    if not measured:
        return None
    if not short and not falling:
        return Graded("proof")
    return Graded("quick look", _not_shown(short, falling))


def _judged(library: LibraryRecord) -> list[PhaseRecord]:
    return [phase for phase in library.phases if phase.op in JUDGED and phase.status == "complete"]


def _memory_by_node(iotest: IotestRecord | None, memory_bytes: int) -> dict[str, int]:
    return {node.node: node.memory_bytes or memory_bytes for node in (iotest.nodes if iotest else [])}


def _lasted(phase: PhaseRecord, memory: dict[str, int], default: int) -> bool:
    if phase.steady is not None and phase.steady.steady:
        return True
    lasting = phase.lasting
    if lasting is not None and any(
        each.bytes > lasting.bytes for each in phase.levels if each.bytes_per_s > lasting.bytes_per_s
    ):
        return False
    if not phase.nodes:
        return (phase.bytes or 0) >= TIMES_MEMORY * default
    whole = [node for node in phase.nodes if node.status == "complete"]
    return bool(whole) and all(
        (node.bytes or 0) >= TIMES_MEMORY * memory.get(node.node, default) for node in whole
    )


def _not_shown(short: list[str], falling: list[str]) -> str:
    of = ", ".join([*short, *falling])
    why = []
    if short:
        why.append(
            "What was moved is less than twice the memory that can hold it, and a burst of the storage can "
            "outlast it"
        )
    if falling:
        why.append(f"The rate of {', '.join(falling)} still fell when a phase ended")
    return (
        f"Not shown: sustained rates, of {of}. {'. '.join(why)}. Longer phases (--seconds 10m), or "
        "gridwright iotest --until-steady, show it."
    )
