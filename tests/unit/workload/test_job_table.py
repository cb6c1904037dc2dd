"""A table of a site's own jobs: what it says is what is simulated, and all that is wrong with it is told."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.model.batch_window import BatchWindow
from gridwright.model.workload import WorkloadMatrix
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.parquet import write_launches
from gridwright.workload.imports.accounting import assign_streams
from gridwright.workload.imports.job_table import MOST_PROBLEMS, JobTable, read_jobs
from tests.support.records import launch_record

JOBS: dict[str, list[Any]] = {
    "name": ["load", "sort", "load"],
    "started": [0.0, 100.0, 50.0],
    "real_s": [100.0, 200.0, 400.0],
    "cpu_s": [20.0, 190.0, 40.0],
    "read_bytes": [4_000_000_000, 0, 8_000_000_000],
    "written_bytes": [0, 1_000_000_000, 0],
}


def read(path: Path, **columns: list[Any]) -> JobTable:
    pq.write_table(pa.table(columns), path)
    return read_jobs(path)


def refused(path: Path, **columns: list[Any]) -> list[str]:
    with pytest.raises(GridwrightError) as caught:
        read(path, **columns)
    return [str(problem) for problem in caught.value.problems]


def test_a_job_follows_what_ran_before_it_and_keeps_its_bytes_and_time(tmp_path: Path) -> None:
    table = read(tmp_path / "night.parquet", **JOBS)
    assert table.streams == (("load", "sort"), ("load (2)",))
    second = table.profiles.profiles["load (2)"]
    assert sum(phase.read_bytes.get("data", 0) for phase in second.phases) == 8_000_000_000
    assert sum(phase.cpu_s for phase in second.phases) == pytest.approx(40.0)
    assert sum(phase.seconds for phase in second.phases) == pytest.approx(400.0)
    night = BatchWindow(WorkloadMatrix("night", table.streams), table.profiles)
    assert night.jobs == 3
    assert night.floor_s >= 0.95 * 210.0


def test_streams_that_are_stated_go_before_times(tmp_path: Path) -> None:
    table = read(tmp_path / "night.parquet", **JOBS, stream=[1, 1, 1])
    assert table.streams == (("load", "load (2)", "sort"),)


def test_moments_and_csv_say_the_same(tmp_path: Path) -> None:
    plain = read(tmp_path / "night.parquet", **JOBS)
    moments = [datetime.fromtimestamp(1_790_000_000 + each, UTC) for each in JOBS["started"]]
    kinds = {**{name: pa.array(values) for name, values in JOBS.items()}}
    kinds["started"] = pa.array(moments, pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table(kinds), tmp_path / "moments.parquet")
    assert read_jobs(tmp_path / "moments.parquet").streams == plain.streams
    rows = zip(*JOBS.values(), strict=True)
    lines = [",".join(JOBS), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "night.csv").write_text("\n".join(lines) + "\n")
    of_csv = read_jobs(tmp_path / "night.csv")
    assert (of_csv.streams, of_csv.profiles.profiles) == (plain.streams, plain.profiles.profiles)


def test_launches_of_a_run_are_a_table_of_jobs_and_those_that_failed_are_counted(tmp_path: Path) -> None:
    launches = [
        launch_record(number=1, test="a", stream=1, real_s=10.0, user_s=9.0, system_s=0.5, ok=True),
        launch_record(number=2, test="b", stream=2, real_s=5.0, user_s=1.0, system_s=0.0, ok=False),
    ]
    write_launches(tmp_path / "launches.parquet", launches)
    table = read_jobs(tmp_path / "launches.parquet")
    assert (table.streams, table.failed) == ((("a",),), 1)


def test_every_wrong_cell_is_told_with_its_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "night.parquet"
    wrong = {**JOBS, "real_s": [-1.0, float("nan"), 400.0], "read_bytes": [0, 0, -5], "name": ["a", "", None]}
    said = "\n".join(refused(path, **wrong))
    for place in ("row 1, column real_s", "row 2, column real_s", "row 3, column read_bytes"):
        assert place in said
    assert "row 2, column name" in said
    assert "row 3, column name: is empty" in said


def test_columns_that_lack_or_that_nobody_reads_are_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path / "night.parquet", name=["a"], cpu_sec=[1.0], depends=["b"])
    assert any("no column real_s" in each for each in said)
    assert any("no column started (or stream)" in each for each in said)
    assert any("'cpu_sec'" in each and "cpu_s" in each for each in said)
    assert any("'depends'" in each for each in said)


def test_many_wrong_cells_are_counted(tmp_path: Path) -> None:
    said = refused(tmp_path / "n.parquet", name=["a"] * 99, real_s=[0] * 99, cpu_s=[1] * 99, stream=[1] * 99)
    assert len(said) == MOST_PROBLEMS + 1
    assert f"{99 - MOST_PROBLEMS} more" in said[-1]


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 1500), flip=st.integers(0, 1500))
def test_a_damaged_file_is_refused_or_read_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "night.parquet"
    pq.write_table(pa.table(JOBS), path)
    content = bytearray(path.read_bytes())
    content[flip % len(content)] ^= 0x55
    path.write_bytes(content[: len(content) - cut % 3])
    try:
        read_jobs(path)
    except GridwrightError as error:
        assert str(path) in str(error)


def test_what_is_no_table_or_absent_is_said(tmp_path: Path) -> None:
    (tmp_path / "night.parquet").write_bytes(b"no parquet")
    for name, said in (("night.parquet", "is no table"), ("absent.parquet", "cannot be read")):
        with pytest.raises(GridwrightError, match=said):
            read_jobs(tmp_path / name)


def test_it_is_read_without_pandas(tmp_path: Path) -> None:
    pq.write_table(pa.table(JOBS), tmp_path / "night.parquet")
    program = (
        "import sys, pathlib; from gridwright.workload.imports.job_table import read_jobs; "
        f"read_jobs(pathlib.Path({str(tmp_path / 'night.parquet')!r})); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


# Launches that ran at the same time, laid side by side.


def launch_of(started: float | None, ended: float | None) -> LaunchRecord:
    return LaunchRecord(
        number=1, test="t", class_="command", stream=1, node="n", started=started, ended=ended, ok=True
    )


def test_launches_side_by_side_get_streams_of_their_own() -> None:
    spans = [(0, 10), (5, 15), (10, 20), (15, 25), (12, 30), (None, None), (9.5, 11)]
    streams = [launch.stream for launch in assign_streams([launch_of(*span) for span in spans])]
    # The third and the last share half a second with another of their stream: less than a stamp tells.
    assert streams == [1, 2, 1, 2, 3, 1, 1]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(2, 40)), max_size=30))
def test_streams_do_not_overlap_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    launches = [launch_of(float(start), float(start + length)) for start, length in spans]
    found = assign_streams(launches)
    assert [(x.started, x.ended) for x in found] == [(x.started, x.ended) for x in launches]
    most = 0
    for at, _ in spans:
        beside = [
            launch.stream
            for (start, length), launch in zip(spans, found, strict=True)
            if start <= at < start + length - 1
        ]
        assert len(beside) == len(set(beside))
        most = max(most, len(beside))
    assert max((launch.stream for launch in found), default=0) == most
