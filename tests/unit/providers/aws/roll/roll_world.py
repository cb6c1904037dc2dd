"""A grid of the tests' own: nodes with jobs, instances that start, a program that may be killed anywhere."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gridwright.node_programs.drain import OWN, QueueNode, RunningJob
from gridwright.node_programs.health.slurm import KnownNode
from gridwright.providers.aws.roll.deciding import Due, GroupInstance, SeenGrid, SeenGroup, SetUp, decide

TICK_S = 60.0
BOOT = 4
"""Ticks from the end of an instance until its successor has told that it is set up."""


class Killed(Exception):
    """The program was killed between two of its deeds."""


@dataclass
class Place:
    """A machine of the grid by its name, and the instance that it is now."""

    name: str
    instance: str
    version: int = 1
    booting: int = 0
    jobs: list[int] = field(default_factory=list)
    """Ticks that each still runs."""
    reason: str = ""
    """Why it is drained."""
    down: bool = False
    failed: bool = False

    @property
    def takes_jobs(self) -> bool:
        return not (self.booting or self.reason or self.down or self.failed)


@dataclass
class World:
    """All of it. `broken` are versions of the launch template that no instance comes up with."""

    count: int
    wanted: int = 2
    longest: int = 10
    broken: frozenset[int] = frozenset()
    chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - jobs of a test
    load: float = 0.8
    queue_answers: bool = True
    places: list[Place] = field(init=False)
    now: float = 1_000_000.0
    killed_jobs: int = 0
    requeued: int = 0
    most_away: int = 0
    most_idle: int = 0
    _numbers: int = 0

    def __post_init__(self) -> None:
        self.places = [Place(f"compute{n}", self._new()) for n in range(1, self.count + 1)]

    def _new(self) -> str:
        self._numbers += 1
        return f"i-{self._numbers}"

    def look(self) -> SeenGrid:
        """As the program sees it."""
        instances, names, told = [], {}, {}
        for each in self.places:
            pending = each.booting > BOOT // 2
            instances.append(
                GroupInstance(each.instance, each.version != self.wanted, in_service=not pending)
            )
            if not pending:
                names[each.instance] = each.name
                told[each.instance] = self._told(each)
        group = SeenGroup("demo", False, self.count, tuple(instances), tuple(e.name for e in self.places))
        queue = {each.name: self._node(each) for each in self.places} if self.queue_answers else None
        return SeenGrid((group,), names, told, True, queue, "", self.now)

    def _told(self, place: Place) -> SetUp:
        if place.failed:
            return SetUp("failed", 3, "the playbook failed")
        return SetUp("running" if place.booting else "done")

    def _node(self, place: Place) -> QueueNode:
        states = {
            "ALLOCATED" if place.jobs else "DOWN" if place.down or place.booting or place.failed else "IDLE"
        }
        states |= {"DRAIN"} if place.reason else set()
        jobs = tuple(RunningJob(f"{place.name}.{n}", left * TICK_S) for n, left in enumerate(place.jobs))
        return QueueNode(place.name, KnownNode(frozenset(states), place.reason), jobs)

    def by_name(self, name: str) -> Place:
        return next(each for each in self.places if each.name == name)

    def carry_out(self, due: Due, kill: Callable[[], bool] = lambda: False) -> None:
        """What the program does with what is due, in its order."""

        def step() -> None:
            if kill():
                raise Killed
            self.measure()

        step()
        for name in due.resume:
            self.by_name(name).reason = ""
        step()
        for name in due.end_on:
            self.requeued += len(self.by_name(name).jobs)
            self.by_name(name).jobs.clear()
            step()
        for name in due.drain:
            self.by_name(name).reason = f"{OWN}, drained at {self.now:.0f}"
        step()
        for instance in due.terminate:
            self.terminate(next(each for each in self.places if each.instance == instance))
            step()

    def terminate(self, place: Place) -> None:
        self.killed_jobs += len(place.jobs)
        place.jobs.clear()
        place.instance, place.version = self._new(), self.wanted
        place.booting, place.down, place.failed = BOOT, False, False

    def measure(self) -> None:
        away = sum(bool(each.booting or each.failed) for each in self.places)
        self.most_away = max(self.most_away, away)
        self.most_idle = max(self.most_idle, sum(not each.takes_jobs for each in self.places))

    def pass_time(self) -> None:
        """A minute: jobs end and begin, machines start."""
        self.now += TICK_S
        for each in self.places:
            each.jobs = [left - 1 for left in each.jobs if left > 1]
            if each.booting:
                each.booting -= 1
                each.failed = not each.booting and each.version in self.broken
            while each.takes_jobs and len(each.jobs) < 4 and self.chance.random() < self.load:
                each.jobs.append(self.chance.randint(1, self.longest))
        self.measure()

    def run(self, kill: Callable[[], bool] = lambda: False, limit_s: float | None = None) -> Due:
        """One run of the program."""
        due = decide(self.look(), limit_s)
        with contextlib.suppress(Killed):
            self.carry_out(due, kill)
        return due

    @property
    def is_over(self) -> bool:
        return all(each.version == self.wanted and each.takes_jobs for each in self.places)

    def until_over(
        self, most: int, kill: Callable[[], bool] = lambda: False, limit_s: float | None = None
    ) -> int:
        """Ticks until all are replaced and work."""
        for tick in range(most):
            if self.is_over:
                return tick
            self.run(kill, limit_s)
            self.pass_time()
        raise AssertionError(
            f"not over after {most} ticks: {[p for p in self.places if not p.takes_jobs][:5]}"
        )
