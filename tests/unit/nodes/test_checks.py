"""What the checks of nodes find, each with the node it is about, and nothing on sound nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gridwright import __version__
from gridwright.nodes.checks import NodeFinding, Seen, check_nodes
from gridwright.nodes.doctor import examine, seen_of
from gridwright.nodes.facts import LibraryFacts, NodeFacts, library_facts
from gridwright.spec import GridSpec, parse_spec

GIB = 2**30
SPEC = parse_spec(
    """
provider: lab
nodes:
  compute: {count: 3, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid}
libraries:
  data: {requires: 1 MB/s/core}
scheduler: {type: slurm}
"""
)


def sound(**changes: object) -> LibraryFacts:
    usual: dict[str, object] = {
        "path": "/mnt/grid/data",
        "filesystem_type": "fuse.mfs",
        "total_bytes": 100 * GIB,
        "available_bytes": 60 * GIB,
        "inodes": 1000,
        "inodes_free": 900,
    }
    return LibraryFacts.model_validate(usual | changes)


def node(name: str, library: LibraryFacts | None = None, **changes: Any) -> NodeFacts:
    usual: dict[str, object] = {
        "hostname": name,
        "version": __version__,
        "time": 1000.0,
        "cpus": 8,
        "memory_bytes": 4 * GIB,
        "libraries": {"data": library or sound()},
    }
    return NodeFacts.model_validate(usual | changes)


def grid(*nodes: NodeFacts, spec: GridSpec = SPEC) -> Seen:
    return Seen(spec, {each.hostname: each for each in nodes}, {}, {})


def test_sound_nodes_have_no_finding() -> None:
    assert check_nodes(grid(node("compute1"), node("compute2"), node("compute3"))) == []


@pytest.mark.parametrize(
    ("library", "name", "found"),
    [
        ({"hangs": True}, "library-hangs", "library data (/mnt/grid/data) does not answer"),
        (
            {"missing": "No such file or directory"},
            "library-missing",
            "library data (/mnt/grid/data): No such file or directory",
        ),
        (
            {"refused": "Read-only file system"},
            "library-refuses",
            "library data (/mnt/grid/data): Read-only file system",
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
    ],
)
def test_a_library_that_is_not_right_on_one_node(library: dict[str, object], name: str, found: str) -> None:
    (finding,) = check_nodes(grid(node("compute1"), node("compute2", sound(**library)), node("compute3")))
    assert (finding.name, finding.nodes, finding.found) == (name, ("compute2",), found)


def test_the_same_finding_of_several_nodes_is_one() -> None:
    hangs = sound(hangs=True)
    (finding,) = check_nodes(grid(*(node(f"compute{n}", hangs) for n in (1, 2, 3))))
    assert finding.nodes == ("compute1", "compute2", "compute3")


def test_a_library_on_a_local_disk_by_mistake() -> None:
    ext4 = sound(filesystem_type="ext4")
    (finding,) = check_nodes(grid(node("compute1"), node("compute2", ext4), node("compute3")))
    assert (finding.name, finding.nodes) == ("library-elsewhere", ("compute2",))
    assert "ext4" in finding.found and "fuse.mfs" in finding.expected


def test_a_local_file_system_may_differ() -> None:
    spec = parse_spec(
        "provider: lab\nscheduler: {type: slurm}\nfilesystems: {disk: {type: local, path: /mnt/grid}}\n"
    )
    seen = grid(node("compute1"), node("compute2", sound(filesystem_type="ext4")), spec=spec)
    assert check_nodes(seen) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"memory_bytes": GIB}, "memory-missing"), ({"version": "0.0.9"}, "version-differs")],
)
def test_a_node_that_differs(changes: dict[str, Any], name: str) -> None:
    (finding,) = check_nodes(grid(node("compute1"), node("compute2", **changes)))
    assert (finding.name, finding.nodes) == (name, ("compute2",))


def test_cores_are_held_against_the_spec_where_nodes_are_machines() -> None:
    spec = parse_spec(
        "nodes: {compute: {count: 2, cores: 16}}\nscheduler: {type: slurm}\n"
        "filesystems: {disk: {type: local, path: /data}}\n"
    )
    (finding,) = check_nodes(grid(node("compute1"), node("compute2", cpus=16), spec=spec))
    assert (finding.name, finding.nodes, finding.found) == ("cores-missing", ("compute1",), "8 CPUs")


@pytest.mark.parametrize(
    ("time", "wrong"), [(1005.0, False), (1012.1, True), (997.9, True), (1011.9, False), (998.1, False)]
)
def test_clocks_are_judged_beyond_the_time_of_the_answer(time: float, wrong: bool) -> None:
    answer = (0, node("compute1", time=time).model_dump_json().encode(), b"")
    seen = seen_of(SPEC, {"compute1": answer}, before=1000.0, after=1010.0)
    assert [each.name for each in check_nodes(seen)] == (["clock-apart"] if wrong else [])


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (None, "no answer in time"),
        ((255, b"", b"ssh: connect to host compute1 port 22: No route to host"), "No route to host"),
        ((1, b"", b""), "exit status 1 and no facts"),
        ((0, b"Welcome to compute1!\n", b""), "exit status 0 and no facts"),
    ],
)
def test_a_node_that_does_not_answer_is_a_finding(
    answer: tuple[int, bytes, bytes] | None, found: str
) -> None:
    (finding,) = check_nodes(seen_of(SPEC, {"compute1": answer}, 0.0, 1.0))
    assert (finding.level, finding.name, finding.nodes) == ("error", "node-silent", ("compute1",))
    assert found in finding.found


def test_this_machine_is_looked_at_where_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = "filesystems: {disk: {type: local, path: .}}\nlibraries: {data: {}, work: {}}\n"
    findings = examine(parse_spec(text, base=tmp_path), None)
    missing = [each for each in findings if each.name == "library-missing"]
    assert [each.found for each in missing] == [f"library work ({tmp_path}/work): No such file or directory"]
    assert list((tmp_path / "data").iterdir()) == []


def test_a_file_in_the_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    assert library_facts(tmp_path / "data").missing == "Not a directory"


def test_every_finding_says_what_to_do() -> None:
    broken: list[Callable[[], list[NodeFinding]]] = [
        lambda: check_nodes(grid(node("compute1", sound(hangs=True), version="0", memory_bytes=1))),
        lambda: check_nodes(seen_of(SPEC, {"compute1": None}, 0.0, 1.0)),
    ]
    for make in broken:
        for finding in make():
            assert finding.why and finding.remedy and finding.expected
