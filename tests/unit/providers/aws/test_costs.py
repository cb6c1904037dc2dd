"""What AWS asks for beside nodes and file systems is in the bill of predict, and in that of plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.model.grid import grid_model, price_findings
from gridwright.model.predict import predict
from gridwright.model.pricing_provider import pricing_provider
from gridwright.providers.aws.costs import FREE_STARTS
from gridwright.providers.aws.section import Aws
from gridwright.spec.load import load_spec
from gridwright.spec.model import GridSpec

CATALOG = load_catalog()
ROOT = Path(__file__).parents[4]
EXAMPLES = ("aws-fsx", "aws-lustre")
FSX = {"type": "fsx-lustre", "path": "/fsx", "capacity": "2400 GiB"}
LUSTRE = {
    "type": "lustre",
    "path": "/l",
    "oss": {"instance": "c5n.9xlarge", "count": 3, "disks": {"type": "gp3", "count": 4, "size": "1 TiB"}},
    "mds": {"instance": "m5.4xlarge", "disks": {"type": "gp3", "size": "500 GiB"}},
}


def spec(region: str = "us-east-1", fields: dict[str, Any] | None = None, **sections: Any) -> GridSpec:
    document: dict[str, Any] = {
        "provider": "aws",
        "region": region,
        "nodes": {"compute": {"instance": "m5n.8xlarge", "count": 4}},
        "filesystems": {"shared": FSX},
        "scheduler": {"type": "slurm"},
        "aws": {"zone": f"{region}a", "ssh_from": ["203.0.113.0/24"], **(fields or {})},
        **sections,
    }
    return GridSpec.model_validate(document, context={"base": Path("/")})


def bill(grid: GridSpec) -> dict[str, float | None]:
    return {cost.what: cost.usd_per_hour for cost in grid_model(grid, CATALOG).costs}


def without_section(grid: GridSpec) -> GridSpec:
    return grid.model_copy(update={"aws": None})


def beside(grid: GridSpec) -> dict[str, float | None]:
    plain = bill(without_section(grid))
    return {what: usd for what, usd in bill(grid).items() if what not in plain}


def test_the_bill_has_every_machine_and_every_way_out() -> None:
    found = beside(spec())
    assert found == {
        "login node m6i.large": 0.096,
        "head node m6i.large": 0.096,
        "root volumes of 6 machines, gp3 of 50 GiB": pytest.approx(6 * 50 * 0.08 / 730),
        "NAT gateway": 0.045,
        "2 public addresses, of login node and NAT gateway": 0.01,
    }


def test_a_spec_without_the_section_has_the_bill_that_it_had() -> None:
    assert set(bill(without_section(spec()))) == {
        "4 nodes m5n.8xlarge",
        "FSx for Lustre persistent-2 of 2400 GiB at 125 MB/s per TiB",
    }


def test_servers_of_a_lustre_are_machines_too() -> None:
    found = beside(spec(filesystems={"shared": LUSTRE}))
    assert "root volumes of 10 machines, gp3 of 50 GiB" in found
    there = {"type": "lustre", "path": "/l", "source": "10.0.0.1@tcp:/x", "oss": LUSTRE["oss"]}
    mounted = cloud_only(spec(filesystems={"shared": there}))
    assert any("6 machines" in what for what in mounted)


def cloud_only(grid: GridSpec) -> list[str]:
    return [cost.what for cost in pricing_provider(grid).costs_beside(grid, CATALOG)]


def test_what_is_not_made_is_not_paid_for() -> None:
    assert not any(
        "NAT" in what or "address" in what for what in beside(spec(fields={"proxy": "http://p:80"}))
    )
    assert not any("head" in what for what in beside(spec(scheduler={"type": "local"})))
    certificate = {
        "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/00000000-0000-0000-0000-000000000000"
    }
    console = "load balancer of the console"
    assert console in beside(spec(fields=certificate))
    assert console not in beside(spec())


@pytest.mark.parametrize(
    ("capacity", "metadata", "bought"),
    [("2400 GiB", 6000, 3000), ("2400 GiB", 3000, 0), ("50400 GiB", 48000, 12000), ("9600 GiB", 12000, 6000)],
)
def test_metadata_operations_beyond_those_included_are_paid_for(
    capacity: str, metadata: int, bought: int
) -> None:
    shared = {**FSX, "capacity": capacity, "metadata": metadata}
    lines = {
        what: usd for what, usd in bill(spec(filesystems={"shared": shared})).items() if "metadata" in what
    }
    expected = {
        f"{bought:,} metadata operations/s beyond those included": pytest.approx(bought * 0.055 / 730)
    }
    assert lines == (expected if bought else {})


def test_what_has_no_price_in_the_region_is_estimated_and_marked(tmp_path: Path) -> None:
    model = grid_model(spec("eu-west-1"), CATALOG)
    assert model.usd_per_hour is not None
    assert price_findings(model) == []
    (finding,) = model.doubts
    assert finding.name == "estimated-prices"
    assert "of storage in eu-west-1" in finding.text, "instances have prices there"
    gateway = {cost.what: cost.usd_per_hour for cost in model.costs}["NAT gateway"]
    assert gateway == pytest.approx(0.045 * 1.115, rel=0.001)
    (tmp_path / "catalog.yaml").write_text(
        "prices:\n  storage: {eu-west-1: {gp3: {capacity: 0.088}, persistent-2: {125: 0.16}}}\n"
        "  services: {eu-west-1: {nat-gateway: 0.048, public-address: 0.005}}\n"
    )
    own = grid_model(spec("eu-west-1"), load_catalog(tmp_path))
    assert own.usd_per_hour is not None
    assert {cost.what: cost.usd_per_hour for cost in own.costs}["NAT gateway"] == 0.048


@pytest.mark.parametrize("name", EXAMPLES)
def test_plan_finds_nothing_dearer_than_an_example_and_costs_it_the_same(name: str) -> None:
    from gridwright.plan.search import plan_grids

    example = load_spec(ROOT / "examples" / f"{name}.yaml")
    model = grid_model(example, CATALOG)
    assert predict(model).met
    assert model.usd_per_hour is not None
    designs = plan_grids(example, CATALOG).designs
    assert designs[0].usd_per_hour <= model.usd_per_hour
    for design in designs:
        assert design.spec.section(Aws) == example.section(Aws)
        again = grid_model(design.spec, CATALOG).usd_per_hour
        assert again is not None
        assert f"{again:.10f}" == f"{design.usd_per_hour:.10f}"
        assert design.prediction.met


def test_the_guide_has_the_figures_of_today() -> None:
    """docs/aws.md: what a grid costs while it runs, and while only its file systems are kept."""
    guide = (ROOT / "docs" / "aws.md").read_text()
    (running,) = [line for line in guide.splitlines() if line.startswith("| 4. ")]
    (kept,) = [line for line in guide.splitlines() if line.startswith("| 6. ")]
    for name in EXAMPLES:
        model = grid_model(load_spec(ROOT / "examples" / f"{name}.yaml"), CATALOG)
        assert f"{model.usd_per_hour:.2f} USD/h" in running
        stays = [
            cost.usd_per_hour or 0.0
            for cost in model.contributions["shared"].costs
            if cost.what.startswith("FSx") or " at each " in cost.what
        ]
        assert f"{sum(stays):.2f} USD/h" in kept


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_accepted(name: str) -> None:
    from gridwright.model.grid import check_against_catalogue
    from gridwright.spec.warnings import warn

    example = load_spec(ROOT / "examples" / f"{name}.yaml")
    check_against_catalogue(example, CATALOG)
    assert [finding.name for finding in warn(example)] == ["shared-disks"]


def test_starts_of_tasks_by_time_are_in_the_bill_and_free() -> None:
    link = {"library": "data", "bucket": "s3://site/a", "path": "/a", "export": {"changed": "hourly"}}
    repositories = {
        "a": link | {"import": {"names": "daily"}},
        "b": {"library": "data", "bucket": "s3://site/b", "path": "/b"},
        "c": {"library": "data", "bucket": "s3://site/c", "path": "/c", "import": {"names": "15m"}},
    }
    grid = spec(libraries={"data": {}}, repositories=repositories)
    free = "of the first 14 million of EventBridge Scheduler"
    found = {what: usd for what, usd in beside(grid).items() if "starts" in what}

    assert found == {
        f"760 starts a month of tasks of repository a, {free}, without requests of S3": 0.0,
        f"2920 starts a month of tasks of repository c, {free}": 0.0,
    }
    # The most that a file system can ask for stays far below what is free.
    assert 730 * 60 * 2 * FsxLustreFileSystem.most_links < FREE_STARTS


# FSx links buckets of S3 alone; on all else Gridwright carries files to other stores, too.
NFS = {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}


def test_objects_of_repositories_are_in_the_bill_once_for_each_library() -> None:
    libraries = {"data": {"capacity": "10 TB"}, "work": {}}
    link = {"library": "data", "bucket": "s3://site/a", "path": "/a"}
    repositories = {
        "a": link,
        "b": link | {"bucket": "s3://site/b", "path": "/b"},
        "elsewhere": link | {"bucket": "s3://other", "path": "/c", "endpoint": "https://s3.example.com"},
        "unknown": {"library": "work", "bucket": "s3://site/work"},
    }
    found = {
        what: usd
        for what, usd in beside(
            spec(libraries=libraries, repositories=repositories, filesystems={"shared": NFS})
        ).items()
        if what.startswith("objects")
    }

    assert found == {
        "objects of repositories a, b, 10 TB of S3 Standard at most": pytest.approx(
            1e13 / 2**30 * 0.023 / 730
        )
    }
