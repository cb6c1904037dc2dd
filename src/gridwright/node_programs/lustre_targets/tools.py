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
from gridwright.node_programs.scratch.commands import Ended, run, tool
from gridwright.node_programs.scratch.content import inspect
from gridwright.node_programs.scratch.problems import Trouble

TOOLS = ("mkfs.lustre", "tunefs.lustre", "mount.lustre", "lctl", "wipefs")
_LOOK_S = 60.0
_FORMAT_S = 1800.0
_MOUNT_S = 900.0
"""A target replays its journal, and waits for its clients to come back, for minutes after a failure."""
_PING_S = 15.0
_MOST_SAID = 500
_TRIAL_KIB = 65_536
"""Of a sparse file: mkfs.lustre 2.17 makes no target of 16 MiB, and writes 26 MB to one of this size."""
_TRIAL_NID = "192.0.2.1@tcp"
"""Of the addresses for documentation (RFC 5737): nobody is asked there."""
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

    def cannot_make(self, kind: str) -> str | None:
        """Makes a target in a file and reads it, and says what the tool tells that fails.

        Stock e2fsprogs refuse the features of an MDT, and tunefs.lustre with their libext2fs reads none.
        """
        with tempfile.NamedTemporaryFile(prefix="gridwright-trial-") as file:
            file.truncate(_TRIAL_KIB * 1024)
            trial = DesiredTarget("", kind, 0, "trial", False, Path(file.name))
            *make, path = format_command(file.name, trial, None if kind == "mgt" else _TRIAL_NID)
            for argv in ([*make, f"--device-size={_TRIAL_KIB}", path], _reading(path)):
                ended = run(argv, _LOOK_S)
                if not ended.well:
                    return _failure_of(ended)
        return None

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
        ended = run(_reading(path), _LOOK_S)
        return None if ended.well else _failure_of(ended)

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


def _reading(path: str) -> list[str]:
    return ["tunefs.lustre", "--dryrun", path]


def _failure_of(ended: Ended) -> str:
    """Words of a tool that failed: what it calls fatal, and its last line, which may be that of mke2fs."""
    lines = [each.strip() for each in ended.output.splitlines() if each.strip()]
    words = [each for each in lines if "FATAL" in each]
    return "; ".join(dict.fromkeys([*words, *lines[-1:]]))[:_MOST_SAID] or str(ended)


def _command(argv: list[str], limit_s: float, hint: str) -> None:
    ended = run(argv, limit_s)
    if not ended.well:
        raise ClaimError(Trouble(str(ended), hint))
