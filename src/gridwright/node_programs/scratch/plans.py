"""The result of planning: for each array its steps, or why there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gridwright.node_programs.scratch.claims import Claim
from gridwright.node_programs.scratch.configuration import DesiredArray
from gridwright.node_programs.scratch.disks import Disk, MdArray
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import State
from gridwright.node_programs.scratch.steps import Step

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
