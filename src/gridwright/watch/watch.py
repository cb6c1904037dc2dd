"""The watch: rounds one after the other, what they change, and notices of it, through kills and restarts."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from gridwright.errors import Level
from gridwright.watch.damping import Changed, Damping, advance
from gridwright.watch.notifications import FindingReason, NotificationRow, folded, notice_of, place, put
from gridwright.watch.rounds import (
    FAILED,
    LATE,
    FindingKey,
    RoundLost,
    RoundReport,
    RoundRequest,
    RoundRunner,
    SeenFinding,
)
from gridwright.watch.sending import SEND_S, AnyReceiver, Notifiers, SendOutcome
from gridwright.watch.state import (
    LastRound,
    Receiver,
    WatchState,
    append_changes,
    logged_changes,
    new_state,
    read_state,
    write_state,
)

_MOST_UNLOGGED = 1000
_LOOK_S = 0.1
"""How often it is looked whether a try has ended, while one is under way."""
_AGAIN = 10
"""After so many rounds all checks are tried again where the round of them told nothing."""
_ROUND_REASON = "What is wrong with the grid is not seen while nobody can look."


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What a watch does; times in seconds."""

    grid: str
    spec: Path | None
    every_s: float = 60.0
    all_every_s: float = 3600.0
    damping: Damping = field(default_factory=Damping)
    level: Level = "warning"
    on_head: bool = False
    receivers: dict[str, AnyReceiver] = field(default_factory=dict)
    silence: Collection[str] = ()
    """Names of findings that are not told."""


class Watch:
    """Watches a grid. Whoever makes one holds its directory (`state.held`), so that there is one at a time.

    Every step is on disk before the next one begins: a change before it is logged and sent, a try to send
    before it is begun, its success before the next notice. So nothing is lost by a kill, and a notice is sent
    again only where nobody knows whether it arrived, by the same id and as another try.
    """

    def __init__(
        self,
        settings: WatchSettings,
        directory: Path,
        runner: RoundRunner,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._runner = runner
        self._say = say
        self._clock = clock
        self.notifiers = Notifiers(settings.receivers)
        state = read_state(directory) or new_state(settings.grid)
        self.state: WatchState = state.with_receivers(list(settings.receivers))
        self._log()

    def run(self, stop: Event) -> None:
        """Look again and again until it is told to stop. Raises GridwrightError where nothing can be kept."""
        every_s = self._settings.every_s
        next_s = time.monotonic()
        next_all_s = next_s + self._until_all_s()
        try:
            while not stop.is_set():
                everything = time.monotonic() >= next_all_s
                if not self.run_round(stop, everything=everything):
                    return
                now_s = time.monotonic()
                # A round that took longer than the time between two is not made up for.
                next_s = max(next_s + every_s, now_s)
                if everything:
                    next_all_s = now_s + self._all_again_s()
                self._send_until(next_s, stop)
        finally:
            self.notifiers.close()

    def once(self, stop: Event, *, everything: bool) -> bool:
        """One round, and what waits is sent as far as it is taken; False where it was told to stop."""
        try:
            if not self.run_round(stop, everything=everything or self._until_all_s() <= 0):
                return False
            deadline = time.monotonic() + 2 * SEND_S
            self.send()
            while self.notifiers.is_busy and not stop.wait(_LOOK_S) and time.monotonic() < deadline:
                self.send()
            return not stop.is_set()
        finally:
            self.notifiers.close()

    def _until_all_s(self) -> float:
        """Seconds until all checks are due; 0 where they never were, or the clock was set back since."""
        if self.state.last_all_s is None:
            return 0.0
        past = self._clock() - self.state.last_all_s
        return max(0.0, self._settings.all_every_s - past) if past >= 0 else 0.0

    def _all_again_s(self) -> float:
        """Seconds until all checks are done again; sooner after a round that told nothing, as at a boot."""
        lost = self.state.last_round is not None and self.state.last_round.problem
        settings = self._settings
        return min(settings.all_every_s, _AGAIN * settings.every_s) if lost else settings.all_every_s

    def run_round(self, stop: Event, *, everything: bool) -> bool:
        """Do a round, and keep what it changed; False where it was told to stop meanwhile."""
        began_s = self._clock()
        settings, known = self._settings, self.state.known
        request = RoundRequest(
            str(settings.spec) if settings.spec else None,
            everything,
            [key for key in known if key.name not in (LATE, FAILED)],
            settings.level,
            settings.on_head,
        )
        answer = self._runner.run(request, stop.is_set)
        if answer is None:
            return False
        if isinstance(answer, RoundLost):
            report, problem = _report_of_loss(answer, settings.silence), answer.problem
        else:
            report, problem = _with_recovery(answer), ""
        done = LastRound(began_s, self._clock(), everything, report.nodes, report.silent, problem)
        self._keep(report, done)
        return True

    def _keep(self, report: RoundReport, done: LastRound) -> None:
        """Keep what a round changed, then log it and have it sent."""
        state, settings, now_s = self.state, self._settings, done.ended_s
        counted = done.everything and not done.problem
        numbers = state.numbers.after(everything=counted)
        known, changed = advance(state.known, report, numbers, settings.damping, now_s)
        explained = state.explained | {
            each.key.name: FindingReason(each.reason, each.remedy) for each in report.found
        }
        names = {key.name for key in known}
        lines = logged_changes(changed, state.changes + 1, now_s)
        notice = (
            notice_of(
                f"{state.mark}-{state.notices + 1}",
                settings.grid,
                socket.gethostname(),
                changed,
                known.values(),
                explained,
                now_s,
            )
            if changed
            else None
        )
        receivers = state.receivers
        if notice is not None:
            receivers = {
                name: replace(receiver, waiting=put(receiver.waiting, notice))
                for name, receiver in receivers.items()
            }
        self._write(
            replace(
                state,
                numbers=numbers,
                findings=list(known.values()),
                explained={name: each for name, each in explained.items() if name in names},
                last_round=done,
                last_all_s=now_s if counted else state.last_all_s,
                changes=state.changes + len(changed),
                notices=state.notices + (notice is not None),
                unlogged=[*state.unlogged, *lines][-_MOST_UNLOGGED:],
                receivers=receivers,
            )
        )
        self._log()
        self._tell(changed, explained)

    def _tell(self, changed: Sequence[Changed], explained: dict[str, FindingReason]) -> None:
        for row in folded(((each.step, each.finding, each.why) for each in changed), explained):
            self._say(line_of(row))

    def _log(self) -> None:
        try:
            append_changes(self._directory, self.state.unlogged)
        except OSError as error:
            # The state keeps them, and the next round tries again.
            self._say(f"the log of changes cannot be written: {error.strerror}")
        else:
            # On disk they stay until the next write; by their numbers none gets into the log twice.
            self.state = replace(self.state, unlogged=[])

    def send(self) -> None:
        """Begin to send what waits, to each receiver that is free; what has ended is settled first."""
        self._settle()
        for name, receiver in self.state.receivers.items():
            if receiver.waiting and self.notifiers.is_free(name):
                first = receiver.waiting[0]
                tried = replace(first, attempts=first.attempts + 1)
                self._update(name, replace(receiver, waiting=[tried, *receiver.waiting[1:]]))
                self.notifiers.begin(name, tried)

    def _settle(self) -> None:
        for name, notice, outcome in self.notifiers.ended():
            self._update(name, self._settled(name, notice, outcome))

    def _settled(self, name: str, notice: str, outcome: SendOutcome) -> Receiver:
        receiver, now_s = self.state.receivers[name], self._clock()
        if outcome.stopped:
            return receiver
        if outcome.problem:
            failures = receiver.failures + 1
            self.notifiers.failed(name, failures, outcome)
            if failures == 1:
                self._say(f"{name} did not take a notice: {outcome.problem}")
            return replace(receiver, failures=failures, last_problem=outcome.problem, last_problem_s=now_s)
        if outcome.note:
            receiver = replace(receiver, last_problem=outcome.note, last_problem_s=now_s)
        left = [each for each in receiver.waiting if each.id != notice]
        return replace(receiver, waiting=left, sent=receiver.sent + 1, last_sent_s=now_s, failures=0)

    def _send_until(self, next_s: float, stop: Event) -> None:
        """Send what waits until the next round is due, or it is told to stop."""
        while not stop.is_set():
            self.send()
            left_s = next_s - time.monotonic()
            if left_s <= 0:
                return
            waits = [
                self.notifiers.wait_s(name)
                for name, receiver in self.state.receivers.items()
                if receiver.waiting
            ]
            stop.wait(min(_LOOK_S, left_s) if self.notifiers.is_busy else min([left_s, *waits]))

    def _update(self, name: str, receiver: Receiver) -> None:
        self._write(replace(self.state, receivers={**self.state.receivers, name: receiver}))

    def _write(self, state: WatchState) -> None:
        write_state(self._directory, state)
        self.state = state


def line_of(row: NotificationRow) -> str:
    """A change in a line, for a log."""
    why = f" ({row.why})" if row.why else ""
    return f"{row.change} {row.level} {row.name}: {place(row)}{row.found}{why}"


def _report_of_loss(lost: RoundLost, silence: Collection[str]) -> RoundReport:
    """A round that told nothing is a finding, unless it is silenced; all others stay as they are."""
    key = FindingKey(lost.finding)
    sighting = SeenFinding(key, "error", "each", lost.problem, "rounds that end", _ROUND_REASON, lost.remedy)
    return RoundReport([] if lost.finding in silence else [sighting], [])


def _with_recovery(report: RoundReport) -> RoundReport:
    """A round that ended says that rounds end again."""
    return replace(report, clear=[*report.clear, FindingKey(LATE), FindingKey(FAILED)])
