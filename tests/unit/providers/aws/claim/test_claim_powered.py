"""Slots that a scheduler powers on and off: a machine becomes one that is wanted, or one always on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.lustre_targets import ClaimError
from gridwright.providers.aws.claim.configuration import Slot, parse_configuration
from tests.unit.providers.aws.claim.claim_world import World, configuration_of

ALWAYS = (Slot("compute1", "10.20.128.16"),)
POWERED = tuple(Slot(f"compute{number}", f"10.20.128.{15 + number}", powered=True) for number in range(2, 6))


def world(wanted: set[str]) -> World:
    return World.new(configuration_of((*ALWAYS, *POWERED), "compute"), wanted=wanted)


@given(st.sets(st.sampled_from([slot.name for slot in POWERED])), st.integers(0, 99))
def test_machines_become_what_is_wanted_and_nothing_else(wanted: set[str], first: int) -> None:
    here = world(wanted)
    expected = {"compute1", *wanted}
    names = {here.claimant(f"i-{first}-{number}").run().name for number in range(len(expected))}
    assert names == expected
    # One more is of no use, and says so instead of taking a node that is off.
    with pytest.raises(ClaimError) as error:
        here.claimant("i-more").run()
    if len(wanted) < len(POWERED):
        assert "no slot of role compute is free and wanted on" in str(error.value)
    assert set(here.table) == expected


def test_a_machine_stays_what_it_is_when_that_is_wanted_no_more() -> None:
    """Its jobs have ended, or not: that it ends is for what powers nodes to say."""
    here = world({"compute3"})
    here.claimant("i-always").run()
    claimant = here.claimant("i-me")
    name = claimant.run().name
    here.wanted.clear()
    assert claimant.run().name == name
    assert set(here.table) == {"compute1", "compute3"}


def test_the_successor_of_a_node_that_went_waits_until_it_is_gone() -> None:
    here = world({"compute2"})
    for name in ("i-1", "i-2"):
        here.claimant(name).run()
    owner = here.table["compute2"].owner
    here.wanted.clear()
    here.states[owner] = "shutting-down"
    here.wanted.add("compute2")
    with pytest.raises(ClaimError):
        here.claimant("i-3").run()
    here.end(owner)
    assert here.claimant("i-4").run().name == "compute2"
    assert here.table["compute2"].token == 2


def test_a_claim_file_says_which_slots_are_powered() -> None:
    given = {
        "schema": 1,
        "grid": "demo",
        "region": "us-east-1",
        "table": "gridwright-demo-claims",
        "role": "compute",
        "slots": [
            {"name": "compute1", "address": "10.20.128.16"},
            {"name": "compute2", "address": "10.20.128.17", "powered": True},
        ],
    }
    assert [slot.powered for slot in parse_configuration(given).slots] == [False, True]
    with pytest.raises(ClaimError, match=r"slots\[0\].powered"):
        parse_configuration({**given, "slots": [{**given["slots"][1], "powered": "yes"}]})  # type: ignore[index]
