"""A doctor's look at several nodes: what the nodes, the scheduler and the file system's servers say."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput, CommandSilent
from gridwright.doctor.access import NodeAccess
from gridwright.doctor.check import CheckResult, Observation, SearchedFiles
from gridwright.doctor.examination import FACTS, TUNING_DRIFT, examine, faults, search_of_filesystems
from gridwright.doctor.facts.gather import gather
from gridwright.doctor.facts.node_facts import NodeFacts
from gridwright.doctor.messages import FactsRequest
from gridwright.errors import environment_error
from gridwright.filesystems.health import Run
from gridwright.messages import decode, encode
from gridwright.prove.proof import check_event
from gridwright.spec.filesystem import FileSystem
from tests.fixtures.lustre_node import printed
from tests.support.doctor_grid import MACHINES, SPEC, node, sound
from tests.support.lustre_files import Lfs


def facts_of(*nodes: NodeFacts) -> dict[str, CommandOutput | None]:
    return {each.hostname: CommandOutput(0, encode(each), b"") for each in nodes}


class Grid:
    """Nodes that answer with facts, and a master that does not answer, or cannot be asked."""

    def __init__(self, answers: Mapping[str, CommandOutput | None]) -> None:
        self.answers = answers
        self.asked: list[Sequence[str]] = []
        self.masters: list[Sequence[str]] = []
        self.broken = False

    def reach(
        self, command: Sequence[str], stdin: bytes, seconds: float
    ) -> Mapping[str, CommandOutput | None]:
        request = json.loads(stdin)
        assert request["libraries"] == {"data": "/mnt/grid/data"}
        assert "vm.dirty_ratio" in request["settings"]["sysctl"]
        assert 15 < seconds < 60
        self.asked.append(command)
        return self.answers

    def run(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.masters.append(command)
        if self.broken:
            raise environment_error("mfscli cannot be started: No such file", remedy="install it")
        return CommandOutput(1, b"", b"can't connect to master")

    def access(self, down: Mapping[str, str] | None = None) -> NodeAccess:
        return NodeAccess(self.reach, self.run, down or {})

    def faults(self, down: Mapping[str, str] | None = None) -> list[CheckResult]:
        return [each for each in examine(SPEC, self.access(down)) if not each.ok and each.level != "info"]


def now(name: str, **changes: object) -> NodeFacts:
    return node(name, sound(source="storage1:9421", **changes), time=time.time())


def test_every_node_is_asked_in_one_go_and_the_master_that_they_mount() -> None:
    grid = Grid(facts_of(now("compute1"), now("compute2")))
    findings = grid.faults()
    assert grid.asked == [FACTS]
    assert grid.masters and "storage1" in grid.masters[0]
    assert [each.name for each in findings] == ["master-silent"]
    assert findings[0].nodes == () and findings[0].found.startswith("file system shared: ")


def test_what_hangs_since_the_master_is_silent_is_no_fault_of_its_own() -> None:
    grid = Grid(facts_of(now("compute1", hangs=True), now("compute2")))
    assert [each.name for each in grid.faults()] == ["master-silent"]
    grid.broken = True
    assert {each.name for each in grid.faults()} == {"filesystem-silent", "library-hangs"}


def test_a_node_that_ssh_does_not_know_yet_is_told_so() -> None:
    said = b"Warning: Permanently added 'b' (ED25519) to the list.\nHost key verification failed.\n"
    grid = Grid({**facts_of(now("compute1")), "compute2": CommandOutput(255, b"", said)})
    (told,) = [each for each in grid.faults() if each.name == "node-silent"]
    assert told.found.startswith("its host key is not known here")


def test_a_file_system_that_cannot_be_asked_is_a_finding() -> None:
    grid = Grid(facts_of(now("compute1")))
    grid.broken = True
    (finding,) = grid.faults()
    assert (finding.name, finding.level) == ("filesystem-silent", "error")
    assert "mfscli cannot be started" in finding.found


def test_a_node_that_the_scheduler_gives_no_jobs() -> None:
    grid = Grid(facts_of(now("compute1"), now("compute2")))
    findings = grid.faults({"compute2": "drained (bad disk)"})
    (down,) = [each for each in findings if each.name == "node-down"]
    assert (down.nodes, down.found) == (("compute2",), "its scheduler says drained (bad disk)")


def test_the_event_of_a_finding_names_nodes_folded() -> None:
    grid = Grid(facts_of(*(now(f"compute{n}", hangs=True) for n in range(1, 12))))
    grid.broken = True
    (hangs,) = [each for each in grid.faults() if each.name == "library-hangs"]
    event = check_event(hangs)
    assert len(event.nodes) == 11
    assert event.text.startswith("compute[1-11]: library data (/mnt/grid/data): does not answer")


def test_facts_survive_the_way_from_a_node(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    facts = gather(FactsRequest({"data": str(tmp_path / "data"), "work": str(tmp_path / "work")}))
    assert decode(encode(facts), NodeFacts) == facts
    assert facts.libraries["data"].refused is None
    assert facts.libraries["work"].missing == "No such file or directory"


@pytest.mark.parametrize("text", [b"", b"{}", b"null", b"[1]"])
def test_answers_that_are_no_facts_are_silence(text: bytes) -> None:
    grid = Grid({"compute1": CommandOutput(0, text, b"")})
    names = [each.name for each in grid.faults()]
    assert "node-silent" in names


def test_a_proof_has_one_line_for_all_settings_that_drifted() -> None:
    spec = SPEC.model_copy(update={"provider": "local"})
    settings: dict[str, dict[str, str | None]] = {
        "sysctl": {"vm.swappiness": "60", "net.core.somaxconn": "128"}
    }
    drifted = replace(now("compute1"), settings=settings)
    found = examine(spec, Grid(facts_of(drifted)).access())
    assert len([each for each in found if each.name.startswith("sysctl-") and not each.ok]) == 2
    told = faults(found)
    (drift,) = [each for each in told if each.name == TUNING_DRIFT]
    assert (drift.level, drift.nodes) == ("warning", ("compute1",))
    assert "sysctl-swappiness" in drift.found and "gridwright doctor" in drift.remedy
    assert not any(each.name.startswith("sysctl-") for each in told)
    assert not [each for each in faults(found, {TUNING_DRIFT: "known"}) if each.name == TUNING_DRIFT]


def never(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
    raise AssertionError(command)


def test_a_search_that_hangs_in_one_library_is_not_begun_in_the_next() -> None:
    libraries = {"data": MACHINES.libraries["data"], "work": MACHINES.libraries["data"]}
    spec = MACHINES.model_copy(update={"libraries": libraries})
    facts = replace(now("compute1"), libraries=dict.fromkeys(libraries, sound()))
    commands: list[Sequence[str]] = []

    def hangs(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        commands.append(command)
        raise CommandSilent("lfs has not answered for 30 s", None, "see dmesg")

    found = search_of_filesystems(Observation(spec, {"compute1": facts}, {}, {}), hangs)
    assert found["shared"] == SearchedFiles([], complete=False)
    assert len(commands) == 1


def test_large_files_on_one_target_are_looked_for_where_the_file_system_answers() -> None:
    path = "/mnt/grid/data/a"
    on_one = Lfs(layouts={path: printed("205-getstripe-default")}, files={path: 2**35})
    found = search_of_filesystems(Observation(MACHINES, {"compute1": now("compute1")}, {}, {}), on_one)
    assert [each.name for each in found["shared"].findings] == ["single-target-files"]
    assert found["shared"].complete

    asked: list[str] = []

    def run_on(filesystem: FileSystem) -> Run:
        asked.append(str(filesystem.path))
        return on_one

    nothing = Lfs(refuses=CommandOutput(127, b"", b"lfs: not found"))
    elsewhere = search_of_filesystems(
        Observation(MACHINES, {"compute1": now("compute1")}, {}, {}), nothing, run_on
    )
    assert [each.name for each in elsewhere["shared"].findings] == ["single-target-files"]
    assert set(asked) == {"/mnt/grid"}, "a node that has mounted it, not the head node"

    hanging = Observation(MACHINES, {"compute1": now("compute1", hangs=True)}, {}, {})
    assert search_of_filesystems(hanging, on_one)["shared"] == SearchedFiles([], complete=False)
    away = replace(now("compute1"), targets_away={"shared": {"scratch-OST0001": "FULL, no answer for 9 s"}})
    searched = search_of_filesystems(Observation(MACHINES, {"compute1": away}, {}, {}), never)
    assert searched["shared"] == SearchedFiles([], complete=False)
    unable = search_of_filesystems(Observation(MACHINES, {"compute1": now("compute1")}, {}, {}), nothing)
    assert unable["shared"] == SearchedFiles([], complete=False)
