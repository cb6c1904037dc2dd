"""The grid stack: what runs and is billed by the hour, put together from its parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from troposphere import Output, Ref, Tags, Template, ec2
from troposphere.secretsmanager import GenerateSecretString, Secret

from gridwright.catalog import load_catalog
from gridwright.providers.aws.auto_scaling import add_group
from gridwright.providers.aws.budget import add_budget
from gridwright.providers.aws.console_page import add_console
from gridwright.providers.aws.dashboard import add_dashboard
from gridwright.providers.aws.grid_alarms import add_grid_alarms
from gridwright.providers.aws.iam import add_roles
from gridwright.providers.aws.launching import (
    PLACEMENT,
    Building,
    add_machine,
    is_placed,
    machine_id,
)
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import lasting_tags, logical_id, server_group, tags
from gridwright.providers.aws.nat import add_way_out
from gridwright.providers.aws.node_interfaces import NestedTemplate, add_node_interfaces, nested_templates
from gridwright.providers.aws.pair_volumes import add_attachments, add_partitions
from gridwright.providers.aws.running import add_parameter
from gridwright.providers.aws.site_network import add_names
from gridwright.providers.aws.template_limits import CountedTemplate
from gridwright.providers.aws.user_data import UserData, key_id, user_data
from gridwright.schedulers import kind_of
from gridwright.spec.model import GridSpec


class GridTemplate(CountedTemplate):
    """The template, with those of the nested stacks that it reads from the site bucket: none, as a rule."""

    nested: tuple[NestedTemplate, ...] = ()


def grid_template(spec: GridSpec, layout: AwsLayout) -> GridTemplate:
    """The template. It waits for no machine: one that fails leaves the others, and its log, where they are.

    Raises GridwrightError for types that the catalogue does not know, and where there are more resources than
    a stack can have.
    """
    template = GridTemplate(f"Gridwright grid {spec.name}: what runs. Made by gridwright render.")
    template.set_version("2010-09-09")
    groups = list(_alike(layout))
    add_parameter(template, {title: machines for title, machines in groups if machines[0].replaced})
    data = {
        title: user_data(spec, layout, machines, _auto_scaling(title, machines)) for title, machines in groups
    }
    _add_key(template, spec, layout)
    add_roles(template, spec, layout)
    after = tuple(add_way_out(template, spec, layout))
    catalog = load_catalog(spec.file.parent if spec.file else None)
    building = Building(template, spec, layout, catalog, after)
    if any(is_placed(building, machine) for machine in layout.machines):
        template.add_resource(
            ec2.PlacementGroup(
                PLACEMENT, Strategy="cluster", Tags=Tags(**lasting_tags(spec, role="placement"))
            )
        )
    template.nested = nested_templates(building)
    if layout.volumes:
        add_partitions(building)
    _add_machines(building, groups, data, template.nested)
    add_attachments(building)
    scaled = [title for title, machines in groups if machines[0].replaced]
    add_dashboard(building, scaled, add_grid_alarms(building, scaled))
    add_budget(template, spec, layout.aws.alarms)
    add_console(template, spec, layout)
    add_names(template, layout)
    _add_outputs(template, layout)
    template.check(str(spec.file) if spec.file else None)
    return template


def groups_of(layout: AwsLayout) -> dict[str, tuple[Machine, ...]]:
    """Machines of each Auto Scaling group by its logical ID."""
    return {title: machines for title, machines in _alike(layout) if machines[0].replaced}


def _alike(layout: AwsLayout) -> Iterator[tuple[str, tuple[Machine, ...]]]:
    """Machines by the logical ID of what starts them: an Auto Scaling group, or a machine of its own."""

    def title(machine: Machine) -> str:
        if not machine.replaced:
            return machine_id(machine)
        if machine.role.serves_lustre:
            return server_group(machine.group, machine.role)
        if machine.role is Role.MACHINE:
            return logical_id(machine.group) + "Machines"
        return logical_id(machine.group) + "Nodes"

    for name, machines in groupby(layout.machines, title):
        yield name, tuple(machines)


def _auto_scaling(title: str, machines: tuple[Machine, ...]) -> str | None:
    return title if machines[0].replaced else None


def _add_machines(
    building: Building,
    groups: list[tuple[str, tuple[Machine, ...]]],
    data: dict[str, UserData],
    nested: tuple[NestedTemplate, ...],
) -> None:
    """Those with addresses of their own first, as a group's machines take any that is free."""
    fixed = [
        add_machine(building, machines[0], data[title])
        for title, machines in groups
        if not machines[0].replaced
    ]
    interfaces = add_node_interfaces(building, nested)
    for title, machines in groups:
        if machines[0].replaced:
            add_group(building, title, machines, data[title], [*fixed, *interfaces])


def _add_key(template: Template, spec: GridSpec, layout: AwsLayout) -> None:
    """The key by which nodes of the scheduler trust each other: AWS makes it up, only nodes can read it."""
    key = kind_of(spec.scheduler).shared_key
    if key is None:
        return
    secret = Secret(
        key_id(key),
        Description=f"Key of {key.name} of grid {spec.name}",
        GenerateSecretString=GenerateSecretString(PasswordLength=key.length, ExcludePunctuation=True),
        Tags=Tags(**tags(spec, role=key.name)),
    )
    if layout.aws.kms_key is not None:
        secret.KmsKeyId = layout.aws.kms_key
    template.add_resource(secret)


def _add_outputs(template: Template, layout: AwsLayout) -> None:
    if layout.aws.has_public_login:
        template.add_output(
            Output("LoginPublicAddress", Description="Where users log in by ssh", Value=Ref("LoginAddress"))
        )
    for machine in layout.of_role(Role.LOGIN, Role.HEAD):
        title = machine_id(machine)
        template.add_output(
            Output(f"{title}Instance", Description=f"The machine {machine.name}", Value=Ref(title))
        )
