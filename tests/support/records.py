"""Records of runs, made by hand."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from gridwright.messages import plain, typed
from gridwright.runs.directory import RunDirectory, read_event
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import LibraryRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_record import TestSummary, WorkloadRecord, WorkloadSummary

ASKED: dict[str, Any] = {
    "engine": "buffered",
    "block_bytes": 65536,
    "queue_depth": None,
    "streams": 2,
    "size_bytes": None,
    "seconds": 10.0,
    "verify": False,
    "seed": None,
}
USED: dict[str, Any] = {
    "engine": "buffered",
    "block_bytes": 65536,
    "direct": False,
    "io_uring": False,
    "queue_depth": 1,
    "streams": 2,
    "method": "pread/pwrite",
    "seed": 7,
}


def phase_fields(op: str, *, per_core: float | None = 100e6, cores: int = 2, **own: Any) -> dict[str, Any]:
    """A phase as the worker tells it."""
    rate = per_core * cores if per_core is not None else None
    return {
        "op": op,
        "status": "complete",
        "started": 1_763_697_600.0,
        "asked": ASKED,
        "used": USED,
        "bytes": int(rate * 10) if rate else None,
        "seconds_first": 10.0,
        "seconds_last": 10.0,
        "rate_first_bytes_per_s": rate,
        "rate_last_bytes_per_s": rate,
        "per_core_bytes_per_s": per_core,
        "per_stream_bytes_per_s": [rate / 2] * 2 if rate else [],
        "per_stream_seconds": [10.0, 10.0] if rate else [],
        "latency_us": {"p50": 100.0, "p95": 200.0, "p99": 300.0, "p99_9": 400.0, "max": 500.0},
        "cpu_user_s": 0.5,
        "cpu_system_s": 1.5,
        "cached_fraction": None,
        "cached": False,
        "ops_per_s": None,
    } | own


def phase_record(op: str, **own: Any) -> PhaseRecord:
    return typed(phase_fields(op, **own), PhaseRecord)


def library_record(
    *, phases: list[PhaseRecord] | None = None, requires: float | None = None, met: bool | None = None
) -> LibraryRecord:
    return LibraryRecord(
        library="data",
        path="/data",
        filesystem="disk",
        nodes=1,
        streams=2,
        cores=2,
        requires_bytes_per_s_per_core=requires,
        met=met,
        phases=phases or [],
    )


def take(run: RunDirectory, line: dict[str, Any]) -> None:
    """Tell a run an event that stands as a line of a journal."""
    event = read_event(line, workload=run.workload.begun)
    assert event is not None
    run.take(event)


def library_event(name: str = "data", requires: float | None = 50e6) -> dict[str, Any]:
    return {
        "event": "library",
        "library": name,
        "path": f"/srv/{name}",
        "filesystem": "disk",
        "nodes": 1,
        "streams": 2,
        "cores": 2,
        "requires_bytes_per_s_per_core": requires,
        "device": {"mount_point": "/srv", "filesystem_type": "ext4"},
    }


def phase_event(op: str) -> dict[str, Any]:
    return {"event": "phase", "op": op, "started": 1_763_697_600.0, "asked": ASKED, "used": USED}


def sample_event(op: str, second: int, *, read: int = 0, written: int = 0) -> dict[str, Any]:
    return {
        "event": "sample",
        "op": op,
        "time": 1_763_697_600.0 + second,
        "elapsed_s": float(second),
        "interval_s": 1.0,
        "read_bytes": read,
        "written_bytes": written,
        "operations": 0,
        "cpu_percent": 10.0,
        "memory_used_bytes": 1 << 30,
        "device": "vda",
        "device_read_bytes": read,
        "device_written_bytes": written,
    }


def result_event(op: str, **own: Any) -> dict[str, Any]:
    return {"event": "result", "phase": phase_fields(op, **own)}


def measured_run(
    runs: Path, name: str = "demo", *, per_core: float = 100e6, spread: float = 0.0
) -> RunDirectory:
    """A run with one library, its events taken, that is still going on."""
    run = RunDirectory.create(runs, name, command=["gridwright", "iotest"], what=["iotest"])
    take(run, library_event())
    for op in ("write", "read"):
        take(run, phase_event(op))
        for second in range(1, 6):
            moved = int(2 * per_core * (1 + spread * (-1) ** second))
            take(run, sample_event(op, second, **{"read" if op == "read" else "written": moved}))
        take(run, result_event(op, per_core=per_core))
    take(run, {"event": "done", "status": "complete", "exit": 0})
    return run


def finished_run(runs: Path, name: str = "demo", **own: Any) -> Path:
    run = measured_run(runs, name, **own)
    run.finish("complete")
    return run.path


WORKLOAD_START = 1_763_700_000.0


def launch_record(number: int = 1, test: str = "io_sort", **own: Any) -> LaunchRecord:
    """A launch of 20 s that used its core for 18 of them."""
    real, user, system = (own.get(key, usual) for key, usual in _LAUNCH_TIMES.items())
    known = None not in (real, user, system) and real
    values: dict[str, Any] = {
        "number": number,
        "test": test,
        "class": "io",
        "stream": 1,
        "node": "grid-01",
        "started": WORKLOAD_START,
        "ended": WORKLOAD_START + real if real is not None else None,
        "real_s": real,
        "user_s": user,
        "system_s": system,
        "peak_memory_bytes": 1_500_000_000,
        "read_bytes": 4_000_000_000,
        "written_bytes": 1_000_000_000,
        "cpu_real_ratio": (user + system) / real if known else None,
        "bound_by": "work read",
        "bound_share": 0.43,
        "exit_status": 0,
        "ok": True,
    }
    return typed(plain(values | own), LaunchRecord)


_LAUNCH_TIMES = {"real_s": 20.0, "user_s": 14.0, "system_s": 4.0}


def workload_record(launches: list[LaunchRecord], **own: Any) -> WorkloadRecord:
    """A workload of these launches, summed up; `summary` in `own` replaces single figures."""
    tests = [
        workload_test([launch for launch in launches if launch.test == name])
        for name in dict.fromkeys(launch.test for launch in launches)
    ]
    values: dict[str, Any] = {
        "run": "20251121T050000Z-demo",
        "status": "complete",
        "matrix": "mixed",
        "scale": "small",
        "seed": 7,
        "streams": len({launch.stream for launch in launches}),
        "tests": tests,
        "launches": launches,
        "findings": [],
        "met": all(launch.ok for launch in launches) if launches else None,
    }
    summary = workload_summary(launches).model_copy(update=own.pop("summary", {}))
    return WorkloadRecord.model_validate(values | {"summary": summary} | own)


def workload_test(launches: list[LaunchRecord]) -> TestSummary:
    """One test's row."""
    first = launches[0]
    return TestSummary.model_validate(
        {
            "test": first.test,
            "class": first.class_,
            "launches": len(launches),
            "failed": sum(not launch.ok for launch in launches),
            "real_s_mean": _mean_of(launches, "real_s"),
            "user_s_mean": _mean_of(launches, "user_s"),
            "system_s_mean": _mean_of(launches, "system_s"),
            "peak_memory_bytes_mean": _mean_of(launches, "peak_memory_bytes"),
            "ratio_mean": _mean_of(launches, "cpu_real_ratio"),
            "bound_by": first.bound_by,
        }
    )


def workload_summary(launches: list[LaunchRecord]) -> WorkloadSummary:
    """All launches together."""
    real, user, system = (_known_of(launches, key) for key in _LAUNCH_TIMES)
    ratios = _known_of(launches, "cpu_real_ratio")
    ends = [launch.ended for launch in launches if launch.ended is not None]
    starts = [launch.started for launch in launches if launch.started is not None]
    wall = max(ends) - min(starts) if ends and starts else None
    memory = _known_of(launches, "peak_memory_bytes")
    return WorkloadSummary(
        launches=len(launches),
        failed=sum(not launch.ok for launch in launches),
        real_s=sum(real) if real else None,
        user_s=sum(user) if user else None,
        system_s=sum(system) if system else None,
        peak_memory_bytes=int(sum(memory)) if memory else None,
        ratio_mean=fmean(ratios) if ratios else None,
        ratio_stdev=stdev(ratios) if len(ratios) > 1 else None,
        ratio_min=min(ratios, default=None),
        ratio_max=max(ratios, default=None),
        ratio_of_sums=(sum(user) + sum(system)) / sum(real) if real and sum(real) else None,
        mean_concurrency=sum(real) / wall if wall and real else None,
        mean_concurrency_until_tail=float(len({launch.stream for launch in launches})) if wall else None,
        streams=len({launch.stream for launch in launches}),
        wall_s=wall,
        read_bytes=None,
        written_bytes=None,
        bound_by=launches[0].bound_by if launches else None,
        bound_share=None,
        diagnosis=None,
    )


def _known_of(launches: list[LaunchRecord], key: str) -> list[float]:
    known = [getattr(launch, key) for launch in launches]
    return [value for value in known if value is not None and math.isfinite(value)]


def _mean_of(launches: list[LaunchRecord], key: str) -> float | None:
    known = _known_of(launches, key)
    return fmean(known) if known else None


def workload_sample(second: int, library: str = "work", node: str = "grid-01", **own: Any) -> dict[str, Any]:
    """One second of one library on one node, as it stands in the samples of a workload."""
    return {
        "time": WORKLOAD_START + second,
        "node": node,
        "library": library,
        "op": "workload",
        "elapsed_s": float(second),
        "interval_s": 1.0,
        "read_bytes": 300_000_000,
        "written_bytes": 100_000_000,
        "cpu_percent": 70.0,
        "memory_used_bytes": 1 << 30,
        "device": "vda",
        "device_read_bytes": None,
        "device_written_bytes": None,
        "launches_running": 8,
    } | own


def workload_row(second: int, library: str = "work", node: str = "grid-01", **own: Any) -> SampleRow:
    """The same as a row of the samples."""
    return SampleRow(**workload_sample(second, library, node, **own))
