"""The kind of Lustre that AWS sells as a service: Amazon FSx for Lustre."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.filesystems.kind import CloudFindings, Degradation, Offers
from gridwright.filesystems.lustre_client.client import LustreClientKind
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.layout import FileLayout
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution, DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.site import Site
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec


class FsxLustreKind(
    LustreClientKind[FsxLustreFileSystem],
    CloudFindings[FsxLustreFileSystem],
    Degradation[FsxLustreFileSystem],
    Offers,
):
    """FSx for Lustre: the service makes it, and tells then what nodes mount."""

    spec_model = FsxLustreFileSystem
    title = "FSx for Lustre"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Fields that a deployment type does not have."""
        deployment, metadata = fields.get("deployment", "persistent-2"), fields.get("metadata")
        # The default, automatic, stands in every spec that was written out in full.
        bought = isinstance(metadata, int) and not isinstance(metadata, bool)
        if bought and deployment in ("scratch-2", "persistent-1"):
            yield (
                ("metadata",),
                FieldError(
                    f"{deployment} has no metadata operations to choose",
                    "remove the line, or write deployment: persistent-2",
                ),
            )
        days = fields.get("backup_days")
        if not isinstance(days, int) or days < 1:
            return
        if deployment == "scratch-2":
            yield (
                ("backup_days",),
                FieldError(
                    "scratch-2 has no backups", "write 0, or deployment: persistent-2, or link a repository"
                ),
            )
        elif fields.get("repository") is not None:
            yield (
                ("backup_days",),
                FieldError(
                    "a file system that is linked with a bucket has no backups",
                    "write 0: what is exported to the bucket is the backup",
                ),
            )

    def cloud_findings(self, name: str, filesystem: FsxLustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """What cannot be mended later, and data in danger."""
        if filesystem.deployment == "persistent-2" and filesystem.metadata == "none":
            yield Finding(
                "warning",
                "metadata-none",
                f"FSx for Lustre {name} is made without metadata operations of its own: they cannot be added "
                "later, and many small files are slow",
                "Write metadata: automatic",
            )
        data = spec.libraries.get("data")
        if filesystem.deployment == "scratch-2" and data is not None and data.filesystem == name:
            yield Finding(
                "warning",
                "data-on-scratch",
                f"library data lives on {name}, a scratch-2: when one of its servers fails, the data on it "
                "are lost",
                "Write deployment: persistent-2; or link a repository that new files are exported to",
            )
        from gridwright.catalog import load_catalog
        from gridwright.filesystems.fsx_lustre.rates import account_findings

        catalog = load_catalog(spec.file.parent if spec.file else None)
        yield from account_findings(name, spec, catalog.deployment(filesystem.deployment).limits)

    def contribute(self, name: str, filesystem: FsxLustreFileSystem, site: Site) -> Contribution:
        """What the service delivers to all nodes."""
        from gridwright.filesystems.fsx_lustre.rates import contribute

        return contribute(name, filesystem, site)

    def parts(self, filesystem: FsxLustreFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
        """Its servers and targets, as far as they are known."""
        from gridwright.filesystems.fsx_lustre.rates import parts

        return parts(contribution)

    def without(
        self, filesystem: FsxLustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
    ) -> DegradedRates:
        """What is left of it until they are back."""
        from gridwright.filesystems.fsx_lustre.rates import without

        return without(filesystem, contribution, dead)

    def describe(self, filesystem: FsxLustreFileSystem) -> str:
        """Deployment type, capacity, and the throughput that is bought."""
        fields = filesystem.model_dump(mode="json", exclude_none=True)
        bought = f" at {fields['throughput']}" if "throughput" in fields else ""
        return f"{self.title} {filesystem.deployment}, {fields['capacity']}{bought}"

    def stated_layout(self, filesystem: FsxLustreFileSystem, library: Library) -> FileLayout | None:
        """The library's own, else by the stripe count of the file system."""
        from gridwright.filesystems.lustre_client.layout import stated_layout

        return stated_layout(library.layout, filesystem.stripe_count)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """Every tier of every deployment type."""
        from gridwright.filesystems.fsx_lustre.rates import fsx_offers

        return fsx_offers(on_sale.catalog, on_sale.region)

    def requests(self, filesystem: FsxLustreFileSystem) -> Mapping[type, object]:
        """The file system as AWS makes it."""
        from gridwright.filesystems.provided import ManagedLustre, request

        return request(ManagedLustre, filesystem)


KIND = FsxLustreKind()
