"""Values of section aws and of FSx for Lustre that AWS would refuse, or that nobody should mean."""

from __future__ import annotations

import pytest

from gridwright.errors import GridwrightError
from gridwright.model.grid import check_against_catalogue
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.section import Aws
from gridwright.spec import parse_spec

SPEC = """\
name: demo
provider: aws
region: us-east-1
nodes: {{compute: {{instance: m5n.8xlarge, count: 2}}}}
filesystems:
  shared: {{type: fsx-lustre, path: /shared, capacity: 2400 GiB{fsx}}}
aws: {{zone: us-east-1a, ssh_from: [{ssh}]{aws}}}
"""


def spec(fsx: str = "", ssh: str = "203.0.113.0/24", aws: str = "") -> str:
    return SPEC.format(fsx=fsx, ssh=ssh, aws=aws)


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        (spec(aws=", proxy: 'http://proxy.example:0'"), "aws.proxy", "http://proxy.example:0"),
        (spec(aws=", proxy: 'http://proxy.example:65536'"), "aws.proxy", "http://proxy.example:65536"),
        (spec(aws=", proxy: 'http://proxy.example:99999'"), "aws.proxy", "http://proxy.example:99999"),
        (spec(aws=", expires: 2027-02-30"), "aws.expires", "2027-02-30"),
        (spec(ssh="0.0.0.0/0"), "aws.ssh_from.0", "lets everybody on the Internet"),
        (spec(ssh="8.0.0.0/5"), "aws.ssh_from.0", "a large part of the Internet"),
        (spec(fsx=", root_squash: '0:0'"), "filesystems.shared.root_squash", "0:0"),
        (spec(fsx=", root_squash: '0:65534'"), "filesystems.shared.root_squash", "0:65534"),
        (spec(fsx=", root_squash: '1:4294967295'"), "filesystems.shared.root_squash", "4294967295"),
        (spec(fsx=", maintenance: 'sun:24:00'"), "filesystems.shared.maintenance", "sun:24:00"),
    ],
)
def test_it_is_refused_where_it_stands(text: str, field: str, said: str) -> None:
    with pytest.raises(GridwrightError) as error:
        parse_spec(text)
    (problem,) = error.value.problems
    assert problem.field == field
    assert said in problem.what
    assert problem.remedy


@pytest.mark.parametrize("port", [1, 80, 3128, 10000, 65535])
def test_every_port_can_be_a_proxy_s(port: int) -> None:
    read = parse_spec(spec(aws=f", proxy: 'http://proxy.example:{port}'"))
    aws = read.section(Aws)
    assert aws is not None
    assert aws.proxy == f"http://proxy.example:{port}"


def test_the_widest_and_the_narrowest_ranges_that_ssh_is_let_in_from() -> None:
    read = parse_spec(spec(ssh="8.0.0.0/8, 203.0.113.7/32"))
    aws = read.section(Aws)
    assert aws is not None
    assert aws.ssh_from == ["8.0.0.0/8", "203.0.113.7/32"]


VPC = """, vpc: {id: vpc-0123456789abcdef0, networks: [10.8.0.0/16],
    login: {subnet: subnet-0123456789abcdef0, addresses: 10.8.4.64/28},
    storage: {subnet: subnet-0123456789abcdef0, addresses: 10.8.4.128/28},
    compute: {subnet: subnet-0123456789abcdef1, addresses: 10.8.16.64/26}}"""
META = "machines: {meta: {instance: m6i.large, count: 2}, tier: {instance: m6i.large, count: 16}}\n"


def addresses(text: str) -> dict[str, str]:
    return aws_layout(parse_spec(text)).addresses


def test_machines_of_a_vpc_that_is_there_have_addresses_of_their_ranges_alone() -> None:
    found = addresses(spec(aws=VPC) + "machines: {meta: {instance: m6i.large, count: 2}}\n")
    assert found == {
        "login1": "10.8.4.68",
        "compute1": "10.8.16.69",
        "compute2": "10.8.16.70",
        "meta1": "10.8.16.111",
        "meta2": "10.8.16.112",
    }


def test_more_nodes_or_machines_move_no_machine() -> None:
    before = addresses(spec() + META)
    for old, new in (
        ("count: 2}}\nfile", "count: 300}}\nfile"),
        ("m6i.large, count: 2", "m6i.large, count: 5"),
        ("count: 16}}", "count: 16}, last: {instance: m6i.large}}"),
    ):
        text = (spec() + META).replace(old, new)
        assert text != spec() + META
        after = addresses(text)
        assert {name: after[name] for name in before} == before
    assert (
        addresses(spec() + META.replace("count: 2}", "address: 10.20.200.7, count: 2}"))["meta2"]
        == "10.20.200.8"
    )


@pytest.mark.parametrize(
    ("text", "field", "said", "remedy"),
    [
        (
            spec(aws=VPC).replace("count: 2", "count: 60"),
            "aws.vpc.compute.addresses",
            "has 64 addresses, and 66 are needed",
            "write a range of at least /25",
        ),
        (
            spec(aws=VPC.replace("storage: {", "reserve: true, #").replace("addresses: 10.8.4.128/28},", "")),
            "aws.vpc",
            "no subnet of the VPC is named for them",
            "add storage:",
        ),
        (
            spec(aws=VPC)
            + "machines: {meta: {instance: m6i.large, count: 16}, tier: {instance: m6i.large, count: 9}, "
            "more: {instance: m6i.large, count: 16}, most: {instance: m6i.large, count: 8}}\n",
            "machines.most",
            "most1 would have 10.8.16.63, which is not in 10.8.16.64/26",
            "write address: 10.8.16.71",
        ),
        (
            spec() + "machines: {meta: {instance: m6i.large, address: 10.20.128.17}}\n",
            "machines.meta.address",
            "meta1 would have 10.20.128.17, which another machine has",
            "write address: 10.20.255.254",
        ),
        (
            spec() + "machines: {meta: {instance: m6i.large, address: 192.0.2.1}}\n",
            "machines.meta.address",
            "which is not in 10.20.128.0/17",
            "write address: 10.20.255.254",
        ),
        (
            spec() + "machines: {meta: {instance: m9z.large}}\n",
            "machines.meta.instance",
            "m9z.large",
            "",
        ),
    ],
)
def test_check_refuses_addresses_that_do_not_fit(text: str, field: str, said: str, remedy: str) -> None:
    with pytest.raises(GridwrightError) as error:
        check_against_catalogue(parse_spec(text))
    (problem,) = error.value.problems
    assert problem.field == field
    assert said in problem.what
    assert remedy in (problem.remedy or "").lower()
