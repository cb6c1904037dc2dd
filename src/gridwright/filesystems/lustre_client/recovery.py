"""How far the recovery of a target is: whether its clients are back after it started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gridwright.filesystems.reading import Reading

STATES: Mapping[str, int] = {
    "COMPLETE": 0,
    "INACTIVE": 1,
    "WAITING": 2,
    "WAITING_FOR_CLIENTS": 3,
    "RECOVERING": 4,
}
"""The figures that lustrefs-exporter has for the words of recovery_status; any other word is UNKNOWN."""
UNKNOWN = 5
_CLIENTS = re.compile(r"^(connected|completed|evicted)_clients:\s*(\d{1,9})(?:/(\d{1,9}))?", re.MULTILINE)


def recovery_readings(component: str, target: str, text: str, at_s: float) -> Iterator[Reading]:
    """Out of the value of `recovery_status`; nothing where it says no status."""
    word = re.search(r"^\s*status:\s*([A-Z_]+)", text, re.MULTILINE)
    if word is None:
        return
    labels = (component, target)
    yield Reading("recovery_status", labels, STATES.get(word[1], UNKNOWN), at_s)
    expected = None
    for name, count, of in _CLIENTS.findall(text):
        yield Reading(f"recovery_status_{name}_clients", labels, int(count), at_s)
        expected = int(of) if of else expected
    if expected is not None:
        yield Reading("gridwright_recovery_expected_clients", labels, expected, at_s)
    if left := re.search(r"^time_remaining:\s*(\d{1,9})", text, re.MULTILINE):
        yield Reading("gridwright_recovery_seconds_left", labels, int(left[1]), at_s)
