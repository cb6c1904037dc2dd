"""What is told of a Spectrum Scale, from rows as IBM's manual has them: none was at hand to be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition, Health
from gridwright.filesystems.scale.health import health, monitor_findings
from gridwright.filesystems.scale.model import ScaleFileSystem

HEADERS = (
    "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:arguments:"
    "activesince:identifier:ishidden:\n"
    "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:"
    "laststatuschange:\n"
)


def state(component: str, status: str, entity: str = "node1") -> str:
    return f"mmhealth:State:0:1:::node1:{component}:{entity}:NODE:{status}:2026-11-20 09%3A35%3A21.8 UTC:\n"


def event(component: str, name: str) -> str:
    return f"mmhealth:Event:0:1:::node1:{component}:node1:NODE:{name}::2026-11-20 09%3A35%3A21.8 UTC::no:\n"


WELL = HEADERS + state("NODE", "HEALTHY") + state("GPFS", "HEALTHY") + state("FILESYSTEM", "HEALTHY", "lake")


@dataclass
class Node:
    printed: str | None = WELL
    mounts: str = "lake /lake gpfs rw,relatime 0 0\n"
    space: str | None = "4096 1000000 900000 500000 499000\n"

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        told = {"cat": self.mounts, "/usr/lpp/mmfs/bin/mmhealth": self.printed, "stat": self.space}[
            command[0]
        ]
        if told is None:
            raise environment_error(f"{command[0]} has not answered for {timeout_s:.0f} s")
        return CommandOutput(0, told.encode(), b"")


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def test_a_healthy_one_has_nothing_to_say() -> None:
    spec = ScaleFileSystem.model_validate(
        {"type": "scale", "path": Path("/lake"), "nsd": {"instance": "BM.DenseIO.E5.128"}}
    )
    found = kind_of(spec).health(spec, Node(), "/lake/work")
    assert found is not None
    assert (found.condition, names(found)) == (Condition.HEALTHY, [])
    assert (found.capacity_bytes, found.available_bytes) == (4096 * 1000000, 4096 * 900000)


@pytest.mark.parametrize(
    ("status", "name", "condition"),
    [
        ("FAILED", "scale-failed", Condition.DEGRADED),
        ("DEGRADED", "scale-degraded", Condition.DEGRADED),
        ("DEPEND", "scale-degraded", Condition.DEGRADED),
        ("TIPS", "scale-tips", Condition.HEALTHY),
    ],
)
def test_a_component_that_is_not_well_is_told_with_its_events(
    status: str, name: str, condition: Condition
) -> None:
    printed = WELL + state("NETWORK", status) + event("NETWORK", "ib_rdma_port_width_low")
    found = health(Node(printed), "/lake")
    assert (found.condition, names(found)) == (condition, [name])
    assert found.findings[0].text == f"Spectrum Scale: NETWORK is {status} (ib_rdma_port_width_low)"


def test_of_several_entities_the_worst_speaks_and_the_node_is_not_told_twice() -> None:
    printed = (
        HEADERS + state("NODE", "FAILED") + state("DISK", "DEGRADED", "d1") + state("DISK", "FAILED", "d2")
    )
    assert [each.text for each in monitor_findings(printed)] == ["Spectrum Scale: DISK is FAILED"]


def test_rows_without_the_newer_columns_are_read() -> None:
    old = "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:\n"
    row = "mmhealth:State:0:1:::node1:GPFS:node1:NODE:FAILED:\n"
    assert [each.name for each in monitor_findings(old + row)] == ["scale-failed"]


def test_what_does_not_answer_is_told() -> None:
    assert names(health(Node(printed=None), "/lake")) == ["scale-silent"]
    assert names(health(Node(printed=""), "/lake")) == ["scale-silent"]
    found = health(Node(space=None), "/lake")
    assert (found.condition, names(found)) == (Condition.SILENT, ["filesystem-silent"])
    away = health(Node(mounts="/dev/vda / ext4 rw 0 0\n"), "/lake")
    assert (away.condition, names(away)) == (Condition.BROKEN, ["filesystem-not-mounted"])


@given(st.integers(0, len(WELL)), st.integers(0, len(WELL)), st.text(max_size=20))
def test_garbled_rows_never_break_the_parser(start: int, end: int, put: str) -> None:
    list(monitor_findings(WELL[:start] + put + WELL[end:]))
