"""What a change of the spec does to machines that run, by CloudFormation's own schemas."""

from __future__ import annotations

import pytest

from gridwright.providers.aws.deployment import deployment
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_updates import effects

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"
ZONE = "zone: us-east-1a,"


def changed(spec: str, old: str, new: str) -> dict[str, str]:
    assert old in spec
    return effects(spec, spec.replace(old, new))


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ZONE, f"{ZONE} expires: 2027-01-31,"),
        ("203.0.113.0/24]", "203.0.113.0/24], owner: bob"),
        ("203.0.113.0/24", "203.0.113.0/25"),
        (ZONE, f"{ZONE} permissions_boundary: 'arn:aws:iam::111122223333:policy/Boundary',"),
        (ZONE, f"{ZONE} egress: [{{to: 192.0.2.0/24, ports: 1433}}],"),
        (ZONE, f"{ZONE} alarms: {{topic: 'arn:aws:sns:us-east-1:111122223333:alarms'}},"),
    ],
    ids=["expires", "owner", "ssh_from", "permissions_boundary", "egress", "alarms"],
)
def test_what_changes_live_touches_no_machine(spec: str, old: str, new: str) -> None:
    without_owner = spec.replace(", owner: ann", "")
    assert changed(without_owner, old, new) == {}


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}"),
        ("libraries: {data: {}", "libraries: {data: {requires: 100 MB/s/core}"),
    ],
    ids=["queue", "library"],
)
def test_what_machines_set_themselves_up_with_touches_no_machine(spec: str, old: str, new: str) -> None:
    assert changed(spec, old, new) == {}


def test_a_queue_sets_nothing_up_again_on_servers() -> None:
    before, after = (
        deployment(parse_spec(text)).bundles
        for text in (LUSTRE, LUSTRE.replace("{type: slurm}", "{type: slurm, queues: {day: {time: 12h}}}"))
    )
    assert before["nodes"].key != after["nodes"].key
    assert before["servers"].key == after["servers"].key


def test_one_node_more_touches_no_other() -> None:
    found = changed(FSX, "count: 2}}", "count: 3}}")
    assert found == {}


PEOPLE = """\
users:
  local: {anna: {uid: 2001}}
  ldap:
    servers: ["ldaps://ldap1"]
    base: dc=example,dc=com
    bind: {dn: "cn=grid", secret: "arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf"}
"""


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("libraries:", f"{PEOPLE}libraries:"),
        (ZONE, f"{ZONE} depots: ['s3://our-depots/sas'],"),
    ],
    ids=["users", "depots"],
)
def test_what_is_the_sites_touches_no_machine(spec: str, old: str, new: str) -> None:
    assert changed(spec, old, new) == {}


def test_somebody_more_sets_nothing_up_again_on_servers() -> None:
    texts = [LUSTRE + PEOPLE, LUSTRE + PEOPLE.replace("2001}", "2001}, bob: {uid: 2002}")]
    before, after = (deployment(parse_spec(text)).bundles for text in texts)
    assert before["nodes"].key != after["nodes"].key
    assert before["servers"].key == after["servers"].key


@pytest.mark.parametrize("spec", [FSX, LUSTRE], ids=["fsx", "lustre"])
def test_a_certificate_touches_no_machine(spec: str) -> None:
    assert changed(spec, ZONE, f"{ZONE} certificate: '{CERTIFICATE}',") == {}


def test_a_change_that_replaces_machines_is_seen_as_one() -> None:
    found = changed(FSX, ZONE, f"{ZONE} head: {{instance: m6i.xlarge}},")
    assert found == {"Head": "replace"}
    rolled = changed(LUSTRE, ZONE, f"{ZONE} key: ours,")
    assert {name for name, effect in rolled.items() if effect == "roll"} == {
        *("ComputeNodes", "SharedOssServers", "SharedMdsServers")
    }
