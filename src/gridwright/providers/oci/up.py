"""`up` by Resource Manager: storage first, then the grid with what the storage told."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, Problem, input_error, nearest
from gridwright.providers.caller import Caller
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.names import GRID, GRID_TAG, PART_TAG, STORAGE, stack_name
from gridwright.providers.oci.planned_changes import (
    PlannedChange,
    changed_outputs,
    is_of,
    planned_changes,
    told,
)
from gridwright.providers.oci.resource_manager import POLL_S, ResourceManager
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.stack_archive import root_files, stack_archive, unprotected, with_outputs
from gridwright.providers.oci.up_result import OciUp
from gridwright.spec.model import GridSpec


def section_of(spec: GridSpec, verb: str) -> Oci:
    """The spec's section oci. Raises GridwrightError where `verb` cannot work with it."""
    where = str(spec.file) if spec.file else None
    oci = spec.section(Oci)
    if oci is None:
        raise input_error(f"{verb} needs section oci", where=where, remedy="see gridwright help oci")
    if oci.deploy != "resource-manager":
        raise input_error(
            f"this release carries out {verb} by Resource Manager, and oci.deploy is {oci.deploy}",
            where=where,
            remedy=f"write deploy: resource-manager; or run gridwright render, then {oci.deploy} there",
        )
    return oci


def up(spec: GridSpec, caller: Caller, replace: frozenset[str], *, poll_s: float = POLL_S) -> OciUp:
    """Make the grid, or bring what is there to what the spec says. Raises GridwrightError."""
    started = time.monotonic()
    oci = section_of(spec, "up")
    files, _, _ = oci_files(spec)
    cloud = OciCloud(str(spec.region))
    work = _Up(spec, ResourceManager(cloud, oci.compartment, caller, poll_s=poll_s), replace)
    made = work.manager.find(stack_name(spec.name, GRID)) is None
    work.check_names()
    storage = work.bring(STORAGE, root_files(files, STORAGE))
    outputs = work.manager.outputs(storage)
    grid = work.bring(GRID, with_outputs(root_files(files, GRID), outputs), {"tenancy_ocid": cloud.tenancy})
    known = work.manager.outputs(grid)
    return OciUp(
        grid=spec.name,
        region=cloud.region,
        made=made,
        changes=tuple(work.changes),
        login=known.get("login"),
        seconds=time.monotonic() - started,
        file=caller.file,
    )


@dataclass
class _Up:
    spec: GridSpec
    manager: ResourceManager
    replace: frozenset[str]
    changes: list[PlannedChange] = field(default_factory=list)

    def bring(self, part: str, files: dict[str, bytes], variables: dict[str, str] | None = None) -> Any:  # noqa: ANN401
        """Plan, show, refuse or apply; the stack."""
        manager, name = self.manager, stack_name(self.spec.name, part)
        tags = {GRID_TAG: self.spec.name, PART_TAG: part}
        if self.replace:
            files = unprotected(files, ROOT_FILE, self._is_named)
        manager.caller.go_on()
        manager.caller.say(f"{name}: planning")
        stack = manager.put(manager.find(name), name, stack_archive(files), tags, variables or {})
        job, plan = manager.plan(stack)
        found = planned_changes(name, plan)
        if not found and not changed_outputs(plan):
            manager.caller.say(f"{name}: nothing changes")
            return stack
        manager.caller.say(f"{name}: what changes:")
        for line in told(found):
            manager.caller.say(f"  {line}")
        self._refuse_losses(found)
        manager.caller.go_on()
        manager.apply(stack, job)
        self.changes += found
        return stack

    def _is_named(self, name: str) -> bool:
        return any(is_of(name, self.spec.name, each) for each in self.replace)

    def check_names(self) -> None:
        """Names of --replace are file systems of the spec, or of what is there. Raises GridwrightError."""
        unknown = sorted(self.replace - set(self.spec.filesystems))
        storage = self.manager.find(stack_name(self.spec.name, STORAGE)) if unknown else None
        there = self.manager.outputs(storage).get("volumes", {}) if storage is not None else {}
        known = sorted(self.spec.filesystems)
        problems = [
            Problem(
                f"grid {self.spec.name} has no file system {name}",
                where="--replace",
                remedy=f"did you mean {nearest(name, known) or ' or '.join(known)}?",
            )
            for name in unknown
            if not any(is_of(each, self.spec.name, name) for each in there)
        ]
        if problems:
            raise GridwrightError(*problems)

    def _refuse_losses(self, found: Iterable[PlannedChange]) -> None:
        lost = [each for each in found if each.destroys_data and not self._is_named(each.name)]
        if lost:
            raise GridwrightError(
                *(
                    Problem(
                        f"{each.verb} {each.address} would destroy the data on {each.name}",
                        where=each.stack,
                        remedy="undo the change, or have its file system made anew, empty, by --replace NAME",
                    )
                    for each in lost
                )
            )
