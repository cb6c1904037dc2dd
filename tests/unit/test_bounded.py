"""A look at what hangs ends in time, and tells what it saw or why it could not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from gridwright.bounded import Hangs, call_bounded, look_at_all


def test_plain_data_come_back() -> None:
    assert call_bounded(lambda: {"bytes": 3 * 10**12, "names": ["a", "b"] * 50_000}, 10.0) == {
        "bytes": 3 * 10**12,
        "names": ["a", "b"] * 50_000,
    }


def test_it_runs_in_another_process() -> None:
    assert call_bounded(os.getpid, 10.0) != os.getpid()


def test_an_error_of_the_system_comes_back_as_one() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        call_bounded(lambda: str(Path("/no/such/place").stat()), 10.0)
    assert caught.value.filename == "/no/such/place"


def test_a_look_that_hangs_ends_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    others = psutil.Process().children()
    began = time.monotonic()
    with pytest.raises(Hangs):
        call_bounded(fifo.read_text, 0.3)
    assert time.monotonic() - began < 5
    assert [each for each in psutil.Process().children() if each not in others] == []


def test_a_look_that_waits_for_a_processor_or_works_has_three_times_as_long() -> None:
    def works(seconds: float) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "done"

    assert call_bounded(lambda: works(0.5), 0.3) == "done"
    with pytest.raises(Hangs):
        call_bounded(lambda: works(60.0), 0.1)
    assert look_at_all({"one": lambda: works(0.5), "two": lambda: works(0.5), "three": lambda: 7}, 0.4) == {
        "one": "done",
        "two": "done",
        "three": 7,
    }


def test_a_look_that_breaks_counts_as_no_answer() -> None:
    with pytest.raises(Hangs):
        call_bounded(lambda: os._exit(3), 5.0)


def test_a_fault_of_the_look_itself_is_told_as_one() -> None:
    with pytest.raises(OSError, match="KeyError: 'missing'"):
        call_bounded(lambda: dict[str, int]()["missing"], 10.0)


def test_looks_at_the_same_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    others = psutil.Process().children()
    began = time.monotonic()
    seen = look_at_all(
        {
            "quick": lambda: 7,
            "gone": lambda: str((tmp_path / "none").stat()),
            **{f"hangs{n}": (tmp_path / "fifo").read_text for n in range(10)},
        },
        0.5,
        {"hangs3": 1.0},
    )
    assert 1.0 <= time.monotonic() - began < 6
    assert seen["quick"] == 7
    assert isinstance(seen["gone"], FileNotFoundError)
    assert [str(seen[f"hangs{n}"]) for n in (0, 9)] == ["no answer for 0 s"] * 2
    assert str(seen["hangs3"]) == "no answer for 1 s"
    # All are killed by now; on a busy machine some are still on their way out.
    left = [each for each in psutil.Process().children() if each not in others]
    assert psutil.wait_procs(left, timeout=30)[1] == []


def test_quick_looks_share_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork for each costs more than all looks together."""
    monkeypatch.setattr("gridwright.bounded.RELIEF_S", 60.0)
    assert len(set(look_at_all({f"{number}": os.getpid for number in range(20)}, 60.0).values())) == 1


def test_what_is_late_is_heard_and_its_child_leaves_the_rest_to_others(tmp_path: Path) -> None:
    def late() -> int:
        time.sleep(0.6)
        return os.getpid()

    def noted() -> int:
        with (tmp_path / "pids").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return os.getpid()

    seen = look_at_all({"late": late, "first": noted, "second": noted}, 20.0)
    assert seen["late"] not in (seen["first"], seen["second"])
    assert sorted((tmp_path / "pids").read_text().split()) == sorted(
        str(seen[name]) for name in ("first", "second")
    )


def test_what_is_held_up_holds_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    quick = {f"quick{number}": os.getpid for number in range(20)}
    seen = look_at_all({"hangs": (tmp_path / "fifo").read_text, **quick}, 2.0)
    assert isinstance(seen["hangs"], Hangs)
    assert all(isinstance(seen[name], int) for name in quick)


def test_a_look_that_breaks_takes_no_other_with_it() -> None:
    seen = look_at_all({"a": lambda: 1, "breaks": lambda: os._exit(3), "b": lambda: 2, "c": lambda: 3}, 5.0)
    assert (seen["a"], seen["b"], seen["c"]) == (1, 2, 3)
    assert isinstance(seen["breaks"], Hangs)
