"""How figures print in the report: few digits, the unit in the heading, an en dash for an absent one."""

from __future__ import annotations

import math
from datetime import UTC, datetime

MB = 1_000_000
GB = 1_000_000_000
ABSENT = "–"  # noqa: RUF001 - an en dash is what an absent figure prints as

_MAX_EXTRA_DIGITS = 3
_WORDS = {"cpu": "CPU", "cpus": "CPUs", "os": "OS", "raid": "RAID", "filesystem": "file system", "io": "I/O"}


def finite(value: object) -> float | None:
    """The value as a float, or None where it is absent, not a number, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def digits(value: float) -> int:
    """Decimals that leave about three significant digits."""
    size = abs(value)
    if size >= 100 or size == 0:
        return 0
    if size >= 10:
        return 1
    return 2 if size >= 1 else 3


def plain(value: object) -> str:
    """A figure with about three significant digits."""
    number = finite(value)
    return ABSENT if number is None else f"{number:,.{digits(number)}f}"


def count(value: object) -> str:
    """A whole number."""
    number = finite(value)
    return ABSENT if number is None else f"{number:,.0f}"


def megabytes(value: object) -> str:
    """Bytes, or bytes per second, in MB or MB/s (10^6)."""
    number = finite(value)
    return ABSENT if number is None else plain(number / MB)


def required(value: object) -> str:
    """A required rate in MB/s: a round figure stands as it was written."""
    number = finite(value)
    return ABSENT if number is None else f"{number / MB:,.3f}".rstrip("0").rstrip(".")


def against(value: object, required: object) -> str:
    """A rate in MB/s, with as many digits as it takes to tell it from what is required.

    Without them 124.96 against 125 would read "125, missed".
    """
    number, bound = finite(value), finite(required)
    if number is None:
        return ABSENT
    rate = number / MB
    text = plain(rate)
    if bound is None or number == bound:
        return text
    extra = 0
    while text == f"{bound / MB:,.{digits(rate) + extra}f}" and extra < _MAX_EXTRA_DIGITS:
        extra += 1
        text = f"{rate:,.{digits(rate) + extra}f}"
    return text


def share(value: object) -> str:
    """A fraction as a percentage; only the whole is 100 % and only nothing is 0 %."""
    number = finite(value)
    if number is None:
        return ABSENT
    if 0 < number < 0.01:
        return "<1 %"
    return f"{math.floor(number * 100 + 1e-9):,d} %"


def part_of(value: object, whole: object) -> str:
    """How much of the whole the value is, in percent."""
    number, total = finite(value), finite(whole)
    return ABSENT if number is None or not total else share(number / total)


def latency(microseconds: object) -> str:
    """A latency with the unit that suits it."""
    number = finite(microseconds)
    if number is None:
        return ABSENT
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if number >= size:
            return f"{plain(number / size)} {unit}"
    return f"{number:,.0f} µs"


def binary(value: object) -> str:
    """A size of memory or of a block, in KiB, MiB, GiB or TiB."""
    number = finite(value)
    if number is None:
        return ABSENT
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(number) >= size:
            return f"{number / size:,.{0 if number % size == 0 else 1}f} {unit}"
    return f"{number:,.0f} B"


def volume(value: object) -> str:
    """An amount of data, in kB, MB or GB (10^3, 10^6, 10^9)."""
    number = finite(value)
    if number is None:
        return ABSENT
    for unit, size in (("GB", GB), ("MB", MB), ("kB", 1000)):
        if abs(number) >= size:
            return f"{plain(number / size)} {unit}"
    return f"{number:,.0f} B" if number else "0"


def seconds(value: object) -> str:
    """A duration in seconds."""
    number = finite(value)
    return ABSENT if number is None else f"{plain(number)} s"


def duration(value: object) -> str:
    """A duration for the eye: 42 s, 4 min 12 s, 2 h 5 min."""
    number = finite(value)
    if number is None or number < 0:
        return ABSENT
    whole = round(number)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def age(value: object) -> str:
    """How old something is, in the largest whole unit: 45 s, 12 min, 5 h, 90 d."""
    number = finite(value)
    if number is None:
        return ABSENT
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if number >= length:
            return f"{number // length:.0f} {unit}"
    return f"{max(0.0, number):.0f} s"


def seconds_since(text: str | None, now: datetime) -> float | None:
    """How long ago a time of a record was; None where it has none."""
    then = moment(text)
    return None if then is None else (now - then).total_seconds()


def moment(text: str | None) -> datetime | None:
    """An ISO 8601 time, or None where it is absent or something else."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def clock(text: str | None) -> str:
    """An ISO 8601 time as it is read by people; anything else as it stands."""
    parsed = moment(text)
    if parsed is None:
        return text or ABSENT
    return f"{parsed.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def fact(key: str, value: object) -> str:
    """A value of the environment, whatever its type; sizes by the unit in the key."""
    if value is None or value == "":
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes") and finite(value) is not None:
        return binary(value)
    if isinstance(value, dict):
        return ", ".join(f"{_words(str(name))} {fact(str(name), inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple | set):
        return ", ".join(fact("", inner) for inner in value) or ABSENT
    return plain(value) if isinstance(value, float) else str(value)


def _words(key: str) -> str:
    """A key of a record in words: no underscores, and no unit where the value prints it."""
    return " ".join(_WORDS.get(word, word) for word in key.removesuffix("_bytes").split("_"))


def label(key: str) -> str:
    """A key of a record as a label."""
    text = _words(key)
    return text[:1].upper() + text[1:]
