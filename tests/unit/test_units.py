"""Sizes, rates and durations: exact, never confused, and never anything but UnitError on junk."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.units import (
    BINARY,
    DECIMAL,
    LIMIT,
    Bytes,
    Rate,
    UnitError,
    format_bytes,
    format_rate,
    parse_duration,
)

sizes = st.one_of(
    st.integers(0, LIMIT),
    st.builds(
        lambda n, unit: min(n * unit, LIMIT),
        st.integers(0, 10_000),
        st.sampled_from([*DECIMAL.values(), *BINARY.values()]),
    ),
)
junk = st.one_of(
    st.text(max_size=80),
    st.binary(),
    st.floats(),
    st.integers(),
    st.none(),
    st.booleans(),
    st.lists(st.integers()),
    st.from_regex(
        r"[0-9.,_eE+-]{0,8} ?[KMGTPkmgtp]?i?[Bb]?(its?)?(ps)?(/s|/S|/sec)?(/core|/cpu)?", fullmatch=True
    ),
)


@given(sizes)
def test_a_size_survives_printing(n: int) -> None:
    assert Bytes.parse(str(Bytes(n))) == n


@given(sizes, st.booleans())
def test_a_rate_survives_printing(n: int, per_core: bool) -> None:
    rate = Rate(n, per_core)
    assert Rate.parse(str(rate)) == rate
    assert Rate.parse(str(Rate(n, per_core=True)), per_core=True) == Rate(n, per_core=True)


@given(st.integers(1, 8000), st.sampled_from("kMGTP"), st.sampled_from(["", " ", "  "]))
def test_decimal_and_binary_are_never_confused(n: int, prefix: str, space: str) -> None:
    power = "kMGTP".index(prefix) + 1
    assert Bytes.parse(f"{n}{space}{prefix}B") == n * 1000**power
    assert Bytes.parse(f"{n}{space}{prefix.upper()}iB") == n * 1024**power
    assert Rate.parse(f"{n}{space}{prefix}B/s").bytes_per_s == n * 1000**power
    with pytest.raises(UnitError) as caught:
        Bytes.parse(f"{n}{space}{prefix}")
    assert f"{n} {prefix}B" in caught.value.remedy
    assert f"{n} {prefix.upper()}iB" in caught.value.remedy


@given(junk)
def test_junk_raises_only_unit_errors(value: object) -> None:
    for parse in (Bytes.parse, Rate.parse, parse_duration):
        try:
            parse(value)
        except UnitError as error:
            assert error.text
            assert error.remedy
            assert "\n" not in str(error)
            assert len(str(error)) < 400


@given(st.integers(0, 10**9), st.integers(0, 999), st.sampled_from([*DECIMAL, *BINARY]))
def test_decimals_are_exact_or_refused(whole: int, thousandths: int, unit: str) -> None:
    exact = Fraction(whole * 1000 + thousandths, 1000) * {**DECIMAL, **BINARY}[unit]
    text = f"{whole}.{thousandths:03} {unit}"
    if exact.denominator == 1 and exact <= LIMIT:
        assert Bytes.parse(text) == exact
    else:
        with pytest.raises(UnitError):
            Bytes.parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("70 min", 4200),
        ("1h", 3600),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("500 ms", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("parse", "value", "text", "remedy"),
    [
        (Bytes.parse, "4 kb", '"kb" is not a unit', "write 4 kB"),
        (Bytes.parse, "4Ki", '"Ki" lacks its B', "write 4 KiB"),
        (Bytes.parse, "4 MB/s", '"4 MB/s" is a rate, and a size is wanted', "write 4 MB"),
        (Bytes.parse, "0.1 KiB", '"0.1 KiB" is not a whole number of bytes', "round it, such as to 103 B"),
        (
            Bytes.parse,
            "1e3",
            '"1e3" has an exponent',
            "write the number out, or use a larger unit: 64 KiB or 12 TiB",
        ),
        (Bytes.parse, "8", '"8" has no unit', "write 8 GB (10^9 bytes) or 8 GiB (2^30 bytes)"),
        (Bytes.parse, 8, '"8" has no unit', "write 8 GB (10^9 bytes) or 8 GiB (2^30 bytes)"),
        (Bytes.parse, 1.5, '"1.5" has no unit', "write 1.5 GB (10^9 bytes) or 1.5 GiB (2^30 bytes)"),
        (Bytes.parse, "65536", '"65536" has no unit', "write 64 KiB if bytes are meant"),
        (Bytes.parse, True, "a size is wanted, and a bool is given", "write a size such as 64 KiB or 12 TiB"),
        (
            Rate.parse,
            "10 Gbit/s",
            '"Gbit" counts bits, and only bytes are read',
            "8 bits are one byte: write 1.25 GB/s",
        ),
        (
            Rate.parse,
            "8 Gbps",
            '"Gbps" counts bits, and only bytes are read',
            "8 bits are one byte: write 1 GB/s",
        ),
        (
            Rate.parse,
            "1 Gib/s",
            '"Gib" counts bits, and only bytes are read',
            "8 bits are one byte: write 128 MiB/s",
        ),
        (Rate.parse, "4 GBps", '"GBps" is not a unit', "write 4 GB/s"),
        (Rate.parse, 100, '"100" has no unit', "write 100 MB/s if megabytes are meant"),
        (
            Rate.parse,
            "4 MB/s/cpu",
            '"/cpu" is not a part of a rate',
            "write 4 MB/s/core for each physical core, or 4 MB/s in all",
        ),
        (parse_duration, "90", '"90" has no unit', "write 90s for seconds or 90m for minutes"),
        (parse_duration, "5M", '"M" is not a unit of time', "write 5m"),
    ],
)
def test_messages(parse: object, value: object, text: str, remedy: str) -> None:
    assert callable(parse)
    with pytest.raises(UnitError) as caught:
        parse(value)
    assert (caught.value.text, caught.value.remedy) == (text, remedy)


@pytest.mark.parametrize(
    "text", ["100 MB/s/core", "1.5 TiB", "12 TiB", "4 GB", "12.5 MB/s/core", "64 KiB", "0 B", "999 B"]
)
def test_prints_as_people_write(text: str) -> None:
    assert str(Rate.parse(text) if "/" in text else Bytes.parse(text)) == text


def test_a_size_is_an_int_in_calculations() -> None:
    size = Bytes.parse("64 KiB")
    assert size * 2 == 131072
    assert f"{size}" == "64 KiB"
    assert repr(size) == "Bytes(65536)"


def test_rate_of_cores() -> None:
    assert Rate.parse("100 MB/s/core").total(16) == 1_600_000_000
    assert Rate.parse("4 GB/s").total(16) == 4_000_000_000


@pytest.mark.parametrize(
    ("n", "binary", "decimal"),
    [
        (0, "0 B", "0 B"),
        (1000, "1000 B", "1 kB"),
        (1536, "1.50 KiB", "1.54 kB"),
        (65536, "64 KiB", "65.5 kB"),
        (999_600, "976 KiB", "1.00 MB"),
        (123_456_789, "118 MiB", "123 MB"),
        (-1500, "-1.46 KiB", "-1.50 kB"),
        (math.nan, "n/a", "n/a"),
        (math.inf, "n/a", "n/a"),
    ],
)
def test_formats_for_people(n: float, binary: str, decimal: str) -> None:
    assert format_bytes(n) == binary
    assert format_bytes(n, binary=False) == decimal


def test_formats_rates_in_decimal() -> None:
    assert format_rate(100e6, per_core=True) == "100 MB/s/core"
    assert format_rate(98_700_001.0) == "98.7 MB/s"
    assert format_rate(math.nan) == "n/a"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_formatting_takes_any_number(n: float) -> None:
    assert format_bytes(n)
    assert format_rate(n)


def test_an_error_survives_a_process_boundary() -> None:
    error = UnitError("what", "remedy")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made on the line itself
    assert (copy.text, copy.remedy) == ("what", "remedy")


def test_importing_units_is_cheap() -> None:
    code = (
        "import sys, gridwright.units; "
        "print(any(m in sys.modules for m in ('pydantic', 'ruamel', 'rich', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
