"""The services of a lab: sshd, file systems and the scheduler, on the nodes that need them."""

from __future__ import annotations

from gridwright import schedulers
from gridwright.filesystems import kind_of
from gridwright.filesystems.in_lab import StorageNodes
from gridwright.providers.lab.disk import MOUNT_POINT
from gridwright.providers.lab.layout import LabLayout, LabRole
from gridwright.providers.lab.section import Lab
from gridwright.providers.lab.service import LabService
from gridwright.providers.lab.services.ssh import Ssh
from gridwright.providers.lab.services.users import LabUsers
from gridwright.spec.model import GridSpec


def services_for(spec: GridSpec, layout: LabLayout) -> list[LabService]:
    """The services of a spec in the order that they start in: each needs only those before it."""
    controller = layout.controller.name
    workers = [node.name for node in layout.of_role(LabRole.COMPUTE)]
    machines = [node.name for node in layout.of_role(LabRole.MACHINE) if spec.machines[node.group].mounts]
    lab = spec.section(Lab)
    services: list[LabService] = [Ssh([node.name for node in layout.nodes])]
    for name, filesystem in spec.filesystems.items():
        storage = StorageNodes(
            servers=[node.name for node in layout.storage_of(name)],
            clients=[controller, *workers, *machines],
            all_nodes=[node.name for node in layout.nodes],
            directory=MOUNT_POINT,
            # MooseFS' own default, less on a small disk of its own.
            keep_free="64MiB" if lab and lab.disk else "256MiB",
        )
        services += kind_of(filesystem).lab_services(name, filesystem, storage)
    if spec.users is not None:
        services.append(LabUsers([controller, *workers]))
    services += schedulers.kind_of(spec.scheduler).lab_services(spec, controller, workers)
    return services
