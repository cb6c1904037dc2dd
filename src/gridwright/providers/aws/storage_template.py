"""The storage stack: all of a grid that outlives its machines.

Network, security groups, FSx for Lustre, volumes of servers, addresses of those of Lustre, the table of
claims, the bucket of bundles. Nothing in it is billed by the hour but file systems and volumes; an alarm
costs cents a month. What holds the user's data stays when it leaves the stack.

A template of many volumes is larger than what CloudFormation takes inline, and the bucket that it could be
read from is one of its own resources: `without` all file systems it is small, and makes the bucket first.

Volumes and network interfaces of Lustre servers: what stays when a server is replaced.

Each server has an interface with its fixed address, so that its NID stays, and each target has a volume of
its own. A new instance finds them by their tags, and claims them.

Schedules of EventBridge Scheduler that start data repository tasks of FSx for Lustre.

A universal target calls CreateDataRepositoryTask itself (EventBridge Scheduler User Guide, using universal
targets), so that no machine has to run. Whether the last task was soon enough says `gridwright repo status`;
that a task could not be started at all says an alarm, so that nobody has to read a queue of dead letters.
A schedule holds names alone. AWS encrypts it with a key of its own, also where the spec has aws.kms_key: one
whose policy leaves the scheduler out would end all exports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from troposphere import AWSObject, GetAtt, Output, Ref, Sub, Tags, Template, ec2, fsx, iam, s3, scheduler

from gridwright.catalog.contents import Catalog
from gridwright.catalog.load import load_catalog
from gridwright.catalog.managed import MB, ManagedDeployment
from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems.provided import ManagedLustre
from gridwright.providers.aws.alarms import bought_tier, fsx_alarms, schedule_alarm, stored_gib
from gridwright.providers.aws.data_repository import export_request, import_request
from gridwright.providers.aws.launching import (
    data_volume,
    disk_problems,
    pair_volume_outputs,
    pair_volume_problems,
    pair_volume_resources,
)
from gridwright.providers.aws.layout import AwsLayout, Machine, fsx_file_systems, paired_servers
from gridwright.providers.aws.names import SLOT_TAG, TARGET_TAG, Export, fsx_export, logical_id, tags
from gridwright.providers.aws.network import (
    CLAIMS_TABLE,
    Group,
    claims_table_resource,
    deletion_policy,
    exported,
    group_outputs,
    groups_of_site,
    network_outputs,
    network_resources,
    rules,
    security_groups,
    subnet_of,
)
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.stacks import (
    LONGEST_BODY,
    ChangeSet,
    Stack,
    Stacks,
    body_of,
    count_problems,
    template_problems,
    text_of,
)
from gridwright.providers.boot.bundle import LOGS
from gridwright.providers.file_servers import Target, built_lustres
from gridwright.spec.linked import LinkedDirectory, linked_directories
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import DirectoryLink, Schedule

# FSx for Lustre: the file system, and the buckets that it is linked with.
#
# A file system has the newest Lustre that all deployment types have, since only that has data repository
# associations and metadata configurations everywhere; it cannot be changed later.
#
# `CopyTagsToBackups` is left as it is by default, though tags on backups would help: changing it replaces the
# file system, and it goes with no bucket, which a file system may get any day.
#
# Root squash is no property of CloudFormation: `root_squash` sets it.

GIB = 2**30
LUSTRE_VERSION = "2.15"
"""Supported by all deployment types (CloudFormation, AWS::FSx::FileSystem, FileSystemTypeVersion)."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EVENTS = {"new": "NEW", "changed": "CHANGED", "deleted": "DELETED"}


def fsx_resources(
    spec: GridSpec, layout: AwsLayout, name: str, catalog: Catalog, *, deletable: bool, after: list[str]
) -> Iterator[AWSObject]:
    """The file system and its associations; `after`: logical IDs of what has to be there before it."""
    filesystem = fsx_file_systems(spec)[name]
    deployment = catalog.deployment(filesystem.deployment)
    key = layout.aws.kms_key if deployment.durable else None
    logical = logical_id(name)
    yield fsx.FileSystem(
        logical,
        FileSystemType="LUSTRE",
        FileSystemTypeVersion=LUSTRE_VERSION,
        StorageType="SSD",
        StorageCapacity=stored_gib(filesystem, deployment),
        SubnetIds=[subnet_of(layout, "storage")],
        SecurityGroupIds=[Ref(Group.FSX)],
        LustreConfiguration=_configuration(filesystem, deployment),
        Tags=Tags(tags(spec, role="fsx") | {"Name": f"{spec.name} {name}"}),
        **({"KmsKeyId": key} if key else {}),
        DependsOn=sorted(after),
        **deletion_policy(not deletable),
    )
    for repository, link in spec.links_of(name).items():
        yield _association(spec, name, repository, link)


def fsx_outputs(spec: GridSpec, name: str) -> Iterator[Output]:
    """What nodes mount: the name in DNS and the name of the mount."""
    logical = logical_id(name)
    yield exported(spec, fsx_export(name, "Id"), Ref(logical), f"File system {name}.")
    yield exported(
        spec, fsx_export(name, "Dns"), GetAtt(logical, "DNSName"), f"Where {name} is mounted from."
    )
    yield exported(
        spec,
        fsx_export(name, "Mount"),
        GetAtt(logical, "LustreMountName"),
        f"Under which name {name} is mounted.",
    )


def fsx_problems(spec: GridSpec, name: str, catalog: Catalog) -> Iterator[Problem]:
    """What AWS would refuse of one file system, each at its field."""
    filesystem = fsx_file_systems(spec)[name]
    path = ("filesystems", name)
    deployment = catalog.deployment(filesystem.deployment)
    for check in (
        lambda: deployment.check_capacity(filesystem.capacity),
        lambda: deployment.tier(bought_tier(filesystem, deployment)),
    ):
        try:
            check()
        except GridwrightError as error:
            for each in error.problems:
                yield problem_at(
                    spec, (*path, each.field or "type"), each.what, each.remedy or "choose another"
                )


def _configuration(filesystem: ManagedLustre, deployment: ManagedDeployment) -> fsx.LustreConfiguration:
    chosen: dict[str, object] = {}
    if deployment.durable:
        chosen["PerUnitStorageThroughput"] = round(bought_tier(filesystem, deployment) / MB)
        chosen["AutomaticBackupRetentionDays"] = filesystem.backup_days
    if filesystem.maintenance is not None:
        day, _, time = filesystem.maintenance.partition(":")
        chosen["WeeklyMaintenanceStartTime"] = f"{_DAYS.index(day) + 1}:{time}"
    if filesystem.deployment == "persistent-2" and filesystem.metadata != "none":
        chosen["MetadataConfiguration"] = (
            fsx.MetadataConfiguration(Mode="AUTOMATIC")
            if filesystem.metadata == "automatic"
            else fsx.MetadataConfiguration(Mode="USER_PROVISIONED", Iops=filesystem.metadata)
        )
    return fsx.LustreConfiguration(
        DeploymentType=filesystem.deployment.upper().replace("-", "_"),
        DataCompressionType=filesystem.compression.upper(),
        **chosen,
    )


def _association(
    spec: GridSpec, name: str, called: str, link: DirectoryLink
) -> fsx.DataRepositoryAssociation:
    """The link; ending it leaves files and objects as they are."""
    policies = {
        "AutoImportPolicy": (fsx.AutoImportPolicy, link.import_on),
        "AutoExportPolicy": (fsx.AutoExportPolicy, link.export_on),
    }
    automatic = {
        policy: kind(Events=[_EVENTS[each] for each in dict.fromkeys(events)])
        for policy, (kind, events) in policies.items()
        if events
    }
    return fsx.DataRepositoryAssociation(
        logical_id(name, "Repository", called),
        FileSystemId=Ref(logical_id(name)),
        FileSystemPath=link.directory,
        DataRepositoryPath=link.bucket,
        BatchImportMetaDataOnCreate=True,
        Tags=Tags(tags(spec, role="fsx")),
        **({"S3": fsx.S3(**automatic)} if automatic else {}),
    )


# The bucket that machines get the bundle from which they set themselves up.
#
# It holds nothing of the user's: `down` empties it, and it goes with the stack. A bundle that `up` deletes,
# since no machine starts from it any more, stays as an old version for some days: the way back from a bad
# update. Access to it is not logged: a log needs a second bucket, and CloudTrail can have these events.

SITE_BUCKET = "SiteBucket"
"""Its logical ID; CloudFormation names it, since names of buckets are taken by all accounts of the world."""
OLD_BUNDLE_DAYS = 30
"""For how long an old version of a bundle is kept, and a log of a machine that failed to set itself up."""


def site_bucket_resources(spec: GridSpec) -> Iterator[AWSObject]:
    """The bucket and its policy."""
    yield s3.Bucket(
        SITE_BUCKET,
        BucketEncryption=s3.BucketEncryption(
            ServerSideEncryptionConfiguration=[
                _encryption(aws.kms_key if (aws := spec.section(Aws)) else None)
            ]
        ),
        VersioningConfiguration=s3.VersioningConfiguration(Status="Enabled"),
        LifecycleConfiguration=s3.LifecycleConfiguration(
            Rules=[
                s3.LifecycleRule(
                    Id="old-bundles",
                    Status="Enabled",
                    NoncurrentVersionExpiration=s3.NoncurrentVersionExpiration(
                        NoncurrentDays=OLD_BUNDLE_DAYS
                    ),
                    AbortIncompleteMultipartUpload=s3.AbortIncompleteMultipartUpload(DaysAfterInitiation=1),
                ),
                s3.LifecycleRule(
                    Id="old-logs", Status="Enabled", Prefix=LOGS, ExpirationInDays=OLD_BUNDLE_DAYS
                ),
            ]
        ),
        OwnershipControls=s3.OwnershipControls(
            Rules=[s3.OwnershipControlsRule(ObjectOwnership="BucketOwnerEnforced")]
        ),
        PublicAccessBlockConfiguration=s3.PublicAccessBlockConfiguration(
            BlockPublicAcls=True, BlockPublicPolicy=True, IgnorePublicAcls=True, RestrictPublicBuckets=True
        ),
        Tags=Tags(tags(spec, role="bundle")),
        DeletionPolicy="Delete",
        UpdateReplacePolicy="Delete",
    )
    yield s3.BucketPolicy(
        f"{SITE_BUCKET}Policy",
        Bucket=Ref(SITE_BUCKET),
        PolicyDocument={
            "Version": "2012-10-17",
            "Statement": [
                _denied("OnlyOverTls", {"Bool": {"aws:SecureTransport": "false"}}),
                _denied("OnlyOverTls12", {"NumericLessThan": {"s3:TlsVersion": "1.2"}}),
            ],
        },
    )


def _encryption(key: str | None) -> s3.ServerSideEncryptionRule:
    if key is None:
        by_default = s3.ServerSideEncryptionByDefault(SSEAlgorithm="AES256")
        return s3.ServerSideEncryptionRule(ServerSideEncryptionByDefault=by_default)
    by_default = s3.ServerSideEncryptionByDefault(SSEAlgorithm="aws:kms", KMSMasterKeyID=key)
    return s3.ServerSideEncryptionRule(BucketKeyEnabled=True, ServerSideEncryptionByDefault=by_default)


def _denied(name: str, condition: dict[str, object]) -> dict[str, object]:
    return {
        "Sid": name,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [GetAtt(SITE_BUCKET, "Arn"), Sub(f"${{{SITE_BUCKET}.Arn}}/*")],
        "Condition": condition,
    }


GROUP, ROLE, ALARM = "RepositorySchedules", "RepositoryRole", "RepositoryTasks"
_TARGET = "arn:${AWS::Partition}:scheduler:::aws-sdk:fsx:createDataRepositoryTask"
_TRIES, _LONGEST_AGE_S, _SHORTEST_AGE_S = 185, 86_400, 60
"""Tries that a schedule may have, and seconds for them (EventBridge Scheduler API Reference, RetryPolicy)."""


def timed_directories(spec: GridSpec, names: list[str]) -> list[LinkedDirectory]:
    """Of the file systems of these names, what is exported or imported by time."""
    return [
        each
        for each in linked_directories(spec).values()
        if each.filesystem in names and (each.export.is_timed or each.names.is_timed)
    ]


def schedule_resources(spec: GridSpec, layout: AwsLayout, names: list[str]) -> Iterator[AWSObject]:
    """Group, role, schedules and alarm for file systems of these names; nothing where none has a time."""
    timed = timed_directories(spec, names)
    if not timed:
        return
    yield scheduler.ScheduleGroup(GROUP, Tags=Tags(tags(spec, role="repository")))
    yield _role(spec, layout, list(dict.fromkeys(each.filesystem for each in timed)))
    for each in timed:
        if each.export.is_timed:
            yield _schedule(spec, each, "Export", each.export)
        if each.names.is_timed:
            yield _schedule(spec, each, "Import", each.names)
    yield schedule_alarm(spec, ALARM, GROUP)


def rate_of(schedule: Schedule) -> str:
    """How often, in the words of EventBridge: whole minutes, rounded down, so that no time is missed."""
    minutes = max(1, int((schedule.period_s or 0) // 60))
    for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes % length == 0:
            count = minutes // length
            return f"rate({count} {unit}{'' if count == 1 else 's'})"
    raise AssertionError(minutes)


def _schedule(spec: GridSpec, directory: LinkedDirectory, what: str, often: Schedule) -> scheduler.Schedule:
    build = export_request if what == "Export" else import_request
    # What names an invocation is its token: a request that AWS itself repeats starts no second task.
    request = build(directory, (), identity="<aws.scheduler.execution-id>")
    return scheduler.Schedule(
        logical_id(directory.filesystem, what, directory.name),
        Description=f"{what} of repository {directory.name} of grid {spec.name}",
        GroupName=Ref(GROUP),
        ScheduleExpression=rate_of(often),
        FlexibleTimeWindow=scheduler.FlexibleTimeWindow(Mode="OFF"),
        Target=scheduler.Target(
            Arn=Sub(_TARGET),
            RoleArn=GetAtt(ROLE, "Arn"),
            Input=_input(request, logical_id(directory.filesystem)),
            RetryPolicy=scheduler.RetryPolicy(
                MaximumRetryAttempts=_TRIES,
                MaximumEventAgeInSeconds=min(_LONGEST_AGE_S, max(_SHORTEST_AGE_S, int(often.period_s or 0))),
            ),
        ),
    )


def _input(request: dict[str, Any], filesystem: str) -> Sub:
    """The request as text; `$` of names is no variable of Fn::Sub."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False).replace("${", "${!")
    return Sub(text.replace('{"', '{"FileSystemId": "${FileSystem}", "', 1), FileSystem=Ref(filesystem))


def _role(spec: GridSpec, layout: AwsLayout, filesystems: list[str]) -> iam.Role:
    """What the schedules may do: start tasks of the grid's linked file systems, and nothing else.

    Only for schedules of this group (EventBridge Scheduler User Guide, confused deputy prevention).
    """
    boundary = layout.aws.permissions_boundary
    of_account = "arn:${AWS::Partition}:fsx:${AWS::Region}:${AWS::AccountId}"
    return iam.Role(
        ROLE,
        Description=f"Starts data repository tasks of grid {spec.name} by time",
        AssumeRolePolicyDocument=_document(
            {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "StringEquals": {
                        "aws:SourceAccount": Ref("AWS::AccountId"),
                        "aws:SourceArn": GetAtt(GROUP, "Arn"),
                    }
                },
            }
        ),
        Policies=[
            iam.Policy(
                PolicyName="gridwright",
                PolicyDocument=_document(
                    {
                        "Sid": "Tasks",
                        "Effect": "Allow",
                        "Action": ["fsx:CreateDataRepositoryTask"],
                        "Resource": [
                            *(GetAtt(logical_id(each), "ResourceARN") for each in filesystems),
                            Sub(f"{of_account}:task/*"),
                        ],
                    }
                ),
            )
        ],
        Tags=Tags(**tags(spec, role="repository")),
        **({"PermissionsBoundary": boundary} if boundary else {}),
    )


def _document(statement: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement]}


def interface_id(machine: Machine) -> str:
    """Logical ID of the interface with a machine's fixed address."""
    return logical_id(machine.name, "Interface")


def lustre_resources(
    spec: GridSpec, layout: AwsLayout, filesystem: str, *, deletable: bool
) -> Iterator[AWSObject]:
    """Interfaces and volumes of all servers of one Lustre."""
    for machine in layout.servers_of(filesystem):
        yield _interface(spec, layout, machine)
        for target in machine.targets:
            yield _volume(spec, layout, machine, target, deletable=deletable)


def volume_problems(
    spec: GridSpec, layout: AwsLayout, filesystem: str, catalog: Catalog
) -> Iterator[Problem]:
    """What the catalogue refuses of the volumes of one Lustre, once for each role of its servers."""
    seen: set[str] = set()
    for machine in layout.servers_of(filesystem):
        for target in machine.targets[: machine.role not in seen]:
            seen.add(machine.role)
            path = ("filesystems", filesystem, str(machine.role), "disks")
            yield from disk_problems(spec, path, target.disks, catalog)


def _interface(spec: GridSpec, layout: AwsLayout, machine: Machine) -> ec2.NetworkInterface:
    return ec2.NetworkInterface(
        interface_id(machine),
        Description=f"Fixed address of {machine.name}, whichever instance it is",
        SubnetId=subnet_of(layout, machine.subnet),
        PrivateIpAddress=str(machine.address),
        GroupSet=[Ref(Group.STORAGE), *groups_of_site(layout, machine)],
        Tags=Tags(
            tags(spec, role=machine.role) | {SLOT_TAG: machine.name, "Name": f"{spec.name} {machine.name}"}
        ),
    )


def _volume(
    spec: GridSpec, layout: AwsLayout, machine: Machine, target: Target, *, deletable: bool
) -> ec2.Volume:
    marks = {SLOT_TAG: machine.name, TARGET_TAG: target.name, "Name": f"{spec.name} {target.name}"}
    return data_volume(
        layout,
        logical_id(machine.name, target.name),
        target.disks,
        tags(spec, role=machine.role) | marks,
        deletable=deletable,
    )


# The zone is the spec's, and never changes: it is no parameter that could be turned.
_METADATA = {"cfn-lint": {"config": {"ignore_checks": ["W3010"]}}}


def storage_template(
    spec: GridSpec,
    layout: AwsLayout,
    *,
    deletable: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Template:
    """The template of the storage stack.

    `deletable`: file systems that are deleted, with all their data, when they leave the stack; `without`:
    file systems that are left out. Raises GridwrightError (INPUT) with all that AWS would refuse.
    """
    catalog = load_catalog(spec.file.parent if spec.file else None)
    fsx = [name for name in fsx_file_systems(spec) if name not in without]
    lustres = [name for name in built_lustres(spec) if name not in without]
    paired = [name for name in paired_servers(spec) if name not in without]
    problems = [*_problems(spec, layout, catalog, fsx, lustres)]
    problems += [each for name in paired for each in pair_volume_problems(spec, name, catalog)]
    if problems:
        raise GridwrightError(*problems)
    resources = [*_resources(spec, layout, catalog, fsx, lustres, deletable)]
    outputs = [*_outputs(spec, layout, fsx)]
    for name in paired:
        resources += pair_volume_resources(spec, layout, name, deletable=name in deletable)
        outputs += pair_volume_outputs(spec, layout, name)
    where = str(spec.file) if spec.file else None
    if twice := [*_same_names(resources, where)]:
        raise GridwrightError(*twice)
    if beyond := [*count_problems(len(resources), len(outputs), where)]:
        raise GridwrightError(*beyond)
    template = Template(f"Grid {spec.name}: network, file systems, and all else that outlives its machines")
    template.set_metadata(_METADATA)
    template.add_resource(resources)
    template.add_output(outputs)
    if beyond := [*template_problems(template, where)]:
        raise GridwrightError(*beyond)
    return template


def _resources(
    spec: GridSpec,
    layout: AwsLayout,
    catalog: Catalog,
    fsx: list[str],
    lustres: list[str],
    deletable: frozenset[str],
) -> Iterator[AWSObject]:
    yield from network_resources(spec, layout)
    yield from security_groups(spec, layout, [*fsx, *lustres])
    yield from site_bucket_resources(spec)
    yield claims_table_resource(spec, holds_data=any(name not in deletable for name in lustres))
    for name in lustres:
        yield from lustre_resources(spec, layout, name, deletable=name in deletable)
    # FSx looks at its rules when it is made, and takes any address that is free.
    first = [each.logical_id for each in rules(spec, layout, fsx=bool(fsx)) if each.group is Group.FSX]
    first += [interface_id(machine) for name in lustres for machine in layout.servers_of(name)]
    for name in fsx:
        yield from fsx_resources(spec, layout, name, catalog, deletable=name in deletable, after=first)
        yield from fsx_alarms(spec, name, catalog)
    yield from schedule_resources(spec, layout, fsx)


def _same_names(resources: list[AWSObject], where: str | None) -> Iterator[Problem]:
    """Names of a spec that make two resources one: of file systems, servers or repositories."""
    for title, count in Counter(each.title for each in resources).items():
        if count > 1:
            yield Problem(
                f"{count} parts of the storage stack would be called {title}: a file system or a repository "
                "has a name that another part has",
                where=where,
                field="filesystems",
                remedy="give the file system or the repository another name",
            )


def _outputs(spec: GridSpec, layout: AwsLayout, fsx: list[str]) -> Iterator[Output]:
    yield from network_outputs(spec, layout)
    yield from group_outputs(spec)
    yield exported(
        spec, Export.CLAIMS_TABLE_ARN, GetAtt(CLAIMS_TABLE, "Arn"), "Which instance is which machine."
    )
    yield exported(
        spec, Export.SITE_BUCKET, Ref(SITE_BUCKET), "Bucket of the bundles that machines start from."
    )
    for name in fsx:
        yield from fsx_outputs(spec, name)


def _problems(
    spec: GridSpec, layout: AwsLayout, catalog: Catalog, fsx: list[str], lustres: list[str]
) -> Iterator[Problem]:
    for name in fsx:
        yield from fsx_problems(spec, name, catalog)
    for name in lustres:
        yield from volume_problems(spec, layout, name, catalog)


# Changes of the storage stack, which `up` and `down` make alike.


def propose_storage(
    stacks: Stacks, storage: Stack, template: Mapping[str, Any], spec: GridSpec
) -> ChangeSet | None:
    """What a template would change of the stack; None where nothing."""
    bucket = None
    if len(text_of(template)) > LONGEST_BODY:
        bucket = stacks.resources(storage)[SITE_BUCKET]
    body = body_of(stacks.cloud, bucket, template)
    return stacks.propose(storage, body, parameters={}, tags=tags(spec))


def update_storage(stacks: Stacks, storage: Stack, template: Mapping[str, Any], spec: GridSpec) -> Stack:
    """Change the stack, and wait for it."""
    proposed = propose_storage(stacks, storage, template, spec)
    return storage if proposed is None else stacks.execute(proposed)
