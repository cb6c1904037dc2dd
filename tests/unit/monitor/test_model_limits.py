"""Limits that are held against what is measured are those of predictions, with the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.filesystems.resources import OPERATIONS
from gridwright.model.chains import library_chain
from gridwright.model.grid import grid_model
from gridwright.monitor.causes.model_limits import stated_limits
from gridwright.spec import load_spec

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["aws-fsx", "aws-lustre", "oci-lustre", "azure-netapp-files"])
def test_each_limit_of_a_prediction_is_there_with_its_figure(name: str) -> None:
    spec = load_spec(EXAMPLES / f"{name}.yaml")
    model, found = grid_model(spec), stated_limits(spec)
    assert found
    for library, placed in model.libraries.items():
        limits = {each.resource: each for each in found[placed.filesystem]}
        for operation in OPERATIONS:
            chain = [each for each in library_chain(model, library, operation) if each.resource != "streams"]
            assert len(chain) > 0
            for bound in chain:
                limit = limits[bound.resource]
                nodes = model.nodes if limit.scope == "node" else 1
                taken = limit.read if operation == "read" else limit.write
                assert limit.bytes_per_s * nodes / taken == pytest.approx(bound.bytes_per_s)
                assert (limit.what, limit.source) == (bound.what, bound.source)
                assert limit.nodes == (), "all nodes are alike"


def test_groups_of_nodes_have_limits_of_their_own(tmp_path: Path) -> None:
    found = stated_limits(load_spec(EXAMPLES / "aws-elastic.yaml"))["shared"]
    of_nodes = {each.resource: each.nodes for each in found if each.scope == "node"}
    assert of_nodes["compute.node.network-in"][0] == "compute1"
    assert of_nodes["cheap.node.network-in"][0] == "cheap1"
    assert [each.resource for each in found].count("shared.throughput") == 1


def test_a_grid_of_which_nothing_is_known_has_none() -> None:
    assert set(stated_limits(load_spec(EXAMPLES / "lab.yaml")).values()) == {()}
