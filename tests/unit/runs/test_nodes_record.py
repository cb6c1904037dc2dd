"""Records of several nodes: judged with care, and absent where one node was tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridwright.iotest.coordinator.library import uneven
from gridwright.report.verdict import verdict_in_words
from gridwright.runs.directory import load_run
from gridwright.runs.records import IotestRecord
from gridwright.runs.verdict import judge_library
from tests.fixtures.runs.built_runs import run_record
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
    phases = [partial, whole, phase_record("read", per_core=200e6, nodes=nodes())]
    assert judge_library(library_record(phases=phases, requires=50e6)) is True
    assert judge_library(library_record(phases=phases, requires=150e6)) is None


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


def rated(**per_core: float) -> list[dict[str, Any]]:
    return [
        {"node": name, "cores": 2, "streams": 2, "status": "complete", "per_core_bytes_per_s": rate}
        for name, rate in per_core.items()
    ]


def test_a_requirement_per_core_holds_on_every_node() -> None:
    """As it was measured: 4.74, 2.74 and 4.75 MB/s per core, where 3 were required."""
    slow = phase_record("write", per_core=4.08e6, nodes=rated(n1=4.74e6, n2=2.74e6, n3=4.75e6))
    even = phase_record("read", per_core=4.7e6, nodes=rated(n1=4.74e6, n2=4.6e6, n3=4.75e6))
    library = library_record(phases=[slow, even], requires=3e6, met=False)
    assert judge_library(library) is False
    assert judge_library(library_record(phases=[slow, even], requires=2.7e6)) is True
    verdict = verdict_in_words(
        run_record("complete", verdict="missed"),
        IotestRecord(run="run", status="complete", libraries=[library], findings=[], met=False),
    )
    assert "data writes 2.74 (node n2) and reads 4.6" in verdict.sentence
    assert verdict.libraries[0].scores[0].mark == "missed"


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ({"n1": 4.74e6, "n2": 2.74e6, "n3": 4.75e6}, "n2"),
        ({"n1": 4.7e6, "n2": 2.7e6}, "n2"),
        ({"n1": 4.7e6, "n2": 4.0e6, "n3": 4.75e6}, None),
        ({"n1": 4.0e6, "n2": 2.5e6, "n3": 5.5e6, "n4": 3.0e6, "n5": 4.5e6}, None),
        ({"n1": 4.0e6}, None),
    ],
)
def test_a_slow_node_is_told_by_the_spread_of_the_others(rates: dict[str, float], slow: str | None) -> None:
    found = uneven("data", phase_record("write", per_core=4e6, nodes=rated(**rates)))
    assert (found is not None) == (slow is not None)
    if found is not None:
        assert f"node {slow} gives 2.7" in found.text
