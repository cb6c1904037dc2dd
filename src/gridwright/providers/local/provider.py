"""Provider local: machines that are there already, the one that Gridwright runs on or a site's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from gridwright.errors import input_error
from gridwright.providers.provider import Provider
from gridwright.spec.crosscheck import MAX_NODES
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.structure import KEY, Refused

if TYPE_CHECKING:
    from gridwright.providers.rendering import Notes
    from gridwright.schedulers.machines import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.model import GridSpec


class LocalProvider(Provider):
    """See Provider."""

    name = "local"
    metadata_service = None
    is_this_machine = True
    makes_grids = False
    has_machines = True
    names_its_nodes = False

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """Several nodes where only this machine is there: no scheduler knows others, none is named."""
        groups, scheduler = data.get("nodes"), scheduler_kind_in(data)
        if not isinstance(groups, Mapping) or (scheduler and scheduler.spec_model.knows_nodes):
            return
        if any(isinstance(group, Mapping) and "hosts" in group for group in groups.values()):
            return
        if len(groups) > 1:
            yield (
                ("nodes", list(groups)[1], KEY),
                FieldError(
                    "provider local is one machine, and this is a second group of nodes", "keep one group"
                ),
            )
        for name, group in groups.items():
            count = group.get("count") if isinstance(group, Mapping) else None
            if isinstance(count, int) and not isinstance(count, bool) and 1 < count <= MAX_NODES:
                yield (
                    ("nodes", name, "count"),
                    FieldError(f"provider local is one machine, and {count} nodes are asked for", "write 1"),
                )

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """The machine that it runs on, or all nodes that the spec names."""
        from gridwright.setup.playbook import Hosts

        if spec.is_one_machine or (not spec.names_hosts and spec.node_count() == 1):
            return Hosts.this_machine(machine)
        return super().hosts(spec, machine)

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """Whose cores and memory were written down."""
        from gridwright.providers.rendering import Notes

        if not setup.files:
            return Notes()
        return Notes(
            at_end="Cores and memory that the grid spec leaves open are those of the machine that rendered "
            f"it: {setup.hardware_check}."
        )

    def refuse(self, spec: GridSpec, verb: str) -> NoReturn:
        """Raise GridwrightError (INPUT): there is nothing to make of a machine that is there."""
        one = spec.is_one_machine
        what = "is the machine that Gridwright runs on" if one else "is of machines that are there already"
        raise input_error(
            f"grid {spec.name} {what}: nothing has to be brought up, and {verb} is for grids that up makes",
            where=str(spec.file) if spec.file else None,
            remedy="gridwright doctor says how it is; gridwright prove and gridwright submit work as it is; "
            f"write provider: {'lab for a lab' if one else 'site for a status of them'}",
        )


LOCAL = LocalProvider()
