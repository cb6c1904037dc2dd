"""Since when a library of a lab is slow, out of the history that its nodes keep."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gridwright.grid.grid import Grid
from gridwright.monitor.history.grid_histories import histories_of
from gridwright.monitor.history.questions import DIRECTORY
from gridwright.spec import load_spec
from tests.support.command import GRIDWRIGHT, Command, wait_until
from tests.support.lab import Lab
from tests.support.loop_lab import loop_lab

pytestmark = pytest.mark.root

WELL_S, SLOW_S = 25.0, 13.0
"""Long enough for looks of ten seconds on both sides."""


def known_until(lab: Lab, *, at_least: float = 0.0, longer_than: float = 0.0) -> None:
    """Wait until the nodes' history reaches to a time, and over so many seconds."""
    histories = histories_of(Grid.open(load_spec(lab.spec)))

    def enough() -> bool | None:
        reach = histories.reach()
        return (reach is not None and reach[1] >= at_least and reach[1] - reach[0] >= longer_than) or None

    wait_until(enough, seconds=60, what="the history", last=histories.reach)


def test_a_limit_that_was_set_is_told_with_its_time(gridwright: Command, tmp_path: Path) -> None:
    with loop_lab(gridwright, tmp_path, "sincelab", "10.97.59.0/24", "20 MB/s/core") as grid:
        lab = grid.lab
        lab.spec.write_text(f"{lab.spec.read_text()}monitoring: {{history: true}}\n")
        agent = f"exec setsid {GRIDWRIGHT} node history --directory {DIRECTORY} --library /mnt/grid/data"
        for node in ("compute1", "compute2"):
            started = lab.run(node, "sh", "-c", f"mkdir -p {DIRECTORY}; ({agent}) > /root/agent.log 2>&1 &")
            assert started.status == 0, started
        with grid.reads("compute1", "reader", job="17"):
            known_until(lab, longer_than=WELL_S)
            throttled = time.time()
            grid.throttle("read", 1_000_000)
            known_until(lab, at_least=throttled + SLOW_S)
            now = lab.command("explain-slow", lab.spec, "--interval", "2s", "--json")
            ago = time.time() - throttled
            then = lab.command("explain-slow", lab.spec, "--at", f"{ago + 2:.0f}s", "--json")
    (shared,) = now.json["filesystems"]
    assert shared["slow"], now.out
    assert shared["since"]["at_s"] - shared["since"]["within_s"] - 2 <= throttled <= shared["since"]["at_s"]
    assert not shared["since"]["at_least"]
    assert (then.status, then.json["slow"]) == (0, False), then.out + then.err
