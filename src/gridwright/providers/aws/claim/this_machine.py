"""The machine of a claim: this one. Every command has a limit of time."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import tempfile
import time
from typing import Any

from gridwright.node_programs.scratch.apply import make_mount_point
from gridwright.node_programs.scratch.commands import run, tool
from gridwright.node_programs.scratch.content import inspect
from gridwright.node_programs.scratch.disks import Content
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Configuration, DesiredTarget
from gridwright.providers.aws.claim.instance_metadata import Metadata
from gridwright.providers.aws.claim.machine import (
    BLANK,
    FOREIGN,
    TARGET,
    UNCLEAR,
    UNREADABLE,
    Device,
    Identity,
)
from gridwright.providers.aws.claim.network import Network
from gridwright.providers.aws.claim.problems import ClaimError, ManagementSilentError
from gridwright.providers.aws.claim.writing import write

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
_EXT_SUPERBLOCK = 0x438
_AGAIN = "then start again: systemctl restart gridwright-claim"


class ThisMachine:
    """See `machine.Machine`."""

    def __init__(self, configuration: Configuration, metadata: Metadata | None = None) -> None:
        self._at = configuration.directories
        self._metadata = metadata or Metadata()
        self._network = Network(configuration.directories, self._metadata)
        region = self._metadata.region()
        if region != configuration.region:
            raise ClaimError(
                Trouble(
                    f"this instance runs in {region}, "
                    f"and grid {configuration.grid} is in {configuration.region}",
                    "a claim file belongs to the machines of its grid; nothing was claimed",
                )
            )

    def instance(self) -> str:
        """The ID of this instance."""
        return self._metadata.instance()

    def identity(self) -> Identity | None:
        """What it has been named since it started; None before."""
        path = self._at.run / "node.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Identity(str(data["name"]), str(data["address"]), int(data["token"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"{path} is not what a claim writes there: {error}"
            raise ClaimError(Trouble(what, f"remove it; {_AGAIN}")) from None

    def name(self, identity: Identity) -> None:
        """Remember who it is until it is switched off."""
        document = {
            "schema": 1,
            "name": identity.name,
            "address": identity.address,
            "token": identity.token,
        }
        write(self._at.run / "node.json", json.dumps(document) + "\n")

    def link(self, mac: str) -> str | None:
        """The name of a network interface."""
        return self._network.link(mac)

    def is_configured(self, link: str, address: str) -> bool:
        """Whether the interface is up as configured."""
        return self._network.is_configured(link, address)

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up with its address, and route by source."""
        self._network.configure(link, mac, address)

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
        text = (
            f"# Written by gridwright node claim. Changes here are lost.\noptions lnet networks=tcp({link})\n"
        )
        write(self._at.modprobe / "61-gridwright-claim.conf", text)
        _command(["modprobe", "lnet"], _LOOK_S, "a server needs the kernel that Lustre's packages are for")
        _command(["lctl", "network", "up"], _LOOK_S, "see dmesg for what lnet says; it may be loaded already")

    def reaches(self, nid: str) -> bool:
        """Whether its machine answers: the network of Lustre does that without a management server."""
        return run(["lctl", "ping", nid], _PING_S).well

    def device(self, path: str) -> Device:
        """What it holds, looked at without writing to it."""
        return device_of(path, inspect(path))

    def path(self, volume: str, name: str) -> str | None:
        """By what the disk itself says it is: names such as nvme1n1 change from start to start."""
        serial = volume.replace("-", "")
        nitro = False
        for entry in sorted((self._at.sys / "block").glob("nvme*")):
            with contextlib.suppress(OSError):
                found = (entry / "device/serial").read_text(encoding="ascii", errors="replace").strip()
                nitro = nitro or found.startswith("vol")
                if found == serial:
                    return str(self._at.dev / entry.name)
        linked = self._at.dev / f"disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}"
        if linked.exists():
            return str(linked.resolve())
        # Machines of the Xen generation have no serials; the name that EC2 was given is the disk's there.
        letters = name.rsplit("/", 1)[-1]
        for each in (letters, re.sub("^sd", "xvd", letters)):
            if not nitro and (self._at.sys / "block" / each).exists():
                return str(self._at.dev / each)
        return None

    def is_whole(self, path: str) -> bool:
        """tunefs.lustre reads the configuration that mkfs.lustre writes last."""
        return run(["tunefs.lustre", "--dryrun", path], _LOOK_S).well

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of it, as mkfs.lustre(8) has it."""
        hint = f"see dmesg for the volume; {_AGAIN}: what is cut off is made again while it has no label"
        _command(format_command(path, target, mgs), _FORMAT_S, hint)

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where the target belongs; the last line holds."""
        there = None
        for line in self._at.mounts.read_text(encoding="utf-8", errors="replace").splitlines():
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
            raise kind(Trouble(str(ended), f"see dmesg for what Lustre says; {_AGAIN}"))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()


def format_command(path: str, target: DesiredTarget, mgs: str | None) -> list[str]:
    """Arguments of mkfs.lustre(8)."""
    argv = ["mkfs.lustre", "--backfstype=ldiskfs"]
    if target.has_mgs:
        argv.append("--mgs")
    if target.kind != "mgt":
        argv += [f"--{target.kind}", f"--fsname={target.fsname}", f"--index={target.index}"]
        argv += [f"--mgsnode={mgs}"] if mgs is not None else []
    return [*argv, path]


def device_of(path: str, content: Content) -> Device:
    """What the readers of scratch storage found, in the words of a claim."""
    if content.error is not None:
        return Device(path, UNREADABLE, content.error)
    # A target that is mounted is busy, and nothing but its label is asked for then.
    label = lustre_label(content.filesystem.label) if content.filesystem is not None else None
    if label is not None and all(offset == _EXT_SUPERBLOCK for offset, _ in content.signatures):
        name, registered = label
        return Device(path, TARGET, f"target {name} of Lustre", name, registered)
    if content.signatures or content.md is not None or content.filesystem is not None:
        named = " and ".join(sorted({kind for _, kind in content.signatures})) or "a superblock"
        own = (
            f" labelled {content.filesystem.label!r}"
            if content.filesystem and content.filesystem.label
            else ""
        )
        return Device(path, FOREIGN, named + own)
    if content.busy:
        return Device(path, FOREIGN, "something that uses it at this moment")
    return Device(path, BLANK) if content.zero_ends else Device(path, UNCLEAR, "data without a signature")


def lustre_label(label: str) -> tuple[str, bool] | None:
    """The target's name, and whether it was registered: mkfs.lustre writes `shared:OST0000` until it is."""
    if label == "MGS":
        return label, True
    found = re.fullmatch(r"([A-Za-z0-9_-]{1,8})([-:=+])((?:OST|MDT)[0-9a-f]{4})", label)
    return (f"{found[1]}-{found[3]}", found[2] != ":") if found else None


def _command(argv: list[str], limit_s: float, hint: str) -> None:
    ended = run(argv, limit_s)
    if not ended.well:
        raise ClaimError(Trouble(str(ended), hint))


def plain(identity: Identity | None) -> dict[str, Any]:
    """For the JSON document."""
    if identity is None:
        return {"name": None, "address": None, "token": None}
    return {"name": identity.name, "address": identity.address, "token": identity.token}
