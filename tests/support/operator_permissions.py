"""What who runs Gridwright may do by the rendered policies, and the calls that the commands make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from gridwright.providers.aws.files import GRIDWRIGHT, Operator, operator, operator_actions
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec import parse_spec
from tests.support.aws_cloud import AwsCloud
from tests.support.aws_faults import Call
from tests.support.aws_machines import ACCOUNT, REGION
from tests.support.iam_judge import Asked, actions_of, is_allowed

FREE = frozenset({"sts:GetCallerIdentity"})
"""Needs no permission (AWS STS API Reference)."""
RARE: Mapping[str, str] = {
    "autoscaling:SetInstanceProtection": "up, where a group becomes smaller; test_aws_leaving sees it",
    "ec2:GetConsoleOutput": "up, of a machine that told nothing; test_aws_failures sees it",
    "ec2:DeleteTags": "up, where owner or expires left the spec, and where a file system was replaced",
    "ec2:CreateTags": "up, where owner or expires changed, and where a file system was replaced",
    "cloudformation:DeleteChangeSet": "up, where a change is refused",
    "cloudformation:ExecuteChangeSet": "up, where something changed",
    "cloudformation:CreateChangeSet": "up, where something changed",
    "cloudformation:DescribeChangeSet": "up, where something changed",
    "dynamodb:DeleteItem": "up and down, where machines or volumes are gone",
    "ec2:DeleteVolume": "down, of a volume that no stack has any more",
    "kms:Decrypt": "S3, for who reads a bundle that is encrypted with the spec's key",
    "kms:GenerateDataKey": "S3, for who puts a bundle into the bucket",
    "secretsmanager:DescribeSecret": "down, where the tagging service still lists the secret",
    "s3:DeleteObject": "S3, for who deletes the mark of an object that was deleted",
    "s3:GetObject": "up, of what may be there already",
}
"""Actions that Gridwright calls in some runs only, and when."""
LEFT_OUT: tuple[tuple[str, str, str], ...] = (
    ("AutoScaling", r"managed-fleets:.*", "another kind of group, without a launch template"),
    ("AutoScaling", r"vpc-lattice:.*", "no group has targets of VPC Lattice"),
    (
        "EC2::VolumeAttachment",
        r"ec2:DetachVolume",
        "attachments are retained: they end with their instances, and never under one that runs",
    ),
    (
        "AutoScaling",
        r"cloudwatch:PutMetricAlarm|autoscaling:.*(Notification|LoadBalancer|TrafficSources|"
        r"LifecycleHook|InstanceRefresh).*|elasticloadbalancing:Describe\*",
        "no group has scaling policies, notifications, load balancers, hooks or refreshes",
    ),
    ("AutoScaling", r"(ec2|ssm):Get\*", "templates name types, and images by IDs or by ssm:GetParameters"),
    ("VPCEndpoint", r"(vpc-lattice|vpce):.*", "the endpoints are gateways within the region"),
    (
        "DynamoDB",
        r"(kinesis|logs|s3):.*|iam:CreateServiceLinkedRole|kms:(ListAliases|Encrypt|RevokeGrant)|dynamodb:("
        r"UpdateTimeToLive|UpdateContributorInsights|.*Replica|(En|Dis)ableKinesis.*|UpdateKinesis.*|"
        r"(Put|Delete)ResourcePolicy|.*Import.*|Query|(Update|Put|Get|Delete)Item|BatchWriteItem|Scan)",
        "the table has no time to live, insights, replicas, streams, policy or import",
    ),
    (
        "",
        r"dynamodb:ListTables|iam:List(Roles|InstanceProfiles)|s3:ListAllMyBuckets|cloudformation:ListStacks|"
        r"secretsmanager:ListSecrets|cloudwatch:ListDashboards",
        "the handler of lists, which stacks do not use",
    ),
    ("Budget", r"billing:GetBillingViewData", "no budget is of a billing view of its own"),
    ("EC2::EIP", r"ec2:AcceptAddressTransfer", "no address comes from another account"),
    (
        "EC2::Instance",
        r"ssm:.*|ec2:(ModifyPrivateDnsNameOptions|.*IamInstanceProfile.*|(At|De)tachVolume|ModifyInstance("
        r"CreditSpecification|Placement|MaintenanceOptions|MetadataOptions)|(Unm|M)onitorInstances)",
        "properties that no instance of the templates has, or that stand in its launch template",
    ),
    ("NatGateway", r"ec2:(Disa|A)ssociateNat.*|ec2:(Una|A)ssignPrivateNat.*", "it has one address"),
    (
        "NetworkInterface",
        r"ec2:(ModifyPublicIpDnsNameOptions|(Una|A)ssignIpv6Addresses|(Una|A)ssignPrivateIpAddresses)",
        "interfaces have one address each",
    ),
    ("SubnetCidrReservation", r"ec2:(Create|Delete)Tags", "reservations have no tags"),
    ("EC2::Subnet", r"ec2:(Disa|A)ssociateSubnetCidrBlock", "no second range"),
    ("EC2::VPC", r"ec2:(CreateVpcEncryptionControl|ModifyVpcTenancy)", "properties that it does not have"),
    ("VPCGatewayAttachment", r"ec2:.*Vpn.*", "no gateway of a VPN"),
    (
        "EC2::Volume",
        r"ec2:(CopyVolumes|CreateSnapshot|ModifyVolumeAttribute)|kms:ReEncrypt.*",
        "no volume is a copy, and none becomes a snapshot when it goes",
    ),
    (
        "ElasticLoad",
        r"cognito-idp:.*|ec2:DescribeIpamPools|elasticloadbalancing:(.*CapacityReservation|ModifyIpPools|"
        r"SetIpAddressType|(Der|R)egisterTargets)",
        "properties that the load balancer of the console does not have",
    ),
    ("EC2::KeyPair", r"ec2:ImportKeyPair", "the key is one that AWS makes"),
    ("IAM::Role", r"iam:(At|De)tachRolePolicy", "no role has a managed policy"),
    ("IAM::Role", r"iam:DeleteRolePermissionsBoundary", "who runs Gridwright takes no boundary away"),
    (
        "S3::Bucket",
        r"s3tables:.*|iam:PassRole|s3:DeleteObject|s3:.*(Abac|Analytics|CORS|Inventory|Metrics|Notification|"
        r"Replication|Website|Accelerate|ObjectLock|ObjectAcl|BucketAcl|BucketLogging|IntelligentTiering|"
        r"Metadata).*",
        "properties that the bucket does not have",
    ),
    ("S3::Bucket", r"s3:DeleteBucket(Cors|Encryption|Lifecycle)", "calls of S3, and no actions of IAM"),
    ("Secret", r"secretsmanager:(ReplicateSecretTo|RemoveRegionsFrom).*", "no secret is in another region"),
    (
        "CloudFormation::Stack",
        r"iam:PassRole|cloudformation:((Get|Set)StackPolicy|UpdateTerminationProtection)",
        "no nested stack has a role, a policy or a protection",
    ),
)
"""What the schema of a type lists and no policy has, by type and action, and why not."""

_NAMED = {"kms": "KeyId", "sns": "TopicArn"}
"""Services whose calls name one resource, and how."""
_BY_METHOD = {"route53:GET": "GetHostedZone"}
"""Calls that are known by their method and path alone: those that Gridwright makes."""
_SERVICES = {"tagging": "tag", "monitoring": "cloudwatch"}


@cache
def operator_of(text: str) -> Operator:
    """Who runs the grid of a spec."""
    spec = parse_spec(text)
    layout = aws_layout(spec)
    return operator(spec, layout, grid_template(spec, layout), storage_template(spec, layout))


def documents(of: Operator) -> list[Mapping[str, Any]]:
    """Its policies, as a site attaches them."""
    return [json.loads(each) for each in of.files().values()]


def statements_of(of: Operator) -> list[Mapping[str, Any]]:
    """All statements of all policies."""
    return [each for document in documents(of) for each in document["Statement"]]


@dataclass
class Judge:
    """Judges each call when it is made, by what is in the cloud then."""

    cloud: AwsCloud
    statements: list[Mapping[str, Any]]
    callers: frozenset[str] = frozenset({GRIDWRIGHT})
    """Which parts of Gridwright look at this grid."""
    denied: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def __call__(self, call: Call) -> None:
        for asked in self.asked(call):
            self.used.add(asked.action)
            if not is_allowed(self.statements, asked):
                self.denied.append(str(asked))

    def without_use(self) -> set[str]:
        """What Gridwright is said to call by itself, and did not."""
        own = {
            each.action
            for each in operator_actions()
            if each.source.startswith("call") and each.callers & self.callers
        }
        return (own & actions_of(self.statements)) - self.used - set(RARE)

    def asked(self, call: Call) -> Iterator[Asked]:
        """What IAM is asked for a call."""
        region = {"aws:RequestedRegion": [REGION]}
        for action in _actions(call):
            if action not in FREE:
                for resource, context in self._resources(action, call):
                    yield Asked(action, resource, {**region, **context})

    def _resources(self, action: str, call: Call) -> Iterator[tuple[str, dict[str, list[str]]]]:
        service, _, name = action.partition(":")
        given = call.parameters
        if service == "cloudformation" and "StackName" in given:
            stack = str(given["StackName"])
            arn = stack if stack.startswith("arn:") else _arn("cloudformation", f"stack/{stack}/0")
            yield arn, {}
        elif service == "s3":
            path = unquote(urlsplit(call.path).path.strip("/"))
            whole = path.partition("/")[0] if "Bucket" in name else path
            yield f"arn:aws:s3:::{whole}{'/key' if name.startswith('Delete') else ''}", {}
        elif service == "dynamodb":
            yield _arn("dynamodb", f"table/{given['TableName']}"), {}
        elif service == "iam":
            yield f"arn:aws:iam::{ACCOUNT}:role/{given['RoleName']}", {}
        elif service == "ssm":
            yield f"arn:aws:ssm:{REGION}::parameter{given['Name']}", {}
        elif service == "route53":
            yield f"arn:aws:route53:::hostedzone/{call.path.rpartition('/')[2]}", {}
        elif service in _NAMED:
            yield str(given[_NAMED[service]]), {}
        elif service == "ec2" and (ids := [*_ids(given)]) and not name.startswith("Describe"):
            for each in ids:
                yield _arn("ec2", f"x/{each}"), self._tags_of(each)
        elif service == "fsx" and not name.startswith("Describe"):
            number = given.get("FileSystemId") or str(given["ResourceARN"]).rpartition("/")[2]
            yield _arn("fsx", f"file-system/{number}"), self._tags_of(number)
        elif service == "secretsmanager":
            yield str(given["SecretId"]), self._tags_of(str(given["SecretId"]))
        else:
            group = given.get("AutoScalingGroupName")
            of_group = f"autoScalingGroup:0:autoScalingGroupName/{group}"
            yield _arn("autoscaling", of_group) if group else "*", {}

    def _tags_of(self, number: str) -> dict[str, list[str]]:
        """Tags of a resource as they are at this moment."""
        if number.startswith("fs-"):
            found = self.cloud.client("fsx").describe_file_systems(FileSystemIds=[number])["FileSystems"]
            tags = found[0]["Tags"]
        elif number.startswith("arn:"):
            tags = self.cloud.client("secretsmanager").describe_secret(SecretId=number)["Tags"]
        else:
            chosen = [{"Name": "resource-id", "Values": [number]}]
            tags = self.cloud.client("ec2").describe_tags(Filters=chosen)["Tags"]
        return {f"aws:ResourceTag/{each['Key']}": [each["Value"]] for each in tags}


@contextmanager
def judged(cloud: AwsCloud, text: str) -> Iterator[Judge]:
    """Judge each call that the commands make of a cloud by the policies of a spec: none is denied."""
    of = operator_of(text)
    parts = frozenset({GRIDWRIGHT, *(f"{GRIDWRIGHT}:{each}" for each in of.has)})
    judge = Judge(cloud, statements_of(of), parts)
    cloud.faults.watching.append(judge)
    try:
        yield judge
    finally:
        cloud.faults.watching.remove(judge)
    assert judge.used, "the commands made no call"
    assert not judge.denied, "no policy allows " + "; ".join(judge.denied)


def _actions(call: Call) -> list[str]:
    """The actions that a call is, by their names in IAM (Service Authorization Reference)."""
    service, _, name = call.action.partition(":")
    if service != "s3":
        named = _BY_METHOD.get(call.action, name)
        found = [f"{_SERVICES.get(service, service)}:{named}"]
        return [*found, "cloudformation:TagResource"] if name in ("CreateStack", "CreateChangeSet") else found
    url = urlsplit(call.path)
    asked = parse_qs(url.query, keep_blank_values=True)
    of_bucket = "/" not in unquote(url.path).strip("/")
    match name, of_bucket:
        case "GET", True:
            return ["s3:ListBucketVersions" if "versions" in asked else "s3:ListBucket"]
        case "HEAD", True:
            return ["s3:ListBucket"]
        case "POST", True if "delete" in asked:
            return ["s3:DeleteObjectVersion"]
        case "GET" | "HEAD", False:
            return ["s3:GetObject"]
        case "PUT", False:
            return ["s3:PutObject"]
    raise NotImplementedError(f"it is not known what {name} {call.path} is")


def _ids(given: Mapping[str, Any]) -> Iterator[str]:
    """IDs of resources in a request of EC2."""
    for name, value in given.items():
        if re.fullmatch(r"(ResourceId\.\d+|VolumeId|InstanceId(\.\d+)?)", name):
            yield str(value)


def _arn(service: str, rest: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"
