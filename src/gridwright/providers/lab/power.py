"""Powers nodes of a lab on and off as its Slurm wants them: a process of this machine while the lab is up.

A lab is made of namespaces of this machine, so what powers its nodes runs here and not on its controller.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gridwright.commands import CommandNotStarted
from gridwright.errors import GridwrightError, environment_error
from gridwright.node_programs.power import (
    REQUEST_LOG,
    PowerReconciler,
    PowerStates,
    RequestLog,
    Settled,
    SupplyError,
    reconcile,
)
from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.lab import boot, namespaces
from gridwright.providers.lab.boot import boot_nodes
from gridwright.providers.lab.namespaces import end_all
from gridwright.providers.lab.record import LabRecord, deployed_spec, locked, read, write
from gridwright.providers.lab.services import (
    node_is_down,
    node_of,
    running_lab,
    serve,
    services_of,
    wait_until_served,
)
from gridwright.providers.lab.teardown import PATIENCE_S

EVERY_S = 5.0
"""A lab is asked more often than a cloud: its nodes boot in a second or two."""
AGAIN_S = 20.0


class LabSupply:
    """The nodes of a lab; see Supply."""

    def __init__(self, lab: str, powered: frozenset[str]) -> None:
        self._lab = lab
        self._powered = powered

    def settle(self, desired: frozenset[str]) -> Settled:
        """Boot what is wanted and off, kill what is on and not wanted; see Supply."""
        failed: dict[str, str] = {}
        done: list[str] = []
        for node in self._record().nodes:
            name = node.plan.name
            if name not in self._powered or node.up is (name in desired):
                continue
            try:
                if name in desired:
                    power_on(self._lab, name, wait=False)
                    done.append(f"{name} is on")
                else:
                    power_off(self._lab, name)
                    done.append(f"{name} is off")
            except (GridwrightError, OSError) as error:
                if name not in desired:
                    raise SupplyError(str(error)) from error
                failed[name] = error.problems[0].what if isinstance(error, GridwrightError) else str(error)
        return Settled(failed, tuple(done))

    def _record(self) -> LabRecord:
        try:
            return record_of(self._lab)
        except GridwrightError as error:
            raise SupplyError(str(error)) from error


def reconciler_of(lab: str, say: Callable[[str], None]) -> PowerReconciler:
    """The reconciler of a lab's nodes. Raises GridwrightError where the lab is not up."""
    spec = deployed_spec(record_of(lab))
    groups = {name: group for name, group in spec.nodes.items() if group.powered_names(name)}
    names = [each for name, group in groups.items() for each in group.node_names(name)]
    powered = spec.powered_nodes()
    return PowerReconciler(
        PowerStates(lambda argv, limit_s: _on_controller(lab, argv, limit_s)),
        LabSupply(lab, powered),
        names,
        frozenset(names) - powered,
        AGAIN_S,
        say,
    )


def _on_controller(lab: str, argv: Sequence[str], limit_s: float) -> Ended:
    begun = time.monotonic()
    try:
        record = record_of(lab)
        controller = node_of(record, record.layout.controller.name)
        answer = controller.run(argv, timeout_s=limit_s)
    except (GridwrightError, CommandNotStarted, OSError) as error:
        return Ended(tuple(argv), None, str(error), time.monotonic() - begun)
    output = (answer.stdout + answer.stderr).decode(errors="replace")
    return Ended(tuple(argv), answer.status, output, time.monotonic() - begun)


def main(lab: str) -> int:
    """Keep the nodes until the lab is down or a signal comes."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def say(text: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(f"{now} {text}", flush=True)  # noqa: T201 - the log

    def request_log() -> Path:
        try:
            record = record_of(lab)
            controller = node_of(record, record.layout.controller.name)
            return controller.root / str(REQUEST_LOG).lstrip("/")
        except GridwrightError as error:
            raise OSError(str(error)) from error

    def ended(seconds: float) -> bool:
        if stop.wait(seconds):
            return True
        try:
            record_of(lab)
        except GridwrightError:
            return True
        return False

    reconcile(reconciler_of(lab, say), RequestLog(request_log), EVERY_S, ended)
    return 0


# Faults on purpose: nodes of a lab are powered off and on, cut off from the others, and healed.

Say = Callable[[str], None]


def record_of(lab: str) -> LabRecord:
    """The record of a lab that is up. Raises GridwrightError."""
    record = read(lab)
    if record is None or not record.is_up:
        raise environment_error(f"lab {lab} is not up", remedy="run gridwright up FILE with its grid spec")
    return record


@contextmanager
def _changing(lab: str) -> Iterator[LabRecord]:
    record_of(lab)  # asked before the lock, which makes a file
    with locked(lab):
        yield record_of(lab)


def power_off(lab: str, name: str) -> bool:
    """Kill everything on a node at once; False where it was off. Raises GridwrightError."""
    with _changing(lab) as record:
        node = record.node(name)
        if node.process is None or not node.up:
            return False
        if end_all([node.process], seconds=PATIENCE_S):
            raise environment_error(
                f"node {name} does not end",
                remedy="a process of it waits for a disk or file system that does not answer",
            )
        if record.anchor is not None:
            boot.disconnect(record.anchor.pid, [node.plan])
        namespaces.remove(Path(top) / name for top in record.group_tops)
        write(record.with_node(replace(node, process=None, partitioned=False)))
    return True


def power_on(lab: str, name: str, *, wait: bool = True) -> bool:
    """Boot a node and start its services; False where it was on. Raises GridwrightError.

    With `wait` they have to serve, and those of nodes behind the controller are waited for, too. For a node
    that its scheduler powers, the scheduler waits.
    """
    with _changing(lab) as record:
        if record.node(name).up:
            return False
        spec = deployed_spec(record)
        try:
            running = running_lab(boot_nodes(record, spec, [name]), spec)
            serve(
                running,
                services_of(spec, record.layout),
                [name],
                wait=wait and name not in spec.powered_nodes(),
            )
        except OSError as error:
            raise environment_error(
                f"node {name} cannot be powered on: {error}", remedy="mend that, and power it on again"
            ) from error
    if wait:
        _wait_for_those_behind(lab, name)
    return True


def partition(lab: str, name: str, *, heal: bool) -> bool:
    """Cut a node off the network of the lab, or heal that; False where it was so. Raises GridwrightError.

    A healed node serves again when this returns, and the scheduler has it as a node that takes jobs.
    """
    with _changing(lab) as record:
        node = record.node(name)
        if not node.up:
            raise node_is_down(lab, name)
        if node.partitioned is not heal:
            return False
        if record.anchor is not None:
            # Written first: a node that may be cut off is healed by the next command that is asked to.
            write(record.with_node(replace(node, partitioned=True)))
            boot.partition(record.anchor.pid, [node.plan], heal=heal)
            write(record.with_node(replace(node, partitioned=not heal)))
    if heal:
        _wait_until_served(lab, [name])
        _wait_for_those_behind(lab, name)
    return True


def _wait_for_those_behind(lab: str, name: str) -> None:
    """Wait until nodes serve again that a controller which is back had lost.

    One that its scheduler has drained does not, and is no fault of the controller's.
    """
    record = record_of(lab)
    if name == record.layout.controller.name:
        powered = deployed_spec(record).powered_nodes()
        with contextlib.suppress(GridwrightError):
            _wait_until_served(lab, [each.name for each in record.layout.nodes if each.name not in powered])


def _wait_until_served(lab: str, nodes: Collection[str]) -> None:
    """Wait until services of nodes serve that are up and connected. Raises GridwrightError.

    Other commands may change the lab meanwhile: it is not locked.
    """
    record = record_of(lab)
    spec = deployed_spec(record)
    here = {node.plan.name for node in record.nodes if node.up and not node.partitioned}
    wait_until_served(running_lab(record, spec), services_of(spec, record.layout), here & set(nodes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
