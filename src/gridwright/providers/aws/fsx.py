"""FSx for Lustre: the file system, and the buckets that it is linked with.

A file system has the newest Lustre that all deployment types have, since only that has data repository
associations and metadata configurations everywhere; it cannot be changed later.

`CopyTagsToBackups` is left as it is by default, though tags on backups would help: changing it replaces the
file system, and it goes with no bucket, which a file system may get any day.

Root squash is no property of CloudFormation: `root_squash` sets it.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import AWSObject, GetAtt, Output, Ref, Tags, fsx

from gridwright.catalog.contents import Catalog
from gridwright.catalog.managed import MB, ManagedDeployment
from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems.provided import ManagedLustre
from gridwright.providers.aws.exports import exported
from gridwright.providers.aws.layout import AwsLayout, fsx_file_systems
from gridwright.providers.aws.names import fsx_export, logical_id, tags
from gridwright.providers.aws.network import subnet_of
from gridwright.providers.aws.retention import deletion_policy
from gridwright.providers.aws.security_groups import Group
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import DirectoryLink

GIB = 2**30
LUSTRE_VERSION = "2.15"
"""Supported by all deployment types (CloudFormation, AWS::FSx::FileSystem, FileSystemTypeVersion)."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EVENTS = {"new": "NEW", "changed": "CHANGED", "deleted": "DELETED"}


def stored_gib(filesystem: ManagedLustre, deployment: ManagedDeployment) -> int:
    """Capacity as AWS counts it; 2.4 TiB of its web pages is 2400."""
    return deployment.nearest_capacities(filesystem.capacity)[1] // GIB


def bought_tier(filesystem: ManagedLustre, deployment: ManagedDeployment) -> float:
    """Bytes per second for each TiB."""
    return float(filesystem.throughput or min(deployment.tiers))


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
