"""What is left of a grid with dead parts follows from its limits, and what is gone never counts as there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import Operation, Resource, Route, Use, affected_files_part
from gridwright.model.degraded import (
    DegradedGrid,
    DegradedLibrary,
    degraded_grid,
    failure_domains,
    find_failure_domains,
    single_failures,
)
from gridwright.model.grid import GridModel, grid_model
from tests.support.examples import examples
from tests.unit.model.test_predict import CATALOG, spec

DISKS = {"type": "gp3", "count": 12, "size": "250 GiB", "throughput": "250 MiB/s"}
LUSTRE = {
    "type": "lustre",
    "path": "/shared",
    "oss": {"instance": "c6in.8xlarge", "count": 4, "disks": DISKS},
    "mds": {"instance": "m7a.2xlarge", "disks": {"type": "gp3", "size": "100 GiB"}},
    "stripe_count": 1,
}


def grid(shared: dict[str, Any], **sections: Any) -> GridModel:
    described = {
        "nodes": {"compute": {"instance": "i3en.6xlarge", "count": 5}},
        "filesystems": {
            "shared": shared,
            "local": {"type": "local", "path": "/local", "disks": {"type": "instance-store"}},
        },
        "libraries": {
            "data": {"filesystem": "shared", "requires": "75 MB/s/core"},
            "work": {"filesystem": "local", "requires": "125 MB/s/core"},
        },
        **sections,
    }
    return grid_model(spec(**described), CATALOG)


def without(model: GridModel, *names: str) -> DegradedGrid:
    return degraded_grid(model, find_failure_domains(model, names))


def library(left: DegradedGrid, name: str) -> DegradedLibrary:
    return next(each for each in left.libraries if each.library == name)


def test_a_dead_server_takes_its_share_of_rates_and_files_and_no_more() -> None:
    left = without(grid(LUSTRE), "oss2")
    data = library(left, "data")
    assert (data.files, data.files_part) == ("unavailable", 0.25), "one stripe: a file is on one server"
    assert data.rates["read"].part == pytest.approx(3 / 4)
    assert data.met is True, "134 MB/s per core of three servers are more than the 75 that are required"
    assert data.holds is False, "jobs on the files that are gone wait, whatever the rates"
    assert library(left, "work").rates["write"].part == 1
    assert library(left, "work").holds is True
    assert left.holds is False


def test_files_over_all_targets_all_wait_for_one_server() -> None:
    assert library(without(grid({**LUSTRE, "stripe_count": -1}), "oss1"), "data").files_part == 1


def test_servers_with_disks_of_their_own_take_their_files_with_them() -> None:
    own = {"instance": "i3en.6xlarge", "count": 2, "disks": {"type": "instance-store"}}
    model = grid({**LUSTRE, "oss": own})
    assert library(without(model, "oss1"), "data").files == "lost"
    assert library(without(grid(LUSTRE), "ost1"), "data").files == "lost", "a dead volume is gone, too"


def test_a_target_of_a_dead_server_does_not_die_twice() -> None:
    model = grid(LUSTRE)
    server, both = without(model, "oss1"), without(model, "oss1", "ost12")
    assert library(both, "data").rates["read"].part == pytest.approx(0.75)
    assert library(both, "data").files_part == library(server, "data").files_part
    assert library(without(model, "oss1", "ost13"), "data").rates["read"].part == pytest.approx(35 / 48)


def test_without_metadata_nothing_is_left_and_without_mgs_nothing_changes() -> None:
    model = grid({**LUSTRE, "mgs": {"instance": "m7a.large"}})
    dead = library(without(model, "mds1"), "data")
    assert (dead.files, dead.files_part, dead.rates["read"].bytes_per_s, dead.holds) == (
        "unavailable",
        1,
        0,
        False,
    )
    assert without(model, "mgs1").holds is True


def test_rates_that_a_run_measured_stay_those_of_nodes_that_are_left() -> None:
    model = grid(LUSTRE)
    measured = Resource("measured", "what a run measured", "node", 2.4e9, "a run")
    work: dict[Operation, Route] = {"write": Route((Use(measured),)), "read": Route((Use(measured),))}
    measuring = replace(model.alike, routes={**model.alike.routes, "work": work})
    left = without(replace(model, groups=(measuring,)), "compute1", "oss1")
    assert library(left, "work").rates["write"].bytes_per_s == pytest.approx(4 * 2.4e9)
    assert library(left, "work").rates["write"].bound_by == "measured"


def test_a_dead_node_leaves_more_of_what_is_shared_and_takes_its_own_files() -> None:
    model = grid(LUSTRE)
    left = without(model, "compute3")
    assert (left.nodes, left.cores) == (4, 48)
    work = library(left, "work")
    assert work.files == "lost"
    assert work.files_part == pytest.approx(0.2)
    assert work.holds is True, "work may be lost with a node, unless the requirements say otherwise"
    assert left.holds is True
    strict = grid(LUSTRE, requirements={"cores": 48, "availability": {"lose_work_with_node": False}})
    assert library(without(strict, "compute3"), "work").holds is False
    short = without(grid(LUSTRE, requirements={"cores": 60}), "compute3")
    assert short.holds is False
    assert any("48 physical cores, and 60 are required" in why for why in short.why)


def test_the_last_node_leaves_nothing() -> None:
    model = grid(LUSTRE, nodes={"compute": {"instance": "i3en.6xlarge", "count": 1}})
    left = without(model, "compute1")
    assert (left.nodes, left.cores, left.holds) == (0, 0, False)
    assert all(rate.bytes_per_s == 0 for each in left.libraries for rate in each.rates.values())


def scale(servers: int, **fields: Any) -> GridModel:
    """On a cloud that shares volumes between two servers."""
    disks = {"type": "balanced", "count": 10, "size": "1 TiB"}
    nsd = {"instance": "BM.Optimized3.36", "count": servers, "disks": disks}
    return grid(
        {"type": "scale", "path": "/s", "nsd": nsd, **fields},
        provider="oci",
        region="us-ashburn-1",
        nodes={"compute": {"instance": "VM.DenseIO2.24", "count": 5}},
    )


def test_a_pair_of_scale_goes_on_without_one_server_and_nothing_without_both() -> None:
    model = scale(4)
    whole = library(without(model, "compute1"), "data").rates["write"].bytes_per_s
    one = library(without(model, "nsd4"), "data")
    assert (one.files, one.files_part) == ("kept", 0)
    assert 0 < one.rates["write"].bytes_per_s <= whole
    # Votes are of nsd1, nsd2 and nsd3: with two of them the cluster stops, though every disk has a server.
    assert library(without(model, "nsd2", "nsd4"), "data").files == "kept"
    assert library(without(model, "nsd1", "nsd3"), "data").files == "unavailable"
    both = library(without(model, "nsd3", "nsd4"), "data")
    assert (both.files, both.files_part) == ("unavailable", 1)
    assert both.rates["write"].bytes_per_s == 0
    copies = scale(4, replicas=2)
    # Of two pairs one may have two of the three descriptors.
    assert library(without(copies, "nsd3", "nsd4"), "data").files == "unavailable"
    more = scale(6, replicas=2)
    assert library(without(more, "nsd3", "nsd4"), "data").files == "kept"
    assert library(without(more, "nsd3", "nsd4", "nsd5", "nsd6"), "data").files == "unavailable"


def test_nothing_is_left_of_nfs_without_its_server() -> None:
    nfs = {"type": "nfs", "path": "/n", "server": "n1", "export": "/e"}
    nfs_left = without(grid({**nfs, "delivers": {"write": "9 GB/s", "read": "9 GB/s"}}), "server1")
    data = library(nfs_left, "data")
    assert (data.files, data.files_part) == ("unavailable", 1)
    assert data.rates["write"].bytes_per_s == 0
    assert nfs_left.holds is False


def test_a_service_replaces_its_servers_but_a_scratch_does_not_come_back() -> None:
    fsx = {"type": "fsx-lustre", "path": "/f", "capacity": "48000 GiB", "stripe_count": 4}
    kept = library(without(grid({**fsx, "throughput": "250 MB/s/TiB"}), "ost7"), "data")
    assert kept.files == "unavailable"
    assert kept.files_part == pytest.approx(4 / 40)
    gone = library(without(grid({**fsx, "deployment": "scratch-2"}), "ost7"), "data")
    assert gone.files == "lost"


def test_one_of_each_names_every_role_once() -> None:
    rows = single_failures(grid(LUSTRE))
    assert [row.without for row in rows] == [
        ("shared.oss1",),
        ("shared.ost1",),
        ("shared.mds1",),
        ("compute1",),
    ]


def test_every_unknown_name_is_told_with_the_nearest_and_an_ambiguous_one_is_none() -> None:
    model = grid(LUSTRE)
    with pytest.raises(GridwrightError) as caught:
        find_failure_domains(model, ["oss5", "compute1", "compte2"])
    assert [problem.what.split("'")[1] for problem in caught.value.problems] == ["oss5", "compte2"]
    assert "compute2" in (caught.value.problems[1].remedy or "")
    two = grid(
        LUSTRE,
        filesystems={"a": LUSTRE, "b": {**LUSTRE, "path": "/b"}},
        libraries={"data": {"filesystem": "a"}, "work": {"filesystem": "b"}},
    )
    assert "oss1" not in failure_domains(two)
    assert {"a.oss1", "b.oss1"} <= set(failure_domains(two))


@given(st.integers(1, 40), st.integers(-1, 50), st.data())
def test_more_stripes_and_more_dead_touch_more_files(targets: int, stripes: int, data: Any) -> None:
    dead = data.draw(st.integers(0, targets))
    part = affected_files_part(targets, stripes, dead)
    assert 0 <= part <= 1
    assert (part == 0) == (dead == 0)
    if dead < targets:
        assert affected_files_part(targets, stripes, dead + 1) >= part
    if stripes == 1:
        assert part == pytest.approx(dead / targets)
    if stripes >= 1:
        assert affected_files_part(targets, stripes + 1, dead) >= part


@settings(max_examples=examples(80))
@given(st.sets(st.sampled_from([f"oss{n}" for n in range(1, 5)] + [f"compute{n}" for n in range(1, 6)])))
def test_more_dead_parts_never_leave_more_in_all(names: set[str]) -> None:
    found = [library(without(grid(LUSTRE), *some), "data") for some in _growing(sorted(names))]
    totals = [each.rates["read"].bytes_per_s for each in found]
    assert totals == sorted(totals, reverse=True)


def _growing(names: list[str]) -> list[list[str]]:
    return [names[:count] for count in range(1, len(names) + 1)]
