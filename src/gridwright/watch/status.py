"""What a watch knows, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gridwright.messages import plain
from gridwright.units import format_duration
from gridwright.watch.damping import KnownFinding
from gridwright.watch.notifications import clock, folded, place
from gridwright.watch.state import Receiver, WatchState

RECENT = 20
"""Changes that are shown in text."""
MOST_CHANGES = 1000
"""Those of a document; the log has more."""


def status_document(directory: Path, state: WatchState, now_s: float) -> dict[str, Any]:
    """What is open, and how rounds and receivers are, in plain values; times in seconds since 1970."""
    from gridwright.watch.change_log import read_changes

    last = state.last_round
    return {
        "grid": state.grid,
        "directory": str(directory),
        "now_s": now_s,
        "last_round": plain(last) if last is not None else None,
        "last_all_s": state.last_all_s,
        "rounds": plain(state.numbers),
        "open": [_plain(each, state, now_s) for each in _sorted(state.open)],
        "receivers": {name: _receiver(receiver) for name, receiver in state.receivers.items()},
        "changes": [plain(change) for change in list(read_changes(directory))[-MOST_CHANGES:]],
    }


def status_text(directory: Path, state: WatchState, now_s: float) -> str:
    """The same in words, the gravest first."""
    from gridwright.watch.change_log import read_changes

    lines = [f"Grid {state.grid}: {_rounds(state, now_s)}"]
    rows = folded(
        (("flapping" if each.is_flapping else "open", each, "") for each in state.open), state.explained
    )
    lines += [""] if rows else ["Nothing is open."]
    for row in rows:
        flaps = ", flapping" if row.change == "flapping" else ""
        lines.append(f"{row.level} {row.name}: {place(row)}{row.found}")
        lines.append(f"  since {clock(row.since_s)} ({format_duration(now_s - row.since_s)}){flaps}")
        lines += [f"  mend: {row.remedy}"] if row.remedy else []
    unseen = [each for each in state.open if last_looked_is_old(each, state)]
    if unseen:
        lines += ["", f"{len(unseen)} of these could not be looked at in the last round: nobody answered."]
    held = sum(not each.is_told for each in state.open)
    if held:
        lines += ["", f"{held} of these are not told yet: their nodes get no jobs."]
    lines += ["", *(_receiver_line(name, receiver, now_s) for name, receiver in state.receivers.items())]
    recent = list(read_changes(directory))[-RECENT:]
    lines += ["Last changes:"] if recent else []
    for change in reversed(recent):
        where = " ".join(each for each in ("+".join(change.nodes), change.target) if each)
        lines.append(f"  {clock(change.at_s)} {change.step} {change.name}{f': {where}' if where else ''}")
    return "\n".join(lines).rstrip() + "\n"


def last_looked_is_old(finding: KnownFinding, state: WatchState) -> bool:
    """Whether its place did not answer in the last round that would have looked at it."""
    last = state.last_round
    if last is None or last.problem or (finding.pace == "all" and not last.everything):
        return False
    return finding.last_looked_s < last.began_s


def _rounds(state: WatchState, now_s: float) -> str:
    last = state.last_round
    if last is None:
        return "no round has ended yet."
    ago = f"{format_duration(now_s - last.ended_s)} ago"
    if last.problem:
        return f"the last round, {ago}, told nothing: {last.problem}"
    silent = f", {last.silent} silent" if last.silent else ""
    what = "all checks" if last.everything else "cheap checks"
    every = (
        f", all checks {format_duration(now_s - state.last_all_s)} ago"
        if state.last_all_s is not None
        else ""
    )
    return f"last round {ago} ({what}, {last.nodes} node{'s'[: last.nodes != 1]}{silent}){every}."


def _receiver_line(name: str, receiver: Receiver, now_s: float) -> str:
    sent = f"{receiver.sent} sent"
    if receiver.last_sent_s is not None:
        sent += f", the last {format_duration(now_s - receiver.last_sent_s)} ago"
    waits = f"; {len(receiver.waiting)} waiting" if receiver.waiting else ""
    if receiver.failures:
        failed = f"; {receiver.failures} tries in a row failed: {receiver.last_problem}"
        return f"{name}: {sent}{waits}{failed}"
    return f"{name}: {sent}{waits}{f' (at last: {receiver.last_problem})' if receiver.last_problem else ''}"


def _receiver(receiver: Receiver) -> dict[str, Any]:
    found: dict[str, Any] = plain(receiver)
    return {**found, "waiting": [each.document() for each in receiver.waiting]}


def _sorted(findings: Iterable[KnownFinding]) -> list[KnownFinding]:
    from gridwright.errors import GRAVEST_FIRST

    return sorted(findings, key=lambda each: (GRAVEST_FIRST[each.level], each.since_s, each.key))


def _plain(finding: KnownFinding, state: WatchState, now_s: float) -> dict[str, Any]:
    explanation = state.explained.get(finding.key.name)
    return {
        "name": finding.key.name,
        "nodes": list(finding.key.nodes),
        "target": finding.key.target,
        "level": finding.level,
        "found": finding.found,
        "expected": finding.expected,
        "reason": explanation.reason if explanation else "",
        "remedy": explanation.remedy if explanation else "",
        "since_s": finding.since_s,
        "opened_s": finding.opened_s,
        "last_seen_s": finding.last_seen_s,
        "last_looked_s": finding.last_looked_s,
        "age_s": max(0.0, now_s - finding.since_s),
        "flapping": finding.is_flapping,
        "told": finding.is_told,
        "pace": finding.pace,
    }
