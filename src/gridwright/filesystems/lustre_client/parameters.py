"""Lustre's mounts and parameters: `lctl get_param` with exact needed names, and what it prints.

Rows of statistics are `name N samples [unit] min max sum sumsq`, `name N samples [unit] min max sum` of older
releases, or `name N samples [reqs]`; what never happened has no row. Figures read without root are refused:
the last digit of each line is cut off then, which shows in elapsed_time and in units that do not end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple

from gridwright.errors import environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import TARGETS, Mount, mount_of

LIMIT_S = 10.0
"""For `lctl get_param`: it answers from memory at once; what asks a server that is gone takes its timeout."""
UNLIMITED = 2**64 - 1
"""How Lustre prints that there is no limit."""
_NOT_FOUND = 127
_DEVICE_NAME = re.compile(r"[a-z]+(?:-[a-z]+)?\.[^\s=]+\.[a-z_]+=")
"""The line of a parameter of a device, whoever asked for it."""
_NAME = re.compile(r"([A-Za-z][^\s=]*)=(.*)")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by name; what was not there or could not be read is absent."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The value without blanks around it."""
        value = self.values.get(name)
        return None if value is None else value.strip()

    def number(self, name: str) -> int | None:
        """A whole number; None where it is absent, unlimited, or no number."""
        return whole_number(self.values.get(name, ""))

    def matching(self, pattern: str) -> Iterator[tuple[str, str]]:
        """Name and value of all whose name the pattern (fnmatch) fits."""
        return ((name, value) for name, value in self.values.items() if fnmatchcase(name, pattern))


def whole_number(text: str) -> int | None:
    """A number of at most 64 bits; None for no number and for `unlimited`."""
    found = re.fullmatch(r"\s*([0-9]{1,20})\s*", text)
    number = int(found[1]) if found else None
    return None if number is None or number >= UNLIMITED else number


def read_parameters(run: Run, names: Sequence[str], *, timeout_s: float = LIMIT_S) -> Parameters:
    """Ask for parameters by name, each exact up to the name of the device.

    Status 2 is usual: a name that this node or release does not have is no reason to lose the others.
    Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer in time.
    """
    answer = run(["lctl", "get_param", *names], timeout_s=timeout_s)
    if answer.status == _NOT_FOUND:
        raise environment_error(
            "lctl is not there", remedy="install the Lustre client of your servers' release"
        )
    return parse_parameters(answer.stdout.decode(errors="replace"), names)


def parse_parameters(text: str, names: Sequence[str]) -> Parameters:
    """What `lctl get_param NAMES` printed: `name=value`, or `name=` and the value on lines of its own.

    A line begins a parameter only if its name was asked for, since values (job names) can hold anything.
    """
    values: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        found = _NAME.match(line)
        if found and any(fnmatchcase(found[1], pattern) for pattern in names):
            lines = values.setdefault(found[1], [])
            lines.clear()
            lines += [found[2]] if found[2] else []
        elif _DEVICE_NAME.match(line):
            lines = None
        elif lines is not None:
            lines.append(line)
    return Parameters({name: "\n".join(lines) for name, lines in values.items()})


def is_root(run: Run) -> bool:
    """Whether commands run as root there.

    To others lctl prints counters whose last digit is cut, and imports that are empty, with no complaint.
    """
    return run(["id", "-u"], timeout_s=LIMIT_S).stdout.strip() == b"0"


TARGET_TYPES = TARGETS | {"lustre"}
"""Of what type a server mounts its targets: Lustre 2.15 added `lustre_tgt`, and 2.17 deprecates the other one
(`lustre_tgt_fs_type` of lustre/target/tgt_mount.c; `lustre_fill_super` of lustre/llite/super25.c)."""


def client_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The Lustre mount that holds a path; a server's mounts of its targets are none."""
    mount = mount_of(path, mounts)
    is_client = mount is not None and mount.type == "lustre" and _target(mount) is None
    return mount if is_client else None


def is_target(path: str, mounts: Sequence[Mount]) -> bool:
    """Whether a server has one of its targets mounted there: nobody reads or writes files through it."""
    mount = mount_of(path, mounts)
    return mount is not None and _target(mount) is not None


def serves(mounts: Sequence[Mount], name: str) -> bool:
    """Whether a node has a target of this file system mounted."""
    return bool(name) and any((_target(each) or "").startswith(f"{name}-") for each in mounts)


def _target(mount: Mount) -> str | None:
    return mount.option("svname") if mount.type in TARGET_TYPES else None


def file_system_name(source: str) -> str:
    """`scratch` out of `10.0.0.1@tcp:/scratch/below`; empty where there is none."""
    found = re.search(r":/([A-Za-z0-9_-]{1,8})(?:/|$)", source)
    return found[1] if found else ""


_MOST_DIGITS = 20
_TIME = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_ROW = re.compile(
    r"^(?P<name>[A-Za-z_]\w*)\s+(?P<samples>\d{1,20})\s+samples\s+\[(?P<unit>[\w./]+)(?P<closed>\]?)"
    r"(?:\s+(?P<min>\d{1,20})\s+(?P<max>\d{1,20})\s+(?P<sum>\d{1,20}))?"
)
_JOB_ROW = re.compile(
    r"^\s+(?P<name>[A-Za-z_]\w*):\s+\{\s*samples:\s*(?P<samples>\d{1,20}),\s*unit:\s*(?P<unit>\w+)"
    r"(?:,\s*min:\s*(?P<min>\d{1,20}),\s*max:\s*(?P<max>\d{1,20}),\s*sum:\s*(?P<sum>\d{1,20}))?"
)
_CLOCKS_DIFFER_S = 2.0
"""elapsed_time is snapshot_time less start_time; more than rounding apart is no reading of root's."""


class Row(NamedTuple):
    """One operation: how often, and of what it was (bytes, usecs) the sum; None where it has only a count."""

    samples: int
    unit: str
    minimum: int | None = None
    maximum: int | None = None
    sum: int | None = None


class Stats(NamedTuple):
    """The statistics of one device, or of one job on it, at one moment."""

    snapshot_s: float | None
    """Seconds since 1970 on that node; None where its header is switched off."""
    start_s: float | None
    """Since when it counts."""
    rows: Mapping[str, Row] = MappingProxyType({})

    def total(self, operation: str) -> int:
        """The sum of an operation, such as read_bytes; 0 where it never happened."""
        row = self.rows.get(operation)
        return row.sum or 0 if row else 0

    def samples(self, operation: str) -> int:
        """How often an operation happened."""
        row = self.rows.get(operation)
        return row.samples if row else 0


def parse_stats(text: str) -> Stats:
    """The value of a `stats` or `md_stats` parameter.

    Raises GridwrightError (status ENVIRONMENT) where it was read without root, and figures are cut.
    """
    rows: dict[str, Row] = {}
    for line in text.splitlines():
        found = _ROW.match(line)
        if found is None:
            continue
        if not found["closed"]:
            raise cut_figures()
        rows[found["name"]] = _row(found)
    return _stats(text, rows)


def parse_job_stats(text: str) -> dict[str, Stats]:
    """The value of a `job_stats` parameter, by job; none where no job has been seen.

    Write-back that no job waits for counts as one of a kernel thread, such as `kworker.0`.
    """
    jobs: dict[str, Stats] = {}
    for name, block in _jobs(text):
        rows = {
            found["name"]: _row(found)
            for line in block.splitlines()
            if (found := _JOB_ROW.match(line)) and found["samples"].strip("0")
        }
        jobs[name] = _stats(block, rows)
    return jobs


def cut_figures() -> Exception:
    """The error for figures that were read without root."""
    return environment_error(
        "statistics of Lustre were read without root: their last digits are cut off",
        remedy="run it as root (sudo)",
    )


def _jobs(text: str) -> Iterator[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := re.match(r"^\s*-\s+job_id:\s+(.*?)\s*$", line):
            if name:
                yield name, "\n".join(lines)
            name, lines = found[1].strip("\"'"), []
        elif name:
            lines.append(line)
    if name:
        yield name, "\n".join(lines)


def _stats(text: str, rows: Mapping[str, Row]) -> Stats:
    snapshot, start, elapsed = (_time(text, name) for name in ("snapshot_time", "start_time", "elapsed_time"))
    known = snapshot is not None and start is not None and elapsed is not None
    if known and abs((snapshot or 0) - (start or 0) - (elapsed or 0)) > _CLOCKS_DIFFER_S:
        raise cut_figures()
    return Stats(snapshot, start, rows)


def _time(text: str, name: str) -> float | None:
    found = re.search(rf"^\s*{name}:?\s+{_TIME}", text, re.MULTILINE)
    return float(found[1]) if found else None


def _row(found: re.Match[str]) -> Row:
    least, most, total = (int(found[part]) if found[part] else None for part in ("min", "max", "sum"))
    return Row(int(found["samples"]), found["unit"], least, most, total)
