"""How often something is done by itself: at once, each hour or day, after some time, or never."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gridwright.units import DURATION_PATTERN, UnitError, parse_duration
from gridwright.yamltext.fields import FieldError, Written
from gridwright.yamltext.source import show

AT_ONCE, NEVER = "at-once", "never"
_NAMED: dict[str, float | None] = {AT_ONCE: 0.0, "hourly": 3600.0, "daily": 86400.0, NEVER: None}
LEAST_S = 60.0
"""A look at all files takes its time, so that none begins before the last one can have ended."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often, as it is written."""

    text: str

    @property
    def period_s(self) -> float | None:
        """Seconds from one time to the next: 0 at once, None never."""
        return _NAMED[self.text] if self.text in _NAMED else parse_duration(self.text)

    @property
    def is_timed(self) -> bool:
        """Whether a timer has it done."""
        return bool(self.period_s)

    @property
    def is_at_once(self) -> bool:
        """Whether it is done as soon as there is something to do."""
        return self.text == AT_ONCE

    def __str__(self) -> str:
        return self.text


def read_schedule(value: object) -> Schedule:
    """What `value` says. Raises FieldError."""
    if isinstance(value, Schedule):
        return value
    instead = "write at-once, hourly, daily, never, or a time such as 15m"
    if isinstance(value, str) and value in _NAMED:
        return Schedule(value)
    try:
        seconds = parse_duration(value)
    except UnitError:
        raise FieldError(f"{show(value)} does not say how often", instead) from None
    if seconds < LEAST_S:
        raise FieldError(f"{show(value)} is too often: a look at all files takes longer", "write at least 1m")
    return Schedule(f"{seconds:.12g}s" if not isinstance(value, str) else value.strip())


HowOften = Annotated[
    Schedule, Written(read_schedule, rf"^({'|'.join(_NAMED)})$|{DURATION_PATTERN}", "hourly")
]
"""A Schedule."""
