"""Everything that `render` writes for a grid on AWS; its README.md says how the AWS CLI alone deploys it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from troposphere import Template

from gridwright.catalog import load_catalog
from gridwright.errors import Finding, GridwrightError
from gridwright.model.grid import GridModel, check_against_catalogue, grid_model
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.images import named_images
from gridwright.providers.aws.launching import NestedTemplate
from gridwright.providers.aws.layout import (
    AwsLayout,
    Role,
    aws_layout,
    console_machine,
    fsx_file_systems,
    secret_name,
)
from gridwright.providers.aws.machine_files import machine_files
from gridwright.providers.aws.names import GRID_TAG, claims_table, grid_stack, logical_id, storage_stack
from gridwright.providers.aws.operator.policy import Operator
from gridwright.providers.aws.storage_template import storage_template
from gridwright.providers.aws.template_limits import template_text
from gridwright.providers.aws.up import OFF, desired_root_squash
from gridwright.providers.cloud_machines import cost_document, problems_of
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.rendering import markdown
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.setup.playbook import Hosts
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
    for name, desired in desired_root_squash(spec).items():
        if desired["RootSquash"] != OFF:
            text = json.dumps({"RootSquashConfiguration": desired})
            yield {"name": name, "resource": logical_id(name), "configuration": text}


def _short(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} ... {names[-1]}"


STORAGE_TEMPLATE = "storage.template.yaml"
GRID_TEMPLATE = "grid.template.yaml"
BUNDLE = "bundle-{}.tar.gz"
BUNDLE_KEY_FILE = "bundle-{}.key"
COSTS = "costs.json"


def aws_files(
    spec: GridSpec, release: str | None = None
) -> tuple[Mapping[str, str | bytes], Sequence[Finding], Hosts]:
    """All files by their path, what Slurm's configuration found, and the machines of the inventory.

    The same spec gives the same bytes. Raises GridwrightError (INPUT) with all that cannot be built as it is
    written.
    """
    if problems := problems_of(spec, aws_layout, check_against_catalogue):
        raise GridwrightError(*problems)
    layout = aws_layout(spec)
    machines = machine_files(spec, layout, release)
    model = grid_model(spec)
    costs = {**cost_document(spec, model), "prices_as_of": _as_of(spec, model)}
    grid, storage = grid_template(spec, layout), storage_template(spec, layout)
    files: dict[str, str | bytes] = {
        **machines.files,
        STORAGE_TEMPLATE: template_text(storage),
        GRID_TEMPLATE: template_text(grid),
        **{each.file: each.text for each in grid.nested},
        **{BUNDLE.format(part): made.content for part, made in machines.bundles.items()},
        **{BUNDLE_KEY_FILE.format(part): made.key + "\n" for part, made in machines.bundles.items()},
        COSTS: json.dumps(costs, indent=2) + "\n",
        **operator(spec, layout, grid, storage).files(),
    }
    files["README.md"] = aws_read_me(spec, layout, costs, tuple(files), machines.scheduler, grid.nested)
    return files, machines.scheduler.findings, machines.hosts


def operator(spec: GridSpec, layout: AwsLayout, grid: Template, storage: Template) -> Operator:
    """Who runs the grid of these templates."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    stacks = {storage_stack(spec): storage, grid_stack(spec): grid}
    return Operator(
        spec, layout, catalog, {name: each.to_dict()["Resources"] for name, each in stacks.items()}
    )


def _as_of(spec: GridSpec, model: GridModel) -> str | None:
    """The month of the oldest price of a node; None where none is known."""
    if spec.region is None:
        return None
    catalog = load_catalog(spec.file.parent if spec.file else None)
    names = [group.instance.name for group in model.groups if group.instance is not None]
    prices = [catalog.instance_price(name, spec.region) for name in names]
    return min((price.source.date for price in prices if price), default=None)
