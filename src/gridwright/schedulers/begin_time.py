"""When a job is to begin: a time of the day, a date with a time, or a distance from now."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from gridwright.errors import Problem
from gridwright.units import UnitError, parse_duration

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_REMEDY = "write a time such as 22:00, a date such as 2027-01-31T22:00, or a distance such as +2h"


def parse_begin(text: str, now: float | None = None, where: str = "--begin") -> float | Problem:
    """Seconds since 1970, in the time zone of this machine; or what is wrong with the text.

    A time of the day is the next one that is to come. `now` is in seconds since 1970, by default this moment.
    """
    now = time.time() if now is None else now
    text = text.strip()
    if text.startswith("+"):
        try:
            return now + parse_duration(text[1:])
        except UnitError as error:
            return Problem(what=error.text, where=where, remedy=error.remedy)
    here = datetime.fromtimestamp(now).astimezone()
    if match := _CLOCK.fullmatch(text):
        clock = {"hour": int(match[1]), "minute": int(match[2]), "second": int(match[3] or 0)}
        requested = here.replace(tzinfo=None, microsecond=0, **clock)
        if requested.timestamp() <= now:
            requested += timedelta(days=1)
        return requested.timestamp()
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return Problem(what=f"{text!r} is no time to begin at", where=where, remedy=_REMEDY)
