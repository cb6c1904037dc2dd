"""Powers nodes of a lab on and off as its Slurm wants them: a process of this machine while the lab is up.

A lab is made of namespaces of this machine, so what powers its nodes runs here and not on its controller.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gridwright.commands import CommandNotStarted
from gridwright.errors import GridwrightError
from gridwright.node_programs.power.nodes import PowerStates
from gridwright.node_programs.power.reconciler import PowerReconciler, RequestLog, reconcile
from gridwright.node_programs.power.slurm_programs import REQUEST_LOG
from gridwright.node_programs.power.supply import Settled, SupplyError
from gridwright.node_programs.scratch.commands import Ended
from gridwright.providers.lab.faults import power_off, power_on, record_of
from gridwright.providers.lab.node import node_of
from gridwright.providers.lab.record import LabRecord
from gridwright.providers.lab.spec_copy import deployed_spec

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


def _request_log(lab: str) -> Path:
    record = record_of(lab)
    return node_of(record, record.layout.controller.name).root / str(REQUEST_LOG).lstrip("/")


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
            return _request_log(lab)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
