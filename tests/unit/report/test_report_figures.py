"""How figures print: few digits, never a zero for what is absent."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from gridwright.report import figures
from gridwright.report.figures import ABSENT
from gridwright.report.table import Cell, Column, Table, columns_of, rows_table
from gridwright.report.terminal.frame import framed
from tests.support.examples import examples


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


# Tables where there are few columns: every word stays whole, and nothing is wider than the terminal.

WORDS = st.text("abcdefghij-", min_size=1, max_size=20)


def shown(table: Table, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(framed(table))
    return out.getvalue()


def checks() -> Table:
    found = Column("found", words=True, wrap="anywhere")
    path = "/sys/kernel/mm/transparent_hugepage/enabled = madvise"
    row = (Cell("warning", style="yellow"), "sysctl-tcp-slow-start-after-idle", "compute[1-16]", path)
    return rows_table("Settings", columns_of(["level", "check", "nodes", found]), [row])


def test_the_frame_goes_before_a_word_is_broken() -> None:
    assert "┃" in shown(checks(), 140)
    narrow = shown(checks(), 80)
    assert "┃" not in narrow
    for word in ("warning", "sysctl-tcp-slow-start-after-idle", "compute[1-16]"):
        assert word in narrow
    assert "/sys/kernel/mm/transparent_hugepage/enabled=madvise" in "".join(
        line[len("warning sysctl-tcp-slow-start-after-idle compute[1-16]") :].strip().replace(" ", "")
        for line in narrow.splitlines()[3:]
    )


def test_headings_are_wrapped_before_columns_go_below() -> None:
    columns = columns_of(["test"], [f"figure number {letter}" for letter in "abcdefgh"])
    table = rows_table("", columns, [["sort", *["1,234.5"] * 8]])
    narrow = shown(table, 72)
    assert max(map(len, narrow.splitlines())) <= 72
    assert narrow.count("sort") == 1
    below = shown(table, 40)
    assert below.count("sort") == 2, "columns that do not fit are below, with the first column again"
    assert below.count("1,234.5") == 8


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(24, 90))
def test_no_word_is_lost_or_broken(rows: list[tuple[str, str, str]], width: int) -> None:
    text = shown(rows_table("", columns_of(["one"], ["number two", "three"]), rows), width)
    words = text.split()
    assert all(len(line) <= width for line in text.splitlines())
    if "┃" in text:
        return
    # Beside the first column, a word that is wider than the terminal has to be broken.
    key, *others = ([*column] for column in zip(*rows, strict=True))
    beside = width - max(map(len, [*key, "one"])) - 2
    fit = [column for column in others if all(len(cell) <= beside for cell in [*column, "number"])]
    whole = [*fit, key] if fit == others else fit
    assert all(cell in words for column in whole for cell in column)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_sections_and_styles_are_kept(width: int) -> None:
    columns = columns_of(["library", "op"], [f"column {n}" for n in range(12)])
    first: list[str | Cell] = ["data", "write", *[Cell("1", "missed")] * 12]
    text = shown(rows_table("Title", columns, [first], [["work", "read", *["2"] * 12]]), width)
    assert text.startswith("Title")
    assert "[bold" not in text
    assert text.count("write") == 1
