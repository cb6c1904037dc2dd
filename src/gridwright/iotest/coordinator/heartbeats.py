"""Judges the silence of nodes against what the machine can do: pure of clocks and connections.

Every node is pinged every two seconds. On a quiet machine answers come within milliseconds, and silence of
some seconds is a loss. Where a hundred workers share two cores, they come after seconds: patience grows with
the delay of answers that did come, and with the pressure on the CPU. Time in which the coordinator itself
did not run is not a node's silence.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

PING_EVERY_S = 2.0
DELAYS_S = 60.0
"""Delays of so long ago still count: a phase begins and ends in bursts."""
PER_DELAY = 3.0
"""Of answers that take so long in the worst case, the next may take twice as long, and one may be lost."""
LATE_S = 0.5
"""A loop that wakes up later than this was kept from running."""
PRESSED = 60.0
"""Percent of the time in which some process waited for a CPU (/proc/pressure/cpu, some avg10): beyond it
answers come late, the more the nearer it is to 100."""
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(slots=True)
class Beats:
    """What one node shows of its life; times are those of time.monotonic() here."""

    heard: float
    """When the last message came, moved on by the time in which nobody could hear it."""
    sent: dict[int, float] = field(default_factory=dict)
    """When pings were sent that have not been answered."""

    def ping(self, number: int, now: float) -> None:
        """A ping goes out."""
        self.sent[number] = now

    def skip(self, seconds: float, now: float) -> None:
        """Nobody could hear it for so long: that is neither its silence nor the delay of its answers."""
        self.heard = min(now, self.heard + seconds)
        self.sent = {number: min(now, sent + seconds) for number, sent in self.sent.items()}

    def answer(self, number: int, now: float) -> float | None:
        """A ping is answered: after how many seconds; None for one that is not known."""
        sent = self.sent.pop(number, None)
        return None if sent is None else now - sent


class SilenceJudge:
    """Says which nodes are lost, by their beats and by how late answers come in general."""

    def __init__(self, least_s: float, most_s: float) -> None:
        """Patience is `least_s` where answers come at once, and never more than `most_s`."""
        self._least_s = least_s
        self._most_s = max(least_s, most_s)
        self._delays: deque[tuple[float, float]] = deque()
        self._pressure = 0.0

    def answered(self, delay_s: float, now: float) -> None:
        """A node has answered a ping after so long."""
        self._delays.append((now, delay_s))
        self._forget(now)

    def woke(self, beats: list[Beats], now: float, *, late_s: float, pressure: float | None) -> None:
        """The loop woke up so much later than it wanted to; `pressure` is that on the CPU, in percent."""
        self._pressure = pressure or 0.0
        self._forget(now)
        if late_s > LATE_S:
            for beat in beats:
                beat.skip(late_s, now)

    def timeout_s(self, now: float) -> float:
        """How long a node may be silent."""
        self._forget(now)
        late = PER_DELAY * max((delay for _, delay in self._delays), default=0.0)
        pressed = max(0.0, self._pressure - PRESSED) / (100.0 - PRESSED)
        by_pressure = pressed * (self._most_s - self._least_s)
        return min(self._most_s, self._least_s + max(late, by_pressure))

    def is_suspect(self, beats: Beats, now: float) -> bool:
        """Whether it has been silent for half of the time, so that it is time to ask why."""
        return now - beats.heard > self.timeout_s(now) / 2

    def is_lost(self, beats: Beats, now: float) -> bool:
        """Whether it has been silent for too long."""
        return now - beats.heard > self.timeout_s(now)

    def verdict(self, beats: Beats, now: float) -> str:
        """Why it is lost, in words."""
        text = f"nothing was heard of it for {now - beats.heard:.0f} s"
        worst = max((delay for _, delay in self._delays), default=0.0)
        if self.timeout_s(now) > self._least_s + 1.0:
            text += f", where answers of nodes took {worst:.1f} s at most"
        return text

    def _forget(self, now: float) -> None:
        while self._delays and now - self._delays[0][0] > DELAYS_S:
            self._delays.popleft()


def cpu_pressure() -> float | None:
    """Percent of the last 10 s in which a process waited for a CPU; None where nobody tells."""
    try:
        some = _PRESSURE.read_text().splitlines()[0]
        return float(dict(word.split("=") for word in some.split()[1:])["avg10"])
    except (OSError, IndexError, KeyError, ValueError):
        return None
