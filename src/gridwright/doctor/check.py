"""Checks of the doctor: what is observed of a grid, what a check is, and results made of both.

A check is declared once with its reason and source, and answered for each node; nodes with the same outcome
are one result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gridwright.doctor.facts.node_facts import LibraryFacts, MountFacts, NodeFacts
from gridwright.errors import GRAVEST_FIRST, Finding, Level
from gridwright.filesystems.layout import DesiredLayout
from gridwright.grid.nodes import Promised
from gridwright.schedulers.scheduler import SettingComparison
from gridwright.spec.machines import MachineGroup
from gridwright.spec.model import GridSpec, NodeGroup

Trial = Literal["seen", "read", "rename", "flock", "fcntl", "append"]
"""What a pair tries: that both see the same directory; that what one wrote and closed the other reads; that a
new file under an old name is seen; that locks of one keep out the other; that both can append to one file."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial of a pair on a file system: None where it came out right, else what was seen instead."""

    filesystem: str
    nodes: tuple[str, str]
    trial: Trial
    wrong: str | None


@dataclass(frozen=True, slots=True)
class PairFindings:
    """All trials, and pairs whose trials could not be ended, with the reason."""

    tried: tuple[Tried, ...] = ()
    untried: Mapping[tuple[str, str], str] = field(default_factory=dict)
    clock_offsets_s: Mapping[str, float] = field(default_factory=dict)
    """By node: how far its clock is from that of the machine which asked, beyond the time of the question."""


_SHOWN = 6


@dataclass(frozen=True, slots=True)
class SearchedFiles:
    """What a search of the libraries on a file system found."""

    findings: Sequence[Finding]
    complete: bool
    """Whether it came to its end in every library."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the nodes of a grid, or this machine alone, told about themselves and each other."""

    spec: GridSpec | None
    facts: Mapping[str, NodeFacts]
    silent: Mapping[str, str]
    """Nodes that did not answer, and what there was instead."""
    clock_offsets_s: Mapping[str, float]
    """How far the clock of a node is from that of the machine which asked, as far as is certain."""
    down: Mapping[str, str] = field(default_factory=dict)
    """Nodes that the scheduler gives no jobs, and its word for why."""
    known: Collection[str] = ()
    """All nodes that were to be asked, whether they answered or not; empty for this machine alone."""
    asleep: Sequence[str] = ()
    """Nodes that are off until a job waits for them."""
    promised: Mapping[str, Promised] = field(default_factory=dict)
    scheduler_silent: str | None = None
    """Why the scheduler says nothing of nodes, where it does not answer."""
    scheduler_settings: Sequence[SettingComparison] = ()
    state_faults: Sequence[str] | None = None
    """What of the state directory is another user's; None where that was not looked at."""
    pairs: PairFindings | None = None
    """What pairs of nodes found of file systems that they share; None where they were not asked."""
    filesystems: Mapping[str, Sequence[Finding] | str] = field(default_factory=dict)
    """Of each file system whose servers were asked: what is wrong with it, or why they do not answer."""
    targets_away: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each file system whose servers told of targets: the state of each that is not up."""
    servers_silent: Collection[str] = ()
    """File systems whose servers were asked and do not answer, so that all of it waits: findings say why."""
    searched: Mapping[str, SearchedFiles] = field(default_factory=dict)
    """Of each file system whose libraries were searched: what is wrong with files there."""
    wishes: Mapping[str, DesiredLayout] = field(default_factory=dict)
    """The layouts that libraries are to have, by name; of others the spec is asked."""
    refused_deletions: Mapping[str, Sequence[tuple[str, str]]] | None = None
    """Of each repository whose state this machine has: commands that refused a mass deletion, and why."""

    @property
    def several(self) -> bool:
        """Whether the grid has more than one node."""
        return len(self.facts) + len(self.silent) > 1

    @property
    def shares_one_kernel(self) -> bool:
        """Whether nodes are no machines of their own: kernel, clock and disks are those of this machine."""
        return self.spec is not None and not self.spec.provider_kind.has_own_kernels

    def filesystem_of(self, library: str) -> str:
        """The file system of a library; the library itself where the spec does not tell."""
        libraries = self.spec.libraries if self.spec else {}
        return next((each.filesystem for name, each in libraries.items() if name == library), library)

    def away(self, node: str, filesystem: str) -> str | None:
        """What of a file system a node does not reach, in words; None where it reaches all that is known.

        What hangs there, or fails as calls do where servers are gone, follows from that.
        """
        if filesystem in self.servers_silent:
            return "its servers do not answer"
        states = self.facts[node].targets_away.get(filesystem)
        if not states:
            return None
        shown = [f"{name} ({state})" for name, state in sorted(states.items())]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        return f"targets are away: {', '.join(shown[:_SHOWN])}{more}"

    def away_below(self, node: str, mount: MountFacts) -> str | None:
        """The same of what is mounted somewhere, also a second time."""
        paths = {name: str(each.path) for name, each in self.spec.filesystems.items()} if self.spec else {}
        sources = {each.mount_point: each.source for each in self.facts[node].mounts or ()}
        names = [*self.facts[node].targets_away, *self.servers_silent]
        same = (name for name in names if sources.get(paths.get(name, name)) == mount.source)
        return next((found for name in same if (found := self.away(node, name))), None)

    def machine_group_of(self, node: str) -> MachineGroup | None:
        """The group of a machine beside the nodes, which runs no jobs; None for nodes."""
        groups = self.spec.machines.items() if self.spec is not None else ()
        return next((group for name, group in groups if node in group.machine_names(name)), None)

    def group_of(self, node: str) -> NodeGroup | None:
        """The group of the spec that a node is of, by the names that the spec gives, or by its own."""
        if self.spec is None:
            return None
        if self.spec.is_one_machine and len(self.spec.nodes) == 1:
            return next(iter(self.spec.nodes.values()))
        if self.machine_group_of(node) is not None:
            return None
        # A site's Slurm may know more nodes of a group than the grid has.
        return self.spec.group_of(node) or self.spec.nodes.get(node.rstrip("0123456789"))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check as it came out on some nodes; those that came out alike are one result."""

    name: str
    """Stable, as `silence` in the spec has it."""
    level: Level
    nodes: tuple[str, ...]
    """Empty for what is not of a node, such as a file system as a whole."""
    found: str
    expected: str
    reason: str
    """Why it matters, and what it costs."""
    source: str
    """Where the reason comes from: a fact of a paper (`003.tun.45`), a manual page, a kernel document."""
    remedy: str
    ok: bool
    applies: bool = True
    """False where there is nothing to judge: it is not there, not known, or not for such nodes. `ok` then."""
    silenced: str | None = None
    """Why the spec silences it; it does not count then."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a check came out in one place."""

    ok: bool
    found: str
    expected: str
    applies: bool = True
    remedy: str | None = None
    """Where one is known that fits better than that of the check."""
    answered: bool = True
    """False where something kept it from being looked at, so that it may be right or wrong."""


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """A verdict, and the nodes that it is of."""

    nodes: tuple[str, ...]
    judgement: Judgement
    target: str = ""
    """What on these nodes it is of, such as a library; empty where that is the node as a whole."""


def judged(ok: bool, found: str, expected: str, remedy: str | None = None) -> Judgement:
    """It is as it should be, or not."""
    return Judgement(ok, found, expected, remedy=remedy)


def idle(found: str, expected: str = "") -> Judgement:
    """There is nothing to judge; `found` says why."""
    return Judgement(True, found, expected, applies=False)


def unanswered(found: str, expected: str = "") -> Judgement:
    """It could not be looked at; `found` says why. What was wrong there before may still be."""
    return Judgement(True, found, expected, applies=False, answered=False)


def unless_away(judgement: Judgement, away: str | None) -> Judgement:
    """A fault that follows from what is away, which is told itself: not known, and not wrong."""
    if away is None or judgement.ok:
        return judgement
    return unanswered(f"{judgement.found}: {away}", judgement.expected)


Answers = Callable[[Observation], Iterable[NodeJudgement]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check: what is wrong where it fails, why that matters, and how to mend it."""

    name: str
    level: Level
    topic: str
    fault: str
    """What is the case where it fails, as a clause: `a library does not answer`."""
    reason: str
    source: str
    remedy: str
    answers: Answers
    reads: frozenset[str] | None = None
    """Sections of a node's facts that it reads, where it is so cheap that a watch has it each minute.

    A node reads such a section within 10 ms of CPU time and starts no program for it; only `health` may ask a
    file system by a few commands (`bench/doctor_cost.py` measures both). None: each hour, with all others.
    """

    @property
    def is_cheap(self) -> bool:
        """Whether it may be looked at each minute."""
        return self.reads is not None


LibraryJudge: TypeAlias = "Callable[[str, LibraryFacts], Judgement]"


@dataclass(slots=True)
class Topic:
    """Checks that belong together, declared by its decorators."""

    name: str
    checks: list[Check] = field(default_factory=list)

    def check(
        self,
        name: str,
        level: Level,
        fault: str,
        *,
        reason: str,
        source: str,
        remedy: str,
        reads: Collection[str] | None = None,
    ) -> Callable[[Answers], Answers]:
        """Declare a check of all that was seen; `reads` of one that is cheap."""
        read = None if reads is None else frozenset(reads)

        def declare(answers: Answers) -> Answers:
            self.checks.append(Check(name, level, self.name, fault, reason, source, remedy, answers, read))
            return answers

        return declare

    def node_check(
        self,
        name: str,
        level: Level,
        fault: str,
        *,
        section: str | None = None,
        reason: str,
        source: str,
        remedy: str,
        reads: Collection[str] | None = None,
    ) -> Callable[[Callable[[NodeFacts], Judgement]], Callable[[NodeFacts], Judgement]]:
        """Declare a check of each node by itself; one that could not tell of `section` is not judged."""

        def declare(judgement: Callable[[NodeFacts], Judgement]) -> Callable[[NodeFacts], Judgement]:
            def answers(observation: Observation) -> Iterator[NodeJudgement]:
                for node, facts in observation.facts.items():
                    known = section is None or getattr(facts, section) is not None
                    yield NodeJudgement((node,), judgement(facts) if known else unknown(facts, section or ""))

            self.check(name, level, fault, reason=reason, source=source, remedy=remedy, reads=reads)(answers)
            return judgement

        return declare

    def library_check(
        self,
        name: str,
        level: Level,
        fault: str,
        *,
        reason: str,
        source: str,
        remedy: str,
        reads: Collection[str] | None = None,
    ) -> Callable[[LibraryJudge], LibraryJudge]:
        """Declare a check of each library on each node, which is given its name and what the node tells."""

        def declare(judgement: LibraryJudge) -> LibraryJudge:
            def answers(observation: Observation) -> Iterator[NodeJudgement]:
                for node, facts in observation.facts.items():
                    for library, each in facts.libraries.items():
                        found = placed(library, each, judgement(library, each))
                        if each.hangs:
                            found = unless_away(
                                found, observation.away(node, observation.filesystem_of(library))
                            )
                        yield NodeJudgement((node,), found, library)

            self.check(name, level, fault, reason=reason, source=source, remedy=remedy, reads=reads)(answers)
            return judgement

        return declare


def unknown(facts: NodeFacts, section: str) -> Judgement:
    """The node could not tell."""
    return unanswered(f"not known: {facts.unknown.get(section, 'the node does not tell')}")


def placed(name: str, library: LibraryFacts, judgement: Judgement) -> Judgement:
    """The same, said of a library."""
    found = f"library {name} ({library.path}): {judgement.found}"
    return replace(judgement, found=found)


MOST_RESULTS = 12
"""Of one check that came out wrong: from then on nodes that differ in a figure only are put together."""
_SHOWN_REASONS = 3
_LAID_OUT = "files lie over the targets that serve them best"
_WHY_LAID_OUT = "The targets that a file lies on are all that serve it, and what they carry besides slows it."


def results_of(observation: Observation, checks: Iterable[Check]) -> list[CheckResult]:
    """Every check, wrong ones first and the gravest of them; each at least once."""
    results = [result for check in checks for result in _results(check, observation)] + _reported_results(
        observation
    )
    silence = observation.spec.silence if observation.spec else {}
    results = [
        replace(result, silenced=silence[result.name]) if not result.ok and result.name in silence else result
        for result in results
    ]
    return sorted(results, key=lambda each: (each.ok, each.silenced is not None, GRAVEST_FIRST[each.level]))


def counts(result: CheckResult) -> bool:
    """Whether it is wrong, and the spec does not silence it."""
    return not result.ok and result.silenced is None


@dataclass(slots=True)
class _Group:
    judgement: Judgement
    nodes: dict[str, None] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)

    def add(self, answer: NodeJudgement) -> None:
        self.nodes.update(dict.fromkeys(answer.nodes))
        self.texts[answer.judgement.found] = None

    @property
    def shown_text(self) -> str:
        shown = list(self.texts)
        more = len(shown) - _SHOWN_REASONS
        return "; ".join(shown[:_SHOWN_REASONS]) + (f"; and {more} more" if more > 0 else "")


def _results(check: Check, observation: Observation) -> list[CheckResult]:
    answers = list(check.answers(observation))
    wrong = _grouped(answer for answer in answers if not answer.judgement.ok)
    right = [answer for answer in answers if answer.judgement.ok and answer.judgement.applies]
    unjudged = [answer for answer in answers if answer.judgement.ok and not answer.judgement.applies]
    groups = [*wrong, *_together(right), *_together(unjudged)]
    if not groups:
        groups = [_Group(Judgement(True, "", "", applies=False), texts={"nothing to look at": None})]
    return [_result(check, group) for group in groups]


def _grouped(answers: Iterable[NodeJudgement]) -> list[_Group]:
    """Equal verdicts together; where there are too many, all that expect the same."""
    groups: dict[tuple[str, ...], _Group] = {}
    known = list(answers)
    for answer in known:
        judgement = answer.judgement
        key = (judgement.found, judgement.expected, judgement.remedy or "")
        groups.setdefault(key, _Group(judgement)).add(answer)
    if len(groups) <= MOST_RESULTS:
        return list(groups.values())
    joined: dict[str, _Group] = {}
    for answer in known:
        plain = replace(answer.judgement, remedy=None)
        joined.setdefault(answer.judgement.expected, _Group(plain)).add(answer)
    return list(joined.values())


def _together(answers: Sequence[NodeJudgement]) -> list[_Group]:
    """What is right is one result, whatever its figures."""
    if not answers:
        return []
    group = _Group(answers[0].judgement)
    for answer in answers:
        group.add(answer)
    return [group]


def _result(check: Check, group: _Group) -> CheckResult:
    judgement = group.judgement
    return CheckResult(
        name=check.name,
        level=check.level,
        nodes=tuple(group.nodes),
        found=group.shown_text,
        expected=judgement.expected,
        reason=check.reason,
        source=check.source,
        remedy=judgement.remedy or check.remedy,
        ok=judgement.ok,
        applies=judgement.applies,
    )


def _reported_results(observation: Observation) -> list[CheckResult]:
    """What the servers of file systems found themselves, and what nodes found as their clients."""
    results = [
        _from_servers(name, finding, ())
        for name, said in observation.filesystems.items()
        if not isinstance(said, str)
        for finding in said
    ]
    results += [
        replace(_from_servers(name, finding, ()), expected=_LAID_OUT, reason=_WHY_LAID_OUT)
        for name, searched in observation.searched.items()
        for finding in searched.findings
    ]
    by_nodes: dict[tuple[str, Finding], list[str]] = {}
    for node, facts in observation.facts.items():
        for name, findings in facts.health.items():
            for finding in findings:
                by_nodes.setdefault((name, finding), []).append(node)
    return results + [_from_servers(*key, tuple(nodes)) for key, nodes in by_nodes.items()]


def _from_servers(name: str, finding: Finding, nodes: tuple[str, ...]) -> CheckResult:
    return CheckResult(
        name=finding.name,
        level=finding.level,
        nodes=nodes,
        found=f"file system {name}: {finding.text}",
        expected="all of it serves",
        reason="What every node reads and writes depends on it.",
        source="gridwright help filesystems",
        remedy=finding.remedy,
        ok=False,
    )
