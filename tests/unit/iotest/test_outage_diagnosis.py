"""What is wrong is told before what it hit, once, and whoever is asked has a limit of time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Sequence

import pytest

from gridwright.errors import Finding
from gridwright.grid.outages import OutageCause
from gridwright.iotest.coordinator import coordinator as module
from gridwright.iotest.coordinator.coordinator import OutageDiagnosis
from gridwright.iotest.library_facts import left_finding
from gridwright.runs.iotest_events import IotestEvent

NODES = frozenset({"compute1", "compute2", "compute3"})
CONTROLLER = OutageCause(
    "node controller is powered off", "power it on", NODES, reaches_them=True, certain=True
)
STORAGE = OutageCause("node storage1 is powered off", "power it on", filesystems=("shared",))


class Asked:
    """Somebody who knows causes, and what the user was told of them."""

    def __init__(self, *answers: Sequence[OutageCause]) -> None:
        self.answers = list(answers)
        self.asked: list[frozenset[str]] = []
        self.told: list[Finding] = []

    def __call__(self, silent: Collection[str]) -> Sequence[OutageCause]:
        self.asked.append(frozenset(silent))
        return self.answers.pop(0) if self.answers else ()

    def emit(self, event: IotestEvent) -> None:
        assert isinstance(event, Finding)
        self.told.append(event)

    def blame(self) -> OutageDiagnosis:
        return OutageDiagnosis(self, self.emit)


def test_the_controller_is_named_first_and_the_nodes_behind_it_second() -> None:
    asked = Asked([CONTROLLER])

    async def run() -> OutageDiagnosis:
        blame = asked.blame()
        await blame.settle(NODES)
        return blame

    blame = asyncio.run(run())
    (said,) = asked.told
    assert said.name == "outage"
    assert said.text == (
        "node controller is powered off; compute[1-3], reached through it, are lost to this test"
    )
    assert blame.of("compute2") == "node controller is powered off, and it is reached through that"
    assert blame.of("compute9") is None


def test_a_cause_is_told_once_and_again_only_for_what_it_hit_since() -> None:
    one = OutageCause("the switch is off", "power it on", frozenset({"compute1"}), certain=True)
    both = OutageCause("the switch is off", "power it on", frozenset({"compute1", "compute2"}), certain=True)
    asked = Asked([one], [one], [both])

    async def run() -> None:
        blame = asked.blame()
        for silent in ({"compute1"}, {"compute1"}, {"compute1", "compute2"}):
            await blame.settle(silent)

    asyncio.run(run())
    assert asked.asked == [{"compute1"}, {"compute1", "compute2"}], (
        "a node with a known cause is not asked for"
    )
    assert [each.text for each in asked.told] == ["the switch is off; compute1 is lost to this test"]


def test_what_may_pass_is_told_when_nodes_are_lost_by_it_and_names_those_alone() -> None:
    cut_off = OutageCause("node controller is cut off the network", "heal it", NODES, reaches_them=True)
    alive = OutageCause(
        "compute3 can be reached by ssh", "see its log", frozenset({"compute3"}), of_node_alone=True
    )
    asked = Asked([cut_off, alive])

    async def run() -> None:
        blame = asked.blame()
        await blame.settle(NODES)
        assert asked.told == [], "nodes that are silent for a while are not lost yet"
        assert not blame.is_certain("compute1")
        blame.tell_for(["compute2"])

    asyncio.run(run())
    assert [each.text for each in asked.told] == [
        "node controller is cut off the network; compute2, reached through it, is lost to this test"
    ]


def test_a_server_is_named_for_the_file_system_that_stands_still_and_for_no_other() -> None:
    asked = Asked([STORAGE], [STORAGE], [STORAGE])

    async def run() -> OutageDiagnosis:
        blame = asked.blame()
        await blame.settle((), "other")
        assert asked.told == []
        for _ in range(2):
            await blame.settle((), "shared")
        return blame

    blame = asyncio.run(run())
    assert [each.text for each in asked.told] == [
        "node storage1 is powered off; it serves file system shared: what is read and written there waits "
        "for it, or fails"
    ]
    assert blame.of_filesystem("shared") == "node storage1 is powered off, which serves file system shared"


def test_nobody_is_asked_again_and_again_while_a_library_stands_still() -> None:
    asked = Asked()

    async def run() -> None:
        blame = asked.blame()
        for _ in range(20):
            blame.begin((), "shared")
            await asyncio.sleep(0)
        await blame.end()

    asyncio.run(run())
    assert len(asked.asked) == 1


def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()

    def hang(_: Collection[str]) -> Sequence[OutageCause]:
        hangs.wait(10)
        return []

    async def run() -> OutageDiagnosis:
        blame = OutageDiagnosis(hang, lambda _: None)
        await asyncio.wait_for(blame.settle({"compute1"}), 5.0)
        assert blame.looks
        hangs.set()
        await blame.end()
        return blame

    monkeypatch.setattr(module, "LONGEST_S", 0.05)
    assert asyncio.run(run()).of("compute1") is None


def test_what_a_test_left_is_named_with_its_size() -> None:
    said = left_finding(
        "data", {"compute1": "/grid/data/.a", "compute2": "/grid/data/.b"}, {"compute1": 2 << 30}
    )
    assert said.name == "files-left"
    assert "2 GiB at most: /grid/data/.a of compute1 (up to 2 GiB), /grid/data/.b of compute2" in said.text
