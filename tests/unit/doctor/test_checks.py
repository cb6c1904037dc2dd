"""What the checks of nodes find, each with the node it is about, and nothing on sound nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.commands import CommandOutput
from gridwright.doctor.examination import examine, observation_of
from gridwright.doctor.facts.gather import gather
from gridwright.doctor.messages import FactsRequest
from gridwright.messages import encode, plain
from gridwright.spec import parse_spec
from tests.support.doctor_grid import GIB, MACHINES, SPEC, grid, machine, node, results, sound, wrong


def test_sound_nodes_have_no_fault() -> None:
    assert wrong(grid(node("compute1"), node("compute2"), node("compute3"))) == []
    assert wrong(grid(*(machine(f"compute{n}") for n in (1, 2, 3)), spec=MACHINES)) == []


@pytest.mark.parametrize(
    ("library", "name", "found"),
    [
        ({"hangs": True}, "library-hangs", "library data (/mnt/grid/data): does not answer"),
        (
            {"missing": "No such file or directory"},
            "library-missing",
            "library data (/mnt/grid/data): No such file or directory",
        ),
        (
            {"read_only": True, "refused": "Read-only file system", "locks": None},
            "library-read-only",
            "library data (/mnt/grid/data): /mnt/grid is mounted read-only",
        ),
        (
            {"options": "rw,nodev,flock"},
            "library-suid",
            "library data (/mnt/grid/data): /mnt/grid is mounted without nosuid",
        ),
        (
            {"refused": "Disk quota exceeded", "locks": None},
            "library-refuses",
            "library data (/mnt/grid/data): Disk quota exceeded",
        ),
        (
            {"available_bytes": 5 * GIB},
            "library-full",
            "library data (/mnt/grid/data): 95 % in use, 5 GiB left",
        ),
        (
            {"inodes_free": 20},
            "library-inodes",
            "library data (/mnt/grid/data): 98 % of all inodes in use",
        ),
        (
            {"locks": {"flock": "Function not implemented", "fcntl": None}},
            "flock-missing",
            "library data (/mnt/grid/data): Function not implemented",
        ),
    ],
)
def test_a_library_that_is_not_right_on_one_node(library: dict[str, object], name: str, found: str) -> None:
    if "hangs" in library or "missing" in library:
        # A node that cannot look at a library tells nothing else of it.
        empty = dict.fromkeys(
            ("filesystem_type", "total_bytes", "available_bytes", "inodes", "read_only", "locks"), None
        )
        library = {**empty, "file_times_off_s": None, **library}
    seen = grid(node("compute1"), node("compute2", sound(**library)), node("compute3"))
    (fault,) = wrong(seen)
    assert (fault.name, fault.nodes, fault.found) == (name, ("compute2",), found)
    sound_elsewhere = [each for each in results(seen) if each.name == name and each.ok and each.applies]
    assert [each.nodes for each in sound_elsewhere] == [("compute1", "compute3")]


def test_a_library_that_is_full_to_the_last_block_is_an_error() -> None:
    faults = wrong(grid(node("compute1", sound(available_bytes=0))))
    assert {(each.name, each.level) for each in faults} == {
        ("library-full", "warning"),
        ("library-short", "error"),
    }


def test_the_same_fault_of_several_nodes_is_one() -> None:
    slow = sound(inodes_free=20)
    (fault,) = wrong(grid(*(node(f"compute{n}", slow) for n in (1, 2, 3))))
    assert fault.nodes == ("compute1", "compute2", "compute3")


def test_faults_that_differ_in_their_figures_only_are_put_together_where_there_are_many() -> None:
    nodes = [node(f"compute{n}", sound(available_bytes=(15 + n) * GIB // 8)) for n in range(1, 51)]
    faults = wrong(grid(*nodes))
    assert len(faults) == 1
    assert len(faults[0].nodes) == 50
    assert "more" in faults[0].found


def test_a_library_on_a_local_disk_by_mistake() -> None:
    ext4 = sound(filesystem_type="ext4", source="/dev/vda", mount_point="/")
    faults = wrong(grid(node("compute1"), node("compute2", ext4), node("compute3")))
    assert {each.name for each in faults} == {
        "library-elsewhere",
        "library-not-mounted",
        "data-on-one-node",
    }
    assert {each.nodes for each in faults} == {("compute2",)}
    (elsewhere,) = [each for each in faults if each.name == "library-elsewhere"]
    assert "ext4" in elsewhere.found and "fuse.mfs" in elsewhere.expected


def test_a_local_file_system_may_differ() -> None:
    spec = parse_spec(
        "provider: lab\nscheduler: {type: slurm}\nfilesystems: {disk: {type: local, path: /mnt/grid}}\n"
        "libraries: {work: {}}\n"
    )
    here = node("compute1", libraries={"work": sound(filesystem_type="xfs")})
    there = node("compute2", libraries={"work": sound(filesystem_type="ext4")})
    assert wrong(grid(here, there, spec=spec)) == []


def test_work_on_the_shared_file_system_by_mistake() -> None:
    lustre = sound(path="/scratch/work", filesystem_type="lustre", source="10.0.0.1@tcp:/scratch")
    libraries = {"data": sound(filesystem_type="lustre", source="10.0.0.1@tcp:/scratch"), "work": lustre}
    nodes = [machine("compute1"), machine("compute2", libraries=libraries)]
    names = {each.name for each in wrong(grid(*nodes, spec=MACHINES)) if each.nodes == ("compute2",)}
    assert names == {"library-elsewhere", "libraries-together"}


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"memory_bytes": GIB}, "memory-missing"), ({"version": "0.0.9"}, "version-differs")],
)
def test_a_node_that_differs(changes: dict[str, Any], name: str) -> None:
    (fault,) = wrong(grid(node("compute1"), node("compute2", **changes)))
    assert (fault.name, fault.nodes) == (name, ("compute2",))


def test_cores_are_held_against_the_spec_where_nodes_are_machines() -> None:
    few = machine("compute1", processors={"cores": 2, "threads_per_core": 2})
    faults = wrong(grid(few, machine("compute2"), spec=MACHINES))
    (missing,) = [each for each in faults if each.name == "cores-missing"]
    assert (missing.nodes, missing.found, missing.expected) == (("compute1",), "2 cores", "4 cores")


@pytest.mark.parametrize(
    ("time", "name"),
    [
        (1005.0, None),
        (1012.1, "clock-apart"),
        (997.9, "clock-apart"),
        (1011.9, None),
        (998.1, None),
        (1310.0, "clock-wrong"),
        (700.0, "clock-wrong"),
    ],
)
def test_clocks_are_judged_beyond_the_time_of_the_answer(time: float, name: str | None) -> None:
    answer = CommandOutput(0, encode(node("compute1", time=time)), b"")
    seen = observation_of(SPEC, {"compute1": answer}, before=1000.0, after=1010.0)
    assert [each.name for each in wrong(seen)] == ([name] if name else [])


def test_facts_of_another_release_are_read_as_far_as_they_are_known() -> None:
    newer = plain(node("compute1", version="99.0")) | {"weather": "fine"}
    newer["libraries"]["data"]["colour"] = "red"
    (fault,) = wrong(observation_of(SPEC, {"compute1": CommandOutput(0, encode(newer), b"")}, 0.0, 2000.0))
    assert (fault.name, fault.nodes) == ("version-differs", ("compute1",))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (None, "no answer in time"),
        (
            CommandOutput(255, b"", b"ssh: connect to host compute1 port 22: No route to host"),
            "No route to host",
        ),
        (CommandOutput(1, b"", b""), "exit status 1 and no facts"),
        (CommandOutput(0, b"Welcome to compute1!\n", b""), "exit status 0 and no facts (it is no JSON)"),
        (CommandOutput(0, b'{"hostname": 7}', b""), "no facts ("),
    ],
)
def test_a_node_that_does_not_answer_is_a_fault(answer: CommandOutput | None, found: str) -> None:
    (fault,) = wrong(observation_of(SPEC, {"compute1": answer}, 0.0, 1.0))
    assert (fault.level, fault.name, fault.nodes) == ("error", "node-silent", ("compute1",))
    assert found in fault.found
    assert "takes ssh without a password" in fault.remedy


def test_a_node_without_this_python_is_no_matter_of_ssh() -> None:
    said = b"bash: line 1: /opt/new/bin/python3: No such file or directory"
    (fault,) = wrong(observation_of(SPEC, {"compute1": CommandOutput(127, b"", said)}, 0.0, 1.0))
    assert fault.name == "node-silent"
    assert "/opt/new/bin/python3" in fault.found
    assert "ssh works, and this Python is not on the node" in fault.remedy


def test_this_machine_is_looked_at_where_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = "filesystems: {disk: {type: local, path: .}}\nlibraries: {data: {}, work: {}}\n"
    found = examine(parse_spec(text, base=tmp_path), None)
    missing = [each for each in found if each.name == "library-missing" and not each.ok]
    assert [each.found for each in missing] == [f"library work ({tmp_path}/work): No such file or directory"]
    assert list((tmp_path / "data").iterdir()) == []


def test_a_file_in_the_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    assert (
        gather(FactsRequest({"data": str(tmp_path / "data")})).libraries["data"].missing == "Not a directory"
    )


def test_what_the_spec_silences_is_told_with_the_reason_and_counts_for_nothing() -> None:
    spec = parse_spec(
        "provider: lab\nscheduler: {type: slurm}\nfilesystems: {shared: {type: moosefs, path: /mnt/grid}}\n"
        "libraries: {data: {}}\nsilence: {flock-missing: nobody locks here}\n"
    )
    broken = sound(locks={"flock": "Function not implemented", "fcntl": None})
    (fault,) = wrong(grid(node("compute1", broken), spec=spec))
    assert (fault.name, fault.level, fault.silenced) == ("flock-missing", "error", "nobody locks here")
