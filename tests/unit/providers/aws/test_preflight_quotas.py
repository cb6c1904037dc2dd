"""What a grid counts against the quotas of an account, worked out by hand."""

from __future__ import annotations

import pytest

from gridwright.catalog import load_catalog
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.preflight import Amounts, all_quotas, family, needs, too_small
from gridwright.providers.provider import QuotaUse
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE, SITE_VPC

GIB_PER_TIB = 1024


def needed(text: str) -> Amounts:
    spec = parse_spec(text)
    return needs(spec, aws_layout(spec), load_catalog())


def test_each_type_of_today_counts_against_one_quota_of_vcpus() -> None:
    kinds = [each for each in all_quotas() if each.kind == "vcpus"]
    for name, instance in load_catalog().instances.items():
        # Those of Apple run on hosts that are bought whole.
        if instance.provider == "aws" and instance.current and not name.startswith("mac"):
            found = [each.name for each in kinds if family(name) in each.of]
            assert len(found) == 1, (name, found)


def test_a_grid_on_fsx() -> None:
    assert needed(FSX) == {
        # Two m6i.4xlarge, and an m6i.large each for login and head.
        ("vcpus", "m"): 2 * 16 + 2 * 2,
        ("volumes", "gp3"): pytest.approx(4 * 50 / GIB_PER_TIB),
        ("fsx-capacity", "PERSISTENT_2"): 2400,
        ("fsx-count", "PERSISTENT_2"): 1,
        ("networks", ""): 1,
        ("addresses", ""): 2,
        ("gateways", ""): 1,
    }


def test_volumes_of_servers_and_nodes_count_each() -> None:
    grid = needed(LUSTRE)
    # Seven machines start from a volume; two OSS have two targets each, the MDS has one.
    assert grid["volumes", "gp3"] == pytest.approx((7 * 50 + 4 * 500 + 100) / GIB_PER_TIB)
    assert grid["vcpus", "c"] == 2 * 36
    local = "  fast: {type: local, path: /fast, disks: {type: gp3, count: 3, size: 200 GiB}}\nlibraries:"
    places = "{data: {filesystem: shared}, work: {filesystem: fast}, util: {filesystem: fast}}"
    more = needed(LUSTRE.replace("libraries:", local).replace("{data: {}, work: {}, util: {}}", places))
    assert more["volumes", "gp3"] - grid["volumes", "gp3"] == pytest.approx(2 * 3 * 200 / GIB_PER_TIB)


def test_behind_a_proxy_there_is_neither_an_address_nor_a_gateway() -> None:
    behind = FSX.replace("owner: ann", "proxy: 'http://proxy.example:3128'")
    assert {kind for kind, _ in needed(behind)} & {"addresses", "gateways"} == set()


def test_in_a_network_of_the_site_there_is_none_but_for_a_public_login_node() -> None:
    site = FSX.replace("owner: ann", f"vpc: {SITE_VPC}")
    network = {"networks", "addresses", "gateways"}
    assert {kind for kind, _ in needed(site)} & network == set()
    public = site.replace("reserve: true", "public_address: true")
    assert {kind: count for (kind, _), count in needed(public).items() if kind in network} == {"addresses": 1}


@pytest.mark.parametrize(("limit", "fits"), [(100, True), (99, False)])
def test_a_quota_is_enough_up_to_its_last_unit(limit: float, fits: bool) -> None:
    figure = QuotaUse("vCPUs", "ec2/L-1216C47A", "vCPUs", limit, used=64, needed=36)
    found = list(too_small([figure], "us-east-1"))
    assert figure.is_enough is fits
    assert len(found) == (not fits)


def test_the_remedy_asks_for_all_that_is_used_and_needed_in_whole_units() -> None:
    figure = QuotaUse("gp3", "ebs/L-7A658B76", "TiB", 50, used=49.2, needed=2.39)
    (found,) = too_small([figure], "eu-west-1")
    assert "--region eu-west-1 --service-code ebs --quota-code L-7A658B76 --desired-value 52;" in found.remedy
    assert "others use 49.2, and the grid needs 2.39" in found.text


def test_every_quota_names_its_page() -> None:
    assert all(each.source for each in all_quotas())
    assert len({each.code for each in all_quotas()}) == len(all_quotas())
