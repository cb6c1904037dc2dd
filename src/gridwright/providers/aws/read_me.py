"""README.md of a rendered grid on AWS: what the files are, and how the AWS CLI alone deploys them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.aws.fsx import fsx_file_systems
from gridwright.providers.aws.health_page import has_health_page
from gridwright.providers.aws.layout import AwsLayout, Role, built_lustres
from gridwright.providers.aws.names import GRID_TAG, grid_stack, logical_id, storage_stack
from gridwright.providers.aws.node_interfaces import NestedTemplate
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.spec.model import GridSpec

_CONTENTS = {
    "storage.template.yaml": "the storage stack: network, file systems, volumes, bucket; it stays",
    "grid.template.yaml": "the grid stack: machines, NAT gateway, roles; most of the bill",
    "bundle.tar.gz": "what machines set themselves up from: the files below, in one archive",
    "bundle.key": "the name of the bundle in the site bucket, with its SHA-256",
    "costs.json": "the bill by line",
    "site.yml, roles/, group_vars/": "the playbook that every machine runs on itself",
    "inventory.yml": "all machines with their addresses",
    "slurm/": "the configuration of Slurm",
    "claims/": "which machines an instance can become, and the program by which it does",
    "tuning.yaml": "every setting, with its reason",
}


def aws_read_me(
    spec: GridSpec,
    layout: AwsLayout,
    costs: Mapping[str, Any],
    contents: tuple[str, ...],
    scheduler: SchedulerSetup,
    nested: tuple[NestedTemplate, ...] = (),
) -> str:
    """The text, in Markdown.

    `contents` are the names of files and directories that there are, `nested` those templates among them that
    the grid stack reads from the site bucket.
    """
    lines = [
        f"# Grid {spec.name} on AWS",
        "",
        *_paragraph(
            "Written by `gridwright render` from its grid spec. The same spec gives the same files; a file "
            "that was edited here is not written over, unless `--overwrite` says so. `gridwright up` deploys "
            "the same templates and bundle, and `gridwright down` takes them away again; without Gridwright, "
            "the commands below do, with the AWS CLI, version 2. There is no secret in these files."
        ),
        "| file | is |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in _CONTENTS.items() if _is_there(name, contents)),
        *(f"| `{each.file}` | part of the grid stack: interfaces of nodes |" for each in nested),
        "",
        *_before(spec, layout),
        *_deploy(spec, nested),
        *_expect(spec, layout),
        *_by_hand(scheduler),
        *_update(),
        *_take_down(spec),
        *_bill(costs),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _is_there(name: str, contents: tuple[str, ...]) -> bool:
    return name.partition(",")[0].rstrip("/") in {each.partition("/")[0] for each in contents}


def _paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False), ""]


def _before(spec: GridSpec, layout: AwsLayout) -> Iterator[str]:
    aws = layout.aws
    yield from ["## Before the first time", ""]
    yield from _paragraph(
        f"- Quotas of the account in {spec.region}: vCPUs of the machines' families, volumes, and storage of "
        "FSx for Lustre where the grid has one. Machines of one placement group start only where their zone, "
        f"{aws.zone}, has room for all of them."
    )
    if aws.kms_key is not None:
        yield from _paragraph(
            "- The KMS key's policy has to let the role of EC2 Auto Scaling, AWSServiceRoleForAutoScaling, "
            "use it: machines that are replaced cannot start with an encrypted volume otherwise (EC2 Auto "
            "Scaling User Guide, required KMS key policy for encrypted volumes)."
        )
    if built_lustres(spec) and aws.images.storage is None:
        yield from _paragraph(
            "- **aws.images.storage is missing in the grid spec**: Lustre servers start with Ubuntu then, "
            "whose kernel has no server of Lustre, and they will not set themselves up."
        )
    if aws.proxy is not None:
        yield from _paragraph(
            "- The way to the proxy: the network has no way out of its own. Attach the site's peering, "
            "transit gateway or VPN, and add its routes, between the two stacks."
        )


def _deploy(spec: GridSpec, nested: tuple[NestedTemplate, ...]) -> list[str]:
    storage, grid = storage_stack(spec), grid_stack(spec)
    tagged = f"--tags {GRID_TAG}={spec.name}"
    region = f"--region {spec.region}"
    return [
        "## Deploying it",
        "",
        *_paragraph(
            "In this directory. A template of more than 51,200 bytes is handed over in a bucket: the grid's "
            "own for the grid stack; for a storage stack that is larger, name one of yours with "
            "`--s3-bucket NAME`."
        ),
        "```sh",
        "# 1. What outlives machines",
        f"aws cloudformation deploy {region} --stack-name {storage} \\",
        f"  --template-file storage.template.yaml {tagged}",
        f"aws cloudformation update-termination-protection {region} --stack-name {storage} \\",
        "  --enable-termination-protection",
        *_root_squash(spec, f"{region} --stack-name {storage}"),
        "",
        "# 2. The bundle, under the name that has its digest",
        f"BUCKET=$(aws cloudformation describe-stack-resource {region} --stack-name {storage} \\",
        "  --logical-resource-id SiteBucket --query StackResourceDetail.PhysicalResourceId --output text)",
        f'aws s3 cp {region} bundle.tar.gz "s3://$BUCKET/$(cat bundle.key)"',
        *(f'aws s3 cp {region} {each.file} "s3://$BUCKET/{each.key}"' for each in nested),
        "",
        "# 3. What runs",
        f"aws cloudformation deploy {region} --stack-name {grid} \\",
        '  --template-file grid.template.yaml --s3-bucket "$BUCKET" --s3-prefix templates \\',
        f'  --parameter-overrides "BundleKey=$(cat bundle.key)" --capabilities CAPABILITY_IAM {tagged}',
        "```",
        "",
    ]


def _root_squash(spec: GridSpec, stack: str) -> Iterator[str]:
    """CloudFormation has no property for it."""
    for name, filesystem in fsx_file_systems(spec).items():
        if filesystem.root_squash is not None:
            yield f"# Root squash of {name}, which a template cannot set"
            yield f"FSX=$(aws cloudformation describe-stack-resource {stack} \\"
            yield (
                f"  --logical-resource-id {logical_id(name)} --query StackResourceDetail.PhysicalResourceId "
                "--output text)"
            )
            yield f'aws fsx update-file-system --region {spec.region} --file-system-id "$FSX" \\'
            wanted = json.dumps({"RootSquashConfiguration": {"RootSquash": filesystem.root_squash}})
            yield f"  --lustre-configuration '{wanted}'"


def _expect(spec: GridSpec, layout: AwsLayout) -> Iterator[str]:
    yield from ["## What to expect", ""]
    if fsx_file_systems(spec):
        yield from _paragraph("- The storage stack takes some ten minutes, as FSx for Lustre does.")
    else:
        yield from _paragraph("- The storage stack takes a few minutes.")
    yield from _paragraph(
        f"- The grid stack is done when each of its {len(layout.machines)} machines has told that it is set "
        "up. The first one that fails ends it, with the reason in the stack's events; the whole story is in "
        "/var/log/gridwright-boot.log of the machine, which you reach by Session Manager. Add "
        "`--disable-rollback` to keep failed machines for a look."
    )
    if layout.aws.proxy is None:
        yield from _paragraph(
            "- Output LoginPublicAddress of the grid stack is where users log in by ssh, from "
            f"{', '.join(layout.aws.ssh_from)} alone. Without aws.key nobody has a key there yet: "
            "`aws ssm start-session --target INSTANCE` lets administrators in."
        )
    names = {str(role): [each.name for each in layout.of_role(role)] for role in Role}
    yield from ["| machines | names |", "|---|---|"]
    yield from (f"| {role} | {_short(found)} |" for role, found in names.items() if found)
    yield ""
    if has_health_page(layout):
        yield from _paragraph(
            "- The page of Lustre's health: point a name that your certificate is for at the address in "
            "output HealthPageAddress, within the network."
        )


def _by_hand(setup: SchedulerSetup) -> Iterator[str]:
    """The steps that the playbook leaves to administrators."""
    for step in setup.steps:
        if step.beside_playbook is not None:
            yield from [f"## {step.title}", ""]
            yield from _paragraph("As root on the controller, in a copy of this directory:")
            yield from ["```sh", step.beside_playbook, *step.commands, "```", ""]


def _short(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} ... {names[-1]}"


def _update() -> list[str]:
    return [
        "## Changing it",
        "",
        *_paragraph(
            "Render again, put the new bundle into the bucket, and deploy both stacks again. Nodes and "
            "servers are replaced one at a time then, each when the one before is set up, and jobs on a "
            "replaced node end; login and head node stop and start, and keep their disks. Look at the change "
            "set first (`aws cloudformation deploy --no-execute-changeset`): whatever it would replace in "
            "the storage stack loses its data. `gridwright up` refuses that. Another image, key pair or KMS "
            "key of the login or head node is a new machine with an old address: delete the grid stack first."
        ),
    ]


def _take_down(spec: GridSpec) -> list[str]:
    storage, grid, region = storage_stack(spec), grid_stack(spec), f"--region {spec.region}"
    return [
        "## Taking it away",
        "",
        "```sh",
        "# Machines, and most of the bill; file systems stay",
        f"aws cloudformation delete-stack {region} --stack-name {grid}",
        f"aws cloudformation wait stack-delete-complete {region} --stack-name {grid}",
        "```",
        "",
        *_paragraph(
            "The storage stack is protected, and what holds data stays when the stack goes: it costs on "
            "until you delete it by hand. `gridwright down --delete-data NAME` does that, and proves that "
            "nothing is left."
        ),
        "```sh",
        f"aws cloudformation update-termination-protection {region} --stack-name {storage} \\",
        "  --no-enable-termination-protection",
        "# First all versions of what is in the site bucket: empty it in the console",
        f"aws cloudformation delete-stack {region} --stack-name {storage}",
        "# What is left of it",
        f"aws resourcegroupstaggingapi get-resources {region} \\",
        f"  --tag-filters Key={GRID_TAG},Values={spec.name}",
        "```",
        "",
    ]


def _bill(costs: Mapping[str, Any]) -> Iterator[str]:
    yield from ["## What it costs", "", "| what | USD per hour |", "|---|---:|"]
    yield from (f"| {each['what']} | {_usd(each['usd_per_hour'])} |" for each in costs["lines"])
    yield f"| **all** | **{_usd(costs['usd_per_hour'])}** |"
    yield ""
    month = costs["usd_per_month"]
    total = "" if month is None else f" A month of 730 hours is {month:,.2f} USD."
    as_of = f" of {costs['prices_as_of']}" if costs["prices_as_of"] else ""
    yield from _paragraph(
        f"On demand, in {costs['region']}, by list prices{as_of}.{total} Traffic, requests, logs and what "
        "buckets hold come on top. `gridwright catalog show` says where each price is from."
    )


def _usd(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4f}"
