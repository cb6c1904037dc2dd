"""Makes results of checks from an observation: nodes with the same outcome are one result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gridwright.doctor.check import Check, CheckResult, Judgement, NodeJudgement
from gridwright.doctor.observation import Observation
from gridwright.errors import GRAVEST_FIRST, Finding

MOST_RESULTS = 12
"""Of one check that came out wrong: from then on nodes that differ in a figure only are put together."""
_SHOWN = 3
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
        more = len(shown) - _SHOWN
        return "; ".join(shown[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


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
