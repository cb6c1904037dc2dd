"""More volumes than an instance type takes are refused, with the largest number and types that take them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gridwright.catalog import load_catalog
from gridwright.catalog.instances import attachment_limits, efa_types, free_attachments
from gridwright.errors import GridwrightError, Problem
from gridwright.model.grid import check_against_catalogue, grid_model
from gridwright.providers.aws.claim.deciding import device_name
from gridwright.providers.aws.provider import NAMES_OF_NODE, NAMES_OF_SERVER
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.aws_grid import SCALE

CATALOG = load_catalog()
GP3 = {"type": "gp3", "size": "100 GiB"}


def grid(
    instance: str = "m5n.8xlarge", oss: int = 4, oss_type: str = "c5n.9xlarge", **sections: Any
) -> GridSpec:
    lustre = {
        "type": "lustre",
        "path": "/l",
        "oss": {"instance": oss_type, "count": 2, "disks": {**GP3, "count": oss}},
        "mds": {"instance": "m5.4xlarge", "disks": GP3},
    }
    own = {
        name: {"type": "local", "path": f"/{name}", "disks": disks}
        for name, disks in sections.pop("own", {}).items()
    }
    document: dict[str, Any] = {
        "name": "test",
        "provider": "aws",
        "region": "us-east-1",
        "nodes": {"compute": {"instance": instance, "count": 2}},
        "filesystems": {"shared": lustre, **own},
        "libraries": {"data": {"filesystem": "shared"}},
        "scheduler": {"type": "slurm"},
        **sections,
    }
    if own:
        document["libraries"]["work"] = {"filesystem": next(iter(own))}
    return GridSpec.model_validate(document, context={"base": Path("/")})


def problems(spec: GridSpec) -> dict[str, Problem]:
    found: list[dict[str, Problem]] = []
    for ask in (check_against_catalogue, grid_model):
        try:
            ask(spec, CATALOG)
        except GridwrightError as error:
            found.append({each.field or "": each for each in error.problems})
        else:
            found.append({})
    assert found[0] == found[1], "check and predict say the same"
    return found[0]


def aws(**fields: Any) -> dict[str, Any]:
    return {"zone": "us-east-1a", "ssh_from": ["203.0.113.0/24"], **fields}


def test_a_server_that_takes_28_attachments_is_refused_40_volumes() -> None:
    """28 places, less two interfaces and the root volume: EC2 lists the type as one of 27 volumes."""
    assert problems(grid(oss=25)) == {}
    assert list(problems(grid(oss=26))) == ["filesystems.shared.oss.disks.count"]
    problem = problems(grid(oss=40))["filesystems.shared.oss.disks.count"]
    assert "c5n.9xlarge of OSS of shared takes 25 volumes" in problem.what
    assert "40 are asked for" in problem.what
    assert (problem.remedy or "").startswith("Write at most 25, ")


def test_every_type_that_the_remedy_names_takes_them() -> None:
    remedy = problems(grid(oss=40))["filesystems.shared.oss.disks.count"].remedy or ""
    named = re.findall(r"[a-z0-9-]+\.[a-z0-9-]+", remedy)
    assert named
    for each in named:
        assert problems(grid(oss=40, oss_type=each)) == {}, each


def test_where_no_type_takes_them_none_is_named() -> None:
    remedy = problems(grid(oss=128))["filesystems.shared.oss.disks.count"].remedy
    assert remedy == "Write at most 25, with larger or faster volumes"


def test_volumes_of_all_file_systems_on_a_node_count_together() -> None:
    fits = grid(own={"a": {**GP3, "count": 15}, "b": {**GP3, "count": 10}})
    assert problems(fits) == {}
    (problem,) = problems(grid(own={"a": {**GP3, "count": 15}, "b": {**GP3, "count": 11}})).values()
    assert problem.field == "filesystems.a.disks.count"
    assert "26 are asked for by a and b together" in problem.what
    assert (problem.remedy or "").startswith("Write at most 14, ")
    (problem,) = problems(grid(own={"a": {**GP3, "count": 30}, "b": {**GP3, "count": 30}})).values()
    assert (problem.remedy or "").startswith("Write fewer volumes")


def test_disks_of_an_instance_store_are_no_volumes() -> None:
    assert problems(grid("i3en.24xlarge", own={"a": {"type": "instance-store", "count": 8}})) == {}
    assert problems(grid("i3en.24xlarge", own={"a": {**GP3, "count": 17}})) == {}
    (problem,) = problems(grid("i3en.24xlarge", own={"a": {**GP3, "count": 18}})).values()
    assert "takes 17 volumes" in problem.what


def test_a_node_that_is_not_replaced_claims_no_interface() -> None:
    own = {"a": {**GP3, "count": 18}}
    assert problems(grid("i3en.24xlarge", own=own, aws=aws()))
    assert problems(grid("i3en.24xlarge", own=own, aws=aws(replace_nodes=False))) == {}


def test_an_adapter_as_the_first_interface_takes_no_place() -> None:
    assert "i3en.24xlarge" in efa_types()
    assert problems(grid("i3en.24xlarge", own={"a": {**GP3, "count": 17}}, aws=aws(efa=True))) == {}


def test_where_the_limit_is_of_volumes_alone_interfaces_take_nothing() -> None:
    limit = attachment_limits()["m7i.16xlarge"]
    assert not limit.shared
    assert free_attachments("m7i.16xlarge", interfaces=5) == limit.volumes - 1
    assert problems(grid(oss=limit.volumes - 1, oss_type="m7i.16xlarge")) == {}
    assert problems(grid(oss=limit.volumes, oss_type="m7i.16xlarge"))


def test_no_more_volumes_than_there_are_device_names() -> None:
    names = [device_name(number) for number in range(NAMES_OF_SERVER)]
    assert len(set(names)) == NAMES_OF_SERVER
    assert all(re.fullmatch(r"/dev/(sd[f-p]|xvd[bc][a-z])", name) for name in names)
    with pytest.raises(IndexError):
        device_name(NAMES_OF_SERVER)
    (problem,) = problems(grid(oss=64, oss_type="m7i.48xlarge")).values()
    assert "have device names for 63 volumes" in problem.what
    assert chr(ord("b") + NAMES_OF_NODE - 1) == "z"
    (problem,) = problems(grid("m7i.48xlarge", own={"a": {**GP3, "count": 26}})).values()
    assert "nodes compute have device names for 25 volumes" in problem.what


def test_ec2_has_taken_disks_and_the_first_interface_off_what_it_lists() -> None:
    """28 places of a Nitro type; were disks not among what is taken off, they would have to be here."""
    limits = attachment_limits()
    for family in ("m5d", "c5d", "r5dn", "i3en", "m6id", "c6id", "i4i"):
        types = [each for each in CATALOG.instances.values() if each.family == family and not each.bare_metal]
        assert types
        for each in types:
            assert each.instance_store
            assert limits[each.name].shared
            assert limits[each.name].volumes + each.instance_store.disks + 1 == 28, each.name


def test_a_type_that_nobody_knows_hides_nothing_else() -> None:
    assert {"nodes.compute.instance", "filesystems.shared.oss.disks.count"} <= set(
        _of_check(grid("m9zz.large", oss=40))
    )


def _of_check(spec: GridSpec) -> list[str]:
    with pytest.raises(GridwrightError) as refused:
        check_against_catalogue(spec, CATALOG)
    return [each.field or "" for each in refused.value.problems]


def test_volumes_that_a_pair_shares_count_twice_and_take_the_nitro_system() -> None:
    text = SCALE.replace("m6in.8xlarge", "i3.8xlarge")
    (old,) = problems(parse_spec(text)).values()
    assert old.field == "filesystems.lake.nsd.instance"
    assert "i3.8xlarge is older" in old.what
    assert "i4i.8xlarge" in (old.remedy or "")
    many = SCALE.replace("{type: io2, count: 2", "{type: io2, count: 15")
    too_many = problems(parse_spec(many))["filesystems.lake.nsd.disks.count"]
    most = int(re.search(r"at most (\d+)", too_many.remedy or "")[1])  # type: ignore[index]
    assert problems(parse_spec(SCALE.replace("{type: io2, count: 2", f"{{type: io2, count: {most}"))) == {}
