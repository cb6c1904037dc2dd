"""The classic results block of iotest.sh, so that figures can be compared with those of papers.

That script prints, per stream: the size of its file, the average time of the streams, and the one
divided by the other. Its megabytes are MiB (2^20), see 003's results in paper OCI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.report.marks import phase_of
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import IotestRecord, LibraryRecord

MIB = 2**20
_RULE = "*" * 79


def classic_blocks(record: IotestRecord, invocation: str) -> str:
    """One block per library; absent figures print as `n/a`."""
    return "\n".join(_block(library, invocation) for library in record.libraries)


def _block(library: LibraryRecord, invocation: str) -> str:
    lines = [_RULE, "RESULTS", "-------", _line("INVOCATION", invocation), "", "TARGET DETAILS"]
    lines.append(_line("  directory", library.path))
    device = library.device or {}
    lines.append(_line("  df -k", _df(device)))
    lines.append(
        _line(
            "  mount point",
            "{} on {} type {} ({})".format(
                *(device.get(key, "n/a") for key in ("source", "mount_point", "filesystem_type", "options"))
            ),
        )
    )
    file_mib = next((size for op in ("write", "read") if (size := _file_mib(_phase(library, op)))), None)
    lines.append(_line("  filesize", f"{file_mib:.2f} megabytes" if file_mib else "n/a"))
    lines += ["", "STATISTICS"]
    for op in ("read", "write"):
        seconds, rate = _figures(_phase(library, op))
        lines.append(_line(f"  average {op} time", f"{seconds:.2f} seconds per stream" if seconds else "n/a"))
        lines.append(
            _line(
                f"  average {op} throughput rate",
                f"{rate:.2f} megabytes/second per stream" if rate else "n/a",
            )
        )
    lines += ["", f"(megabytes are 2^20 bytes; {library.streams} streams at once)", _RULE]
    return "\n".join(lines) + "\n"


def _line(name: str, value: str) -> str:
    return f"{name + ':':<33}{value}"


def _phase(library: LibraryRecord, op: str) -> PhaseRecord | None:
    """The last phase of an operation; of a test that was repeated, that of the median."""
    if library.repeats:
        return phase_of(library, op)
    return next((phase for phase in reversed(library.phases) if phase.op == op), None)


def _file_mib(phase: PhaseRecord | None) -> float | None:
    if phase is None or not phase.bytes or not phase.per_stream_seconds:
        return None
    return phase.bytes / len(phase.per_stream_seconds) / MIB


def _figures(phase: PhaseRecord | None) -> tuple[float | None, float | None]:
    size = _file_mib(phase)
    if phase is None or size is None or phase.cached:
        return None, None
    seconds = sum(phase.per_stream_seconds) / len(phase.per_stream_seconds)
    return seconds, size / seconds if seconds else None


def _df(device: Mapping[str, object]) -> str:
    """Sizes when the test began, as `df -k` prints them: 1K-blocks, used, available, use."""
    sizes = [device.get(key) for key in ("total_bytes", "used_bytes", "available_bytes")]
    total, used, available = (size / 1024 if isinstance(size, int) else None for size in sizes)
    if total is None or used is None or available is None:
        return "n/a"
    share = used / (used + available) if used + available else 0.0
    return f"{total:.0f} {used:.0f} {available:.0f} {share:.0%}"
