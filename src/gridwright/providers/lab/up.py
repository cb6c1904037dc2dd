"""`up`: makes a lab, boots one that is stopped, or mends what is missing of one that is up."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gridwright.errors import environment_error
from gridwright.kernel_files import boot_id
from gridwright.providers.lab import boot
from gridwright.providers.lab.boot import boot_lab, boot_nodes
from gridwright.providers.lab.image import (
    OPEN_PYTHON,
    check_python,
    closed_python,
    ensure_image,
    lab_packages,
    root_filesystem,
)
from gridwright.providers.lab.layout import layout_of
from gridwright.providers.lab.power_process import start_power
from gridwright.providers.lab.preflight import check_machine
from gridwright.providers.lab.record import (
    LabRecord,
    NodeRecord,
    digest,
    keep_copy,
    locked,
    read,
    record_for,
    write,
)
from gridwright.providers.lab.services import (
    make_homes,
    make_libraries,
    running_lab,
    serve,
    services_of,
    states,
)
from gridwright.providers.lab.status import (
    no_image,
    refuse_changes,
    refuse_half_removed,
    refuse_missing,
    refuse_other_installation,
    refuse_unknown,
)
from gridwright.providers.lab.teardown import end, ignore_signals, leftovers, take_down
from gridwright.providers.provider import Caller
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec
from gridwright.state_parts import make_state


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
