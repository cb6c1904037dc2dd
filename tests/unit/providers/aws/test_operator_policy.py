"""Who runs Gridwright may do what it takes, and nothing with what is not the grid's."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from gridwright.providers.aws.files import (
    GRIDWRIGHT,
    MOST_CHARACTERS,
    OperatorAction,
    Scope,
    operator_actions,
    size,
)
from tests.support.aws_grid import FSX, LUSTRE, SCALE, SITE_VPC
from tests.support.aws_machines import ACCOUNT, REGION
from tests.support.aws_updates import SCHEMAS, schema
from tests.support.iam_judge import Asked, is_allowed
from tests.support.operator_permissions import LEFT_OUT, RARE, documents, operator_of, statements_of
from tests.unit.providers.aws.storage_specs import CERTIFICATE, KEY

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/site/Boundary"
ZONE = "zone: us-east-1a,"
LINKED = FSX.replace("capacity: 2400 GiB", "capacity: 2400 GiB, repository: {bucket: 's3://sources/sales'}")
EFA = LUSTRE.replace(ZONE, f"{ZONE} certificate: '{CERTIFICATE}', kms_key: '{KEY}', efa: true,").replace(
    "compute: {instance: m6i.4xlarge", "compute: {instance: m5n.24xlarge"
)
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms"
BUDGET = FSX.replace(ZONE, f"{ZONE} alarms: {{topic: '{TOPIC}', budget: 3000 USD/month}},")
MANY = FSX.replace("count: 2", "count: 420")
TIMED = f"""{FSX}repositories:
  sales: {{library: data, path: /sales, bucket: s3://sources/sales, export: {{changed: hourly}}}}
"""
VPC = FSX.replace(ZONE, f"{ZONE} vpc: {SITE_VPC},")
SPECS = {
    "vpc": VPC,
    "fsx": FSX,
    "lustre": LUSTRE,
    "scale": SCALE,
    "linked": LINKED,
    "timed": TIMED,
    "efa": EFA,
    "many": MANY,
    "budget": BUDGET,
}
REFERENCE = json.loads((SCHEMAS.parent / "AdditionalSpecs" / "Policies.json").read_text())
"""Actions, their resources and the keys of these, of AWS's Service Authorization Reference (in cfn-lint)."""
KNOW_NARROWER = {
    "cloudwatch:DescribeAlarms": "all alarms are asked for where names are",
    "ec2:DescribeInstanceAttribute": "a part of ec2:Describe*",
    "ec2:DescribeVolumeAttribute": "a part of ec2:Describe*",
    "ec2:DescribeVpcAttribute": "a part of ec2:Describe*",
    "ec2:GetSecurityGroupsForVpc": "of the network, which has no tag when FSx looks",
    "fsx:DescribeBackups": "listed without IDs",
    "fsx:DescribeDataRepositoryTasks": "listed by file system",
    "fsx:DescribeFileSystems": "listed without IDs",
    "servicequotas:GetServiceQuota": "quotas are of the account",
}
"""Reading that is not held to resources though it could be, and why."""


UNTAGGED = ("AWS::EC2::VPCEndpoint", "AWS::EC2::SubnetCidrReservation")
"""Without tags of their own: found by their VPC, and by their description."""


def types() -> list[str]:
    return sorted({each for text in SPECS.values() for each in operator_of(text).types})


def handlers(kind: str) -> set[str]:
    found = (schema(kind).get("handlers") or {}).values()
    return {action for each in found for action in each.get("permissions", ())}


def rows(kind: str, source: str = "") -> set[str]:
    short = kind.removeprefix("AWS::")
    return {each.action for each in operator_actions() if short in each.callers and source in each.source}


def left_out(kind: str) -> dict[str, str]:
    """Of what the schema of a type lists, what no policy has, and why."""
    return {
        action: pattern
        for of, pattern, _ in LEFT_OUT
        for action in handlers(kind)
        if of in kind and re.fullmatch(pattern, action)
    }


def test_every_type_of_the_templates_is_known() -> None:
    known = {each for row in operator_actions() for each in row.callers}
    named = {each for each in known if not each.startswith(GRIDWRIGHT)}
    assert {each.removeprefix("AWS::") for each in types()} == named


@pytest.mark.parametrize("kind", types())
def test_permissions_are_those_of_the_schema_and_no_other(kind: str) -> None:
    lacking = handlers(kind) - set(left_out(kind))
    assert lacking <= rows(kind), f"AWS's schema of {kind} lists more"
    assert rows(kind, "handlers") == lacking, f"{kind} needs less"


def test_no_reason_is_given_for_what_no_schema_lists() -> None:
    used = {pattern for kind in types() for pattern in left_out(kind).values()}
    assert {pattern for _, pattern, _ in LEFT_OUT} == used


def test_what_is_rarely_called_is_a_permission() -> None:
    assert set(RARE) <= {each.action for each in operator_actions() if each.source.startswith("call")}


def is_known(row: OperatorAction) -> bool:
    """Whether IAM can hold the action to what the row says."""
    service, _, name = row.action.partition(":")
    actions = REFERENCE[service]["Actions"]
    if "*" in name:
        return any(fnmatchcase(each, name.lower()) for each in actions)
    kinds = actions[name.lower()].get("Resources", [])
    narrow = row.scope not in (Scope.LOOK, Scope.MAKE)
    if bool(kinds) is not narrow and row.scope is not Scope.MAKE and row.action not in KNOW_NARROWER:
        return False
    keys = [REFERENCE[service]["Resources"].get(each.lower(), {}).get("ConditionKeys", []) for each in kinds]
    return row.scope is not Scope.OWN or any(
        key.startswith("aws:ResourceTag/") for one in keys for key in one
    )


def test_what_a_permission_is_held_to_is_something_that_iam_knows_of_it() -> None:
    assert [row for row in operator_actions() if not is_known(row)] == []


@pytest.mark.parametrize("name", SPECS)
def test_iam_takes_the_policies(name: str) -> None:
    made = documents(operator_of(SPECS[name]))
    assert 1 <= len(made) <= 10
    assert all(size(each) <= MOST_CHARACTERS for each in made)
    names = [each["Sid"] for document in made for each in document["Statement"]]
    assert all(re.fullmatch(r"[A-Za-z0-9]+", each) for each in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", SPECS)
def test_what_may_be_changed_by_its_tag_has_the_tag(name: str) -> None:
    mark = {"Key": "gridwright:grid", "Value": "demo"}
    for template in operator_of(SPECS[name]).templates.values():
        for title, each in template.items():
            if "Tags" in schema(each["Type"])["properties"] and each["Type"].startswith("AWS::EC2::"):
                given = each["Properties"].get("Tags")
                assert given is None or mark in given, title
                assert given is not None or each["Type"] in UNTAGGED, title


def asked(action: str, resource: str = "*", tag: str | None = "demo", **context: str) -> Asked:
    keys = {"aws:RequestedRegion": [REGION]}
    if tag is not None:
        keys["aws:ResourceTag/gridwright:grid"] = [tag]
    named = {name.replace("__", ":").replace("_grid", "/gridwright:grid"): v for name, v in context.items()}
    return Asked(action, resource, keys | {name: [value] for name, value in named.items()})


def arn(service: str, rest: str) -> str:
    return f"arn:aws:{service}:{'' if service == 'iam' else REGION}:{ACCOUNT}:{rest}"


ROLE = arn("iam", "role/gridwright-demo-HeadRole-1A2B3C4D5E6F")
OTHER_ROLE = arn("iam", "role/Administrator")
STACK = "stack/gridwright-demo{}/11111111-2222"
EC2 = "ec2.amazonaws.com"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (asked("ec2:TerminateInstances"), asked("ec2:TerminateInstances", tag="other")),
        (asked("ec2:DeleteSubnet"), asked("ec2:DeleteSubnet", tag=None)),
        (asked("ec2:DeleteVpc"), asked("ec2:DeleteVpc", aws__RequestedRegion="eu-west-1")),
        (
            asked("ec2:CreateTags", tag=None, aws__RequestTag_grid="demo", ec2__CreateAction="CreateVpc"),
            asked("ec2:CreateTags", tag=None, aws__RequestTag_grid="demo"),
        ),
        (
            asked("fsx:TagResource", tag=None, aws__RequestTag_grid="demo"),
            asked("fsx:TagResource", tag="other", aws__RequestTag_grid="demo"),
        ),
        (
            asked("fsx:CreateFileSystem", tag=None, aws__RequestTag_grid="demo"),
            asked("fsx:CreateFileSystem", tag=None, aws__RequestTag_grid="other"),
        ),
        (
            asked("cloudformation:DeleteStack", arn("cloudformation", STACK.format(""))),
            asked("cloudformation:DeleteStack", arn("cloudformation", STACK.format("-2"))),
        ),
        (
            asked("iam:CreateRole", ROLE, iam__PermissionsBoundary=BOUNDARY),
            asked("iam:CreateRole", ROLE),
        ),
        (
            asked("iam:PutRolePolicy", ROLE, iam__PermissionsBoundary=BOUNDARY),
            asked("iam:PutRolePolicy", ROLE, iam__PermissionsBoundary=f"{BOUNDARY}2"),
        ),
        (
            asked("iam:PutRolePermissionsBoundary", ROLE, iam__PermissionsBoundary=BOUNDARY),
            asked("iam:DeleteRolePermissionsBoundary", ROLE, iam__PermissionsBoundary=BOUNDARY),
        ),
        (asked("iam:DeleteRole", ROLE), asked("iam:DeleteRole", OTHER_ROLE)),
        (
            asked("iam:PassRole", ROLE, iam__PassedToService=EC2),
            asked("iam:PassRole", ROLE, iam__PassedToService="lambda.amazonaws.com"),
        ),
        (
            asked("iam:PassRole", ROLE, iam__PassedToService=EC2),
            asked("iam:PassRole", OTHER_ROLE, iam__PassedToService=EC2),
        ),
        (
            asked("dynamodb:Scan", arn("dynamodb", "table/gridwright-demo-claims")),
            asked("dynamodb:Scan", arn("dynamodb", "table/gridwright-demo-2-claims")),
        ),
        (
            asked("s3:PutObject", "arn:aws:s3:::gridwright-demo-storage-sitebucket-1a2b/k"),
            asked("s3:PutObject", "arn:aws:s3:::sources/k"),
        ),
        (
            asked("iam:CreateServiceLinkedRole", arn("iam", "role/aws-service-role/fsx.amazonaws.com/R")),
            asked("iam:CreateServiceLinkedRole", arn("iam", "role/aws-service-role/sso.amazonaws.com/R")),
        ),
        (
            asked("iam:PassRole", ROLE, iam__PassedToService="scheduler.amazonaws.com"),
            asked("iam:PassRole", OTHER_ROLE, iam__PassedToService="scheduler.amazonaws.com"),
        ),
        (asked("fsx:CancelDataRepositoryTask"), asked("fsx:CancelDataRepositoryTask", tag="other")),
        (
            asked("s3:GetObject", "arn:aws:s3:::sources/sales/.gridwright/tasks/task-1/failures.csv"),
            asked("s3:GetObject", "arn:aws:s3:::sources/costs/x"),
        ),
        (asked("secretsmanager:GetSecretValue"), asked("secretsmanager:GetSecretValue", tag="other")),
        (asked("ec2:DescribeInstances"), asked("ec2:ModifyImageAttribute")),
    ],
    ids=lambda one: f"{one.action}",
)
def test_what_is_the_grids_may_be_changed_and_nothing_else(right: Asked, wrong: Asked) -> None:
    bounded = TIMED.replace(ZONE, f"{ZONE} permissions_boundary: '{BOUNDARY}',")
    statements = statements_of(operator_of(bounded))
    assert is_allowed(statements, right)
    assert not is_allowed(statements, wrong)


def test_every_role_has_the_boundary_and_without_one_none_is_asked_for() -> None:
    bounded = operator_of(LUSTRE.replace(ZONE, f"{ZONE} permissions_boundary: '{BOUNDARY}',"))
    for of, boundary in ((bounded, BOUNDARY), (operator_of(LUSTRE), None)):
        found = [
            each["Properties"].get("PermissionsBoundary")
            for template in of.templates.values()
            for each in template.values()
            if each["Type"] == "AWS::IAM::Role"
        ]
        assert found == [boundary] * 4
    free = statements_of(operator_of(LUSTRE))
    assert is_allowed(free, asked("iam:CreateRole", ROLE))
    assert not is_allowed(free, asked("iam:PutRolePermissionsBoundary", ROLE))


def test_names_that_are_cut_are_known_by_their_first_letters() -> None:
    name = "a-grid-with-a-rather-long-name-for-the-month-end"
    statements = statements_of(operator_of(FSX.replace("name: demo", f"name: {name}")))
    cut = arn("iam", "role/gridwright-a-grid-with-ComputeRole-1A2B3C4D5E6F")
    assert is_allowed(statements, asked("iam:CreateRole", cut))
    assert not is_allowed(statements, asked("iam:CreateRole", ROLE))


def test_other_parts_of_aws_have_other_names() -> None:
    text = FSX.replace("us-east-1", "cn-north-1")
    statements = statements_of(operator_of(text))
    resources = [each for one in statements for each in one["Resource"] if each != "*"]
    assert all(each.startswith("arn:aws-cn:") for each in resources)
    (passing,) = (each for each in statements if each["Sid"] == "Pass")
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com.cn"}}


def test_in_a_network_of_the_site_nothing_of_it_may_be_changed() -> None:
    """Rights to make, change or remove networks are gone, and those to look at this one are there."""
    actions = {each for statement in statements_of(operator_of(VPC)) for each in statement["Action"]}
    changes = {each for each in actions if not re.match(r"[a-z0-9]+:(Describe|Get|List)", each)}
    touched = r"ec2:.*(Vpc|Subnet|SubnetAttribute|Route|RouteTable|Gateway|VpcEndpoints?|Address)$"
    assert {each for each in changes if re.fullmatch(touched, each)} == set()
    own = {each for statement in statements_of(operator_of(FSX)) for each in statement["Action"]}
    assert {"ec2:CreateVpc", "ec2:CreateNatGateway", "ec2:AllocateAddress"} <= own
    assert not {each for each in own if each.startswith("route53:")}
    assert "ec2:GetSubnetCidrReservations" in actions - own
