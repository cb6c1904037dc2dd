"""Filters that hold what a node has against the tuning table; they need nothing but Python and Jinja."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

Row = Mapping[str, Any]

TAKEN = ("name", "kind", "key", "compare", "media", "filesystems", "bounded_by", "absent")
"""What tasks need of a row; reasons and sources are for people, and every task would carry them along."""
CORE = ("physical id", "core id")
"""What names a core in /proc/cpuinfo, where the processor says so."""
QUEUE = ("scheduler", "rotational", "max_hw_sectors_kb")
"""What says how the other settings of a disk's queue are to be judged."""
PREFIX = {"sysctl": "/proc/sys/", "sysfs": "/sys/"}
NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")
"""Block devices that are no disks: files, memory, and media that are put in."""
STACKED = ("md", "dm-")
"""Disks made of other disks: their queues follow those, but for the read-ahead."""


def _judge() -> ModuleType:
    """The module that also the doctor judges by, beside the playbook: Ansible imports no file by its name."""
    file = Path(__file__).resolve().parents[1] / "tuned_values.py"
    specification = importlib.util.spec_from_file_location("gridwright_tuned_values", file)
    if specification is None or specification.loader is None:
        raise ImportError(f"{file} is no Python module")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


JUDGE = _judge()


def tuning_rows(table: str, groups: Iterable[str], found: str) -> dict[str, list[dict[str, Any]]]:
    """Rows by kind for a node of some groups; `wanted` is the value, or what the formula gives.

    `table` is the text of tuning.yaml, `found` has what the node has in /proc/meminfo and /proc/cpuinfo.
    """
    known, size = set(groups), _size(str(found))
    if "machines" in known:
        # Machines beside the nodes are clients of the same file systems, and work on the same data.
        known.add("compute")
    rows = _rows(table)
    chosen: dict[str, list[dict[str, Any]]] = {row["kind"]: [] for row in rows}
    for row in rows:
        if known & set(row["roles"]):
            value = row.get("value")
            if value is None:
                value = JUDGE.worked_out(str(row["formula"]), **size)
            chosen[row["kind"]].append({**{key: row[key] for key in TAKEN if key in row}, "wanted": value})
    return chosen


def distribution_row(table: str, found: str) -> dict[str, Any]:
    """The row of distributions.yaml for a node, with what its platform shares; empty for one that it lacks.

    `found` has lines `os-release ID=...` and `os-release VERSION_ID=...`.
    """
    system = dict(re.findall(r"^os-release (\w+)=[\"']?([^\"'\n]*)", str(found), re.MULTILINE))
    version = system.get("VERSION_ID", "") + "."
    known = _yaml(table)
    for row in known["gridwright_distributions"]:
        if row["os"]["id"] == system.get("ID") and version.startswith(f"{row['os']['version']}."):
            shared = known["gridwright_platforms"].get(row.get("platform"), {})
            return {**shared, **row}
    return {}


def _rows(table: str) -> list[Row]:
    rows: list[Row] = _yaml(table)["gridwright_tuning"]
    return rows


def _yaml(text: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # Ansible marks what it reads by a class that str() keeps and libyaml refuses; bytes have no mark.
    found: dict[str, Any] = yaml.load(str.encode(text), Loader=loader)  # noqa: S506 - it is a safe one
    return found


def _size(text: str) -> dict[str, int]:
    memory = re.search(r"^MemTotal:\s*(\d+) kB", text, re.MULTILINE)
    if memory is None:
        raise ValueError("/proc/meminfo has no line MemTotal")
    cpus = re.findall(r"^processor\s*:", text, re.MULTILINE)
    named = (re.findall(rf"^{name}\s*: (\d+)", text, re.MULTILINE) for name in CORE)
    cores = set(zip(*named))  # noqa: B905 - Python 3.9 has no strict=
    return {
        "memory_bytes": int(memory[1]) * 1024,
        "cores": len(cores) or len(cpus),
        "cpus": len(cpus),
    }


def settings_read(text: str) -> dict[str, str]:
    """Settings by path, out of lines `path:value`; of several words the one in brackets holds."""
    found = {}
    for line in str(text).splitlines():
        path, _, value = line.rpartition(":")  # devices have a colon in their names, and no value has one
        if path.startswith("/"):
            chosen = re.search(r"\[([^]]*)\]", value)
            found[path] = chosen[1] if chosen else " ".join(value.split())
    return found


def units_read(text: str) -> dict[str, str]:
    """Units of systemd as they stand, such as `loaded active`: a line of names, then what systemctl shows."""
    _, _, shown = f"\n{text}".partition("\nunits ")
    names, _, blocks = shown.partition("\n")
    states = [dict(re.findall(r"^(\w+)=(.*)$", block, re.MULTILINE)) for block in blocks.split("\n\n")]
    return {
        name: f"{state.get('LoadState')} {state.get('ActiveState')}"
        for name, state in zip(names.split(), states)  # noqa: B905 - Python 3.9 has no strict=
    }


def patterns(table: str) -> list[str]:
    """What to look at on a node: files of kinds sysctl, sysfs and block as patterns of a shell, and units."""
    rows = _rows(table)
    keys = [str(row["key"]) for row in rows if row["kind"] == "block"]
    services = [row for row in rows if row["kind"] == "service"]
    units = [
        str(unit)
        for row in services
        for unit in (row["value"] if isinstance(row["value"], list) else [row["key"]])
        if row["value"] != "resolves"
    ]
    return [
        *(_pattern(row) for row in rows if row["kind"] in PREFIX),
        *(f"/sys/block/*/queue/{key}" for key in dict.fromkeys([*QUEUE, *keys])),
        *(f"unit:{unit}" for unit in units),
    ]


def drift(rows: Iterable[Row], found: Mapping[str, str]) -> list[dict[str, Any]]:
    """Settings that are not as the rows want them: one entry for each row, however many files it has."""
    entries = []
    for row in rows:
        here = _files_of(row, found)
        wrong = {value for value in here.values() if not _is_right(row, value)}
        if wrong:
            entries.append(_entry(row, str(row["key"]), ", ".join(sorted(wrong))))
    return entries


def absent(rows: Iterable[Row], found: Mapping[str, str]) -> list[dict[str, str]]:
    """Rows whose setting this node does not have, with what is said then."""
    said = "this kernel does not have it"
    return [
        {"name": str(row["name"]), "setting": str(row["key"]), "skipped": str(row.get("absent") or said)}
        for row in rows
        if not _files_of(row, found)
    ]


def settings_to_write(rows: Iterable[Row], found: Mapping[str, str]) -> list[dict[str, str]]:
    """Settings to write to a file, as key and value: those the node has, unless they are better already."""
    lines = []
    for row in rows:
        values = set(_files_of(row, found).values())
        better = row.get("compare") in ("at-least", "at-most") and _first(row) not in values
        if values and not (better and all(_is_right(row, value) for value in values)):
            lines.append({"key": str(row["key"]), "value": _first(row)})
    return lines


def disk_drift(rows: Iterable[Row], found: Mapping[str, str]) -> list[dict[str, Any]]:
    """As `drift`, for the queues of disks: one entry for each disk and setting."""
    names = sorted({path.split("/")[3] for path in found if path.startswith("/sys/block/")})
    entries = []
    for name in names:
        if name.startswith(NO_DISKS):
            continue
        queue = {
            path.rpartition("/")[2]: value
            for path, value in found.items()
            if path.startswith(f"/sys/block/{name}/queue/")
        }
        for row in rows:
            value = queue.get(str(row["key"]))
            if (
                value is not None
                and _concerns(row, name, queue)
                and not _is_right(row, value, queue.get(str(row.get("bounded_by"))))
            ):
                entries.append(_entry(row, f"{name} {row['key']}", value))
    return entries


def printed_drift(rows: Iterable[Row], text: str) -> list[dict[str, Any]]:
    """As `drift`, for lines `NAME VALUE` of a command: one entry for each row, whose key may be a pattern.

    Exclamation marks before a name (mmdiag --config) are passed over, and so is what is no number where the
    row wants one. `limit:NAME VALUE` says how far a parameter can go, whose row is bounded.
    """
    found = re.findall(r"^[\s!]*(\S+)[ \t]+(\S+)[ \t]*$", str(text), re.MULTILINE)
    entries = []
    for each in rows:
        here = {value for name, value in found if fnmatch.fnmatchcase(name, str(each["key"]))}
        limits = [int(value) for name, value in found if _is_limit(each, name) and value.isdecimal()]
        bounded = each.get("bounded_by") and limits
        row = {**each, "wanted": min(*limits, int(each["wanted"]))} if bounded else each
        numbers = str(row["wanted"]).isdecimal()
        wrong = {
            value for value in here if not (numbers and not _is_number(value)) and not _is_right(row, value)
        }
        if wrong:
            entries.append(_entry(row, str(row["key"]), ", ".join(sorted(wrong))))
    return entries


def _is_limit(row: Row, name: str) -> bool:
    return name.startswith("limit:") and fnmatch.fnmatchcase(name[len("limit:") :], str(row["key"]))


def missing_packages(packages: Iterable[str], text: str) -> list[dict[str, str]]:
    """Packages that the package database does not list as `installed NAME`."""
    there = {line.split()[-1] for line in str(text).splitlines() if line.startswith("installed ")}
    return [
        {"name": "package", "setting": f"package {package}", "found": "missing", "wanted": "installed"}
        for package in packages
        if package not in there
    ]


def smaller_numbers(number: int) -> str:
    """Patterns of udev(7) that match the numbers from 0 to below `number`, with | between them."""
    digits = str(int(number))
    shorter = ["[0-9]" * length for length in range(1, len(digits))]
    for index, digit in enumerate(digits):
        lowest = 1 if index == 0 and len(digits) > 1 else 0
        if int(digit) > lowest:
            rest = "[0-9]" * (len(digits) - index - 1)
            shorter.append(f"{digits[:index]}[{lowest}-{int(digit) - 1}]{rest}")
    return "|".join(shorter)


def mounted(text: str, mount_point: str) -> dict[str, Any]:
    """What /proc/mounts says of a mount point, its last line; empty where nothing is mounted."""
    last: dict[str, Any] = {}
    for line in str(text).splitlines():
        fields = [_plain(field) for field in line.split()]
        if len(fields) > 3 and fields[1] == str(mount_point):
            last = {"source": fields[0], "type": fields[2], "options": fields[3].split(",")}
    return last


def foreign_line(text: str, mount_point: str) -> str:
    """A line of fstab(5) for a mount point that stands outside of our marks; empty where there is none."""
    ours = False
    for line in str(text).splitlines():
        if line.startswith("# BEGIN gridwright "):
            ours = True
        elif line.startswith("# END gridwright "):
            ours = False
        fields = line.split()
        if (
            not ours
            and len(fields) > 1
            and not line.startswith("#")
            and _plain(fields[1]) == str(mount_point)
        ):
            return line
    return ""


def fstab_field(text: str) -> str:
    """A field of fstab(5): blanks, tabs and backslashes as octal numbers."""
    return "".join(f"\\{ord(each):03o}" if each in " \t\n\\" else each for each in str(text))


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _pattern(row: Row) -> str:
    key = str(row["key"])
    return PREFIX[row["kind"]] + (key.replace(".", "/") if row["kind"] == "sysctl" else key)


def _files_of(row: Row, found: Mapping[str, str]) -> dict[str, str]:
    pattern = _pattern(row)
    return {path: value for path, value in found.items() if fnmatch.fnmatchcase(path, pattern)}


def _concerns(row: Row, name: str, queue: Mapping[str, str]) -> bool:
    medium = "nvme" if name.startswith("nvme") else "rotational" if queue.get("rotational") == "1" else "ssd"
    if row["key"] == JUDGE.NEEDS_SCHEDULER and queue.get("scheduler", "none") == "none":
        return False
    is_stacked = name.startswith(STACKED)
    return bool(JUDGE.is_for_disk(str(row["key"]), row.get("media"), medium, is_stacked=is_stacked))


def _is_right(row: Row, value: str, bound: str | None = None) -> bool:
    return bool(JUDGE.is_right(str(value), row["wanted"], row.get("compare", "equal"), bound))


def _is_number(value: str) -> bool:
    """Whether it is one, of whatever unit: 64, 16M."""
    return re.fullmatch(r"-?\d+[kKmMgGtT]?", value) is not None


def _first(row: Row) -> str:
    desired = row["wanted"]
    return str(desired[0] if isinstance(desired, (list, tuple)) else desired)


def _entry(row: Row, setting: str, value: str) -> dict[str, Any]:
    return {
        "name": str(row["name"]),
        "setting": setting,
        "found": value,
        "wanted": _first(row),
    }


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Filters by the name that templates call them."""
        return {
            "gridwright_rows": tuning_rows,
            "gridwright_distribution": distribution_row,
            "gridwright_read": settings_read,
            "gridwright_patterns": patterns,
            "gridwright_units": units_read,
            "gridwright_drift": drift,
            "gridwright_disk_drift": disk_drift,
            "gridwright_printed_drift": printed_drift,
            "gridwright_absent": absent,
            "gridwright_kept": settings_to_write,
            "gridwright_missing": missing_packages,
            "gridwright_smaller": smaller_numbers,
            "gridwright_mounted": mounted,
            "gridwright_foreign_line": foreign_line,
            "gridwright_fstab_field": fstab_field,
        }
