"""Which distribution machines have, and what a grid is given for it."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.layout import aws_section, distribution_of_nodes, login_user
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_updates import effects

ZONE = "zone: us-east-1a,"
AL2023 = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"


def with_images(text: str, spec: str = FSX) -> str:
    return spec.replace(ZONE, f"{ZONE} key: ours, images: {{{text}}},")


@pytest.mark.parametrize(
    ("images", "name", "user"),
    [
        ("", "ubuntu-24.04", "ubuntu"),
        (f"compute: {AL2023}", "amzn-2023", "ec2-user"),
        ("compute: ami-0123456789abcdef0, distribution: rocky-9", "rocky-9", "rocky"),
        ("compute: ami-0123456789abcdef0", None, None),
        ("compute: /ours/image", None, None),
    ],
)
def test_who_logs_in_goes_by_the_distribution(images: str, name: str | None, user: str | None) -> None:
    aws = aws_section(parse_spec(with_images(images)))
    found = distribution_of_nodes(aws)
    assert (found and found.name, login_user(aws)) == (name, user)


def test_without_a_key_pair_the_site_has_accounts_of_its_own() -> None:
    assert login_user(aws_section(parse_spec(FSX))) is None


def devices(text: str) -> set[str]:
    resources: dict[str, Any] = deployment(parse_spec(text)).grid["Resources"]
    templates = [each["Properties"]["LaunchTemplateData"] for each in resources.values()
                 if each["Type"] == "AWS::EC2::LaunchTemplate"]  # fmt: skip
    return {each["BlockDeviceMappings"][0]["DeviceName"] for each in templates}


def test_the_disk_is_called_as_the_image_calls_it() -> None:
    assert devices(FSX) == {"/dev/sda1"}
    assert devices(with_images(f"compute: {AL2023}")) == {"/dev/xvda"}
    assert devices(with_images("compute: ami-0123456789abcdef0, distribution: amzn-2023")) == {"/dev/xvda"}
    # Servers of Lustre have an image of their own.
    own = LUSTRE.replace("images: {", f"images: {{compute: {AL2023}, ")
    assert devices(own) == {"/dev/sda1", "/dev/xvda"}


def test_saying_what_an_image_has_touches_machines_only_where_their_disk_is_called_otherwise() -> None:
    before = with_images("compute: ami-0123456789abcdef0")
    assert effects(before, with_images("compute: ami-0123456789abcdef0, distribution: rocky-9")) == {}
    rolled = effects(before, with_images("compute: ami-0123456789abcdef0, distribution: amzn-2023"))
    assert rolled["ComputeNodes"] == "roll"


@pytest.mark.parametrize(
    ("name", "what", "remedy"),
    [
        ("rocky9", '"rocky9" is no distribution that is known', "did you mean rocky-9?"),
        ("amzn-2", "Amazon Linux 2 is not supported: its Python is 3.7", "choose one of"),
        ("plan9", '"plan9" is no distribution that is known', "write one of"),
    ],
)
def test_what_is_not_in_the_table_is_refused(name: str, what: str, remedy: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        parse_spec(with_images(f"compute: ami-0123456789abcdef0, distribution: {name}"))
    (problem,) = caught.value.problems
    assert what in problem.what
    assert remedy in str(problem.remedy).lower()
