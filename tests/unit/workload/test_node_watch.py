"""One job of a node samples for all; when it ends another takes over, and every byte is counted once."""

from __future__ import annotations

import os
import selectors
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.workload.exchange import SAMPLES, ExchangeDirectory
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.node_jobs import launch as module
from gridwright.workload.node_jobs.launch import NodeWatch
from gridwright.workload.on_grid.process import NodeClocks
from tests.support.records import launch_record


class Job:
    """A job of a launch, as far as samples go."""

    def __init__(self, exchange: ExchangeDirectory, node: str, place: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.firsts = 0
        self.fd = LaunchTraffic.create()
        self.traffic = LaunchTraffic(self.fd)
        libraries = dict.fromkeys(("data", "work", "util"), str(place))
        self.watch = NodeWatch(
            exchange, node, libraries, self.selector, first=self._first, leads=lambda: None
        )
        self.watch.join(self.traffic, self.fd)

    def _first(self) -> None:
        self.firsts += 1

    def turn(self) -> None:
        for key, _ in self.selector.select(0):
            key.data()
        self.watch.tick()

    def move(self, read: int, written: int = 0) -> None:
        self.traffic.add("data", "read", read, 0)
        self.traffic.add("work", "write", written, 0)

    def end(self) -> None:
        self.watch.leave()
        self.traffic.close()
        os.close(self.fd)


@pytest.fixture
def exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExchangeDirectory:
    monkeypatch.setattr(module, "_SAMPLE_S", 0.0)
    return ExchangeDirectory.create(tmp_path)


def rows(exchange: ExchangeDirectory, node: str) -> list[dict[str, Any]]:
    return exchange.lines(node, SAMPLES)


def moved(exchange: ExchangeDirectory, node: str) -> int:
    return sum(row["read_bytes"] + row["written_bytes"] for row in rows(exchange, node))


def settle(*jobs: Job) -> None:
    for _ in range(5):
        for job in jobs:
            job.turn()


def test_one_job_samples_all_launches_of_its_node(exchange: ExchangeDirectory, tmp_path: Path) -> None:
    one, two, three = (Job(exchange, "n1", tmp_path) for _ in range(3))
    settle(one, two, three)
    assert [one.firsts, two.firsts, three.firsts] == [1, 0, 0], "the first launch empties the cache"
    for number, job in enumerate((one, two, three)):
        job.move(1000 * 10**number, 7)
    settle(one, two, three)
    assert moved(exchange, "n1") == 1000 + 10_000 + 100_000 + 21
    assert rows(exchange, "n1")[-1]["launches_running"] == 3
    assert {row["node"] for row in rows(exchange, "n1")} == {"n1"}
    for job in (one, two, three):
        job.end()


def test_no_byte_is_lost_or_counted_twice_when_jobs_come_and_go(
    exchange: ExchangeDirectory, tmp_path: Path
) -> None:
    total = 0
    live: list[Job] = []
    for number in range(12):
        live.append(Job(exchange, "n1", tmp_path))
        settle(*live)
        for job in live:
            job.move(100 + number, number)
            total += 100 + 2 * number
        settle(*live)
        if number % 3 != 2:
            # The oldest is the one that samples: another takes over each time.
            live.pop(0).end()
            settle(*live)
    while live:
        live.pop(0).end()
        settle(*live)
    assert moved(exchange, "n1") == total
    assert all(row["read_bytes"] >= 0 and row["written_bytes"] >= 0 for row in rows(exchange, "n1"))


def test_nodes_and_runs_are_kept_apart(exchange: ExchangeDirectory, tmp_path: Path) -> None:
    other = ExchangeDirectory.create(tmp_path)
    jobs = [
        Job(exchange, "n1", tmp_path), Job(exchange, "n2", tmp_path), Job(other, "n1", tmp_path),
    ]  # fmt: skip
    for job in jobs:
        job.move(5)
    settle(*jobs)
    assert [job.firsts for job in jobs] == [1, 1, 1]
    assert [moved(exchange, "n1"), moved(exchange, "n2"), moved(other, "n1")] == [5, 5, 5]
    for job in jobs:
        job.end()


def test_a_name_that_is_no_file_name_is_sampled_too(exchange: ExchangeDirectory, tmp_path: Path) -> None:
    job = Job(exchange, "rack 1/n1", tmp_path)
    job.move(5)
    job.end()
    assert moved(exchange, "rack-1-n1") == 5
    assert rows(exchange, "rack-1-n1")[0]["node"] == "rack 1/n1"


def test_a_job_that_has_left_takes_no_part_again(exchange: ExchangeDirectory, tmp_path: Path) -> None:
    one, two = Job(exchange, "n1", tmp_path), Job(exchange, "n1", tmp_path)
    settle(one, two)
    one.move(3)
    two.watch.leave()
    ready = one.selector.select(1)
    assert ready, "the end of the other's connection"
    one.watch.leave()
    for key, _ in ready:
        key.data()
    for job in (one, two):
        job.turn()
        job.end()
    three = Job(exchange, "n1", tmp_path)
    three.move(5)
    settle(three)
    three.end()
    assert moved(exchange, "n1") == 8


# Clocks of nodes that are off are noticed from the times of launches, and never when they may be right.

Launch = tuple[float, float, float]
"""Seconds in the queue, of the launch, and until its result is seen."""
LAUNCHES = st.lists(st.tuples(*[st.floats(0.0, 100.0)] * 3), min_size=1, max_size=8)


def seen(launches: list[Launch], offset: float) -> NodeClocks:
    clocks = NodeClocks()
    now = 1.7e9
    for queued, real, late in launches:
        started = now + queued + offset
        launch = launch_record(node="n1", submitted=now, started=started, ended=started + real)
        clocks.see(launch, seen=now + queued + real + late)
        now += queued + real + late
    return clocks


@given(LAUNCHES, st.floats(-0.9, 0.9))
def test_a_clock_that_is_right_within_a_second_is_never_blamed(launches: list[Launch], offset: float) -> None:
    assert seen(launches, offset).findings() == []


@given(LAUNCHES, st.floats(-1e4, 1e4))
def test_no_clock_is_said_to_be_off_by_more_than_it_is(launches: list[Launch], offset: float) -> None:
    for finding in seen(launches, offset).findings():
        words = finding.text.split()
        said = float(words[words.index("least") + 1])
        assert said <= abs(offset) + 0.06
        assert ("ahead of" in finding.text) == (offset > 0)


def test_a_clock_that_is_off_is_named() -> None:
    ahead, behind = (seen([(0.2, 5.0, 0.1)], offset).findings() for offset in (30.0, -30.0))
    assert "n1 is at least 29.9 s ahead of" in ahead[0].text
    assert "n1 is at least 29.8 s behind" in behind[0].text
