"""What `up` deploys to AWS, made from the spec alone: the two templates, and the bundle of machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gridwright.model.grid import check_against_catalogue
from gridwright.providers.aws import deployed_spec
from gridwright.providers.aws.bill import bill
from gridwright.providers.aws.changes import holders
from gridwright.providers.aws.cost_lines import CostLine
from gridwright.providers.aws.layout import AwsLayout, aws_layout
from gridwright.providers.boot.bundle import Bundle, Part, bundle
from gridwright.spec.model import GridSpec


@dataclass(frozen=True)
class Deployment:
    """Everything that is known of a grid before AWS is asked."""

    spec: GridSpec
    layout: AwsLayout
    storage: Mapping[str, Any]
    """The template of the storage stack, in the long form of its functions."""
    grid: Mapping[str, Any]
    files: Mapping[Part, Mapping[str, str | bytes]]
    """What machines of each part set themselves up from, by path."""
    nested: Mapping[str, str]
    """Templates that the grid stack reads from the site bucket, by their keys."""

    @cached_property
    def bundles(self) -> Mapping[Part, Bundle]:
        """The files of each part as one archive, packed when it is first asked for: that takes longest."""
        return {part: bundle(files) for part, files in self.files.items()}

    @property
    def held(self) -> dict[str, str]:
        """Resources that hold data, with their file systems."""
        return holders(self.spec, self.layout)

    @property
    def filesystems(self) -> frozenset[str]:
        """File systems that hold data on AWS, and outlive machines."""
        return frozenset(self.held.values())

    @property
    def costs(self) -> tuple[CostLine, ...]:
        """The bill of the whole grid."""
        return bill(self.spec, self.layout, running=True)


def deployment(spec: GridSpec) -> Deployment:
    """Make it. Raises GridwrightError (INPUT) with everything that is wrong with the spec."""
    from gridwright.providers.aws.grid_template import grid_template
    from gridwright.providers.aws.machine_files import machine_files

    layout = aws_layout(spec)
    check_against_catalogue(spec)
    made = grid_template(spec, layout)
    grid = made.to_dict()
    deployed_spec.keep(grid, spec)
    return Deployment(
        spec,
        layout,
        storage_body(spec, layout),
        _plain(grid),
        machine_files(spec, layout, None).parts,
        {each.key: each.text for each in made.nested},
    )


def storage_body(
    spec: GridSpec,
    layout: AwsLayout,
    *,
    deletable: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The template of the storage stack, which carries the spec that it is made from."""
    from gridwright.providers.aws.storage_template import storage_template

    template = storage_template(spec, layout, deletable=deletable, without=without).to_dict()
    deployed_spec.keep(template, spec)
    return _plain(template)


def _plain(template: Mapping[str, Any]) -> dict[str, Any]:
    """Without the classes of troposphere."""
    found: dict[str, Any] = json.loads(json.dumps(template))
    return found
