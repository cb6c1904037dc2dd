"""Estimates what a launch did from its totals, where nobody watched its phases: a job that was imported.

Its CPU time is known. The rest of its real time is the gap. What filled the gap is taken to be I/O: the
bytes that its log or its scheduler counted, or where none are told, as many as a rate that the user states
moves in that time. Computing, reading and writing take turns, so that they add up to its real time.
"""

from __future__ import annotations

from typing import Final

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.profiles import IoSource, PhaseProfile

DEFAULT_RATE = 100e6
"""Bytes per second of a core's I/O where none is counted: 100 MB/s, what SAS asks of each core at least."""
TURNS: Final = 4
"""How often computing, reading and writing take turns: 12 phases in all, the most that a launch has."""
_OVERLAPPED = 0.05
"""A gap of less of the real time is none: what was moved was moved beside computing."""
_SLOWEST = 1e6
"""Bytes per second: what is counted and would have moved more slowly than this does not fill the gap."""


def has_totals(launch: LaunchRecord) -> bool:
    """Whether a launch can be estimated: it ended well, and its real and CPU time are known."""
    return launch.ok and bool(launch.real_s) and launch.user_s is not None


def estimated_phases(launch: LaunchRecord, rate: float) -> tuple[list[PhaseProfile], IoSource]:
    """The phases of a launch that `has_totals`, and what its I/O rests on; `rate` in bytes per second."""
    real = launch.real_s or 0.0
    cpu = (launch.user_s or 0.0) + (launch.system_s or 0.0)
    threads = max(1.0, cpu / real)
    gap = max(0.0, real - cpu / threads)
    reads, writes, source = _moved(launch)
    if gap < _OVERLAPPED * real:
        return [_phase(real, cpu, threads, reads, writes)] if real else [], source
    if source == "estimated":
        reads, writes = round(gap * rate), 0
    elif reads + writes < gap * _SLOWEST:
        # A wait that takes as long on any grid: for a licence, another job, a clock.
        return [_phase(real, cpu, max(cpu, 1e-6) / real, reads, writes)], "waiting"
    parts = []
    for turn in range(TURNS):
        read, written = _part(reads, turn), _part(writes, turn)
        reading_s = gap / TURNS * reads / (reads + writes)
        parts.append(_phase((real - gap) / TURNS, cpu / TURNS, threads, 0, 0))
        parts.append(_phase(reading_s, 0.0, threads, read, 0, io_wait_s=reading_s))
        parts.append(_phase(gap / TURNS - reading_s, 0.0, threads, 0, written, gap / TURNS - reading_s))
    return [part for part in parts if part.cpu_s or part.read_bytes or part.written_bytes], source


def _moved(launch: LaunchRecord) -> tuple[int, int, IoSource]:
    """Bytes read and written, and who counted them: devices, or the calls of the program."""
    if launch.device_read_bytes is not None or launch.device_written_bytes is not None:
        return launch.device_read_bytes or 0, launch.device_written_bytes or 0, "devices"
    if launch.read_bytes is not None or launch.written_bytes is not None:
        return launch.read_bytes or 0, launch.written_bytes or 0, "calls"
    return 0, 0, "estimated"


def _part(size: int, turn: int) -> int:
    return size * (turn + 1) // TURNS - size * turn // TURNS


def _phase(
    seconds: float, cpu_s: float, threads: float, read: int, written: int, io_wait_s: float = 0.0
) -> PhaseProfile:
    return PhaseProfile(
        seconds=round(seconds, 6),
        cpu_s=round(cpu_s, 6),
        threads=max(1e-6, round(threads, 6)),
        io_wait_s=round(io_wait_s, 6),
        read_bytes={"data": read} if read else {},
        written_bytes={"work": written} if written else {},
    )
