"""Values of section aws and of FSx for Lustre that AWS would refuse, or that nobody should mean."""

from __future__ import annotations

import pytest

from gridwright.errors import GridwrightError
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
