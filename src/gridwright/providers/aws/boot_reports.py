"""What machines tell of how they set themselves up: rows of the table of claims, one for each instance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from gridwright.providers.aws.names import claims_table
from gridwright.providers.aws.session import Cloud
from gridwright.spec.model import GridSpec

RESTARTING = "restarting"
"""How the reason begins that a machine gives while it restarts (boot/set_up.py)."""
BOOT = "boot#"
"""What the keys of these rows begin with; the ARN of the instance follows."""
NAMESPACE, FAILURES, GRID = "Gridwright", "SetUpFailures", "Grid"
"""The metric of boots that failed for good, and its dimension: boot/set_up.py counts them."""
State = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class BootReport:
    """How an instance got on with a bundle; boot/set_up.py writes it."""

    key: str
    """Of the row."""
    instance: str
    name: str
    """Of the machine; empty before the instance has claimed one."""
    state: State
    bundle: str
    tries: int
    reason: str
    """Why it failed, or what it is at: restarting for a kernel."""
    log: str
    """The last lines of the log of a try that failed."""
    at: str
    """When it was told, as 2026-11-23T09:15:00Z; empty where that is not known."""

    def is_of_this_start(self, instance: Mapping[str, Any]) -> bool:
        """Whether it was told since EC2 started the instance: each start sets a machine up again.

        One that was stopped and started with other user data has told of the same bundle before.
        """
        started = instance.get("LaunchTime")
        return not self.at or started is None or datetime.fromisoformat(self.at) >= started

    @property
    def text(self) -> str:
        """In a few words."""
        if self.state == "done":
            return "done"
        if self.state == "running" and self.reason:
            return self.reason
        if self.state == "running":
            return "running" if self.tries == 1 else f"running, try {self.tries}"
        return f"failed, try {self.tries}"


def boot_reports(rows: Iterable[Mapping[str, Any]]) -> dict[str, BootReport]:
    """The reports among the rows of the table of claims, by instance."""
    found = [_report(row) for row in rows if row["slot"]["S"].startswith(BOOT)]
    return {each.instance: each for each in found}


def _report(row: Mapping[str, Any]) -> BootReport:
    texts = {
        name: str(row.get(name, {}).get("S", ""))
        for name in ("slot", "instance", "name", "state", "bundle", "reason", "log", "at")
    }
    return BootReport(
        key=texts["slot"],
        instance=texts["instance"] or texts["slot"].rpartition("/")[2],
        name=texts["name"],
        state=cast("State", texts["state"]),
        bundle=texts["bundle"],
        tries=int(row.get("tries", {}).get("N", 1)),
        reason=texts["reason"],
        log=texts["log"],
        at=texts["at"],
    )


def forget_gone(
    cloud: Cloud, spec: GridSpec, reports: Mapping[str, BootReport], there: Collection[str]
) -> None:
    """Remove the reports of instances that are gone."""
    for instance, report in reports.items():
        if instance not in there:
            cloud.call(
                "dynamodb", "delete_item", TableName=claims_table(spec), Key={"slot": {"S": report.key}}
            )
