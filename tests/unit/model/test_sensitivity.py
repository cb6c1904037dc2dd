"""What moves an answer is what binds it: elasticities, headroom and next bottlenecks against other means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.model.grid import GridModel, grid_model
from gridwright.model.predict import predict
from gridwright.model.sensitivity import InputEffect, Sensitivity, sensitivity
from tests.support.examples import examples
from tests.unit.model.test_predict import CATALOG, spec


def grid(nfs: str = "4 GB/s", local: str = "1 GB/s", nodes: int = 4, **sections: Any) -> GridModel:
    """Nodes of 16 cores and 25 Gbit/s, an NFS server that they share, and disks of each."""
    server = {"type": "nfs", "path": "/n", "server": "s", "export": "/e"}
    described = {
        "nodes": {"compute": {"instance": "m5n.8xlarge", "count": nodes}},
        "filesystems": {
            "n": {**server, "delivers": {"write": nfs, "read": nfs}},
            "l": {"type": "local", "path": "/l", "delivers": {"write": local, "read": local}},
        },
        "libraries": {
            "data": {"filesystem": "n", "requires": "50 MB/s/core"},
            "work": {"filesystem": "l", "requires": "50 MB/s/core"},
        },
        **sections,
    }
    return grid_model(spec(**described), CATALOG)


def of(found: Sensitivity, name: str) -> InputEffect:
    return next(each for each in found.inputs if each.input == name)


def effect(found: Sensitivity, name: str, library: str) -> list[float]:
    each = next(e for e in of(found, name).effects if e.library == library and e.operation == "write")
    return [each.elasticity_less, each.elasticity_more]


def test_what_binds_is_in_proportion_and_what_does_not_is_nothing() -> None:
    found = sensitivity(grid(), 0.1)
    assert effect(found, "n.server-write", "data") == pytest.approx([1, 1])
    assert effect(found, "n.server-write", "work") == [0, 0]
    assert effect(found, "node.network-out", "data") == [0, 0]
    assert effect(found, "nodes", "data") == pytest.approx([-1, -1]), "they share one server"
    assert effect(found, "nodes", "work") == [0, 0], "each brings its own disks"
    assert effect(found, "cores-per-node", "work") == pytest.approx([-1, -1])


def test_a_limit_just_above_what_binds_counts_when_it_shrinks() -> None:
    less, more = effect(sensitivity(grid(nfs="11900 MB/s"), 0.1), "node.network-out", "data")
    assert 0 < less < 1
    assert more == 0


def test_the_input_that_moves_the_headroom_most_is_first() -> None:
    found = sensitivity(grid(nfs="3300 MB/s"), 0.1)
    assert found.headroom == pytest.approx(3300 / 64 / 50)
    assert found.inputs[0].input in ("cores-per-node", "nodes")
    server = of(found, "n.server-write")
    assert server.headroom_less == pytest.approx(0.9 * 3300 / 64 / 50)
    assert server.headroom_more == pytest.approx(3300 / 64 / 50), "reads are still bound as before"


def test_the_next_bottleneck_starts_where_it_says() -> None:
    data = next(e for e in sensitivity(grid(), 0.1).next_bottlenecks if e.library == "data")
    assert (data.bound_by, data.next) == ("n.server-write", "node.network-out")
    assert data.factor == pytest.approx(12.5 / 4)
    work = next(e for e in sensitivity(grid(), 0.1).next_bottlenecks if e.library == "work")
    assert (work.factor, work.next) == (None, None), "a node's disks are alone on the way"


def test_together_grows_until_all_is_served_or_another_limit_binds() -> None:
    served = [e for e in sensitivity(grid(nfs="1600 MB/s"), 0.1).next_bottlenecks if e.library is None]
    # 64 cores need 3200 MB/s of the server, which has half of it.
    assert [(e.bound_by, e.next) for e in served] == [("n.server-write", None), ("n.server-read", None)]
    assert all(e.factor == pytest.approx(2, rel=1e-5) for e in served)
    short = [
        e
        for e in sensitivity(grid(nfs="800 MB/s", local="400 MB/s"), 0.1).next_bottlenecks
        if e.library is None
    ]
    # The server serves a quarter; disks of a node serve half of 800 MB/s, so twice as much is of use.
    assert [e.next for e in short] == ["l.disks-write", "l.disks-read"]
    assert all(e.factor == pytest.approx(2, rel=1e-5) for e in short)


def test_nothing_required_still_tells_what_moves_the_rates() -> None:
    libraries = {"data": {"filesystem": "n"}, "work": {"filesystem": "l"}}
    found = sensitivity(grid(libraries=libraries), 0.2)
    assert found.headroom is None
    assert found.inputs[0].input == "cores-per-node"
    assert found.inputs[0].strongest == pytest.approx(0.25)


@settings(max_examples=examples(80))
@given(st.integers(1, 12), st.integers(200, 40_000))
def test_half_as_many_more_nodes_move_rates_as_such_a_grid_would(nodes: int, nfs: int) -> None:
    found = sensitivity(grid(nfs=f"{nfs} MB/s", nodes=2 * nodes), 0.5)
    more = predict(grid(nfs=f"{nfs} MB/s", nodes=3 * nodes)).libraries[0].rates["read"]
    before = predict(grid(nfs=f"{nfs} MB/s", nodes=2 * nodes)).libraries[0].rates["read"]
    each = next(e for e in of(found, "nodes").effects if (e.library, e.operation) == ("data", "read"))
    assert 1 + each.more == pytest.approx(more.bytes_per_s_per_core / before.bytes_per_s_per_core)
