"""The health of a Spectrum Scale, as its own commands on a node tell it: node, daemon, disks, pools.

Written from IBM's manual (-Y prints rows with colons and a header that names the columns, special characters
as %XX) and never run against a Spectrum Scale: what the rows do not say is left unknown. Columns are those of
real clusters' output as tools of others read it (looked up 2026-11-27; of mmlspool, which prints for people
alone, as others publish it, 2026-11-28: Name, Id, BlkSize with its unit, Data, Meta, then total and free KiB
of data and of metadata, each free with its part). What states of disks mean is IBM's (disk states; mmlsnsd
command).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gridwright.errors import GRAVEST_FIRST, Finding, GridwrightError, Level
from gridwright.filesystems.health import (
    FULL,
    Condition,
    Health,
    Run,
    TargetHealth,
    TimeUp,
    gravest_first,
    read_free_space,
    space_findings,
)
from gridwright.filesystems.mounts import mount_of, read_mounts
from gridwright.filesystems.scale.administration.observed import records, short
from gridwright.filesystems.scale.administration.order import BIN
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.units import Bytes, format_bytes

LIMIT_S = 15.0
"""For each command: mmhealth asks the node's monitor and starts Python several times, others the cluster."""
MOST_HANGING = 2
"""Where so many did not end, no more are asked: what they wait for keeps all others, too."""
_LEVELS: dict[str, Level] = {"FAILED": "error", "DEGRADED": "warning", "DEPEND": "warning", "TIPS": "info"}
"""Of the states of a component; HEALTHY, CHECKING, DISABLED and UNKNOWN are no fault of their own."""
_NAMES: dict[Level, str] = {"error": "scale-failed", "warning": "scale-degraded", "info": "scale-tips"}
_MOST_EVENTS = 5


def health(filesystem: ScaleFileSystem, run: Run, mount_point: str) -> Health:
    """How the Spectrum Scale mounted at `mount_point` is, as this node sees it. Takes root.

    Raises GridwrightError (status ENVIRONMENT) where the node itself does not answer.
    """
    mount = mount_of(mount_point, read_mounts(run))
    reader = _CommandReader(run)
    if mount is None or mount.type != "gpfs":
        there = f"there is {mount.type} of {mount.source}" if mount else "nothing is mounted there"
        text = f"no Spectrum Scale is mounted at {mount_point}: {there}"
        missing = Finding(
            "error", "filesystem-not-mounted", text, "mmmount FILESYSTEM; mmgetstate tells of the daemon"
        )
        return Health(condition=Condition.BROKEN, findings=[missing, *_of_node(reader), *reader.silent()])
    # First: what follows may take all of the time that there is.
    space = read_free_space(run, mount.point)
    findings = _of_node(reader)
    if isinstance(space, str):
        text = f"{mount.point} does not answer: {space}. What touches it waits"
        silent = Finding(
            "error", "filesystem-silent", text, "See mmgetstate -a, mmdiag --waiters and mmfs.log.latest"
        )
        return Health(condition=Condition.SILENT, findings=[silent, *findings, *reader.silent()])
    targets: list[TargetHealth] = []
    # Commands about disks are of the cluster that has them.
    if filesystem.remote is None:
        device = mount.source.rpartition("/")[2]
        targets, more = _of_cluster(reader, filesystem, device)
        findings += more
    findings = gravest_first([*findings, *reader.silent(), *space_findings(space)])
    return Health(
        condition=_condition(filesystem, findings),
        findings=findings,
        targets=targets,
        capacity_bytes=space.total_bytes,
        available_bytes=space.available_bytes,
    )


def _condition(filesystem: ScaleFileSystem, findings: Sequence[Finding]) -> Condition:
    if filesystem.replicas == 1 and any(finding.name == "scale-disk-down" for finding in findings):
        return Condition.BROKEN
    levels = {finding.level for finding in findings}
    return Condition.DEGRADED if levels & {"error", "warning"} else Condition.HEALTHY


class _CommandReader:
    """Commands that were asked, and which of them told nothing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._silent: dict[str, str] = {}
        self._hanging = 0

    def __call__(self, *words: str, told: bytes = b"HEADER:") -> str:
        """What a command printed; empty where it did not end in time, or has no row of such."""
        name = words[0]
        if self._hanging >= MOST_HANGING:
            return ""
        try:
            answer = self._run([f"{BIN}/{name}", *words[1:]], timeout_s=LIMIT_S)
        except (GridwrightError, TimeUp) as error:
            self._silent.setdefault(name, str(error).splitlines()[0])
            self._hanging = MOST_HANGING if isinstance(error, TimeUp) else self._hanging + 1
            return ""
        if told not in answer.stdout:
            said = answer.stderr.decode(errors="replace").strip()[:200]
            self._silent.setdefault(name, said or f"exit status {answer.status}")
        return answer.stdout.decode(errors="replace")

    def host(self) -> str:
        """The name of the node that commands run on; empty where there was no time to ask."""
        try:
            return self._run(["uname", "-n"]).stdout.decode(errors="replace").strip()
        except TimeUp:
            return ""

    def silent(self) -> list[Finding]:
        """One finding for all of them: what keeps one from answering keeps the others, too."""
        if not self._silent:
            return []
        told = "; ".join(f"{name}: {why}" for name, why in self._silent.items())
        return [
            Finding(
                "warning",
                "scale-silent",
                f"commands of Spectrum Scale do not tell how it is: {told}",
                "Run it as root; see mmgetstate, systemctl status mmsysmon, and /var/adm/ras/mmfs.log.latest",
            )
        ]


def _of_node(reader: _CommandReader) -> list[Finding]:
    """What the node's own monitor and daemon tell."""
    monitored = reader("mmhealth", "node", "show", "-Y", told=b"mmhealth:State:0:")
    # No thread waits where there are no rows at all.
    waiting = reader("mmdiag", "--waiters", "-Y", told=b"")
    return gravest_first([*monitor_findings(monitored), *waiter_findings(waiting)])


def _of_cluster(
    reader: _CommandReader, filesystem: ScaleFileSystem, device: str
) -> tuple[list[TargetHealth], list[Finding]]:
    """The disks of its own cluster, and what it was made with."""
    disks = reader("mmlsdisk", device, "-Y")
    findings = [*disk_findings(disks, device)]
    made = reader("mmlsfs", device, "-Y")
    findings += filesystem_findings(made, device, int(filesystem.block_size), filesystem.replicas)
    # All servers are asked over ssh then: by these themselves, and not by every node.
    if serves(reader("mmlsnsd", "-Y"), reader.host()):
        # What tells the room of pools reads maps of the disks, and is for servers, too.
        if filesystem.pool_names:
            findings += pool_findings(reader("mmlspool", device, told=TOLD), device)
        findings += path_findings(reader("mmlsnsd", "-X", "-Y"))
    return disks_of(disks), findings


def monitor_findings(printed: str) -> Iterator[Finding]:
    """One finding for each component that is not well, with the events that made it so."""
    rows = records(printed)
    events: dict[str, list[str]] = defaultdict(list)
    for row in rows.get("Event", []):
        if row.get("event"):
            events[row.get("component", "")].append(row["event"])
    worst: dict[str, str] = {}
    for row in rows.get("State", []):
        component, status = row.get("component", ""), row.get("status", "")
        # NODE is the worst of all others.
        if component not in ("", "NODE") and status in _LEVELS:
            known = worst.get(component)
            if known is None or _rank(status) < _rank(known):
                worst[component] = status
    for component, status in sorted(worst.items()):
        level = _LEVELS[status]
        why = ", ".join(dict.fromkeys(events[component][:_MOST_EVENTS]))
        yield Finding(
            level,
            _NAMES[level],
            f"Spectrum Scale: {component} is {status}{f' ({why})' if why else ''}",
            "mmhealth node show; mmhealth event show EVENT says what to do",
        )


def _rank(status: str) -> int:
    return GRAVEST_FIRST[_LEVELS[status]]


LONG_WAIT_S = 300.0
"""deadlockDetectionThreshold, as Scale has it by default: a monitored waiter of this age may be a deadlock
(IBM Storage Scale, mmchconfig command)."""
_IDLE = ("EventsExporter",)
"""Threads that wait for the next event, as long as there is none."""
_MOST_NAMED = 3


def waiter_findings(printed: str) -> Iterator[Finding]:
    """Threads that have waited for long, out of `mmdiag --waiters -Y`."""
    found: Counter[str] = Counter()
    longest = 0.0
    for rows in records(printed).values():
        for row in rows:
            seconds, name = _seconds(row.get("waitTime", "")), row.get("threadName", "")
            watched = row.get("isMonitored", "monitored") == "monitored"
            if seconds < LONG_WAIT_S or not watched or name.startswith(_IDLE):
                continue
            why = (row.get("auxReason") or row.get("condVarReason") or "").strip(" '")
            found[f"{name} {why}".strip()] += 1
            longest = max(longest, seconds)
    if found:
        named = ", ".join(f"{name} ({count})" for name, count in found.most_common(_MOST_NAMED))
        yield Finding(
            "warning",
            "scale-long-waiters",
            f"{found.total()} threads of Spectrum Scale have waited for up to {longest:.0f} s: {named}",
            "mmlsnode -N waiters -L finds the node that all wait for; see its disks, its network and its log",
        )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    # Neither NaN nor infinity is a time.
    return value if 0 <= value < 1e12 else 0.0


def filesystem_findings(printed: str, device: str, block_size: int, replicas: int) -> Iterator[Finding]:
    """Where it was made with other figures than the spec has, out of `mmlsfs DEVICE -Y`."""
    fields: dict[str, set[str]] = {}
    for rows in records(printed).values():
        for row in rows:
            fields.setdefault(row.get("fieldName", ""), set()).add(row.get("data", ""))
    sizes = {int(each) for each in fields.get("blockSize", ()) if each.isascii() and each.isdecimal()}
    if sizes and block_size not in sizes:
        there = " and ".join(str(Bytes(size)) for size in sorted(sizes))
        yield Finding(
            "warning",
            "scale-block-size",
            f"{device} was made with blocks of {there}, and the spec has {Bytes(block_size)}: a file system "
            "keeps its own for good",
            f"Write block_size: {Bytes(max(sizes))}, or copy the data to a new file system",
        )
    for field, what in (("defaultDataReplicas", "data"), ("defaultMetadataReplicas", "metadata")):
        copies, flag = fields.get(field, set()), "r" if what == "data" else "m"
        if copies and str(replicas) not in copies:
            yield Finding(
                "warning",
                "scale-replicas",
                f"{device} has {' or '.join(sorted(copies))} cop{'y' if copies == {'1'} else 'ies'} of "
                f"{what}, and the spec has {replicas}",
                f"mmchfs {device} -{flag} {replicas}, then mmrestripefs {device} -R; or write what it has",
            )


_LEAVING = ("suspended", "to be emptied", "being emptied", "emptied", "replacing")
"""States of a disk that gets no new data: somebody is about to remove it, or forgot to resume it."""
_NO_PATH = ("not found", "unknown")
"""What mmlsnsd -X remarks of a server that does not see the disk."""
_MOST_DISKS = 8


def _rows(printed: str) -> list[dict[str, str]]:
    return [row for rows in records(printed).values() for row in rows]


def disks_of(printed: str) -> list[TargetHealth]:
    """Every disk of `mmlsdisk DEVICE -Y`, with its availability."""
    return [
        TargetHealth(
            name=row["nsdName"],
            server="",
            # A disk that recovers takes writes, and refuses reads of what may be old.
            up=row.get("availability", "").lower() in ("up", ""),
            state=row.get("availability", ""),
        )
        for row in _rows(printed)
        if row.get("nsdName")
    ]


def disk_findings(printed: str, device: str) -> Iterator[Finding]:
    """One finding for each state that disks are in and should not be, with their names."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in _rows(printed):
        if not row.get("nsdName"):
            continue
        available, status = row.get("availability", "").lower(), row.get("status", "").lower()
        if available in ("down", "unrecovered", "recovering"):
            told[available].append(row["nsdName"])
        elif any(status.startswith(each) for each in _LEAVING):
            told["leaving"].append(row["nsdName"])
    if down := [*told["down"], *told["unrecovered"]]:
        yield Finding(
            "error",
            "scale-disk-down",
            f"{_listed(down, 'disk')} of {device} {_are(down)} not read or written: files with blocks on it "
            "that have no copy are out of reach",
            f"See that a server of it reaches it (mmlsnsd -X), then mmchdisk {device} start -a",
        )
    if told["recovering"]:
        yield Finding(
            "warning",
            "scale-disk-recovering",
            f"{_listed(told['recovering'], 'disk')} of {device} {_are(told['recovering'])} being brought up: "
            "writes reach it, and reads go to copies",
            f"Wait until mmchdisk {device} start has ended; run it again where it was cut off",
        )
    if told["leaving"]:
        yield Finding(
            "warning",
            "scale-disk-suspended",
            f"{_listed(told['leaving'], 'disk')} of {device} {_are(told['leaving'])} suspended or being "
            "emptied: new data go to the others, which have to do more",
            f"mmchdisk {device} resume -a where nobody removes it",
        )


def path_findings(printed: str) -> Iterator[Finding]:
    """Servers that do not see a disk that they are to serve, out of `mmlsnsd -X -Y`."""
    lost: dict[str, list[str]] = defaultdict(list)
    for row in _rows(printed):
        remarks = row.get("remarks", "").lower()
        if row.get("diskName") and "server" in remarks and any(each in remarks for each in _NO_PATH):
            lost[short(row.get("serverList", ""))].append(row["diskName"])
    for server, disks in sorted(lost.items()):
        yield Finding(
            "warning",
            "scale-path-missing",
            f"{server or 'a server'} does not see {_listed(disks, 'disk')} that it is to serve: the other "
            "server of the pair serves it alone, and nothing does when that one dies",
            "Bring the disk back there (cable, iSCSI session, multipath), then mmnsddiscover -a -N all",
        )


def serves(printed: str, host: str) -> bool:
    """Whether a host is a server of some disk, out of `mmlsnsd -Y`."""
    return any(
        short(host) in map(short, row.get("serverList", "").split(","))
        for row in _rows(printed)
        if row.get("serverList")
    )


def _listed(names: Iterable[str], noun: str) -> str:
    every = sorted(names)
    more = f" and {len(every) - _MOST_DISKS} others" if len(every) > _MOST_DISKS else ""
    return f"{noun}{'s' * (len(every) != 1)} {', '.join(every[:_MOST_DISKS])}{more}"


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


TOLD = b"Storage pools in file system"
"""Begins what it prints."""
_KIB = 1024
_ROW = re.compile(
    r"^(?P<name>\w{1,255})\s+\d+\s+\d+ [KMG]B\s+(?P<data>yes|no)\s+(?P<meta>yes|no)\s+(?P<total>\d{1,18})\s+"
    r"(?P<free>\d{1,18}) \( *\d+%\)\s+(?P<meta_total>\d{1,18})\s+(?P<meta_free>\d{1,18}) \( *\d+%\)\s*$",
    re.MULTILINE,
)


class PoolSpace(NamedTuple):
    """A storage pool: bytes for data, or for metadata where it has these alone."""

    name: str
    total_bytes: int
    free_bytes: int


def pools_of(printed: str) -> list[PoolSpace]:
    """Pools of `mmlspool DEVICE`; lines that are no rows of it are passed over."""
    found = []
    for row in _ROW.finditer(printed):
        which = "" if row["data"] == "yes" else "meta_"
        found.append(
            PoolSpace(row["name"], int(row[f"{which}total"]) * _KIB, int(row[f"{which}free"]) * _KIB)
        )
    return found


def pool_findings(printed: str, device: str) -> Iterator[Finding]:
    """Pools that have little room left: a file is in one of them, however much the others have."""
    for pool in pools_of(printed):
        if not pool.total_bytes or pool.free_bytes >= (1 - FULL) * pool.total_bytes:
            continue
        yield Finding(
            "warning" if pool.free_bytes else "error",
            "scale-pool-full",
            f"pool {pool.name} of {device}: {100 - 100 * pool.free_bytes / pool.total_bytes:.0f} % in use, "
            f"{format_bytes(pool.free_bytes)} of {format_bytes(pool.total_bytes)} left. Files that belong "
            "there get no more, though other pools have room",
            f"Add disks to it, or have files leave it: migrations in the spec, or mmapplypolicy {device}",
        )
