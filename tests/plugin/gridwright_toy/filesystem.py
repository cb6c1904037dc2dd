"""The file system `toyfs`: a server that nodes mount with a client of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from gridwright.api import (
    NEW_KIND,
    OPERATIONS,
    Change,
    ClientSettings,
    Condition,
    Contribution,
    Delivery,
    FileSystem,
    FileSystemKind,
    Finding,
    Health,
    MountEntry,
    PlaybookRole,
    Ports,
    Resource,
    Route,
    ServerPorts,
    TuningKind,
    Update,
    Use,
)

if TYPE_CHECKING:
    from gridwright.api import Run, Site

BROKEN_MARK = ".toyfs-broken"
"""A file that the toy server leaves where it lost a disk."""


TUNING_KIND = TuningKind(
    name="toyfs",
    words="toyctl",
    command=lambda key: ["toyctl", "get", key],
    value=lambda printed, key: printed.removeprefix(f"{key} ").strip() or None,
    role="toyfs_client",
)
"""Settings of the toy client: `toyctl get read-ahead` prints `read-ahead 16`."""


class ToyFileSystem(FileSystem):
    """A toy file system as the grid spec describes it."""

    type: Annotated[Literal["toyfs"], NEW_KIND] = Field(
        description="The kind of file system: toyfs is the toy server of the site."
    )
    server: Annotated[str, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        description="Host name of the toy server."
    )
    delivers: Annotated[Delivery, Update(Change.LIVE, "only predictions read it")] = Field(
        description="What the toy server delivers to all nodes together."
    )


class ToyKind(FileSystemKind[ToyFileSystem], ClientSettings[ToyFileSystem]):
    """What Gridwright asks of a toy file system."""

    spec_model = ToyFileSystem
    title = "ToyFS"
    kernel_types = ("fuse.toyfs",)

    def contribute(self, name: str, filesystem: ToyFileSystem, site: Site) -> Contribution:
        """What the server delivers to all nodes, behind the network of each."""
        routes = {}
        for operation in OPERATIONS:
            rate = getattr(filesystem.delivers, operation)
            if rate is not None:
                server = Resource(
                    f"{name}.server-{operation}",
                    f"toy server {filesystem.server} ({rate} {operation})",
                    "grid",
                    rate.bytes_per_s,
                    "the grid spec",
                )
                routes[operation] = Route((*site.nodes.network(operation), Use(server)))
        return Contribution(routes, outlives_server=False)

    def mount_entry(self, filesystem: ToyFileSystem, source: str | None = None) -> MountEntry:
        """What nodes mount: the toy client takes the host name alone."""
        return MountEntry(
            source=source or filesystem.server,
            mount_point=str(filesystem.path),
            type="fuse.toyfs",
            options=("nofail", "_netdev"),
        )

    def tuning_table(self) -> str:
        """Its mount options, and settings of its client."""
        return resources.files("gridwright_toy").joinpath("tuning.yaml").read_text("utf-8")

    def tuning_kinds(self) -> Sequence[TuningKind]:
        """Settings of its client."""
        return (TUNING_KIND,)

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The toy client."""
        role = PlaybookRole(
            name="toyfs_client",
            task="Set up the toy client",
            when="gridwright_mounts | selectattr('type', 'equalto', 'fuse.toyfs') | list | length > 0",
            package="gridwright_toy",
        )
        return (role,)

    def servers_elsewhere(self, filesystem: ToyFileSystem) -> Iterator[ServerPorts]:
        """The port of the toy server, for firewalls of a cloud."""
        yield ServerPorts(Ports("Toyfs", 7070, 7070), "toy servers that are there already", filesystem.server)

    def health(
        self, filesystem: ToyFileSystem, run: Run, mount_point: str, *, nic_bytes_per_s: float | None = None
    ) -> Health:
        """Broken where the server says that it lost a disk."""
        answer = run(["test", "-e", f"{mount_point}/{BROKEN_MARK}"], timeout_s=5)
        if answer.status != 0:
            return Health(condition=Condition.HEALTHY, findings=[])
        lost = Finding(
            "error",
            "toyfs-lost-disk",
            f"{filesystem.server} lost a disk",
            "replace it; toyfs heal brings it back",
        )
        return Health(condition=Condition.BROKEN, findings=[lost])


KIND = ToyKind()
