"""Questions to a file system that may never be answered."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.changelog.lustre_source import answer, answers


@given(st.lists(st.integers(), max_size=60), st.integers(1, 4))
def test_each_item_is_answered_once(items: list[int], threads: int) -> None:
    assert sorted(answers(lambda each: each + 1, items, threads)) == sorted(each + 1 for each in items)


def test_items_are_taken_as_they_are_wanted() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for each in range(100):
            taken.append(each)
            yield each

    some = answers(str, items(), 2)
    next(some)
    assert len(taken) <= 5


def test_what_an_answer_raises_is_raised() -> None:
    def refuse(each: int) -> int:
        raise PermissionError(errno.EACCES, str(each))

    with pytest.raises(PermissionError):
        list(answers(refuse, [1, 2, 3]))
    with pytest.raises(ZeroDivisionError):
        answer(lambda: 1 // 0)


def test_nobody_waits_for_ever() -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError, match="nothing was answered"):
        answer(never.wait, 0.3)
    never.set()
