"""Groups that killed runs left are ended; those of other containers, and of nodes of a lab, are not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gridwright.runs.process import machine, process_facts
from gridwright.workload.launches import control_group
from gridwright.workload.launches.control_group import ControlGroup, remove_stale_groups


def test_only_groups_of_dead_processes_of_this_namespace_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    started = process_facts()["started"]
    prefix = "gridwright-workload-"
    names = {
        "dead": f"{prefix}{machine()}-{ended.pid}-{started}",
        "alive": f"{prefix}{machine()}-{os.getpid()}-{started}",
        # Process 1 of a container is not process 1 here: it may well run.
        "elsewhere": f"{prefix}{'0' * 16}-{ended.pid}-{started}",
        "other": "system.slice",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    removed: list[str] = []
    monkeypatch.setattr(control_group, "_own", lambda: tmp_path)
    monkeypatch.setattr(ControlGroup, "remove", lambda group: removed.append(group.directory.name))
    remove_stale_groups()
    assert removed == [names["dead"]]


def test_a_group_of_a_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group, "_own", lambda: tmp_path)
    group = ControlGroup.for_run()
    assert group is not None
    removed: list[str] = []
    monkeypatch.setattr(ControlGroup, "remove", lambda group: removed.append(group.directory.name))
    remove_stale_groups()
    assert removed == [], "its process runs"
    monkeypatch.setattr(control_group, "is_alive", lambda _: False)
    remove_stale_groups()
    assert removed == [group.directory.name]
