"""README.md of a rendered grid on AWS: what the files are, and how the AWS CLI alone deploys them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.aws.console_layout import console_machine, secret_name
from gridwright.providers.aws.kept_images import named_images
from gridwright.providers.aws.layout import AwsLayout, Role, fsx_file_systems
from gridwright.providers.aws.names import GRID_TAG, claims_table, grid_stack, logical_id, storage_stack
from gridwright.providers.aws.node_interfaces import NestedTemplate
from gridwright.providers.aws.root_squash import OFF, wanted_root_squash
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.read_me import markdown
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.spec.model import GridSpec

_CONTENTS = {
    "storage.template.yaml": "the storage stack: network, file systems, volumes, bucket; it stays",
    "grid.template.yaml": "the grid stack: machines, NAT gateway, roles; most of the bill",
    "bundle-nodes.tar.gz": "what login, head and nodes set themselves up from: the files below",
    "bundle-nodes.key": "the name of this bundle in the site bucket, with its SHA-256",
    "bundle-servers.tar.gz": "what servers of Lustre set themselves up from",
    "bundle-servers.key": "the name of this bundle in the site bucket, with its SHA-256",
    "costs.json": "the bill by line",
    "operator/": "IAM policies of who deploys this grid, looks at it and takes it away",
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
    aws = layout.aws
    roles = {str(role): [each.name for each in layout.of_role(role)] for role in Role}
    return markdown(
        "gridwright.providers.aws",
        "README.md.j2",
        spec=spec,
        aws=aws,
        contents=[(name, text) for name, text in _CONTENTS.items() if _is_there(name, contents)],
        nested=nested,
        images=named_images(spec, layout),
        costs=costs,
        storage=storage_stack(spec),
        grid=grid_stack(spec),
        claims=claims_table(spec),
        parts=[part for part in ("nodes", "servers") if f"bundle-{part}.key" in contents],
        region=f"--region {spec.region}",
        tag=GRID_TAG,
        tagged=f"--tags {GRID_TAG}={spec.name}",
        squashed=list(_root_squash(spec)),
        has_fsx=bool(fsx_file_systems(spec)),
        lacks_lustre_image=bool(built_lustres(spec)) and aws.images.storage is None,
        machines=len(layout.machines),
        roles=[(role, _short(names)) for role, names in roles.items() if names],
        console=console_machine(layout),
        token=secret_name(spec),
        steps=[step for step in scheduler.steps if step.beside_playbook is not None],
    )


def _is_there(name: str, contents: tuple[str, ...]) -> bool:
    return name.partition(",")[0].rstrip("/") in {each.partition("/")[0] for each in contents}


def _root_squash(spec: GridSpec) -> Iterator[dict[str, str]]:
    """What of root squash is set by hand: CloudFormation has no property for it."""
    for name, wanted in wanted_root_squash(spec).items():
        if wanted["RootSquash"] != OFF:
            text = json.dumps({"RootSquashConfiguration": wanted})
            yield {"name": name, "resource": logical_id(name), "configuration": text}


def _short(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} ... {names[-1]}"
