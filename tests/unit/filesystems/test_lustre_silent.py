"""A server of Lustre that takes no requests any more, as it was recorded: named before its first time-out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridwright.commands import _DEATH_S, CommandOutput
from gridwright.doctor.facts.gather import HEALTH_S
from gridwright.filesystems.lustre_client import space
from gridwright.filesystems.lustre_client.connections import SETTLE_S, parse_connections, wanted
from gridwright.filesystems.lustre_client.health import health
from gridwright.filesystems.lustre_client.parameters import parse_parameters
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


def test_a_busy_server_that_answers_is_not_silent() -> None:
    text = printed("drop-silent-8s-import").replace("idle: 8 sec", "idle: 2 sec")
    found = parse_connections(parse_parameters(text, wanted("scratch")), "scratch")
    assert [each.waiting for each in found.connections] == [0, 1]
    assert not any(each.is_silent for each in found.connections)


def test_a_look_at_silent_targets_ends_before_the_doctor_gives_up() -> None:
    assert SETTLE_S + space._ALL_S + space._ONE_S + 2 * _DEATH_S < HEALTH_S
    text = printed("051-param-osc-import")
    (first, *_) = parse_connections(parse_parameters(text, wanted("scratch")), "scratch").connections
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
    assert 0 < len(found.silent) < 300, "those that nobody had time to ask are not called silent"
    assert found.of == {}
