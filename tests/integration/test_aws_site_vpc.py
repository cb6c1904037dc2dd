"""A grid in a VPC of the site's: the real commands against moto's server, and a network that boto3 made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import Grid, grid_of
from tests.support.aws_machines import REGION
from tests.support.aws_site import DOMAIN, SiteNetwork
from tests.support.command import Command
from tests.support.operator_permissions import judged

MACHINES = ["login1", "controller", "compute1", "compute2", "meta1", "tier1", "tier2"]


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def site(cloud: AwsCloud) -> SiteNetwork:
    return SiteNetwork.made(cloud)


@pytest.fixture
def grid(gridwright: Command, cloud: AwsCloud, site: SiteNetwork, tmp_path: Path) -> Grid:
    return grid_of(site.spec(), gridwright, cloud, tmp_path)


def test_a_grid_in_a_network_of_the_site_from_nothing_to_nothing(
    grid: Grid, cloud: AwsCloud, site: SiteNetwork
) -> None:
    before = site.state()
    with judged(cloud, grid.spec.read_text()) as judge:
        made = grid.done("up", "--json").json
        assert made["made"] is True
        for role, names in (("compute", ["compute1", "compute2"]), ("machine", ["tier1", "tier2"])):
            _claim(cloud, role, names)
        status = grid.done("status", "--json").json
        assert [each["name"] for each in status["machines"]] == MACHINES
        assert {each["state"] for each in status["machines"]} == {"running"}
        _what_is_in_the_network(site, before, status)
        again = grid.done("up")
        assert "nothing is changed" in again.out
        assert grid.done("up", "--check").status == 0, (
            "its own addresses and reservations are in nobody's way"
        )
        _what_a_machine_keeps_is_not_lost(grid, cloud)
        _stopped_and_started(grid, cloud)
        down = grid.done("down", "--yes", "--delete-data", "shared", "--json").json
        assert "meta1 WITH ALL THAT LIES ON THEIR DISKS" in " ".join(down["removed"])
    assert judge.without_use() == set()
    assert cloud.stack_states() == {}
    site.release_what_is_gone()
    assert site.state() == before, "the site's network is exactly as it was"


def _claim(cloud: AwsCloud, role: str, names: list[str]) -> None:
    """As `AwsCloud.claim`, of those machines of a role that a group replaces."""
    tagged = [
        {"Name": f"tag:gridwright:{key}", "Values": [value]}
        for key, value in (("grid", "demo"), ("role", role))
    ]
    found = cloud.client("ec2").describe_instances(Filters=tagged)["Reservations"]
    owners = [
        each["InstanceId"]
        for reservation in found
        for each in reservation["Instances"]
        if not any(tag["Key"] == "gridwright:slot" for tag in each["Tags"])
    ]
    for slot, owner in zip(names, owners, strict=True):
        item = {"slot": {"S": slot}, "owner": {"S": owner}, "token": {"N": "1"}}
        cloud.client("dynamodb").put_item(TableName="gridwright-demo-claims", Item=item)


def _what_is_in_the_network(site: SiteNetwork, before: dict[str, Any], status: dict[str, Any]) -> None:
    """The grid's own interfaces, security groups, names and reservations, and nothing else."""
    now = site.state()
    for same in ("vpcs", "tables", "gateways", "nat", "endpoints", "acls", "addresses", "dhcp", "zone"):
        assert now[same] == before[same], same
    expected = {each["name"]: each["address"] for each in status["machines"]}
    names = {
        each["Name"].removesuffix(f".{DOMAIN}."): each["ResourceRecords"][0]["Value"]
        for each in now["records"]
        if each["Type"] == "A"
    }
    assert names == expected
    assert expected["login1"] == "10.8.4.68"
    assert expected["controller"] == "10.8.16.68"
    assert expected["compute2"] == "10.8.16.70"
    reserved = [each["Cidr"] for name in ("login", "storage", "compute") for each in now[site.ids[name]]]
    assert reserved == ["10.8.4.64/28", "10.8.8.64/28", "10.8.16.64/26"]
    held = {
        each["PrivateIpAddress"]: {group["GroupId"] for group in each["Groups"]} for each in now["interfaces"]
    }
    assert site.ids["group"] in held[expected["login1"]] & held[expected["meta1"]]
    assert site.ids["group"] not in held[expected["controller"]] | held[expected["tier1"]]
    opened = {
        (rule["FromPort"], source["CidrIp"])
        for group in now["groups"]
        for rule in group["IpPermissions"]
        for source in rule["IpRanges"]
        if group not in before["groups"]
    }
    assert opened == {(22, "10.0.0.0/8"), (443, "10.0.0.0/8")}
    by_role = [
        rule for group in now["groups"] for rule in group["IpPermissions"] if rule.get("FromPort") == 8561
    ]
    assert len(by_role) == 1
    assert len(by_role[0]["UserIdGroupPairs"]) == 1


def _what_a_machine_keeps_is_not_lost(grid: Grid, cloud: AwsCloud) -> None:
    """A machine that stays goes only where its group is named, and nothing else of the update before that."""
    meta = cloud.resources("gridwright-demo")["Meta1"]
    whole = grid.spec.read_text()
    grid.edit("  meta: {instance: r6i.xlarge, disk: 200 GiB}\n", "")
    grid.edit("    - {role: meta, source: compute, ports: 8561}\n", "")
    grid.edit("meta: [", "head: [")
    cloud.faults.clear()
    refused = grid("up")
    assert refused.status == 2
    assert "meta1 would go, with what lies on its disk" in refused.text
    assert "--replace meta" in refused.text
    assert "cloudformation:ExecuteChangeSet" not in cloud.faults.seen
    grid.spec.write_text(whole)
    wrong = grid("up", "--replace", "mta")
    assert "has no file system and no machines mta" in wrong.text
    assert cloud.resources("gridwright-demo")["Meta1"] == meta


def _stopped_and_started(grid: Grid, cloud: AwsCloud) -> None:
    """A machine that stays is stopped with its disk; those of a group go, and come again."""
    stopped = grid.done("stop", "--now", "--json").json
    assert stopped["emptied"] == ["machines tier"]
    states: dict[str, set[str]] = {}
    for reservation in cloud.client("ec2").describe_instances()["Reservations"]:
        for each in reservation["Instances"]:
            tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", [])}
            states.setdefault(tags.get("gridwright:slot", "replaced"), set()).add(each["State"]["Name"])
    assert states["meta1"] == {"stopped"}
    assert states["replaced"] == {"terminated"}
    lines = [each["what"] for each in stopped["costs"]["lines"]]
    assert any("disks of 1 machines meta, gp3 of 200 GiB" in each for each in lines)
    assert not any("tier" in each or "NAT" in each or "address" in each for each in lines)
    grid.done("start")
    running = {each["name"]: each["state"] for each in grid("status", "--json").json["machines"]}
    assert running["meta1"] == "running"


def refused(grid: Grid) -> dict[str, dict[str, Any]]:
    """Errors of the check by name; `up` itself refuses the same, and makes nothing."""
    ended = grid("up", "--check", "--json")
    assert ended.status == 3, ended.err
    assert all(each["remedy"] for each in ended.json["findings"])
    return {each["name"]: each for each in ended.json["findings"] if each["level"] == "error"}


def warned(grid: Grid) -> set[str]:
    ended = grid("up", "--check", "--json")
    return {each["name"] for each in ended.json["findings"] if each["level"] == "warning"}


def test_a_network_that_fits_is_said_so_and_left_alone(
    grid: Grid, cloud: AwsCloud, site: SiteNetwork
) -> None:
    before = site.state()
    cloud.faults.clear()
    with judged(cloud, grid.spec.read_text()):
        ended = grid.done("up", "--check", "--json")
    assert [each for each in ended.json["findings"] if each["level"] in ("error", "warning")] == []
    assert {"VPCs per Region", "NAT gateways per Availability Zone", "EC2-VPC Elastic IPs"}.isdisjoint(
        each["name"] for each in ended.json["quotas"]
    )
    asked = {each.partition(":")[2] for each in cloud.faults.seen}
    assert not asked & {"CreateVpc", "CreateInternetGateway", "AllocateAddress"}
    assert {"CreateSecurityGroup", "CreateNetworkInterface", "CreateSubnetCidrReservation"} <= asked
    assert site.state() == before


def _another_vpc(site: SiteNetwork) -> str:
    return str(site.ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"])


def _of_another_vpc(site: SiteNetwork, grid: Grid) -> None:
    grid.edit(site.ids["compute"], site.subnet("10.8.16.0/24", vpc=_another_vpc(site)))


def _in_another_zone(site: SiteNetwork, grid: Grid) -> None:
    grid.edit(site.ids["compute"], site.subnet("10.8.17.0/24", f"{REGION}b"))
    grid.edit("10.8.16.64/26", "10.8.17.64/26")


def _wrong_range(site: SiteNetwork, grid: Grid) -> None:
    grid.edit("10.8.16.64/26", "10.8.32.64/26")


def _taken(site: SiteNetwork, grid: Grid) -> None:
    site.ec2.create_network_interface(
        SubnetId=site.ids["compute"], PrivateIpAddress="10.8.16.70", Description="somebody's database"
    )


def _taken_where_the_console_is(site: SiteNetwork, grid: Grid) -> None:
    named = f"arn:aws:acm:{REGION}:111122223333:certificate/00000000-0000-0000-0000-000000000000"
    grid.edit("  ssh_from:", f"  certificate: '{named}'\n  ssh_from:")
    site.ec2.create_network_interface(SubnetId=site.ids["login"], PrivateIpAddress="10.8.4.70")


def _taken_by_another_grid(site: SiteNetwork, grid: Grid) -> None:
    tags = [{"Key": "gridwright:grid", "Value": "other"}]
    site.ec2.create_network_interface(
        SubnetId=site.ids["compute"],
        PrivateIpAddress="10.8.16.70",
        Description="another grid's",
        TagSpecifications=[{"ResourceType": "network-interface", "Tags": tags}],
    )


def _too_full(site: SiteNetwork, grid: Grid) -> None:
    small = site.subnet("10.8.40.0/26")
    site.ids["small"] = small
    site.ec2.associate_route_table(RouteTableId=site.ids["table"], SubnetId=small)
    for number in range(4, 44):
        site.ec2.create_network_interface(SubnetId=small, PrivateIpAddress=f"10.8.40.{number}")
    grid.edit(site.ids["storage"], small)
    grid.edit("10.8.8.64/28", "10.8.40.48/28")
    grid.edit("capacity: 2400 GiB", "capacity: 48000 GiB")


def _reserved_by_others(site: SiteNetwork, grid: Grid) -> None:
    site.ec2.create_subnet_cidr_reservation(
        SubnetId=site.ids["compute"], Cidr="10.8.16.64/27", ReservationType="prefix"
    )


def _whole_subnet(site: SiteNetwork, grid: Grid) -> None:
    grid.edit("10.8.16.64/26", "10.8.16.0/24")


def _vpc_gone(site: SiteNetwork, grid: Grid) -> None:
    grid.edit(site.ids["vpc"], "vpc-0123456789abcdef0")


def _other_networks(site: SiteNetwork, grid: Grid) -> None:
    grid.edit("networks: [10.8.0.0/16]", "networks: [10.8.0.0/16, 10.9.0.0/16]")


def _no_dns(site: SiteNetwork, grid: Grid) -> None:
    site.ec2.modify_vpc_attribute(VpcId=site.ids["vpc"], EnableDnsHostnames={"Value": False})


def _no_way_out(site: SiteNetwork, grid: Grid) -> None:
    _moved(site, site.table("", "", "public"), "compute")


def _internet_gateway_alone(site: SiteNetwork, grid: Grid) -> None:
    _moved(site, site.ids["public-table"], "compute")


def _moved(site: SiteNetwork, table: str, subnet: str) -> None:
    for each in site.ec2.describe_route_tables()["RouteTables"]:
        for one in each["Associations"]:
            if one.get("SubnetId") == site.ids[subnet]:
                site.ec2.disassociate_route_table(AssociationId=one["RouteTableAssociationId"])
    site.ec2.associate_route_table(RouteTableId=table, SubnetId=site.ids[subnet])


def _public_without_gateway(site: SiteNetwork, grid: Grid) -> None:
    grid.edit("    reserve: true\n", "    reserve: true\n    public_address: true\n")


def _endpoint_elsewhere(site: SiteNetwork, grid: Grid) -> None:
    table = site.table("NatGatewayId", site.ids["nat"])
    site.ec2.modify_vpc_endpoint(
        VpcEndpointId=site.ids["s3"], AddRouteTableIds=[table], RemoveRouteTableIds=[site.ids["table"]]
    )


def _endpoint_gone(site: SiteNetwork, grid: Grid) -> None:
    grid.edit(site.ids["s3"], "vpce-0123456789abcdef0")


def _group_of_another_vpc(site: SiteNetwork, grid: Grid) -> None:
    other = site.ec2.create_security_group(GroupName="o", Description="o", VpcId=_another_vpc(site))[
        "GroupId"
    ]
    grid.edit(f"meta: [{site.ids['group']}]", f"meta: [{other}]")


def _zone_of_another_name(site: SiteNetwork, grid: Grid) -> None:
    grid.edit(f"name: {DOMAIN}", "name: grid.example.org")


def _public_zone(site: SiteNetwork, grid: Grid) -> None:
    made = site.cloud.client("route53").create_hosted_zone(Name=DOMAIN, CallerReference="public")
    grid.edit(site.ids["zone"], made["HostedZone"]["Id"].rpartition("/")[2])


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("spoil", "name", "words"),
    [
        (_of_another_vpc, "subnet-of-another-vpc", "and not in"),
        (_in_another_zone, "subnet-in-another-zone", f"is in zone {REGION}b, and the grid in {REGION}a"),
        (_wrong_range, "addresses-outside-subnet", "has 10.8.16.0/24, and 10.8.32.64/26 is not in it"),
        (_taken, "address-taken", "10.8.16.70, which compute2 is to have, is that of eni-"),
        (_taken_by_another_grid, "address-taken", "another grid's"),
        (
            _taken_where_the_console_is,
            "address-taken",
            "10.8.4.70, which the load balancer of the console is",
        ),
        (_too_full, "subnet-too-full", "has 19 free addresses, and the grid needs"),
        (_reserved_by_others, "addresses-reserved", "10.8.16.64/27 of subnet"),
        (_whole_subnet, "subnet-reserved-whole", "10.8.16.0/24 is all of subnet"),
        (_vpc_gone, "vpc-unknown", "the account sees no VPC vpc-0123456789abcdef0"),
        (_other_networks, "vpc-of-another-range", "has 10.8.0.0/16, and not 10.9.0.0/16"),
        (_no_dns, "vpc-without-dns", "enableDnsHostnames off"),
        (_no_way_out, "service-not-reached", "no route that leads out"),
        (_internet_gateway_alone, "service-not-reached", "of no use to private addresses"),
        (_public_without_gateway, "no-internet-gateway", "no route to an internet gateway"),
        (_endpoint_elsewhere, "endpoint-not-reached", "is in no route of rtb-"),
        (_endpoint_gone, "endpoint-unknown", "no endpoint vpce-0123456789abcdef0"),
        (_group_of_another_vpc, "security-group-of-another-vpc", "and machines are in vpc-"),
        (_zone_of_another_name, "hosted-zone-of-another-name", f"is {DOMAIN}, and not grid.example.org"),
        (_public_zone, "hosted-zone-public", "the world would read"),
    ],
)
def test_what_up_would_fail_of_in_a_network_of_the_site_is_found_before(
    grid: Grid,
    cloud: AwsCloud,
    site: SiteNetwork,
    spoil: Callable[[SiteNetwork, Grid], None],
    name: str,
    words: str,
) -> None:
    spoil(site, grid)
    before = site.state()
    found = refused(grid)
    assert name in found, found
    assert words in found[name]["text"]
    assert cloud.stack_states() == {}
    assert site.state() == before


@pytest.mark.thorough
def test_what_may_hurt_is_a_warning(grid: Grid, cloud: AwsCloud, site: SiteNetwork) -> None:
    grid.edit("    reserve: true\n", "")
    assert warned(grid) == {"addresses-not-reserved"}
    for name, cidr in (("login", "10.8.4.64/28"), ("storage", "10.8.8.0/24"), ("compute", "10.8.16.64/26")):
        site.ec2.create_subnet_cidr_reservation(
            SubnetId=site.ids[name], Cidr=cidr, ReservationType="explicit"
        )
    assert warned(grid) == set()
    refusal = grid("up", "--check")
    assert refusal.status == 0
    # Endpoints for all that machines ask, and no way out: they can be made, and have no packages.
    _moved(site, site.table("", "", "public"), "compute")
    services = ("monitoring", "ec2", "autoscaling", "cloudformation", "secretsmanager")
    (table,) = {
        each["RouteTableId"]
        for each in site.ec2.describe_route_tables()["RouteTables"]
        for one in each["Associations"]
        if one.get("SubnetId") == site.ids["compute"]
    }
    for service in ("s3", "dynamodb"):
        site.ec2.modify_vpc_endpoint(VpcEndpointId=site.ids[service], AddRouteTableIds=[table])
    for service in services:
        site.ec2.create_vpc_endpoint(
            VpcId=site.ids["vpc"],
            ServiceName=f"com.amazonaws.{REGION}.{service}",
            VpcEndpointType="Interface",
            SubnetIds=[site.ids["compute"]],
            PrivateDnsEnabled=True,
        )
    assert warned(grid) == {"packages-not-reached"}
    assert grid("up", "--check").status == 0
