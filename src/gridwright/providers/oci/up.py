"""`up`: storage first, then the grid with what the storage told, until all machines have set themselves up.

Volumes that are to go are detached first: OCI deletes none that a server has.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, nearest
from gridwright.providers.boot.bundle import (
    LOGS,
    QUIET_S,
    BootNews,
    BootReport,
    Part,
    go_on,
    not_set_up,
    unready,
)
from gridwright.providers.oci.deploy import deployer_of
from gridwright.providers.oci.down import shut_down, unknown_grid
from gridwright.providers.oci.files import ROOT_FILE, oci_files
from gridwright.providers.oci.head import login_user
from gridwright.providers.oci.layout import (
    GRID,
    GRID_TAG,
    PART_TAG,
    STORAGE,
    OciLayout,
    oci_layout,
    section_of,
    stack_name,
)
from gridwright.providers.oci.preflight import preflight
from gridwright.providers.oci.resource_manager import (
    POLL_S,
    Deployer,
    outputs,
    root_files,
    unprotected,
    with_outputs,
)
from gridwright.providers.oci.session import COMPUTE, OciCallError, OciCloud
from gridwright.providers.oci.terraform.boot import BootReports, bundle_keys, part_of
from gridwright.providers.provider import Caller
from gridwright.spec.model import GridSpec

# What a plan of Terraform would do, from its JSON (Terraform, JSON output format: resource_changes).

MOST_NAMED = 4
"""So many changes of a type are told one by one."""
VOLUME = "oci_core_volume"
INSTANCE = "oci_core_instance"
HOLDS_DATA = frozenset(
    {
        VOLUME,
        "oci_objectstorage_bucket",
        "oci_file_storage_file_system",
        "oci_lustre_file_storage_lustre_file_system",
    }
)
"""Types of resources that are empty when they are made anew."""
_VERBS = {
    ("create",): "make",
    ("update",): "change",
    ("delete",): "remove",
    ("delete", "create"): "make anew",
    ("create", "delete"): "make anew",
}


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One resource that a plan changes."""

    stack: str
    address: str
    type: str
    verb: str
    """make, change, remove, or make anew."""
    name: str
    """As OCI shows it."""

    @property
    def destroys_data(self) -> bool:
        """Whether what it holds is lost."""
        return self.type in HOLDS_DATA and self.verb in ("remove", "make anew")

    @property
    def text(self) -> str:
        """On one line."""
        return f"{self.verb} {self.address}{' WITH ITS DATA' if self.destroys_data else ''}"


def planned_changes(stack: str, plan: Mapping[str, Any]) -> tuple[PlannedChange, ...]:
    """Every change of the plan, in its order."""
    return tuple(_changes(stack, plan))


def _changes(stack: str, plan: Mapping[str, Any]) -> Iterator[PlannedChange]:
    for each in plan.get("resource_changes", ()):
        actions = tuple(each["change"]["actions"])
        if each.get("mode") == "data" or actions in (("no-op",), ("read",)):
            continue
        state = each["change"].get("before") or each["change"].get("after") or {}
        name = str(state.get("display_name") or state.get("name") or each["address"])
        # Actions of a later Terraform are taken for the worst that they can be.
        yield PlannedChange(stack, each["address"], each["type"], _VERBS.get(actions, "make anew"), name)


def change_lines(changes: Sequence[PlannedChange]) -> Iterator[str]:
    """A line for each change that loses data or is one of few of its type, and a line for the others."""
    alike = Counter((each.verb, each.type) for each in changes)
    counted = set()
    for each in changes:
        key = (each.verb, each.type)
        if each.destroys_data or alike[key] <= MOST_NAMED:
            yield each.text
        elif key not in counted:
            counted.add(key)
            yield f"{each.verb} {alike[key]} {each.type}: {each.name} and others"


def changed_outputs(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Outputs that would differ: a plan may consist of these alone."""
    changes = plan.get("output_changes", {})
    return tuple(sorted(name for name, each in changes.items() if each["actions"] != ["no-op"]))


def is_of(name: str, grid: str, filesystem: str) -> bool:
    """Whether a resource of this name is of a file system: itself, or a volume of it.

    Volumes are GRID-NAME-pPAIR-vNUMBER or GRID-NAME-pPAIR-POOL-vNUMBER where pairs share them, and
    GRID-NAME-ROLESERVER-vNUMBER elsewhere.
    """
    whole = f"{grid}-{filesystem}"
    volume = rf"{re.escape(whole)}-(?:p|mgs|mds|oss)\d+(?:-[A-Za-z0-9]+)?-v\d+"
    return name in (whole, filesystem) or re.fullmatch(volume, name) is not None


# What `up` of a grid on OCI did, and how to go on; nothing here calls OCI.


@dataclass(frozen=True, slots=True)
class OciUp:
    """What `up` did."""

    grid: str
    region: str
    made: bool
    """Whether it was not there before."""
    changes: tuple[PlannedChange, ...]
    login: str | None
    """Public address of the machine that users log in to; None where the way in is the bastion service."""
    user: str
    """Whom the key of the spec lets in there."""
    seconds: float
    file: str = ""

    def document(self) -> dict[str, Any]:
        """See Result."""
        values = asdict(self)
        del values["file"]
        return {**values, "changed": bool(self.changes), "changes": [asdict(each) for each in self.changes]}

    def text(self) -> str:
        """What was done, and how to go on."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        minutes = f"{self.seconds / 60:.1f} min"
        if self.made:
            yield f"OCI has made all of grid {self.grid} in {self.region}, after {minutes}"
        elif self.changes:
            yield f"grid {self.grid} is changed, after {minutes}"
        else:
            yield f"grid {self.grid} is up already, as the spec has it: nothing is changed"
        yield "Next:"
        if self.login:
            yield f"  ssh {self.user}@{self.login}"
        spec = f" {self.file}" if self.file else ""
        yield f"  gridwright status{spec}"
        yield f"  gridwright down{spec}"


PASSING = frozenset({0, 429, 500, 502, 503, 504})
"""Answers that pass by themselves: none at all, an overload, an outage."""


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
    _last: dict[str, BootReport] = field(default_factory=dict)
    _reports: BootReports = field(init=False)

    def __post_init__(self) -> None:
        self._reports = BootReports(self.cloud, self.namespace, self.bucket)

    def wait(self) -> None:
        """Return when all are; tell of each as it goes on. Raises GridwrightError where some are not.

        The others are as they should be then, and those go on trying.
        """
        open_ = {each.name for each in self.layout.machines} - self.stopped
        heard, news = time.monotonic(), BootNews(self.caller.say)
        while True:
            current = self._current(open_)
            self._last |= current
            if news.hear(current[name] for name in sorted(current)):
                heard = time.monotonic()
            open_ = {name for name in open_ if not self._is(name, "done")}
            waiting = {name for name in open_ if not self._has_failed(name)}
            if not open_:
                return
            if not waiting or time.monotonic() - heard > self.quiet_s:
                raise self._unready(open_)
            self.caller.pause(self.poll_s, go_on(len(waiting)))

    def _current(self, names: Collection[str]) -> dict[str, BootReport]:
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

    def _is(self, name: str, state: str) -> bool:
        return name in self._last and self._last[name].state == state

    def _has_failed(self, name: str) -> bool:
        return name in self._last and self._last[name].has_failed

    def _unready(self, open_: set[str]) -> GridwrightError:
        """The error that names them; the end of the first one's log is said before."""
        failed = [self._last[name] for name in sorted(open_) if self._is(name, "failed")]
        silent = sorted(open_ - {each.name for each in failed})
        for line in failed[0].log.splitlines() if failed else ():
            self.caller.say(f"{failed[0].name} | {line}")
        logs = f"logs are in bucket {self.bucket}, {LOGS}NAME/OCID of the instance"
        console = "the console of an instance shows why it is silent"
        return not_set_up(
            f"{len(open_)} of {len(self.layout.machines)}",
            unready(failed, silent, self.quiet_s),
            f"grid {self.layout.grid}, OCI, {self.cloud.region}",
            f"; {logs if failed else console}",
        )


def stopped(cloud: OciCloud, compartment: str, instances: Mapping[str, str]) -> frozenset[str]:
    """Names of machines that are stopped, or on their way there. Raises OciCallError."""
    listed = cloud.listed(*COMPUTE, "list_instances", compartment)
    down = {each.id for each in listed if each.lifecycle_state in ("STOPPED", "STOPPING")}
    return frozenset(name for name, ocid in instances.items() if ocid in down)


LONGEST_S = 900.0
"""So long detaching may take in all."""


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
                    cloud.call_or_none(*COMPUTE, "detach_volume", each.id)
        if time.monotonic() > until:
            raise environment_error(
                f"{len(attached)} volumes are attached still, after {LONGEST_S / 60:.0f} min",
                where=f"OCI, {attached[0].id}",
                remedy="shut the file system down on its servers, then run the same command",
            )
        caller.pause(poll_s)


def _attached(cloud: OciCloud, compartment: str, volumes: Collection[str]) -> list[Any]:
    listed = cloud.listed(*COMPUTE, "list_volume_attachments", compartment)
    return [each for each in listed if each.volume_id in volumes and each.lifecycle_state != "DETACHED"]


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
