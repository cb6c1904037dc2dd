"""`up`: storage first, then the grid with what the storage told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error, nearest
from gridwright.providers.caller import Caller
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import Deployer, outputs
from gridwright.providers.oci.detaching import detach
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.head import login_user
from gridwright.providers.oci.known_state import unknown_grid
from gridwright.providers.oci.layout import OciLayout, oci_layout
from gridwright.providers.oci.machines_ready import OciMachinesReady, stopped
from gridwright.providers.oci.names import GRID, GRID_TAG, PART_TAG, STORAGE, stack_name
from gridwright.providers.oci.planned_changes import (
    INSTANCE,
    VOLUME,
    PlannedChange,
    changed_outputs,
    is_of,
    planned_changes,
    told,
)
from gridwright.providers.oci.preflight.looking import preflight
from gridwright.providers.oci.resource_manager import POLL_S
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCloud
from gridwright.providers.oci.stack_archive import root_files, unprotected, with_outputs
from gridwright.providers.oci.stopping import shut_down
from gridwright.providers.oci.terraform.boot import bundle_keys
from gridwright.providers.oci.up_result import OciUp
from gridwright.spec.model import GridSpec


def section_of(spec: GridSpec, verb: str) -> Oci:
    """The spec's section oci. Raises GridwrightError where `verb` cannot work with it."""
    where = str(spec.file) if spec.file else None
    oci = spec.section(Oci)
    if oci is None:
        raise input_error(f"{verb} needs section oci", where=where, remedy="see gridwright help oci")
    return oci


def up(spec: GridSpec, caller: Caller, replace: frozenset[str], *, poll_s: float = POLL_S) -> OciUp:
    """Make the grid, or bring what is there to what the spec says. Raises GridwrightError."""
    started = time.monotonic()
    oci = section_of(spec, "up")
    layout = oci_layout(spec)
    files, _, _ = oci_files(spec)
    cloud = OciCloud(str(spec.region))
    deployer = deployer_of(spec, oci, cloud, caller, poll_s=poll_s)
    with deployer.held():
        work = _Up(spec, layout, cloud, deployer, replace, poll_s)
        made = deployer.find(stack_name(spec.name, GRID)) is None
        work.check_names()
        if unknown := list(unknown_grid(spec, cloud, deployer)):
            raise GridwrightError(*unknown, status=ExitStatus.ENVIRONMENT)
        if made:
            preflight(spec, layout, cloud).refuse()
        storage = work.bring(STORAGE, root_files(files, STORAGE))
        told_by = outputs(deployer.state(storage))
        tenancy = {"tenancy_ocid": cloud.tenancy}
        grid = work.bring(GRID, with_outputs(root_files(files, GRID), told_by), tenancy)
        known = outputs(deployer.state(grid))
    bundles = bundle_keys(json.loads(files[f"{GRID}/{ROOT_FILE}"]))
    OciMachinesReady(
        cloud, caller, layout, bundles, known["instances"], told_by["namespace"], told_by["bucket"],
        poll_s=poll_s, stopped=stopped(cloud, oci.compartment, known["instances"]),
    ).wait()  # fmt: skip
    return OciUp(
        grid=spec.name,
        region=cloud.region,
        made=made,
        changes=tuple(work.changes),
        login=known.get("login"),
        user=login_user(layout),
        seconds=time.monotonic() - started,
        file=caller.file,
    )


@dataclass
class _Up:
    spec: GridSpec
    layout: OciLayout
    cloud: OciCloud
    deployer: Deployer
    replace: frozenset[str]
    poll_s: float
    changes: list[PlannedChange] = field(default_factory=list)

    def bring(self, part: str, files: dict[str, bytes], variables: dict[str, str] | None = None) -> Any:  # noqa: ANN401
        """Plan, show, refuse or apply; the stack."""
        deployer, name = self.deployer, stack_name(self.spec.name, part)
        tags = {GRID_TAG: self.spec.name, PART_TAG: part}
        if self.replace:
            files = unprotected(files, ROOT_FILE, self._is_named)
        deployer.caller.go_on()
        deployer.caller.say(f"{name}: planning")
        stack = deployer.put(deployer.find(name), name, files, tags, variables or {})
        job, plan = deployer.plan(stack)
        found = planned_changes(name, plan)
        if not found and not changed_outputs(plan):
            deployer.caller.say(f"{name}: nothing changes")
            return stack
        deployer.caller.say(f"{name}: what changes:")
        for line in told(found):
            deployer.caller.say(f"  {line}")
        self._refuse_losses(found)
        deployer.caller.go_on()
        self._shut_down(found)
        self._detach(stack, found)
        deployer.apply(stack, job)
        self.changes += found
        return stack

    def _shut_down(self, found: Iterable[PlannedChange]) -> None:
        """Have machines that the plan takes away, or makes anew, write what they have to their volumes."""
        going = {
            each.name for each in found if each.type == INSTANCE and each.verb in ("remove", "make anew")
        }
        if going:
            compartment, caller = self.layout.oci.compartment, self.deployer.caller
            shut_down(self.cloud, compartment, self.layout, caller, self.poll_s, only=going)

    def _detach(self, stack: Any, found: Iterable[PlannedChange]) -> None:  # noqa: ANN401
        """Detach block volumes that the plan removes."""
        gone = {each.name for each in found if each.type == VOLUME and each.destroys_data}
        if gone:
            known = outputs(self.deployer.state(stack)).get("volumes", {})
            lost = {ocid for name, ocid in known.items() if name in gone}
            detach(self.cloud, self.layout.oci.compartment, lost, self.deployer.caller, self.poll_s)

    def _is_named(self, name: str) -> bool:
        return any(is_of(name, self.spec.name, each) for each in self.replace)

    def check_names(self) -> None:
        """Names of --replace are file systems of the spec, or of what is there. Raises GridwrightError."""
        unknown = sorted(self.replace - set(self.spec.filesystems))
        storage = self.deployer.find(stack_name(self.spec.name, STORAGE)) if unknown else None
        there = outputs(self.deployer.state(storage)).get("volumes", {}) if storage is not None else {}
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
