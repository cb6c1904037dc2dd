"""Records of several nodes: judged with care, and absent where one node was tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.runs.directory import load_run
from gridwright.runs.records import IotestRecord
from gridwright.runs.verdict import judge_library
from tests.support.records import (
    library_event,
    library_record,
    measured_run,
    phase_event,
    phase_fields,
    phase_record,
    take,
)


def nodes(*failed: str) -> list[dict[str, Any]]:
    return [
        {"node": name, "cores": 2, "streams": 2, "status": "failed" if name in failed else "complete"}
        for name in ("n1", "n2")
    ]


@pytest.mark.parametrize(
    ("per_core", "failed", "met"),
    [(100e6, (), True), (40e6, (), False), (100e6, ("n2",), None), (40e6, ("n2",), False)],
)
def test_a_missing_node_proves_a_miss_and_nothing_else(
    per_core: float, failed: tuple[str, ...], met: bool | None
) -> None:
    phases = [phase_record(op, per_core=per_core, nodes=nodes(*failed)) for op in ("write", "read")]
    assert judge_library(library_record(phases=phases, requires=50e6)) is met


def test_a_whole_phase_beside_one_without_a_node_counts() -> None:
    partial = phase_record("write", per_core=200e6, nodes=nodes("n1"))
    whole = phase_record("write", per_core=100e6, nodes=nodes())
    assert judge_library(library_record(phases=[partial, whole], requires=50e6)) is True
    assert judge_library(library_record(phases=[partial, whole], requires=150e6)) is None


def test_a_run_of_one_node_has_no_key_more_than_before(tmp_path: Path) -> None:
    run = measured_run(tmp_path)
    results = run.finish("complete")
    assert results.iotest is not None
    document = results.iotest.model_dump(mode="json", by_alias=True)
    assert "nodes" not in document
    (library,) = document["libraries"]
    assert "all_cores" not in library
    assert library["nodes"] == 1
    assert all("nodes" not in phase for phase in library["phases"])


def test_nodes_come_back_as_they_were_written(tmp_path: Path) -> None:
    run = measured_run(tmp_path)
    facts = {"node": "n1", "cores": 2, "clock_offset_s": 0.001, "host": "h", "kernel": "Linux 6"}
    take(run, {"event": "nodes", "nodes": [facts]})
    take(run, library_event() | {"nodes": 2, "all_cores": 6})
    take(run, {"event": "result", "phase": phase_fields("write", nodes=nodes("n2"))})
    written = run.finish("complete").iotest
    read = load_run(run.path).iotest
    assert read == written
    assert isinstance(read, IotestRecord)
    assert read.nodes[0].clock_offset_s == 0.001
    assert read.libraries[1].total_cores == 6
    assert read.libraries[1].phases[0].failed_nodes == ["n2"]


def test_a_sample_is_of_the_node_it_names_or_of_the_run(tmp_path: Path) -> None:
    run = measured_run(tmp_path)
    take(run, phase_event("read"))
    sample = {"event": "sample", "op": "read", "time": 2.0, "elapsed_s": 1.0, "interval_s": 1.0}
    moved = {"read_bytes": 5, "written_bytes": 0, "operations": 0}
    take(run, sample | moved | {"node": "n7"})
    take(run, {"event": "result", "phase": phase_fields("read")})
    run.finish("complete")
    named = {row.node for row in load_run(run.path).samples}
    assert named == {run.record.host.hostname, "n7"}


def test_a_phase_of_one_node_has_no_failed_ones() -> None:
    assert phase_record("write").failed_nodes == []
