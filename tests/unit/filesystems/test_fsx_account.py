"""What an account may have of FSx for Lustre: said wherever a grid is judged, and only beyond the limit."""

from __future__ import annotations

import pytest

from gridwright.catalog import load_catalog
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.spec import parse_spec
from gridwright.spec.warnings import warn

ONE = "  {name}: {{type: fsx-lustre, path: /{name}, capacity: {gib} GiB}}\n"


def names(*sizes: int) -> list[set[str]]:
    """Findings of check and of predict about a grid with file systems of these sizes."""
    filesystems = "".join(ONE.format(name=f"fs{number}", gib=gib) for number, gib in enumerate(sizes))
    spec = parse_spec(
        "name: large\nprovider: aws\nregion: us-east-1\n"
        "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}\n"
        "nodes: {compute: {instance: m5n.8xlarge, count: 2}}\n"
        f"filesystems:\n{filesystems}libraries: {{data: {{filesystem: fs0, requires: 100 MB/s/core}}}}\n"
        "scheduler: {type: slurm}\n"
    )
    predicted = predict(grid_model(spec, load_catalog())).findings
    return [{each.name for each in found} for found in (warn(spec), predicted)]


@pytest.mark.parametrize("sizes", [(100_800,), (50_400, 50_400)], ids=["one", "two"])
def test_what_an_account_has_is_no_finding(sizes: tuple[int, ...]) -> None:
    assert all("account-limit" not in found for found in names(*sizes))


@pytest.mark.parametrize("sizes", [(103_200,), (50_400, 50_400, 1200)], ids=["one", "together"])
def test_more_than_that_is_said_by_check_and_by_predict(sizes: tuple[int, ...]) -> None:
    assert all("account-limit" in found for found in names(*sizes))
