"""The lab as a provider: nodes in Linux namespaces of the machine that Gridwright runs on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.filesystems.kind import LabServices
from gridwright.kernel_files import boot_id
from gridwright.providers.lab import boot
from gridwright.providers.lab.boot import boot_lab, boot_nodes, listen
from gridwright.providers.lab.image import (
    OPEN_PYTHON,
    check_python,
    closed_python,
    ensure_image,
    lab_packages,
    root_filesystem,
)
from gridwright.providers.lab.layout import STORAGE, Lab, LabRole, layout_of
from gridwright.providers.lab.namespaces import Namespace, enter
from gridwright.providers.lab.power import record_of
from gridwright.providers.lab.preflight import check_machine, preflight
from gridwright.providers.lab.record import (
    LabRecord,
    NodeRecord,
    Places,
    contents,
    deployed_spec,
    digest,
    keep_copy,
    labs,
    locked,
    read,
    record_for,
    write,
)
from gridwright.providers.lab.services import (
    Node,
    make_homes,
    make_libraries,
    node_of,
    running_lab,
    serve,
    services_of,
    states,
)
from gridwright.providers.lab.status import (
    LabStatus,
    no_image,
    refuse_changes,
    refuse_half_removed,
    refuse_missing,
    refuse_other_installation,
    refuse_unknown,
    status,
)
from gridwright.providers.lab.teardown import (
    end,
    ignore_signals,
    leftovers,
    remove_directories,
    remove_empty_places,
    start_power,
    take_down,
)
from gridwright.providers.machines import CONTROLLER
from gridwright.providers.provider import Caller, GridHere, MachineOutage, Provider, Removal
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import HeadNodeUnreachable
from gridwright.schedulers.state_directory import state_directory
from gridwright.services.connections import Listener
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import FILESYSTEMS, filesystem_kind_in
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import ProviderSection
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.state_parts import make_state
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.structure import KEY, Refused

if TYPE_CHECKING:
    from gridwright.providers.machines import HostMachine
    from gridwright.providers.provider import Preflight
    from gridwright.providers.rendering import Notes
    from gridwright.schedulers.machines import GridMachines, SchedulerSetup
    from gridwright.setup.playbook import Hosts


class LabHead:
    """See HeadNode. Every call looks up the controller as it is now: it may have been powered off and on.

    While it is off, a node that takes over for it is the head node.
    """

    nodes_share_python = True
    sees_state = True

    def __init__(
        self, record: LabRecord, spec_file: Path | None = None, standbys: Sequence[str] = ()
    ) -> None:
        """`record` is of a lab that is up; `standbys` are nodes that take over, in their order."""
        self._lab = record.lab
        self._spec_file = spec_file
        self._controller = record.layout.controller.name
        self._standbys = standbys

    @property
    def name(self) -> str:
        """The controller, or the node that has taken over."""
        record = read(self._lab)
        return self._controller if record is None or not record.is_up else self._serving(record)

    @classmethod
    def of(cls, spec: GridSpec) -> LabHead:
        """The controller of a lab. Raises GridwrightError (ENVIRONMENT) where it is not up, or another's."""
        record = record_for(spec)
        if record is None or not record.is_up:
            raise _not_up(spec, record)
        workers = [node.name for node in record.layout.of_role(LabRole.COMPUTE)]
        head = cls(record, spec.file, scheduler_kind(spec.scheduler).standbys(spec, workers))
        head._now()
        return head

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        """Run a command on the controller; see HeadNode.

        Raises HeadNodeUnreachable also where the controller was powered off while the command ran.
        """
        chosen = dict(os.environ) if environment is None else environment
        node = self._now()
        try:
            answer = node.run(command, stdin=stdin, environment=chosen, timeout_s=timeout_s)
        except CommandNotStarted:
            self._must_live(node)
            raise
        if answer.status != 0:
            # What a power failure killed has said nothing of its own.
            self._must_live(node)
        return answer

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on the controller from here, in `/`."""
        return self._now().argv(command)

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The controller's ssh; nodes reach every port of the controller."""
        return self.argv(["ssh", *words])

    def listen(self) -> tuple[Listener, str]:
        """A TCP socket in the network of the lab, on the controller's address."""
        node = self._now()
        try:
            return listen(node.process.pid, node.address), node.address
        except OSError as error:
            self._must_live(node)
            raise environment_error(
                f"cannot listen in the network of the lab: {error}",
                where=self.name,
                remedy="see gridwright status",
            ) from error

    def _now(self) -> Node:
        """The controller as it is now. Raises HeadNodeUnreachable where it is off, or the lab is down."""
        record = read(self._lab)
        if record is None or not record.is_up:
            remedy = f"run gridwright up {self._spec_file or 'FILE'}"
            raise HeadNodeUnreachable(f"lab {self._lab} is not up any more", self._controller, remedy)
        name = self._serving(record)
        if not record.node(name).up:
            raise self._off()
        return node_of(record, name)

    def _serving(self, record: LabRecord) -> str:
        """The first of those that are up; the controller where none is."""
        able = [name for name in (self._controller, *self._standbys) if record.node(name).up]
        return able[0] if able else self._controller

    def _must_live(self, node: Node) -> None:
        if not node.process.alive:
            raise self._off()

    def _off(self) -> HeadNodeUnreachable:
        return HeadNodeUnreachable(
            f"node {self._controller} of lab {self._lab} is powered off",
            self._controller,
            f"run gridwright lab power-on {self._controller}",
        )


def _not_up(spec: GridSpec, record: LabRecord | None) -> GridwrightError:
    """The error of a lab that is not up on this machine, which may be a node of it."""
    where = str(spec.file) if spec.file else None
    if record is None and Places(spec.name).state.is_dir():
        return environment_error(
            f"this machine is a node of lab {spec.name}, and the spec is for the machine that the lab is on",
            where=where,
            remedy="name a spec for nodes: provider: site, hosts: and state:, as gridwright help lab has it",
        )
    root = "" if os.geteuid() == 0 else "as root "
    remedy = f"{root}run gridwright up {spec.file or 'FILE'}"
    return environment_error(f"lab {spec.name} is not up", where=where, remedy=remedy)


_ALL = Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.NETWORK
CANNOT_RUN, NOT_FOUND = 126, 127
"""Exit statuses that shells have for a command that cannot be run, or is not there."""


def attach(node: Node, command: Sequence[str]) -> int:
    """Run a command on a node and return its exit status; 128 + n where signal n ended it.

    It has this process's standard streams, environment, and working directory where the node has that.
    Raises GridwrightError where the node is not up, or cannot be entered.
    """
    node.check()
    directory = os.getcwd()  # noqa: PTH109 - Path.cwd() would not be shorter
    try:
        # Children begin in the PID namespace of the node: they end with it.
        enter(node.process.pid, Namespace.PID)
    except OSError as error:
        node.check()
        raise environment_error(
            f"node {node.name} cannot be entered: {error}", remedy="see gridwright status"
        ) from error
    child = os.fork()
    if child == 0:
        _become(node, command, directory)
    return _follow(child)


def _become(node: Node, command: Sequence[str], directory: str) -> NoReturn:
    status = CANNOT_RUN
    try:
        node.groups.join()
        cgroup = Namespace.CGROUP if node.groups.kind != "none" else Namespace(0)
        enter(node.process.pid, _ALL | cgroup)
        try:
            os.chdir(directory)
        except OSError:
            os.chdir("/")
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))  # noqa: S606 - the user's own command
    except FileNotFoundError:
        status = NOT_FOUND
        sys.stderr.write(f"error: {node.name}: there is no command {command[0]}\n")
    except OSError as error:
        sys.stderr.write(f"error: {node.name}: {command[0]} cannot be run: {error.strerror}\n")
    finally:
        sys.stderr.flush()
        os._exit(status)


def _follow(child: int) -> int:
    """Wait for the command; what a terminal sends reaches it anyway, other signals are handed on."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hand_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def lab_outages(spec: GridSpec) -> list[MachineOutage]:
    """What is wrong, the controller first, then storage nodes. Raises GridwrightError.

    Whether services of storage nodes serve is asked where no machine that these may need is off.
    """
    record = read(spec.name)
    if record is None or not record.is_up:
        return [
            MachineOutage(f"lab {spec.name}", "is not up", "run gridwright up with its spec", is_head=True)
        ]
    found = list(_dark(record, spec))
    if not any(each.is_head or each.serves for each in found):
        found += _not_serving(record, spec)
    return sorted(found, key=lambda each: (not each.is_head, not each.serves))


def _dark(record: LabRecord, spec: GridSpec) -> Iterator[MachineOutage]:
    """Nodes without power or network; those that the scheduler has off are as they should be."""
    powered = spec.powered_nodes()
    for node in record.nodes:
        name = node.plan.name
        if not node.up and name not in powered:
            yield _outage(record, spec, node, "is powered off", f"run gridwright lab power-on {name}")
        elif node.up and node.partitioned:
            cut_off = _outage(record, spec, node, "is cut off the network", f"run gridwright lab heal {name}")
            yield replace(cut_off, is_final=False)


def _not_serving(record: LabRecord, spec: GridSpec) -> Iterator[MachineOutage]:
    """Storage nodes that are up and reached, and one of whose services does not serve."""
    looked_at = {
        node.plan.name: node
        for node in record.nodes
        if node.up and not node.partitioned and node.plan.role == LabRole.STORAGE
    }
    running = running_lab(record, spec)
    mine = [each for each in services_of(spec, record.layout) if set(each.nodes) & set(looked_at)]
    for state in states(running, mine, on=set(looked_at)):
        if state.lacking is not None:
            yield _outage(
                record,
                spec,
                looked_at[state.node],
                f"is up, and its {state.service} does not serve: {state.lacking}",
                "gridwright up with the spec of the lab starts it again",
            )


def _outage(record: LabRecord, spec: GridSpec, node: NodeRecord, state: str, remedy: str) -> MachineOutage:
    serves = tuple(name for name in spec.filesystems if node.plan in record.layout.storage_of(name))
    is_head = node.plan == record.layout.controller
    return MachineOutage(f"node {node.plan.name}", state, remedy, is_head, serves=serves)


def lab_problems(data: Mapping[str, Any]) -> Iterator[Refused]:
    """Problems between fields of a lab: a path and what is wrong there."""
    for name, filesystem in _mapping(data, "filesystems").items():
        kind = filesystem_kind_in(filesystem)
        if kind is not None and not isinstance(kind, LabServices):
            can = [other for other, each in FILESYSTEMS.kinds() if isinstance(each, LabServices)]
            yield (
                ("filesystems", name, "type"),
                FieldError(
                    f"a lab cannot have file system {filesystem['type']}",
                    f"write {', or '.join(reversed(can))}",
                ),
            )
    for section, name in ((each, name) for each in ("nodes", "machines") for name in _mapping(data, each)):
        if name in (CONTROLLER, STORAGE):
            yield (
                (section, name, KEY),
                FieldError(
                    f"{name} is the name of a node that every lab has",
                    "give the group another name, such as compute",
                ),
            )
    if "ad" in _mapping(data, "users"):
        yield (
            ("users", "ad", KEY),
            FieldError("nodes of a lab join no domain", "remove it, or name a directory with ldap:"),
        )
    scheduler = scheduler_kind_in(data)
    if scheduler is None:
        return
    for place, problem in scheduler.lab_problems(_mapping(data, "scheduler")):
        yield ("scheduler", *place), problem
    if scheduler.spec_model.runs_on_one_machine:
        path = ("scheduler", "type") if "type" in _mapping(data, "scheduler") else ("scheduler",)
        yield (
            path,
            FieldError(
                "the local scheduler is for one machine, and a lab has several nodes", "write {type: slurm}"
            ),
        )


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


# `up`: makes a lab, boots one that is stopped, or mends what is missing of one that is up.


@dataclass(frozen=True, slots=True)
class LabUp:
    """What `up` did."""

    record: LabRecord
    made: bool
    """False where it was up already."""
    repaired: tuple[str, ...]
    """What was mended of one that was up, in words."""
    seconds: float
    booted: bool = False
    """Whether it was stopped, and runs again on the data that it had."""

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "lab": self.record.lab,
            "made": self.made,
            "booted": self.booted,
            "mended": list(self.repaired),
            "seconds": self.seconds,
            "network": self.record.network,
            "nodes": [
                {"name": node.plan.name, "role": node.plan.role, "address": node.plan.address}
                for node in self.record.nodes
            ],
        }

    def text(self) -> str:
        """See Result."""
        count = len(self.record.nodes)
        if self.made:
            return f"lab {self.record.lab} is up: {count} nodes in {self.seconds:.1f} s"
        if self.booted:
            return f"lab {self.record.lab} is up again, with its data: {count} nodes in {self.seconds:.1f} s"
        mended = (f"mended: {each}" for each in self.repaired)
        return "\n".join([f"lab {self.record.lab} was up already: {count} nodes", *mended])


def up(spec: GridSpec, caller: Caller) -> LabUp:
    """Make a lab and wait until all its services serve; of one that is up, mend what is missing.

    Nothing is left of a lab whose making fails or is interrupted. One that ever was up keeps its data: where
    it is stopped, it is booted again, and stopped again when that fails. Raises GridwrightError.
    """
    started = time.monotonic()
    layout = layout_of(spec)
    record = _usable_record(spec)
    if record is not None and record.is_up:
        refuse_other_installation(record)
        image = Path(record.image)
    else:
        check_machine(spec, layout)
        if spec.users and (closed := closed_python()):
            caller.say(f"warning: {closed}; {OPEN_PYTHON}")
        image = _image_of(record, spec, caller)
    with locked(spec.name):
        record = _usable_record(spec)
        if record is not None and record.is_up:
            record, repaired = _mend(record, spec, caller)
            return LabUp(record, False, repaired, time.monotonic() - started)
        booted = record is not None and record.has_data
        if record is not None:
            record = _cleared(record, spec, caller)
        if record is None:
            record = LabRecord(
                lab=spec.name,
                phase="starting",
                boot=boot_id(),
                spec_file=str(spec.file or ""),
                digest=digest(spec),
                network=layout.network,
                image=str(image),
                started=time.time(),
                nodes=tuple(NodeRecord(plan) for plan in layout.nodes),
            )
        record = _make(record, spec, caller)
    return LabUp(record, not booted, (), time.monotonic() - started, booted)


def _usable_record(spec: GridSpec) -> LabRecord | None:
    """The record of the lab of a spec; None where there is none. Raises GridwrightError where it stays."""
    record = record_for(spec)
    if record is None:
        refuse_unknown(spec.name)
    elif record.standing == "half-removed":
        refuse_half_removed(record)
    elif record.has_data:
        refuse_changes(record, spec)
        if not record.is_up:
            refuse_missing(record, spec)
    return record


def _image_of(record: LabRecord | None, spec: GridSpec, caller: Caller) -> Path:
    """The node image; for a lab that is there, the one that it was made with. Raises GridwrightError."""
    if record is None or not record.has_data:
        return ensure_image(caller, lab_packages(spec))
    image = Path(record.image)
    if image == root_filesystem(lab_packages(spec)):
        return ensure_image(caller, lab_packages(spec))
    if not image.is_dir():
        raise no_image(record)
    return image


def _cleared(record: LabRecord, spec: GridSpec, caller: Caller) -> LabRecord | None:
    """End what runs of a lab that is not up; of one that never was, remove all. Raises GridwrightError.

    Returns the record that it is booted again from, and None for one that is to be made anew.
    """
    if not record.has_data:
        caller.say(f"removing what is left of an earlier lab {record.lab}, which never was up")
        _take_down_or_fail(record)
        return None
    caller.say(f"lab {record.lab} is stopped, and its data is there: booting it again")
    _end_or_fail(record)
    stopped = record.without_processes()
    return replace(
        stopped, phase="starting", was_up=True, boot=boot_id(), spec_file=str(spec.file or ""), group_tops=()
    )


def _make(record: LabRecord, spec: GridSpec, caller: Caller) -> LabRecord:
    """Boot a lab that is new or stopped, and start its services. Raises GridwrightError."""
    try:
        write(record)
        keep_copy(spec)
        record = boot_lab(record, spec, caller)
        caller.say(f"{len(record.nodes)} nodes are up; starting services")
        lab = running_lab(record, spec)
        check_python(lab.nodes[lab.layout.controller.name])
        serve(lab, services_of(spec, lab.layout), lab.nodes, caller)
        make_libraries(lab)
        make_homes(lab)
        caller.go_on()
        record = replace(record, phase="up", was_up=True)
        write(record)
        record = start_power(record, spec)
    except BaseException as error:
        ignore_signals()
        record = read(spec.name) or record
        if record.has_data:
            caller.say("ending what was started; the data of the lab stays")
            _end_or_fail(record)
        else:
            caller.say("removing what was made so far")
            _take_down_or_fail(record)
        if isinstance(error, OSError):
            raise environment_error(
                f"the lab cannot be {'booted' if record.has_data else 'made'}: {error}",
                remedy="mend that, and run gridwright up again",
            ) from error
        raise
    return record


def _mend(record: LabRecord, spec: GridSpec, caller: Caller) -> tuple[LabRecord, tuple[str, ...]]:
    """Power on what is off, heal what is cut off, start services that do not serve."""
    # An earlier release left its parts to users: where one cannot be root's, nothing is begun.
    make_state(state_directory(spec))
    mended = []
    if cut := [node for node in record.nodes if node.partitioned and node.up]:
        if record.anchor is not None:
            boot.partition(record.anchor.pid, [node.plan for node in cut], heal=True)
        for node in cut:
            record = record.with_node(replace(node, partitioned=False))
            mended.append(f"{node.plan.name} was cut off from the others")
        write(record)
    powered = spec.powered_nodes()
    off = [node.plan.name for node in record.nodes if not node.up and node.plan.name not in powered]
    if off:
        caller.say(f"powering on {', '.join(off)}")
        record = boot_nodes(record, spec, off)
        mended += [f"{name} was powered off" for name in off]
    lab = running_lab(record, spec)
    services = services_of(spec, lab.layout)
    serve(lab, services, off, caller)
    for state in states(lab, services):
        # A node that its scheduler powers may be just coming or going.
        if state.lacking is not None and state.node not in powered:
            mended.append(f"{state.service} did not serve on {state.node}: {state.lacking}")
            serve(lab, [each for each in services if each.name == state.service], [state.node], caller)
    make_libraries(lab)
    make_homes(lab)
    if powered and (record.power is None or not record.power.alive):
        record = start_power(record, spec)
        mended.append("what powers nodes on and off did not run")
    return record, tuple(mended)


def _take_down_or_fail(record: LabRecord) -> None:
    if left := take_down(record):
        raise leftovers(record.lab, left)


def _end_or_fail(record: LabRecord) -> None:
    if left := end(record):
        raise leftovers(record.lab, left, "up")


@dataclass(frozen=True, slots=True)
class LabDown:
    """What `down` of a lab did."""

    lab: str
    was_up: bool
    """Whether there was one, in whatever state."""
    was_stopped: bool = False
    """Whether nothing of it ran, and its data was there."""
    deleted: tuple[str, ...] = ()
    """What went, in words."""

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {"lab": self.lab, "was_up": self.was_up, "deleted": list(self.deleted), "left": []}

    def text(self) -> str:
        """See Result; what went is named where the lab was stopped: nobody saw it run."""
        named = "; ".join(self.deleted)
        if not self.was_up:
            return f"lab {self.lab} was not up" + (
                f"; what was left of it is deleted: {named}" if named else ""
            )
        went = f"; it was stopped, and went with its data: {named}" if self.was_stopped and named else ""
        return f"lab {self.lab} is down: nothing is left{went}"


def take_away(lab: str) -> LabDown:
    """Take a lab down, and say what that did. Raises GridwrightError naming what is left."""
    places = Places(lab)
    if read(lab) is None and not places.home.exists() and not places.lock.exists():
        return LabDown(lab, was_up=False)
    with locked(lab):
        record = read(lab)
        was_stopped = record is not None and record.standing == "stopped"
        there = contents(lab)
        ignore_signals()
        # Nothing is made before the record is written: without one, there are but directories.
        if left := take_down(record) if record is not None else remove_directories(lab):
            raise leftovers(lab, left)
    remove_empty_places()
    return LabDown(lab, record is not None, was_stopped, there)


class Labs:
    """See LocalGrids."""

    def processes(self, spec: GridSpec) -> Sequence[int]:
        """The anchor of the lab, below which all nodes lie, and what powers nodes for the scheduler."""
        record = read(spec.name)
        known = (record.anchor, record.power) if record is not None else ()
        return [each.pid for each in known if each is not None]

    def outages(self, spec: GridSpec) -> Sequence[MachineOutage]:
        """As the record of the lab has them, and what does not serve on controller and storage nodes."""
        return lab_outages(spec)

    def all(self) -> list[GridHere]:
        """Labs of this machine, whether their specs are at hand or not."""
        return [self.named(name) for name in labs()]

    def named(self, name: str) -> GridHere:
        """A lab by its name; who takes it away is asked first, having named no spec."""
        question = f"lab {name} goes: its nodes with their processes, jobs and logs, and its file systems"
        if there := contents(name):
            question += f" ({'; '.join(there)})"
        return GridHere(
            name,
            partial(status, name),
            lambda data: replace(_removal(name, data), question=question),
            lambda: deployed_spec(record_of(name)),
            lambda node, command: attach(node_of(record_of(name), node), command),
        )


LOCAL_LABS = Labs()


class LabProvider(Provider):
    """See Provider."""

    name = "lab"
    section = ProviderSection(
        Lab, "What only provider lab has.", Update(Change.REBUILD, "its nodes are made anew")
    )
    metadata_service = None
    has_own_kernels = False
    has_machines = True
    powers_nodes = True
    on_this_machine = LOCAL_LABS

    def problems(self, data: Mapping[str, Any]) -> Iterator[Refused]:
        """See ProviderKind."""
        return lab_problems(data)

    def state_directory(self, spec: GridSpec) -> Path:
        """In the lab's own directory on this machine, which all its nodes see."""
        return Places(spec.name).state

    def head_node(self, spec: GridSpec) -> LabHead:
        """The controller."""
        return LabHead.of(spec)

    def hosts(self, spec: GridSpec, machine: str) -> Hosts:
        """All nodes, those that serve file systems too."""
        from gridwright.setup.playbook import Hosts

        layout = layout_of(spec)
        of = {role: [node.name for node in layout.of_role(role)] for role in LabRole}
        return Hosts.named(
            compute=of[LabRole.COMPUTE], storage=of[LabRole.STORAGE], head=of[LabRole.CONTROLLER]
        ).with_machines(spec)

    def machines(self, spec: GridSpec, machine: HostMachine) -> GridMachines:
        """Nodes as the spec wants them, whatever this machine has."""
        from gridwright.schedulers.machines import GridMachines, hardware_of_nodes

        here = dict.fromkeys(spec.nodes, machine.hardware)
        return GridMachines(
            controller=CONTROLLER,
            nodes=hardware_of_nodes(spec, here, share_one_machine=True),
            cgroups=machine.cgroups,
            systemd=False,
            share_one_machine=True,
        )

    def notes(self, spec: GridSpec, setup: SchedulerSetup) -> Notes:
        """What `up` has done already."""
        from gridwright.providers.rendering import Notes

        return Notes(
            before_steps="`gridwright up` does what follows for a lab; these are the files in "
            f"`{setup.directory}` of its nodes.",
            after_playbook="Nodes of a lab share the kernel of this machine: nothing of it is set for them, "
            "and `gridwright up` has set up the rest.",
        )

    def up(self, spec: GridSpec, caller: Caller, *, replace: frozenset[str] = frozenset()) -> LabUp:
        """Make the lab."""
        _refuse_names(spec.name, "--replace", replace)
        return up(spec, caller)

    def preflight(self, spec: GridSpec) -> Preflight:
        """What this machine lacks for the lab."""
        return preflight(spec, layout_of(spec))

    def status(self, spec: GridSpec) -> LabStatus:
        """How the lab stands."""
        record_for(spec)
        return status(spec.name)

    def removal(self, spec: GridSpec, *, delete_data: frozenset[str] = frozenset()) -> Removal:
        """How to take the lab down: nothing is asked, as it keeps nothing."""
        record_for(spec)
        return _removal(spec.name, delete_data)


def _removal(lab: str, delete_data: frozenset[str]) -> Removal:
    _refuse_names(lab, "--delete-data", delete_data)
    return Removal(None, lambda _: take_away(lab))


def _refuse_names(lab: str, flag: str, names: frozenset[str]) -> None:
    if names:
        raise input_error(
            f"grid {lab} is a lab, which keeps no data when it goes",
            where=flag,
            remedy=f"leave {flag} out; file systems of a cloud are what it is for",
        )


LAB = LabProvider()
