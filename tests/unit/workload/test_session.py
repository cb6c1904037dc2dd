"""What the command makes of an agent that says what was not agreed: its nodes may be of another release."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.runs.directory import RunDirectory
from gridwright.workload.matrix import load_matrix
from gridwright.workload.options import WorkloadOptions
from gridwright.workload.scales import scale
from gridwright.workload.session import OnGrid, run_workload

AGENT = """\
import sys
sys.stdin.readline()
print('{"event": "of the future"}')
print('{"event": "sample", "op": "workload", "time": "noon"}')
"""


def test_an_event_that_is_not_as_agreed_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent_of_another_release.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "matrix.yaml").write_text("name: own\nstreams: [[{command: ['true']}]]\n")
    options = WorkloadOptions(matrix=load_matrix(str(tmp_path / "matrix.yaml")), scale=scale("tiny"))
    run = RunDirectory.create(tmp_path / "runs", "own", command=["x"], what=["workload"])
    grid = OnGrid(str(tmp_path), {}, ["n1"], 1, agent="agent_of_another_release")
    libraries = dict.fromkeys(("data", "work", "util"), tmp_path)
    with pytest.raises(GridwrightError, match="an event of the workload is not as agreed") as raised:
        run_workload(run, options, libraries, observers=[], stop=threading.Event(), grid=grid)
    assert raised.value.status == ExitStatus.ENVIRONMENT
    assert raised.value.problems[0].remedy == "install the same gridwright on all nodes"
