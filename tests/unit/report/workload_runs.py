"""Runs with a mixed workload for the tests of the report, built to look like real ones."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from gridwright.report.page import ReportInput
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_record import WorkloadRecord
from tests.fixtures.runs import built_runs
from tests.support.records import WORKLOAD_START, launch_record, workload_record, workload_row

TESTS = (
    ("io_sort", "io", "work read", 0.62), ("io_merge", "io", "data read", 0.71),
    ("io_index", "io", "util", 0.48), ("io_write_wide", "io", "work write", 0.55),
    ("memory_hash_join", "memory", "memory", 0.9), ("memory_summary", "memory", "cpu", 0.97),
    ("compute_logistic", "computation", "cpu", 1.9), ("compute_mixed_model", "computation", "cpu", 1.0),
    ("compute_optimise", "computation", "core", 0.83), ("command_compress", "command", "other", 0.99),
)  # fmt: skip
DIAGNOSIS = (
    "The cores waited for work: reading it took 31 % of the launches' real time, their own computing 52 %; "
    "work gave 1,140 MB/s where its device gave 1,210 in the throughput test."
)
COMMAND = "gridwright workload grid.yaml --matrix mixed --scale small --streams 16 --seed 7"


def shares_of(bound: str, held: float) -> dict[str, float]:
    """Where the time of a launch went that `bound` held for this part of it."""
    others = [cause for cause in ("cpu", "core", "data read", "work write") if cause != bound]
    return {bound: held, **dict.fromkeys(others, (1 - held) / len(others))}


def launches(number: int, streams: int, seed: int = 5, failing: float = 0.0) -> list[LaunchRecord]:
    """Launches that follow each other in their streams, as a run would leave them."""
    dice = random.Random(seed)  # noqa: S311 - noise in a picture
    free = [WORKLOAD_START + dice.uniform(0, 0.4) for _ in range(streams)]
    made = []
    for i in range(number):
        name, class_, bound, ratio = TESTS[dice.randrange(len(TESTS))]
        stream = min(range(streams), key=free.__getitem__)
        real = dice.uniform(6, 40) * (2 if class_ == "computation" else 1)
        busy = real * ratio * dice.uniform(0.7, 1.25)
        ok = dice.random() >= failing
        made.append(
            launch_record(
                i + 1, name, **{"class": class_}, stream=stream + 1, started=free[stream],
                ended=free[stream] + real, real_s=real, user_s=busy * 0.8, system_s=busy * 0.2,
                bound_by=bound, bound_share=(held := dice.uniform(0.4, 0.8)), shares=shares_of(bound, held),
                ok=ok, exit_status=0 if ok else 1,
                reason=None if ok else "the answer is wrong: 1,204,112 rows where 1,204,113 are right.",
                log=None if ok else f"logs/{i + 1:04d}-{name}.log",
            )
        )  # fmt: skip
        free[stream] += real + 0.05
    return made


def samples(record: WorkloadRecord, nodes: int = 1) -> list[SampleRow]:
    """A row per node, second and library, until the last launch has ended."""
    dice = random.Random(3)  # noqa: S311 - noise in a picture
    ends = [launch.ended or 0.0 for launch in record.launches]
    seconds = math.ceil(max(ends) - WORKLOAD_START) if ends else 0
    rows = []
    for second in range(1, seconds + 1):
        now = WORKLOAD_START + second
        running = sum((x.started or 0) <= now < (x.ended or 0) for x in record.launches)
        for node in range(nodes):
            cpu = min(100.0, 100 * running / max(record.streams, 1) * dice.uniform(0.6, 0.95))
            for library, scale in (("data", 40e6), ("work", 70e6), ("util", 15e6)):
                read = int(scale * running * dice.uniform(0.3, 1.2) * (0.2 if second % 60 < 12 else 1))
                written = int(scale * 0.5 * running * dice.uniform(0.2, 1.1)) if library != "data" else 0
                rows.append(
                    workload_row(
                        second, library, f"grid-{node + 1:02d}", time=now + dice.uniform(-0.01, 0.01),
                        read_bytes=read, written_bytes=written, cpu_percent=cpu, launches_running=running,
                        device_read_bytes=int(read * 0.6) if library != "data" else None,
                        device_written_bytes=int(written * 1.1) if library != "data" else None,
                    )
                )  # fmt: skip
    return rows


def report_of(record: WorkloadRecord, rows: list[SampleRow] | None = None, **own: Any) -> ReportInput:
    """The report of a run of a workload alone."""
    status = own.pop("status", record.status)
    met = own.pop("met", record.met if status == "complete" else None)
    run = built_runs.run_record(status, met, what=["workload"], command=COMMAND.split(), **own)
    return ReportInput(run, None, rows or [], COMMAND, record)


def plain_run() -> ReportInput:
    """All launches ended well, in 16 streams."""
    data = {
        "directory": "/srv/gridwright/demo/data/workload", "total_bytes": 24_000_000_000, "made_s": 81.4,
        "hashes": {"sales.csv": "9f86d081"},
    }  # fmt: skip
    record = workload_record(launches(101, 16), data=data, summary={"diagnosis": DIAGNOSIS})
    return report_of(record, samples(record))


def failing_run() -> ReportInput:
    """Some launches failed, on two nodes."""
    record = workload_record(launches(77, 8, seed=9, failing=0.08), summary={"diagnosis": DIAGNOSIS})
    return report_of(record, samples(record, nodes=2))


def both_run() -> ReportInput:
    """A throughput test that missed nothing, and a workload after it."""
    own, built = plain_run(), built_runs.met_run()
    run = built.run.model_copy(update={"what": ["iotest", "workload"]})
    return ReportInput(run, built.iotest, [*built.samples, *own.samples], "gridwright prove", own.workload)


def large_run() -> ReportInput:
    """Thousands of launches in hundreds of streams."""
    record = workload_record(launches(2000, 200, failing=0.01), summary={"diagnosis": DIAGNOSIS})
    return report_of(record, samples(record))


def all_failed_run() -> ReportInput:
    """Not one launch ended well."""
    record = workload_record(launches(60, 8, failing=1.0))
    return report_of(record, samples(record))


def one_run() -> ReportInput:
    """A single launch."""
    record = workload_record([launch_record()])
    return report_of(record, samples(record))


def empty_run() -> ReportInput:
    """No test was launched."""
    return report_of(workload_record([]))


def interrupted_run() -> ReportInput:
    """Stopped after 40 launches."""
    record = workload_record(launches(40, 16, failing=0.05), status="interrupted", met=None)
    return report_of(record, samples(record), finished=None)


def imported_run() -> ReportInput:
    """Read from SAS logs, which tell no more than the times of their steps."""
    absent: dict[str, Any] = dict.fromkeys(
        ("started", "ended", "peak_memory_bytes", "read_bytes", "written_bytes", "bound_by", "bound_share"),
    )
    steps = [
        {"procedure": "SORT", "real_s": 12.2, "user_s": 6.1, "system_s": 3.3, "line": 14},
        {"procedure": "DATA step", "real_s": 30.4, "user_s": 28.8, "system_s": 1.1, "line": 20},
        {"procedure": "SORT", "real_s": 2.0, "user_s": None, "system_s": 0.3, "line": 31},
    ]
    made = [
        launch_record(i + 1, f"month_end_{i % 7}", **absent, steps=steps, exit_status=None, real_s=40.0 + i)
        for i in range(21)
    ]
    record = workload_record(made, matrix=None, scale=None, seed=None, summary={"wall_s": None})
    return report_of(record)


def absent_run() -> ReportInput:
    """Nothing that may be null is known."""
    fields: dict[str, Any] = dict.fromkeys(
        field.name for field in dataclasses.fields(LaunchRecord) if field.default is None
    )
    record = workload_record([launch_record(i + 1, **fields) for i in range(3)], matrix=None, scale=None)
    return report_of(record, [workload_row(1, read_bytes=None, written_bytes=None, cpu_percent=None)])


def hostile_run() -> ReportInput:
    """Every text from outside tries to break out of its place."""
    evil = built_runs.HOSTILE
    made = [
        launch_record(
            i + 1, f"{evil}{i}", ok=False, reason=evil, log=evil, node=evil, signal=evil,
            steps=[{"procedure": evil, "real_s": 1.0, "user_s": 1.0, "system_s": 0.0, "line": 1}],
        )
        for i in range(3)
    ]  # fmt: skip
    record = workload_record(
        made, matrix=evil, scale=evil, data={evil: evil}, summary={"diagnosis": evil},
        findings=[{"level": "error", "name": evil, "text": evil, "remedy": evil}],
    )  # fmt: skip
    return report_of(record, [workload_row(second, evil, evil) for second in range(1, 20)])


RUNS = {
    "workload": plain_run,
    "workload-failing": failing_run,
    "workload-both": both_run,
    "workload-large": large_run,
    "workload-all-failed": all_failed_run,
    "workload-one": one_run,
    "workload-empty": empty_run,
    "workload-interrupted": interrupted_run,
    "workload-imported": imported_run,
    "workload-absent": absent_run,
    "workload-hostile": hostile_run,
}
