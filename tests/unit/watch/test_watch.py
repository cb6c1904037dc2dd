"""A watch through kills, restarts, receivers that fail and rounds that hang."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.watch import sending, state, watch
from gridwright.watch.damping import Damping
from gridwright.watch.notifications import Notification
from gridwright.watch.rounds import (
    FAILED,
    LATE,
    FindingKey,
    RoundLost,
    RoundReport,
    RoundRequest,
    RoundRunner,
    SeenFinding,
)
from gridwright.watch.send_program import post
from gridwright.watch.sending import AnyReceiver, SendOutcome, WebReceiver
from gridwright.watch.state import (
    FILE,
    LoggedChange,
    WatchState,
    change_marks,
    held,
    read_changes,
    read_state,
    status_document,
    status_text,
    watch_directory,
    write_state,
)
from gridwright.watch.watch import Watch, WatchSettings
from tests.support.notice_receivers import SECRET, hook

HANGS = FindingKey("library-hangs", ("compute2",), "data")
AT_ONCE = Damping(open_after=1, close_after=1)


@dataclass
class Script:
    """A runner whose rounds are written down: the findings that are there, or why a round told nothing."""

    rounds: list[list[FindingKey] | RoundLost | None]
    asked: list[RoundRequest] = field(default_factory=list)

    def run(self, request: RoundRequest, stop: Callable[[], bool]) -> RoundReport | RoundLost | None:
        self.asked.append(request)
        told = self.rounds.pop(0) if self.rounds else []
        if told is None or isinstance(told, RoundLost):
            return told
        found = [
            SeenFinding(key, "error", "each", "does not answer", "an answer", "It hangs.", "mend it")
            for key in told
        ]
        clear = [key for key in request.known if key not in told]
        return RoundReport(found, clear, nodes=2, everything=request.everything)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], AnyReceiver]:
    """Send within this process; the receiver of a URL."""

    def send_once(receiver: AnyReceiver, notice: Notification, stop: Callable[[], bool]) -> SendOutcome:
        assert isinstance(receiver, WebReceiver)
        return post(receiver, notice, notice.attempts)

    monkeypatch.setattr(sending, "send_once", send_once)
    monkeypatch.setattr(watch, "_LOOK_S", 0.01)
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    return lambda url: WebReceiver(url, str(secret))


def watching(
    place: Path, *rounds: list[FindingKey] | RoundLost | None, to: AnyReceiver | None = None
) -> Watch:
    receivers = {} if to is None else {"webhook": to}
    settings = WatchSettings("demo", None, damping=AT_ONCE, receivers=receivers)
    place.mkdir(exist_ok=True)
    script: Any = Script(list(rounds))
    return Watch(settings, place, script, lambda _: None)


def once(place: Path, found: list[FindingKey], to: AnyReceiver | None = None) -> WatchState:
    made = watching(place, found, to=to)
    assert made.once(threading.Event(), everything=False)
    return made.state


def steps(place: Path) -> list[str]:
    return [each.step for each in read_changes(place)]


def test_what_is_open_since_when_outlives_the_watch(tmp_path: Path) -> None:
    first = once(tmp_path / "w", [HANGS])
    again = once(tmp_path / "w", [HANGS])
    (finding,) = again.open
    assert finding.since_s == first.open[0].since_s and finding.in_row == 2
    assert once(tmp_path / "w", []).open == []
    assert steps(tmp_path / "w") == ["opened", "closed"]


def test_a_receiver_that_fails_gets_it_later_and_only_once(tmp_path: Path, quick: Any) -> None:
    place = tmp_path / "w"
    with hook(500, 503) as taken:
        to = quick(taken.url)
        assert once(place, [HANGS], to).receivers["webhook"].failures == 1
        failed = once(place, [HANGS], to)
        assert failed.receivers["webhook"].failures == 2
        assert "503" in failed.receivers["webhook"].last_problem
        assert "2 tries in a row failed" in status_text(place, failed, 0.0)
        done = once(place, [HANGS], to)
        assert once(place, [HANGS], to).receivers["webhook"].sent == 1
    assert done.receivers["webhook"].waiting == [] and done.receivers["webhook"].failures == 0
    assert len(set(taken.ids)) == 1
    assert [headers["gridwright-attempt"] for headers, _ in taken.requests] == ["1", "2", "3"]
    assert taken.requests[0][1] == taken.requests[2][1], "the same in each try"


def test_all_that_happens_meanwhile_follows_in_one_notice(tmp_path: Path, quick: Any) -> None:
    place = tmp_path / "w"
    with hook(500, 500, 500) as taken:
        to = quick(taken.url)
        for found in ([HANGS], [], [HANGS]):
            once(place, found, to)
        assert len(once(place, [HANGS], to).receivers["webhook"].waiting) == 0
    assert len(taken.requests) == 5
    first, second = taken.requests[3][1], taken.requests[4][1]
    assert [row["change"] for row in first["changes"]] == ["opened"]
    assert [row["change"] for row in second["changes"]] == ["closed", "opened"]
    assert second["open_count"] == 1


class Killer:
    """Kills this process at the n-th step of what it watches."""

    def __init__(self, at: int) -> None:
        self._left = at

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self.step()
            found = function(*arguments, **named)
            if function.__name__ in ("send_once", "append"):
                self.step()
            return found

        return called


def killed_at(at: int, place: Path, to: AnyReceiver) -> int:
    """Do a round that opens a finding in a process that is killed at a step; what ended it, or 0."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 70
    try:
        killer = Killer(at)
        # What is between these steps leaves no trace.
        places = (
            (watch, "write_state"),
            (sending, "send_once"),
            (os, "fsync"),
            (os, "write"),
            (os, "replace"),
        )
        for place_, name in places:
            setattr(place_, name, killer.around(getattr(place_, name)))
        once(place, [HANGS], to)
        status = 0
    finally:
        os._exit(status)


def test_a_kill_at_any_step_loses_nothing_and_repeats_no_try(tmp_path: Path, quick: Any) -> None:
    with hook() as taken:
        to = quick(taken.url)
        at = 0
        while True:
            at += 1
            place = tmp_path / f"w-{at}"
            place.mkdir()
            before = len(taken.requests)
            ended = killed_at(at, place, to)
            assert ended in (-signal.SIGKILL, 0)
            done = once(place, [HANGS], to)
            done = once(place, [HANGS], to)
            got = taken.requests[before:]
            # One notice, whoever was killed when; the same try is never made twice.
            assert len({headers["webhook-id"] for headers, _ in got}) == 1, at
            tries = [headers["gridwright-attempt"] for headers, _ in got]
            assert len(set(tries)) == len(tries) <= 2, at
            assert {row["name"] for _, body in got for row in body["changes"]} == {"library-hangs"}
            assert done.receivers["webhook"].waiting == []
            assert [each.key for each in done.open] == [HANGS]
            assert steps(place) == ["opened"], at
            assert not list(place.glob(".*")), "what a kill left half written is written over"
            if ended == 0:
                break
    assert at > 15, "each step of writing, logging and sending was one to be killed at"


def test_a_notice_is_on_disk_as_tried_before_anybody_gets_it(tmp_path: Path, quick: Any) -> None:
    place = tmp_path / "w"
    with hook(held=True) as taken:
        made = watching(place, [HANGS], to=quick(taken.url))
        made.run_round(threading.Event(), everything=True)
        made.send()
        assert taken.came.acquire(timeout=20)
        on_disk = read_state(place)
        assert on_disk is not None and [each.attempts for each in on_disk.receivers["webhook"].waiting] == [1]
        taken.hold.set()
        made.notifiers.close()


def test_a_round_that_hangs_or_fails_is_a_finding_and_closes_no_other(tmp_path: Path) -> None:
    place = tmp_path / "w"
    late, failed = (
        RoundLost(LATE, "had not ended after 120 s", "x"),
        RoundLost(FAILED, "the grid is not up", "x"),
    )
    made = watching(place, [HANGS], late, failed, [HANGS], [HANGS])
    for open_ in ({HANGS.name}, {HANGS.name, LATE}, {HANGS.name, LATE, FAILED}, {HANGS.name}, {HANGS.name}):
        made.run_round(threading.Event(), everything=False)
        assert {each.key.name for each in made.state.open} == open_
        lost = made.state.last_round
        assert lost is not None and bool(lost.problem) is (FAILED in open_ or LATE in open_)
    assert LATE not in {key.name for request in made._runner.asked for key in request.known}  # type: ignore[attr-defined]
    made.notifiers.close()


def child(code: str) -> RoundRunner:
    return RoundRunner([sys.executable, "-c", code], round_s=1.0, all_s=30.0)


def test_rounds_are_processes_of_bounded_time(tmp_path: Path) -> None:
    request = RoundRequest(None, everything=False, known=[HANGS])
    pid = tmp_path / "pid"
    hanging = child(
        "import os, signal, time; signal.signal(15, signal.SIG_IGN)\n"
        f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    lost = hanging.run(request, lambda: False)
    assert isinstance(lost, RoundLost) and lost.finding == LATE
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    told = {
        "import sys; sys.exit('no such thing')": "no such thing",
        "print('{}')": "no answer",
        """print('{"say": "refused", "problem": "it is not up", "remedy": "up"}')""": "it is not up",
    }
    for code, words in told.items():
        lost = child(code).run(replace(request, everything=True), lambda: False)
        assert isinstance(lost, RoundLost) and lost.finding == FAILED and words in lost.problem
    assert child("import time; time.sleep(60)").run(request, lambda: True) is None


def test_all_checks_are_due_by_the_last_time_whatever_the_clock_did(tmp_path: Path) -> None:
    place = tmp_path / "w"
    assert watching(place)._until_all_s() == 0.0, "they never were done"
    state = once(place, [])
    assert state.last_all_s is not None
    for past_s, left_s in ((0.0, 3600.0), (1800.0, 1800.0), (4000.0, 0.0), (-86_400.0, 0.0)):
        made = watching(place)
        made._clock = lambda past_s=past_s: state.last_all_s + past_s  # type: ignore[misc]
        assert made._until_all_s() == left_s


def test_two_watches_of_one_grid_are_refused(tmp_path: Path) -> None:
    refused = pytest.raises(GridwrightError, match=f"process {os.getpid()} watches")
    with held(tmp_path / "w"), refused, held(tmp_path / "w"):
        pass
    with held(tmp_path / "w"):
        pass


def test_a_state_that_cannot_be_read_or_kept_is_told_in_words(tmp_path: Path) -> None:
    place = tmp_path / "w"
    state = once(place, [HANGS])
    (place / FILE).write_text("{")
    with pytest.raises(GridwrightError, match="cannot be read"):
        read_state(place)
    (place / FILE).write_text(json.dumps({"grid": "demo", "mark": "x", "later": {"release": 9}}))
    kept = read_state(place)
    assert kept is not None and kept.more == {"later": {"release": 9}}
    with pytest.raises(GridwrightError, match="cannot be written"):
        write_state(tmp_path / "none", state)
    assert read_state(tmp_path / "none") is None


def test_the_log_is_bounded_and_a_torn_line_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "w"
    monkeypatch.setattr(state, "MOST_LOG_BYTES", 3000)
    place.mkdir()
    for number in range(1, 61):
        line = LoggedChange(number, 0.0, "opened", "library-hangs", ["compute2"], "data", "error", 0.0, "")
        for _ in range(2):
            state.append_changes(place, [line])
    numbers = [each.number for each in read_changes(place)]
    assert numbers == sorted(numbers) and numbers[-1] == 60 and 10 < len(numbers) < 60
    sizes = [each.stat().st_size for each in place.glob("changes*")]
    assert sum(sizes) < 2 * 3500
    with (place / state._LOG).open("ab") as file:
        file.write(b'{"number":61,"at')
    state.append_changes(place, [line, replace(line, number=61)])
    assert [each.number for each in read_changes(place)][-2:] == [60, 61]


def test_marks_are_what_happened_between_two_times(tmp_path: Path) -> None:
    place = tmp_path / "w"
    other = FindingKey("library-hangs", ("compute3",), "data")
    began_s = once(place, [HANGS, other]).last_round
    ended = once(place, [])
    assert began_s is not None and ended.last_round is not None
    opened, closed = change_marks(place, 0.0, 1e12)
    assert (opened.kind, opened.where, opened.link) == ("opened", "compute[2-3]: data", "library-hangs")
    assert opened.time == began_s.ended_s and closed.kind == "closed"
    assert change_marks(place, 0.0, opened.time - 1) == []
    assert change_marks(tmp_path / "none", 0.0, 1e12) == []


def test_the_status_says_what_is_open_since_when_and_what_nobody_could_look_at(tmp_path: Path) -> None:
    place = tmp_path / "w"
    state = once(place, [HANGS])
    assert state.last_round is not None
    now_s = state.last_round.ended_s + 93_784
    text = status_text(place, state, now_s)
    assert "error library-hangs: compute2 data: does not answer" in text
    assert "1 d 2 h" in text and "mend: mend it" in text
    document = status_document(place, state, now_s)
    assert json.loads(json.dumps(document)) == document
    (found,) = document["open"]
    assert (found["nodes"], found["target"], round(found["age_s"])) == (["compute2"], "data", 93_784)
    assert status_document(place, state, 0.0)["open"][0]["age_s"] == 0.0, "a clock that was set back"
    assert "not told" not in text
    held = replace(state, findings=[replace(state.open[0], is_told=False)])
    assert "1 of these are not told yet" in status_text(place, held, now_s)
    silent = replace(state, last_round=replace(state.last_round, began_s=now_s))
    assert "1 of these could not be looked at" in status_text(place, silent, now_s)


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path


def test_the_directory_is_that_of_the_service_where_there_is_one(
    at_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert watch_directory(None) == at_home / "gridwright" / "watch" / "this-machine"
    monkeypatch.setattr("gridwright.watch.state.SERVICE", tmp_path / "service")
    once(tmp_path / "service", [])
    (tmp_path / "service" / "this-machine").mkdir(parents=True)
    (tmp_path / "service" / "this-machine" / FILE).write_text("{}")
    assert watch_directory(None) == tmp_path / "service" / "this-machine"


def test_a_watch_sends_between_rounds_and_ends_at_once(tmp_path: Path, quick: Any) -> None:
    """Two rounds, a receiver that holds on to the first notice, and an order to stop meanwhile."""
    place = tmp_path / "w"
    stop = threading.Event()
    with hook() as taken:
        made = watching(place, [HANGS], [], to=quick(taken.url))
        made._settings = replace(made._settings, every_s=0.2)
        thread = threading.Thread(target=made.run, args=(stop,))
        thread.start()
        for _ in range(2):
            assert taken.came.acquire(timeout=30)
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
    assert [row["change"] for _, body in taken.requests for row in body["changes"]] == ["opened", "closed"]
