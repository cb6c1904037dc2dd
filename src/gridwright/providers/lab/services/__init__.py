"""The services of a lab: munge, sshd, MooseFS and Slurm, on the nodes that need them."""

from __future__ import annotations

from gridwright.providers.lab.layout import Layout, Role
from gridwright.providers.lab.service import Service
from gridwright.providers.lab.services.moosefs import ChunkServers, Master, MountPoint
from gridwright.providers.lab.services.munge import Munge
from gridwright.providers.lab.services.slurm import SlurmController, SlurmNodes
from gridwright.providers.lab.services.ssh import Ssh
from gridwright.schedulers.slurm.kind import SlurmSection
from gridwright.spec.filesystems import MooseFileSystem
from gridwright.spec.model import GridSpec


def services_for(spec: GridSpec, layout: Layout) -> list[Service]:
    """The services of a spec in the order that they start in: each needs only those before it."""
    controller = layout.controller.name
    workers = [node.name for node in layout.of_role(Role.COMPUTE)]
    services: list[Service] = [Ssh([node.name for node in layout.nodes])]
    for name, filesystem in spec.filesystems.items():
        if isinstance(filesystem, MooseFileSystem):
            servers = [node.name for node in layout.storage_of(name)]
            services += [
                Master(name, servers[0]),
                ChunkServers(name, servers, keep_free=_kept_free(spec)),
                MountPoint(name, filesystem, servers[0], [controller, *workers]),
            ]
    if isinstance(spec.scheduler, SlurmSection):
        controllers = [controller, *workers[:1]] if spec.scheduler.backup_controller else [controller]
        services += [
            Munge([controller, *workers]),
            SlurmController(controllers),
            SlurmNodes(workers),
        ]
    return services


def _kept_free(spec: GridSpec) -> str:
    """What a chunk server leaves free of its disk: MooseFS' own default, less on a small disk of its own."""
    return "64MiB" if spec.lab and spec.lab.disk else "256MiB"
