"""The result of planning: for each array its steps, or why there are none.

A step is a command or an action of the program, with its reason and time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gridwright.node_programs.scratch.configuration import DesiredArray
from gridwright.node_programs.scratch.disks import Disk, MdArray
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import HOME, Build, Claim, State

MOUNT_OPTIONS = "noatime,nodev,nosuid"
_MD_S = 60.0
_FORMAT_S = 300.0
_DISCARD_S = 900.0
"""For disks that held something: to discard all of a disk takes seconds to minutes."""
_MOUNT_S = 300.0
"""XFS and ext4 replay their logs while they are mounted."""
_OWN_S = 60.0


@dataclass(frozen=True)
class Step:
    """One thing that is done, or would be."""

    action: str
    """wipe, stop, intend, create, assemble, format, record, tune, mount-point, mount or directories."""
    why: str
    argv: tuple[str, ...] = ()
    """The command; empty where the program does it itself."""
    limit_s: float = _OWN_S
    destroys: tuple[Disk, ...] = ()
    """Disks of which bytes are overwritten."""
    quiet: tuple[str, ...] = ()
    """Disks that udev is kept from meanwhile, so that it does not assemble what was just stopped."""
    build: Build | None = None
    device: str = ""
    """What is stopped, made, formatted or mounted."""
    value: str = ""
    """What is written to `device` by tune."""

    def text(self) -> str:
        """What a person would type, or read."""
        if self.argv:
            return " ".join(self.argv)
        return {
            "intend": "write down what is about to be made",
            "record": "write down what is made",
            "wipe": f"overwrite both ends of {self.device} with zeros",
            "tune": f"echo {self.value} > {self.device}",
            "mount-point": f"make the directory {self.device}, closed to users while nothing is mounted",
            "directories": f"make the directories of {self.device}",
        }[self.action]


def stop(device: str, quiet: tuple[str, ...], why: str) -> Step:
    """Stop an md device that nothing uses."""
    return Step("stop", why, ("mdadm", "--stop", device), _MD_S, quiet=quiet, device=device)


def wipe(disk: Disk, held: str, quiet: tuple[str, ...]) -> Step:
    """Make a disk blank that the user has named."""
    why = f"--wipe names it (serial {disk.serial}, {held})"
    return Step("wipe", why, destroys=(disk,), quiet=quiet, device=disk.path)


def intend(build: Build, quiet: tuple[str, ...]) -> Step:
    """Journal before the deed."""
    return Step("intend", "if this is interrupted, the next start knows its own", build=build, quiet=quiet)


def create(device: str, disks: Sequence[Disk], build: Build) -> Step:
    """Stripe disks. mdadm(8): --run asks no questions; the UUID is ours, so that leftovers are known."""
    argv = (
        "mdadm", "--create", device, "--run", "--level=0", "--metadata=1.2",
        f"--raid-devices={len(disks)}", f"--chunk={build.chunk_bytes // 1024}",
        f"--homehost={HOME}", f"--name={build.name}", f"--uuid={md_uuid_text(build.md_uuid or '')}",
        *(disk.path for disk in disks),
    )  # fmt: skip
    why = f"stripe {len(disks)} disks, {build.chunk_bytes // 1024} KiB on each in turn"
    paths = tuple(disk.path for disk in disks)
    return Step("create", why, argv, _MD_S, tuple(disks), paths, build, device)


def assemble(device: str, disks: Sequence[Disk], uuid: str) -> Step:
    """Put our own array together, of exactly its disks."""
    paths = tuple(disk.path for disk in disks)
    argv = ("mdadm", "--assemble", device, f"--uuid={md_uuid_text(uuid)}", *paths)
    return Step("assemble", "all disks of our array are here", argv, _MD_S, quiet=paths, device=device)


def md_uuid_text(uuid: str) -> str:
    """As mdadm prints it: four groups of eight."""
    digits = uuid.replace("-", "")
    return ":".join(digits[start : start + 8] for start in range(0, 32, 8))


def format_device(device: str, disks: Sequence[Disk], build: Build, *, discard: bool) -> Step:
    """Make the file system, aligned to the stripe (mkfs.xfs(8) su and sw; mke2fs(8) stride and stripe_width).

    Disks of an instance store come trimmed, and Amazon's guide advises not to discard them again; those that
    held something are discarded, which gives a flash disk its free blocks back.
    """
    members = len(disks)
    if build.format == "xfs":
        argv = ["mkfs.xfs", "-f", "-m", f"uuid={build.filesystem_uuid}", "-L", build.name[:12]]
        argv += ["-d", f"su={build.chunk_bytes},sw={members}"] if members > 1 else []
        argv += [] if discard else ["-K"]
    else:
        options = ["discard" if discard else "nodiscard"]
        if members > 1:
            stride = build.chunk_bytes // 4096
            options += [f"stride={stride}", f"stripe_width={stride * members}"]
        # -m 0: the 5 % kept for root guard a root file system, not scratch.
        argv = ["mkfs.ext4", "-F", "-q", "-b", "4096", "-m", "0", "-U", build.filesystem_uuid]
        argv += ["-L", build.name[:16], "-E", ",".join(options)]
    aligned = f", aligned to {members} chunks of {build.chunk_bytes // 1024} KiB" if members > 1 else ""
    why = f"a new, empty {build.format}{aligned}"
    limit = _DISCARD_S if discard else _FORMAT_S
    return Step("format", why, (*argv, device), limit, tuple(disks), build=build, device=device)


def record(build: Build, why: str) -> Step:
    """Remember what stands."""
    return Step("record", why, build=build)


def tune(path: str, value: str, why: str) -> Step:
    """Write one value of a queue."""
    return Step("tune", why, device=path, value=value)


def mount(device: str, array: DesiredArray) -> tuple[Step, Step]:
    """Mount it, on a directory that nobody writes to while it is not mounted."""
    point = str(array.mount_point)
    closed = Step("mount-point", "jobs must not fill the root disk when the mount is missing", device=point)
    argv = ("mount", "-t", array.format, "-o", MOUNT_OPTIONS, device, point)
    why = "reading leaves no writes behind (noatime); devices and setuid have no place on scratch"
    return closed, Step("mount", why, argv, _MOUNT_S, device=device)


def directories(array: DesiredArray) -> Step:
    """Owner and mode of its root, and the directories of libraries."""
    names = ", ".join(directory.path for directory in array.directories) or "its root"
    return Step("directories", f"owner and mode as configured: {names}", device=str(array.mount_point))


MOUNTED, MOUNT, MAKE, REBUILD, FINISH, REFUSED = "mounted", "mount", "make", "rebuild", "finish", "refused"


@dataclass(frozen=True)
class ArrayPlan:
    """What is to be done for one array of the configuration."""

    desired: DesiredArray
    case: str
    """mounted: nothing to do. mount: ours is whole. make: the first time. rebuild: what it held is lost.
    finish: an interrupted build goes on. refused: `troubles` says why, and nothing is done."""
    disks: tuple[Disk, ...] = ()
    """Its members, in the order of the stripe."""
    device: str = ""
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What is to be done on this machine."""

    arrays: tuple[ArrayPlan, ...]
    claims: Mapping[str, Claim]
    """How each disk stands that a rule fits, by name."""
    troubles: tuple[Trouble, ...] = ()
    """What stops everything, such as a disk named to be wiped that must not be."""

    def steps(self) -> tuple[Step, ...]:
        """All steps, in their order."""
        return tuple(step for array in self.arrays for step in array.steps)


@dataclass(frozen=True)
class Case:
    """All that the plan of one array is made from."""

    desired: DesiredArray
    candidates: tuple[Claim, ...]
    """Disks that it may have: of its own, blank ones, and those of others that are in its way."""
    wiped: frozenset[str]
    """Names of the disks that the user has named to be wiped."""
    state: State
    machine: Machine
    free_device: str
    """An md device that is not there yet."""
    new_uuid: Callable[[], str]
    now: str

    def refused(self, *troubles: Trouble, notes: tuple[str, ...] = ()) -> ArrayPlan:
        """Nothing is done, and why."""
        return ArrayPlan(self.desired, REFUSED, notes=notes, troubles=troubles)

    def holding(self, names: frozenset[str]) -> tuple[MdArray, ...]:
        """Md devices that hold any of these disks."""
        return tuple(array for array in self.machine.arrays if names & set(array.members))


def listed(claims: tuple[Claim, ...]) -> str:
    """Each disk with what is on it, for a message."""
    return "; ".join(f"{claim.disk.path} (serial {claim.disk.serial}): {claim.found}" for claim in claims)


def wipes(claims: tuple[Claim, ...]) -> str:
    """The flags that name these disks."""
    return " ".join(f"--wipe {claim.disk.path}" for claim in claims)
