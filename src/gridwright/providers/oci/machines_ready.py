"""Waits until every machine of a grid has set itself up with what is there for it now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.boot.bundle import LOGS, Part
from gridwright.providers.caller import Caller
from gridwright.providers.oci.boot_reports import RESTARTING, BootReports, OciBootReport
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.oci.user_data import part_of
from gridwright.spec.hosts import fold_hosts

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
