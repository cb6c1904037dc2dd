"""`up --check` on AWS, before `up` makes anything: quotas, zone, images, rights and the key, each for itself.

All looks are made together; what these credentials may not look at is said.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import GRAVEST_FIRST, Finding, nearest
from gridwright.providers.aws.alarms import stored_gib
from gridwright.providers.aws.costs import ROOT_VOLUME
from gridwright.providers.aws.images import image_findings, images, images_to_keep
from gridwright.providers.aws.instances import described_instances
from gridwright.providers.aws.launching import root_size
from gridwright.providers.aws.layout import DEFAULT_VOLUME, AwsLayout, Machine, Role, fsx_file_systems
from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.session import DENIED, Cloud, CloudError, action_of
from gridwright.providers.aws.site_vpc import chosen, subnet_findings, vpc_findings, way_findings
from gridwright.providers.aws.stacks import Stacks, tags_of
from gridwright.providers.provider import Caller, Preflight, QuotaUse, not_looked_at
from gridwright.setup.node_specs import secret_arn
from gridwright.spec.filesystem import INSTANCE_STORE, Disks
from gridwright.spec.model import GridSpec

AWS_KEY = "alias/aws/sns"
"""The key that AWS has for SNS: its policy cannot be changed, and does not let CloudWatch use it (Amazon
CloudWatch User Guide, alarms and actions; Amazon SNS Developer Guide, encryption at rest)."""
_TOPIC_ABSENT = frozenset({"NotFound", "NotFoundException"})


def topic_findings(cloud: Cloud, layout: AwsLayout, account: str) -> Iterator[Finding]:
    """What is wrong with the topic that the spec names. Raises CloudError."""
    if layout.aws.alarms is None:
        return
    topic = layout.aws.alarms.topic
    try:
        known = cloud.call("sns", "get_topic_attributes", TopicArn=topic)["Attributes"]
    except CloudError as error:
        if error.code not in _TOPIC_ABSENT:
            raise
        yield Finding(
            "error",
            "topic-unknown",
            f"there is no SNS topic {topic}: no alarm of the grid would reach anybody",
            f"make it: aws sns create-topic --region {cloud.region} --name {topic.rpartition(':')[2]}",
        )
        return
    key = str(known.get("KmsMasterKeyId", ""))
    if key.endswith(AWS_KEY):
        yield Finding(
            "error",
            "topic-closed",
            f"SNS topic {topic} is encrypted with {AWS_KEY}, which CloudWatch cannot use: its alarms are not "
            "delivered",
            "encrypt it with a key of yours whose policy allows cloudwatch.amazonaws.com kms:Decrypt and "
            "kms:GenerateDataKey, or with none",
        )
    if str(known.get("SubscriptionsConfirmed", "")) == "0":
        yield Finding(
            "warning",
            "topic-unheard",
            f"nobody has confirmed a subscription to SNS topic {topic}: alarms reach nobody",
            f"aws sns subscribe --region {cloud.region} --topic-arn {topic} --protocol email "
            "--notification-endpoint ADDRESS, and confirm the message that comes",
        )
    if layout.aws.alarms.budget and "budgets.amazonaws.com" not in str(known.get("Policy", "")):
        yield Finding(
            "warning",
            "topic-without-budgets",
            f"the policy of SNS topic {topic} does not name budgets.amazonaws.com: nobody learns that the "
            "budget is spent",
            "allow that service sns:Publish in the topic's policy",
        )
    if topic.split(":")[4] != account and "cloudwatch.amazonaws.com" not in str(known.get("Policy", "")):
        yield Finding(
            "warning",
            "topic-elsewhere",
            f"SNS topic {topic} is of another account, and its policy does not name cloudwatch.amazonaws.com",
            f"allow that service sns:Publish in its policy, for alarms of account {account}",
        )


OWN_KEY = "alias/aws/secretsmanager"
"""The key that AWS has for secrets, which every role of the account may use through the service (AWS Secrets
Manager User Guide, encryption and decryption)."""
_SECRETS_ABSENT = frozenset({"ResourceNotFoundException", "ValidationException"})


def secret_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """What is wrong with it; its value is not read. Raises CloudError."""
    arn = secret_arn(spec)
    if arn is None:
        return
    try:
        known = cloud.call("secretsmanager", "describe_secret", SecretId=arn)
    except CloudError as error:
        if error.code not in _SECRETS_ABSENT:
            raise
        known = {}
    if not known or "DeletedDate" in known:
        yield Finding(
            "error",
            "secret-unknown",
            f"there is no secret {arn}: no machine could ask the directory of users",
            "make it, and write its ARN into the spec: aws secretsmanager create-secret "
            f"--region {cloud.region} --name grid-directory --secret-string file://FILE",
        )
        return
    key = str(known.get("KmsKeyId", OWN_KEY))
    if not key.endswith(OWN_KEY) and key != layout.aws.kms_key:
        yield Finding(
            "error",
            "secret-of-another-key",
            f"secret {arn} is encrypted with {key}, which machines of the grid may not use",
            "encrypt it with the key of aws.kms_key, or with the one that AWS has for secrets",
        )


Amounts = Mapping[tuple[str, str], float]
"""What counts against quotas, by the kind of quota and by what of it: vCPUs of family m, TiB of gp3."""
_FAMILY = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota, with the page that it is from."""

    service: str
    code: str
    name: str
    kind: str
    of: frozenset[str]
    """Families of instances, types of volumes, deployment types; empty where it counts all of a kind."""
    unit: str
    source: str

    def sum(self, amounts: Amounts) -> float:
        """What of these counts against it."""
        return sum(
            amount
            for (kind, of), amount in amounts.items()
            if kind == self.kind and (not self.of or of in self.of)
        )

    def limit(self, cloud: Cloud) -> float:
        """The account's own value in this region. Raises CloudError."""
        asked = {"ServiceCode": self.service, "QuotaCode": self.code}
        return float(cloud.call("service-quotas", "get_service_quota", **asked)["Quota"]["Value"])


@cache
def all_quotas() -> tuple[Quota, ...]:
    """Those that a grid counts against."""
    text = resources.files("gridwright.providers.aws").joinpath("data/quotas.csv").read_text("utf-8")
    return tuple(
        Quota(
            service=row["service"],
            code=row["code"],
            name=row["name"],
            kind=row["kind"],
            of=frozenset(row["of"].split()),
            unit=row["unit"],
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def family(instance: str) -> str:
    """The letters of a type that say whose quota it is: m of m6in.4xlarge, hpc of hpc7a.96xlarge."""
    found = _FAMILY.match(instance)
    return found[0] if found else instance


def too_small(figures: Iterable[QuotaUse], region: str) -> Iterator[Finding]:
    """A finding for each quota that the grid does not fit into."""
    for each in figures:
        if each.is_enough:
            continue
        service, _, code = each.code.partition("/")
        yield Finding(
            "error",
            "quota-too-small",
            f"{each.name} ({code}) is {each.limit:g} {each.unit} in {region}: others use {each.used:g}, and "
            f"the grid needs {each.needed:g}",
            "ask for more, which takes hours to days: aws service-quotas request-service-quota-increase "
            f"--region {region} --service-code {service} --quota-code {code} "
            f"--desired-value {math.ceil(each.used + each.needed)}; or write a smaller grid",
        )


GIB_PER_TIB = 2**10


@dataclass(frozen=True)
class AccountUsage:
    """What others use; each method raises CloudError."""

    cloud: Cloud
    catalog: Catalog
    grid: str
    zone: str
    _counted: dict[str, Amounts] = field(default_factory=dict)

    def of(self, kind: str) -> Amounts:
        """What counts against quotas of a kind, and of others that are counted with it: asked for once."""
        asked = kind.partition("-")[0]
        if asked not in self._counted:
            self._counted[asked] = getattr(self, f"_{asked}")()
        return self._counted[asked]

    def _others(self, service: str, operation: str, key: str, **arguments: object) -> Iterator[Any]:
        for each in self.cloud.listed(service, operation, key, **arguments):
            if not self._is_ours(each):
                yield each

    def _is_ours(self, resource: Mapping[str, Any]) -> bool:
        return tags_of(resource).get(GRID_TAG) == self.grid

    def _vcpus(self) -> Amounts:
        """Instances on demand that run, by family: spot and capacity blocks have quotas of their own."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        for each in described_instances(self.cloud, states):
            if not self._is_ours(each) and not each.get("InstanceLifecycle"):
                found["vcpus", family(each["InstanceType"])] += self._vcpus_of(each)
        return found

    def _vcpus_of(self, instance: Mapping[str, Any]) -> int:
        known = self.catalog.instances.get(instance["InstanceType"])
        if known is not None:
            # What the type has, also where fewer threads are switched on.
            return known.vcpus
        options = instance.get("CpuOptions") or {}
        return int(options.get("CoreCount", 0)) * int(options.get("ThreadsPerCore", 1))

    def _volumes(self) -> Amounts:
        found: dict[tuple[str, str], float] = defaultdict(float)
        for each in self._others("ec2", "describe_volumes", "Volumes"):
            found["volumes", each["VolumeType"]] += each["Size"] / GIB_PER_TIB
        return found

    def _fsx(self) -> Amounts:
        found: dict[tuple[str, str], float] = defaultdict(float)
        for each in self._others("fsx", "describe_file_systems", "FileSystems"):
            if each["FileSystemType"] == "LUSTRE":
                deployment = each.get("LustreConfiguration", {}).get("DeploymentType", "")
                found["fsx-capacity", deployment] += each["StorageCapacity"]
                found["fsx-count", deployment] += 1
        return found

    def _networks(self) -> Amounts:
        return {("networks", ""): sum(1 for _ in self._others("ec2", "describe_vpcs", "Vpcs"))}

    def _addresses(self) -> Amounts:
        return {("addresses", ""): sum(1 for _ in self._others("ec2", "describe_addresses", "Addresses"))}

    def _gateways(self) -> Amounts:
        here = [{"Name": "availability-zone", "Values": [self.zone]}]
        subnets = {
            each["SubnetId"] for each in self.cloud.listed("ec2", "describe_subnets", "Subnets", Filters=here)
        }
        states = [{"Name": "state", "Values": ["pending", "available"]}]
        found = self._others("ec2", "describe_nat_gateways", "NatGateways", Filters=states)
        return {("gateways", ""): sum(each.get("SubnetId") in subnets for each in found)}


SERVICE_ROLE = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
"""The role that Auto Scaling takes (Amazon EC2 Auto Scaling User Guide, required AWS KMS key policy)."""
OPERATIONS = (
    "Encrypt",
    "Decrypt",
    "ReEncryptFrom",
    "ReEncryptTo",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "DescribeKey",
    "CreateGrant",
)
"""What that page has the grant allow."""


def key_findings(cloud: Cloud, layout: AwsLayout, account: str) -> Iterator[Finding]:
    """What is wrong with the key that the spec names. Raises CloudError."""
    key = layout.aws.kms_key
    if key is None:
        return
    state = cloud.call("kms", "describe_key", KeyId=key)["KeyMetadata"].get("KeyState", "Enabled")
    if state != "Enabled":
        yield Finding(
            "error",
            "key-not-enabled",
            f"KMS key {key} is {state}: nothing can be encrypted with it",
            f"enable it: aws kms enable-key --region {cloud.region} --key-id {key}",
        )
    if not any(each.replaced for each in layout.machines):
        return
    role = f"arn:{key.split(':')[1]}:iam::{account}:{SERVICE_ROLE}"
    granted = any(
        each.get("GranteePrincipal") == role
        for each in cloud.listed("kms", "list_grants", "Grants", KeyId=key)
    )
    policy = cloud.call("kms", "get_key_policy", KeyId=key, PolicyName="default").get("Policy", "")
    if granted or _lets(str(policy), role):
        return
    yield Finding(
        "error",
        "key-not-for-auto-scaling",
        f"Auto Scaling may not use KMS key {key}: no grant and no statement of its policy names {role}; "
        "nodes and servers with encrypted volumes would not start",
        f"aws kms create-grant --region {cloud.region} --key-id {key} --grantee-principal {role} "
        f"--operations {' '.join(OPERATIONS)}",
    )


def _lets(policy: str, role: str) -> bool:
    """Whether a statement allows the role anything, or everybody, as those of AWS's own keys do.

    That of the whole account (`:root`) leaves it to policies of the role, which is AWS's own.
    """
    try:
        statements = json.loads(policy or "{}").get("Statement", [])
    except ValueError:
        return role in policy
    listed = statements if isinstance(statements, list) else [statements]
    return any(
        each.get("Effect") == "Allow" and not {role, "*"}.isdisjoint(_principals(each)) for each in listed
    )


def _principals(statement: dict[str, Any]) -> list[str]:
    named = statement.get("Principal", [])
    named = named.get("AWS", []) if isinstance(named, dict) else named
    return [named] if isinstance(named, str) else list(named)


def rights_findings(cloud: Cloud, layout: AwsLayout, catalog: Catalog) -> Iterator[Finding]:
    """Each call that would be refused for want of a permission. Raises CloudError for want of an answer."""
    name = f"gridwright-{layout.grid}-check"
    calls: list[tuple[str, dict[str, object]]] = [
        *_of_network(layout, name),
        ("create_volume", {"AvailabilityZone": layout.aws.zone, "Size": 1, "VolumeType": "gp3"}),
        (
            "create_launch_template",
            {"LaunchTemplateName": name, "LaunchTemplateData": {"InstanceType": layout.machines[0].instance}},
        ),
        *(
            (
                "run_instances",
                {"ImageId": each.image, "InstanceType": each.instance, "MinCount": 1, "MaxCount": 1},
            )
            for each in images(layout, catalog)
        ),
    ]
    if layout.aws.has_public_login or layout.aws.makes_way_out:
        calls.append(("allocate_address", {"Domain": "vpc"}))
    denied = dict.fromkeys(operation for operation, given in calls if _is_denied(cloud, operation, given))
    for operation in denied:
        yield Finding(
            "error",
            "permission-missing",
            f"these credentials may not do ec2:{action_of(operation)}",
            f"have an administrator of the account allow ec2:{action_of(operation)}, or choose another "
            "AWS_PROFILE; gridwright render writes policies with all that it takes, into operator/",
        )


def _of_network(layout: AwsLayout, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The grid's own network, or what it has in one that is there."""
    vpc = layout.aws.vpc
    if vpc is None:
        yield "create_vpc", {"CidrBlock": str(layout.networks[0])}
        if layout.aws.makes_way_out:
            yield "create_internet_gateway", {}
        return
    yield "create_security_group", {"GroupName": name, "Description": name, "VpcId": vpc.id}
    for each in {each.subnet: each for each in vpc.subnets().values()}:
        yield "create_network_interface", {"SubnetId": each}
    if vpc.reserve:
        for place in vpc.subnets().values():
            yield (
                "create_subnet_cidr_reservation",
                {"SubnetId": place.subnet, "Cidr": place.addresses, "ReservationType": "explicit"},
            )


def _is_denied(cloud: Cloud, operation: str, given: dict[str, object]) -> bool:
    """Whether EC2 refuses a call for want of a permission; other refusals are found by other checks."""
    try:
        cloud.call("ec2", operation, DryRun=True, **given)
    except CloudError as error:
        if not error.code:
            raise
        return error.code in DENIED
    return False


_MOST_NAMED = 4


def zone_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """What the zone lacks. Raises CloudError."""
    zone = layout.aws.zone
    states = {
        each["ZoneName"]: str(each.get("State", "available"))
        for each in cloud.call("ec2", "describe_availability_zones")["AvailabilityZones"]
    }
    if zone not in states:
        near = nearest(zone, list(states)) or min(states, default="another one")
        yield Finding(
            "error",
            "zone-unknown",
            f"the account has no zone {zone} in {cloud.region}: it has {', '.join(sorted(states))}",
            f"write aws.zone: {near}",
        )
        return
    if states[zone] != "available":
        yield Finding(
            "error",
            "zone-impaired",
            f"AWS says that zone {zone} is {states[zone]}",
            "wait until it is available, or choose another one",
        )
    yield from _types(cloud, layout)


def _types(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    required: dict[str, str] = {}
    for machine in layout.machines:
        required.setdefault(machine.instance, machine.name)
    zones = _zones_of_types(cloud, required)
    zone = layout.aws.zone
    with_all = sorted(set.intersection(*(zones.get(each, set()) for each in required)))[:_MOST_NAMED]
    for name, machine_name in required.items():
        if zone in zones.get(name, set()):
            continue
        others = sorted(zones.get(name, set()))[:_MOST_NAMED]
        place = f"zones {', '.join(others)} have it" if others else f"no zone of {cloud.region} has it"
        yield Finding(
            "error",
            "type-not-in-zone",
            f"zone {zone} has no {name}, which {machine_name} is; {place}",
            f"write aws.zone: {' or '.join(with_all)}, with all types of the grid; or choose another type"
            if with_all
            else "choose another type: no zone has all types of the grid",
        )


def _zones_of_types(cloud: Cloud, types: Mapping[str, str]) -> dict[str, set[str]]:
    """Zones that offer each type."""
    found: dict[str, set[str]] = defaultdict(set)
    asked = [{"Name": "instance-type", "Values": sorted(types)}]
    for each in cloud.listed(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=asked,
    ):
        found[each["InstanceType"]].add(each["Location"])
    return found


TIB = 2**40


def needs(spec: GridSpec, layout: AwsLayout, catalog: Catalog) -> Amounts:
    """All of a grid: vCPUs, TiB of volumes, GiB and number of FSx, networks, gateways, addresses."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for machine in layout.machines:
        group = spec.nodes.get(machine.group) if machine.role is Role.COMPUTE else None
        # Spot instances count against quotas of their own, which are looked at for their family's kind.
        kind = "spot-vcpus" if group is not None and group.spot else "vcpus"
        found[kind, family(machine.instance)] += catalog.instance(machine.instance, "aws").vcpus
        found["volumes", ROOT_VOLUME] += int(root_size(spec, machine)) / TIB
        for disks, count in _volumes(spec, machine):
            found["volumes", disks.type] += count * int(disks.size or DEFAULT_VOLUME) / TIB
    for volume in layout.volumes:
        found["volumes", volume.disks.type] += int(volume.disks.size or DEFAULT_VOLUME) / TIB
    for managed in fsx_file_systems(spec).values():
        deployment = managed.deployment.upper().replace("-", "_")
        found["fsx-capacity", deployment] += stored_gib(managed, catalog.deployment(managed.deployment))
        found["fsx-count", deployment] += 1
    aws = layout.aws
    for kind, count in (
        ("networks", int(aws.vpc is None)),
        ("gateways", int(aws.makes_way_out)),
        ("addresses", aws.makes_way_out + aws.has_public_login),
    ):
        if count:
            found[kind, ""] += count
    return dict(found)


def _volumes(spec: GridSpec, machine: Machine) -> Iterator[tuple[Disks, int]]:
    """Volumes of a machine beside the one that it starts from, and how many of each."""
    for target in machine.targets:
        yield target.disks, 1
    for each in spec.filesystems.values() if machine.role is Role.COMPUTE else ():
        disks = each.node_disks
        if disks is not None and disks.type != INSTANCE_STORE:
            yield disks, disks.count or 1


_ABSENT = "NoSuchEntity"


def linked_role_findings(cloud: Cloud, spec: GridSpec, layout: AwsLayout) -> Iterator[Finding]:
    """Those that are not there yet: who runs `up` needs the right to have them made. Raises CloudError."""
    for service, role in _linked_roles(spec, layout):
        try:
            cloud.call("iam", "get_role", RoleName=role)
        except CloudError as error:
            if error.code != _ABSENT:
                raise
            yield Finding(
                "info",
                "linked-role-absent",
                f"the account has no role {role} yet: {service} makes it with the first thing of its own, in "
                "the name of who runs up",
                "allow iam:CreateServiceLinkedRole, or run once: aws iam create-service-linked-role "
                f"--aws-service-name {service}",
            )


def _linked_roles(spec: GridSpec, layout: AwsLayout) -> Iterator[tuple[str, str]]:
    """Services, and the names of their roles (IAM User Guide, services that work with IAM)."""
    if any(each.replaced for each in layout.machines):
        yield "autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling"
    if any(each.spot for each in spec.nodes.values()):
        yield "spot.amazonaws.com", "AWSServiceRoleForEC2Spot"
    if fsx_file_systems(spec):
        yield "fsx.amazonaws.com", "AWSServiceRoleForAmazonFSx"
    if layout.aws.certificate is not None:
        yield "elasticloadbalancing.amazonaws.com", "AWSServiceRoleForElasticLoadBalancing"


SILENT = ""
"""The code of a service that did not answer, such as one without an endpoint in a closed network."""
_NOT_TOLD = frozenset({*DENIED, "NoSuchResourceException", "NotFoundException", SILENT})
"""Answers that leave a look undone: no right to it, a region without what is asked, none at all."""


def preflight(spec: GridSpec, layout: AwsLayout, cloud: Cloud) -> Preflight:
    """Look at what the making of a grid would fail of; nothing is made. Raises CloudError.

    Expired credentials, and an account that does not say whose it is, are errors: nothing can be looked at.
    """
    caller = cloud.call("sts", "get_caller_identity")
    account = str(caller["Account"])
    catalog = load_catalog(spec.file.parent if spec.file else None)
    findings: list[Finding] = []
    stacks = Stacks(cloud, Caller())
    looks: dict[str, Callable[[], Iterable[Finding]]] = {
        "zones and instance types": lambda: zone_findings(cloud, layout),
        "images": lambda: image_findings(cloud, layout, catalog, images_to_keep(stacks, spec, layout)),
        "permissions": lambda: rights_findings(cloud, layout, catalog),
        "the KMS key": lambda: key_findings(cloud, layout, account),
        "the topic of alarms": lambda: topic_findings(cloud, layout, account),
        "the VPC": lambda: vpc_findings(cloud, layout, account),
        "subnets and addresses": lambda: subnet_findings(cloud, spec, layout),
        "routes and endpoints": lambda: way_findings(cloud, spec, layout),
        "security groups": lambda: group_findings(cloud, layout),
        "the hosted zone": lambda: hosted_zone_findings(cloud, layout),
        "the secret of the directory of users": lambda: secret_findings(cloud, spec, layout),
        "service-linked roles": lambda: linked_role_findings(cloud, spec, layout),
    }
    for what, look in looks.items():
        findings += _looked(what, look)[0]
    figures: list[QuotaUse] = []
    required, usage = needs(spec, layout, catalog), AccountUsage(cloud, catalog, spec.name, layout.aws.zone)
    for quota in all_quotas():
        if needed := quota.sum(required):
            look = partial(_count, quota, needed, cloud, usage, figures)
            found, code = _looked(f"quota {quota.name}", look)
            findings += found
            if code == SILENT:
                # Each of them would be waited for as long.
                break
    findings += too_small(figures, cloud.region)
    return Preflight(
        grid=spec.name,
        provider=spec.provider,
        facts={
            "account": account,
            "caller": str(caller["Arn"]),
            "region": cloud.region,
            "zone": layout.aws.zone,
        },
        figures=tuple(figures),
        findings=tuple(sorted(findings, key=lambda each: GRAVEST_FIRST[each.level])),
    )


def _count(
    quota: Quota, needed: float, cloud: Cloud, usage: AccountUsage, figures: list[QuotaUse]
) -> Iterable[Finding]:
    used = quota.sum(usage.of(quota.kind))
    code = f"{quota.service}/{quota.code}"
    figures.append(
        QuotaUse(quota.name, code, quota.unit, quota.limit(cloud), round(used, 3), round(needed, 3))
    )
    return ()


def _looked(what: str, look: Callable[[], Iterable[Finding]]) -> tuple[list[Finding], str | None]:
    """What was found, or that it was not looked at, then with the code of AWS's answer."""
    try:
        return list(look()), None
    except CloudError as error:
        if error.code not in _NOT_TOLD:
            raise
        return [not_looked_at(what, error)], error.code


# Whether security groups and the hosted zone of the site are there, and fit the VPC.


def group_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """Security groups that machines are to be in. Raises CloudError."""
    vpc = layout.aws.vpc
    required = {each: role for role, groups in vpc.security_groups.items() for each in groups} if vpc else {}
    if vpc is None or not required:
        return
    there = {
        each["GroupId"]: str(each.get("VpcId", ""))
        for each in cloud.listed(
            "ec2", "describe_security_groups", "SecurityGroups", Filters=chosen("group-id", *sorted(required))
        )
    }
    for group, role in required.items():
        field = f"aws.vpc.security_groups.{role}"
        if group not in there:
            yield Finding(
                "error",
                "security-group-unknown",
                f"the account sees no security group {group} in {cloud.region}",
                f"write one of VPC {vpc.id} in {field}",
            )
        elif there[group] != vpc.id:
            yield Finding(
                "error",
                "security-group-of-another-vpc",
                f"security group {group} is of {there[group]}, and machines are in {vpc.id}",
                f"write one of VPC {vpc.id} in {field}",
            )


def hosted_zone_findings(cloud: Cloud, layout: AwsLayout) -> Iterator[Finding]:
    """The hosted zone that names are written into. Raises CloudError."""
    vpc = layout.aws.vpc
    if vpc is None or vpc.dns is None:
        return
    try:
        answer = cloud.call("route53", "get_hosted_zone", Id=vpc.dns.id)
    except CloudError as refused:
        if refused.code != "NoSuchHostedZone":
            raise
        yield Finding(
            "error",
            "hosted-zone-unknown",
            f"the account has no hosted zone {vpc.dns.id}",
            "write the ID of one of this account in aws.vpc.dns.id: aws route53 list-hosted-zones",
        )
        return
    name = str(answer["HostedZone"]["Name"]).rstrip(".")
    if name != vpc.dns.name:
        yield Finding(
            "error",
            "hosted-zone-of-another-name",
            f"hosted zone {vpc.dns.id} is {name}, and not {vpc.dns.name}",
            f"write name: {name} in aws.vpc.dns",
        )
    if not answer["HostedZone"].get("Config", {}).get("PrivateZone", False):
        yield Finding(
            "error",
            "hosted-zone-public",
            f"hosted zone {vpc.dns.id} ({name}) is public: the world would read the private addresses in it",
            "write a private hosted zone in aws.vpc.dns",
        )
    elif vpc.id not in {each.get("VPCId") for each in answer.get("VPCs", ())}:
        yield Finding(
            "warning",
            "hosted-zone-elsewhere",
            f"hosted zone {vpc.dns.id} ({name}) is not associated with VPC {vpc.id}: machines of the grid do "
            "not see the names in it",
            f"aws route53 associate-vpc-with-hosted-zone --hosted-zone-id {vpc.dns.id} "
            f"--vpc VPCRegion={cloud.region},VPCId={vpc.id}",
        )
