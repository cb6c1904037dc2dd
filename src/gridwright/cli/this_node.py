"""Files of a grid, rendered with the facts of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridwright.providers.rendering import Rendering
    from gridwright.spec import GridSpec

_MOUNTS = Path("/proc/mounts")


def render_here(spec: GridSpec, slurm: str) -> Rendering:
    """Every file of a grid, with the facts of this machine where it is made of machines like this one.

    `slurm` is the release that its configuration is for. Raises GridwrightError (INPUT).
    """
    from gridwright.providers import provider_of
    from gridwright.providers.machines import HostMachine
    from gridwright.runs.host import host_facts
    from gridwright.schedulers.machines import NodeHardware, detect_cgroups

    host = host_facts()
    machine = NodeHardware(
        name=host.hostname.partition(".")[0],
        cores_per_socket=host.physical_cores,
        threads_per_core=max(1, host.logical_cpus // host.physical_cores),
        memory_bytes=host.memory_bytes,
    )
    host_machine = HostMachine(machine, detect_cgroups(_MOUNTS.read_text()))
    return provider_of(spec).render(spec, host_machine, slurm)


def render_image_here(spec: GridSpec, slurm: str) -> Rendering:
    """Files of a build of an image. Raises GridwrightError (INPUT)."""
    from gridwright.providers import provider_of
    from gridwright.providers.provider import images_of

    remedy = "leave --image out: what nodes of their own need is in the playbook"
    where = str(spec.file) if spec.file else None
    return images_of(provider_of(spec), where, remedy).render(spec, slurm)
