"""The kind of Lustre on servers of one's own: there already, or built by the provider."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridwright.errors import Finding
from gridwright.filesystems.kind import (
    Changelogs,
    CloudFindings,
    Degradation,
    LazyLoad,
    Offers,
    ServerPorts,
)
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.lustre_client.client import LustreClientKind
from gridwright.filesystems.lustre_client.fields import LNET, NOBODY, NOT_SQUASHED
from gridwright.filesystems.service_model import SERVICE_FIELDS, service_problems
from gridwright.services.playbook_role import PlaybookRole
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.health import Run
    from gridwright.filesystems.layout import FileLayout
    from gridwright.filesystems.offers import Offer, OnSale
    from gridwright.filesystems.resources import Contribution, DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.site import Site
    from gridwright.spec.library import Library
    from gridwright.spec.model import GridSpec

_ON_CREDITS = re.compile(r"t[0-9]")


class LustreKind(
    LustreClientKind[LustreFileSystem],
    Changelogs[LustreFileSystem],
    CloudFindings[LustreFileSystem],
    Degradation[LustreFileSystem],
    LazyLoad[LustreFileSystem],
    Offers,
):
    """Lustre with a source that nodes mount, or with servers that are described."""

    spec_model = LustreFileSystem
    title = "Lustre"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """It is mounted from servers that are there, or built on servers that are described."""
        if fields.get("source") is None and fields.get("oss") is None:
            yield (
                (),
                FieldError(
                    "a Lustre has neither source nor oss, so it can be neither mounted nor built",
                    "write what nodes mount, such as source: 10.0.0.1@tcp:/scratch, "
                    "or describe its servers under oss",
                ),
            )
        if fields.get("oss") is not None:
            for name in (each for each in SERVICE_FIELDS if fields.get(each) is not None):
                yield (
                    (name,),
                    FieldError(
                        f"{name} is of a Lustre that is a service, and oss describes servers of one's own",
                        f"remove {name}, or oss and what belongs to it",
                    ),
                )
        yield from service_problems(fields)

    def findings(self, name: str, filesystem: LustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Servers without metadata."""
        if filesystem.is_built and filesystem.mds is None:
            yield Finding(
                "warning",
                "no-metadata-server",
                f"Lustre {name} has no metadata server: it cannot be built, and its cost is too low",
                f"Add mds: {{instance: m5.4xlarge, disks: {{type: gp3, size: 500 GiB}}}} to {name}",
            )

    def cloud_findings(self, name: str, filesystem: LustreFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Root on all nodes, and servers that become slow."""
        if not filesystem.is_built:
            return
        if filesystem.root_squash == NOT_SQUASHED:
            yield Finding(
                "warning",
                "root-not-squashed",
                f"root of every node is root of {name}: whoever becomes root on one node reads and changes "
                "what everybody has there",
                f"Leave root_squash out of {name}, or write a UID and a GID, such as {NOBODY}",
            )
        for role, servers in filesystem.server_groups.items():
            if _ON_CREDITS.match(servers.instance):
                yield Finding(
                    "warning",
                    "server-on-credits",
                    f"the {role.upper()} of {name} are {servers.instance}: processor, network and volumes "
                    "are slow once their credits are spent",
                    "Choose a type without credits, such as one of m6i",
                )

    def contribute(self, name: str, filesystem: LustreFileSystem, site: Site) -> Contribution:
        """What the OSS deliver to all nodes."""
        from gridwright.filesystems.lustre.rates import contribute

        return contribute(name, filesystem, site)

    def parts(self, filesystem: LustreFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
        """Its servers and targets, as far as they are known."""
        from gridwright.filesystems.lustre.rates import parts

        return parts(filesystem, contribution)

    def without(
        self, filesystem: LustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
    ) -> DegradedRates:
        """What is left of it until they are back."""
        from gridwright.filesystems.lustre.rates import without

        return without(filesystem, contribution, dead)

    def copytool_findings(
        self, filesystem: LustreFileSystem, run: Run, mount_point: str, archives: Collection[int]
    ) -> list[Finding]:
        """What coordinators on this node say, if it is a metadata server."""
        from gridwright.filesystems.lustre_client.health import copytool_findings

        return copytool_findings(run, mount_point, filesystem.source, archives)

    def changelog_source(self, filesystem: LustreFileSystem) -> str | None:
        """Of one that is there already: servers that the provider builds are set up by themselves."""
        from gridwright.filesystems.lustre_client.parameters import file_system_name

        return file_system_name(filesystem.source) if filesystem.source else None

    def changelog_findings(
        self, filesystem: LustreFileSystem, run: Run, mount_point: str, users: Collection[str]
    ) -> list[Finding]:
        """What changelogs of MDTs on this node keep, and for whom."""
        from gridwright.filesystems.lustre_client.health import changelog_findings

        return changelog_findings(run, mount_point, filesystem.source, users)

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """Those of clients, and what registers users of changelogs."""
        role = PlaybookRole(
            name="lustre_changelog",
            task="Register with changelogs",
            comment="On each host that serves an MDT, whatever group it is in.",
            when="gridwright_changelogs is defined",
            package="gridwright.filesystems.lustre",
        )
        return (*super().playbook_roles(), role)

    def stated_layout(self, filesystem: LustreFileSystem, library: Library) -> FileLayout | None:
        """The library's own, else by the stripe count of the file system."""
        from gridwright.filesystems.lustre_client.layout import stated_layout

        return stated_layout(library.layout, filesystem.stripe_count)

    def offers(self, on_sale: OnSale) -> Sequence[Offer]:
        """Servers of the instance types that are on sale."""
        from gridwright.filesystems.lustre.rates import lustre_offers

        return lustre_offers(on_sale)

    def source(self, filesystem: LustreFileSystem) -> str | None:
        """Of one that is there already."""
        return filesystem.source

    def requests(self, filesystem: LustreFileSystem) -> Mapping[type, object]:
        """Servers of one that does not exist yet."""
        from gridwright.filesystems.provided import LustreServers, request

        return request(LustreServers, filesystem) if filesystem.is_built else {}

    def servers_elsewhere(self, filesystem: LustreFileSystem) -> Iterator[ServerPorts]:
        """Those of one that is there; its source names the management server alone, so any may answer."""
        if not filesystem.is_built:
            yield ServerPorts(LNET[0], "Lustre servers that are there already")


KIND = LustreKind()
