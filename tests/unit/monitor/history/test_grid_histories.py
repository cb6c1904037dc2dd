"""Histories of a grid: answers side by side, clocks apart, nodes that are away; and what a node answers."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.cli.watch import top as verb
from gridwright.commands import CommandOutput, run_bounded
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid.grid import Grid
from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.history import choosing, grid_histories, node_program
from gridwright.monitor.history.choosing import LiveHistories
from gridwright.monitor.history.grid_histories import PROGRAM, GridHistories, HistoryClocks, NodeSessions
from gridwright.monitor.history.messages import HistoryAnswer, HistoryRequest, unpacked_course
from gridwright.monitor.history.questions import RangeQuestion, history_file
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.readings import Key
from gridwright.spec import parse_spec
from tests.support.generated_history import DailyCourse, generate_history
from tests.unit.monitor.history.nodes import DISK, START

END = 1_800_000_600.0
RATES: dict[Key, DailyCourse] = {
    DISK: DailyCourse(5e6, 5e6, 0.0),
    ("gridwright_sampler_cpu_seconds_total",): DailyCourse(0.1, 0.1),
}


def grid(tmp_path: Path, ahead: Mapping[str, float], away: Collection[str] = ()) -> GridHistories:
    """Nodes whose clocks are ahead by so much; each begins to read at the same true time."""
    for name, more in ahead.items():
        spike: dict[Key, DailyCourse] = {
            DISK: DailyCourse(0.0, 0.0, 0.0, spike=(END - 300 + more, END - 200 + more, 9e6))
        }
        generate_history(history_file(tmp_path / name), END + more, 1200, RATES | spike)

    def ask(names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        found: dict[str, CommandOutput | None] = {}
        for name in names:
            if name in away:
                found[name] = None
                continue
            request = replace(decode(stdin, HistoryRequest), directory=str(tmp_path / name))
            answer = replace(node_program.answered(request), now_s=time.time() + ahead[name])
            found[name] = CommandOutput(0, encode(answer), b"")
        return found

    return GridHistories([*ahead, *away, "sleeper"], ask, {"sleeper"})


def test_nodes_whose_clocks_are_apart_tell_what_happened_at_the_same_time(tmp_path: Path) -> None:
    histories = grid(tmp_path, {"n1": 0.0, "n2": 30.0, "n3": -120.0}, away=["n4"])
    courses = {each.node: each for each in histories.courses(RangeQuestion((DISK[0],), END - 600, END, 10))}
    for name in ("n1", "n2", "n3"):
        course = courses[name]
        (disk,) = course.series
        busy = [course.start_s + number * 10 for number, value in enumerate(disk.values) if value]
        assert busy == [END - 300 + 10 * number for number in range(10)], name
        assert len(disk.values) == 60
        assert None not in disk.values[:-12]
    assert courses["n4"].absent == "no answer in time"
    assert courses["sleeper"].absent == "it is off until a job waits for it"
    frame = histories.frame(END - 250, 10)
    assert [row.read_bytes_per_s for row in frame.disks] == [pytest.approx(9e6, rel=1e-3)] * 3
    assert {row.node: bool(row.absent) for row in frame.nodes} == {
        "n1": False, "n2": False, "n3": False, "n4": True, "sleeper": True
    }  # fmt: skip
    assert frame.time == END - 250
    reach = histories.reach()
    assert reach is not None
    assert reach[1] == pytest.approx(END, abs=60)


def test_a_node_that_is_away_holds_up_one_question_and_not_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories, asked = grid(tmp_path, {"n1": 0.0}, away=["n2"]), list[list[str]]()
    ask = histories.ask

    def noted(names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        asked.append(list(names))
        return ask(names, stdin)

    histories.ask = noted
    for _ in range(2):
        assert histories.frame(END, 1).nodes[1].absent == "no answer in time"
    monkeypatch.setattr(grid_histories, "AWAY_S", 0.0)
    histories.frame(END, 1)
    assert asked == [["n1", "n2"], ["n1"], ["n1", "n2"]]


def test_a_slow_answer_is_no_clock_that_is_ahead() -> None:
    clocks = HistoryClocks()
    clocks.note("n1", 108.0, asked=100.0, answered=109.0)
    assert clocks.ahead("n1") == 0.0
    clocks.note("n1", 230.0, asked=200.0, answered=201.0)
    assert clocks.ahead("n1") == 30.0, "a clock that was set is believed"
    clocks.note("n1", 350.0, asked=310.0, answered=320.5)
    assert clocks.ahead("n1") == 30.0, "a slow answer does not spoil what a quick one told"
    assert clocks.ahead("n1", 600.0) == 0.0
    assert clocks.ahead("unknown") == 0.0


def ask_program(request: bytes) -> CommandOutput:
    return run_bounded(PROGRAM, stdin=request, timeout_s=30, name="the program")


def test_the_program_of_a_node_answers_what_its_file_says(tmp_path: Path) -> None:
    file = history_file(tmp_path)
    generate_history(file, END, 1200, RATES)
    question = RangeQuestion((DISK[0],), END - 600, END, 10)
    told = ask_program(encode(HistoryRequest("course", str(tmp_path), question)) + b"\n")
    assert (told.status, told.stderr) == (0, b"")
    answer = decode(told.stdout, HistoryAnswer)
    assert answer.course is not None
    assert [unpacked_course("n1", answer.course)] == StoredHistories({"n1": file}).courses(question)


@pytest.mark.parametrize(
    ("request_line", "status", "says"),
    [
        (b"{", 2, b"it is no JSON"),
        (b'{"ask": "all", "directory": "/"}', 2, b"ask: 'all' is none of 'course', 'picture', 'reach'"),
    ],
)
def test_a_node_that_cannot_answer_says_why_in_one_line(
    request_line: bytes, status: int, says: bytes
) -> None:
    told = ask_program(request_line + b"\n")
    assert told.status == status
    assert says in told.stderr
    assert told.stderr.count(b"\n") == 1


def test_a_node_without_history_says_so_and_goes_on(tmp_path: Path) -> None:
    told = ask_program(2 * (encode(HistoryRequest("reach", str(tmp_path))) + b"\n"))
    assert (told.status, told.stderr) == (0, b"")
    assert len(told.stdout.splitlines()) == 2
    histories = GridHistories(["n1"], lambda names, stdin: {"n1": ask_program(stdin)}, directory=tmp_path)
    absent = histories.frame(END, 1).nodes[0].absent
    assert absent.startswith("no history: ")
    assert "No such file" in absent


TIMES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(END - 2000, END + 10)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_asked_is_answered_in_measure_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "asked"
    if not place.exists():
        generate_history(history_file(place), END, 1200, RATES)
    question = {
        "metrics": data.draw(
            st.lists(st.sampled_from([DISK[0], "node_load1", "", "; DROP TABLE blocks"]), max_size=3)
        ),
        "start_s": data.draw(TIMES),
        "end_s": data.draw(TIMES),
        "step_s": data.draw(TIMES | st.floats(-2, 70)),
        "by": data.draw(st.none() | st.lists(st.sampled_from(["device", "", "job"]), max_size=2)),
        "only": data.draw(
            st.lists(st.tuples(st.sampled_from(["device", "x"]), st.text(max_size=3)), max_size=2)
        ),
        "most": data.draw(st.integers(-2, 5)),
    }
    request = {
        "ask": data.draw(st.sampled_from(["course", "picture", "reach"])),
        "directory": str(place),
        "question": data.draw(st.none() | st.just(question)),
        "at_s": data.draw(TIMES),
        "seconds": data.draw(TIMES),
    }
    try:
        answer = node_program.answered(decode(json.dumps(request), HistoryRequest))
    except MessageError:
        return
    assert len(encode(answer)) < 1_000_000
    if answer.course is not None:
        assert answer.course.steps <= 4001


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: answer | {"steps": 10**9},
        lambda answer: answer | {"values": "AAAA"},
        lambda answer: answer | {"values": 7},
        lambda answer: answer | {"series": [{"metric": "x", "labels": []}] * 9},
    ],
)
def test_an_answer_that_cannot_be_right_is_a_node_that_is_away(
    tmp_path: Path, spoil: Callable[[dict[str, object]], dict[str, object]]
) -> None:
    generate_history(history_file(tmp_path), END, 1200, RATES)

    def ask(names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        request = replace(decode(stdin, HistoryRequest), directory=str(tmp_path))
        answer = json.loads(encode(node_program.answered(request)))
        answer["course"] = spoil(answer["course"])
        return {name: CommandOutput(0, json.dumps(answer).encode(), b"") for name in names}

    (found,) = GridHistories(["n1"], ask).courses(RangeQuestion((DISK[0],), END - 600, END, 10))
    assert found.series == ()
    assert "values" in found.absent


# Programs that stay on nodes: each question has its own answer, whatever became of the one before.

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


# Which history is asked: the one that is kept; where none is, that is said, or nodes are watched.


def test_this_machine_is_asked_for_what_it_keeps_or_watched_from_now_on(tmp_path: Path) -> None:
    assert choosing.find_histories(None, tmp_path) is None
    with choosing.watched_histories(None, tmp_path) as histories:
        assert isinstance(histories, LiveHistories)
        assert histories.nodes() == [socket.gethostname()]
    generate_history(history_file(tmp_path), START, 3600)
    with choosing.watched_histories(None, tmp_path) as histories:
        assert isinstance(histories, StoredHistories)
        assert histories.reach() == (START - 3600, START)


def test_a_picture_of_then_is_printed_and_without_history_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choosing.open_histories, "__defaults__", (tmp_path / "kept",))
    with pytest.raises(GridwrightError) as raised:
        verb.top(at="20m")
    assert raised.value.status is ExitStatus.ENVIRONMENT
    assert "monitoring: {history: true}" in str(raised.value)
    generate_history(history_file(tmp_path / "kept"), START, 86400)
    assert verb.top(at="2027-01-14T12:00:00+00:00", interval="1m", json=True) == 0
    document = json.loads(capsys.readouterr().out)
    (disk,) = document["disks"]
    assert disk["read_bytes_per_s"] == pytest.approx(400e6, rel=0.2)
    assert (document["time"], document["seconds"]) == (1799928000, 60)


@pytest.mark.parametrize(
    ("flags", "says"), [({"at": "later"}, "no time in the past"), ({"at": "5m", "play": Path("x")}, "--at")]
)
def test_times_that_cannot_be_are_told(flags: dict[str, object], says: str) -> None:
    with pytest.raises(GridwrightError, match=says) as raised:
        verb.top(**flags)  # type: ignore[arg-type]
    assert raised.value.status is ExitStatus.INPUT


class _Elsewhere(Grid):
    """A grid of other machines."""

    is_this_machine = False


@pytest.mark.parametrize("kept", [True, False])
def test_nodes_are_asked_where_the_spec_says_that_they_keep_it(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"name": "demo", "filesystems": {"disk": {"type": "local", "path": "/data"}}}
    spec = parse_spec(json.dumps(values | {"monitoring": {"history": kept}}), base=Path("/base"))
    asked = GridHistories(["n1"], lambda *_: {})
    monkeypatch.setattr(choosing, "histories_of", lambda *_: asked)
    assert choosing.find_histories(_Elsewhere(lambda: spec)) is (asked if kept else None)
