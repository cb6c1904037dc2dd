"""Makes lasting findings out of what rounds see: opened, closed, and told as flapping; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gridwright.errors import Level
from gridwright.messages import Extensible
from gridwright.watch.rounds import NODE_DOWN, NODE_SILENT, FindingKey, Pace, RoundReport, SeenFinding

Step = Literal["opened", "closed", "flapping", "settled"]
"""What happens to a finding. It is *settled* where it flapped, does so no more, and is there."""


@dataclass(frozen=True, slots=True)
class Damping:
    """After how many rounds, or changes, a finding is what it seems."""

    open_after: int = 2
    close_after: int = 3
    flapping_after: int = 6
    window: int = 60
    """Rounds in which changes are counted."""

    @property
    def of_all(self) -> Damping:
        """The same for what only rounds of all checks look at: one round counts, and a day has 24 of them."""
        return Damping(1, 1, self.flapping_after, 24)


@dataclass(frozen=True, slots=True)
class KnownFinding(Extensible):
    """A finding that is open, may open, or closed a while ago; times in seconds since 1970."""

    key: FindingKey
    level: Level
    pace: Pace
    found: str
    expected: str
    since_s: float
    """When it was first seen, of the times in a row."""
    last_seen_s: float
    last_looked_s: float
    """When its place last answered, whatever the answer was."""
    in_row: int = 0
    """Rounds in a row that saw it; below 0: that looked, and did not."""
    is_open: bool = False
    opened_s: float | None = None
    is_flapping: bool = False
    is_told: bool = False
    changes: list[int] = field(default_factory=list)
    """The rounds, of its pace, in which it came or went."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A step of a finding."""

    step: Step
    finding: KnownFinding
    why: str = ""
    """Beyond what was seen: that its nodes are none of the grid any more."""


@dataclass(frozen=True, slots=True)
class RoundNumbers(Extensible):
    """How many rounds there were; they tell how far changes are apart, whatever clocks do."""

    each: int = 0
    all: int = 0

    def after(self, *, everything: bool) -> RoundNumbers:
        """One more."""
        return RoundNumbers(self.each + 1, self.all + everything, more=self.more)

    def of(self, pace: Pace) -> int:
        """Those that looked at checks of a pace."""
        return self.each if pace == "each" else self.all


def advance(
    known: Mapping[FindingKey, KnownFinding],
    report: RoundReport,
    numbers: RoundNumbers,
    damping: Damping,
    now_s: float,
) -> tuple[dict[FindingKey, KnownFinding], list[Changed]]:
    """What is known after a round, and what changed by it; `numbers` count this round.

    A finding that was neither seen nor looked at stays as it is.
    """
    seen = {each.key: each for each in report.found}
    clear, gone = set(report.clear), set(report.gone)
    after: dict[FindingKey, KnownFinding] = {}
    changed: list[Changed] = []
    for key in dict.fromkeys([*known, *seen]):
        old, sighting = known.get(key), seen.get(key)
        if sighting is not None:
            new = _seen(old, sighting, numbers, now_s)
        elif old is not None and key in gone:
            if old.is_open and old.is_told:
                changed.append(Changed("closed", replace(old, is_open=False), "no longer part of the grid"))
            continue
        elif old is not None and key in clear:
            new = _missed(old, numbers, now_s)
        elif old is not None:
            after[key] = old
            continue
        kept, steps = _judged(new, numbers, damping if new.pace == "each" else damping.of_all, now_s)
        kept, steps = _held(kept, steps, is_aside=_is_aside(key, known, report))
        changed += steps
        if kept.is_open or kept.in_row > 0 or kept.changes:
            after[key] = kept
    return after, changed


def _is_aside(key: FindingKey, known: Mapping[FindingKey, KnownFinding], report: RoundReport) -> bool:
    """Whether a finding is of nodes that get no jobs, so that nobody is to be told of it.

    A node that fell silent gets none for that very reason: it is told, unless it was away before.
    """
    if not key.nodes or key.name == NODE_DOWN:
        return False
    if key.name != NODE_SILENT:
        return set(key.nodes) <= set(report.set_aside)
    down = known.get(FindingKey(NODE_DOWN, key.nodes))
    return down is not None and down.is_open and down.is_told


def _seen(old: KnownFinding | None, new: SeenFinding, numbers: RoundNumbers, now_s: float) -> KnownFinding:
    number = numbers.of(new.pace)
    if old is None:
        return KnownFinding(
            new.key, new.level, new.pace, new.found, new.expected, now_s, now_s, now_s, 1, changes=[number]
        )
    began = old.in_row <= 0
    return replace(
        old,
        level=new.level,
        found=new.found,
        expected=new.expected,
        since_s=now_s if began and not old.is_open else old.since_s,
        last_seen_s=now_s,
        last_looked_s=now_s,
        in_row=1 if began else old.in_row + 1,
        changes=[*old.changes, number] if began else old.changes,
    )


def _missed(old: KnownFinding, numbers: RoundNumbers, now_s: float) -> KnownFinding:
    went = old.in_row > 0
    return replace(
        old,
        last_looked_s=now_s,
        in_row=-1 if went else old.in_row - 1,
        changes=[*old.changes, numbers.of(old.pace)] if went else old.changes,
    )


def _judged(
    finding: KnownFinding, numbers: RoundNumbers, damping: Damping, now_s: float
) -> tuple[KnownFinding, list[Changed]]:
    """What a finding is after a round, and the step that it made, if any."""
    first = numbers.of(finding.pace) - damping.window
    # More than these say nothing new.
    recent = [change for change in finding.changes if change > first][-damping.flapping_after :]
    new = replace(finding, changes=recent)
    if new.is_flapping:
        return (new, []) if recent else _calmed(new)
    if len(recent) >= damping.flapping_after:
        opened_s = new.opened_s if new.is_open else now_s
        new = replace(new, is_flapping=True, is_open=True, opened_s=opened_s)
        return new, [Changed("flapping", new)]
    if not new.is_open and new.in_row >= damping.open_after:
        new = replace(new, is_open=True, opened_s=now_s)
        return new, [Changed("opened", new)]
    if new.is_open and -new.in_row >= damping.close_after:
        new = replace(new, is_open=False)
        return new, [Changed("closed", new)]
    return new, []


def _calmed(finding: KnownFinding) -> tuple[KnownFinding, list[Changed]]:
    """A finding that flapped, and has not changed for as long as changes are counted."""
    is_there = finding.in_row > 0
    new = replace(finding, is_flapping=False, is_open=is_there)
    return new, [Changed("settled" if is_there else "closed", new)]


def _held(
    finding: KnownFinding, steps: Sequence[Changed], *, is_aside: bool
) -> tuple[KnownFinding, list[Changed]]:
    """The same with what is told of it: nothing of nodes that are set aside, until they are back."""
    told = list(_reportable(finding, steps, is_aside=is_aside))
    is_told = finding.is_open and (finding.is_told or bool(told))
    finding = replace(finding, is_told=is_told)
    return finding, [replace(each, finding=replace(each.finding, is_told=True)) for each in told]


def _reportable(finding: KnownFinding, steps: Sequence[Changed], *, is_aside: bool) -> Iterator[Changed]:
    if finding.is_told:
        yield from steps
    elif finding.is_open and not is_aside and (finding.in_row > 0 or finding.is_flapping):
        yield Changed("flapping" if finding.is_flapping else "opened", finding)
