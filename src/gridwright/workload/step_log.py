"""The log of one launch, in the shape of a SAS log with FULLSTIMER, and what it printed."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from gridwright import __version__
from gridwright.atomic import write_atomically
from gridwright.runs.launch_record import LaunchRecord

_BLOCK_BYTES = 512
"""What Linux counts as a block of a process (getrusage(2), ru_inblock)."""


def write_step_log(directory: Path, launch: LaunchRecord, output: str) -> Path:
    """Write `NNNN-<test>.log` into a directory; returns its path. Raises OSError."""
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", launch.test)[:60]
    path = directory / f"{launch.number:04d}-{label}.log"
    write_atomically(path, step_log(launch, output))
    return path


def step_log(launch: LaunchRecord, output: str) -> str:
    """The text of the log; `gridwright workload import` reads it back."""
    lines = [
        f"NOTE: Gridwright {__version__}, launch {launch.number} of test {_line(launch.test)} "
        f"({launch.class_}), stream {launch.stream}, node {launch.node}.",
        f"NOTE: {launch.cores} cores, memory limit {_kilobytes(launch.memory_limit_bytes)}, "
        f"copy {launch.copy} of the data.",
        "",
        # A line of the program must not pass for one of ours when the log is read back.
        *(f"+ {line}" for line in output.splitlines()),
        "",
    ]
    if not launch.ok:
        lines += [f"ERROR: {_line(launch.reason or '')}", ""]
    for library, moved in launch.libraries.items():
        lines.append(
            f"NOTE: {library}: {moved.read_bytes} bytes read, {moved.written_bytes} bytes written, "
            f"waited {moved.read_wait_s:.2f} s to read and {moved.write_wait_s:.2f} s to write."
        )
    if launch.unwaited_counted:
        lines.append(
            f"NOTE: {launch.unwaited_cpu_s:.2f} s of the CPU time are of processes that nobody waited for "
            f"({launch.unwaited_counted})."
        )
    if launch.bound_by:
        share = f" ({launch.bound_share * 100:.0f} % of the real time)" if launch.bound_share else ""
        lines.append(f"NOTE: Bound by {launch.bound_by}{share}.")
    title = f"NOTE: PROCEDURE {_line(launch.test).upper()} used (Total process time):"
    lines += ["", title, *_figures(launch), ""]
    lines += ["NOTE: The SAS System used:", *_figures(launch), ""]
    return "\n".join(lines)


def _line(text: str) -> str:
    """A name or a message of the user's own, which may hold line breaks, on one line."""
    return " ".join(text.split())


def _figures(launch: LaunchRecord) -> list[str]:
    rows = [
        ("real time", _clock(launch.real_s)),
        ("user cpu time", _clock(launch.user_s)),
        ("system cpu time", _clock(launch.system_s)),
        ("memory", _kilobytes(launch.peak_memory_bytes)),
    ]
    if launch.ended is not None:
        stamp = datetime.fromtimestamp(launch.ended)  # noqa: DTZ006 - a SAS log has local time
        rows.append(("Timestamp", f"{stamp:%m/%d/%Y %I:%M:%S %p}"))
    for name, moved in (("Input", launch.device_read_bytes), ("Output", launch.device_written_bytes)):
        if moved is not None:
            rows.append((f"Block {name} Operations", f"         {moved // _BLOCK_BYTES}"))
    return [f"      {name:<20}{text}" for name, text in rows]


def _clock(seconds: float | None) -> str:
    """A time as SAS prints it: `12.34 seconds`, `2:05.10`, `1:02:05.10`."""
    if seconds is None:
        return "."
    hundredths = round(seconds * 100)
    whole, part = divmod(hundredths, 100)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}.{part:02d}"
    return f"{minutes}:{rest:02d}.{part:02d}" if minutes else f"{rest}.{part:02d} seconds"


def _kilobytes(size: int | None) -> str:
    return "." if size is None else f"{size / 1024:.2f}k"
