"""Waits until every machine of a grid has set itself up with what is there for it now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.aws.boot_reports import RESTARTING, BootReport, boot_reports, forget_gone
from gridwright.providers.aws.instances import claims, instances, rows
from gridwright.providers.aws.layout import AwsLayout, Role
from gridwright.providers.aws.names import ROLE_TAG
from gridwright.providers.aws.roll_program import roller
from gridwright.providers.aws.rolling import outdated_instances
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.tagged import tags_of
from gridwright.providers.aws.user_data import part_of
from gridwright.providers.boot.bundle import LOGS, Part
from gridwright.providers.caller import Caller
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.model import GridSpec

FIRST_POLL_S, POLL_S = 0.5, 5.0
QUIET_S = 3600.0
"""So long nothing may be heard of any machine: each tells every ten minutes that it goes on."""
FAILED_TRIES = 3
"""After so many tries a machine counts as failed, though it goes on: what passes by itself has passed."""
_STOPPED = ("stopping", "stopped")


@dataclass
class MachinesReady:
    """Which machines are ready, and what was said of them."""

    cloud: Cloud
    caller: Caller
    spec: GridSpec
    layout: AwsLayout
    bundles: Mapping[Part, str]
    """Key of the bundle of each part."""
    bucket: str
    _said: set[tuple[str, str, int, str]] = field(default_factory=set)
    _at: dict[str, str] = field(default_factory=dict)
    """When each was last heard of."""

    def wait(self) -> None:
        """Return when all are; tell of each as it goes on. Raises GridwrightError where some are not.

        The others are as they should be then, and those go on trying.
        """
        heard, pause = time.monotonic(), FIRST_POLL_S
        while True:
            there, told = instances(self.cloud, self.spec), rows(self.cloud, self.spec)
            reports = boot_reports(told)
            current = {name: self._current(each, reports.get(name)) for name, each in there.items()}
            if self._tell(current.values()):
                heard, pause = time.monotonic(), FIRST_POLL_S
            # One that somebody stopped sets itself up when it is started again.
            open_ = {
                name: each
                for name, each in current.items()
                if (each is None or each.state != "done") and there[name]["State"]["Name"] not in _STOPPED
            }
            if any(_has_failed(each) for each in open_.values()) and roller(self.layout):
                # What is to be replaced is mended by that, and not by its next try.
                leaving = outdated_instances(self.cloud, self.spec)
                open_ = {n: each for n, each in open_.items() if n not in leaving or not _has_failed(each)}
            waiting = [name for name, each in open_.items() if not _has_failed(each)]
            lacking = len(self.layout.always_on) - len(there.keys() - self._powered(told))
            quiet = time.monotonic() - heard > QUIET_S
            if quiet or (not waiting and lacking <= 0):
                forget_gone(self.cloud, self.spec, reports, there)
                if open_ or lacking > 0:
                    raise self._unready(open_, max(lacking, 0))
                return
            self._pause(pause, len(waiting) + max(lacking, 0))
            pause = min(2 * pause, POLL_S)

    def _powered(self, told: Iterable[Mapping[str, Any]]) -> set[str | None]:
        """Instances that are nodes which the scheduler has on just now: more than are waited for."""
        claimed = claims(told)
        names = (each.name for each in self.layout.machines if each.powered)
        return {claimed[name].owner for name in names if name in claimed}

    def _current(self, instance: Mapping[str, Any], report: BootReport | None) -> BootReport | None:
        """What it told since it started of the bundle that is there for it now; nothing else counts."""
        if report is None or not report.is_of_this_start(instance):
            return None
        role = Role(tags_of(instance).get(ROLE_TAG, Role.COMPUTE))
        return report if report.bundle == self.bundles[part_of(role)] else None

    def _tell(self, reports: Any) -> bool:  # noqa: ANN401 - a view of the values of a dictionary
        """Say what is new; whether anything was heard."""
        new = False
        for each in reports:
            if each is None:
                continue
            new |= self._at.get(each.instance) != each.at
            self._at[each.instance] = each.at
            restarts = each.reason if each.reason.startswith(RESTARTING) else ""
            if (told := (each.instance, each.state, each.tries, restarts)) in self._said:
                continue
            self._said.add(told)
            new = True
            if each.state == "done":
                self.caller.say(f"{each.name}: is set up")
            elif restarts:
                self.caller.say(f"{each.name or each.instance}: {each.reason}")
            elif each.state == "failed":
                self.caller.say(f"{each.name or each.instance}: try {each.tries} failed: {each.reason}")
        return new

    def _pause(self, seconds: float, waiting: int) -> None:
        if self.caller.stop.wait(seconds):
            self.caller.say(
                f"{waiting} machines go on setting themselves up; gridwright status shows how far they are, "
                "and gridwright up waits for them"
            )
            self.caller.go_on()

    def _unready(self, open_: Mapping[str, BootReport | None], lacking: int) -> GridwrightError:
        """The error that names them; the end of the first one's log is said before."""
        failed = [each for each in open_.values() if each is not None and each.state == "failed"]
        silent = [name for name, each in open_.items() if each is None or each.state != "failed"]
        for line in self._last_lines(failed, silent):
            self.caller.say(line)
        parts = [
            *(f"{each.name or each.instance}: {each.reason}" for each in failed[:3]),
            *([f"{len(failed) - 3} more failed"] if len(failed) > 3 else []),
            *(
                [f"{fold_hosts(sorted(silent)[:8])} told nothing for {QUIET_S / 60:.0f} min"]
                if silent
                else []
            ),
            *([f"{lacking} are not there yet"] if lacking else []),
        ]
        count = len(open_) + lacking
        logs = f"; their logs are below s3://{self.bucket}/{LOGS}" if failed else ""
        return environment_error(
            f"{count} of {len(self.layout.machines)} machines are not set up: {'; '.join(parts)}",
            where=f"grid {self.spec.name}, AWS, {self.cloud.region}",
            remedy=f"mend what the log says and run gridwright up again: they go on trying, and the other "
            f"machines stay as they are{logs}",
        )

    def _last_lines(self, failed: list[BootReport], silent: list[str]) -> Iterator[str]:
        if failed:
            who = failed[0].name or failed[0].instance
            yield from (f"{who} | {line}" for line in failed[0].log.splitlines())
        elif silent:
            yield from (f"{silent[0]} console | {line}" for line in self._console(silent[0]))

    def _console(self, instance: str) -> list[str]:
        """The end of a machine's console: all that there is of one that reaches nothing."""
        try:
            found = self.cloud.call("ec2", "get_console_output", InstanceId=instance)
        except CloudError:
            return []
        return str(found.get("Output") or "").splitlines()[-20:]


def _has_failed(report: BootReport | None) -> bool:
    return report is not None and report.state == "failed" and report.tries >= FAILED_TRIES
