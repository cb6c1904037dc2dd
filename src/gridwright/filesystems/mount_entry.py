"""What nodes mount for a file system of the spec: fields of fstab(5), the same for all who mount."""

from __future__ import annotations

from dataclasses import dataclass, replace

UNTRUSTED = ("nosuid", "nodev")
"""Neither set-user-ID programs nor device files of the file system count (mount(8)); programs run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountEntry:
    """One line of fstab(5)."""

    source: str
    mount_point: str
    type: str
    """As fstab(5) and mount(8) take it. NFS 4 is `nfs` there, and `nfs4` in /proc/mounts."""
    options: tuple[str, ...]

    @property
    def option_text(self) -> str:
        """The options as one field, with commas."""
        return ",".join(self.options)

    def for_nodes(self, *, suid: bool) -> MountEntry:
        """The same with UNTRUSTED, or without for a file system that the spec trusts; `_netdev` is last."""
        last = tuple(option for option in self.options if option == "_netdev")
        others = tuple(option for option in self.options if option not in (*UNTRUSTED, *last))
        return replace(self, options=(*others, *(() if suid else UNTRUSTED), *last))
