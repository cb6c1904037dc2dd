"""Each machine may do what its programs do, and nothing else; the judge of that is not easily fooled."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.providers.aws.layout import Role
from tests.support.aws_faults import Call
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_permissions import BOOT, BY_OTHERS, CLAIM, POWER, ROLL, RenderedGrid, unused
from tests.support.iam_judge import Asked, actions_of, is_allowed

KEY = "kms_key: arn:aws:kms:us-east-1:111122223333:key/11111111-2222-3333-4444-555555555555"
GROUPS = {"autoscaling:SetInstanceHealth"}
SECRET = {"secretsmanager:GetSecretValue"}
ME, ANOTHER = "i-0123456789abcdef0", "i-0fedcba9876543210"
OSS = "shared-oss1"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> RenderedGrid:
    return rendered(tmp_path_factory.mktemp("grid"), LUSTRE.replace("aws: {", f"aws: {{{KEY}, "))


def rendered(directory: Path, text: str) -> RenderedGrid:
    (directory / "grid.yaml").write_text(text)
    return RenderedGrid.of(directory / "grid.yaml")


@pytest.mark.parametrize(
    ("role", "calls"),
    [
        (Role.LOGIN, BOOT - GROUPS),
        (Role.HEAD, (BOOT | ROLL) - GROUPS),
        (Role.COMPUTE, (BOOT | CLAIM) - {"ec2:AttachVolume"}),
        (Role.MDS, (BOOT | CLAIM) - SECRET),
        (Role.OSS, (BOOT | CLAIM) - SECRET),
    ],
)
def test_a_role_has_the_permissions_that_calls_use_and_no_other(
    grid: RenderedGrid, role: Role, calls: frozenset[str]
) -> None:
    assert actions_of(grid.statements(role)) - set(BY_OTHERS) == calls


def test_the_head_has_more_where_nodes_are_powered_and_nodes_read_what_is_wanted(tmp_path: Path) -> None:
    powered = rendered(tmp_path, FSX.replace("count: 2}", "count: 12, min: 1}"))
    assert actions_of(powered.statements(Role.HEAD)) - set(BY_OTHERS) == (BOOT - GROUPS) | POWER | ROLL
    nodes = (BOOT | CLAIM) - {"ec2:AttachVolume"}
    assert actions_of(powered.statements(Role.COMPUTE)) - set(BY_OTHERS) == nodes

    def get(key: str, action: str = "GetItem") -> Call:
        return Call(f"dynamodb:{action}", "/", {"TableName": powered.table, "Key": {"slot": {"S": key}}})

    assert powered.denied(Role.COMPUTE, [get("wanted#compute12"), get("wanted#compute2")], ME) == []
    writes = [get("wanted#compute12", "UpdateItem"), get("wanted#compute12", "DeleteItem")]
    assert len(powered.denied(Role.COMPUTE, writes, ME)) == 2


PEOPLE = """\
users:
  ldap:
    servers: ["ldaps://ldap1"]
    base: dc=example,dc=com
    bind: {dn: "cn=grid", secret: "arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf"}
"""
DEPOTS = LUSTRE.replace("aws: {", "aws: {depots: ['s3://our-depots/sas', 's3://whole-bucket'], ") + PEOPLE


def test_what_is_the_sites_is_read_where_it_is_needed_alone(tmp_path: Path) -> None:
    plain, more = (rendered(tmp_path, text) for text in (LUSTRE, DEPOTS))
    for role in (Role.LOGIN, Role.HEAD, Role.COMPUTE):
        given = more.statements(role)
        assert actions_of(given) - actions_of(plain.statements(role)) == {"s3:ListBucket"}
        assert {each["Sid"] for each in given if each not in plain.statements(role)} == {
            *("Users", "Depot0", "DepotList0", "Depot1", "DepotList1"),
        }
    for role in (Role.MDS, Role.OSS):
        assert more.statements(role) == plain.statements(role)
    secret = {"SecretId": "arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf"}
    asked = [
        Call("secretsmanager:GetSecretValue", "/", secret),
        Call("s3:GET", "/our-depots/sas/setup.sh", {}),
        Call("s3:GET", "/whole-bucket?prefix=", {}),
        Call("s3:GET", "/whole-bucket/any", {}),
    ]
    assert more.denied(Role.COMPUTE, asked[:2] + asked[3:], ME) == []
    assert len(more.denied(Role.OSS, asked, ME)) == len(asked)
    beside = [Call("s3:GET", "/our-depots/sas-of-others/x", {}), Call("s3:GET", "/our-depots?prefix=sa", {})]
    assert len(more.denied(Role.HEAD, beside, ME)) == 2


def test_the_head_alone_carries_repositories_below_their_prefixes(tmp_path: Path) -> None:
    repositories = (
        "repositories:\n  archive: {library: data, bucket: s3://site/prod, export: {changed: hourly}}\n"
    )
    plain, more = rendered(tmp_path, LUSTRE), rendered(tmp_path, LUSTRE + repositories)
    for role in (Role.LOGIN, Role.COMPUTE, Role.MDS, Role.OSS):
        assert more.statements(role) == plain.statements(role)
    asked = [
        Call("s3:GET", "/site/prod/sales", {}),
        Call("s3:PUT", "/site/prod/.gridwright/lease", {}),
        Call("s3:DELETE", "/site/prod/.gridwright/lease", {}),
        Call("s3:GET", "/site?list-type=2&prefix=prod/", {}),
    ]
    assert more.denied(Role.HEAD, asked, ME) == []
    beside = [
        Call("s3:GET", "/site/production/sales", {}),
        Call("s3:PUT", "/site/sales", {}),
        Call("s3:GET", "/site?list-type=2&prefix=", {}),
    ]
    assert len(more.denied(Role.HEAD, beside, ME)) == len(beside)
    linked = rendered(tmp_path, FSX + repositories.replace("hourly", "at-once"))
    assert not any(each["Sid"].startswith("Repository") for each in linked.statements(Role.HEAD))


def test_every_permission_of_others_is_one_that_a_role_has(grid: RenderedGrid) -> None:
    given = {action for role in (Role.COMPUTE, Role.OSS) for action in actions_of(grid.statements(role))}
    assert set(BY_OTHERS) <= given


def test_a_machine_takes_nothing_of_another_kind(grid: RenderedGrid) -> None:
    def update(slot: str) -> Call:
        key = {"TableName": "gridwright-demo-claims", "Key": {"slot": {"S": slot}}}
        return Call("dynamodb:UpdateItem", "/", key)

    assert grid.denied(Role.COMPUTE, [update("compute2")], ME) == []
    assert (
        len(grid.denied(Role.COMPUTE, [update("shared-oss1"), update("boot#x"), update("login1")], ME)) == 3
    )
    assert len(grid.denied(Role.OSS, [update("compute1")], ME)) == 1
    assert len(grid.denied(Role.LOGIN, [update("login1")], ME)) == 1


def test_a_machine_tells_in_its_own_row_alone(grid: RenderedGrid) -> None:
    def put(instance: str) -> Call:
        slot = f"boot#arn:aws:ec2:us-east-1:123456789012:instance/{instance}"
        return Call("dynamodb:PutItem", "/", {"TableName": grid.table, "Item": {"slot": {"S": slot}}})

    assert grid.denied(Role.COMPUTE, [put(ME)], ME) == []
    assert len(grid.denied(Role.COMPUTE, [put("i-0fedcba9876543210"), put("*")], ME)) == 2


def test_a_node_attaches_no_volume_and_no_interface_of_a_server(tmp_path: Path, grid: RenderedGrid) -> None:
    interface = {"NetworkInterfaceId": "eni-1", "InstanceId": ME}
    call = Call("ec2:AttachNetworkInterface", "/", interface)
    slots = {"eni-1": "shared-oss1"}
    here = RenderedGrid(grid.name, grid.table, grid.stack, grid.grid, grid.storage, slots=slots)
    assert here.denied(Role.OSS, [call], ME) == []
    assert len(here.denied(Role.COMPUTE, [call], ME)) == 1
    other = rendered(tmp_path, FSX.replace("name: demo", "name: other"))
    (asked, *_) = here.asked(Role.OSS, call, ME)
    assert not is_allowed(other.statements(Role.COMPUTE), asked)


def test_a_machine_attaches_to_itself_alone(grid: RenderedGrid) -> None:
    here = RenderedGrid(
        grid.name, grid.table, grid.stack, grid.grid, grid.storage, slots={"eni-1": "compute1", "v-1": OSS}
    )
    for role, action, what in (
        (Role.COMPUTE, "ec2:AttachNetworkInterface", {"NetworkInterfaceId": "eni-1"}),
        (Role.OSS, "ec2:AttachVolume", {"VolumeId": "v-1"}),
    ):
        for target in (ME, ANOTHER, "*"):
            call = Call(action, "/", {**what, "InstanceId": target})
            assert len(here.denied(role, [call], ME)) == (target != ME)
        # Without knowing which machine asks nothing is attached to any.
        (machine, _) = here.asked(role, Call(action, "/", {**what, "InstanceId": ME}), ME)
        unknown = {k: v for k, v in machine.context.items() if k != "ec2:SourceInstanceARN"}
        assert not is_allowed(here.statements(role), Asked(action, machine.resource, unknown))


def test_what_has_no_slot_of_this_kind_is_attached_to_nothing(grid: RenderedGrid) -> None:
    here = RenderedGrid(grid.name, grid.table, grid.stack, grid.grid, grid.storage, slots={"v-1": OSS})
    (_, volume) = here.asked(
        Role.OSS, Call("ec2:AttachVolume", "/", {"VolumeId": "v-1", "InstanceId": ME}), ME
    )
    statements = here.statements(Role.OSS)
    slot = "aws:ResourceTag/gridwright:slot"
    assert is_allowed(statements, volume)
    for other in ("compute1", "shared-oss11", ""):
        assert not is_allowed(
            statements, Asked(volume.action, volume.resource, {**volume.context, slot: [other]})
        )
    kept = {key: value for key, value in volume.context.items() if key != slot}
    assert not is_allowed(statements, Asked(volume.action, volume.resource, kept)), (
        "a volume that was retired"
    )


def test_a_permission_without_a_call_is_found(grid: RenderedGrid) -> None:
    metric = Call("cloudwatch:PutMetricData", "/", {"Namespace": "AWS/EC2"})
    assert len(grid.denied(Role.OSS, [metric], ME)) == 1, "a machine counts in the namespace of Gridwright"
    calls = [Call(each, "/", {}) for each in (BOOT | CLAIM) if not each.startswith("s3:")]
    objects = [Call("s3:GET", "/b/k", {}), Call("s3:PUT", "/b/k", {})]
    assert unused(grid.statements(Role.OSS), calls + objects) == set()
    assert unused(grid.statements(Role.OSS), calls) == {"s3:GetObject", "s3:PutObject"}


ALLOW = {"Effect": "Allow", "Action": ["s3:Get*"], "Resource": "arn:aws:s3:::b/${who}/?"}


@pytest.mark.parametrize(
    ("statement", "context", "allowed"),
    [
        ({}, {"who": ["ann"]}, True),
        ({}, {}, False),
        ({}, {"who": ["*"]}, False),
        ({"Action": ["s3:Put*"]}, {"who": ["ann"]}, False),
        ({"Condition": {"StringEquals": {"who": ["ann", "bob"]}}}, {"who": ["ann"]}, True),
        ({"Condition": {"StringEquals": {"who": "a*"}}}, {"who": ["ann"]}, False),
        ({"Condition": {"StringLike": {"who": "a*"}}}, {"who": ["ann"]}, True),
        ({"Condition": {"StringEquals": {"other": "x"}}}, {"who": ["ann"]}, False),
        ({"Condition": {"ForAllValues:StringEquals": {"other": "x"}}}, {"who": ["ann"]}, True),
        ({"Condition": {"ForAllValues:StringEquals": {"k": "x"}}}, {"who": ["ann"], "k": ["x", "y"]}, False),
        ({"Condition": {"ForAnyValue:StringEquals": {"k": "x"}}}, {"who": ["ann"], "k": ["x", "y"]}, True),
        ({"Condition": {"Bool": {"k": "true"}}}, {"who": ["ann"], "k": ["false"]}, False),
        ({"Condition": {"Null": {"k": "true"}}}, {"who": ["ann"]}, True),
        ({"Condition": {"Null": {"k": "true"}}}, {"who": ["ann"], "k": ["x"]}, False),
        ({"Condition": {"Null": {"k": "false"}}}, {"who": ["ann"]}, False),
    ],
)
def test_the_judge_reads_statements_as_iam_does(
    statement: dict[str, object], context: dict[str, list[str]], allowed: bool
) -> None:
    asked = Asked("s3:GetObject", "arn:aws:s3:::b/ann/1", context)
    assert is_allowed([{**ALLOW, **statement}], asked) is allowed
    assert not is_allowed([{**ALLOW, **statement}, {**ALLOW, "Effect": "Deny", "Resource": "*"}], asked)


def test_the_judge_does_not_guess() -> None:
    asked = Asked("s3:GetObject", "x")
    with pytest.raises(NotImplementedError):
        is_allowed([{"Effect": "Allow", "NotAction": "s3:Put*", "Resource": "*"}], asked)
    with pytest.raises(KeyError):
        is_allowed([{**ALLOW, "Resource": "*", "Condition": {"DateLessThan": {"a": "b"}}}], asked)
