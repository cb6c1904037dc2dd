"""Records of runs, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridwright.runs.directory import RunDirectory
from gridwright.runs.records import LibraryRecord, PhaseRecord

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
    return PhaseRecord.model_validate(phase_fields(op, **own))


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
    run.take(library_event())
    for op in ("write", "read"):
        run.take(phase_event(op))
        for second in range(1, 6):
            moved = int(2 * per_core * (1 + spread * (-1) ** second))
            run.take(sample_event(op, second, **{"read" if op == "read" else "written": moved}))
        run.take(result_event(op, per_core=per_core))
    run.take({"event": "done", "status": "complete", "exit": 0})
    return run


def finished_run(runs: Path, name: str = "demo", **own: Any) -> Path:
    run = measured_run(runs, name, **own)
    run.finish("complete")
    return run.path
