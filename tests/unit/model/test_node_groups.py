"""Nodes of several groups share what all share by their cores, and each group is judged by its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.resources import OPERATIONS
from gridwright.model.day import load_day, predict_day
from gridwright.model.degraded import degraded_grid, find_failure_domains
from gridwright.model.document import prediction_document
from gridwright.model.grid import GridModel, check_against_catalogue, grid_model
from gridwright.model.predict import predict
from gridwright.model.sensitivity import sensitivity
from gridwright.model.workload import WorkloadMatrix, default_profiles, simulate_workload
from gridwright.spec.model import GridSpec
from tests.unit.model.test_predict import CATALOG, FSX, spec

LIBRARIES = {
    "data": {"filesystem": "fsx", "requires": "100 MB/s/core"},
    "work": {"filesystem": "scratch", "requires": "50 MB/s/core"},
    "util": {"filesystem": "fsx", "requires": "20 MB/s/core"},
}
SCRATCH = {"type": "local", "path": "/scratch", "disks": {"type": "gp3", "count": 2, "size": "200 GiB"}}


def grid(nodes: dict[str, dict[str, Any]], capacity: int = 48_000, **sections: Any) -> GridModel:
    filesystems = {"fsx": {**FSX, "capacity": f"{capacity} GiB"}, "scratch": SCRATCH}
    described = {"nodes": nodes, "filesystems": filesystems, "libraries": LIBRARIES, **sections}
    return grid_model(spec(**described), CATALOG)


def of(instance: str, count: int) -> dict[str, Any]:
    return {"instance": instance, "count": count}


DAY = load_day("business-day")


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from(["m5n.8xlarge", "m5.2xlarge", "r5n.large"]),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([4800, 24_000, 96_000]),
)
def test_a_group_that_is_split_is_predicted_as_before(
    instance: str, first: int, second: int, capacity: int
) -> None:
    whole = grid({"all": of(instance, first + second)}, capacity)
    split = grid({"a": of(instance, first), "b": of(instance, second)}, capacity)
    one, two = predict(whole), predict(split)
    assert (two.nodes, two.cores) == (one.nodes, one.cores)
    assert two.usd_per_hour == pytest.approx(one.usd_per_hour)
    assert (two.met, two.answer, two.streams_per_node) == (one.met, one.answer, one.streams_per_node)
    for before, after in zip(one.libraries, two.libraries, strict=True):
        for operation in OPERATIONS:
            rate = before.rates[operation].bytes_per_s_per_core
            assert after.rates[operation].bytes_per_s_per_core == pytest.approx(rate)
            for group in after.groups.values():
                assert group[operation].bytes_per_s_per_core == pytest.approx(rate)
    assert one.together
    assert two.together
    for operation in OPERATIONS:
        assert two.together.share[operation] == pytest.approx(one.together.share[operation])
        assert two.together.low[operation] == pytest.approx(one.together.low[operation])
    assert sensitivity(split, 0.1).headroom == pytest.approx(sensitivity(whole, 0.1).headroom)
    for left, right in zip(predict_day(whole, DAY).walks, predict_day(split, DAY).walks, strict=True):
        assert right.holds == left.holds
        assert right.moved_bytes == pytest.approx(left.moved_bytes)
    assert split.contributions["scratch"].capacity_bytes == whole.contributions["scratch"].capacity_bytes


def test_what_a_weak_group_cannot_take_is_left_to_the_others() -> None:
    # 48000 GiB at 250 MB/s/TiB are 11,718.75 MB/s for 64 and 64 cores.
    model = grid({"big": of("m5n.8xlarge", 4), "small": of("m5.16xlarge", 2)})
    data = predict(model).libraries[0]
    read = {name: each["read"] for name, each in data.groups.items()}
    small = model.groups[1].routes["data"]["read"].uses[0].resource
    assert small.name == "small.node.network-in"
    assert small.bytes_per_s * 2 < 46.875 * 250e6 / 2, "the half that its cores would have"
    assert read["small"].bytes_per_s == pytest.approx(2 * small.bytes_per_s)
    assert read["small"].bound_by.resource == "small.node.network-in"
    assert read["big"].bytes_per_s == pytest.approx(46.875 * 250e6 - 2 * small.bytes_per_s)
    assert read["big"].bound_by.resource == "fsx.throughput"
    assert data.rates["read"].bytes_per_s == pytest.approx(46.875 * 250e6)


def test_nodes_that_fall_short_are_not_hidden_by_those_that_have_more_than_enough() -> None:
    rich = grid({"big": of("m5n.8xlarge", 12), "small": of("m5.8xlarge", 1)}, 96_000)
    found = predict(rich)
    data = found.libraries[0]
    required = 100e6
    assert data.rates["read"].bytes_per_s_per_core > required, "on average there is enough"
    assert data.groups["small"]["read"].bytes_per_s_per_core < required
    assert (data.met, data.answer_of("read"), found.met) == (False, "no", False)
    assert found.together
    assert found.together.share["read"] < 1
    assert sensitivity(rich, 0.1).headroom == pytest.approx(
        min(
            *(
                each[operation].bytes_per_s_per_core / library.requires_bytes_per_s_per_core
                for library in found.libraries
                for each in library.groups.values()
                for operation in OPERATIONS
                if library.requires_bytes_per_s_per_core
            ),
            *(share / found.together.required_share for share in found.together.share.values()),
        )
    )


def test_a_dead_node_is_missed_by_its_own_group() -> None:
    model = grid({"big": of("m5n.8xlarge", 2), "small": of("m5.large", 2)})
    left = degraded_grid(model, find_failure_domains(model, ["small1"]))
    assert (left.nodes, left.cores) == (3, 33)
    none = degraded_grid(model, find_failure_domains(model, ["small1", "small2"]))
    assert (none.nodes, none.cores) == (2, 32)
    assert (
        degraded_grid(model, find_failure_domains(model, [*("big1", "big2"), *("small1", "small2")])).cores
        == 0
    )


def test_each_node_of_the_workload_has_the_cores_of_its_group() -> None:
    profiles = default_profiles()
    tests = tuple(sorted(profiles.profiles))[:2]
    matrix = WorkloadMatrix("each", (tests, tests, tests), every_node=True)
    slow = grid({"a": of("m5n.8xlarge", 1), "b": of("m5.large", 1)})
    found = simulate_workload(slow, matrix, profiles)
    by_node = {node: max(each.end_s for each in found.launches if each.node == node) for node in (1, 2)}
    assert by_node[2] > by_node[1], "three streams on one core take longer than on sixteen"
    alone = simulate_workload(grid({"a": of("m5n.8xlarge", 1)}), matrix, profiles)
    assert by_node[1] == pytest.approx(alone.elapsed_s, rel=0.02), "what they share is not short"


def test_every_group_is_held_against_the_catalogue() -> None:
    document = grid({"a": of("m5.large", 1)}).spec.model_dump(mode="json", exclude_unset=True)
    document["nodes"] = {"a": of("m5.large", 1), "b": of("m5.lagre", 1), "c": of("m6.large", 1)}
    with pytest.raises(GridwrightError) as error:
        check_against_catalogue(GridSpec.model_validate(document, context={"base": Path("/")}), CATALOG)
    assert [each.field for each in error.value.problems] == ["nodes.b.instance", "nodes.c.instance"]


def test_the_document_has_each_group() -> None:
    document = prediction_document(predict(grid({"big": of("m5n.8xlarge", 2), "small": of("m5.large", 3)})))
    assert document["groups"] == [
        {"name": "big", "nodes": 2, "cores_per_node": 16, "instance": "m5n.8xlarge"},
        {"name": "small", "nodes": 3, "cores_per_node": 1, "instance": "m5.large"},
    ]
    assert document["streams_per_node"] is None
    assert [each["group"] for each in document["libraries"][0]["groups"]] == ["big", "small"]
    assert sum(each["read"]["bytes_per_s"] for each in document["libraries"][0]["groups"]) == pytest.approx(
        document["libraries"][0]["read"]["bytes_per_s"]
    )
