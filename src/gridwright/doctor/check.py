"""What a check of the doctor is: declared once with its reason and source, answered for each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gridwright.doctor.facts.node_facts import LibraryFacts, NodeFacts
from gridwright.doctor.observation import Observation
from gridwright.errors import Level


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
