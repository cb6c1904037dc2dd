"""User data: within the limit, plain text, without a secret."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.aws.layout import AwsLayout, Machine, Role, aws_layout
from gridwright.providers.aws.machine_files import LARGEST, UserData, role_variables, user_data
from gridwright.providers.boot.bundle import boot_file
from gridwright.spec import GridSpec, load_spec, parse_spec

EXAMPLES = Path(__file__).parents[4] / "examples"
LUSTRE = (EXAMPLES / "aws-lustre.yaml").read_text()
VALUE = "x" * 128
"""Longer than names of buckets, ARNs of secrets and names of file systems."""


def laid_out(text: str) -> tuple[GridSpec, AwsLayout]:
    spec = parse_spec(text)
    return spec, aws_layout(spec)


def of(text: str, role: Role) -> UserData:
    spec, layout = laid_out(text)
    machines: tuple[Machine, ...] = layout.of_role(role)
    return user_data(spec, layout, machines, "Group" if machines[0].replaced else None)


def settings(data: UserData) -> dict[str, Any]:
    found = re.search(r"boot\.json\"\) << 'END-OF-FILE'\n(.*?)\nEND-OF-FILE", data.text, re.DOTALL)
    assert found
    content: dict[str, Any] = json.loads(found[1])
    return content


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "example", ["aws-fsx", "aws-lustre", "papers/000-all-on-lustre", "papers/002-fsx-lustre"]
)
def test_it_is_ascii_and_smaller_than_the_limit(example: str, role: Role) -> None:
    spec = load_spec(EXAMPLES / f"{example}.yaml")
    layout = aws_layout(spec)
    machines = layout.of_role(role)
    if not machines:
        return
    text = user_data(spec, layout, machines, "Group").text
    filled = re.sub(r"\$\{[A-Za-z:]+\}", VALUE, text).replace("${!", "${")
    assert len(filled.encode("ascii")) <= LARGEST


def test_the_script_is_one_that_a_shell_can_read() -> None:
    proxied = LUSTRE.replace("aws:\n", "aws:\n  proxy: http://proxy.example:3128\n", 1)
    for text in (LUSTRE, proxied):
        part = of(text, Role.COMPUTE).text.replace("${!", "${").split("--gridwright")[2].partition("\n\n")[2]
        assert part.startswith("#!/bin/sh\n")
        subprocess.run(["sh", "-n"], input=part, text=True, check=True, timeout=10)


def test_what_a_machine_is_told_is_what_it_needs() -> None:
    node, server = settings(of(LUSTRE, Role.COMPUTE)), settings(of(LUSTRE, Role.OSS))
    assert (node["name"], node["claim"], node["key"]["secret"]) == (None, "compute-compute", "${MungeKey}")
    # A server takes no part in Slurm: it neither gets the key nor may read it.
    assert (server["claim"], server["key"]) == ("shared-oss", None)
    login = settings(of(LUSTRE, Role.LOGIN))
    assert (login["name"], login["claim"], login["group"]) == ("login1", None, None)


def test_the_way_through_a_proxy_leaves_out_what_has_a_way_of_its_own() -> None:
    text = of(LUSTRE.replace("aws:\n", "aws:\n  proxy: http://proxy.example:3128\n", 1), Role.COMPUTE).text
    assert "export https_proxy=http://proxy.example:3128\n" in text
    direct = re.search(r"export no_proxy=(\S+)", text)
    assert direct
    assert {
        "169.254.169.254",
        "10.20.0.0/16",
        "s3.us-east-1.amazonaws.com",
        "dynamodb.us-east-1.amazonaws.com",
    } <= {*direct[1].split(",")}
    assert "proxy" not in of(LUSTRE, Role.COMPUTE).text.split("fetch.py")[0]


def test_nothing_that_roles_are_told_goes_before_what_the_site_says() -> None:
    """Extra variables of Ansible would: of nodes there are none, and each role has its own by default."""
    assert role_variables(*laid_out(LUSTRE), "nodes") == {}


def test_they_are_those_of_the_release_that_machines_began_with() -> None:
    """Whatever else is new comes with the bundle: other user data replace or restart every machine.

    Who changes this digest says in CHANGELOG.md that `up` replaces all nodes and servers once.
    """
    programs = {
        of(LUSTRE, role).text.partition("fetch.py")[2] for role in (Role.COMPUTE, Role.OSS, Role.LOGIN)
    }
    assert {hashlib.sha256(each.encode()).hexdigest()[:16] for each in programs} == {"cda7f34eff2593a0"}


def test_the_program_is_one_for_the_python_of_red_hat_9() -> None:
    for name in ("fetch.py", "set_up.py", "system_packages.py", "cloud.py"):
        ast.parse(boot_file("aws", name), feature_version=(3, 9))
