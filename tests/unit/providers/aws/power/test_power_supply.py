"""Machines follow what the scheduler wants, whatever happens between: a model of a group and its table."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.node_programs.power import SupplyError
from gridwright.providers.aws.power import AwsSupply, GroupState, PoweredGroup, StartTry, TableState
from tests.support.examples import examples

GROUP = PoweredGroup("compute", "m6i.large", ("compute1",), ("compute2", "compute3", "compute4"))


@dataclass
class World:
    """An Auto Scaling group, its machines that claim nodes, and the table between."""

    least: int = 1
    most: int = 4
    desired: int = 1
    now: float = 1000.0
    capacity: int = 10
    """How many machines EC2 has."""
    machines: list[str] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, float] = field(default_factory=dict)
    activities: list[StartTry] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    calls_left: int = 1_000_000
    made: int = 0

    def _call(self) -> None:
        self.now += 1
        if self.calls_left == 0:
            raise SupplyError("cut off")
        self.calls_left -= 1

    def group(self, name: str) -> GroupState:
        self._call()
        assert name == "compute"
        return GroupState("asg", self.least, self.most, self.desired, tuple(self.machines))

    def table(self, nodes: Sequence[str]) -> TableState:
        self._call()
        return TableState(
            {node: self.owners[node] for node in nodes if node in self.owners}, dict(self.wanted)
        )

    def starts(self, group: GroupState) -> Sequence[StartTry]:
        self._call()
        return self.activities[::-1]

    def want(self, node: str, now: float) -> None:
        self._call()
        self.wanted[node] = now

    def want_no_more(self, node: str) -> None:
        self._call()
        self.wanted.pop(node, None)

    def resize(self, group: GroupState, desired: int) -> None:
        self._call()
        assert self.least <= desired <= self.most, "EC2 refuses that"
        self.desired = desired
        while len(self.machines) > desired:
            self._terminate(self.machines[-1])  # NewestInstance

    def end(self, machine: str, *, shrink: bool) -> None:
        self._call()
        if shrink:
            assert self.desired > self.least, "EC2 refuses that"
            self.desired -= 1
        if machine in self.machines:
            self._terminate(machine)
        if not shrink:
            self.scale()

    def _terminate(self, machine: str) -> None:
        self.machines.remove(machine)
        self.ended.append(machine)

    # What happens by itself.

    def scale(self) -> None:
        """The group starts what it lacks, as far as EC2 has machines."""
        while len(self.machines) < self.desired:
            self.now += 1
            if len(self.machines) >= self.capacity:
                self.activities.append(StartTry("Failed", self.now, "InsufficientInstanceCapacity"))
                return
            self.made += 1
            self.machines.append(f"i-{self.made}")
            self.activities.append(StartTry("Successful", self.now))

    def claim(self, machine: str) -> None:
        """A machine takes a node that it may take and that nobody has, by one conditional write."""
        if machine not in self.machines or machine in self.owners.values():
            return
        for node in GROUP.nodes:
            may = node in GROUP.always_on or node in self.wanted
            if may and self.owners.get(node) not in self.machines:
                self.owners[node] = machine
                return

    def nodes(self) -> set[str]:
        """Nodes that have a machine."""
        return {node for node, machine in self.owners.items() if machine in self.machines}


ACTIONS = st.one_of(
    st.tuples(st.just("want"), st.frozensets(st.sampled_from(GROUP.nodes))),
    st.tuples(st.just("round"), st.integers(0, 12)),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.just("scale"), st.none()),
    st.tuples(st.just("claim"), st.integers(0, 3)),
    st.tuples(st.just("die"), st.integers(0, 3)),
    st.tuples(st.just("room"), st.integers(0, 4)),
)


def settled(world: World, supply: AwsSupply, wanted: frozenset[str]) -> dict[str, str]:
    """Everybody does what they do until nothing changes."""
    failed: dict[str, str] = {}
    for _ in range(12):
        failed = dict(supply.settle(wanted).failed)
        world.scale()
        for machine in list(world.machines):
            world.claim(machine)
    return failed


@settings(max_examples=examples(2000))
@given(st.lists(ACTIONS, min_size=6, max_size=25))
def test_in_the_end_each_wanted_node_has_one_machine_and_no_other_is_left(
    actions: list[tuple[str, object]],
) -> None:
    world = World()
    supply = AwsSupply(world, (GROUP,), lambda: world.now)
    wanted: frozenset[str] = frozenset()
    for what, value in actions:
        if what == "want":
            assert isinstance(value, frozenset)
            wanted = value
        elif what == "scale":
            world.scale()
        elif what == "settle":
            settled(world, supply, wanted)
        elif what == "round":
            assert isinstance(value, int)
            world.calls_left = value
            serving = {world.owners.get(node) for node in wanted | {*GROUP.always_on}} & {*world.machines}
            before = len(world.ended)
            with contextlib.suppress(SupplyError):
                supply.settle(wanted)
            assert not serving & {*world.ended[before:]}, "a machine ended that is a node which is wanted"
            world.calls_left = 1_000_000
        elif what == "room":
            assert isinstance(value, int)
            world.capacity = value
        elif world.machines:
            assert isinstance(value, int)
            machine = world.machines[value % len(world.machines)]
            if what == "claim":
                world.claim(machine)
            else:
                world.machines.remove(machine)
    world.capacity = 10
    settled(world, supply, wanted)
    expected = {*wanted, *GROUP.always_on}
    assert world.nodes() == expected
    assert len(world.machines) == len(expected) == world.desired
    assert set(world.wanted) == wanted - {*GROUP.always_on}
    # A second round changes nothing.
    assert supply.settle(wanted).done == ()


def test_a_machine_that_came_in_vain_goes_and_none_is_started_in_its_place() -> None:
    world = World()
    supply = AwsSupply(world, (GROUP,), lambda: world.now)
    settled(world, supply, frozenset({"compute2"}))
    supply.settle(frozenset({"compute2", "compute3"}))
    world.scale()
    # Nobody has claimed compute3 yet, and it is wanted no more.
    supply.settle(frozenset({"compute2"}))
    assert (len(world.machines), world.desired, world.ended) == (2, 2, ["i-3"])
    supply.settle(frozenset())
    assert (len(world.machines), world.desired, world.made) == (1, 1, 3)
    world.scale()
    assert world.made == 3


def test_a_node_that_ec2_has_no_machine_for_is_told_with_its_reason_and_can_be_had_later() -> None:
    world = World(capacity=2)
    supply = AwsSupply(world, (GROUP,), lambda: world.now)
    wanted = frozenset({"compute2", "compute3"})
    failed = settled(world, supply, wanted)
    assert len(failed) == 1
    assert set(failed.values()) == {"EC2 gives no m6i.large now: InsufficientInstanceCapacity"}
    # Slurm gives it up, and nothing asks EC2 for it any more.
    left = wanted - failed.keys()
    settled(world, supply, left)
    assert world.desired == 2
    world.capacity = 10
    world.scale()
    assert len(world.machines) == 2
    # What failed before it was wanted again says nothing of this time.
    assert supply.settle(wanted).failed == {}
    assert settled(world, supply, wanted) == {}
    assert world.nodes() == {"compute1", "compute2", "compute3"}


def test_a_try_that_goes_on_is_waited_for() -> None:
    world = World(capacity=1)
    supply = AwsSupply(world, (GROUP,), lambda: world.now)
    wanted = frozenset({"compute2"})
    settled(world, supply, wanted)
    world.activities.append(StartTry("InProgress", world.now))
    assert supply.settle(wanted).failed == {}


def test_a_grid_that_is_stopped_is_left_alone() -> None:
    world = World(least=0, most=0, desired=0, wanted={"compute2": 1.0})
    assert AwsSupply(world, (GROUP,)).settle(frozenset({"compute2", "compute3"})).done == ()


def test_two_that_serve_the_same_grid_do_not_make_more_machines_than_nodes() -> None:
    """As when the head node was replaced and the old one is not gone yet: both ask for the same."""
    world = World()
    one, other = (AwsSupply(world, (GROUP,), lambda: world.now) for _ in range(2))
    wanted = frozenset({"compute2", "compute3"})
    for supply in (one, other, one, other):
        supply.settle(wanted)
        world.scale()
    assert len(world.machines) == 3
    settled(world, one, wanted)
    assert world.made == 3


@pytest.mark.parametrize("wanted", [frozenset(), frozenset({"compute4"})])
def test_a_machine_that_became_a_node_which_is_off_gives_room_to_one_that_is_always_on(
    wanted: frozenset[str],
) -> None:
    world = World(machines=["i-0"], owners={"compute2": "i-0"}, wanted={"compute2": 1.0})
    settled(world, AwsSupply(world, (GROUP,), lambda: world.now), wanted)
    assert world.nodes() == {"compute1", *wanted}
