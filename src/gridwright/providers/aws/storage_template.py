"""The storage stack: all of a grid that outlives its machines.

Network, security groups, FSx for Lustre, volumes of servers, addresses of those of Lustre, the table of
claims, the bucket of bundles. Nothing in it is billed by the hour but file systems and volumes; an alarm
costs cents a month. What holds the user's data stays when it leaves the stack.

A template of many volumes is larger than what CloudFormation takes inline, and the bucket that it could be
read from is one of its own resources: `without` all file systems it is small, and makes the bucket first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from troposphere import AWSObject, GetAtt, Output, Ref, Template

from gridwright.catalog.contents import Catalog
from gridwright.catalog.load import load_catalog
from gridwright.errors import GridwrightError, Problem
from gridwright.providers.aws.alarms import fsx_alarms
from gridwright.providers.aws.claims_table import CLAIMS_TABLE, claims_table_resource
from gridwright.providers.aws.disk_pairs import paired_servers
from gridwright.providers.aws.exports import exported
from gridwright.providers.aws.fsx import fsx_outputs, fsx_problems, fsx_resources
from gridwright.providers.aws.layout import AwsLayout, fsx_file_systems
from gridwright.providers.aws.lustre_volumes import interface_id, lustre_resources, volume_problems
from gridwright.providers.aws.names import Export
from gridwright.providers.aws.network import network_outputs, network_resources
from gridwright.providers.aws.pair_volumes import (
    pair_volume_outputs,
    pair_volume_problems,
    pair_volume_resources,
)
from gridwright.providers.aws.repository_schedules import schedule_resources
from gridwright.providers.aws.security_groups import (
    Group,
    group_outputs,
    rules,
    security_groups,
)
from gridwright.providers.aws.site_bucket import SITE_BUCKET, site_bucket_resources
from gridwright.providers.aws.template_limits import count_problems, template_problems
from gridwright.providers.lustre_servers import built_lustres
from gridwright.spec.model import GridSpec

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
