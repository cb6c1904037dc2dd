"""Servers of Lustre are replaced one at a time, and only while every other one serves."""

from __future__ import annotations

from dataclasses import replace

from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.aws.roll.command import states_of, unserved
from gridwright.providers.aws.roll.deciding import GroupInstance, SeenGrid, SeenGroup, SetUp, decide

OLD, NEW = True, False


def grid(*servers: tuple[str, bool, str], nodes: int = 2, unserved: str = "") -> SeenGrid:
    """Object servers oss1 and oss2, a metadata server, and nodes that are to be replaced, too."""
    told = {name: SetUp(state, 3) for name, _, state in servers if state}
    of = {name: GroupInstance(name, outdated) for name, outdated, _ in servers}
    groups = (
        SeenGroup("demo-shared-oss", True, 2, tuple(of[name] for name in of if "oss" in name)),
        SeenGroup("demo-shared-mds", True, 1, tuple(of[name] for name in of if "mds" in name)),
        SeenGroup("demo-compute", False, nodes, tuple(GroupInstance(f"n{n}", OLD) for n in range(nodes))),
    )
    names = {name: f"shared-{name}" for name in of}
    return SeenGrid(groups, names, told, unserved=unserved)


WHOLE = (("oss1", OLD, "done"), ("oss2", OLD, "done"), ("mds1", OLD, "done"))


def test_the_next_goes_when_all_serve_in_the_order_of_the_groups() -> None:
    assert decide(grid(*WHOLE)).terminate == ("oss1",)
    assert decide(grid(("new1", NEW, ""), *WHOLE[1:])).terminate == ()
    done = (("oss3", NEW, "done"), *WHOLE[1:])
    assert decide(grid(*done)).terminate == ("oss2",)
    done = (("oss3", NEW, "done"), ("oss4", NEW, "done"), WHOLE[2])
    assert decide(grid(*done)).terminate == ("mds1",)


def test_nodes_wait_for_servers() -> None:
    waiting = decide(grid(*WHOLE)).standing[-1]
    assert waiting.waits[0] == "servers of file systems are replaced first"
    through = (("oss3", NEW, "done"), ("oss4", NEW, "done"), ("mds2", NEW, "done"))
    assert decide(grid(*through)).terminate == ("n0",)


def test_one_that_has_not_recovered_holds_up_the_next() -> None:
    for state in ("running", ""):
        due = decide(grid(("oss3", NEW, state), *WHOLE[1:]))
        assert due.terminate == ()
        assert due.standing[0].halted == ""
        assert due.standing[0].waits[0].startswith("shared-oss3 ")


def test_one_that_fails_stops_it_and_is_named() -> None:
    due = decide(grid(("oss3", NEW, "failed"), *WHOLE[1:]))
    assert (due.terminate, due.halted) == ((), True)
    assert due.standing[0].halted.startswith("shared-oss3: is not set up: no other server")


def test_an_old_one_that_fails_stops_it_too() -> None:
    due = decide(grid(WHOLE[0], ("oss2", OLD, "failed"), WHOLE[2]))
    assert due.terminate == ()
    assert "shared-oss2" in due.standing[0].halted


def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    seen = grid(*WHOLE[1:])
    assert decide(seen).terminate == ()
    assert "1 servers of demo-shared-oss are not there yet" in decide(seen).standing[0].waits
    starting = GroupInstance("oss9", NEW, in_service=False)
    oss = replace(seen.groups[0], instances=(*seen.groups[0].instances, starting))
    assert decide(replace(seen, groups=(oss, *seen.groups[1:]))).terminate == ()


def test_what_told_that_it_serves_long_ago_is_held_against_what_clients_see() -> None:
    due = decide(grid(*WHOLE, unserved="targets are not served: shared-OST0001 is DISCONN"))
    assert due.terminate == ()
    assert "shared-OST0001 is DISCONN" in due.standing[0].waits[0]


# Of a client of Lustre 2.17.0 (lctl get_param osc.*.import), but for what is not read.
IMPORT = """\
osc.{name}-osc-ffff8e4fab1e5000.import=
import:
    name: {name}-osc-ffff8e4fab1e5000
    target: {name}_UUID
    state: {state}
    connect_flags: [ write_grant, server_lock, version, full20 ]
    connect_data:
       flags: 0xa0425af2e3440038
       instance: 1
       target_version: 2.17.0.0
    connection:
       failover_nids: [ "10.20.64.10@tcp" ]
       current_connection: "10.20.64.10@tcp"
"""
TARGETS = ("MGS", "scratch-OST0000", "scratch-OST0001")


def seen_by_client(first: str, second: str) -> str:
    text = IMPORT.format(name=TARGETS[1], state=first) + IMPORT.format(name=TARGETS[2], state=second)
    return unserved(TARGETS, lambda argv, _: Ended(tuple(argv), 0, text, 0.1))


def test_a_client_is_connected_with_all_targets_or_says_which_it_misses() -> None:
    assert seen_by_client("FULL", "IDLE") == ""
    for state in ("DISCONN", "REPLAY_WAIT", "CONNECTING", "EVICTED"):
        assert seen_by_client("FULL", state) == f"targets are not served: scratch-OST0001 is {state}"
    assert unserved(("MGS",)) == ""
    assert unserved(()) == ""


def test_who_is_no_client_can_tell_nothing() -> None:
    said = unserved(TARGETS, lambda argv, _: Ended(tuple(argv), 2, "", 0.1))
    assert "this machine is no client of scratch-OST0000, scratch-OST0001" in said
    assert "ended with status 2" in said


def test_of_two_mounts_the_worse_one_counts() -> None:
    name = TARGETS[1]
    for states in (("FULL", "DISCONN"), ("DISCONN", "FULL")):
        text = "".join(IMPORT.format(name=name, state=state) for state in states)
        assert states_of(text) == {name: "DISCONN"}
