"""A type that the region of a grid does not sell is refused, with the one nearest to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import Catalog, load_catalog
from gridwright.catalog.instances import efa_types
from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.model.grid import check_against_catalogue
from gridwright.providers.aws.rules import is_elsewhere
from gridwright.spec.model import GridSpec

CATALOG = load_catalog()
LUSTRE = {
    "type": "lustre",
    "path": "/l",
    "oss": {"instance": "c5n.9xlarge", "count": 2, "disks": {"type": "gp3", "count": 4, "size": "1 TiB"}},
    "mds": {"instance": "m5.4xlarge", "disks": {"type": "gp3", "size": "500 GiB"}},
}


def spec(region: str = "us-east-1", instance: str = "m5n.8xlarge", **sections: Any) -> GridSpec:
    document: dict[str, Any] = {
        "name": "test",
        "provider": "aws",
        "region": region,
        "nodes": {"compute": {"instance": instance, "count": 2}},
        "filesystems": {"shared": LUSTRE},
        "libraries": {"data": {"requires": "100 MB/s/core"}},
        "scheduler": {"type": "slurm"},
        **sections,
    }
    return GridSpec.model_validate(document, context={"base": Path("/")})


def aws(zone: str, **fields: Any) -> Mapping[str, Any]:
    return {"zone": zone, "ssh_from": ["203.0.113.0/24"], **fields}


def problems(grid: GridSpec, catalog: Catalog = CATALOG) -> dict[str, Problem]:
    try:
        check_against_catalogue(grid, catalog)
    except GridwrightError as error:
        assert error.status is ExitStatus.INPUT
        return {each.field or "": each for each in error.problems}
    return {}


def sold(name: str, region: str) -> bool:
    return CATALOG.prices.price(CATALOG.instances[name], region) is not None


def test_types_that_the_region_sells_are_accepted() -> None:
    assert problems(spec()) == {}
    assert problems(spec(aws=aws("us-east-1a", login={"instance": "t3.medium"}))) == {}


@pytest.mark.parametrize(
    ("region", "instance"),
    [("eu-west-3", "m5n.8xlarge"), ("ap-south-2", "r5n.4xlarge"), ("us-west-1", "m7a.2xlarge")],
)
def test_a_type_of_other_regions_is_refused_with_one_of_this_region(region: str, instance: str) -> None:
    assert not sold(instance, region), "the example has lost its point"
    problem = problems(spec(region, instance))["nodes.compute.instance"]
    assert f"{instance} is not offered in {region}" in problem.what
    near = (problem.remedy or "").rpartition(" ")[2]
    assert sold(near, region)
    was, now = CATALOG.instances[instance], CATALOG.instances[near]
    assert was.architecture == now.architecture
    assert was.cores == now.cores
    assert now.family[0] == was.family[0]


def test_the_nearest_type_keeps_what_its_family_promises() -> None:
    remedy = problems(spec("eu-west-3", "m5n.8xlarge"))["nodes.compute.instance"].remedy or ""
    family = CATALOG.instances[remedy.rpartition(" ")[2]].family
    offered = {each.family for each in CATALOG.instances.values() if sold(each.name, "eu-west-3")}
    with_network = {each for each in offered if each[0] == "m" and "n" in each[1:]}
    assert family in with_network or not with_network


def test_every_machine_of_the_grid_is_looked_at_and_all_are_told_at_once() -> None:
    region = "ap-south-2"
    assert not any(sold(each, region) for each in ("m5n.8xlarge", "c5n.9xlarge", "m5n.large"))
    grid = spec(
        region,
        "m5n.8xlarge",
        aws=aws(f"{region}a", login={"instance": "m5n.large"}, head={"instance": "m9zz.large"}),
    )
    found = problems(grid)
    assert {
        "nodes.compute.instance",
        "filesystems.shared.oss.instance",
        "aws.login.instance",
        "aws.head.instance",
    } <= set(found)
    assert all(problem.remedy for problem in found.values())
    assert "no instance type is called 'm9zz.large'" in found["aws.head.instance"].what


def test_an_unknown_type_of_node_hides_nothing_else() -> None:
    fsx = {"type": "fsx-lustre", "path": "/f", "capacity": "3000 GiB"}
    own = {"type": "local", "path": "/own", "disks": {"type": "instance-store"}}
    libraries = {"data": {"filesystem": "shared"}, "work": {"filesystem": "own"}}
    grid = spec(instance="m5n.8xlarg", filesystems={"shared": fsx, "own": own}, libraries=libraries)
    assert sorted(problems(grid)) == ["filesystems.shared.capacity", "nodes.compute.instance"]


def test_without_slurm_there_is_no_head_node_to_look_at() -> None:
    grid = spec(aws=aws("us-east-1a", head={"instance": "m9zz.large"}), scheduler={"type": "local"})
    assert problems(grid) == {}


def test_a_region_without_prices_is_told_as_such_and_not_as_one_without_the_type() -> None:
    found = problems(spec("us-esat-1"))
    assert list(found) == ["region"]
    assert "no aws region with prices is called 'us-esat-1'" in found["region"].what


def test_a_type_newer_than_all_prices_is_not_called_missing() -> None:
    regions = CATALOG.prices.regions("aws")
    unpriced = [
        each
        for each in CATALOG.instances.values()
        if each.provider == "aws" and all(CATALOG.prices.price(each, region) is None for region in regions)
    ]
    assert unpriced, "the price list has caught up: find another way to test it"
    assert not any(is_elsewhere(CATALOG, each, "us-east-1") for each in unpriced)


def test_a_price_of_ones_own_makes_a_type_offered(tmp_path: Path) -> None:
    (tmp_path / "catalog.yaml").write_text("prices: {instances: {eu-west-3: {m5n.8xlarge: 2.0}}}\n")
    own = load_catalog(tmp_path)
    assert "nodes.compute.instance" in problems(spec("eu-west-3"))
    assert "nodes.compute.instance" not in problems(spec("eu-west-3"), own)


def test_an_adapter_needs_a_type_that_has_one() -> None:
    able, unable = "m5n.24xlarge", "m5n.8xlarge"
    assert able in efa_types()
    assert unable not in efa_types()
    assert problems(spec(instance=able, aws=aws("us-east-1a", efa=True))) == {}
    assert problems(spec(instance=unable, aws=aws("us-east-1a"))) == {}
    problem = problems(spec(instance=unable, aws=aws("us-east-1a", efa=True)))["aws.efa"]
    assert f"{unable} of nodes compute has no Elastic Fabric Adapter" in problem.what
    near = (problem.remedy or "").rpartition(" ")[2]
    assert near in efa_types()
    assert sold(near, "us-east-1")
    assert CATALOG.instances[near].family.startswith("m")


def test_a_capacity_between_steps_is_refused_with_both_neighbours() -> None:
    fsx = {"type": "fsx-lustre", "path": "/f", "capacity": "3000 GiB"}
    problem = problems(spec(filesystems={"shared": fsx}))["filesystems.shared.capacity"]
    assert "2400 GiB or 4800 GiB" in (problem.remedy or "")
