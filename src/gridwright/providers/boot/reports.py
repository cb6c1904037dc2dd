"""How machines of a cloud get on with setting themselves up, as boot/set_up.py tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gridwright.errors import GridwrightError, environment_error
from gridwright.spec.hosts import fold_hosts

RESTARTING = "restarting"
"""How the reason begins that a machine gives while it restarts (boot/set_up.py)."""
QUIET_S = 3600.0
"""So long nothing may be heard of any machine: each tells every ten minutes that it goes on."""
FAILED_TRIES = 3
"""After so many tries a machine counts as failed, though it goes on: what passes by itself has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootReport:
    """How a machine got on with a bundle."""

    name: str
    """Empty before the machine has claimed one."""
    instance: str
    """Its ID in the cloud."""
    state: str
    """running, done or failed."""
    bundle: str
    tries: int
    reason: str
    """Why it failed, or what it is at: restarting for a kernel."""
    log: str
    """The last lines of the log of a try that failed."""
    at: str
    """When it was told, as 2026-11-23T09:15:00Z; empty where that is not known."""

    def is_of(self, instance: str | None, bundle: str | None) -> bool:
        """Whether it is of this instance and this bundle: an earlier machine of the name may have told it."""
        return (self.instance, self.bundle) == (instance, bundle)

    @property
    def who(self) -> str:
        """The machine, as people know it."""
        return self.name or self.instance

    @property
    def restarts(self) -> str:
        """For what it restarts; empty where it does not."""
        return self.reason if self.reason.startswith(RESTARTING) else ""

    @property
    def has_failed(self) -> bool:
        """Whether it is not waited for any more."""
        return self.state == "failed" and self.tries >= FAILED_TRIES

    @property
    def text(self) -> str:
        """In a few words."""
        if self.state == "done":
            return "done"
        if self.state == "running" and self.reason:
            return self.reason
        return (
            self.state if self.state == "running" and self.tries == 1 else f"{self.state}, try {self.tries}"
        )

    @property
    def news(self) -> str | None:
        """What is said of it while machines are waited for; None where that is nothing."""
        if self.state == "done":
            return f"{self.name}: is set up"
        if self.restarts:
            return f"{self.who}: {self.restarts}"
        return f"{self.who}: try {self.tries} failed: {self.reason}" if self.state == "failed" else None


class BootNews:
    """What machines tell while they are waited for: each thing of it is said once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[tuple[str, str, int, str]] = set()
        self._at: dict[str, str] = {}
        """When each was last heard of."""

    def hear(self, reports: Iterable[BootReport | None]) -> bool:
        """Say what is new; whether anything was heard."""
        new = False
        for each in reports:
            if each is None:
                continue
            new |= self._at.get(each.instance) != each.at
            self._at[each.instance] = each.at
            if (told := (each.instance, each.state, each.tries, each.restarts)) in self._said:
                continue
            self._said.add(told)
            new = True
            if each.news:
                self._say(each.news)
        return new


def unready(failed: Sequence[BootReport], silent: Sequence[str], quiet_s: float) -> list[str]:
    """What is wrong with machines that are not set up: some that failed, and those that tell nothing."""
    return [
        *(f"{each.who}: {each.reason}" for each in failed[:3]),
        *([f"{len(failed) - 3} more failed"] if len(failed) > 3 else []),
        *([f"{fold_hosts(silent)} told nothing for {quiet_s / 60:.0f} min"] if silent else []),
    ]


def not_set_up(count: str, reasons: Sequence[str], where: str, look: str) -> GridwrightError:
    """The error of machines that are not set up, `count` in words; `look` says where else to look."""
    return environment_error(
        f"{count} machines are not set up: {'; '.join(reasons)}",
        where=where,
        remedy="mend what the log says and run gridwright up again: they go on trying, and the other "
        f"machines stay as they are{look}",
    )


def go_on(count: int) -> str:
    """What is said where so many machines are not waited for any more."""
    return (
        f"{count} machines go on setting themselves up; gridwright status shows how far they are, and "
        "gridwright up waits for them"
    )
