"""Decides which number of streams is run next, from what is known of those that were.

Streams are doubled until a number does not hold, then numbers between are tried. Noise can spoil a step: one
that does not hold is run again, and so is the number that is the answer; what most say counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gridwright.runs.stream_sweep.record import SweepStep
from gridwright.runs.stream_sweep.rule import MOST_UNJUDGED, StepVerdict, SweepRule, verdict

FINENESS = 16
"""Numbers of streams are told apart to a sixteenth of them, from 32 on; below that each is tried."""


@dataclass(frozen=True, slots=True)
class StreamsTried:
    """What the steps with one number of streams say."""

    streams: int
    verdicts: tuple[StepVerdict, ...]

    @property
    def held(self) -> int:
        """Steps that held."""
        return sum(each.held is True for each in self.verdicts)

    @property
    def fell(self) -> int:
        """Steps that did not."""
        return sum(each.held is False for each in self.verdicts)

    @property
    def unjudged(self) -> int:
        """Steps that are not judged."""
        return len(self.verdicts) - self.held - self.fell

    def state(self, agree: int) -> Literal["fell", "confirmed", "held", "open"]:
        """What is known of it where `agree` steps must say the same."""
        if self.fell >= agree:
            return "fell"
        if self.held >= agree:
            return "confirmed"
        return "held" if self.held and not self.fell else "open"


@dataclass(frozen=True, slots=True)
class Next:
    """So many streams are to be run next."""

    streams: int


@dataclass(frozen=True, slots=True)
class JobsCarried:
    """The answer: `carries` holds, `falls_at` does not; None where there is no such number.

    `ended_by` is None for an answer so far.
    """

    carries: int | None
    falls_at: int | None
    confirmed: bool
    ended_by: Literal["knee", "most", "disturbed"] | None


def levels_of(steps: Sequence[SweepStep], rule: SweepRule) -> list[StreamsTried]:
    """All numbers of streams that were run, fewest first."""
    found: dict[int, list[StepVerdict]] = {}
    for step in steps:
        found.setdefault(step.streams, []).append(verdict(step, steps, rule))
    return [StreamsTried(streams, tuple(found[streams])) for streams in sorted(found)]


def so_far(levels: Sequence[StreamsTried], rule: SweepRule) -> JobsCarried:
    """The answer where a sweep ends now."""
    states = {level.streams: level.state(rule.agree) for level in levels}
    falls = min((streams for streams, state in states.items() if state == "fell"), default=None)
    held = [
        streams
        for streams, state in states.items()
        if state in ("held", "confirmed") and (falls is None or streams < falls)
    ]
    carries = max(held, default=0 if falls == 1 else None)
    return JobsCarried(carries, falls, carries == 0 or states.get(carries or 0) == "confirmed", None)


def search(steps: Sequence[SweepStep], rule: SweepRule) -> Next | JobsCarried:
    """The next number of streams, or the answer."""
    levels = levels_of(steps, rule)
    known = so_far(levels, rule)
    wanted = _wanted(levels, known, rule)
    if isinstance(wanted, JobsCarried):
        return wanted
    again = next((level for level in levels if level.streams == wanted), None)
    if again is not None and again.unjudged >= MOST_UNJUDGED:
        return JobsCarried(known.carries, known.falls_at, known.confirmed, "disturbed")
    return Next(wanted)


def _wanted(levels: Sequence[StreamsTried], known: JobsCarried, rule: SweepRule) -> int | JobsCarried:
    """The number of streams of which more must be known, or the answer."""
    below = [level for level in levels if known.falls_at is None or level.streams < known.falls_at]
    undecided = [level.streams for level in below if level.state(rule.agree) == "open"]
    if undecided:
        return undecided[0]
    # Where one stream alone sets what is required, chance must not set it.
    if not levels or (rule.by_default and levels[0].held < rule.agree and known.falls_at != 1):
        return 1
    carries, falls = known.carries or 0, known.falls_at
    if falls is None and carries < rule.most:
        return min(2 * carries, rule.most)
    if falls is not None and falls - carries > max(1, carries // FINENESS):
        return (carries + falls) // 2
    if not known.confirmed:
        return carries
    return JobsCarried(carries, falls, True, "most" if falls is None else "knee")
