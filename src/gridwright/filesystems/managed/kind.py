"""The kind of file systems that a cloud runs as a service, known by their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.managed.model import ManagedFileSystem
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


class ManagedKind(FileSystemKind[ManagedFileSystem]):
    """A service that is there already, and that the site mounts; predictions know it by its figures."""

    spec_model = ManagedFileSystem
    title = "managed file system"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Neither offer nor figures, prices by a capacity that nobody names, limits that contradict."""
        limits = fields.get("limits")
        if fields.get("offer") is None and limits is None:
            yield (
                (),
                FieldError(
                    "a managed file system has neither offer nor limits, so nothing is known of it",
                    "write offer: azure-netapp-files-ultra, or another of gridwright catalog list, or "
                    "limits: {read: 4500 MiB/s, write: 1500 MiB/s}",
                ),
            )
        if fields.get("storage_price") is not None and fields.get("capacity") is None:
            yield (
                ("storage_price",),
                FieldError("a price by capacity, and no capacity", "add capacity: 12 TiB"),
            )
        if isinstance(limits, Mapping):
            yield from _contradictions(limits)

    def cloud_findings(self, name: str, filesystem: ManagedFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Nodes that a cloud makes have nothing at its path until somebody mounts it."""
        yield Finding(
            "warning",
            "managed-not-mounted",
            f"neither up nor setup makes or mounts the managed file system {name}: until somebody does, jobs "
            f"write to the system disk of each node below {filesystem.path}",
            f"Mount it at {filesystem.path} on every node, or describe it as nfs or lustre",
        )

    def contribute(self, name: str, filesystem: ManagedFileSystem, site: Site) -> Contribution:
        """What the service delivers to all nodes, as its figures say."""
        from gridwright.filesystems.managed.rates import contribute

        return contribute(name, filesystem, site)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """The provider's offers at their list prices, where its plans choose of these."""
        from gridwright.filesystems.managed.offers import service_offers

        return service_offers(on_sale)

    def describe(self, filesystem: ManagedFileSystem) -> str:
        """The offer, and its size where it is known."""
        words = [filesystem.offer or self.title]
        words += [str(filesystem.capacity)] if filesystem.capacity is not None else []
        return ", ".join(words)


def _contradictions(limits: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    if limits.get("separate") is not True:
        return
    if limits.get("budget") is not None:
        yield (
            ("limits", "separate"),
            FieldError(
                "reads and writes have a budget together, so they are not separate", "remove one line"
            ),
        )
    if limits.get("burst") is not None and limits.get("budget") is None:
        yield (
            ("limits", "burst"),
            FieldError(
                "a burst lifts the budget of reads and writes, and separate says that they have none",
                "remove the burst, or separate: true",
            ),
        )


KIND = ManagedKind()
"""A managed file system as the grid spec describes it."""
