"""Network and security groups of the storage template: who can reach whom, and from where."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.providers.aws.network import Group
from gridwright.providers.aws.section import Aws
from gridwright.spec.model import GridSpec
from tests.support.examples import examples
from tests.unit.providers.aws.storage_specs import (
    FSX,
    PROXY,
    SPECS,
    lustre,
    properties,
    resources,
    spec,
    template,
)

EVERYWHERE = "0.0.0.0/0"
INGRESS = "AWS::EC2::SecurityGroupIngress"
GROUP = "AWS::EC2::SecurityGroup"
DESCRIPTION = re.compile(r"[A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}")
"""EC2 API reference, IpRange: what a description may have."""

OWN = lustre(2) | {"path": "/own"}
every_spec = pytest.mark.parametrize("grid", SPECS.values(), ids=SPECS)


def ranges(first: int, last: int) -> st.SearchStrategy[str]:
    addresses = st.integers(0, 2**32 - 1)
    return st.builds(
        lambda address, prefix: str(ipaddress.IPv4Network((address >> 8 << 8, prefix), strict=False)),
        addresses,
        st.integers(first, last),
    )


grids = st.builds(
    lambda aws, filesystems: spec(aws, **filesystems),
    st.fixed_dictionaries(
        {"ssh_from": st.lists(ranges(8, 24), min_size=1, max_size=4)},
        optional={
            "network": st.sampled_from(["10.1.0.0/16", "192.168.4.0/22", "172.20.16.0/20"]),
            "proxy": st.sampled_from([PROXY, "http://10.0.0.9:443", "http://10.0.0.9:80"]),
            "efa": st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {"shared": st.sampled_from([FSX, lustre(2, mgs=True)])},
        optional={
            "more": st.sampled_from([FSX | {"path": "/more"}, lustre() | {"path": "/more"}]),
            "home": st.just({"type": "nfs", "path": "/home", "server": "nfs1", "export": "/home"}),
        },
    ),
)


@given(grids)
@settings(max_examples=examples(25), deadline=None)
def test_from_outside_only_ssh_to_the_login_node_is_let_in(grid: GridSpec) -> None:
    found = template(grid)
    aws = grid.section(Aws)
    assert aws is not None
    network = ipaddress.IPv4Network(aws.network)
    inline = [
        rule for each in properties(found, GROUP).values() for rule in each.get("SecurityGroupIngress", ())
    ]
    rules = [*properties(found, INGRESS).values(), *inline]
    outside = [
        rule
        for rule in rules
        if "CidrIp" in rule and not ipaddress.IPv4Network(rule["CidrIp"]).subnet_of(network)
    ]

    assert all("SourceSecurityGroupId" in rule or "CidrIp" in rule for rule in rules)
    assert EVERYWHERE not in [rule.get("CidrIp") for rule in rules]
    assert {rule["CidrIp"] for rule in outside} <= set(aws.ssh_from)
    for rule in outside:
        assert rule["GroupId"] == {"Ref": "LoginGroup"}
        assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 22, 22)
    reached = {rule["CidrIp"] for rule in rules if rule.get("FromPort") == 22 and "CidrIp" in rule}
    assert reached == set(aws.ssh_from)


@given(grids)
@settings(max_examples=examples(25), deadline=None)
def test_outwards_nothing_but_the_web_leaves_the_network(grid: GridSpec) -> None:
    aws = grid.section(Aws)
    assert aws is not None
    allowed = {443} | ({80, 123} if aws.proxy is None else {3128, 443, 80})
    for name, group in properties(template(grid), GROUP).items():
        rules = group["SecurityGroupEgress"]
        ports = [(each.get("FromPort"), each["IpProtocol"], each["CidrIp"]) for each in rules]
        assert len(ports) == len(set(ports))
        within = [each for each in rules if each["CidrIp"] == aws.network]
        assert len(within) == 1
        for each in rules:
            if each not in within:
                assert each["CidrIp"] in (EVERYWHERE, "10.0.0.9/32")
                assert each["FromPort"] == each["ToPort"]
                assert each["FromPort"] in allowed | ({2049} if name != "StorageGroup" else set())


def test_a_proxy_and_a_file_server_that_are_addresses_are_reached_there_alone() -> None:
    home = {"type": "nfs", "path": "/home", "server": "10.9.0.7", "export": "/home"}
    more = home | {"path": "/more", "export": "/more"}
    grid = spec({"proxy": "http://10.9.0.9:3128/"}, shared=FSX, home=home, more=more)

    rules = properties(template(grid), GROUP)["ComputeGroup"]["SecurityGroupEgress"]

    assert [(each.get("FromPort"), each["CidrIp"]) for each in rules] == [
        (None, "10.20.0.0/16"),
        (443, EVERYWHERE),
        (3128, "10.9.0.9/32"),
        (2049, "10.9.0.7/32"),
    ]


def test_the_site_widens_the_way_out_for_who_runs_jobs_and_for_nobody_else() -> None:
    licences = {"to": "10.9.0.7/32", "ports": "27000-27009"}
    database = {"to": "192.0.2.0/24", "ports": 1433}
    web = {"to": EVERYWHERE, "ports": "443"}
    time = {"to": "10.9.0.7/32", "ports": 123, "protocol": "udp"}
    found = {
        name: {
            (each["IpProtocol"], each.get("FromPort"), each.get("ToPort"), each["CidrIp"])
            for each in group["SecurityGroupEgress"]
        }
        for egress in ([], [licences, database, database, web, time])
        for name, group in properties(template(spec({"egress": egress}, shared=FSX, own=OWN)), GROUP).items()
        for name in [f"{name}{' wider' if egress else ''}"]
    }
    more = {
        ("tcp", 27000, 27009, "10.9.0.7/32"),
        ("tcp", 1433, 1433, "192.0.2.0/24"),
        ("udp", 123, 123, "10.9.0.7/32"),
    }
    for name in ("LoginGroup", "HeadGroup", "ComputeGroup", "StorageGroup", "FsxGroup"):
        expected = more if name in ("LoginGroup", "HeadGroup", "ComputeGroup") else set()
        assert found[f"{name} wider"] - found[name] == expected
        assert found[name] <= found[f"{name} wider"]


def may(found: dict[str, Any], source: str, target: str, port: int, protocol: str = "tcp") -> bool:
    """Whether a rule lets a machine of one group reach another at a port."""
    for rule in properties(found, INGRESS).values():
        here = rule["GroupId"] == {"Ref": f"{target}Group"}
        from_it = rule.get("SourceSecurityGroupId") == {"Ref": f"{source}Group"}
        if here and from_it and rule["IpProtocol"] in (protocol, "-1"):
            first, last = rule.get("FromPort", 0), rule.get("ToPort", 65535)
            if first <= port <= last:
                return True
    return False


CLIENTS = ("Login", "Head", "Compute")


@pytest.mark.parametrize("servers", ["Fsx", "Storage"])
def test_lustre_goes_both_ways_between_clients_and_servers_and_not_between_clients(servers: str) -> None:
    found = template(SPECS["both-proxy-efa"])
    for port in (988, 1018, 1023):
        assert may(found, servers, servers, port)
        for client in CLIENTS:
            assert may(found, client, servers, port)
            assert may(found, servers, client, port)
        assert not may(found, "Login", "Head", port)
    for port in (987, 989, 1017, 1024, 6818):
        assert not may(found, "Compute", servers, port)


def test_groups_of_servers_that_are_not_there_let_nobody_in() -> None:
    fsx, built = template(SPECS["persistent-1"]), template(SPECS["lustre"])

    assert not may(fsx, "Compute", "Storage", 988)
    assert "FsxGroup" not in built["Resources"]
    assert {"FsxGroup"} == set(properties(fsx, GROUP)) - set(properties(built, GROUP))


def test_slurm_works_between_its_machines() -> None:
    found = template(SPECS["persistent-1"])

    for source in ("Login", "Compute"):
        assert may(found, source, "Head", 6817)
        assert not may(found, source, "Head", 6819)
    for source in CLIENTS:
        assert may(found, source, "Compute", 6818)
        assert not may(found, "Storage", source, 6818)
    for target in CLIENTS:
        assert may(found, "Compute", target, 32768)
        assert may(found, "Compute", target, 60999)
    assert may(found, "Head", "Login", 40000)


def test_an_accounting_database_can_be_reached_where_there_is_one() -> None:
    grid = spec().model_dump(mode="json", exclude_none=True)
    grid["scheduler"]["accounting"] = "slurmdbd"

    assert may(template(GridSpec.model_validate(grid, context={"base": "/"})), "Login", "Head", 6819)


def test_ssh_goes_from_the_login_node_inwards_and_never_back() -> None:
    found = template(SPECS["lustre"])

    for target in ("Head", "Compute", "Storage"):
        assert may(found, "Login", target, 22)
    for source in ("Head", "Compute", "Storage"):
        assert not may(found, source, "Login", 22)
    assert not may(found, "Compute", "Compute", 22)
    assert not may(found, "Compute", "Storage", 22)


def test_elastic_fabric_adapters_reach_each_other_on_everything_and_only_where_they_are_asked_for() -> None:
    with_efa, without = template(SPECS["both-proxy-efa"]), template(SPECS["lustre"])

    assert may(with_efa, "Compute", "Compute", 1, "udp")
    assert not may(with_efa, "Head", "Compute", 1, "udp")
    (outwards,) = properties(with_efa, "AWS::EC2::SecurityGroupEgress").values()
    assert outwards["DestinationSecurityGroupId"] == outwards["GroupId"] == {"Ref": "ComputeGroup"}
    assert not may(without, "Compute", "Compute", 1, "udp")
    assert not resources(without, "AWS::EC2::SecurityGroupEgress")


def test_servers_of_lustre_show_no_page() -> None:
    found = template(SPECS["lustre-mgs"])
    assert not any(each["FromPort"] == 8080 for each in properties(found, INGRESS).values())


def test_file_servers_elsewhere_can_be_reached_and_cannot_come_in() -> None:
    found = template(SPECS["servers-elsewhere"])
    for name, group in properties(found, GROUP).items():
        ports = {each.get("FromPort") for each in group["SecurityGroupEgress"]}
        assert ({111, 988, 2049, 20048} <= ports) == (name != "StorageGroup")
    assert not any(each["FromPort"] == 988 for each in properties(found, INGRESS).values())


@every_spec
def test_every_rule_says_what_it_is_for_in_letters_that_aws_takes(grid: GridSpec) -> None:
    found = template(grid)
    rules = [
        *properties(found, INGRESS).values(),
        *properties(found, "AWS::EC2::SecurityGroupEgress").values(),
    ]
    for group in properties(found, GROUP).values():
        rules += group["SecurityGroupEgress"]
        assert DESCRIPTION.fullmatch(group["GroupDescription"])
    assert rules
    for rule in rules:
        assert DESCRIPTION.fullmatch(rule["Description"]), rule["Description"]


def test_ranges_in_another_order_change_nothing() -> None:
    one = template(spec({"ssh_from": ["203.0.113.0/24", "198.51.100.7/32"]}))
    other = template(spec({"ssh_from": ["198.51.100.7/32", "203.0.113.0/24", "203.0.113.0/24"]}))

    assert one == other


def test_all_subnets_are_in_the_one_zone_and_give_out_no_public_address() -> None:
    found = properties(template(SPECS["lustre"]), "AWS::EC2::Subnet")

    assert {name: each["CidrBlock"] for name, each in found.items()} == {
        "PublicSubnet": "10.20.0.0/18",
        "StorageSubnet": "10.20.64.0/18",
        "ComputeSubnet": "10.20.128.0/17",
    }
    assert {(each["AvailabilityZone"], each["MapPublicIpOnLaunch"]) for each in found.values()} == {
        ("us-east-1a", False)
    }


def associations(found: dict[str, Any]) -> dict[str, str]:
    return {
        each["SubnetId"]["Ref"]: each["RouteTableId"]["Ref"]
        for each in properties(found, "AWS::EC2::SubnetRouteTableAssociation").values()
    }


def test_only_the_public_subnet_has_a_way_to_the_internet_of_its_own() -> None:
    found = template(SPECS["lustre"])
    (route,) = properties(found, "AWS::EC2::Route").values()

    assert (route["DestinationCidrBlock"], route["RouteTableId"]["Ref"]) == (EVERYWHERE, "PublicRoutes")
    assert associations(found) == {
        "PublicSubnet": "PublicRoutes",
        "StorageSubnet": "PrivateRoutes",
        "ComputeSubnet": "PrivateRoutes",
    }


def test_with_a_proxy_there_is_no_way_to_the_internet_at_all() -> None:
    found = template(SPECS["both-proxy-efa"])

    assert not resources(found, "AWS::EC2::InternetGateway")
    assert not resources(found, "AWS::EC2::Route")
    assert set(associations(found).values()) == {"PrivateRoutes"}
    proxied = [
        each["FromPort"] for each in properties(found, GROUP)["ComputeGroup"]["SecurityGroupEgress"][1:]
    ]
    assert sorted(proxied) == [443, 3128]


@every_spec
def test_every_route_table_reaches_s3_and_the_claims_without_leaving_aws(grid: GridSpec) -> None:
    found = template(grid)
    tables = set(resources(found, "AWS::EC2::RouteTable"))

    for name in ("S3Endpoint", "DynamoDBEndpoint"):
        endpoint = found["Resources"][name]["Properties"]
        assert {each["Ref"] for each in endpoint["RouteTableIds"]} == tables
        for statement in endpoint["PolicyDocument"]["Statement"]:
            assert all("*" not in action for action in statement["Action"])
            # Whoever asks is of this account, or reads packages.
            if "Condition" not in statement:
                assert (statement["Sid"], statement["Action"]) == ("Packages", ["s3:GetObject"])
                assert "*" not in [each["Fn::Sub"] for each in statement["Resource"]]
    (claims,) = found["Resources"]["DynamoDBEndpoint"]["Properties"]["PolicyDocument"]["Statement"]
    assert claims["Resource"] == {"Fn::GetAtt": ["ClaimsTable", "Arn"]}


def test_every_group_of_a_machine_is_exported() -> None:
    outputs = template(SPECS["lustre"])["Outputs"]

    assert {each for each in Group if each is not Group.FSX} <= set(outputs)
