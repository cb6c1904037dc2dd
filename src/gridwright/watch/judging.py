"""Says what of an observation is wrong, and which known findings were looked for and not found; pure."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from gridwright.doctor.check import Check, NodeJudgement, Observation
from gridwright.doctor.checks import all_checks
from gridwright.errors import GRAVEST_FIRST, Finding, Level
from gridwright.watch.rounds import NODE_DOWN, NODE_SILENT, FindingKey, Pace, RoundReport, SeenFinding

UNREACHED, TARGET_DOWN = "watch-nodes-unreached", "watch-target-down"
_NO_NODE = ""
_TARGET_REASON = "What lies on it cannot be read, and what is written there waits."
_Places = Mapping[str, list[NodeJudgement]]
"""Answers of a check by node; those of no node under an empty name."""
MOST_TEXT = 500
"""Characters of a text that is kept."""


def round_report(
    observation: Observation,
    checks: Collection[Check],
    known: Iterable[FindingKey],
    *,
    everything: bool,
    level: Level = "warning",
    as_service: bool = False,
) -> RoundReport:
    """Judge what was seen by these checks; `everything` says whether they are all.

    A known finding is clear only where its place was looked at and is right. What was not answered is in
    neither list. Of a node that is silent nothing is told but that. A service is no user of the libraries:
    that one may not be written to by its account says nothing.
    """
    answers = {check.name: list(check.answers(observation)) for check in checks}
    wrong = [*_unreached(observation), *_wrong(checks, answers)]
    wrong += [*_reported_findings(observation), *_targets(observation)]
    silenced = observation.spec.silence if observation.spec else {}
    low = {each.key for each in wrong if GRAVEST_FIRST[each.level] > GRAVEST_FIRST[level]}
    findings: dict[FindingKey, SeenFinding] = {}
    for each in wrong:
        if as_service and _is_lack_of_rights(each):
            continue
        is_told_by_silence = each.key.name == NODE_DOWN and set(each.key.nodes) <= set(observation.silent)
        if each.key.name in silenced or is_told_by_silence or each.key in low:
            continue
        before = findings.get(each.key)
        findings[each.key] = each if before is None else _joined(before, each)
    left = [key for key in known if key not in findings]
    gone = {key for key in left if _is_gone(observation, key)}
    places = {name: _by_node(answer) for name, answer in answers.items()}
    clear = [
        key
        for key in left
        if key not in gone and (key.name in silenced or key in low or _was_seen(observation, places, key))
    ]
    return RoundReport(
        list(findings.values()),
        clear,
        sorted(gone),
        sorted(observation.down),
        len(observation.facts),
        len(observation.silent),
        everything,
    )


def _unreached(observation: Observation) -> Iterator[SeenFinding]:
    """That no node could be asked, though none is silent: where only jobs would get there."""
    if observation.known and not (observation.facts or observation.silent or observation.asleep):
        yield SeenFinding(
            FindingKey(UNREACHED),
            "warning",
            "each",
            f"ssh reaches none of {len(observation.known)} nodes from here",
            "nodes that answer",
            "Only what the scheduler and servers of file systems say is watched.",
            "let the account of the watch log in to nodes without a password: gridwright help watch",
        )


def _wrong(checks: Collection[Check], answers: Mapping[str, list[NodeJudgement]]) -> Iterator[SeenFinding]:
    for check in checks:
        pace: Pace = "each" if check.is_cheap else "all"
        for answer in answers[check.name]:
            verdict = answer.judgement
            if verdict.ok:
                continue
            yield SeenFinding(
                FindingKey(check.name, answer.nodes, answer.target),
                check.level,
                pace,
                verdict.found[:MOST_TEXT],
                verdict.expected[:MOST_TEXT],
                check.reason,
                verdict.remedy or check.remedy,
            )


def _reported_findings(observation: Observation) -> Iterator[SeenFinding]:
    """Findings that servers and clients of file systems reported, and searches of their files."""
    for name, said in observation.filesystems.items():
        for finding in () if isinstance(said, str) else said:
            yield _of_filesystem(name, finding, (), "each")
    for node, facts in observation.facts.items():
        for name, findings in facts.health.items():
            for finding in findings:
                yield _of_filesystem(name, finding, (node,), "each")
    for name, searched in observation.searched.items():
        for finding in searched.findings:
            yield _of_filesystem(name, finding, (), "all")


def _targets(observation: Observation) -> Iterator[SeenFinding]:
    """Each target or server that is not up, whoever sees it: of what kinds tell, all are one finding."""
    spec = observation.spec
    states: dict[FindingKey, list[str]] = {}
    for name, away in observation.targets_away.items():
        for target, state in away.items():
            states.setdefault(_target_key(name, target), []).append(f"its servers call it {state}")
    for node, facts in observation.facts.items():
        for name, away in facts.targets_away.items():
            own = spec is not None and name in spec.filesystems and spec.filesystems[name].is_node_local
            for target, state in away.items():
                key = _target_key(name, target, (node,) if own else ())
                states.setdefault(key, []).append(f"{state} to {node}")
    for key, words in states.items():
        name, _, target = key.target.partition(" ")
        more = f", and not up to {len(words) - 1} more" if len(words) > 1 else ""
        text = f"{target} of file system {name} is not up: {words[0]}{more}"
        remedy = "see what the file system says itself: gridwright status, gridwright doctor"
        yield SeenFinding(key, "error", "each", text[:MOST_TEXT], "all of it serves", _TARGET_REASON, remedy)


def _target_key(filesystem: str, target: str, nodes: tuple[str, ...] = ()) -> FindingKey:
    return FindingKey(TARGET_DOWN, nodes, f"{filesystem} {target}")


def _of_filesystem(name: str, finding: Finding, nodes: tuple[str, ...], pace: Pace) -> SeenFinding:
    return SeenFinding(
        FindingKey(finding.name, nodes, name),
        finding.level,
        pace,
        finding.text[:MOST_TEXT],
        remedy=finding.remedy[:MOST_TEXT],
    )


def _is_lack_of_rights(seen: SeenFinding) -> bool:
    refused = seen.key.name == "library-refuses" and seen.found.endswith(os.strerror(errno.EACCES))
    return refused or seen.key.name == "library-for-reading"


def _joined(one: SeenFinding, other: SeenFinding) -> SeenFinding:
    """Two faults of one place are one finding that tells both."""
    if other.found in one.found:
        return one
    return replace(one, found=f"{one.found}; {other.found}"[:MOST_TEXT])


def _is_gone(observation: Observation, key: FindingKey) -> bool:
    """Whether a node of it is none of the grid any more, or this machine has another name now."""
    there = {*observation.facts, *observation.silent, *observation.asleep, *observation.known}
    return bool(there) and not set(key.nodes) <= there


def _by_node(answers: Iterable[NodeJudgement]) -> _Places:
    judgements: dict[str, list[NodeJudgement]] = {}
    for answer in answers:
        for node in answer.nodes or (_NO_NODE,):
            judgements.setdefault(node, []).append(answer)
    return judgements


def _was_seen(observation: Observation, answers: Mapping[str, _Places], key: FindingKey) -> bool:
    """Whether the place of a finding that was not found was looked at."""
    nodes = set(key.nodes)
    if key.name == UNREACHED:
        return True
    if key.name == NODE_SILENT:
        return nodes <= set(observation.facts)
    if nodes & set(observation.silent) or (key.name != NODE_DOWN and not nodes <= set(observation.facts)):
        return False
    if key.name in answers:
        return _answered(answers[key.name], key)
    return key.name not in {check.name for check in all_checks()} and _was_observed(observation, key)


def _answered(places: _Places, key: FindingKey) -> bool:
    """Whether every node of it answered the check, and nothing kept its target from being looked at."""
    for node in key.nodes or (_NO_NODE,):
        answers = places.get(node, ())
        if not answers or any(
            not (answer.judgement.answered and answer.judgement.ok) and answer.target in ("", key.target)
            for answer in answers
        ):
            return False
    return True


def _was_observed(observation: Observation, key: FindingKey) -> bool:
    """Whether the source of a file system's finding was observed, and answered."""
    name = key.target.partition(" ")[0]
    if observation.spec is not None and name not in observation.spec.filesystems:
        return True
    if key.name == TARGET_DOWN:
        nodes = key.nodes or tuple(observation.facts)
        by_servers = not key.nodes and name in observation.targets_away
        return by_servers or any(name in observation.facts[node].targets_away for node in nodes)
    if key.nodes:
        return all(name in observation.facts[node].health for node in key.nodes)
    if key.target in observation.searched:
        return observation.searched[key.target].complete
    return not isinstance(observation.filesystems.get(name, ""), str)
