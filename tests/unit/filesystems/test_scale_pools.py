"""Storage pools: disks of each in the right one, rules for files, and nothing of others' ever removed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.desired import CALLBACK, ScaleCluster
from gridwright.filesystems.scale.administration.difference import callbacks_of, has_callback
from gridwright.filesystems.scale.administration.observed import ScaleError
from gridwright.filesystems.scale.administration.order import (
    PolicyDifference,
    ScaleCommand,
    commands,
    install_policy,
    mm,
    policy_text,
    statements,
)
from gridwright.filesystems.scale.cluster import filled_pools, named_servers, scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.pool_rules import pool_problems, pools_of_provider
from gridwright.spec.provider import ProviderKind, SharedVolumes
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of
from tests.support.scale_double.words import Refused

TIERS: dict[str, Any] = {
    "pools": {"capacity": 1, "archive": 2},
    "migrations": {"system": {"to": "capacity"}, "capacity": {"to": "archive", "above": 95, "until": 80}},
}
APART: dict[str, Any] = {
    "pools": {"data": 2},
    "metadata_only": True,
    "metadata_block_size": "1 MiB",
    "block_size": "8 MiB",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disks")


def bring(wanted: ScaleCluster, cluster: Cluster, **options: bool) -> list[str]:
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done, **options)
    return [each.name for each in done]


def notes(wanted: ScaleCluster, cluster: Cluster) -> tuple[str, ...]:
    return run(wanted, InProcess(cluster), []).notes


def emptied(place: Path) -> None:
    for each in place.iterdir():
        each.write_text("empty")


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Pools, and fields that go with them."""
    names = draw(st.lists(st.sampled_from(("data", "capacity", "Data", "x1")), min_size=1, unique=True))
    fields: dict[str, Any] = {"pools": {name: draw(st.integers(1, 2)) for name in names}}
    fields["metadata_only"] = draw(st.booleans())
    if fields["metadata_only"]:
        fields["metadata_block_size"] = draw(st.sampled_from((None, "256 KiB", "4 MiB")))
    holding = names if fields["metadata_only"] else ["system", *names]
    fields["default_pool"] = draw(st.sampled_from(holding))
    order = draw(st.permutations(holding))
    # Each pool leads to the next one of some order, so that no way goes round.
    fields["migrations"] = {
        one: {"to": other} for one, other in pairwise(order) if draw(st.booleans())
    } or None
    return fields


@settings(max_examples=20, deadline=None)
@given(
    fields=layouts(),
    replicas=st.sampled_from((1, 2)),
    pairs=st.integers(2, 3),
    interrupted=st.integers(0, 16),
    data=st.data(),
)
def test_files_go_where_the_spec_has_them_however_far_a_first_run_came(
    place: Path, fields: dict[str, Any], replicas: int, pairs: int, interrupted: int, data: st.DataObject
) -> None:
    emptied(place)
    wanted = wanted_of(place, pairs, 1, 1, replicas, **fields)
    assert ScaleCluster.from_document(json.loads(json.dumps(wanted.document()))) == wanted
    cluster = Cluster()
    started = InProcess(cluster)
    for command in commands(wanted)[:interrupted]:
        started.carry_out(command)
    bring(wanted, cluster)
    assert bring(wanted, cluster) == []
    assert cluster.pool_of_new_files("lake") == fields["default_pool"]
    for each in wanted.nsds:
        there = cluster.nsds[each.name]
        assert (there.pool, there.usage) == (each.pool, each.usage)
    assert {each.usage for each in wanted.nsds if each.pool != "system"} == {"dataOnly"}
    assert set(cluster.filesystems["lake"].layouts.values()) == {"scatter"}
    assert has_callback(cluster.callbacks) == (fields["migrations"] is not None)
    # Each server is the first one of as many disks in each pool.
    firsts = Counter((each.pool, each.servers[0]) for each in wanted.nsds)
    for name, count in fields["pools"].items():
        assert {firsts[name, server] for server in wanted.servers} == {count}
    # Pools grow, and so does the number of pairs.
    grown = {name: count + data.draw(st.integers(0, 1)) for name, count in fields["pools"].items()}
    larger = wanted_of(place, pairs + 1, 1, 1, replicas, **{**fields, "pools": {**grown, "late": 1}})
    bring(larger, cluster)
    assert bring(larger, cluster) == []
    assert {each.name for each in larger.nsds} == set(cluster.nsds)
    assert cluster.nsds["grid_lake_p1_late_v01"].pool == "late"


def test_a_first_run_says_where_files_go_before_anybody_can_make_one(tmp_path: Path) -> None:
    cluster = Cluster()
    done = bring(wanted_of(tmp_path, 1, 1, 1, **TIERS), cluster)
    assert done[-4:] == ["mmcrfs", "mmchpolicy", "mmaddcallback", "mmmount"]
    # Without a rule Scale itself would put new files in the first pool that is not system.
    assert cluster.pool_of_new_files("lake") == "system"
    cluster.filesystems["lake"].policy = ""
    assert cluster.pool_of_new_files("lake") == "capacity"
    assert bring(wanted_of(tmp_path, 1, 1, 1, **TIERS), cluster) == ["mmchpolicy"]
    assert cluster.callbacks[CALLBACK]["event"] == "lowDiskSpace,noDiskSpace"


def test_a_pool_that_comes_later_gets_no_file_before_its_rules(tmp_path: Path) -> None:
    """Scale itself would put new files there as soon as its first disk is added."""
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    there = InProcess(cluster)
    wanted = wanted_of(tmp_path, 1, 1, 1, **TIERS)
    pools = []
    for command in run(wanted, there, [], check=True).commands:
        there.carry_out(command)
        pools.append(cluster.pool_of_new_files("lake"))
    assert set(pools) == {"system"}
    assert set(cluster.data_pools("lake")) == {"system", "capacity", "archive"}
    assert bring(wanted, cluster) == []
    # Where new files are to go to the pool that comes, there is nothing to say before.
    other = Cluster()
    for each in tmp_path.iterdir():
        each.write_text("empty")
    bring(wanted_of(tmp_path, 1, 1, 1), other)
    done = bring(wanted_of(tmp_path, 1, 1, 1, pools={"capacity": 1}, default_pool="capacity"), other)
    assert done.count("mmchpolicy") == 1


def test_metadata_have_disks_and_blocks_of_their_own(tmp_path: Path) -> None:
    cluster = Cluster()
    wanted = wanted_of(tmp_path, 1, 1, 1, **APART)
    bring(wanted, cluster)
    made = cluster.filesystems["lake"]
    assert (made.block_size, made.metadata_block_size) == (8 << 20, 1 << 20)
    assert {each.pool: each.usage for each in cluster.nsds.values()} == {
        "system": "metadataOnly",
        "data": "dataOnly",
    }
    (command,) = (each for each in commands(wanted) if each.name == "mmcrfs")
    assert command.stanzas.startswith("%pool: pool=system\n  usage=metadataOnly\n  layoutMap=scatter\n")
    assert "%pool: pool=data\n  usage=dataOnly\n  layoutMap=scatter\n" in command.stanzas


def test_without_pools_nothing_is_said_of_any() -> None:
    """What was made before there were pools is not touched."""
    for each in commands(wanted_of(Path("/nowhere"), 1, 1, 0)):
        assert "%pool" not in each.stanzas
        assert each.name not in ("mmchpolicy", "mmaddcallback")


def test_other_rules_of_the_grid_take_the_place_of_its_own(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1, **TIERS), cluster)
    other = wanted_of(tmp_path, 1, 1, 1, pools=TIERS["pools"], default_pool="archive")
    assert bring(other, cluster) == ["mmchpolicy"]
    assert cluster.pool_of_new_files("lake") == "archive"
    assert "MIGRATE" not in cluster.filesystems["lake"].policy


def test_rules_that_others_wrote_are_told_and_never_removed(tmp_path: Path) -> None:
    cluster = Cluster()
    wanted = wanted_of(tmp_path, 1, 1, 1, **TIERS)
    bring(wanted, cluster)
    foreign = "/* ours */ RULE 'logs' SET POOL 'archive' WHERE NAME LIKE '%.log  /* x */'\n"
    # With all that the grid wants beside it there is nothing to say.
    both = foreign + policy_text(wanted.filesystems[0].rules)
    cluster.filesystems["lake"].policy = both
    assert (bring(wanted, cluster), notes(wanted, cluster)) == ([], ())
    cluster.filesystems["lake"].policy = foreign + "RULE 'gridwright-new-files' SET POOL 'archive'\n"
    before = cluster.filesystems["lake"].policy
    assert bring(wanted, cluster) == []
    (note,) = notes(wanted, cluster)
    assert "rules that others wrote, and is left as it is" in note
    assert "add RULE 'gridwright-new-files' SET POOL 'system'" in note
    assert "remove RULE 'gridwright-new-files' SET POOL 'archive'" in note
    assert cluster.filesystems["lake"].policy == before


def test_macros_before_the_first_rule_are_somebody_s() -> None:
    wanted = ("RULE 'gridwright-new-files' SET POOL 'data'",)
    found = PolicyDifference(wanted, f"define(is_old, (DAYS(x) > 3))\n{wanted[0]}")
    assert (found.others, found.differs) == (("define(is_old, (DAYS(x) > 3))",), False)
    assert PolicyDifference(wanted, "No policy file was installed for file system 'lake'.").others == ()


_WORDS = st.sampled_from(
    ("RULE ", "'a''RULE b'", "/* RULE 'x' */", "SET POOL ", "'data'", "\n ", "gridwright-", "'")
)


@given(st.lists(_WORDS, max_size=12).map("".join), st.lists(st.sampled_from("abc"), max_size=3, unique=True))
def test_what_is_written_is_read_back_and_any_text_is_read(text: str, pools: list[str]) -> None:
    statements(text)
    rules = tuple(f"RULE 'gridwright-{each}' SET POOL '{each}'" for each in pools)
    assert statements(policy_text(rules)) == rules
    assert not PolicyDifference(rules, policy_text(rules)).differs


def test_a_callback_of_the_site_s_is_enough_and_another_one_of_this_name_is_told(tmp_path: Path) -> None:
    cluster = Cluster()
    wanted = wanted_of(tmp_path, 1, 1, 1, **TIERS)
    cluster.callbacks["MIGRATION"] = {
        "command": "/usr/lpp/mmfs/bin/mmstartpolicy",
        "event": "noDiskSpace,LowDiskSpace",
    }
    assert "mmaddcallback" not in [
        *bring(replace(wanted, filesystems=()), cluster),
        *bring(wanted, cluster),
    ]
    cluster.callbacks = {CALLBACK: {"command": "/opt/mail", "event": "lowDiskSpace"}}
    assert bring(wanted, cluster) == []
    assert any(f"mmdelcallback {CALLBACK}" in each for each in notes(wanted, cluster))


def test_callbacks_are_read_as_the_manual_shows_them() -> None:
    printed = "test1\n        command       = /tmp/myScript\n        event         = startup\n\ntest2\n"
    printed += (
        "        command       = /tmp/myScript2\n        event         = shutdown\n        parms = %upNodes\n"
    )
    assert callbacks_of(printed) == {
        "test1": {"command": "/tmp/myScript", "event": "startup"},
        "test2": {"command": "/tmp/myScript2", "event": "shutdown", "parms": "%upNodes"},
    }


@given(st.text(max_size=200))
def test_any_text_is_read_as_callbacks(text: str) -> None:
    has_callback(callbacks_of(text))


def test_disks_that_are_in_another_pool_are_told_and_left(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1, pools={"data": 1}), cluster)
    apart = wanted_of(tmp_path, 1, 1, 1, pools={"data": 1}, metadata_only=True)
    assert bring(apart, cluster) == ["mmchpolicy"]
    (note,) = notes(apart, cluster)
    assert "are dataAndMetadata, and the spec has metadataOnly: mmchdisk lake change" in note
    moved = replace(
        apart, nsds=tuple(replace(each, pool="other") if each.pool == "data" else each for each in apart.nsds)
    )
    assert any("in pool data, and the spec has pool other" in each for each in notes(moved, cluster))


def test_rules_wait_for_a_pool_whose_server_is_silent(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    cluster.nodes["nsd2"].alive = False
    cluster.settle()
    wanted = wanted_of(tmp_path, 1, 1, 1, pools={"data": 1}, default_pool="data")
    assert bring(wanted, cluster) == []
    assert any("rules of lake wait: pool data" in each for each in notes(wanted, cluster))
    cluster.nodes["nsd2"].alive = True
    assert [each for each in bring(wanted, cluster) if "disk" in each or "policy" in each] == [
        "mmadddisk",
        "mmchpolicy",
    ]
    assert cluster.pool_of_new_files("lake") == "data"


def test_nothing_is_done_where_it_is_only_looked(tmp_path: Path) -> None:
    cluster = Cluster()
    bring(wanted_of(tmp_path, 1, 1, 1), cluster)
    calls = len(cluster.calls)
    wanted = wanted_of(tmp_path, 1, 1, 1, **TIERS)
    found = run(wanted, InProcess(cluster), [], check=True)
    assert [each.name for each in found.commands if each.name != "mmchconfig"] == [
        *("mmcrnsd", "mmchpolicy", "mmadddisk", "mmchpolicy", "mmaddcallback")
    ]
    assert len(cluster.calls) == calls


def test_the_double_refuses_what_scale_does(tmp_path: Path) -> None:
    """Else tests that pass would say little."""
    wanted, cluster = wanted_of(tmp_path, 1, 1, 1, **APART), Cluster()
    bring(wanted, cluster)
    there = InProcess(cluster)
    lake = wanted.filesystems[0]
    for rules in (
        ("RULE 'a' SET POOL 'nowhere'",),
        ("RULE 'a' SET POOL 'system'",),
        ("RULE 'a' SET POOL",),
        ("RULE 'a' MIGRATE FROM POOL 'data' THRESHOLD(10,20) WEIGHT(X) TO POOL 'data'",),
    ):
        with pytest.raises(ScaleError, match="mmchpolicy failed"):
            there.carry_out(install_policy(replace(lake, rules=rules)))
    policy = cluster.filesystems["lake"].policy
    test = mm("mmchpolicy", "lake", "{stanzas}", "-I", "test", why="", stanzas="RULE 'a' SET POOL 'data'\n")
    there.carry_out(test)
    assert cluster.filesystems["lake"].policy == policy
    for pool, usage, why in (("data", "dataAndMetadata", "incompatible"), ("a-b", "dataOnly", "not valid")):
        disk = f"%nsd: device=/dev/x nsd=n servers=nsd1 usage={usage} failureGroup=1 pool={pool}\n"
        with pytest.raises(ScaleError, match=why):
            there.carry_out(mm("mmcrnsd", "-F", "{stanzas}", "-v", "yes", why="", stanzas=disk))
    cluster.filesystems["lake"].policy = ""
    for each in cluster.nsds.values():
        each.usage = "metadataOnly"
    with pytest.raises(Refused, match="no space"):
        cluster.pool_of_new_files("lake")


def on_site(**fields: object) -> ScaleFileSystem:
    pairs = [
        {
            "servers": [f"s{number}a", f"s{number}b"],
            "disks": [f"/dev/mapper/meta{number}"],
            "pools": {"data": [f"/dev/mapper/data{number}{each}" for each in "abc"]},
        }
        for number in (1, 2)
    ]
    return ScaleFileSystem.model_validate({"type": "scale", "path": "/gpfs", "pairs": pairs, **fields})


def test_a_site_names_the_disks_of_its_pools() -> None:
    spec = on_site(metadata_only=True, replicas=2)
    servers = named_servers(spec)
    assert servers is not None
    cluster = scale_cluster("g", "fs", spec, servers.machines, servers.disks)
    assert {each.device: (each.pool, each.usage) for each in cluster.nsds if "1" in each.device} == {
        "/dev/mapper/meta1": ("system", "metadataOnly"),
        **{f"/dev/mapper/data1{each}": ("data", "dataOnly") for each in "abc"},
    }
    assert {each.failure_group for each in cluster.nsds if each.pool == "data"} == {101, 102}
    assert cluster.filesystems[0].rules == ("RULE 'gridwright-new-files' SET POOL 'data'",)
    assert len({each.name for each in cluster.nsds}) == 8


def test_files_are_where_new_ones_go_and_where_they_move_to() -> None:
    pools = {name: {"disks": {"type": "x"}} for name in ("a", "b", "c")}
    nsd = {"instance": "x", "count": 2, "disks": {"type": "x"}}
    spec = ScaleFileSystem.model_validate(
        {
            "type": "scale",
            "path": "/gpfs",
            "nsd": nsd,
            "pools": pools,
            "default_pool": "b",
            "migrations": {"b": {"to": "c"}, "system": {"to": "a"}},
        }
    )
    assert filled_pools(spec) == ("b", "c")
    assert spec.file_disks is spec.pool_disks["b"]


# Rules of storage pools refuse what cannot be, and nothing else.


def test_pools_that_a_cloud_does_not_make_are_refused_and_not_passed_over() -> None:
    """Else its servers would be made, and the pool's volumes not."""

    class Elsewhere(ProviderKind):
        name = "elsewhere"
        shared_volumes: ClassVar[SharedVolumes | None] = SharedVolumes()

    class Here(Elsewhere):
        shared_volumes = SharedVolumes(has_pools=True)

    fields: dict[str, object] = {"nsd": {}, "pools": {"data": {}}}
    ((path, error),) = pools_of_provider(fields, Elsewhere())
    assert path == ("pools",)
    assert "makes the disks of nsd alone" in error.text
    assert not list(pools_of_provider({"nsd": {}}, Elsewhere()))
    assert not list(pools_of_provider(fields, Here()))


_PLAIN: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 40) | st.sampled_from(("system", "data", "cold", "")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("system", "data", "to")), inner)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ("nsd", "pairs", "remote", "pools", "default_pool", "migrations", "metadata_only", "replicas")
        ),
        _PLAIN,
    )
)
def test_rules_pass_over_what_has_the_wrong_type(fields: dict[str, object]) -> None:
    """The model tells of that, with its place."""
    list(pool_problems(fields))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=6))
def test_a_circle_is_refused_and_nothing_else_is(leads: list[tuple[str, str]]) -> None:
    migrations = {source: {"to": target} for source, target in leads}
    pools = {name: {"disks": {"type": "x"}} for name in "abcd"}
    refused = [each for _, each in pool_problems({"pools": pools, "migrations": migrations})]
    graph = {source: each["to"] for source, each in migrations.items()}

    def returns(source: str) -> bool:
        place = source
        for _ in graph:
            place = graph.get(place, "")
            if place == source:
                return True
        return False

    assert bool(refused) == any(map(returns, graph))
