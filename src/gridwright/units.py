"""Sizes, rates and durations: read from what people write, printed for people, exact in between.

Decimal (MB = 10^6) and binary (MiB = 2^20) units are both read and never confused; whatever could
mean either is refused with both choices named. Nothing is guessed: a bare `K`, bits, a wrong case
and a missing unit each get their own explanation.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

DECIMAL = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
UNITS = {"B": 1, **DECIMAL, "KB": 10**3, **BINARY}
"""Every accepted spelling of a unit, in bytes. `KB` is read as `kB`; printing writes `kB`."""

SECONDS: dict[str, int | Fraction] = {
    "ms": Fraction(1, 1000),
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86400,
}
"""Every accepted spelling of a unit of time, in seconds."""

HOURS_PER_MONTH = 730
"""Hours of a month in price lists: 365 * 24 / 12."""

LIMIT = 2**63 - 1
"""Largest size in bytes and largest rate in bytes per second: what run records can hold."""

# Also the patterns of the JSON Schema, so that editors agree with the parser.
_AMOUNT = r"[0-9]+(\.[0-9]+)?"
_UNIT = f"({'|'.join(UNITS)})"
SIZE_PATTERN = rf"^\s*{_AMOUNT}\s*{_UNIT}\s*$"
_RATE = rf"^\s*{_AMOUNT}\s*{_UNIT}\s*/\s*s\s*"
RATE_PATTERN = rf"{_RATE}$"
CORE_RATE_PATTERN = rf"{_RATE}/\s*core\s*$"
TEBIBYTE_RATE_PATTERN = rf"{_RATE}/\s*TiB\s*$"
DURATION_PATTERN = rf"^\s*({_AMOUNT}\s*({'|'.join(SECONDS)})\s*)+$"

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9].*)?", re.ASCII | re.DOTALL)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_BITS = re.compile(r"([KMGTPkmgtp]i?)?(?:[Bb]its?|bps)|([KMGTP]i?)b|b", re.ASCII)
_PREFIX = re.compile(r"[KMGTP]i?", re.IGNORECASE | re.ASCII)
# No sensible quantity is longer, and a longer one would only fill the screen.
_MAX_TEXT = 64
_DURATION_EXAMPLE = "90s, 5m, 70 min or 1h"


class UnitError(ValueError):
    """A size, rate or duration that cannot be read.

    `text` says what is wrong with it, `remedy` what to write instead.
    """

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(f"{text}; {remedy}")
        self.text = text
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[UnitError], tuple[str, str]]:
        """Pickle by both parts: workers hand errors across processes."""
        return UnitError, (self.text, self.remedy)


class Bytes(int):
    """A size in bytes: an int in every calculation, a unit when printed (`12 TiB`).

    `Bytes.parse(str(x)) == x` holds for every x from 0 to LIMIT.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> Bytes:
        """Read a size such as `12 TiB`, `64KiB`, `1.5 GB`; the unit is required.

        Raises UnitError, and nothing else, whatever is given.
        """
        if isinstance(value, Bytes):
            return cls(_whole(Fraction(int(value)), _number_text(value)))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = _number_text(value)
        amount, unit, text = _split(value, "a size", "64 KiB or 12 TiB")
        if not unit:
            _refuse_bare_size(amount, text)
        size, slash, _ = unit.partition("/")
        factor = _factor(amount, size.rstrip(), "")
        if slash:
            raise UnitError(
                f"{_show(text)} is a rate, and a size is wanted", f"write {_spelled(amount)} {size}"
            )
        return cls(_whole(amount * factor, text))

    def __str__(self) -> str:
        return _exact(int(self), prefer=BINARY)

    def __repr__(self) -> str:
        return f"Bytes({int(self)})"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate that a spec asks for, in whole bytes per second, of one core or of the whole.

    An int, since a spec states exact decimal figures that must print as they were written;
    a measured rate is a plain float in bytes per second and is never a Rate.
    `Rate.parse(str(x)) == x` holds for every x from 0 to LIMIT.
    """

    bytes_per_s: int
    per_core: bool = False

    @classmethod
    def parse(cls, value: object, per_core: bool = False) -> Rate:
        """Read a rate such as `4 GB/s` or `100 MB/s/core`; the unit is required.

        With `per_core` only a rate per core will do. Raises UnitError, and nothing else, whatever
        is given.
        """
        example = "100 MB/s/core" if per_core else "100 MB/s/core or 4 GB/s"
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = _number_text(value)
        amount, unit, text = _split(value, "a rate", example)
        if not unit:
            meant = f"write {_spelled(amount)} MB/s{'/core' if per_core else ''} if megabytes are meant"
            raise UnitError(f"{_show(text)} has no unit", meant)
        size, *per = [part.strip() for part in unit.split("/")]
        factor = _factor(amount, size, "".join(f"/{part}" for part in per))
        if per not in ([["s", "core"]] if per_core else [["s"], ["s", "core"]]):
            _refuse_divisor(text, f"{_spelled(amount)} {size}", per, per_core)
        return cls(_whole(amount * factor, text), per_core=len(per) == 2)

    def total(self, cores: int) -> int:
        """Bytes per second that `cores` physical cores need together."""
        return self.bytes_per_s * cores if self.per_core else self.bytes_per_s

    def __str__(self) -> str:
        return f"{_exact(self.bytes_per_s, prefer=DECIMAL)}/s{'/core' if self.per_core else ''}"


def parse_duration(value: object) -> float:
    """Read a duration such as `90s`, `70 min`, `1h30m` and return seconds.

    Units are ms, s, sec, m and min (minutes), h, d. Raises UnitError, and nothing else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = _number_text(value)
    text = _text(value, "a duration", _DURATION_EXAMPLE)
    if re.fullmatch(_AMOUNT, text, re.ASCII):
        raise UnitError(f"{_show(text)} has no unit", f"write {text}s for seconds or {text}m for minutes")
    total, at = Fraction(0), 0
    while at < len(text):
        part = _DURATION_PART.match(text, at)
        if part is None:
            raise UnitError(
                f"{_show(text)} is not a duration", f"write a duration such as {_DURATION_EXAMPLE}"
            )
        if part[2] not in SECONDS:
            right = part[2].lower()
            meant = f"write {part[1]}{right}" if right in SECONDS else f"write one of {', '.join(SECONDS)}"
            raise UnitError(f"{_show(part[2])} is not a unit of time", meant)
        total += Fraction(part[1]) * SECONDS[part[2]]
        at = part.end()
    return float(total)


def plural(number: int, word: str) -> str:
    """The form that a noun of one has after a number: `1 file`, `2 files`, `2 directories`, `2 launches`."""
    if number == 1:
        return word
    if word.endswith("y") and word[-2:-1] not in "aeou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("ch", "sh", "s", "x")) else f"{word}s"


def counted(number: int, word: str) -> str:
    """How many, in words: `1 node`, `2,000 nodes`."""
    return f"{number:,} {plural(number, word)}"


def format_duration(seconds: float) -> str:
    """A time span in words, such as 3 d 4 h; a clock that was set back makes none below 0."""
    left = max(0, int(seconds))
    parts = []
    for word, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {word}")
    return " ".join(parts[:2]) or "0 s"


def format_bytes(n: float, binary: bool = True) -> str:
    """A size for people: whole figures as they are (`64 KiB`), others in three digits (`1.50 GiB`).

    A figure that was not measured (nan) or is infinite prints as `n/a`.
    """
    return _rounded(n, BINARY if binary else DECIMAL, "")


def format_rate(bytes_per_s: float, per_core: bool = False) -> str:
    """A rate for people, in decimal units: `100 MB/s/core`, `98.7 MB/s`; nan prints as `n/a`."""
    return _rounded(bytes_per_s, DECIMAL, "/s/core" if per_core else "/s")


def _show(text: str) -> str:
    """A user's text for a message: quoted, on one line, cut where it gets long."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return f'"{clean}"' if len(clean) <= _MAX_TEXT else f'"{clean[: _MAX_TEXT - 3]}..."'


def _number_text(value: float) -> str:
    # str() of an int beyond 4300 digits raises ValueError, and nobody reads that many.
    if isinstance(value, int) and abs(value) > 10**_MAX_TEXT:
        return f"a number of over {_MAX_TEXT} digits"
    return str(value)


def _text(value: object, kind: str, example: str) -> str:
    if not isinstance(value, str):
        given = "nothing" if value is None else f"a {type(value).__name__}"
        raise UnitError(f"{kind} is wanted, and {given} is given", f"write {kind} such as {example}")
    text = value.strip()
    if not text:
        raise UnitError(f"{kind} is wanted, and the text is empty", f"write {kind} such as {example}")
    if len(text) > _MAX_TEXT:
        raise UnitError(f"{_show(text)} is too long for {kind}", f"write {kind} such as {example}")
    return text


def _split(value: object, kind: str, example: str) -> tuple[Fraction, str, str]:
    """Amount, unit (may be empty) and trimmed text of a quantity."""
    text = _text(value, kind, example)
    match = _QUANTITY.fullmatch(text)
    unit = (match[2] or "") if match else ""
    if match and not re.match(r"[_,.]|[eE][+-]?[0-9]", unit):
        return Fraction(match[1]), unit, text
    if re.match(r"-\s*[0-9]", text):
        raise UnitError(f"{_show(text)} is negative", f"write {kind} such as {example}")
    if re.match(r"[0-9][0-9.]*[_,][0-9]", text):
        plain = text.replace(",", "").replace("_", "")
        raise UnitError(f"{_show(text)} has a separator in its number", f"write the digits alone: {plain}")
    if re.match(r"[0-9.]+[eE]", text):
        raise UnitError(
            f"{_show(text)} has an exponent", f"write the number out, or use a larger unit: {example}"
        )
    raise UnitError(f"{_show(text)} is not {kind}", f"write {kind} such as {example}")


def _factor(amount: Fraction, unit: str, per: str) -> int:
    """Bytes in `unit`; `per` is what follows it (`/s`), for the remedy."""
    if unit in UNITS:
        return UNITS[unit]
    number = _spelled(amount)
    if _PREFIX.fullmatch(unit):
        decimal, binary = ("kB" if unit[0] in "Kk" else f"{unit[0].upper()}B"), f"{unit[0].upper()}iB"
        if len(unit) == 2:
            raise UnitError(f"{_show(unit)} lacks its B", f"write {number} {binary}{per}")
        raise UnitError(
            f"{_show(unit)} alone could be decimal or binary",
            f"write {number} {decimal}{per} (1 {decimal} = {DECIMAL[decimal]} bytes) or "
            f"{number} {binary}{per} (1 {binary} = {BINARY[binary]} bytes)",
        )
    if bits := _BITS.fullmatch(unit):
        _refuse_bits(amount, unit, (bits[1] or bits[2] or ""), per)
    size = re.sub(r"[pP][sS]$", "", unit)
    folded = {each.lower(): each for each in UNITS if each != "KB"}
    if right := folded.get(size.lower()):
        per = per if size == unit else "/s" + per
        raise UnitError(f"{_show(unit)} is not a unit", f"write {number} {right}{per}")
    sizes = ", ".join([*DECIMAL, *BINARY])
    raise UnitError(f"{_show(unit)} is not a unit", f"units are B, {sizes}, with /s or /s/core for rates")


def _refuse_bare_size(amount: Fraction, text: str) -> NoReturn:
    """Nobody knows whether 8 is bytes; a large number is likely to be."""
    number = _spelled(amount)
    meant = f"write {number} GB (10^9 bytes) or {number} GiB (2^30 bytes)"
    if amount.denominator == 1 and 1000 <= amount <= LIMIT:
        meant = f"write {_exact(int(amount), BINARY)} if bytes are meant"
    raise UnitError(f"{_show(text)} has no unit", meant)


def _refuse_bits(amount: Fraction, unit: str, prefix: str, per: str) -> NoReturn:
    scale = {"": 1, **{name[:-1].lower(): factor for name, factor in {**DECIMAL, **BINARY}.items()}}
    in_bytes = amount * scale[prefix.lower()] / 8
    per = per or ("/s" if unit.endswith("bps") else "")
    meant = "divide by 8 and write bytes, such as 1250 MB/s for 10 Gbit/s"
    if in_bytes.denominator == 1 and in_bytes <= LIMIT:
        binary = prefix.endswith("i")
        meant = f"8 bits are one byte: write {_exact(int(in_bytes), BINARY if binary else DECIMAL)}{per}"
    raise UnitError(f"{_show(unit)} counts bits, and only bytes are read", meant)


def _refuse_divisor(text: str, size: str, per: list[str], per_core: bool) -> NoReturn:
    """Explain what is wrong behind the first slash of a rate; `size` is what stands before it."""
    meant = f"write {size}/s/core for each physical core"
    if not per_core:
        meant += f", or {size}/s in all"
    if not per:
        raise UnitError(f"{_show(text)} is a size, and a rate is wanted", meant)
    if per == ["s"]:
        raise UnitError(
            f"{_show(text)} is not per core", "write what each physical core needs, such as 100 MB/s/core"
        )
    if len(per) == 2 and per[0] == "s":
        raise UnitError(f"{_show('/' + per[1])} is not a part of a rate", meant)
    raise UnitError(f"{_show(text)} is not a rate", f"write {size}/s/core" if per[1:] == ["core"] else meant)


def _whole(amount: Fraction, text: str) -> int:
    if amount.denominator != 1:
        raise UnitError(
            f"{_show(text)} is not a whole number of bytes", f"round it, such as to {math.ceil(amount)} B"
        )
    if not 0 <= amount <= LIMIT:
        raise UnitError(f"{_show(text)} is out of range", "write a figure from 0 to below 8192 PiB")
    return int(amount)


def _spelled(amount: Fraction) -> str:
    """The number as decimal text, exact: every amount was read from decimal digits."""
    if amount.denominator == 1:
        return str(int(amount))
    places = next(n for n in range(1, _MAX_TEXT + 1) if (amount * 10**n).denominator == 1)
    return f"{int(amount)}.{int((amount - int(amount)) * 10**places):0{places}}"


def _exact(n: int, prefer: dict[str, int]) -> str:
    """The shortest exact spelling of n bytes; the preferred system, then the larger unit, wins a tie."""
    other = DECIMAL if prefer is BINARY else BINARY
    spellings = [f"{n} B"]
    for units in (other, prefer):
        for unit, factor in units.items():
            if n >= factor and n * 1000 % factor == 0:
                spellings.append(f"{_spelled(Fraction(n, factor))} {unit}")
    # min keeps the first of equals, so the best come first.
    return min(reversed(spellings), key=lambda each: len(each.partition(" ")[0]))


def _rounded(n: float, units: dict[str, int], per: str) -> str:
    if not math.isfinite(n):
        return "n/a"
    # 999.6 prints as 1000 in three digits, so the next unit takes over from there.
    fits = [(unit, factor) for unit, factor in units.items() if abs(n) >= factor * 0.9995]
    unit, factor = fits[-1] if fits else ("B", 1)
    value = n / factor
    if value == int(value) and abs(value) < 1e5:
        return f"{int(value)} {unit}{per}"
    size = abs(value)
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:.{places}f} {unit}{per}"
