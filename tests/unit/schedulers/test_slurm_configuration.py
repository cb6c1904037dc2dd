"""The configuration of Slurm: what it holds for given grids, and that it is valid for any grid."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as thoroughness
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.schedulers.machines import CgroupVersion, NodeHardware, detect_cgroups, hardware_of_nodes
from gridwright.schedulers.slurm.configuration import (
    MIB,
    RELEASES,
    SlurmConfiguration,
    SlurmParameters,
    core_limit,
    parse_release,
    parse_slurmd_hardware,
    slurm_configuration,
)
from gridwright.schedulers.slurm.section import section_of
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.examples import examples

GIB = 1 << 30
STATE = Path("/mnt/grid/.gridwright")
MACHINE = NodeHardware(name="", sockets=2, cores_per_socket=8, threads_per_core=2, memory_bytes=64 * GIB)


def grid(provider: str = "local", **scheduler: object) -> GridSpec:
    settings = {"type": "slurm", **scheduler}
    extra = "" if provider == "lab" else "state: /mnt/grid/.gridwright\n"
    return parse_spec(
        f"""
name: example
provider: {provider}
nodes:
  compute: {{count: 3}}
  large: {{count: 1, cores: 8, memory: 60 GiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
scheduler: {settings}
{extra}"""
    )


def site(spec: GridSpec, machine: NodeHardware = MACHINE, **changed: Any) -> SlurmParameters:
    return SlurmParameters(
        **{
            "controller": "controller",
            "nodes": hardware_of_nodes(
                spec, dict.fromkeys(spec.nodes, machine), share_one_machine=spec.provider == "lab"
            ),
            "state": STATE,
            **changed,
        }
    )


QUEUES = {
    "batch": {"priority": 1},
    "night": {"priority": 10, "time": "8h", "cores": 8},
    "odd": {"cores": 7, "time": "90s"},
    "wide": {"nodes": ["large"]},
}
LAB_NODES = {"systemd": False, "share_one_machine": True}
GOLDEN: Mapping[str, tuple[GridSpec, Mapping[str, Any]]] = {
    "grid": (grid(queues=QUEUES), {}),
    "lab-v1": (grid("lab", queues=QUEUES), {"cgroups": CgroupVersion.V1, **LAB_NODES}),
    "lab-v2-22.05": (grid("lab"), {"cgroups": CgroupVersion.V2, **LAB_NODES}),
    "lab-v2-24.11": (grid("lab"), {"cgroups": CgroupVersion.V2, "release": (24, 11), **LAB_NODES}),
    "no-cgroups": (grid(), {"cgroups": CgroupVersion.NONE}),
    "no-cgroups-24.05": (grid(), {"cgroups": CgroupVersion.NONE, "release": (24, 5)}),
    "database-and-backup": (grid(accounting="slurmdbd", backup_controller=True), {}),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_files_are_the_golden_ones(name: str, pytestconfig: pytest.Config) -> None:
    """`pytest --snapshot-update` writes them anew: read what changed before you keep it."""
    spec, changed = GOLDEN[name]
    files = slurm_configuration(spec, site(spec, **changed)).files
    directory = Path(__file__).parent / "golden" / name
    if pytestconfig.getoption("--snapshot-update"):
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (directory / file).write_text(text)
    assert files == {path.name: path.read_text() for path in directory.iterdir()}


def settings(text: str) -> dict[str, list[str]]:
    """Read a file back as Slurm reads it: `name=value`, or a line of such pairs for a node or a queue."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        assert equals, f"{line!r} is no setting"
        assert re.fullmatch(r"[A-Za-z]+", name), line
        assert value, f"{name} has no value"
        assert value == value.strip(), line
        if name not in ("NodeName", "PartitionName"):
            assert " " not in value, line
        found.setdefault(name, []).append(value)
    return found


def pairs(line: str) -> dict[str, str]:
    first, *rest = line.split(" ")
    return {"": first} | dict(each.split("=", 1) for each in rest)


names = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)


def queues(groups: Collection[str]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {
        "cores": st.integers(1, 5000),
        "time": st.integers(1, 10**7).map(lambda s: f"{s}s"),
        "nodes": st.lists(st.sampled_from(sorted(groups)), min_size=1, unique=True),
    }
    each = st.fixed_dictionaries({"priority": st.integers(0, 65533)}, optional=fields)
    return st.dictionaries(names, each, min_size=1, max_size=5)


machines = st.builds(
    NodeHardware,
    name=st.just(""),
    sockets=st.integers(1, 4),
    cores_per_socket=st.integers(1, 64),
    threads_per_core=st.integers(1, 2),
    memory_bytes=st.integers(GIB, 4096 * GIB),
)


@st.composite
def configurations(draw: st.DrawFn) -> tuple[GridSpec, SlurmParameters, SlurmConfiguration]:
    groups = {
        name: {"count": count} | ({"cores": cores} if cores else {})
        for name, count, cores in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["compute", "large", "quick"]),
                    st.integers(1, 40),
                    st.none() | st.integers(1, 300),
                ),
                min_size=1,
                max_size=3,
                unique_by=lambda each: each[0],
            )
        )
    }
    provider = draw(st.sampled_from(["local", "lab"]))
    scheduler = {
        "type": "slurm",
        "queues": draw(queues(groups)),
        "accounting": draw(st.sampled_from(["jobcomp", "slurmdbd"])) if provider == "local" else "jobcomp",
        "backup_controller": draw(st.booleans()),
    }
    spec = parse_spec(
        f"provider: {provider}\nnodes: {groups}\nfilesystems: {{shared: {{type: local, path: /mnt/grid}}}}\n"
        f"scheduler: {scheduler}\n".replace("True", "true").replace("False", "false")
    )
    where = site(
        spec,
        draw(machines),
        release=draw(st.sampled_from(RELEASES)),
        cgroups=draw(st.sampled_from(list(CgroupVersion))),
        systemd=draw(st.booleans()),
        share_one_machine=provider == "lab",
    )
    return spec, where, slurm_configuration(spec, where)


@thoroughness(max_examples=examples(40), deadline=None)
@given(configurations())
def test_any_grid_has_a_configuration_that_can_be_read_back(
    drawn: tuple[GridSpec, SlurmParameters, SlurmConfiguration],
) -> None:
    spec, where, configuration = drawn
    assert slurm_configuration(spec, where) == configuration
    read = {name: settings(text) for name, text in configuration.files.items()}
    main = read["slurm.conf"]
    several = {"SlurmctldHost", "NodeName", "PartitionName"}
    for file in read.values():
        assert [name for name, values in file.items() if len(values) > 1 and name not in several] == []
    assert len(main["SlurmctldHost"]) == 1 + section_of(spec).backup_controller
    assert ("slurmdbd.conf" in read) == (section_of(spec).has_database)
    assert int(main["MessageTimeout"][0]) >= 4
    assert [pairs(line)[""] for line in main["PartitionName"]] == list(spec.scheduler.queues)
    assert [pairs(line)["Default"] for line in main["PartitionName"]].count("YES") == 1


@thoroughness(max_examples=examples(40), deadline=None)
@given(configurations())
def test_no_queue_can_use_more_cores_than_the_spec_says(
    drawn: tuple[GridSpec, SlurmParameters, SlurmConfiguration],
) -> None:
    from ClusterShell.NodeSet import NodeSet

    spec, where, configuration = drawn
    cores = {node.name: node.usable_cores for node in where.nodes}
    lines = settings(configuration.files["slurm.conf"])["PartitionName"]
    for line, (name, queue) in zip(lines, spec.scheduler.queues.items(), strict=True):
        partition = pairs(line)
        per_node = int(partition.get("MaxCPUsPerNode", 10**6))
        most = sum(min(cores[node], per_node) for node in NodeSet(partition["Nodes"]))
        assert most > 0
        groups = queue.nodes or spec.nodes
        own = {node for group in groups for node in spec.nodes[group].node_names(group)}
        assert {*NodeSet(partition["Nodes"])} <= own
        there = sum(cores[node] for node in own)
        allowed = queue.cores or there
        assert most <= allowed
        if most < min(allowed, there):
            assert any(f"queue {name} " in each.text for each in configuration.findings)


@thoroughness(max_examples=examples(40), deadline=None)
@given(configurations())
def test_jobs_get_no_more_than_a_node_was_said_to_have(
    drawn: tuple[GridSpec, SlurmParameters, SlurmConfiguration],
) -> None:
    from ClusterShell.NodeSet import NodeSet

    _, where, configuration = drawn
    main = settings(configuration.files["slurm.conf"])
    described = {name: pairs(line) for line in main["NodeName"] for name in NodeSet(pairs(line)[""])}
    assert set(described) == {node.name for node in where.nodes}
    for node in where.nodes:
        line = described[node.name]
        given_out = int(line["CPUs"]) - int(line.get("CoreSpecCount", 0))
        assert given_out == node.usable_cores
        assert int(line["CPUs"]) == int(line["Sockets"]) * int(line["CoresPerSocket"])
        assert int(line["RealMemory"]) == node.memory_bytes // MIB
        # A job that names no memory must fit on a node with all of the node's cores.
        memory = max(int(line["RealMemory"]), given_out)
        assert int(main["DefMemPerCPU"][0]) * given_out <= memory
        for partition in map(pairs, main["PartitionName"]):
            if node.name in NodeSet(partition["Nodes"]):
                assert int(partition.get("DefMemPerCPU", 0)) * given_out <= memory


def test_a_queue_of_few_cores_spreads_so_that_wide_jobs_fit() -> None:
    nodes = [NodeHardware(name=f"n{i}", cores_per_socket=4, memory_bytes=GIB) for i in range(1, 4)]
    assert core_limit(nodes, 8) == core_limit(nodes[:2], 8)
    assert (core_limit(nodes, 8).per_node, core_limit(nodes, 8).cores) == (4, 8)
    assert (core_limit(nodes, 6).per_node, core_limit(nodes, 6).cores) == (3, 6)
    assert core_limit(nodes, 1).cores == 1
    assert core_limit(nodes, 7).cores == 6


def test_nodes_of_a_lab_have_the_cores_that_the_spec_wants() -> None:
    spec = grid("lab")
    nodes = {
        node.name: node
        for node in hardware_of_nodes(spec, dict.fromkeys(spec.nodes, MACHINE), share_one_machine=True)
    }
    assert nodes["large1"].all_cores == 8
    assert nodes["compute1"].all_cores == 16
    assert nodes["large1"].memory_bytes == 60 * GIB


def test_real_nodes_keep_their_shape_and_set_cores_aside() -> None:
    spec = grid()
    text = slurm_configuration(spec, site(spec)).files["slurm.conf"]
    assert (
        "NodeName=large1 CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=61440 CoreSpecCount=8"
        in text
    )


def test_what_slurmd_says_of_its_node_is_read() -> None:
    printed = (
        "NodeName=n1 CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=16 ThreadsPerCore=2 "
        "RealMemory=257000\n"
        "UpTime=3-01:02:03\n"
    )
    assert parse_slurmd_hardware(printed) == NodeHardware(
        name="n1", sockets=2, cores_per_socket=16, threads_per_core=2, memory_bytes=257000 * MIB
    )


@given(st.text() | st.from_regex(r"NodeName=\w* CoresPerSocket=\w* ThreadsPerCore=\d* RealMemory=\d*"))
def test_what_slurmd_does_not_say_is_an_error_of_the_node(printed: str) -> None:
    try:
        facts = parse_slurmd_hardware(printed)
    except GridwrightError:
        return
    assert facts.usable_cores > 0
    assert facts.memory_bytes > 0


def test_many_names_are_folded_and_few_are_not() -> None:
    assert fold_hosts(["compute1", "compute2", "compute10"]) == "compute[1-2,10]"
    assert fold_hosts(["compute1"]) == "compute1"


@pytest.mark.parametrize(
    ("text", "release"),
    [("22.05", (22, 5)), ("slurm-wlm 22.05.8", (22, 5)), ("slurm 23.11.4", (23, 11)), ("24.11.1", (24, 11))],
)
def test_releases_are_read(text: str, release: tuple[int, int]) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize("text", ["21.08", "25.05", "slurm", "", "22", "22.13"])
def test_other_releases_are_refused_with_those_that_are_known(text: str) -> None:
    with pytest.raises(GridwrightError, match="no release of Slurm") as refused:
        parse_release(text)
    assert "22.05, 23.02, 23.11, 24.05, 24.11" in str(refused.value)


@pytest.mark.parametrize(
    ("mounts", "found"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", CgroupVersion.V2),
        (
            "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
            "cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n"
            "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
            CgroupVersion.V1,
        ),
        ("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n", CgroupVersion.NONE),
        ("proc /proc proc rw 0 0\n", CgroupVersion.NONE),
        ("", CgroupVersion.NONE),
    ],
)
def test_control_groups_are_seen_in_the_mounts(mounts: str, found: CgroupVersion) -> None:
    assert detect_cgroups(mounts) is found


def test_every_setting_is_explained_to_administrators() -> None:
    page = (Path(__file__).parents[3] / "docs" / "slurm.md").read_text()
    explained = set(re.findall(r"`([A-Za-z]+)", page))
    written = {
        name
        for spec, changed in GOLDEN.values()
        for text in slurm_configuration(spec, site(spec, **changed)).files.values()
        for name in settings(text)
    }
    assert len(written) > 50
    assert written - explained == set()


@pytest.mark.parametrize(
    ("provider", "count", "interval"), [("lab", 3, 10), ("lab", 40, 40), ("local", 40, 60)]
)
def test_a_machine_that_all_nodes_share_looks_at_one_of_them_a_second(
    provider: str, count: int, interval: int
) -> None:
    extra = "" if provider == "lab" else "state: /mnt/grid/.gridwright\n"
    spec = parse_spec(
        f"name: g\nprovider: {provider}\nnodes: {{compute: {{count: {count}}}}}\n"
        f"filesystems: {{s: {{type: local, path: /mnt/grid}}}}\nscheduler: {{type: slurm}}\n{extra}"
    )
    parameters = replace(site(spec), share_one_machine=provider == "lab")
    text = slurm_configuration(spec, parameters).files["slurm.conf"]
    assert settings(text)["HealthCheckInterval"] == [str(interval)]
