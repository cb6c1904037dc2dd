"""How the indices of an array are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.cli.work.jobs import fold, identifiers
from gridwright.errors import Problem
from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.job_request import parse_array


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("1-5", [1, 2, 3, 4, 5]),
        ("1-9:4", [1, 5, 9]),
        ("1,5,9", [1, 5, 9]),
        ("7", [7]),
        ("0-2, 10-12", [0, 1, 2, 10, 11, 12]),
        ("9,1", [1, 9]),
    ],
)
def test_indices_are_read(text: str, indices: list[int]) -> None:
    found = parse_array(text)
    assert not isinstance(found, Problem)
    assert list(found) == indices


def test_a_range_stays_one_however_long_it_is() -> None:
    assert parse_array("1-10000000") == range(1, 10_000_001)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'' is no range"),
        ("1-", "'1-' is no range"),
        ("a", "'a' is no range"),
        ("-1", "'-1' is no range"),
        ("5-1", "5-1 ends before it begins"),
        ("1-5:0", "step of 0"),
        ("1-5,3", "index 3 is there twice"),
        ("1-4%2", "'1-4%2' is no range"),
        ("0-999999,2000000", "has 1000001 elements, and one array has at most 1000000"),
    ],
)
def test_what_is_wrong_is_named(text: str, what: str) -> None:
    found = parse_array(text)
    assert isinstance(found, Problem)
    assert what in found.what
    assert found.where == "--array"


@given(st.sets(st.integers(0, 300), min_size=1))
def test_indices_written_singly_come_back(indices: set[int]) -> None:
    found = parse_array(",".join(map(str, indices)))
    assert not isinstance(found, Problem)
    assert list(found) == sorted(indices)


def test_elements_that_are_alike_share_a_line() -> None:
    states = [JobState.COMPLETED] * 3 + [JobState.FAILED] + [JobState.COMPLETED] * 2
    jobs = [Job(id=f"7_{number}", name="x", state=state) for number, state in enumerate(states, 1)]
    jobs.append(Job(id="8", name="x", state=JobState.COMPLETED))
    assert [identifiers(alike) for alike in fold(jobs)] == ["7_[1-3,5-6]", "7_4", "8"]
