"""The kind of Lustre that Oracle sells as a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.kind import Offers
from gridwright.filesystems.lustre_client.client import LustreClientKind
from gridwright.filesystems.oci_lustre.model import OciLustreFileSystem
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.layout import FileLayout
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec


class OciLustreKind(LustreClientKind[OciLustreFileSystem], Offers):
    """OCI File Storage with Lustre: the service makes it, and tells then what nodes mount."""

    spec_model = OciLustreFileSystem
    title = "OCI Lustre"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A size that is not on sale, and directories that are linked twice."""
        from gridwright.filesystems.oci_lustre.rates import oci_lustre_problems

        return oci_lustre_problems(fields)

    def findings(self, name: str, filesystem: OciLustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """What is paid after it is gone, and what links do not copy."""
        from gridwright.filesystems.oci_lustre.rates import oci_lustre_findings

        return oci_lustre_findings(name, filesystem, spec)

    def contribute(self, name: str, filesystem: OciLustreFileSystem, site: Site) -> Contribution:
        """What the service delivers to all nodes."""
        from gridwright.filesystems.oci_lustre.rates import contribute

        return contribute(name, filesystem, site)

    def describe(self, filesystem: OciLustreFileSystem) -> str:
        """Capacity and tier."""
        return f"{self.title} {filesystem.capacity_gb} GB at {filesystem.throughput} MB/s/TB"

    def stated_layout(self, filesystem: OciLustreFileSystem, library: Library) -> FileLayout | None:
        """The library's own, else by the stripe count of the file system."""
        from gridwright.filesystems.lustre_client.layout import stated_layout

        return stated_layout(library.layout, filesystem.stripe_count)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """Every tier."""
        from gridwright.filesystems.oci_lustre.rates import oci_lustre_offers

        return oci_lustre_offers(on_sale)

    def requests(self, filesystem: OciLustreFileSystem) -> Mapping[type, object]:
        """The file system as Oracle makes it."""
        from gridwright.filesystems.provided import TieredLustre, request

        return request(TieredLustre, filesystem)


KIND = OciLustreKind()
