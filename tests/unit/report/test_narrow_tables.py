"""Tables where there are few columns: every word stays whole, and nothing is wider than the terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from gridwright.report.table import Cell, Column, Table, columns_of, rows_table
from gridwright.report.terminal.frame import framed
from tests.support.examples import examples

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
