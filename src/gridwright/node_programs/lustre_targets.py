"""Targets of Lustre on disks of the machine that serves them: looked at, formatted if blank, mounted.

What the programs of all clouds share; who a machine is, and where it is written down what became of a
volume, is theirs. What is to be done with a disk is decided by a pure function: what is seen comes in, a
verdict comes out. Nothing is ever formatted that is not blank by its content and by what is written down of
it.

This module imports the standard library and `gridwright.node_programs.scratch`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gridwright.node_programs.scratch.apply import make_mount_point
from gridwright.node_programs.scratch.commands import Ended, run, tool
from gridwright.node_programs.scratch.disks import Content, inspect
from gridwright.node_programs.scratch.problems import WRONG_INPUT, JsonReader, ScratchError, Trouble


class ClaimError(ScratchError):
    """A claim that is refused or that failed, with everything that is wrong."""


class ManagementSilentError(ClaimError):
    """A target could not be registered, since no management server runs where it should."""


NEW = "new"
"""The volume was found, and nothing was written to it."""
FORMATTING = "formatting"
"""It was proven blank, and is about to be formatted; nothing was ever stored on it."""
FORMATTED = "formatted"
"""It holds a target, and may hold data: it is never formatted again."""
STATES = (NEW, FORMATTING, FORMATTED)


Paths = TypeVar("Paths")
KINDS = ("mgt", "mdt", "ost")
"""In the order in which they are mounted: who registers needs the management server."""
MACHINE = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A name of a machine or a grid."""
NID = r"[0-9A-Za-z_.-]{1,253}@[a-z0-9]{1,15}"
_FSNAME = r"[A-Za-z0-9_-]{1,8}"
"""mkfs.lustre(8), --fsname."""
_MOST_INDEX = 0xFFFE
TARGET_KEYS = frozenset({"name", "kind", "index", "fsname", "with_mgt", "mount"})


@dataclass(frozen=True)
class DesiredTarget:
    """One target of a Lustre, on a volume of its own."""

    name: str
    """The tag of its volume, and the label of its file system: MGS, shared-MDT0000, shared-OST0003."""
    kind: str
    index: int
    fsname: str
    with_mgt: bool
    mount: Path

    @property
    def has_mgs(self) -> bool:
        """Whether the management server is on it."""
        return self.kind == "mgt" or self.with_mgt


def in_order(targets: list[DesiredTarget]) -> tuple[DesiredTarget, ...]:
    """As they are mounted: the one with the management server first, metadata before objects."""
    return tuple(sorted(targets, key=lambda each: (not each.has_mgs, KINDS.index(each.kind), each.index)))


def json_of(path: Path, absent: str, damaged: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What a file holds. Raises ClaimError (status 2) with one of the two remedies."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "it is no regular file")  # A pipe might be waited for without end.
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClaimError(Trouble(f"{path}: {error.strerror}", absent), status=WRONG_INPUT) from None
    except (ValueError, RecursionError) as error:
        raise ClaimError(Trouble(f"{path}: not JSON: {error}", damaged), status=WRONG_INPUT) from None


class TargetReader(JsonReader):
    """Reads files that name targets."""

    example = Path("/srv/gridwright/shared-OST0000")
    more: frozenset[str] = frozenset()
    """Keys that a target has beside its own."""

    def target(self, data: Any, where: str) -> DesiredTarget:  # noqa: ANN401 - whatever JSON holds
        """One target."""
        given = self.mapping(data, where, {*TARGET_KEYS, *self.more})
        kind = given.get("kind")
        if kind not in KINDS:
            self.wrong(f"{where}.kind", kind, ", ".join(KINDS))
            kind = "ost"
        index = given.get("index")
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= _MOST_INDEX:
            self.wrong(f"{where}.index", index, f"a whole number from 0 to {_MOST_INDEX}")
            index = 0
        with_mgt = given.get("with_mgt", False)
        if not isinstance(with_mgt, bool):
            self.wrong(f"{where}.with_mgt", with_mgt, "true or false")
        return DesiredTarget(
            name=self.text(given, "name", r"[A-Za-z0-9_-]{1,16}", "a label, such as shared-OST0000", where),
            kind=kind,
            index=index,
            fsname=self.text(
                given, "fsname", _FSNAME, "the name of a Lustre, of at most 8 characters", where
            ),
            with_mgt=with_mgt is True,
            mount=self.path(given.get("mount"), f"{where}.mount"),
        )

    def once(self, where: str, values: Sequence[str], desired: str) -> None:
        """No value is there twice."""
        for value in sorted({each for each in values if values.count(each) > 1}):
            self.wrong(where, value, desired)

    def directories(self, data: Any, kind: type[Paths]) -> Paths:  # noqa: ANN401
        """Paths of a system, a dataclass of them, where they are not where `kind` has them."""
        known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
        given = self.mapping(data, "directories", known)
        return kind(
            **{name: self.path(given[name], f"directories.{name}") for name in given if name in known}
        )

    def text(self, given: Mapping[str, Any], key: str, pattern: str, desired: str, where: str = "") -> str:
        """A text of that form."""
        data = given.get(key)
        if not isinstance(data, str) or not re.fullmatch(pattern, data, re.ASCII):
            self.wrong(f"{where}.{key}".lstrip("."), data, desired)
            return "wrong"
        return data


_EXT_SUPERBLOCK = 0x438
BLANK = "blank"
UNCLEAR = "unclear"
"""Nothing that libblkid knows, and yet not blank."""
TARGET = "target"
"""The superblock of a target of Lustre; `label` names it."""
FOREIGN = "foreign"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Device:
    """A volume as this machine sees it."""

    path: str
    holds: str
    """BLANK, UNCLEAR, TARGET, FOREIGN or UNREADABLE."""
    what: str = ""
    """What it holds, for a message."""
    label: str = ""
    """The target's name, as `shared-OST0000`."""
    registered: bool = False
    """Whether it has been mounted before: the management server knows it."""


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


class SeenDisks(Protocol):
    """Looks at disks, and changes nothing."""

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where the target belongs; None where nothing is."""

    def device(self, path: str) -> Device:
        """What a disk holds."""

    def cannot_make(self, kind: str) -> str | None:
        """What keeps the machine from making and reading targets of a kind."""

    def unreadable(self, path: str) -> str | None:
        """What its tool says of a target that it cannot read; None where it was formatted to the end."""

    def reaches(self, nid: str) -> bool:
        """Whether the machine of a management server answers."""


@dataclass(frozen=True)
class DiskWords:
    """How messages name a volume, in the words of its cloud."""

    volume: str
    """volume vol-0123"""
    meant: str
    """How it is said which target it is for: tagged."""
    restore: str
    """What to do where its data are lost."""
    again: str
    """How the program is started again."""
    silent: str
    """Where to look when the management server does not answer."""


class Act(Enum):
    """What is to be done next with a disk."""

    NOTHING = "nothing"
    NOTE_FORMATTING = "note that it is about to be formatted"
    NOTE_FORMATTED = "note that it holds the target"
    FORMAT = "format"
    MOUNT = "mount"
    AWAIT = "await the management server"


_UNFORMATTED = "has not been formatted with mkfs.lustre"
"""What tunefs.lustre 2.17 says of whatever it does not find the configuration on, and of no device at all."""


@dataclass(frozen=True)
class DiskVerdict:
    """What is to be done, and what is wrong where a wait for the management server does not end."""

    act: Act
    device: Device | None = None
    silence: Trouble | None = None


def verdict(
    seen: SeenDisks, target: DesiredTarget, path: str, state: str, mgs: str | None, words: DiskWords
) -> DiskVerdict:
    """The next thing to do with the disk at `path`, of which `state` is written down.

    `mgs` is the management server elsewhere. Raises ClaimError where it has to be left alone.
    """
    there = seen.mounted(target)
    if there == path:
        return DiskVerdict(Act.NOTHING if state == FORMATTED else Act.NOTE_FORMATTED)
    if there is not None:
        what = f"{there} is mounted on {target.mount}, where {path} with {target.name} belongs"
        raise ClaimError(Trouble(what, f"unmount it: umount {target.mount}; {words.again}"))
    device = seen.device(path)
    if device.holds == TARGET and device.label == target.name:
        return _startable(seen, target, device, state, mgs, words)
    formats = (device.holds, state) in ((BLANK, NEW), (BLANK, FORMATTING), (UNCLEAR, FORMATTING))
    if formats and (said := seen.cannot_make(target.kind)) is not None:
        raise ClaimError(_unable(target, said, words))
    if device.holds == BLANK and state == NEW:
        return DiskVerdict(Act.NOTE_FORMATTING, device)
    if formats:
        return DiskVerdict(Act.FORMAT, device)
    raise ClaimError(_refusal(target, device, state, words))


def _startable(
    seen: SeenDisks, target: DesiredTarget, device: Device, state: str, mgs: str | None, words: DiskWords
) -> DiskVerdict:
    """It holds the target."""
    if state != FORMATTED:
        if (said := seen.unreadable(device.path)) is not None:
            if (why := seen.cannot_make(target.kind)) is not None:
                raise ClaimError(_unable(target, why, words))
            raise ClaimError(_unreadable(target, device, said, words))
        return DiskVerdict(Act.NOTE_FORMATTED, device)
    if target.has_mgs or device.registered or mgs is None:
        return DiskVerdict(Act.MOUNT, device)
    silence = Trouble(
        f"{target.name} has to be registered, and the management server {mgs} does not answer",
        f"{words.silent}; {words.again}",
    )
    return DiskVerdict(Act.MOUNT if seen.reaches(mgs) else Act.AWAIT, device, silence)


def _unable(target: DesiredTarget, said: str, words: DiskWords) -> Trouble:
    return Trouble(
        f"this machine cannot make or read a target such as {target.name}, as a trial in a file "
        f"showed: {said}",
        "it takes Lustre's server packages for the running kernel, and mke2fs and libext2fs of Lustre's own "
        "e2fsprogs (mke2fs -V says wc, as in 1.47.1-wc1): name their repository in "
        f"lustre_server_tools_repository. No volume was formatted; {words.again}",
    )


def _unreadable(target: DesiredTarget, device: Device, said: str, words: DiskWords) -> Trouble:
    """It has the label, and its tool, which reads others, does not read it."""
    if _UNFORMATTED in said:
        return Trouble(
            f"formatting {device.path} ({words.volume}) as {target.name} was cut off, and it has the label "
            f"already: it is not formatted again. tunefs.lustre says: {said}",
            f"nothing was ever stored on it; make it blank: wipefs --all {device.path}; {words.again}",
        )
    return Trouble(
        f"tunefs.lustre does not read {device.path} ({words.volume}), which has the label {target.name}: "
        f"{said}",
        f"see dmesg for the volume; {words.again}",
    )


def _refusal(target: DesiredTarget, device: Device, state: str, words: DiskWords) -> Trouble:
    where = f"{words.volume} ({device.path}), {words.meant} for {target.name},"
    if device.holds == BLANK:
        return Trouble(
            f"{where} is blank, and it was formatted before: its data are lost, or it was swapped",
            f"{words.restore}. Nothing was formatted",
        )
    held = device.what or device.holds
    return Trouble(
        f"{where} holds {held}; it is left alone",
        "see whose it is: if it is not needed, make it blank by hand (wipefs --all, and zeros at both ends); "
        f"{words.again}"
        if state != FORMATTED
        else f"the volume of {target.name} was overwritten or swapped: find the one that holds it",
    )


def write(path: Path, text: str) -> None:
    """Write whole or not at all. Raises ClaimError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ClaimError(Trouble(f"{path}: {error.strerror}", "make room there, then start again")) from None


def require_tools(missing: Collection[str], field: str) -> None:
    """Refuse a machine that lacks tools; `field` of the grid spec names its image. Raises ClaimError."""
    if missing:
        raise ClaimError(
            Trouble(
                f"this machine cannot serve Lustre: {', '.join(missing)} is not installed",
                "install the packages of a Lustre server for the running kernel, or choose an image that has "
                f"them: {field} of the grid spec",
            )
        )


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
