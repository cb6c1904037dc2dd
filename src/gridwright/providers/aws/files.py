"""Everything that `render` writes for a grid on AWS: it can be deployed with the AWS CLI alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from troposphere import Template

from gridwright.catalog import load_catalog
from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.model.grid import GridModel, check_against_catalogue, grid_model
from gridwright.providers.aws.grid_template import grid_template
from gridwright.providers.aws.layout import AwsLayout, aws_layout
from gridwright.providers.aws.machine_files import machine_files
from gridwright.providers.aws.names import grid_stack, storage_stack
from gridwright.providers.aws.operator.policy import Operator
from gridwright.providers.aws.read_me import aws_read_me
from gridwright.providers.aws.storage_template import storage_template
from gridwright.providers.aws.template_limits import template_text
from gridwright.providers.boot.bundle import bundle
from gridwright.setup.playbook import Hosts
from gridwright.spec.model import GridSpec
from gridwright.units import HOURS_PER_MONTH

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
    _check(spec)
    layout = aws_layout(spec)
    machines = machine_files(spec, layout, release)
    bundles = {part: bundle(content) for part, content in machines.parts.items()}
    costs = cost_document(spec, grid_model(spec))
    grid, storage = grid_template(spec, layout), storage_template(spec, layout)
    files: dict[str, str | bytes] = {
        **machines.files,
        STORAGE_TEMPLATE: template_text(storage),
        GRID_TEMPLATE: template_text(grid),
        **{each.file: each.text for each in grid.nested},
        **{BUNDLE.format(part): made.content for part, made in bundles.items()},
        **{BUNDLE_KEY_FILE.format(part): made.key + "\n" for part, made in bundles.items()},
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


def _check(spec: GridSpec) -> None:
    """Raise what is wrong with the machines and with what is bought, all of it at once."""
    problems: list[Problem] = []
    for look in (aws_layout, check_against_catalogue):
        try:
            look(spec)
        except GridwrightError as error:
            problems += [each for each in error.problems if each not in problems]
    if problems:
        raise GridwrightError(*problems)


def cost_document(spec: GridSpec, model: GridModel) -> dict[str, Any]:
    """The bill by line, as `predict` and `plan` have it; None where a price is not known."""
    hourly = model.usd_per_hour
    return {
        "schema": 1,
        "region": spec.region,
        "currency": "USD",
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in model.costs],
        "usd_per_hour": hourly,
        "usd_per_month": None if hourly is None else hourly * HOURS_PER_MONTH,
        "prices_as_of": _as_of(spec, model),
    }


def _as_of(spec: GridSpec, model: GridModel) -> str | None:
    """The month of the oldest price of a node; None where none is known."""
    if spec.region is None:
        return None
    catalog = load_catalog(spec.file.parent if spec.file else None)
    names = [group.instance.name for group in model.groups if group.instance is not None]
    prices = [catalog.instance_price(name, spec.region) for name in names]
    return min((price.source.date for price in prices if price), default=None)
