"""`up`: storage first, then the grid with what the storage told.

Volumes that are to go are detached first: OCI deletes none that a server has.

Waits until every machine of a grid has set itself up with what is there for it now.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.providers.boot.bundle import LOGS, Part
from gridwright.providers.caller import Caller
from gridwright.providers.oci.boot_reports import RESTARTING, BootReports, OciBootReport
from gridwright.providers.oci.deploy.choosing import deployer_of
from gridwright.providers.oci.deploy.deployer import Deployer, outputs
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.head import login_user
from gridwright.providers.oci.known_state import unknown_grid
from gridwright.providers.oci.layout import OciLayout, oci_layout
from gridwright.providers.oci.names import GRID, GRID_TAG, PART_TAG, STORAGE, stack_name
from gridwright.providers.oci.planned_changes import (
    INSTANCE,
    VOLUME,
    PlannedChange,
    change_lines,
    changed_outputs,
    is_of,
    planned_changes,
)
from gridwright.providers.oci.preflight.looking import preflight
from gridwright.providers.oci.resource_manager import POLL_S
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.oci.stack_archive import root_files, unprotected, with_outputs
from gridwright.providers.oci.stopping import shut_down
from gridwright.providers.oci.terraform.boot import bundle_keys
from gridwright.providers.oci.up_result import OciUp
from gridwright.providers.oci.user_data import part_of
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec

QUIET_S = 3600.0
"""So long nothing may be heard of any machine: each tells every ten minutes that it goes on."""
PASSING = frozenset({0, 429, 500, 502, 503, 504})
"""Answers that pass by themselves: none at all, an overload, an outage."""
FAILED_TRIES = 3
"""After so many tries a machine counts as failed, though it goes on: what passes by itself has passed."""


@dataclass
class OciMachinesReady:
    """Which machines are ready, and what was said of them."""

    cloud: OciCloud
    caller: Caller
    layout: OciLayout
    bundles: Mapping[Part, str]
    """Key of the bundle of each part."""
    instances: Mapping[str, str]
    """OCIDs of machines by name: what an earlier machine of the name has told does not count."""
    namespace: str
    bucket: str
    poll_s: float
    stopped: frozenset[str] = frozenset()
    """Names of those that somebody has stopped: each sets itself up when it is started again."""
    quiet_s: float = QUIET_S
    _last: dict[str, OciBootReport] = field(default_factory=dict)
    _reports: BootReports = field(init=False)

    def __post_init__(self) -> None:
        self._reports = BootReports(self.cloud, self.namespace, self.bucket)

    def wait(self) -> None:
        """Return when all are; tell of each as it goes on. Raises GridwrightError where some are not.

        The others are as they should be then, and those go on trying.
        """
        open_ = {each.name for each in self.layout.machines} - self.stopped
        heard = time.monotonic()
        while True:
            for name, report in sorted(self._current(open_).items()):
                if self._last.get(name) != report:
                    heard = time.monotonic()
                    self._tell(report)
                    self._last[name] = report
            open_ = {name for name in open_ if not self._is(name, "done")}
            waiting = {name for name in open_ if not self._has_failed(name)}
            if not open_:
                return
            if not waiting or time.monotonic() - heard > self.quiet_s:
                raise self._unready(open_)
            if self.caller.stop.wait(self.poll_s):
                self.caller.say(
                    f"{len(waiting)} machines go on setting themselves up; gridwright status shows how far "
                    "they are, and gridwright up waits for them"
                )
                raise KeyboardInterrupt

    def _current(self, names: Collection[str]) -> dict[str, OciBootReport]:
        """What machines told of the bundles that are there for them now; nothing else counts."""
        try:
            reports = self._reports.look(names)
        except OciCallError as error:
            # Nothing is heard for a while, which `quiet_s` bounds: machines go on meanwhile.
            if error.http_status not in PASSING:
                raise
            return {}
        return {
            name: each
            for name, each in reports.items()
            if each.is_of(self.instances.get(name), self.bundles[part_of(self.layout.machine(name).role)])
        }

    def _tell(self, report: OciBootReport) -> None:
        last = self._last.get(report.name)
        if report.state == "done":
            self.caller.say(f"{report.name}: is set up")
        elif report.state == "failed":
            self.caller.say(f"{report.name}: try {report.tries} failed: {report.reason}")
        elif report.reason.startswith(RESTARTING) and (last is None or last.reason != report.reason):
            self.caller.say(f"{report.name}: {report.reason}")

    def _is(self, name: str, state: str) -> bool:
        return name in self._last and self._last[name].state == state

    def _has_failed(self, name: str) -> bool:
        return self._is(name, "failed") and self._last[name].tries >= FAILED_TRIES

    def _unready(self, open_: set[str]) -> GridwrightError:
        """The error that names them; the end of the first one's log is said before."""
        failed = [self._last[name] for name in sorted(open_) if self._is(name, "failed")]
        silent = sorted(open_ - {each.name for each in failed})
        for line in failed[0].log.splitlines() if failed else ():
            self.caller.say(f"{failed[0].name} | {line}")
        parts = [
            *(f"{each.name}: {each.reason}" for each in failed[:3]),
            *([f"{len(failed) - 3} more failed"] if len(failed) > 3 else []),
            *([f"{fold_hosts(silent)} told nothing for {self.quiet_s / 60:.0f} min"] if silent else []),
        ]
        logs = f"logs are in bucket {self.bucket}, {LOGS}NAME/OCID of the instance"
        console = "the console of an instance shows why it is silent"
        return environment_error(
            f"{len(open_)} of {len(self.layout.machines)} machines are not set up: {'; '.join(parts)}",
            where=f"grid {self.layout.grid}, OCI, {self.cloud.region}",
            remedy="mend what the log says and run gridwright up again: they go on trying, and the other "
            f"machines stay as they are; {logs if failed else console}",
        )


def stopped(cloud: OciCloud, compartment: str, instances: Mapping[str, str]) -> frozenset[str]:
    """Names of machines that are stopped, or on their way there. Raises OciCallError."""
    listed = cloud.listed("core", "ComputeClient", "list_instances", compartment)
    down = {each.id for each in listed if each.lifecycle_state in ("STOPPED", "STOPPING")}
    return frozenset(name for name, ocid in instances.items() if ocid in down)


LONGEST_S = 900.0
"""So long detaching may take in all."""
_CORE, _CLIENT = "core", "ComputeClient"


def detach(
    cloud: OciCloud, compartment: str, volumes: Collection[str], caller: Caller, poll_s: float
) -> None:
    """Detach volumes, by their OCIDs, from all their servers, and wait until that is done.

    Terraform learns of it at its next refresh, and attaches what takes their place. Raises GridwrightError.
    """
    until = time.monotonic() + LONGEST_S
    asked: set[str] = set()
    while attached := _attached(cloud, compartment, volumes):
        if not asked:
            caller.say(f"detaching {len(set(volumes))} volumes from their servers")
        for each in attached:
            if each.id not in asked:
                asked.add(each.id)
                if each.lifecycle_state != "DETACHING":
                    cloud.call_or_none(_CORE, _CLIENT, "detach_volume", each.id)
        if time.monotonic() > until:
            raise environment_error(
                f"{len(attached)} volumes are attached still, after {LONGEST_S / 60:.0f} min",
                where=f"OCI, {attached[0].id}",
                remedy="shut the file system down on its servers, then run the same command",
            )
        if caller.stop.wait(poll_s):
            raise KeyboardInterrupt


def _attached(cloud: OciCloud, compartment: str, volumes: Collection[str]) -> list[Any]:
    listed = cloud.listed(_CORE, _CLIENT, "list_volume_attachments", compartment)
    return [each for each in listed if each.volume_id in volumes and each.lifecycle_state != "DETACHED"]


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
        for line in change_lines(found):
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
