"""What the banner says after the verdict: why a run failed, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gridwright.report.verdict import Verdict
from gridwright.runs.records import FindingRecord

_LOOK = (
    "gridwright doctor looks for settings that cost throughput, and gridwright predict --explain names what "
    "binds each library; the figures are below."
)


@dataclass(frozen=True, slots=True)
class NextStep:
    """The reason of a failure, empty where nothing failed, and what to do; either is a sentence."""

    reason: str = ""
    step: str = ""
    command: str = ""
    """A command to run, which stands after the step."""


def next_step(
    verdict: Verdict, findings: Sequence[FindingRecord], repeat: str, checks: Sequence[FindingRecord] = ()
) -> NextStep:
    """What to do after a verdict; `findings` are in the order of their gravity, with the `checks` of nodes.

    A run whose requirements are met, or that goes on, needs nothing.
    """
    found = _next_step(verdict, findings, repeat, {check.name for check in checks})
    return replace(found, reason=_sentence(found.reason), step=_sentence(found.step))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _next_step(
    verdict: Verdict, findings: Sequence[FindingRecord], repeat: str, checks: Collection[str]
) -> NextStep:
    errors = [finding for finding in findings if finding.level == "error"]
    grave = [finding for finding in findings if finding.level != "info"]
    # What nodes are like may make a grid slow; it is not what keeps a figure from being judged.
    told = [finding for finding in grave if finding.name not in checks]
    first = next(iter([*told, *grave] if verdict.kind == "unproven" else grave), None)
    if verdict.kind == "failed":
        if errors:
            return NextStep(errors[0].text, errors[0].remedy)
        return NextStep("", "Run it again:", repeat)
    if verdict.kind == "interrupted":
        return NextStep(errors[0].text if errors else "", "Run it again:", repeat)
    if verdict.kind in ("missed", "unproven"):
        if first is not None:
            return NextStep(first.text if first.level == "error" else "", first.remedy)
        return NextStep("", _LOOK) if verdict.kind == "missed" else NextStep()
    return NextStep()
