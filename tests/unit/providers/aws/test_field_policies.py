"""The update policy of every field, held against what CloudFormation would do to a grid that is up."""

from __future__ import annotations

import re

import pytest

from gridwright.providers.aws import changes
from gridwright.providers.aws.changes import field_changes
from gridwright.spec import parse_spec
from gridwright.spec.fields import Change, Update
from gridwright.spec.structure import FieldPlace, all_fields
from tests.support.aws_field_changes import CHANGES, FieldChange
from tests.support.aws_updates import deployed, effects

MACHINES = {"AWS::EC2::Instance", "AWS::AutoScaling::AutoScalingGroup"}
SCALE = "gridwright.filesystems.scale.fields"
ELSEWHERE = {
    "gridwright.providers.azure.provider": "of another provider",
    "gridwright.providers.google.provider": "of another provider",
    "gridwright.providers.lab.layout": "of another provider",
    "gridwright.providers.oci.provider": "of another provider",
    "gridwright.providers.oci.section": "of another provider",
    "gridwright.filesystems.managed.kind": "of a service that grids on AWS mount as nfs or lustre",
    "gridwright.filesystems.moosefs.kind": "of labs",
    "gridwright.filesystems.oci_file_storage.kind": "of another provider",
    "gridwright.filesystems.oci_lustre.model": "of another provider",
    **dict.fromkeys(
        (f"{SCALE}.{name}" for name in ("PagePool", "CallHome", "RemoteCluster")),
        "of Scale's own configuration, which bundles have",
    ),
    "gridwright.filesystems.scale.model": "of Scale's own configuration, but for nsd, which is changed here",
    **dict.fromkeys(
        (f"{SCALE}.{name}" for name in ("CesNfs", "CesExport", "ServerPair", "Witness")),
        "of a site's own servers",
    ),
    **dict.fromkeys((f"{SCALE}.{name}" for name in ("StoragePool", "PoolMigration")), "not made on AWS"),
    "gridwright.schedulers.grid_engine.commands": "nothing sets it up on AWS, and check says so",
    "gridwright.schedulers.local.runner": "of one machine",
    "gridwright.schedulers.lsf.kind": "nothing sets it up on AWS, and check says so",
    "gridwright.schedulers.ssh.kind": "of a site's own nodes",
    **dict.fromkeys(
        (
            f"gridwright.filesystems.service_model.{name}"
            for name in ("JointBudget", "ServiceBurst", "ClientLimits", "MetadataLimits", "ServiceLimits")
        ),
        "only predictions read it, and no template has it",
    ),
    "gridwright.spec.model": "only reports print it",
    "gridwright.spec.site_setup": "files of the site; test_bundle.py",
    "gridwright.spec.users": "but for its secret only bundles have it; test_bundle.py",
    "gridwright.spec.requirements": "only plans and proofs read it, and no template has it",
}
"""Modules and classes of fields that no template of a grid on AWS is made from, and why."""
NOT_THERE = (
    "filesystems.<name>.pools.",
    *("lab", "azure", "google", "oci", "site."),
)
"""Beginnings of paths of fields that are the same elsewhere."""
OTHER_GRIDS = {"name", "provider", "region", "type", "hosts", "silence"}
"""Fields that make another grid of it, or none on AWS; what is silenced is read by checks alone."""
NEVER_CHANGED = {
    "filesystems.<name>.mgs.count",
    "filesystems.<name>.mgs.disks.count",
    "repositories.<name>.overwrite",
    "filesystems.<name>.nsd.disks.throughput",
    *(f"filesystems.<name>.disks.{field}" for field in ("count", "size", "iops", "throughput")),
}
"""A Lustre has one management server and target; disks in nodes are those of the instance type; volumes that
two servers share are io2, whose throughput nobody sets; jobs that may overwrite are those of links on OCI."""
SERVERS = ("oss", "mds", "mgs")
SAID_WORSE = {
    "nodes.compute.count": "nodes that stay are not touched",
    "machines.meta": "machines are added, and others are not touched",
    "aws.vpc.networks": "in place, unless machines are behind a proxy",
    "aws.vpc.security_groups": "in place on login and head node",
    "state": "in place; jobs that wait are lost",
    "filesystems.shared.path": "in place; data stay where they are",
    "filesystems.shared.format": "the scratch program makes its array anew",
    "filesystems.shared.chunk": "the scratch program makes its array anew",
    "filesystems.shared.offer": "the site's own service, which the spec only describes",
    "filesystems.shared.oss.count": "servers and targets are added, and data are on the old ones",
    "filesystems.shared.mds.count": "servers and targets are added, and data are on the old ones",
    "filesystems.shared.nsd.instance": "a server stops when it is named alone: up --replace",
    "filesystems.shared.nsd.count": "pairs are added, and data are on the others",
    "filesystems.shared.nsd.disks.count": "volumes are added to each pair; data are spread by hand",
    "filesystems.shared.replicas": "Scale copies files itself",
    "filesystems.shared.pagepool": "daemons start again, and not their machines",
    "libraries.data.filesystem": "in place; data stay where they are",
    "filesystems.shared.mds.disks.count": "targets are added to the last server",
    **{f"filesystems.shared.{role}.disks": "EBS changes the type of a volume in place" for role in SERVERS},
}
"""Fields whose policy is harder than what CloudFormation does, and what it stands for."""


def fields_on_aws() -> list[FieldPlace]:
    return [
        place
        for place in all_fields()
        if not ELSEWHERE.keys() & {place.owner.__module__, f"{place.owner.__module__}.{place.owner.__name__}"}
        and not place.path.startswith(NOT_THERE)
        and place.name not in OTHER_GRIDS
    ]


def policy(change: FieldChange) -> Change:
    """What `up` says of the change: the hardest of the fields that differ."""
    before, after = (changes.values(parse_spec(text)) for text in (change.before, change.after))
    found: list[Update] = [each.update for each in field_changes(before, after)]
    assert found, "the change is none"
    return max((each.change for each in found), key=list(Change).index)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_field_does_no_more_than_its_policy_says(change: FieldChange) -> None:
    old, new = deployed(change.before), deployed(change.after)
    before, after = ({**each.storage["Resources"], **each.grid["Resources"]} for each in (old, new))
    gone = before.keys() - after.keys()
    touched = effects(change.before, change.after).keys() | gone
    machines = {name for name in touched if before[name]["Type"] in MACHINES}
    data = touched & old.held.keys()
    said = policy(change)
    assert not data or said in (Change.REBUILD, Change.NEVER)
    assert not machines or said not in (Change.LIVE, Change.REMOUNT)
    if said in (Change.ROLLING, Change.REBUILD):
        assert touched or change.path in SAID_WORSE


def test_every_field_is_changed() -> None:
    """A field that came since is missing here: add a change of it to tests/support/aws_field_changes.py."""
    every = {_placeholders(place.path) for place in all_fields()}
    sections = {path for path in every if any(other.startswith(f"{path}.") for other in every)}
    wanted = {_placeholders(place.path) for place in fields_on_aws()}
    assert wanted - sections - {_placeholders(path) for path in _paths()} == NEVER_CHANGED


def _placeholders(path: str) -> str:
    return re.sub(
        r"^(nodes|machines|filesystems|libraries|repositories|scheduler\.queues)\.(?:\w+|<\w+>)\.",
        r"\1.<name>.",
        path,
    )


def _paths() -> set[str]:
    """Paths of what differs, below the sections that a change sets whole."""
    found = set()
    for change in CHANGES:
        before, after = (changes.values(parse_spec(text)) for text in (change.before, change.after))
        found |= {".".join(each.path) for each in field_changes(before, after)} | {change.path}
    return found
