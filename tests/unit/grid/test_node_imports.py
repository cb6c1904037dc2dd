"""What runs on nodes is brought along to them, so it imports only what runs on any Python there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gridwright.commands import run_here
from gridwright.filesystems import all_kinds
from gridwright.filesystems.builtin import WATCHED
from gridwright.filesystems.watching import watcher_of

PARTS = (
    "gridwright.doctor.facts.gather",
    "gridwright.doctor.probes.node",
    "gridwright.iotest.node.worker",
    "gridwright.monitor.agent",
    "gridwright.monitor.history.node_program",
    "gridwright.monitor.node_program",
    "gridwright.workload.node_jobs.chore",
    "gridwright.workload.node_jobs.launch",
)
"""The programs that Gridwright starts on nodes."""
BROUGHT_ALONG = {"gridwright", "psutil", "tenacity"}
LOADED = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(json.dumps({name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before}))
"""


@pytest.mark.parametrize("part", PARTS)
def test_a_nodes_part_needs_no_module_that_is_built_for_one_python_alone(part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, part], capture_output=True, timeout=60, check=True, text=True
    )
    loaded: dict[str, str | None] = json.loads(done.stdout)
    foreign = {
        name: file for name, file in loaded.items() if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert part in foreign
    assert {name.partition(".")[0] for name in foreign} <= BROUGHT_ALONG, (
        "a node has the standard library, and what is brought along"
    )
    compiled = [file for file in foreign.values() if file is not None and file.endswith(".so")]
    assert [file for file in compiled if ".abi3." not in file] == [], "a node may have another Python 3"


@pytest.mark.parametrize("kernel_type", sorted(WATCHED))
def test_who_answers_a_monitor_of_a_mount_needs_no_more_either(kernel_type: str) -> None:
    module = WATCHED[kernel_type].partition(":")[0]
    test_a_nodes_part_needs_no_module_that_is_built_for_one_python_alone(module)
    watcher = watcher_of(kernel_type)
    kinds = [kind for _, kind in all_kinds() if kernel_type in kind.kernel_types]
    assert watcher is not None
    assert isinstance(watcher.server_figures(run_here, Path("/")), Mapping)
    assert kinds != []
