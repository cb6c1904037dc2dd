"""The kind of file systems that a cloud runs as a service, known by their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.capabilities import CloudFindings, Offers
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.managed.model import ManagedFileSystem
from gridwright.filesystems.service_problems import service_problems
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


class ManagedKind(FileSystemKind[ManagedFileSystem], CloudFindings[ManagedFileSystem], Offers):
    """A service that is there already, and that the site mounts; predictions know it by its figures."""

    spec_model = ManagedFileSystem
    title = "managed file system"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Neither offer nor figures, prices by a capacity that nobody names, limits that contradict."""
        if fields.get("offer") is None and fields.get("limits") is None:
            yield (
                (),
                FieldError(
                    "a managed file system has neither offer nor limits, so nothing is known of it",
                    "write offer: azure-netapp-files-ultra, or another of gridwright catalog list, or "
                    "limits: {read: 4500 MiB/s, write: 1500 MiB/s}",
                ),
            )
        yield from service_problems(fields)

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
        from gridwright.filesystems.service_rates import service_contribution

        return service_contribution(name, filesystem, site, self.title)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """The provider's offers at their list prices, where its plans choose of these."""
        from gridwright.filesystems.managed.offers import service_offers

        return service_offers(on_sale)

    def describe(self, filesystem: ManagedFileSystem) -> str:
        """The offer, and its size where it is known."""
        words = [filesystem.offer or self.title]
        words += [str(filesystem.capacity)] if filesystem.capacity is not None else []
        return ", ".join(words)


KIND = ManagedKind()
"""A managed file system as the grid spec describes it."""
