"""Decides what is to be done with one disk: mount it, format it because it is blank, or leave it alone.

Pure: what is seen comes in, a verdict comes out. Nothing is ever formatted that is not blank by its content
and by what is written down of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gridwright.node_programs.lustre_targets.device import BLANK, TARGET, UNCLEAR, Device
from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.states import FORMATTED, FORMATTING, NEW
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble


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
