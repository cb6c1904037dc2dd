"""The lab as a provider: nodes in Linux namespaces of the machine that Gridwright runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.errors import input_error
from gridwright.providers.lab.section import Lab
from gridwright.providers.provider import GridHere, Provider, Removal
from gridwright.spec.fields import Change, Update
from gridwright.spec.provider import ProviderSection
from gridwright.yamltext.together import Refused

if TYPE_CHECKING:
    from gridwright.providers.caller import Caller
    from gridwright.providers.lab.head import LabHead
    from gridwright.providers.lab.status import LabStatus
    from gridwright.providers.lab.up import LabUp
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.outage import MachineOutage
    from gridwright.providers.preflight import Preflight
    from gridwright.providers.read_me import Notes
    from gridwright.schedulers.machines import GridMachines
    from gridwright.schedulers.set_up import SchedulerSetup
    from gridwright.setup.playbook import Hosts
    from gridwright.spec.model import GridSpec


class LabProvider(Provider):
    """See Provider."""

    name = "lab"
    section = ProviderSection(
        Lab, "What only provider lab has.", Update(Change.REBUILD, "its nodes are made anew")
    )
    metadata_service = None
    has_own_kernels = False
    has_machines = True
    powers_nodes = True

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        from gridwright.providers.lab.crosscheck import lab_problems

        return lab_problems(data)

    def state_directory(self, spec: GridSpec) -> Path:
        """In the lab's own directory on this machine, which all its nodes see."""
        from gridwright.providers.lab.places import Places

        return Places(spec.name).state

    def head_node(self, spec: GridSpec) -> LabHead:
        """The controller."""
        from gridwright.providers.lab.head import LabHead

        return LabHead.of(spec)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """All nodes, those that serve file systems too."""
        from gridwright.providers.lab.layout import LabRole, layout_of
        from gridwright.setup.playbook import Hosts

        layout = layout_of(spec)
        of = {role: [node.name for node in layout.of_role(role)] for role in LabRole}
        return Hosts.named(
            compute=of[LabRole.COMPUTE], storage=of[LabRole.STORAGE], head=of[LabRole.CONTROLLER]
        ).with_machines(spec)

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """Nodes as the spec wants them, whatever this machine has."""
        from gridwright.providers.controller import CONTROLLER
        from gridwright.schedulers.machines import GridMachines, hardware_of_nodes

        here = dict.fromkeys(spec.nodes, machine.hardware)
        return GridMachines(
            controller=CONTROLLER,
            nodes=hardware_of_nodes(spec, here, share_one_machine=True),
            cgroups=machine.cgroups,
            systemd=False,
            share_one_machine=True,
        )

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """What `up` has done already."""
        from gridwright.providers.read_me import Notes

        return Notes(
            before_steps="`gridwright up` does what follows for a lab; these are the files in "
            f"`{setup.directory}` of its nodes.",
            after_playbook="Nodes of a lab share the kernel of this machine: nothing of it is set for them, "
            "and `gridwright up` has set up the rest.",
        )

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> LabUp:
        """Make the lab."""
        from gridwright.providers.lab.up import up

        _refuse_names(spec.name, "--replace", replace)
        return up(spec, caller)

    def preflight(self, spec: GridSpec) -> Preflight:
        """What this machine lacks for the lab."""
        from gridwright.providers.lab.layout import layout_of
        from gridwright.providers.lab.preflight import preflight

        return preflight(spec, layout_of(spec))

    def status(self, spec: GridSpec) -> LabStatus:
        """How the lab stands."""
        from gridwright.providers.lab.owner import record_for

        record_for(spec)
        return _status(spec.name)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take the lab down: nothing is asked, as it keeps nothing."""
        from gridwright.providers.lab.owner import record_for

        record_for(spec)
        return _removal(spec.name, delete_data)

    def processes_here(self, spec: GridSpec) -> Sequence[int]:
        """The anchor of the lab, below which all nodes lie, and what powers nodes for the scheduler."""
        from gridwright.providers.lab.record import read

        record = read(spec.name)
        known = (record.anchor, record.power) if record is not None else ()
        return [each.pid for each in known if each is not None]

    def outages(self, spec: GridSpec) -> Sequence[MachineOutage]:
        """As the record of the lab has them, and what does not serve on controller and storage nodes."""
        from gridwright.providers.lab.outages import lab_outages

        return lab_outages(spec)

    def found_here(self) -> list[GridHere]:
        """Labs of this machine, whether their specs are at hand or not."""
        from gridwright.providers.lab.record import labs

        return [self.here(name) for name in labs()]

    def here(self, name: str) -> GridHere:
        """A lab by its name; who takes it away is asked first, having named no spec."""
        from gridwright.providers.lab.contents import contents

        question = f"lab {name} goes: its nodes with their processes, jobs and logs, and its file systems"
        if there := contents(name):
            question += f" ({'; '.join(there)})"
        return GridHere(
            name,
            partial(_status, name),
            lambda data: replace_fields(_removal(name, data), question=question),
            partial(_spec, name),
            partial(_enter, name),
        )


def _status(lab: str) -> LabStatus:
    from gridwright.providers.lab.status import status

    return status(lab)


def _spec(lab: str) -> GridSpec:
    from gridwright.providers.lab.faults import record_of
    from gridwright.providers.lab.spec_copy import kept_spec

    return kept_spec(record_of(lab))


def _enter(lab: str, node: str, command: Sequence[str]) -> int:
    from gridwright.providers.lab.attach import attach
    from gridwright.providers.lab.faults import record_of
    from gridwright.providers.lab.node import node_of

    return attach(node_of(record_of(lab), node), command)


def _removal(lab: str, delete_data: frozenset[str]) -> Removal:
    from gridwright.providers.lab.down import take_away

    _refuse_names(lab, "--delete-data", delete_data)
    return Removal(None, lambda _: take_away(lab))


def _refuse_names(lab: str, flag: str, names: frozenset[str]) -> None:
    if names:
        raise input_error(
            f"grid {lab} is a lab, which keeps no data when it goes",
            where=flag,
            remedy=f"leave {flag} out; file systems of a cloud are what it is for",
        )


LAB = LabProvider()
