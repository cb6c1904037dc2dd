"""Setting nodes up: how Ansible is called, and what is read out of what it reports."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gridwright.setup.running import (
    NodeSetup,
    SetupRequest,
    SetupResult,
    command_line,
    environment,
    last_task,
    read_report,
)


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) for event in events]


CHANGED = {"event": "changed", "node": "node1", "task": "base : Write limits", "where": "/etc/limits"}
DRIFT = {
    **CHANGED,
    "task": "base : Differing kernel parameters",
    "where": "",
    "name": "sysctl-swappiness",
    "setting": "vm.swappiness",
    "found": "60",
    "wanted": "10",
}


def test_changes_are_told_by_setting_or_by_file() -> None:
    (node,) = read_report(lines(DRIFT, CHANGED, {"event": "end", "nodes": {"node1": {"changed": 2}}}))
    assert node.state == "changed"
    assert [each.text for each in node.changes] == ["vm.swappiness: 60 -> 10", "/etc/limits: write limits"]


def test_a_node_that_is_right_a_node_that_failed_and_one_that_is_away() -> None:
    nodes = read_report(
        lines(
            {"event": "failed", "node": "node2", "task": "slurm : Refuse", "message": "Task failed: no key"},
            {"event": "unreachable", "node": "node3", "task": "Look", "message": "no route"},
            {
                "event": "end",
                "nodes": {"node1": {"ok": 9}, "node2": {"failures": 1}, "node3": {"unreachable": 1}},
            },
        )
    )
    assert {node.name: node.state for node in nodes} == {
        "node1": "ok",
        "node2": "failed",
        "node3": "unreachable",
    }
    failures = {node.name: [(each.task, each.message) for each in node.failures] for node in nodes}
    assert failures == {"node1": [], "node2": [("Refuse", "no key")], "node3": [("", "no route")]}


def test_a_node_whose_play_never_ended_is_no_success() -> None:
    (node,) = read_report([*lines(DRIFT), '{"event": "changed", "nod'])
    assert node.state == "unfinished"
    assert SetupResult([node]).failed
    assert SetupResult([node]).changed
    assert not SetupResult([NodeSetup("node1", "ok")]).failed


def test_what_a_node_does_not_have_is_kept_apart() -> None:
    event = {"event": "skipped", "node": "node1", "name": "row", "setting": "a.b", "skipped": "It went."}
    (node,) = read_report(lines(event, {"event": "end", "nodes": {"node1": {"ok": 1}}}))
    assert node.state == "ok"
    assert [(each.setting, each.reason) for each in node.skipped] == [("a.b", "It went.")]


@given(
    st.lists(st.one_of(st.text(), st.sampled_from(lines(DRIFT, CHANGED, {"event": "start", "task": "x"}))))
)
def test_lines_that_are_none_of_ours_are_left_out(report: list[str]) -> None:
    assert {node.name for node in read_report(report)} <= {"node1"}
    assert last_task(report) in ("", "x")


def test_ansible_is_the_one_of_this_python_and_asks_nothing(tmp_path: Path) -> None:
    request = SetupRequest(
        files={}, check=True, diff=True, nodes=["node1", "node2"], user="admin", private_key=tmp_path / "key",
        variables=tmp_path / "site.yml", become=False, ssh=["nsenter", "-t", "7", "ssh"],
    )  # fmt: skip
    command = command_line(request, tmp_path)
    assert command[:5] == [sys.executable, "-P", "-m", "ansible", "playbook"]
    assert command[-1] == "site.yml"
    assert {"--check", "--diff"} <= set(command)
    assert command[command.index("--limit") + 1] == "node1,node2"
    assert command[command.index("--user") + 1] == "admin"
    assert f"@{tmp_path / 'site.yml'}" in command
    assert '{"gridwright_become": false}' in command, "and no node is restarted unless that is asked for"
    asked = command_line(replace(request, restart=True), tmp_path)
    assert '{"gridwright_become": false, "gridwright_restart": "now"}' in asked
    set_up = environment(request, tmp_path)
    assert "BatchMode=yes" in set_up["ANSIBLE_SSH_ARGS"]
    assert set_up["ANSIBLE_SSH_EXECUTABLE"] == str(tmp_path / "ssh")


def test_settings_of_the_users_own_ansible_are_left_out(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "null")
    monkeypatch.setenv("ANSIBLE_CONFIG", "/nowhere")
    set_up = environment(SetupRequest(files={}, check=False), tmp_path)
    assert "ANSIBLE_STDOUT_CALLBACK" not in set_up
    assert set_up["ANSIBLE_CONFIG"].startswith(str(tmp_path))
