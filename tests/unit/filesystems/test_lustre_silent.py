"""A server of Lustre that takes no requests any more, as it was recorded: named before its first time-out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from gridwright.commands import _DEATH_S, CommandOutput, CommandSilent
from gridwright.doctor.facts.health import HEALTH_S
from gridwright.doctor.facts.health import health as client_health
from gridwright.filesystems.health import LATE_S, RunWithin, TimeUp
from gridwright.filesystems.lustre_client import space
from gridwright.filesystems.lustre_client.connections import (
    LOOKS_S,
    SETTLE_S,
    parameter_names,
    parse_connections,
    with_stalled,
)
from gridwright.filesystems.lustre_client.health import health
from gridwright.filesystems.lustre_client.parameters import parse_parameters, read_parameters
from tests.fixtures.lustre_node import (
    INSTANCE,
    NOW_S,
    LustreNode,
    healthy_node,
    printed,
    recorded_parameters,
)
from tests.unit.filesystems.test_lustre_health import MOUNT, names, text_of

HERE = "ffff8aa3b3282800"
"""Of the mount in recordings of a silent server."""


def silent_node(moment: str) -> LustreNode:
    """The healthy client, its connections to OSTs as they were at that moment."""
    node = healthy_node()
    recorded = recorded_parameters(f"drop-{moment}-import", f"drop-{moment}-state")
    told = {name.replace(HERE, INSTANCE): text.replace(HERE, INSTANCE) for name, text in recorded.items()}
    node.parameters = {**node.parameters, **told}
    node.hangs = (f"osc.scratch-OST000?-osc-{INSTANCE}.kbytestotal",) if moment != "silent-before" else ()
    return node


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("silent-before", []),
        ("silent-8s", ["target-silent"]),
        ("silent-25s", ["target-away", "target-silent"]),
        ("silent-50s", ["target-away"]),
        ("mended-22s", []),
    ],
)
def test_a_silent_server_is_named_while_its_connections_still_count_as_full(
    moment: str, expected: Sequence[str]
) -> None:
    node = silent_node(moment)
    if moment.startswith("mended"):
        node.hangs = ()
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    assert names(found) == expected


def test_requests_that_wait_are_told_with_how_long() -> None:
    node = silent_node("silent-8s")
    node.hangs = ()
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    said = text_of(found, "target-silent")
    assert "scratch-OST0001 at 0@lo (1 request on the way, no answer for 8 s, 0 timed out" in said
    # OST0000 is as silent, but nobody has asked it for anything: its space tells.
    assert "OST0000" not in said
    states = {each.name: each.state for each in found.targets}
    assert states["scratch-OST0001"] == "FULL, no answer for 8 s"
    assert not any("OST0001" in name and "kbytes" in name for command in node.asked for name in command)


def test_a_target_that_is_silent_at_one_of_two_mounts_is_away() -> None:
    """What hangs at that mount follows from it, whichever mount comes first."""
    for other in ("ffff000000000000", "fffffffffffff000"):
        node = silent_node("silent-8s")
        node.hangs = ()
        idle = {
            name.replace(INSTANCE, other): text.replace(INSTANCE, other)
            for name, text in healthy_node().parameters.items()
            if INSTANCE in name
        }
        node.parameters = {**node.parameters, **idle}
        found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
        assert found.away == {"scratch-OST0001": "FULL, no answer for 8 s"}


def test_a_busy_server_that_answers_is_not_silent() -> None:
    text = printed("drop-silent-8s-import").replace("idle: 8 sec", "idle: 2 sec")
    found = parse_connections(parse_parameters(text, parameter_names("scratch")), "scratch")
    assert [each.waiting for each in found.connections] == [0, 1]
    assert not any(each.seems_silent for each in found.connections)


def test_an_idle_target_that_was_asked_a_moment_ago_is_not_silent() -> None:
    """Its last reply is long ago, and a request is on the way: one reading of a silent one looks the same."""
    node = silent_node("silent-8s")
    asked = parse_connections(read_parameters(node, parameter_names("scratch")), "scratch")
    assert [each.seems_silent for each in asked.connections if each.target.endswith("OST0001")] == [True]
    answered = {
        name: text.replace("inflight: 1", "inflight: 0").replace("idle: 8 sec", "idle: 0 sec")
        for name, text in node.parameters.items()
    }

    def pause(_seconds: float) -> None:
        node.parameters = answered

    assert not any(each.is_silent for each in with_stalled(node, asked, pause).connections)


def test_requests_of_which_one_is_answered_now_and_then_are_those_of_a_busy_target() -> None:
    node = silent_node("silent-8s")
    asked = parse_connections(read_parameters(node, parameter_names("scratch")), "scratch")
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds
        node.parameters = {
            name: text.replace("idle: 8 sec", "idle: 1 sec") for name, text in node.parameters.items()
        }

    found = with_stalled(node, asked, pause, clock=lambda: now[0])
    assert not any(each.is_silent for each in found.connections)


def test_a_look_at_silent_targets_ends_before_the_doctor_gives_up() -> None:
    assert SETTLE_S + space._ALL_S + space._ONE_S + 2 * _DEATH_S + sum(LOOKS_S) < HEALTH_S
    assert max(SETTLE_S, *LOOKS_S) + _DEATH_S <= LATE_S
    text = printed("051-param-osc-import")
    (first, *_) = parse_connections(parse_parameters(text, parameter_names("scratch")), "scratch").connections
    from dataclasses import replace

    many = [
        replace(first, target=f"scratch-OST{n:04x}", device=f"scratch-OST{n:04x}-osc-{INSTANCE}")
        for n in range(300)
    ]
    now, limits = [0.0], list[float]()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        from gridwright.errors import environment_error

        limits.append(timeout_s)
        now[0] += timeout_s
        raise environment_error("lctl has not answered")

    found = space.read_space(run, many, clock=lambda: now[0])
    assert len(limits) < 20
    assert 0 < len(found.untold) < 300, "those that nobody had time to ask are not called silent"
    assert found.of == {}


def test_what_was_told_before_something_did_not_answer_is_judged() -> None:
    node = silent_node("silent-8s")
    gone = {
        name: text.replace("FULL", "DISCONN") for name, text in node.parameters.items() if "OST0000" in name
    }
    node.parameters, node.hangs = {**node.parameters, **gone}, ()
    node.slow = (f"osc.scratch-OST0001-osc-{INSTANCE}.rpc_stats",)
    found = health(node, MOUNT, pause=lambda _: None, now_s=NOW_S)
    assert names(found) == ["target-away", "health-incomplete"]
    assert "the rest did not answer: lctl has not answered" in text_of(found, "health-incomplete")
    assert found.away == {"scratch-OST0000": "DISCONN"}


def test_a_command_that_the_time_of_all_cuts_short_is_not_known_to_be_silent() -> None:
    limits = list[float]()

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        limits.append(timeout_s)
        raise CommandSilent("silent", None, "see dmesg")

    within = RunWithin(run, time.monotonic() + 5)
    with pytest.raises(CommandSilent):
        within(["lctl"], timeout_s=2.0)
    with pytest.raises(TimeUp, match="lctl had not answered after 5 s"):
        within(["lctl"], timeout_s=20.0)
    with pytest.raises(TimeUp, match="no time was left for lctl"):
        RunWithin(run, time.monotonic() - 1)(["lctl"])
    assert limits == [2.0, pytest.approx(5, abs=0.5)]


def test_a_health_that_ends_with_its_time_has_what_was_told_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor's look: a target that is away, then a question for space on a node that hangs."""
    node = healthy_node()
    down = recorded_parameters("925-ostdown-import-state", "926-ostdown-state")
    node.parameters = {**node.parameters, **down}

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        if any("kbytestotal" in word for word in command):
            time.sleep(timeout_s)
            raise CommandSilent("lctl has not answered", None, "see dmesg")
        return node(command, timeout_s=timeout_s)

    monkeypatch.setattr("gridwright.commands.run_here", run)
    monkeypatch.setattr("gridwright.doctor.facts.health.HEALTH_S", 0.5)
    found = client_health({"type": "lustre", "path": MOUNT, "source": "192.168.77.1@tcp:/scratch"})
    assert [each.name for each in found.findings] == ["target-away", "health-incomplete"]
    assert found.away == {"scratch-OST0001": "DISCONN"}
