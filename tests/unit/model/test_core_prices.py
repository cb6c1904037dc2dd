"""What an hour of a core costs on the nodes of a grid."""

from __future__ import annotations

import pytest

from gridwright.model.core_prices import core_prices
from gridwright.model.grid import grid_model
from gridwright.spec.load import parse_spec

TWO_GROUPS = """
provider: aws
region: us-east-1
nodes:
  compute: {count: 4, instance: m5n.8xlarge}
  wide: {count: 1, instance: r5n.16xlarge}
filesystems: {shared: {type: fsx-lustre, path: /shared, capacity: 12 TiB, throughput: 250 MB/s/TiB}}
scheduler: {type: slurm}
"""


def test_a_core_costs_its_part_of_its_node_as_in_a_prediction() -> None:
    spec = parse_spec(TWO_GROUPS)
    price = core_prices(spec)
    assert price is not None
    bill = {cost.what: cost.usd_per_hour for cost in grid_model(spec).costs}
    compute, wide = price("compute3"), price("wide1")
    assert compute is not None and wide is not None
    assert compute * 4 * 16 == pytest.approx(bill["4 nodes m5n.8xlarge"])
    assert wide * 32 == pytest.approx(bill["1 node r5n.16xlarge"])
    assert price("elsewhere") is None


def test_nodes_of_ones_own_have_no_price() -> None:
    spec = parse_spec("provider: local\nfilesystems: {disk: {type: local, path: /d}}\n")
    assert core_prices(spec) is None
