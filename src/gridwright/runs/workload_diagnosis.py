"""What held the cores back in a run of the workload, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import SampleRow
from gridwright.units import format_rate

_LEADS = {
    "cpu": "The cores were kept busy: computing took {share} of the launches' real time",
    "core": "Launches waited for cores: {share} of their real time was spent runnable without one",
    "data read": "Reading data held the cores back: it took {share} of the launches' real time",
    "data write": "Writing data held the cores back: it took {share} of the launches' real time",
    "work read": "Reading work held the cores back: it took {share} of the launches' real time",
    "work write": "Writing work held the cores back: it took {share} of the launches' real time",
    "util": "Spilling to util held the cores back: it took {share} of the launches' real time",
    "memory": "Memory held the cores back: launches were stalled on it for {share} of their real time",
    "other": "Launches waited for something that is no core and no library for {share} of their real time",
}
_NAMES = {
    "cpu": "computing",
    "core": "waiting for a core",
    "memory": "stalled on memory",
    "other": "waiting for something else",
}
_NOTABLE = 0.05
"""A cause below this share of the real time is left out of the sentence."""


def causes(launches: Sequence[LaunchRecord]) -> dict[str, float]:
    """The real time of launches by cause, as fractions of it that add up to 1; empty if unknown."""
    known = [each for each in launches if each.shares and each.real_s]
    total = sum(each.real_s or 0.0 for each in known)
    found: dict[str, float] = {}
    for launch in known:
        for cause, share in launch.shares.items():
            found[cause] = found.get(cause, 0.0) + share * (launch.real_s or 0.0) / total
    return found


def sentence(
    launches: Sequence[LaunchRecord], shares: Mapping[str, float], samples: Sequence[SampleRow]
) -> str | None:
    """Say what held the cores back; None if nothing is known of it."""
    if not shares:
        return None
    ordered = sorted(shares, key=lambda cause: -shares[cause])
    first, rest = ordered[0], [cause for cause in ordered[1:] if shares[cause] >= _NOTABLE]
    text = _LEADS.get(first, f"{first} took {{share}} of the launches' real time").format(
        share=_percent(shares[first])
    )
    if rest:
        others = ", ".join(f"{_NAMES.get(cause, cause)} {_percent(shares[cause])}" for cause in rest)
        text += f" ({others})"
    text += _cores(samples)
    if rates := _rates(samples):
        text += f"; the tests moved {rates}"
    return f"{text}."


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _cores(samples: Sequence[SampleRow]) -> str:
    """How busy the node's CPUs were on average."""
    busy = {row.time: row.cpu_percent for row in samples if row.cpu_percent is not None}
    return f"; the CPUs were {sum(busy.values()) / len(busy):.0f} % busy" if busy else ""


def _span(samples: Sequence[SampleRow]) -> float:
    """Seconds that the samples of several nodes span; 0 for one node, whose samples have no gap."""
    if len({row.node for row in samples}) < 2:
        return 0.0
    begin = min((row.time or 0.0) - (row.interval_s or 0.0) for row in samples)
    return max(row.time or 0.0 for row in samples) - begin


def _rates(samples: Sequence[SampleRow]) -> str:
    """The mean rate of each library that saw traffic, read and written together, over all nodes."""
    span = _span(samples)
    moved: dict[str | None, list[float]] = {}
    for row in samples:
        sums = moved.setdefault(row.library, [0.0, 0.0])
        sums[0] += row.moved_bytes
        sums[1] += row.interval_s or 0.0
    parts = [
        f"{format_rate(size / (span or seconds))} to and from {library}"
        for library, (size, seconds) in moved.items()
        if size and seconds
    ]
    return ", ".join(parts)
