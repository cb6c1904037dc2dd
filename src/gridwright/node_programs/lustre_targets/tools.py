"""Lustre's own tools on this machine, each command with a limit of time."""

from __future__ import annotations

import errno
import re
import tempfile
from pathlib import Path

from gridwright.node_programs.lustre_targets.device import Device, device_of
from gridwright.node_programs.lustre_targets.problems import ClaimError, ManagementSilentError
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.lustre_targets.writing import write
from gridwright.node_programs.scratch.apply import make_mount_point
from gridwright.node_programs.scratch.commands import run, tool
from gridwright.node_programs.scratch.content import inspect
from gridwright.node_programs.scratch.problems import Trouble

TOOLS = ("mkfs.lustre", "tunefs.lustre", "mount.lustre", "lctl", "wipefs")
_LOOK_S = 60.0
_FORMAT_S = 1800.0
_MOUNT_S = 900.0
"""A target replays its journal, and waits for its clients to come back, for minutes after a failure."""
_PING_S = 15.0
_FEATURES_OF_ALL = "dir_nlink,quota,project,huge_file,large_dir"
_FEATURES = {"mdt": f"dirdata,ea_inode,{_FEATURES_OF_ALL}"}
"""What mkfs.lustre asks mke2fs for, as 2.17 does. With dirdata directories keep the identifier of each file
beside its name; Lustre's own e2fsprogs alone know it."""
_TRIED_BYTES = 8 * 2**20
_NO_MGS = "Is the MGS running?"
"""What mount.lustre adds to some errors of a target that it cannot register."""


class LustreTools:
    """Looks at disks, formats and mounts; its program says where files are, and how it is called."""

    mounts = Path("/proc/self/mounts")
    modprobe = Path("/etc/modprobe.d")
    options_file = "61-gridwright-claim.conf"
    writer = "gridwright node claim"
    again = "then start again: systemctl restart gridwright-claim"

    def missing(self) -> tuple[str, ...]:
        """Programs that a server of Lustre needs and that are not there."""
        return tuple(each for each in TOOLS if tool(each) is None)

    def cannot_format(self, kind: str) -> str | None:
        """Stock e2fsprogs refuse what mkfs.lustre(8) wants of an MDT; tried without writing (mke2fs -n)."""
        features = _FEATURES.get(kind, _FEATURES_OF_ALL)
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(_TRIED_BYTES)
            ended = run(["mke2fs", "-n", "-q", "-F", "-t", "ext4", "-O", features, file.name], _LOOK_S)
        return None if ended.well else ended.output.strip()[-200:] or str(ended)

    def nids(self) -> tuple[str, ...]:
        """The addresses of Lustre's network."""
        ended = run(["lctl", "list_nids"], _PING_S)
        return tuple(line for line in ended.output.split() if "@" in line) if ended.well else ()

    def start_network(self, link: str) -> None:
        """Options of the module for the next start, then the network itself."""
        text = f"# Written by {self.writer}. Changes here are lost.\noptions lnet networks=tcp({link})\n"
        write(self.modprobe / self.options_file, text)
        _command(["modprobe", "lnet"], _LOOK_S, "a server needs the kernel that Lustre's packages are for")
        _command(["lctl", "network", "up"], _LOOK_S, "see dmesg for what lnet says; it may be loaded already")

    def reaches(self, nid: str) -> bool:
        """Whether its machine answers: the network of Lustre does that without a management server."""
        return run(["lctl", "ping", nid], _PING_S).well

    def device(self, path: str) -> Device:
        """What it holds, looked at without writing to it."""
        return device_of(path, inspect(path))

    def unreadable(self, path: str) -> str | None:
        """What tunefs.lustre says that does not read the configuration, which mkfs.lustre writes last."""
        ended = run(["tunefs.lustre", "--dryrun", path], _LOOK_S)
        return None if ended.well else ended.output.strip()[-200:] or str(ended)

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of it, as mkfs.lustre(8) has it."""
        hint = f"see dmesg for the volume; {self.again}: what is cut off is made again while it has no label"
        _command(format_command(path, target, mgs), _FORMAT_S, hint)

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where the target belongs; the last line holds."""
        there = None
        for line in self.mounts.read_text(encoding="utf-8", errors="replace").splitlines():
            fields = [
                re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), each) for each in line.split()
            ]
            if len(fields) > 2 and fields[1] == str(target.mount):
                there = fields[0]
        return there

    def mount(self, path: str, target: DesiredTarget) -> None:
        """Start the target."""
        try:
            make_mount_point(target.mount)
        except OSError as error:
            what = f"{target.mount}: {error.strerror}"
            raise ClaimError(
                Trouble(what, "it has to be a directory on a file system of this machine")
            ) from None
        ended = run(["mount", "-t", "lustre", path, str(target.mount)], _MOUNT_S)
        if not ended.well:
            silent = ended.status == errno.ETIMEDOUT or _NO_MGS in ended.output
            kind = ManagementSilentError if silent else ClaimError
            raise kind(Trouble(str(ended), f"see dmesg for what Lustre says; {self.again}"))


def format_command(path: str, target: DesiredTarget, mgs: str | None) -> list[str]:
    """Arguments of mkfs.lustre(8)."""
    argv = ["mkfs.lustre", "--backfstype=ldiskfs"]
    if target.has_mgs:
        argv.append("--mgs")
    if target.kind != "mgt":
        argv += [f"--{target.kind}", f"--fsname={target.fsname}", f"--index={target.index}"]
        argv += [f"--mgsnode={mgs}"] if mgs is not None else []
    return [*argv, path]


def _command(argv: list[str], limit_s: float, hint: str) -> None:
    ended = run(argv, limit_s)
    if not ended.well:
        raise ClaimError(Trouble(str(ended), hint))
