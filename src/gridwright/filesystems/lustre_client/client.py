"""Questions that every kind of Lustre file system answers alike, and the tuning rows of its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from gridwright.errors import Finding
from gridwright.filesystems.kind import (
    ClientSettings,
    FileSystemKind,
    Layouts,
    M,
    MountEntry,
    TargetReports,
    TuningKind,
)
from gridwright.services.playbook_role import PlaybookRole

if TYPE_CHECKING:
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.layout import (
        DesiredLayout,
        FileLayout,
        FileMover,
        LayoutProblem,
        LibraryLayouts,
    )


_SERVERS_LIMIT = {"mdc.*.max_mod_rpcs_in_flight": "mdc.*.import"}
"""Parameters that a server limits, and where the client keeps what it was told when it connected."""


def _command(key: str) -> list[str]:
    return ["lctl", "get_param", key, *filter(None, [_SERVERS_LIMIT.get(key)])]


def bound(printed: str, name: str) -> str | None:
    """The lowest limit of that name among connections, out of `       max_mod_rpcs: 8` of their imports."""
    found = re.findall(rf"^\s+{re.escape(name)}:\s*(\d{{1,9}})\s*$", printed, re.MULTILINE)
    return min(found, key=int, default=None)


def values(printed: str, key: str = "") -> str | None:
    """Out of `osc.scratch-OST0000-osc-ffff.max_dirty_mb=256` a line each, different values with commas.

    Connections of a metadata server to its targets have limits of their own, and are left out. Without root
    some come back empty.
    """
    wanted = key.rpartition(".")[2]
    rows = [line.partition("=") for line in printed.splitlines()]
    found = {
        value.strip()
        for name, _, value in rows
        if value.strip() and "-osc-MDT" not in name and name.endswith(wanted)
    }
    return ", ".join(sorted(found)) or None


TUNING_KINDS = tuple(
    TuningKind(name=name, words="lctl", command=_command, value=values, bound=bound, role=role)
    for name, role in (("lustre-client", "lustre_client"), ("lustre-server", "lustre_server"))
)
"""Servers are set by the role of a provider that makes them."""


_PACKAGE = "gridwright.filesystems.lustre_client"


class LustreClientKind(FileSystemKind[M], ClientSettings[M], Layouts[M], TargetReports):
    """A kind whose nodes are clients of Lustre."""

    kernel_types = ("lustre",)

    def mount_entry(self, filesystem: M, source: str | None = None) -> MountEntry | None:
        """What clients mount; none before it is known where from."""
        source = self.source(filesystem) or source
        if source is None:
            return None
        return MountEntry(
            source=source,
            mount_point=str(filesystem.path),
            type="lustre",
            # Without flock, fcntl locks fail with ENOSYS or hold on one node only (mount.lustre(8)).
            options=("flock", "noatime", "_netdev"),
        )

    def source(self, filesystem: M) -> str | None:
        """What the spec says that clients mount."""
        return None

    def tuning_table(self) -> str:
        """Mount options, and parameters of clients and servers."""
        return resources.files(_PACKAGE).joinpath("tuning.yaml").read_text("utf-8")

    def tuning_kinds(self) -> Sequence[TuningKind]:
        """Parameters of clients, and of servers that the provider makes."""
        return TUNING_KINDS

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The client: its packages, parameters and mounts."""
        role = PlaybookRole(
            name="lustre_client",
            task="Mount Lustre",
            comment="A server that mounts its own file system can wait for itself when memory is short.",
            when="gridwright_mounts | selectattr('type', 'equalto', 'lustre') | list | length > 0 "
            "and not gridwright_serves_lustre",
            package=_PACKAGE,
        )
        return (role,)

    def health(
        self, filesystem: M, run: Run, mount_point: str, *, nic_bytes_per_s: float | None = None
    ) -> Health:
        """As a client, or a server of it, sees it. Takes root."""
        from gridwright.filesystems.lustre_client.health import health

        return health(run, mount_point, self.source(filesystem))

    def no_space(self, run: Run, mount_point: str, path: str) -> str | None:
        """The full targets that the file lies on."""
        from gridwright.filesystems.lustre_client.health import no_space

        return no_space(run, mount_point, path)

    def unreached(self, run: Run, mount_point: str) -> str | None:
        """Its targets by their connections; takes root."""
        from gridwright.filesystems.lustre_client.health import unreached

        return unreached(run, mount_point)

    def layout(self, filesystem: M | None, run: Run, path: str) -> FileLayout:
        """As the metadata server tells it."""
        from gridwright.filesystems.lustre_client.layout import read_layout

        return read_layout(run, path)

    def layout_command(self, filesystem: M, layout: FileLayout, directory: str) -> list[str]:
        """`lfs setstripe`."""
        from gridwright.filesystems.lustre_client.layout import set_layout_command

        return set_layout_command(layout, directory)

    def target_space(self, filesystem: M, run: Run, mount_point: str) -> Sequence[TargetSpace]:
        """As `lfs df` tells it."""
        from gridwright.filesystems.lustre_client.targets import target_space

        return target_space(run, mount_point)

    def printed_target_space(self, text: str, where: str) -> Mapping[str, Sequence[TargetSpace]]:
        """Out of what `lfs df` printed."""
        from gridwright.filesystems.lustre_client.targets import parse_target_space

        return parse_target_space(text, where)

    def layout_problems(self, layout: FileLayout) -> Sequence[LayoutProblem]:
        """What `lfs setstripe` would refuse, or quietly change."""
        from gridwright.filesystems.lustre_client.layout import layout_problems

        return layout_problems(layout)

    def set_layout(self, filesystem: M | None, run: Run, directory: str, layout: FileLayout) -> FileLayout:
        """By `lfs setstripe`; directories made in it inherit it."""
        from gridwright.filesystems.lustre_client.layout import apply_layout

        return apply_layout(run, directory, layout)

    def mover(self, filesystem: M, run: Run) -> FileMover:
        """By `lfs migrate`."""
        from gridwright.filesystems.lustre_client.layout import LustreMover
        from gridwright.filesystems.lustre_client.parameters import file_system_name

        return LustreMover(run, file_system_name(self.source(filesystem) or ""))

    def default_layout(self, filesystem: M) -> FileLayout:
        """Small files on one target, large ones on all."""
        from gridwright.filesystems.lustre_client.layout import ADVISED

        return ADVISED

    def library_layouts(self, filesystem: M, run: Run, directory: str) -> LibraryLayouts | None:
        """By a scan where this Gridwright and the file system are."""
        from gridwright.filesystems.lustre_client.library_findings import library_layouts

        return library_layouts(run, directory)

    def library_findings(self, filesystem: M, run: Run, directory: str, wish: DesiredLayout) -> list[Finding]:
        """What a scan of its layouts shows."""
        from gridwright.filesystems.lustre_client.library_findings import library_findings

        return library_findings(run, directory, wish)
