"""What machines may do on AWS: one role and profile for each kind of machine, with no more than it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from troposphere import GetAtt, Ref, Sub, Tags, Template, iam

from gridwright.providers.aws.claim.this_machine import WANTED
from gridwright.providers.aws.layout import KEY, TOKEN, AwsLayout, Machine, Role, console_machine
from gridwright.providers.aws.machine_files import BOOT, NAMESPACE, import_value, key_id, roller, shared_key
from gridwright.providers.aws.names import GRID_TAG, GROUP_TAG, ROLE_TAG, SLOT_TAG, Export, logical_id, tags
from gridwright.providers.aws.roll.aws import ROW
from gridwright.providers.aws.section import depot_place
from gridwright.providers.boot.bundle import LOGS, PREFIX
from gridwright.setup.node_specs import secret_arn
from gridwright.spec.model import GridSpec

STORAGE = "storage"
_ANY = "*"
_GROUPS = Sub(
    "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup:*:"
    "autoScalingGroupName/*"
)
"""Auto Scaling groups; conditions say which."""


def role_group(machine: Machine) -> str:
    """Servers of Lustre are alike in what they may do; each group of machines is for itself."""
    if machine.role is Role.MACHINE:
        return f"{machine.group}-machines"
    return STORAGE if machine.role.serves_lustre else str(machine.role)


def add_roles(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """A role and a profile for each group that has machines; none has a name, so that CAPABILITY_IAM does."""
    boundary = layout.aws.permissions_boundary
    for group in dict.fromkeys(role_group(machine) for machine in layout.machines):
        machines = [each for each in layout.machines if role_group(each) == group]
        statements = [*_bundle(spec), _report(spec), _count(), *_session_manager()]
        if (key := shared_key(spec, machines[0].role)) is not None:
            secret = Ref(key_id(key))
            statements.append(_allow(key.name.capitalize(), ["secretsmanager:GetSecretValue"], secret))
        if console_machine(layout) in machines:
            statements += _console()
        if group not in (STORAGE, Role.NSD):
            statements += _of_the_site(spec, layout)
            if layout.aws.certificate is not None:
                # Descriptions know no resources (Service Authorization Reference, EC2).
                statements.append(_allow("ConsoleKey", ["ec2:DescribeKeyPairs"], _ANY))
        if group == Role.HEAD:
            statements += _repositories(spec)
        if any(each.replaced for each in machines):
            statements += _claims(spec, machines)
        if group == Role.HEAD and (powered := [each for each in layout.machines if each.powered]):
            statements += _power(spec, layout, powered)
        if roller(layout) in machines:
            statements += _roll(spec)
        if group == Role.NSD:
            # Which volumes are its own; descriptions know no resources (as above).
            statements.append(_allow("Look", ["ec2:DescribeVolumes"], _ANY))
        if group == STORAGE:
            statements += _attach("Volumes", "ec2:AttachVolume", "volume", spec, machines)
        if layout.aws.kms_key is not None:
            statements += _key(layout.aws.kms_key, volumes=group == STORAGE)
        role = template.add_resource(
            iam.Role(
                logical_id(group, "Role"),
                Description=f"Machines of group {group} of grid {spec.name}",
                AssumeRolePolicyDocument=_document(
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": Sub("ec2.${AWS::URLSuffix}")},
                        "Action": "sts:AssumeRole",
                    }
                ),
                Policies=[iam.Policy(PolicyName="gridwright", PolicyDocument=_document(*statements))],
                Tags=Tags(**tags(spec, role=group)),
                **({"PermissionsBoundary": boundary} if boundary else {}),
            )
        )
        template.add_resource(iam.InstanceProfile(logical_id(group, "Profile"), Roles=[Ref(role)]))


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(
    sid: str,
    actions: list[str],
    resource: Any,  # noqa: ANN401 - text or a function of CloudFormation, or several
    condition: dict[str, Any] | None = None,
) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
    return statement if condition is None else {**statement, "Condition": condition}


def _bundle(spec: GridSpec) -> list[dict[str, Any]]:
    """Reading bundles, and putting logs beside them, below the ARN of the instance that asks."""
    bucket = import_value(spec, Export.SITE_BUCKET)
    bundles, logs = (
        Sub(f"arn:${{AWS::Partition}}:s3:::${{Bucket}}/{each}*", Bucket=bucket)
        for each in (PREFIX, f"{LOGS}${{!ec2:SourceInstanceARN}}/")
    )
    return [_allow("Bundle", ["s3:GetObject"], bundles), _allow("Log", ["s3:PutObject"], logs)]


def _of_the_site(spec: GridSpec, layout: AwsLayout) -> Iterator[dict[str, Any]]:
    """What the site owns and the spec names: the secret of its directory of users, and depots."""
    if (arn := secret_arn(spec)) is not None:
        yield _allow("Users", ["secretsmanager:GetSecretValue"], arn)
    for number, depot in enumerate(layout.aws.depots):
        bucket, below = depot_place(depot)
        arn_of_bucket = Sub(f"arn:${{AWS::Partition}}:s3:::{bucket}")
        listed = {"StringLike": {"s3:prefix": [f"{below}*"]}}
        yield _allow(
            f"Depot{number}", ["s3:GetObject"], Sub(f"arn:${{AWS::Partition}}:s3:::{bucket}/{below}*")
        )
        yield _allow(f"DepotList{number}", ["s3:ListBucket"], arn_of_bucket, listed)


def _console() -> Iterator[dict[str, Any]]:
    """The token of the console, and the private half of its key (EC2 User Guide, create a key pair)."""
    yield _allow("Console", ["secretsmanager:GetSecretValue"], Ref(TOKEN))
    place = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/ec2/keypair/${Key}"
    yield _allow("ConsolePrivateKey", ["ssm:GetParameter"], Sub(place, Key=GetAtt(KEY, "KeyPairId")))


def _repositories(spec: GridSpec) -> Iterator[dict[str, Any]]:
    """What its timers carry: objects below the prefix of each repository, and no others of its bucket."""
    for number, (name, repository) in enumerate(spec.repositories.items()):
        if spec.is_linked(name) or repository.endpoint is not None:
            continue
        bucket, _, prefix = repository.bucket.removeprefix("s3://").partition("/")
        below = f"{prefix}/" if prefix else ""
        yield _allow(
            f"Repository{number}",
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            Sub(f"arn:${{AWS::Partition}}:s3:::{bucket}/{below}*"),
        )
        yield _allow(
            f"RepositoryList{number}",
            ["s3:ListBucket"],
            Sub(f"arn:${{AWS::Partition}}:s3:::{bucket}"),
            {"StringLike": {"s3:prefix": [f"{below}*"]}} if below else None,
        )


def _report(spec: GridSpec) -> dict[str, Any]:
    """Telling how it got on, in the row of its own instance alone (IAM User Guide, ec2:SourceInstanceARN)."""
    own = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [f"{BOOT}${{ec2:SourceInstanceARN}}"]}}
    return _allow("Report", ["dynamodb:PutItem"], import_value(spec, Export.CLAIMS_TABLE_ARN), own)


def _count() -> dict[str, Any]:
    """Counting boots that failed. PutMetricData is held to a namespace alone (CloudWatch User Guide)."""
    return _allow(
        "Count", ["cloudwatch:PutMetricData"], _ANY, {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
    )


def _session_manager() -> list[dict[str, Any]]:
    """What Session Manager's agent asks for, and no more; AmazonSSMManagedInstanceCore also reads parameters.

    These actions know no resources (Service Authorization Reference, Session Manager message gateway).
    """
    channels = ("CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel")
    agent = ["ssm:UpdateInstanceInformation", *(f"ssmmessages:{each}" for each in channels)]
    return [_allow("SessionManager", agent, _ANY)]


def _claims(spec: GridSpec, machines: list[Machine]) -> list[dict[str, Any]]:
    """Taking over name and interface of a machine that is gone.

    Only of machines of the same kind: a node that runs jobs cannot become a server.
    """
    table = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
    desired = [f"{WANTED}{each}" for each in _slots([each for each in machines if each.powered])]
    look = ["ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces", "ec2:DescribeVolumes"]
    return [
        _allow("Claims", table, import_value(spec, Export.CLAIMS_TABLE_ARN), _of_slots(machines)),
        *(
            [
                _allow(
                    "Wanted",
                    ["dynamodb:GetItem"],
                    import_value(spec, Export.CLAIMS_TABLE_ARN),
                    _keys(desired),
                )
            ]
            if desired
            else []
        ),
        _allow("Look", look, _ANY),  # descriptions know no resources (Service Authorization Reference, EC2)
        *_attach("Interfaces", "ec2:AttachNetworkInterface", "network-interface", spec, machines),
        _allow("GiveBack", ["autoscaling:SetInstanceHealth"], _GROUPS, _of_grid(spec)),
    ]


def _roll(spec: GridSpec) -> list[dict[str, Any]]:
    """Having groups replace machines whose launch data are old ones, and telling how far that is.

    A scan is held to a table, and to no part of its rows (Service Authorization Reference, DynamoDB).
    """
    table, own = import_value(spec, Export.CLAIMS_TABLE_ARN), {"dynamodb:LeadingKeys": [ROW]}
    return [
        _allow("RollGroups", ["autoscaling:DescribeAutoScalingGroups"], _ANY),
        _allow("Replace", ["autoscaling:TerminateInstanceInAutoScalingGroup"], _GROUPS, _of_grid(spec)),
        _allow("Machines", ["dynamodb:Scan"], table),
        _allow("Roll", ["dynamodb:PutItem"], table, {"ForAllValues:StringEquals": own}),
    ]


def _of_grid(spec: GridSpec) -> dict[str, Any]:
    return {"StringEquals": {f"aws:ResourceTag/{GRID_TAG}": spec.name}}


def _power(spec: GridSpec, layout: AwsLayout, powered: list[Machine]) -> list[dict[str, Any]]:
    """Setting the size of groups with nodes that the scheduler powers, and telling machines what is wanted.

    Descriptions know no resources (Service Authorization Reference, EC2 Auto Scaling). The items that it may
    write are those of wishes: who owns a node is decided between machines.
    """
    wishes = [f"{WANTED}{each}" for each in _slots(powered)]
    groups = {each.group for each in powered}
    owners = _slots([each for each in layout.of_role(Role.COMPUTE) if each.group in groups])
    table = import_value(spec, Export.CLAIMS_TABLE_ARN)
    of_groups = {f"aws:ResourceTag/{GRID_TAG}": spec.name, f"aws:ResourceTag/{GROUP_TAG}": sorted(groups)}
    return [
        _allow(
            "Groups", ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"], _ANY
        ),
        _allow(
            "Size",
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            _GROUPS,
            {"StringEquals": of_groups},
        ),
        _allow("Owners", ["dynamodb:BatchGetItem"], table, _keys([*owners, *wishes])),
        _allow("Wishes", ["dynamodb:PutItem", "dynamodb:DeleteItem"], table, _keys(wishes)),
    ]


def _keys(keys: list[str]) -> dict[str, Any]:
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": sorted(keys)}}


def _attach(
    sid: str, action: str, kind: str, spec: GridSpec, machines: list[Machine]
) -> Iterator[dict[str, Any]]:
    """Attaching what is of a slot of these machines, and to the very machine that asks, to no other.

    `ec2:InstanceID` is of the machine that something is attached to, `ec2:SourceInstanceARN` of the one whose
    credentials are used (Service Authorization Reference, EC2; IAM User Guide, global condition keys). AWS's
    own policy AWSEC2VssSnapshotPolicy compares them in this way.
    """
    of_kind = _of_kind(spec, machines)["StringEquals"]
    slots = {f"aws:ResourceTag/{SLOT_TAG}": _slots(machines)}
    itself = {"ec2:SourceInstanceARN": _ec2("instance", "${!ec2:InstanceID}")}
    yield _allow(sid, [action], _ec2(kind), {"StringEquals": of_kind, "StringLike": slots})
    yield _allow(f"{sid}Here", [action], _ec2("instance"), {"StringEquals": of_kind, "ArnLike": itself})


def _key(arn: str, *, volumes: bool) -> list[dict[str, Any]]:
    """Reading and writing what is encrypted; EC2 makes a grant of its own where it attaches a volume."""
    services = ("dynamodb", "s3", "secretsmanager")
    through = [Sub(f"{each}.${{AWS::Region}}.${{AWS::URLSuffix}}") for each in services]
    use = ["kms:Decrypt", "kms:GenerateDataKey"]
    found = [_allow("Decrypt", use, arn, {"StringEquals": {"kms:ViaService": through}})]
    if volumes:
        for_aws = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        found.append(_allow("Grant", ["kms:CreateGrant"], arn, for_aws))
    return found


def _ec2(kind: str, which: str = "*") -> Sub:
    return Sub(f"arn:${{AWS::Partition}}:ec2:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/{which}")


def _of_kind(spec: GridSpec, machines: list[Machine]) -> dict[str, Any]:
    roles = sorted({str(each.role) for each in machines})
    return {"StringEquals": {f"aws:ResourceTag/{GRID_TAG}": spec.name, f"aws:ResourceTag/{ROLE_TAG}": roles}}


def _of_slots(machines: list[Machine]) -> dict[str, Any]:
    """Items of these machines alone, whichever of them.

    Who takes a slot that is free, or whose owner is gone, is decided between machines by the one item that
    they all may write: IAM sees its key, and neither what it held nor what it is to hold.
    """
    return _keys(_slots(machines))


def _slots(machines: list[Machine]) -> list[str]:
    """Names of these machines: they end in a number, each digit of it a question mark here."""
    names = {re.sub(r"[0-9]+$", lambda number: "?" * len(number[0]), each.name) for each in machines}
    return sorted(names)


def profile_arn(machine: Machine) -> GetAtt:
    """The profile, as a launch template names it."""
    return GetAtt(logical_id(role_group(machine), "Profile"), "Arn")
