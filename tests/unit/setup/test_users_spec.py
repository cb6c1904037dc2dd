"""What machines are told of the users of a spec: accounts, homes, and settings of SSSD for directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.users.configuration import parse_configuration
from gridwright.setup.node_specs import SECRET_FILE, secret_arn, users_configuration
from gridwright.spec import load_spec, parse_spec

GRID = """\
provider: aws
region: us-east-1
nodes: {compute: {count: 2, instance: m5.large}}
filesystems:
  home: {type: nfs, server: fs-1.efs.example, export: /, path: /home/grid}
  own: {type: scale, path: /own/below, remote: {cluster: s.example.com, contacts: [n1], filesystem: f1}}
libraries: {data: {filesystem: home}}
scheduler: {type: slurm}
"""
ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf"
AD = f"ad: {{domain: ad.example.com, join: {{user: grid-join, secret: '{ARN}'}}}}"


def told(users: str) -> dict[str, Any]:
    """What a machine reads; the program on it takes it."""
    found = users_configuration(parse_spec(f"{GRID}users: {{{users}}}\n"))
    parse_configuration(json.dumps({**found, "makes_homes": True}))
    return found


def sssd(users: str) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = told(users)["directory"]["sections"]
    return sections[f"domain/{sections['sssd']['domains']}"]


def test_without_users_nobody_is_told_of() -> None:
    spec = parse_spec(GRID)
    found = users_configuration(spec)
    assert (found["accounts"], found["groups"], found["directory"]) == ([], {}, None)
    assert secret_arn(spec) is None


@pytest.mark.parametrize(
    ("homes", "home", "shared"),
    [
        ("", "/home/anna", None),
        (
            "homes: {filesystem: home}, ",
            *("/home/grid/homes/anna", {"directory": "/home/grid/homes", "mount": "/home/grid"}),
        ),
        # What fstab has no part in may be mounted further up.
        (
            "homes: {filesystem: own, path: people/of}, ",
            *("/own/below/people/of/anna", {"directory": "/own/below/people/of", "mount": None}),
        ),
    ],
)
def test_homes_are_where_the_spec_has_them(homes: str, home: str, shared: object) -> None:
    found = told(
        f"{homes}groups: {{risk: 3001}}, local: {{anna: {{uid: 2001, group: risk, groups: [risk]}}}}"
    )
    (anna,) = found["accounts"]
    assert (anna["home"], anna["gid"], anna["own_group"], anna["groups"]) == (home, 3001, False, [])
    assert found["homes"] == shared


def test_a_domain_has_the_same_numbers_everywhere_and_its_secret_elsewhere() -> None:
    found = told(AD)["directory"]
    settings = sssd(AD)
    assert (settings["id_provider"], settings["ldap_id_mapping"]) == ("ad", "true")
    assert (settings["ad_domain"], settings["krb5_realm"]) == ("ad.example.com", "AD.EXAMPLE.COM")
    assert settings["override_homedir"] == "/home/%u"
    assert (found["secret"], found["bind_section"]) == (SECRET_FILE, None)
    assert found["join"] == {"domain": "ad.example.com", "user": "grid-join", "ou": None, "computer": ""}
    assert ARN not in json.dumps(found)
    assert sssd(AD.replace("join:", "ids: directory, join:"))["ldap_id_mapping"] == "false"
    assert secret_arn(parse_spec(f"{GRID}users: {{{AD}}}\n")) == ARN


def test_ldap_is_encrypted_and_open_to_those_who_are_allowed() -> None:
    ldap = "ldap: {servers: ['ldap://l1', 'ldaps://l2'], base: 'dc=a', members: dns, offline_days: 0"
    settings = sssd(f"{ldap}}}")
    assert settings["ldap_uri"] == "ldap://l1, ldaps://l2"
    assert (settings["ldap_id_use_start_tls"], settings["ldap_tls_reqcert"]) == ("true", "demand")
    assert (settings["ldap_schema"], settings["cache_credentials"]) == ("rfc2307bis", "false")
    assert settings["access_provider"] == "permit"
    closed = sssd(f"{ldap}, allow_groups: [grid, domain users]}}")
    assert (closed["access_provider"], closed["simple_allow_groups"]) == ("simple", "grid, domain users")
    assert told(f"{ldap}, login: [password]}}")["directory"]["sections"]["sssd"]["services"] == "nss, pam"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("hello", "is no file with certificates"),
        ("-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\n", "has a private key"),
        (b"\xff\xfe", "is no file with certificates"),
    ],
)
def test_only_certificates_are_copied_to_machines(
    tmp_path: Path, content: str | bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content if isinstance(content, bytes) else content.encode())
    spec = tmp_path / "grid.yaml"
    spec.write_text(f"{GRID}users: {{ldap: {{servers: ['ldaps://l'], base: 'dc=a', ca: ./ca.pem}}}}\n")
    with pytest.raises(GridwrightError, match=said) as error:
        users_configuration(load_spec(spec))
    assert error.value.status is ExitStatus.INPUT
    (problem,) = error.value.problems
    assert problem.field == "users.ldap.ca"
