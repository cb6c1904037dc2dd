"""What Slurm says of nodes that it powers, what it is told, and the programs that it runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gridwright.node_programs.power import (
    LONGEST_REASON,
    OWN,
    REQUEST_LOG,
    PowerNode,
    PowerReconciler,
    PowerStates,
    RequestLog,
    Settled,
    SupplyError,
    orders,
    parse_nodes,
    program,
    reason_of,
)
from gridwright.node_programs.scratch.commands import Ended

# As Slurm 22.05.8 printed them in a lab.
SHOWN = """\
NodeName=compute1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 State=IDLE ThreadsPerCore=1 TmpDisk=0 Partitions=batch
NodeName=compute2 CPUTot=1 NodeAddr=compute2 State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1
NodeName=compute3 CPUTot=1 State=DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING ThreadsPerCore=1 Reason=ResumeTimeout reached [slurm@2026-11-24T23:07:43]
NodeName=compute4 CPUTot=1 State=DOWN*+CLOUD+POWERING_UP ThreadsPerCore=1 Reason=gridwright: power: EC2 gives no m6i.large now [root@2026-11-24T23:05:45]
NodeName=compute5 CPUTot=1 State=DOWN+CLOUD ThreadsPerCore=1 Reason=broken fan [ann@2026-11-24T23:05:45]
NodeName=compute6 CPUTot=1 State=DOWN+CLOUD+NOT_RESPONDING ThreadsPerCore=1 Reason=Not responding [slurm@2026-11-24T23:05:45]
"""  # noqa: E501
GIVEN_UP_AT = time.mktime(time.strptime("2026-11-24T23:07:43", "%Y-%m-%dT%H:%M:%S"))


def test_slurm_wants_what_it_has_on_and_has_not_given_up() -> None:
    nodes = parse_nodes(SHOWN)
    assert {name for name, node in nodes.items() if node.is_desired} == {
        "compute1", "compute2",
        # An administrator looks for the fan; and one that does not answer may come back.
        "compute5", "compute6",
    }  # fmt: skip
    assert {name for name, node in nodes.items() if node.is_given_up} == {"compute3", "compute4"}
    assert nodes["compute3"].since == GIVEN_UP_AT
    assert nodes["compute1"].reason == ""


@pytest.mark.parametrize(
    "text", ["", "slurm_load_node error: Unable to contact slurm controller", "NodeName=x"]
)
def test_what_is_no_node_is_none(text: str) -> None:
    assert parse_nodes(text) == {}


def told(nodes: Mapping[str, PowerNode], failed: Mapping[str, str], now: float) -> list[tuple[str, str, str]]:
    found = orders(nodes, {"compute1"}, failed, now, 600.0)
    return [(each.node, each.state, each.reason) for each in found]


def test_a_node_that_cannot_be_had_is_down_with_the_reason_and_tried_again_later() -> None:
    nodes = parse_nodes(SHOWN)
    assert told(nodes, {"compute2": "no capacity"}, GIVEN_UP_AT) == [
        ("compute2", "DOWN", OWN + "no capacity"),
        ("compute2", "POWER_DOWN", ""),
        ("compute4", "POWER_DOWN", ""),
    ]
    assert told(nodes, {}, GIVEN_UP_AT + 600) == [("compute3", "RESUME", ""), ("compute4", "POWER_DOWN", "")]
    # A clock that was set back does not hold a node for years.
    assert ("compute3", "RESUME", "") in told(nodes, {}, GIVEN_UP_AT - 86_400)


def test_a_node_that_slurm_wants_no_more_is_not_set_down_for_it() -> None:
    off = parse_nodes(SHOWN.replace("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN"))
    assert "compute2" not in {name for name, _, _ in told(off, {"compute2": "no capacity"}, GIVEN_UP_AT)}


def test_what_is_always_on_is_woken_and_never_set_down() -> None:
    nodes = parse_nodes(SHOWN.replace("State=IDLE ", "State=IDLE+POWERED_DOWN "))
    assert ("compute1", "POWER_UP", "") in told(nodes, {}, GIVEN_UP_AT)
    drained = parse_nodes(SHOWN.replace("State=IDLE ", "State=IDLE+DRAIN+POWERED_DOWN "))
    for given in (drained, parse_nodes(SHOWN)):
        assert "compute1" not in {name for name, _, _ in told(given, {"compute1": "x"}, GIVEN_UP_AT)}


def test_a_reason_is_one_line_that_is_read_back() -> None:
    said = reason_of('An "error"\noccurred [Code: X]\x1b[31m: ' + "x" * 500)
    assert len(said) == LONGEST_REASON
    assert said.startswith(f"{OWN}An error occurred Code: X")
    line = f"NodeName=n State=DOWN+CLOUD Reason={said} [root@2026-11-24T23:05:45]"
    assert parse_nodes(line)["n"].reason == said


@dataclass
class Supply:
    """Machines that do as they are told."""

    failed: Mapping[str, str] = field(default_factory=dict)
    asked: list[frozenset[str]] = field(default_factory=list)
    silent: bool = False

    def settle(self, wanted: frozenset[str]) -> Settled:
        self.asked.append(wanted)
        if self.silent:
            raise SupplyError("AWS does not answer")
        return Settled(self.failed)


def keeper(supply: Supply, answers: Sequence[Ended], updates: list[str]) -> PowerReconciler:
    left = list(answers)

    def run(argv: Sequence[str], _limit_s: float) -> Ended:
        if argv[1] == "update":
            updates.append(" ".join(argv[2:]))
            return Ended(tuple(argv), 0, "", 0.0)
        return left.pop(0) if len(left) > 1 else left[0]

    names = [f"compute{number}" for number in range(1, 7)]
    return PowerReconciler(
        PowerStates(run), supply, names, frozenset({"compute1"}), 600.0, lambda _: None, lambda: GIVEN_UP_AT
    )


def ended(text: str, status: int = 0) -> Ended:
    return Ended(("scontrol",), status, text, 0.0)


def test_where_either_is_silent_nothing_is_told_to_the_other() -> None:
    updates: list[str] = []
    supply = Supply()
    assert not keeper(supply, [ended("slurmctld is away", 1)], updates).round()
    assert supply.asked == []
    assert not keeper(Supply(silent=True), [ended(SHOWN)], updates).round()
    assert updates == []


def test_a_node_unknown_to_slurm_gets_no_machine() -> None:
    supply = Supply()
    assert keeper(supply, [ended(SHOWN.splitlines()[1])], []).round()
    assert supply.asked == [frozenset({"compute1", "compute2"})]


def test_what_slurm_wants_by_now_counts_when_the_supply_took_its_time() -> None:
    updates: list[str] = []
    later = SHOWN.replace("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN")
    assert keeper(Supply({"compute2": "no capacity"}), [ended(SHOWN), ended(later)], updates).round()
    assert updates == ["NodeName=compute4 State=POWER_DOWN"]


def test_the_programs_leave_a_line_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "power.log"
    script = tmp_path / "power-resume"
    script.write_text(program().replace(str(REQUEST_LOG), str(file)))
    script.chmod(0o755)
    seen = RequestLog(lambda: file)
    assert not seen.has_changed()
    # What a node is called cannot make a shell do anything.
    for name in ("compute[2-4]", "$(touch x); `touch x`", "a\nb"):
        subprocess.run([script, name], check=True, cwd=tmp_path, timeout=30)
        assert seen.has_changed()
        assert not seen.has_changed()
    assert file.read_text().splitlines()[0].endswith(" power-resume compute[2-4]")
    assert {each.name for each in tmp_path.iterdir()} == {"power.log", "power-resume"}
