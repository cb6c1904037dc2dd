"""What a check of the doctor is: declared once with its reason and source, answered for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gridwright.doctor.facts.node_facts import LibraryFacts, NodeFacts
from gridwright.doctor.observation import Seen
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
class Verdict:
    """How a check came out in one place."""

    ok: bool
    found: str
    expected: str
    applies: bool = True
    remedy: str | None = None
    """Where one is known that fits better than that of the check."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict, and the nodes that it is of."""

    nodes: tuple[str, ...]
    verdict: Verdict


def judged(ok: bool, found: str, expected: str, remedy: str | None = None) -> Verdict:
    """It is as it should be, or not."""
    return Verdict(ok, found, expected, remedy=remedy)


def idle(found: str, expected: str = "") -> Verdict:
    """There is nothing to judge; `found` says why."""
    return Verdict(True, found, expected, applies=False)


Answers = Callable[[Seen], Iterable[Answer]]


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


@dataclass(slots=True)
class Topic:
    """Checks that belong together, declared by its decorators."""

    name: str
    checks: list[Check] = field(default_factory=list)

    def check(
        self, name: str, level: Level, fault: str, *, reason: str, source: str, remedy: str
    ) -> Callable[[Answers], Answers]:
        """Declare a check of all that was seen."""

        def declare(answers: Answers) -> Answers:
            self.checks.append(Check(name, level, self.name, fault, reason, source, remedy, answers))
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
    ) -> Callable[[Callable[[NodeFacts], Verdict]], Callable[[NodeFacts], Verdict]]:
        """Declare a check of each node by itself; one that could not tell of `section` is not judged."""

        def declare(verdict: Callable[[NodeFacts], Verdict]) -> Callable[[NodeFacts], Verdict]:
            def answers(seen: Seen) -> Iterator[Answer]:
                for node, facts in seen.facts.items():
                    known = section is None or getattr(facts, section) is not None
                    yield Answer((node,), verdict(facts) if known else unknown(facts, section or ""))

            self.check(name, level, fault, reason=reason, source=source, remedy=remedy)(answers)
            return verdict

        return declare

    def library_check(
        self, name: str, level: Level, fault: str, *, reason: str, source: str, remedy: str
    ) -> Callable[[Callable[[LibraryFacts], Verdict]], Callable[[LibraryFacts], Verdict]]:
        """Declare a check of each library on each node."""

        def declare(verdict: Callable[[LibraryFacts], Verdict]) -> Callable[[LibraryFacts], Verdict]:
            def answers(seen: Seen) -> Iterator[Answer]:
                for node, facts in seen.facts.items():
                    for library, each in facts.libraries.items():
                        yield Answer((node,), _placed(library, each, verdict(each)))

            self.check(name, level, fault, reason=reason, source=source, remedy=remedy)(answers)
            return verdict

        return declare


def unknown(facts: NodeFacts, section: str) -> Verdict:
    """The node could not tell."""
    return idle(f"not known: {facts.unknown.get(section, 'the node does not tell')}")


def _placed(name: str, library: LibraryFacts, verdict: Verdict) -> Verdict:
    found = f"library {name} ({library.path}): {verdict.found}"
    return Verdict(verdict.ok, found, verdict.expected, verdict.applies, verdict.remedy)
