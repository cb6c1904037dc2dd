"""A phase on a volume that is a token bucket, judged on a clock of its own: seconds pass in no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridwright.iotest.engine import Phase, PhasePlan, Sample
from gridwright.iotest.options import IotestOptions, NullVolume
from gridwright.iotest.outcome import Outcome


class VirtualPhase:
    """Does what `gridwright.iotest.engine.Phase` does; its streams keep the volume busy all the time."""

    def __init__(self, plan: PhasePlan, options: IotestOptions, *, held: bool = False) -> None:
        assert options.null is not None
        assert options.null.burst_bytes_per_s is not None
        assert plan.seconds is not None
        assert not held
        self._burst = options.null.burst_bytes_per_s
        self._steady = options.null.steady_bytes_per_s or self._burst
        self._plan, self._options = plan, options
        drained_per_s = self._burst - self._steady
        # The bucket drains by what is moved beyond the steady rate.
        self._burst_s = options.null.bucket_bytes / drained_per_s if drained_per_s else 0.0
        self._ends_s = plan.seconds
        self._sample_s = options.sample_s
        self._now = 0.0
        self._samples: list[Sample] = []
        self._seen = 0

    def _at(self, moment_s: float) -> Sample:
        fast = min(moment_s, self._burst_s)
        moved = round(fast * self._burst + (moment_s - fast) * self._steady)
        return Sample(moment_s, 0, moved, moved >> 14)

    def wait(self, seconds: float) -> bool:
        """Let so much time pass; say whether the phase has ended."""
        until = min(self._now + seconds, self._ends_s)
        while (moment_s := (len(self._samples) + 1) * self._sample_s) <= until + 1e-9:
            self._samples.append(self._at(moment_s))
        self._now = until
        return self._now >= self._ends_s

    def progress(self) -> Sample:
        """What has been done so far."""
        return self._at(self._now)

    def syncing(self) -> bool:
        """Nothing is flushed."""
        return False

    def new_samples(self) -> Sequence[Sample]:
        """Samples taken since the last call."""
        new = self._samples[self._seen :]
        self._seen = len(self._samples)
        return new

    def finish(self) -> None:
        """End the phase as if its time were up."""
        self._ends_s = self._now

    def result(self) -> Outcome:
        """What was measured: bytes and seconds of this clock, the rest of a real phase of no size."""
        nothing = replace(self._plan, bytes_per_stream=0, seconds=None)
        phase = Phase(nothing, replace(self._options, null=NullVolume()))
        assert phase.wait(20)
        return replace(phase.result(), bytes=self._at(self._now).written_bytes, seconds_last=self._now)
