"""The silence of nodes, judged against how late answers come and how late the coordinator itself is."""

from __future__ import annotations

from itertools import count

from gridwright.iotest.coordinator.coordinator import Limits
from gridwright.iotest.coordinator.remote_node import PING_EVERY_S, Beats, SilenceJudge

LEAST_S, MOST_S = Limits().silence_s, Limits().longest_silence_s


class World:
    """Nodes that answer pings after a while, as a loop sees them that wakes up late."""

    def __init__(self, delays: dict[str, float | None], late_s: float = 0.0, pressure: float = 0.0) -> None:
        """`delays` has how long the answers of each node take; None: it is lost."""
        self.now = 100.0
        self.judge = SilenceJudge(LEAST_S, MOST_S)
        self.beats = {node: Beats(self.now) for node in delays}
        self.delays = delays
        self._late_s = late_s
        self._pressure = pressure
        self._numbers = count()
        self._under_way: list[tuple[float, str, int]] = []

    def lost_after(self, seconds: float) -> dict[str, float]:
        """When each node was given up, in so many seconds; time goes by as the loop wakes up."""
        began, gone = self.now, dict[str, float]()
        while self.now - began < seconds:
            before, self.now = self.now, self.now + PING_EVERY_S + self._late_s
            # A loop that is late hears what has come meanwhile only when it runs.
            self.judge.woke(
                list(self.beats.values()),
                self.now,
                late_s=self.now - before - PING_EVERY_S,
                pressure=self._pressure,
            )
            for node, beats in self.beats.items():
                if node not in gone and self.judge.is_lost(beats, self.now):
                    gone[node] = self.now - began
            self._hear()
            for node, delay in self.delays.items():
                number = next(self._numbers)
                self.beats[node].ping(number, self.now)
                if delay is not None:
                    self._under_way.append((self.now + delay, node, number))
        return gone

    def _hear(self) -> None:
        for answer in [each for each in self._under_way if each[0] <= self.now]:
            self._under_way.remove(answer)
            came, node, number = answer
            heard = self.now if self._late_s else came
            self.beats[node].heard = heard
            if (delay := self.beats[node].answer(number, heard)) is not None:
                self.judge.answered(delay, self.now)


def test_a_lost_node_is_named_soon_on_a_quiet_machine() -> None:
    gone = World({"a": 0.002, "b": None}).lost_after(120)
    assert gone.keys() == {"b"}
    assert LEAST_S < gone["b"] < 30.0 - 8.0, "time is left to ask why"


def test_nodes_that_answer_late_are_not_lost_and_one_that_is_lost_is_named_within_a_minute() -> None:
    delays: dict[str, float | None] = {f"n{number}": 9.0 + number % 11 for number in range(100)}
    world = World(delays | {"gone": None}, late_s=0.4)
    # The first answers come before anybody is judged: clocks are measured when nodes have come.
    for seconds in (9.0, 19.0):
        world.judge.answered(seconds, world.now)
    gone = world.lost_after(200)
    assert gone.keys() == {"gone"}
    assert gone["gone"] < 60.0


def test_with_patience_of_fifteen_seconds_alone_such_nodes_would_be_lost() -> None:
    """What makes the test before this one worth something."""
    world = World({f"n{number}": 9.0 + number % 11 for number in range(100)})
    world.judge = SilenceJudge(LEAST_S, LEAST_S)
    assert len(world.lost_after(60)) > 10


def test_the_lateness_of_the_coordinator_is_no_silence_of_nodes() -> None:
    assert World({"a": 0.01}, late_s=16.0).lost_after(300) == {}
    gone = World({"a": 0.01, "b": None}, late_s=2.0).lost_after(300)
    assert gone.keys() == {"b"}
    assert gone["b"] < 60.0


def test_a_coordinator_that_was_stopped_for_minutes_gives_up_nobody() -> None:
    world = World({"a": 0.01})
    assert world.lost_after(10) == {}
    world.now += 300.0
    world.judge.woke(list(world.beats.values()), world.now, late_s=300.0, pressure=None)
    assert not world.judge.is_lost(world.beats["a"], world.now)


def test_a_machine_whose_cores_are_wanted_by_many_has_more_patience() -> None:
    def patience(pressure: float | None) -> float:
        judge = SilenceJudge(LEAST_S, MOST_S)
        judge.woke([], 0.0, late_s=0.0, pressure=pressure)
        return judge.timeout_s(0.0)

    assert patience(None) == patience(30.0) == LEAST_S
    assert LEAST_S < patience(80.0) < patience(100.0) == MOST_S


def test_a_late_answer_of_long_ago_counts_no_more() -> None:
    judge = SilenceJudge(LEAST_S, MOST_S)
    judge.answered(5.0, 10.0)
    assert judge.timeout_s(20.0) == LEAST_S + 15.0
    assert judge.timeout_s(100.0) == LEAST_S


def test_the_verdict_says_how_late_others_are() -> None:
    judge, beats = SilenceJudge(LEAST_S, MOST_S), Beats(0.0)
    assert judge.verdict(beats, 17.0) == "nothing was heard of it for 17 s"
    judge.answered(6.2, 20.0)
    assert judge.verdict(beats, 36.0).endswith("for 36 s, where answers of nodes took 6.2 s at most")
