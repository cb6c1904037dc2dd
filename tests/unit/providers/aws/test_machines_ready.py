"""What `up` takes for a sign of life while it waits for machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from gridwright.providers.aws.rolling import MachinesReady
from gridwright.providers.boot.reports import BootReport

REPORT = BootReport(
    name="compute1", instance="i-1", state="running", bundle="b", tries=1, reason="", log="",
    at="2026-11-24T10:00:00Z",
)  # fmt: skip


class Heard:
    """Who hears what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_machine_that_goes_on_is_heard_and_nothing_is_said_of_it_twice() -> None:
    caller = Heard()
    nothing = cast("Any", None)
    ready = MachinesReady(nothing, cast("Any", caller), nothing, nothing, {}, "bucket")
    assert ready._tell([REPORT])
    assert not ready._tell([REPORT])
    assert ready._tell([replace(REPORT, at="2026-11-24T10:10:00Z")])
    assert ready._tell([replace(REPORT, state="done", at="2026-11-24T10:20:00Z")])
    assert ready._tell([replace(REPORT, state="done", at="2026-11-24T10:30:00Z")])
    assert caller.lines == ["compute1: is set up"]
