"""The kind of IBM Spectrum Scale on servers of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from gridwright.filesystems.kind import (
    ClientSettings,
    ClusterMachine,
    Degradation,
    FileSystemKind,
    NamedServers,
    Offers,
    PairDisk,
    SharedDiskCluster,
    TuningKind,
)
from gridwright.filesystems.scale.fields import packages_of_cloud, playbook_packages
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.scale.pool_rules import nfs_findings, nfs_of_provider, pools_of_provider
from gridwright.filesystems.scale.rules import provider_problems, scale_problems
from gridwright.services.playbook_role import PlaybookRole
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.errors import Finding
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution, DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec
    from gridwright.spec.provider import ProviderKind


def _command(key: str) -> list[str]:
    return ["/usr/lpp/mmfs/bin/mmlsconfig", key]


def _value(printed: str, key: str) -> str | None:
    """Out of `pagepool 4294967296` (the mmlsconfig command)."""
    found = re.search(rf"^{re.escape(key)}\s+(\S+)", printed, re.MULTILINE)
    return found[1] if found else None


TUNING_KIND = TuningKind(
    name="scale", words="mmlsconfig", command=_command, value=_value, role="spectrum_scale_client"
)


class ScaleKind(
    FileSystemKind[ScaleFileSystem],
    ClientSettings[ScaleFileSystem],
    Degradation[ScaleFileSystem],
    Offers,
    SharedDiskCluster[ScaleFileSystem],
):
    """Spectrum Scale, which its own daemon mounts."""

    spec_model = ScaleFileSystem
    title = "Scale"
    kernel_types = ("gpfs",)

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """The rules of a cluster that can lose a server."""
        return scale_problems(fields)

    def provider_problems(
        self, fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
    ) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Servers that it cannot make in pairs or that are not its to name; packages that it cannot copy."""
        yield from provider_problems(fields, grid, provider)
        yield from pools_of_provider(fields, provider)
        yield from packages_of_cloud(fields, provider)
        yield from nfs_of_provider(fields, grid, provider)

    def findings(self, name: str, filesystem: ScaleFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Pools that no rule puts files in, and NFS that depends on too few or on busy servers."""
        from gridwright.filesystems.scale.cluster import placement_findings

        yield from placement_findings(name, filesystem)
        yield from nfs_findings(name, filesystem)

    def contribute(self, name: str, filesystem: ScaleFileSystem, site: Site) -> Contribution:
        """What the NSD servers deliver to all nodes."""
        from gridwright.filesystems.scale.rates import contribute

        return contribute(name, filesystem, site)

    def parts(self, filesystem: ScaleFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
        """Its servers and targets, as far as they are known."""
        from gridwright.filesystems.scale.rates import parts

        return parts(filesystem, contribution)

    def without(
        self, filesystem: ScaleFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
    ) -> DegradedRates:
        """What is left of it until they are back."""
        from gridwright.filesystems.scale.rates import without

        return without(filesystem, contribution, dead)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """Pairs of servers with the volumes that both reach, where volumes can be shared."""
        from gridwright.filesystems.scale.rates import scale_offers

        return scale_offers(on_sale)

    def playbook_variables(self, filesystems: Sequence[ScaleFileSystem]) -> Mapping[str, object]:
        """Where nodes see it, and what is installed for it: nodes have one release, for all of them."""
        packages = next((filesystem.packages for filesystem in filesystems if filesystem.packages), None)
        release = next((filesystem.release for filesystem in filesystems if filesystem.release), None)
        return {
            "gridwright_scale": [str(filesystem.path) for filesystem in filesystems],
            **({"gridwright_scale_packages": playbook_packages(packages)} if packages else {}),
            **({"gridwright_scale_release": release} if release else {}),
        }

    def tuning_table(self) -> str:
        """Its own configuration."""
        return resources.files("gridwright.filesystems.scale").joinpath("tuning.yaml").read_text("utf-8")

    def tuning_kinds(self) -> Sequence[TuningKind]:
        """Attributes of its configuration."""
        return (TUNING_KIND,)

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The client: the site's packages, and what its configuration should be."""
        role = PlaybookRole(
            name="spectrum_scale_client",
            # Roles run in the order of their tasks: packages are there before the cluster is made.
            task="Install Spectrum Scale, and set it",
            when="gridwright_scale | length > 0",
            package="gridwright.filesystems.scale",
        )
        cluster = PlaybookRole(
            name="spectrum_scale_server",
            task="Make the Spectrum Scale cluster",
            when="gridwright_clusters | default([]) | length > 0",
            package="gridwright.filesystems.scale",
            program="gridwright.filesystems.scale.administration",
        )
        return (role, cluster)

    def requests(self, filesystem: ScaleFileSystem) -> Mapping[type, object]:
        """Itself, which has at least the ports of clients; and the pairs of a site, with its witness."""
        from gridwright.filesystems.provided import SharedDiskServers, request
        from gridwright.filesystems.scale.cluster import named_servers

        named = named_servers(filesystem)
        own = request(SharedDiskServers, filesystem)
        return own if named is None else {**own, **request(NamedServers, named)}

    def cluster_document(
        self,
        grid: str,
        name: str,
        filesystem: ScaleFileSystem,
        machines: Sequence[ClusterMachine],
        disks: Sequence[PairDisk],
    ) -> Mapping[str, Any]:
        """The cluster, with quorum, NSDs and settings."""
        from gridwright.filesystems.scale.cluster import scale_cluster

        return scale_cluster(grid, name, filesystem, machines, disks).document()

    def health(
        self,
        filesystem: ScaleFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """As the node's own monitor, its daemon and the cluster see it. Takes root."""
        from gridwright.filesystems.scale.health import health

        return health(filesystem, run, mount_point)


KIND = ScaleKind()
