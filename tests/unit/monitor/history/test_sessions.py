"""Programs that stay on nodes: each question has its own answer, whatever became of the one before."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from gridwright.messages import decode, encode
from gridwright.monitor.history.grid_histories import PROGRAM, GridHistories, NodeSessions
from gridwright.monitor.history.messages import HistoryAnswer, HistoryRequest
from gridwright.monitor.history.places import history_file
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.stored import StoredHistories
from tests.support.generated_history import generate_history
from tests.unit.monitor.history.nodes import DISK, START

ECHO = "import sys\nfor line in sys.stdin: print(line.strip() * %d, flush=True)"
LATE = """
import sys, time
for line in sys.stdin:
    time.sleep(60 if 'sleep' in line else 0)
    print(line.strip(), flush=True)
"""
ENDS = "import sys\nline = sys.stdin.readline()\nprint('out of memory', file=sys.stderr)\nsys.exit(9)"


def commands(programs: Mapping[str, str], started: list[str]) -> NodeSessions:
    def of(names: Collection[str]) -> Mapping[str, Sequence[str]]:
        started.extend(names)
        return {
            name: [sys.executable, "-c", programs[name]] if name in programs else ["/no/such/program"]
            for name in names
        }

    return NodeSessions(of, 20.0, 3.0)


def test_a_program_is_started_once_and_answers_each_question() -> None:
    started: list[str] = []
    with commands({"n1": ECHO % 1, "n2": ECHO % 100_000}, started) as sessions:
        for question in (b"first\n", b"second\n"):
            found = sessions.ask(["n1", "n2"], question)
            one, two = found["n1"], found["n2"]
            assert one is not None
            assert two is not None
            assert one.stdout == question
            assert len(two.stdout) == 100_000 * len(question.strip()) + 1
    assert started == ["n1", "n2"]


def test_an_answer_that_comes_late_is_no_answer_to_the_next_question() -> None:
    started: list[str] = []
    with commands({"late": LATE, "n1": ECHO % 1}, started) as sessions:
        sessions.ask(["late", "n1"], b"first\n")
        found = sessions.ask(["late", "n1"], b"sleep\n")
        assert found["late"] is None
        again = sessions.ask(["late", "n1"], b"now\n")
        assert {name: each and each.stdout for name, each in again.items()} == {
            "late": b"now\n",
            "n1": b"now\n",
        }
    assert started == ["late", "n1", "late"]


def test_a_program_that_ends_says_why_and_is_started_again() -> None:
    started: list[str] = []
    with commands({"ends": ENDS}, started) as sessions:
        for _ in range(2):
            found = sessions.ask(["ends", "none"], b"question\n")
            ends, none = found["ends"], found["none"]
            assert ends is not None
            assert (ends.status, ends.stderr) == (9, b"out of memory\n")
            assert none is not None
            assert b"No such file" in none.stderr
    assert started == ["ends", "none"] * 2


def test_histories_are_asked_in_sessions_as_they_are_one_by_one(tmp_path: Path) -> None:
    generate_history(history_file(tmp_path), START, 7200)
    question = RangeQuestion((DISK[0],), START - 3600, START, 60)
    (expected,) = StoredHistories({"n1": history_file(tmp_path)}).courses(question)
    with NodeSessions(lambda names: dict.fromkeys(names, PROGRAM), 30.0, 30.0) as sessions:
        histories = GridHistories(["n1"], sessions.ask, directory=tmp_path)
        for _ in range(3):
            assert histories.courses(question) == [expected]
        wrong = sessions.ask(["n1"], b"nonsense\n")["n1"]
        assert wrong is not None
        assert wrong.status == 2
        right = sessions.ask(["n1"], encode(HistoryRequest("reach", str(tmp_path))) + b"\n")["n1"]
        assert right is not None
        assert decode(right.stdout, HistoryAnswer).reach == pytest.approx((START - 7200, START))
