"""Interfaces that nodes claim: in the grid stack, or in nested stacks if there are too many for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from troposphere import Sub, Tags, Template
from troposphere.cloudformation import Stack

from gridwright.providers.aws.launching import Building, add_interfaces
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import Export, tags
from gridwright.providers.aws.template_limits import template_text
from gridwright.providers.aws.user_data import exported

MOST_IN_GRID_STACK = 400
"""Of the 500 resources that a stack can have: what else is in the grid stack has room beside them."""
MOST_IN_NESTED_STACK = 450
_ROLE = "interfaces"


@dataclass(frozen=True, slots=True)
class NestedTemplate:
    """The template of a nested stack, read from the site bucket under a key that names its content."""

    number: int
    text: str

    @property
    def title(self) -> str:
        """Logical ID of the nested stack."""
        return f"Interfaces{self.number}"

    @property
    def file(self) -> str:
        """Its name among the files of `render`."""
        return f"interfaces-{self.number}.template.yaml"

    @property
    def key(self) -> str:
        """Its key in the site bucket."""
        return f"templates/{hashlib.sha256(self.text.encode()).hexdigest()}.yaml"


def claiming_nodes(layout: AwsLayout) -> tuple[Machine, ...]:
    """Nodes, and machines beside them, that are replaced, and so claim their interfaces."""
    return tuple(each for each in layout.of_role(Role.COMPUTE, Role.MACHINE) if each.replaced)


def nested_templates(building: Building) -> tuple[NestedTemplate, ...]:
    """Those that the grid stack needs beside itself: none, as a rule."""
    nodes = claiming_nodes(building.layout)
    if len(nodes) <= MOST_IN_GRID_STACK:
        return ()
    return tuple(_nested(building, number, part) for number, part in enumerate(_parts(nodes), start=1))


def add_node_interfaces(building: Building, nested: tuple[NestedTemplate, ...]) -> list[str]:
    """Add all interfaces that nodes claim: the nested stacks where there are any, else each by itself.

    Returns logical IDs of what has to be there before nodes start.
    """
    if not nested:
        return add_interfaces(building, claiming_nodes(building.layout))
    marks = tags(building.spec, role=_ROLE)
    for each in nested:
        url = f"https://${{Bucket}}.s3.${{AWS::Region}}.${{AWS::URLSuffix}}/{each.key}"
        building.template.add_resource(
            Stack(
                each.title,
                TemplateURL=Sub(url, Bucket=exported(building.spec, Export.SITE_BUCKET)),
                Tags=Tags(**marks),
            )
        )
    return [each.title for each in nested]


def _parts(nodes: tuple[Machine, ...]) -> Iterator[tuple[Machine, ...]]:
    for start in range(0, len(nodes), MOST_IN_NESTED_STACK):
        yield nodes[start : start + MOST_IN_NESTED_STACK]


def _nested(building: Building, number: int, nodes: tuple[Machine, ...]) -> NestedTemplate:
    first, last = nodes[0].name, nodes[-1].name
    template = Template(f"Grid {building.spec.name}: interfaces of nodes {first} to {last}")
    template.set_version("2010-09-09")
    add_interfaces(replace(building, template=template), nodes)
    return NestedTemplate(number, template_text(template))
