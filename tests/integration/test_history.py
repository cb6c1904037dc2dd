"""Agents that keep the history of a node: the role that installs one, and one that runs."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gridwright.grid.grid import Grid
from gridwright.monitor.gathering import commands_of
from gridwright.monitor.history.choosing import LiveHistories, watched_histories
from gridwright.monitor.history.grid_histories import GridHistories
from gridwright.monitor.history.questions import Histories, RangeQuestion, history_file
from gridwright.monitor.history.reading import StoredHistories
from gridwright.spec import load_spec, parse_spec
from tests.support.command import GRIDWRIGHT, Command, wait_until
from tests.support.hanging_mount import hanging_mount
from tests.support.lab import nodes_only, up
from tests.support.role_play import play, write_roles
from tests.support.skips import needs

pytestmark = pytest.mark.root
SPEC = """\
name: demo
filesystems: {disk: {type: local, path: /data}}
monitoring: {history: true}
"""
CPU = "node_cpu_seconds_total"


@contextmanager
def agent(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [GRIDWRIGHT, "node", "history", "--directory", directory], stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def seconds(histories: Histories) -> list[int]:
    """Seconds of the last minute of which the CPUs are known."""
    now = time.time()
    (answer,) = histories.courses(RangeQuestion((CPU,), now - 60, now, 1, by=()))
    if not answer.series:
        return []
    told = enumerate(answer.series[0].values)
    return [int(answer.start_s) + number for number, value in told if value is not None]


def keeps(histories: Histories, number: int) -> list[int]:
    """Wait until as many seconds are known."""

    def enough() -> list[int] | None:
        found = seconds(histories)
        return found if len(found) >= number else None

    return wait_until(enough, seconds=20, what=f"{number} seconds", last=lambda: seconds(histories))


def stops(process: subprocess.Popen[bytes]) -> None:
    """It ends when it is told to; a second is enough on a machine with nothing else to do."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


@pytest.mark.thorough
def test_a_service_is_installed_and_leaves_with_the_spec(tmp_path: Path) -> None:
    needs("unshare", "mount")
    write_roles(tmp_path, parse_spec(SPEC), "history")
    program, written = tmp_path / "gridwright", tmp_path / "written"
    program.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    program.chmod(0o755)

    def role(called: str, program: str, wanted: bool) -> dict[str, object]:
        variables = {"history_program": program, "gridwright_history": wanted}
        return {"name": called, "ansible.builtin.include_role": {"name": "history"}, "vars": variables}

    said = " ".join(
        play(
            tmp_path,
            [
                {
                    "block": [role("absent", "/no/such/gridwright", True)],
                    "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}],
                },
                role("first", str(program), True),
                {"ansible.builtin.command": f"cp -a /etc/systemd/system {written}", "changed_when": False},
                role("second", str(program), True),
                role("gone", str(program), False),
                {
                    "ansible.builtin.command": "ls /etc/systemd/system",
                    "register": "rest",
                    "changed_when": False,
                },
                {"ansible.builtin.assert": {"that": "rest.stdout == ''"}},
                role("still gone", str(program), False),
            ],
        ).split()
    )
    assert "nothing would keep the history of this machine: install gridwright on it" in said
    assert "changed=2 " in said, said
    assert "failed=0" in said
    assert f"ExecStart={program} node history --library /data/" in (
        written / "gridwright-history.service"
    ).read_text("utf-8")


def test_an_agent_is_killed_started_again_and_stopped_and_what_it_kept_is_there(tmp_path: Path) -> None:
    histories = StoredHistories({"here": history_file(tmp_path)})
    with agent(tmp_path) as process:
        keeps(histories, 2)
        with agent(tmp_path) as other:
            _, says = other.communicate(timeout=20)
            assert other.returncode == 3
            assert b"another process writes this history" in says
        process.kill()
        process.wait(10)
    first = seconds(histories)
    with agent(tmp_path) as process:
        later = keeps(histories, len(first) + 3)
        assert set(later) >= set(first)
        stops(process)
    files = {".history", ".history-lock", ".history-generation", ".history-recent"}
    assert {each.suffix for each in tmp_path.iterdir()} <= files


def test_an_agent_beside_a_mount_that_hangs_says_so_and_ends(tmp_path: Path) -> None:
    histories = StoredHistories({"here": history_file(tmp_path / "kept")})
    with hanging_mount(tmp_path / "dead") as dead, agent(tmp_path / "kept") as process:
        keeps(histories, 2)
        (row,) = histories.frame(time.time(), 5).nodes
        assert "no answer since " in row.silent[str(dead)]
        stops(process)


def test_nodes_without_agents_have_a_history_for_as_long_as_they_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with LiveHistories(commands_of(None)) as histories:
        found = keeps(histories, 2)
        assert histories.absent == {}
        assert histories.frame(found[-1] + 1, 1).nodes[0].cores > 0
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_nodes_of_a_grid_are_asked_for_what_they_keep_and_one_that_is_off_is_a_row(
    gridwright: Command, tmp_path: Path
) -> None:
    lab = nodes_only(gridwright, tmp_path, "historylab", "10.97.87.0/24")
    lab.spec.write_text(f"{lab.spec.read_text('utf-8')}monitoring: {{history: true}}\n", "utf-8")
    with up(lab):
        libraries = " ".join(f"--library /mnt/grid/{name}" for name in ("data", "work", "util"))
        for node in ("compute1", "compute2"):
            lab.run(node, "sh", "-c", f"setsid {GRIDWRIGHT} node history {libraries} > /tmp/agent 2>&1 &")

        def then() -> Any:
            document = lab.command("top", lab.spec, "--at", "1s", "--interval", "2s", "--json").json
            return document if all(row["cores"] for row in document["nodes"]) else None

        seen = wait_until(
            then, seconds=30, what="both nodes", last=lambda: lab.run("compute1", "cat", "/tmp/agent")
        )
        (library,) = seen["libraries"]
        assert library["libraries"] == ["data", "work", "util"]
        assert library["standing"] != "unknown"
        with watched_histories(Grid.open(load_spec(lab.spec))) as histories:
            assert isinstance(histories, GridHistories)
            for _ in range(2):
                now = time.time()
                answers = histories.courses(RangeQuestion((CPU,), now - 3, now - 1, 1, by=()))
                assert [bool(each.series) for each in answers] == [True, True], answers
        lab.fault("power-off", "compute2")
        ended = lab.command("top", lab.spec, "--at", "1s", "--interval", "2s", "--json")
        assert ended.status == 3
        away = {row["node"]: row["absent"] for row in ended.json["nodes"]}
        assert away["compute1"] == ""
        assert "compute2" in away["compute2"]
