"""Volumes of servers of file systems, as the storage stack has them: encrypted, and kept when it goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from troposphere import Tags, ec2

from gridwright.catalog.contents import Catalog
from gridwright.errors import GridwrightError, Problem
from gridwright.providers.aws.layout import DEFAULT_VOLUME, AwsLayout
from gridwright.providers.aws.retention import deletion_policy
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import Disks

GIB = 2**30
MIB = 2**20


def data_volume(
    layout: AwsLayout,
    logical: str,
    disks: Disks,
    marks: Mapping[str, str],
    *,
    deletable: bool,
    shared: bool = False,
) -> ec2.Volume:
    """One volume, by the logical ID and the tags that it has; `shared` lets two machines attach it."""
    chosen: dict[str, object] = {}
    if disks.iops is not None:
        chosen["Iops"] = disks.iops
    if disks.throughput is not None:
        # AWS counts in whole MiB/s: never less than what the spec asks for.
        chosen["Throughput"] = math.ceil(disks.throughput.bytes_per_s / MIB)
    if layout.aws.kms_key is not None:
        chosen["KmsKeyId"] = layout.aws.kms_key
    if shared:
        chosen["MultiAttachEnabled"] = True
    return ec2.Volume(
        logical,
        AvailabilityZone=layout.aws.zone,
        Size=math.ceil((disks.size or DEFAULT_VOLUME) / GIB),
        VolumeType=disks.type,
        Encrypted=True,
        Tags=Tags(dict(marks)),
        **chosen,
        **deletion_policy(not deletable),
    )


def disk_problems(spec: GridSpec, path: tuple[str, ...], disks: Disks, catalog: Catalog) -> Iterator[Problem]:
    """What the catalogue refuses of volumes; `path` is that of `disks` in the spec."""
    rate = disks.throughput.bytes_per_s if disks.throughput else None
    try:
        catalog.volume(disks.type, "aws").check(disks.size or DEFAULT_VOLUME, disks.iops, rate)
    except GridwrightError as error:
        for problem in error.problems:
            place = (*path, problem.field) if problem.field else (*path, "type")
            yield problem_at(spec, place, problem.what, problem.remedy or "choose another volume")
