"""What is still to be made of a grid: machines by shape, and volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from gridwright.providers.oci.costs import BOOT_VOLUME_GB
from gridwright.providers.oci.layout import OciLayout, OciMachine, OciRole
from gridwright.providers.oci.terraform.machines import named_image


@dataclass(frozen=True, slots=True)
class ShapeNeed:
    """Machines that are alike to OCI, in one fault domain."""

    shape: str
    ocpus: int | None
    memory_gib: int | None
    fault_domain: int
    is_reserved: bool
    """Whether they use the capacity of the spec's reservation."""
    image: str | None
    """OCID of the image that the spec names for them."""


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """What is to be made."""

    machines: Counter[ShapeNeed]
    volumes: int
    volume_gib: int
    """Of block volumes and boot volumes."""

    def shapes_of(self, image: str | None) -> list[str]:
        """Shapes that start from an image that the spec names, or from platform images; each once."""
        return list(dict.fromkeys(each.shape for each in self.machines if each.image == image))

    @property
    def shapes(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(each.shape for each in self.machines))

    @property
    def reserved(self) -> int:
        """Machines that use reserved capacity."""
        return sum(number for each, number in self.machines.items() if each.is_reserved)


def still_needed(layout: OciLayout, machines: Collection[str], volumes: Collection[str]) -> StillNeeded:
    """All of the layout but the machines and volumes of these names, which are there."""
    made = [each for each in layout.machines if each.name not in machines]
    disks = [each for each in layout.volumes if each.name not in volumes]
    return StillNeeded(
        Counter(_need(layout, each) for each in made),
        len(disks) + len(made),
        sum(each.gib for each in disks) + BOOT_VOLUME_GB * len(made),
    )


def _need(layout: OciLayout, machine: OciMachine) -> ShapeNeed:
    is_reserved = layout.oci.capacity_reservation is not None and machine.role is OciRole.COMPUTE
    return ShapeNeed(
        machine.shape,
        machine.ocpus,
        machine.memory_gib,
        machine.fault_domain,
        is_reserved,
        named_image(layout, machine),
    )
