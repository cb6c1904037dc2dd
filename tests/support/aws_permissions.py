"""What machines of a rendered grid may do, and the calls that they make, to hold one against the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.iam import STORAGE
from gridwright.providers.aws.layout import Role, aws_layout
from gridwright.providers.aws.names import GRID_TAG, ROLE_TAG, SLOT_TAG, claims_table, grid_stack, logical_id
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec import load_spec
from tests.support.aws_faults import Call
from tests.support.iam_judge import Asked, actions_of, is_allowed

ACCOUNT, REGION, BUCKET = "123456789012", "us-east-1", "site-bucket"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:MungeKey"
BOOT = frozenset(
    {
        "s3:GetObject",
        "s3:PutObject",
        "dynamodb:PutItem",
        "secretsmanager:GetSecretValue",
        "autoscaling:SetInstanceHealth",
        "cloudwatch:PutMetricData",
    }
)
"""What the boot program calls, all of which one of its tests sees called."""
CLAIM = frozenset(
    {
        "dynamodb:GetItem",
        "dynamodb:UpdateItem",
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeVolumes",
        "ec2:AttachNetworkInterface",
        "ec2:AttachVolume",
    }
)
"""What a claim calls, all of which one of its tests sees called."""
POWER = frozenset(
    {
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeScalingActivities",
        "autoscaling:SetDesiredCapacity",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
        "dynamodb:BatchGetItem",
        "dynamodb:PutItem",
        "dynamodb:DeleteItem",
    }
)
"""What the program calls that has nodes powered on and off, all of which one of its tests sees called."""
ROLL = frozenset(
    {
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
        "dynamodb:Scan",
        "dynamodb:PutItem",
    }
)
"""What the program calls that replaces machines, all of which one of its tests sees called."""
BY_OTHERS: Mapping[str, str] = {
    "ssm:UpdateInstanceInformation": "Session Manager's agent, a part of the image",
    "ssmmessages:CreateControlChannel": "Session Manager's agent",
    "ssmmessages:CreateDataChannel": "Session Manager's agent",
    "ssmmessages:OpenControlChannel": "Session Manager's agent",
    "ssmmessages:OpenDataChannel": "Session Manager's agent",
    "kms:Decrypt": "S3, DynamoDB and Secrets Manager, for the machine that reads what is encrypted there",
    "kms:GenerateDataKey": "S3, for the machine that writes the log of a boot",
    "kms:CreateGrant": "EC2, for the machine that attaches an encrypted volume",
}
"""Permissions that no call of Gridwright's uses, and who does."""


@dataclass(frozen=True)
class RenderedGrid:
    """The templates of a grid, as CloudFormation would fill them in."""

    name: str
    table: str
    stack: str
    grid: Mapping[str, Any]
    storage: Mapping[str, Any]
    secret: str = SECRET
    """ARN of the key of munge."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """The slot of a volume or an interface, by its ID."""

    @classmethod
    def of(cls, spec_file: Path) -> RenderedGrid:
        spec = load_spec(spec_file)
        layout = aws_layout(spec)
        templates = [each.to_dict()["Resources"] for each in _templates(spec, layout)]
        return cls(spec.name, claims_table(spec), grid_stack(spec), *templates)

    def with_objects(self, secret: str, slots: Mapping[str, str]) -> RenderedGrid:
        """The same grid with the key of munge, and the slots of what was made for it."""
        return replace(self, secret=secret, slots=slots)

    def statements(self, role: Role) -> list[dict[str, Any]]:
        """What machines of a role may do: the policies of the role of their profile."""
        (reference,) = self.grid[logical_id(STORAGE if role.serves_lustre else str(role), "Profile")][
            "Properties"
        ]["Roles"]
        policies = self.grid[reference["Ref"]]["Properties"]["Policies"]
        documents = [self._filled(each["PolicyDocument"]) for each in policies]
        return [statement for each in documents for statement in each["Statement"]]

    def denied(self, role: Role, calls: Iterable[Call], instance: str) -> list[str]:
        """Of the calls of one machine, what its policies do not allow."""
        statements = self.statements(role)
        return [
            str(asked)
            for call in calls
            for asked in self.asked(role, call, instance)
            if not is_allowed(statements, asked)
        ]

    def asked(self, role: Role, call: Call, instance: str) -> Iterator[Asked]:
        """What IAM is asked for a call: each of its resources, with the tags that the templates give it."""
        own = {"ec2:SourceInstanceARN": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{instance}"]}
        for resource, context in self._resources(role, call):
            yield Asked(action_name(call), resource, {**own, **context})

    def _resources(self, role: Role, call: Call) -> Iterator[tuple[str, dict[str, list[str]]]]:
        name, given = action_name(call), call.parameters
        service = name.partition(":")[0]
        if service == "s3":
            path, _, query = call.path.partition("?")
            prefix = parse_qs(query, keep_blank_values=True).get("prefix")
            yield f"arn:aws:s3:::{unquote(path.strip('/'))}", {"s3:prefix": prefix} if prefix else {}
        elif name == "dynamodb:BatchGetItem":
            for table, wanted in given["RequestItems"].items():
                keys = [each["slot"]["S"] for each in wanted["Keys"]]
                yield self._arn("dynamodb", f"table/{table}"), {"dynamodb:LeadingKeys": keys}
        elif name == "dynamodb:Scan":
            yield self._arn("dynamodb", f"table/{given['TableName']}"), {}
        elif service == "dynamodb":
            slot = (given.get("Key") or given["Item"])["slot"]["S"]
            yield self._arn("dynamodb", f"table/{given['TableName']}"), {"dynamodb:LeadingKeys": [slot]}
        elif service == "secretsmanager":
            yield given["SecretId"], {}
        elif name.startswith("autoscaling:Describe"):
            yield "*", {}
        elif service == "autoscaling":
            # Of the head's calls, which are about groups of nodes.
            role = Role.COMPUTE if role is Role.HEAD else role
            group = self._arn("autoscaling", "autoScalingGroup:0:autoScalingGroupName/group")
            # What ends a machine of a group runs on the head node, and has no group itself.
            whose = Role.COMPUTE if "Terminate" in name else role
            yield group, _tag_context(self._group_tags(whose))
        elif name in ("ec2:AttachVolume", "ec2:AttachNetworkInterface"):
            machine = _tag_context(self._machine_tags(role)) | {"ec2:InstanceID": [given["InstanceId"]]}
            yield self._arn("ec2", f"instance/{given['InstanceId']}"), machine
            kind = "Volume" if name == "ec2:AttachVolume" else "NetworkInterface"
            path = {"Volume": "volume", "NetworkInterface": "network-interface"}[kind]
            tags = self._slot_tags(f"AWS::EC2::{kind}", self.slots[given[f"{kind}Id"]])
            yield self._arn("ec2", f"{path}/{given[f'{kind}Id']}"), _tag_context(tags)
        elif name.startswith("ec2:Describe"):
            yield "*", {}
        elif name == "cloudwatch:PutMetricData":
            space = given.get("Namespace", "")
            yield "*", {"cloudwatch:namespace": [space[0] if isinstance(space, list) else space]}
        else:
            raise NotImplementedError(f"it is not known what {name} is about")

    def _slot_tags(self, kind: str, slot: str) -> dict[str, str]:
        """Tags of a volume or an interface of a slot, as the storage stack or the grid's makes it."""
        made = [*self.grid.values(), *self.storage.values()]
        tags = [_tags(each["Properties"]["Tags"]) for each in made if each["Type"] == kind]
        return next(each for each in tags if each.get(SLOT_TAG) == slot)

    def _machine_tags(self, role: Role) -> dict[str, str]:
        for each in self.grid.values():
            if each["Type"] == "AWS::EC2::LaunchTemplate":
                (tags,) = (
                    _tags(one["Tags"])
                    for one in each["Properties"]["LaunchTemplateData"]["TagSpecifications"]
                    if one["ResourceType"] == "instance"
                )
                if tags[ROLE_TAG] == str(role):
                    return tags
        raise LookupError(f"no launch template is of role {role}")

    def _group_tags(self, role: Role) -> dict[str, str]:
        groups = [e for e in self.grid.values() if e["Type"] == "AWS::AutoScaling::AutoScalingGroup"]
        found = [_tags(each["Properties"]["Tags"]) for each in groups]
        return next(each for each in found if each[ROLE_TAG] == str(role))

    def _arn(self, service: str, rest: str) -> str:
        return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"

    def _filled(self, value: Any) -> Any:
        """What is left of a part of a template when its functions are carried out."""
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, dict):
            return value
        match list(value):
            case ["Ref"]:
                return {"MungeKey": self.secret}[value["Ref"]]
            case ["Fn::ImportValue"]:
                name = value["Fn::ImportValue"].removeprefix(f"{self.stack}-storage-")
                return {"SiteBucket": BUCKET, "ClaimsTableArn": self._arn("dynamodb", f"table/{self.table}")}[
                    name
                ]
            case ["Fn::Sub"]:
                return self._substituted(value["Fn::Sub"])
        return {name: self._filled(each) for name, each in value.items()}

    def _substituted(self, given: str | list[Any]) -> str:
        text, own = (given, {}) if isinstance(given, str) else given
        values = {
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::StackName": self.stack,
            "AWS::URLSuffix": "amazonaws.com",
            **{name: self._filled(each) for name, each in own.items()},
        }
        filled = re.sub(r"\$\{([^!}]+)\}", lambda found: values[found[1]], text)
        return filled.replace("${!", "${")


def action_name(call: Call) -> str:
    """The action by its name in IAM; S3 has a verb and a path only, and CloudWatch signs as `monitoring`."""
    if call.action.startswith("s3:"):
        of_bucket = "/" not in call.path.partition("?")[0].strip("/")
        if call.action == "s3:GET" and of_bucket:
            return "s3:ListBucket"
        verbs = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
        return f"s3:{verbs[call.action.removeprefix('s3:')]}"
    return call.action.replace("monitoring:", "cloudwatch:")


def unused(statements: Iterable[Mapping[str, Any]], calls: Iterable[Call]) -> set[str]:
    """Permissions that no call uses, nor anybody else."""
    return actions_of(statements) - {action_name(each) for each in calls} - set(BY_OTHERS)


def _templates(spec: Any, layout: Any) -> tuple[Any, Any]:
    return grid_template(spec, layout), storage_template(spec, layout)


def _tags(given: list[dict[str, Any]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in given}


def _tag_context(tags: Mapping[str, str]) -> dict[str, list[str]]:
    assert GRID_TAG in tags
    return {f"aws:ResourceTag/{name}": [value] for name, value in tags.items()}
