"""`up`: makes a lab, or what is missing of one that is up already."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.kernel_files import boot_id
from gridwright.providers.caller import Caller
from gridwright.providers.lab import network
from gridwright.providers.lab.boot import boot_lab, boot_nodes
from gridwright.providers.lab.host_python import check_python
from gridwright.providers.lab.image import ensure_image, lab_packages
from gridwright.providers.lab.layout import layout_of
from gridwright.providers.lab.owner import record_for
from gridwright.providers.lab.power_process import start_power
from gridwright.providers.lab.preflight import check_machine
from gridwright.providers.lab.record import LabRecord, NodeRecord, locked, read, write
from gridwright.providers.lab.services.users import make_homes
from gridwright.providers.lab.serving import make_libraries, running_lab, serve, services_of, states
from gridwright.providers.lab.spec_copy import differences, digest, keep_copy
from gridwright.providers.lab.teardown import ignore_signals, take_down
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

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "lab": self.record.lab,
            "made": self.made,
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
        mended = (f"mended: {each}" for each in self.repaired)
        return "\n".join([f"lab {self.record.lab} was up already: {count} nodes", *mended])


def up(spec: GridSpec, caller: Caller) -> LabUp:
    """Make a lab and wait until all its services serve; of one that is up, mend what is missing.

    Nothing is left of a lab whose making fails or is interrupted. Raises GridwrightError.
    """
    started = time.monotonic()
    layout = layout_of(spec)
    record = record_for(spec)
    if record is not None and record.is_up:
        _refuse_changes(record, spec)
        image = Path(record.image)
    else:
        check_machine(spec, layout)
        image = ensure_image(caller, lab_packages(spec))
    with locked(spec.name):
        record = record_for(spec)
        if record is not None and record.is_up:
            _refuse_changes(record, spec)
            record, repaired = _mend(record, spec, caller)
            return LabUp(record, False, repaired, time.monotonic() - started)
        if record is not None:
            caller.say(f"removing what is left of an earlier lab {spec.name}")
            _take_down_or_fail(record)
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
    return LabUp(record, True, (), time.monotonic() - started)


def _make(record: LabRecord, spec: GridSpec, caller: Caller) -> LabRecord:
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
        record = replace(record, phase="up")
        write(record)
        record = start_power(record, spec)
    except BaseException as error:
        ignore_signals()
        caller.say("removing what was made so far")
        _take_down_or_fail(read(spec.name) or record)
        if isinstance(error, OSError):
            raise environment_error(
                f"the lab cannot be made: {error}", remedy="mend that, and run gridwright up again"
            ) from error
        raise
    return record


def _refuse_changes(record: LabRecord, spec: GridSpec) -> None:
    if changed := differences(record, spec):
        raise GridwrightError(
            *(
                Problem(
                    what=f"lab {spec.name} is up, and made from another spec: {each}",
                    where=str(spec.file) if spec.file else None,
                    remedy=f"run gridwright down {spec.file or spec.name}, then gridwright up again",
                )
                for each in changed
            )
        )


def _mend(record: LabRecord, spec: GridSpec, caller: Caller) -> tuple[LabRecord, tuple[str, ...]]:
    """Power on what is off, heal what is cut off, start services that do not serve."""
    mended = []
    if cut := [node for node in record.nodes if node.partitioned and node.up]:
        if record.anchor is not None:
            network.partition(record.anchor.pid, [node.plan for node in cut], heal=True)
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
    make_state(state_directory(spec))
    make_libraries(lab)
    make_homes(lab)
    if powered and (record.power is None or not record.power.alive):
        record = start_power(record, spec)
        mended.append("what powers nodes on and off did not run")
    return record, tuple(mended)


def _take_down_or_fail(record: LabRecord) -> None:
    if left := take_down(record):
        raise leftovers(record.lab, left)


def leftovers(lab: str, left: list[str]) -> GridwrightError:
    """The error that names what `down` could not remove."""
    return environment_error(
        f"left of lab {lab}: " + "; ".join(left), remedy=f"end it, then run gridwright down for {lab} again"
    )
