"""How figures print: few digits, never a zero for what is absent."""

from __future__ import annotations

import math

import pytest

from gridwright.report import figures
from gridwright.report.figures import ABSENT


@pytest.mark.parametrize(
    "say",
    [
        figures.plain,
        figures.count,
        figures.megabytes,
        figures.share,
        figures.latency,
        figures.binary,
        figures.volume,
        figures.seconds,
        figures.duration,
    ],
)
@pytest.mark.parametrize("absent", [None, math.nan, math.inf, "12", True])
def test_what_is_no_figure_prints_as_a_dash(say: object, absent: object) -> None:
    assert callable(say)
    assert say(absent) == ABSENT


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0, "0"), (98_412_000, "98.4"), (131_240_000, "131"), (1_904_200_000, "1,904"), (1_230_000, "1.23")],
)
def test_rates_have_about_three_digits(rate: float, text: str) -> None:
    assert figures.megabytes(rate) == text


@pytest.mark.parametrize(
    ("rate", "required", "text"),
    [
        (124_960_000, 125_000_000, "124.96"),
        (124_600_000, 125_000_000, "124.6"),
        (125_000_000, 125_000_000, "125"),
        (125_020_000, 125_000_000, "125.02"),
        (98_400_000, None, "98.4"),
        (None, 125_000_000, ABSENT),
    ],
)
def test_a_near_miss_never_reads_like_the_requirement(
    rate: float | None, required: float | None, text: str
) -> None:
    assert figures.against(rate, required) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0 %"), (0.0004, "<1 %"), (0.9996, "99 %"), (1.0, "100 %"), (1.0403, "104 %"), (0.29, "29 %")],
)
def test_shares_are_never_rounded_up(fraction: float, text: str) -> None:
    assert figures.share(fraction) == text


def test_a_part_of_nothing_is_absent() -> None:
    assert figures.part_of(5, 0) == ABSENT
    assert figures.part_of(None, 5) == ABSENT


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0.0, "0 µs"), (87.2, "87 µs"), (7210, "7.21 ms"), (161_000, "161 ms"), (2_500_000, "2.50 s")],
)
def test_latency_takes_the_unit_that_suits(microseconds: float, text: str) -> None:
    assert figures.latency(microseconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(512, "512 B"), (1 << 20, "1 MiB"), (64 << 30, "64 GiB"), (1536, "1.5 KiB")]
)
def test_sizes_of_memory_are_binary(size: int, text: str) -> None:
    assert figures.binary(size) == text


@pytest.mark.parametrize(
    ("length", "text"), [(41.6, "42 s"), (59.7, "1 min 0 s"), (252, "4 min 12 s"), (7500, "2 h 5 min")]
)
def test_durations_are_for_the_eye(length: float, text: str) -> None:
    assert figures.duration(length) == text


def test_times_are_utc_and_what_is_no_time_stands_as_it_is() -> None:
    assert figures.clock("2025-11-21T05:00:00+01:00") == "2025-11-21 04:00 UTC"
    assert figures.clock("2025-11-21T04:00:00") == "2025-11-21 04:00 UTC"
    assert figures.clock("yesterday") == "yesterday"
    assert figures.clock(None) == ABSENT


def test_facts_of_any_shape_become_text() -> None:
    raid = {"level": "raid0", "disks": 4, "chunk_bytes": 524_288}
    assert figures.fact("raid", raid) == "level raid0, disks 4, chunk 512 KiB"
    assert figures.fact("options", ["rw", "noatime"]) == "rw, noatime"
    assert figures.fact("rotational", False) == "no"
    assert figures.fact("scheduler", None) == ABSENT
    assert figures.fact("options", []) == ABSENT
    assert figures.label("cpu_model") == "CPU model"
    assert figures.label("memory_bytes") == "Memory"
