"""Takes snapshots of this node, one after the other; remembers what tells processes and mounts apart.

A source of readings that is asked with each sample, and read as often as it is worth its cost.

Reads at which rate queues let network cards send, where somebody has set one: token buckets of tc(8).

The kernel is asked by rtnetlink(7), without a process: RTM_GETQDISC, whose answers are `struct tcmsg` with
attributes (linux/rtnetlink.h, linux/pkt_sched.h). What a card receives is limited where it is sent.

Reads how many packets a cloud held back as a machine had used up what its network is allowed.

Cards of EC2 count them: packets that were shaped as an allowance was exceeded, as ena_admin_defs.h of their
driver in Linux has it. Bursts that are spent show there, whatever the card's speed is. Cards are asked as
ethtool(8) asks them (linux/ethtool.h), without a process.

Reads what processes of no job have used: CPU time, and bytes to and from storage, by name and user.

What they move is told to root alone, in the way that proofs tell it (`gridwright.interference.usage`).

Reads that may hang, such as of a dead mount, each asked once at a time by one of a few threads.

A thread that hangs in the kernel cannot be ended. Its source is told as silent and not asked again until it
answers, and another thread goes on with the others: a dead mount holds one thread, however long it is
watched.

Reads what the kernel counts of a node: CPU time, memory, pressure, network, block devices.

Each file is read once for a sample, and no process is started. What is not there, or cannot be understood,
has no readings.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import math
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from gridwright._native import readings_json
from gridwright.commands import run_here
from gridwright.filesystems.block_devices import parse_diskstats
from gridwright.filesystems.counters import FigureSource
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import Mount
from gridwright.interference.counters import sees_all_processes, stalled_s
from gridwright.interference.processes import TICK_S, Ownership, ProcessFiles, SeenProcess, serves_fuse
from gridwright.interference.usage import Usage, UsedSoFar
from gridwright.kernel_files import boot_id, names_in, number_of, text_of
from gridwright.machine import physical_cores
from gridwright.messages import encode
from gridwright.monitor.job_sources import GroupSources, JobSources
from gridwright.monitor.mount_sources import (
    moved_sources,
    place_of,
    served_sources,
    shown_mounts,
    space_sources,
)
from gridwright.monitor.readings import MountedPlace, Reading, Snapshot

ROOT = Path("/")
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of /proc/stat (proc_stat(5)), by the names of node-exporter."""
_MEMORY = ("MemTotal", "MemAvailable", "Dirty")
_MEGABIT = 1_000_000 / 8
"""Bytes of a megabit: /sys/class/net/*/speed counts these (ABI/testing/sysfs-class-net of Linux)."""
_NO_CARDS = ("lo", "veth", "docker", "br-", "virbr")
"""Interfaces whose traffic stays on the machine, or passes through a card as well."""
_NO_DISKS = ("ram", "zram", "sr", "fd")


FACTS_S = 10.0
"""How long it is remembered what cards and disks are; one that is new is looked at when it comes."""


@dataclass(slots=True)
class KernelSources:
    """Reads the kernel's counters of the node whose files lie below `root`; remembers what devices are."""

    root: Path = ROOT
    _cards: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """Of each card: whether what passes it is counted at others, and the speed that it tells in Mbit/s."""
    _disks: dict[str, tuple[bool, int | None]] = field(default_factory=dict)
    """Of each block device: whether it is a disk, and whether it turns."""
    _looked_at: float = -math.inf

    def readings(self) -> list[Reading]:
        """All readings of the node, now."""
        now, root = time.monotonic(), str(self.root)
        if now - self._looked_at >= FACTS_S:
            self._cards, self._disks, self._looked_at = {}, {}, now
        return [*_cpu(root), *_memory(root), *_pressure(root), *self._network(root), *self._block(root)]

    def _network(self, root: str) -> Iterator[Reading]:
        text, at = text_of(f"{root}/proc/net/dev") or "", time.monotonic()
        lines = (line.partition(":") for line in text.splitlines())
        told = {name.strip(): rest.split() for name, colon, rest in lines if colon}
        for name, fields in told.items():
            if len(fields) < 9 or name.startswith(_NO_CARDS) or not all(map(str.isdigit, fields)):
                continue
            if name not in self._cards:
                within = not told.keys().isdisjoint(_made_of(root, name))
                self._cards[name] = within, number_of(f"{root}/sys/class/net/{name}/speed") or 0
            within, speed = self._cards[name]
            if within:
                continue
            labels = (name,)
            yield Reading("node_network_receive_bytes_total", labels, int(fields[0]), at)
            yield Reading("node_network_transmit_bytes_total", labels, int(fields[8]), at)
            if speed > 0:
                yield Reading("node_network_speed_bytes", labels, speed * _MEGABIT, at)

    def _block(self, root: str) -> Iterator[Reading]:
        """Whole disks that were ever used; what a partition moved is in its disk."""
        text, at = text_of(f"{root}/proc/diskstats") or "", time.monotonic()
        for name, count in parse_diskstats(text, at).items():
            if name.startswith(_NO_DISKS) or not count.reads + count.writes:
                continue
            if name not in self._disks:
                place = f"{root}/sys/class/block/{name}"
                is_disk = not os.path.exists(f"{place}/partition")  # noqa: PTH110 - a name of a device
                self._disks[name] = is_disk, number_of(f"{place}/queue/rotational")
            is_disk, turns = self._disks[name]
            if not is_disk:
                continue
            labels = (name,)
            for metric, value in (
                ("node_disk_read_bytes_total", count.read_bytes),
                ("node_disk_written_bytes_total", count.written_bytes),
                ("node_disk_reads_completed_total", count.reads),
                ("node_disk_writes_completed_total", count.writes),
                ("node_disk_io_time_seconds_total", count.busy_s),
                ("node_disk_io_time_weighted_seconds_total", count.waited_s),
            ):
                if value is not None:
                    yield Reading(metric, labels, value, at)
            if turns is not None:
                yield Reading("gridwright_disk_rotational", labels, turns, at)


def _cpu(root: str) -> Iterator[Reading]:
    text, at = text_of(f"{root}/proc/stat") or "", time.monotonic()
    head, *fields = text.partition("\n")[0].split() or [""]
    if head == "cpu" and len(fields) >= len(_MODES) and all(map(str.isdigit, fields)):
        for mode, ticks in zip(_MODES, fields, strict=False):
            yield Reading("node_cpu_seconds_total", (mode,), int(ticks) * TICK_S, at)
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.isdigit():
            yield Reading("node_boot_time_seconds", (), int(value), at)
    load = (text_of(f"{root}/proc/loadavg") or "").split()
    if load and load[0].replace(".", "", 1).isdigit():
        yield Reading("node_load1", (), float(load[0]), at)


def _memory(root: str) -> Iterator[Reading]:
    text, at = text_of(f"{root}/proc/meminfo") or "", time.monotonic()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in _MEMORY and len(words) == 2 and words[0].isdigit():
            yield Reading(f"node_memory_{name}_bytes", (), int(words[0]) * 1024, at)


def _pressure(root: str) -> Iterator[Reading]:
    at = time.monotonic()
    for resource, (some, full) in stalled_s(f"{root}/proc/pressure").items():
        yield Reading(f"node_pressure_{resource}_waiting_seconds_total", (), some, at)
        if resource != "cpu":
            yield Reading(f"node_pressure_{resource}_stalled_seconds_total", (), full, at)


def _made_of(root: str, name: str) -> set[str]:
    """The interfaces below a bond, a VLAN or a bridge: what passes them is counted there."""
    try:
        found = os.listdir(f"{root}/sys/class/net/{name}")  # noqa: PTH208 - names alone, each second
    except OSError:
        return set()
    return {each.removeprefix("lower_") for each in found if each.startswith("lower_")}


T = TypeVar("T")

PATIENCE_S = 0.05
"""Without any answer for so long, another thread goes on: files of a kernel that is well take a few ms."""


@dataclass(slots=True)
class _Held(Generic[T]):
    """One source."""

    read: Callable[[], T]
    asked_s: float | None = None
    """Since when it is waited for, by time.monotonic(); None while it is not."""


class HeldReads(Generic[T]):
    """Sources by name, read within a limit of time."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._sources: dict[str, _Held[T]] = {}
        self._orders: queue.SimpleQueue[tuple[str, _Held[T]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[str, T | Exception, float | None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for an order."""

    def set_sources(self, sources: Mapping[str, Callable[[], T]]) -> None:
        """Have these sources from now on; those that are there already are waited for as before."""
        self._sources = {name: self._sources.get(name) or _Held(read) for name, read in sources.items()}

    def read(self, without: Container[str] = ()) -> tuple[dict[str, T], dict[str, str]]:
        """What the sources say within the limit, and of those that say nothing, why.

        Those in `without` are not asked, but told of where they have been asked and have not answered.

        An answer to an earlier question counts when it comes: what is read has the time of its source.
        """
        deadline = time.monotonic() + self._limit_s
        self._ask(without)
        waited = {
            name: held.asked_s
            for name, held in self._sources.items()
            if held.asked_s is not None or name not in without
        }
        answers: dict[str, T] = {}
        silent: dict[str, str] = {}
        while waited:
            left = deadline - time.monotonic()
            try:
                name, answer, asked = self._answers.get(timeout=max(0.0, min(left, PATIENCE_S)))
            except queue.Empty:
                if left <= PATIENCE_S:
                    break
                self._go_on()
                continue
            source = self._sources.get(name)
            if source is None or source.asked_s != asked:
                # Of a mount that is gone, or that another one has come instead of.
                continue
            source.asked_s = None
            del waited[name]
            if isinstance(answer, Exception):
                # A GridwrightError says below its first line what to do.
                silent[name] = str(answer).partition("\n")[0] or type(answer).__name__
            else:
                answers[name] = answer
        self._dismiss()
        now = time.monotonic()
        silent |= {name: f"no answer for {now - since:.0f} s" for name, since in waited.items() if since}
        return answers, silent

    def _ask(self, without: Container[str]) -> None:
        """Order all that is not waited for."""
        for name, held in self._sources.items():
            if held.asked_s is None and name not in without:
                held.asked_s = time.monotonic()
                self._orders.put((name, held))
        self._go_on()

    def _go_on(self) -> None:
        """Have a thread for what is ordered, where all others hang or work."""
        with self._lock:
            wanted = self._idle == 0 and not self._orders.empty()
        if wanted:
            threading.Thread(target=self._serve, daemon=True).start()

    def _dismiss(self) -> None:
        """Let threads go that hung and came back: one is enough."""
        with self._lock:
            for _ in range(self._idle - 1):
                self._orders.put(None)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            order = self._orders.get()
            with self._lock:
                self._idle -= 1
            if order is None:
                return
            name, held = order
            asked = held.asked_s
            try:
                answer: T | Exception = held.read()
            except Exception as error:
                answer = error
            self._answers.put((name, answer, asked))


MOST_PART = 0.001
"""Of one core: all processes of a node are looked at, in milliseconds, so busy nodes are read less often."""
_MOST_TOLD, _MOST_KEPT = 10, 500
"""Names of processes that are told at a time, by bytes and by CPU time, and that are remembered."""
_TOLD_S = 60.0
"""So long is one told after it moved anything."""


@dataclass(slots=True)
class _OfJobs(Ownership):
    """Processes of jobs, and the sampler with what asked for it: all that are not foreign."""

    members: Collection[int] = ()

    def take(self, processes: dict[int, SeenProcess], now: float, proc: Path = Path("/proc")) -> set[int]:
        return {pid for pid in (*self.members, os.getpid(), os.getppid()) if pid in processes}


@dataclass(frozen=True, slots=True)
class _Other:
    """Processes of no job: since when they are counted, and when their counts were seen to rise."""

    since_s: float
    moved_bytes: int = 0
    cpu_s: float = 0.0
    rose_s: float = 0.0

    def now(self, moved_bytes: int, cpu_s: float, at: float) -> _Other:
        if (moved_bytes, cpu_s) == (self.moved_bytes, self.cpu_s):
            return self
        return _Other(self.since_s, moved_bytes, cpu_s, at)


@dataclass(slots=True)
class OtherSources:
    """Reads all processes that can be seen."""

    members: Callable[[], Collection[int]]
    """Processes of jobs, by their numbers, as they are now."""
    proc: Path = Path("/proc")
    _usage: Usage = field(init=False)
    _files: ProcessFiles = field(init=False)
    _owned: _OfJobs = field(default_factory=lambda: _OfJobs(()))
    _began: float = field(default_factory=time.monotonic)
    _others: dict[tuple[str, str], _Other] = field(default_factory=dict)
    """By name and user."""
    _looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._files = ProcessFiles(self.proc)
        self._usage = Usage(self._owned, serves=serves_fuse, proc=self.proc)

    def readings(self) -> list[Reading]:
        """The sums of all, and of those that used most, now."""
        self._owned.members = self.members()
        found = self._files.look()
        at = time.monotonic()
        used = self._usage.look(at, found)
        told = [Reading("gridwright_sees_all_processes", (), float(sees_all_processes()), at)]
        if self._usage.sees_traffic:
            told += self._of_others(used, at)
        self._usage.forget(_MOST_KEPT)
        return told

    def _of_others(self, used: UsedSoFar, at: float) -> Iterator[Reading]:
        """What processes of no job moved since the sampler began: all together, and those that moved most."""
        read, written = used.foreign_bytes
        yield Reading("gridwright_others_cpu_seconds_total", (), used.foreign_s, at, self._began)
        yield Reading("gridwright_others_read_bytes_total", (), read, at, self._began)
        yield Reading("gridwright_others_written_bytes_total", (), written, at, self._began)
        groups = {(group.name, group.user): group for group in used.groups}
        self._others = {
            key: self._others.get(key, _Other(self._looked)).now(group.moved_bytes, group.cpu_s, at)
            for key, group in groups.items()
        }
        self._looked = at
        fresh = [group for key, group in groups.items() if at - self._others[key].rose_s <= _TOLD_S]
        most = [*sorted(fresh, key=lambda each: -each.moved_bytes)[:_MOST_TOLD],
                *sorted(fresh, key=lambda each: -each.cpu_s)[:_MOST_TOLD]]  # fmt: skip
        for key in dict.fromkeys((each.name, each.user) for each in most):
            moved, cpu_s = groups[key].moved_bytes, groups[key].cpu_s
            since = self._others[key].since_s
            yield Reading("gridwright_process_moved_bytes_total", key, moved, at, since)
            yield Reading("gridwright_process_cpu_seconds_total", key, cpu_s, at, since)


_ETHTOOL = 0x8946
"""SIOCETHTOOL."""
_GET_NAMES, _GET_VALUES, _GET_COUNTS = 0x1B, 0x1D, 0x37
_STATISTICS = 1
"""ETH_SS_STATS."""
_NAME = 32
_ENDING = "_allowance_exceeded"
_LOOK_S = 60.0


@dataclass(slots=True)
class CardAllowances:
    """Reads the cards that count such packets; which ones these are is looked up once a minute."""

    root: Path = Path("/")
    _places: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of each such card, where the values of its allowances are."""
    _counts: dict[str, int] = field(default_factory=dict)
    _looked_at: float | None = None

    def readings(self) -> list[Reading]:
        """The packets that each allowance held back, now."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._look()
        return [reading for device in self._places for reading in self._of(device)]

    def _look(self) -> None:
        self._places = {}
        for device in names_in(self.root / "sys/class/net"):
            with contextlib.suppress(OSError):
                names = statistic_names(device)
                if places := allowance_places(names):
                    self._places[device], self._counts[device] = places, len(names)

    def _of(self, device: str) -> Iterator[Reading]:
        at = time.monotonic()
        with contextlib.suppress(OSError):
            values = statistic_values(device, self._counts[device])
            for name, place in self._places[device].items():
                labels = (device, name)
                yield Reading("gridwright_network_held_back_packets_total", labels, values[place], at)


def allowance_places(names: Sequence[str]) -> dict[str, int]:
    """Where the values of allowances are, by what is allowed, such as `bw_in`."""
    return {name.removesuffix(_ENDING): at for at, name in enumerate(names) if name.endswith(_ENDING)}


def statistic_names(device: str) -> list[str]:
    """The names of a card's own statistics, in order. Raises OSError where it has none."""
    answer = _ask(device, struct.pack("=IIQI", _GET_COUNTS, 0, 1 << _STATISTICS, 0))
    _, _, known, count = struct.unpack_from("=IIQI", answer)
    if not known or not count:
        return []
    answer = _ask(device, struct.pack("=III", _GET_NAMES, _STATISTICS, count) + bytes(_NAME * count))
    begins = range(12, 12 + _NAME * count, _NAME)
    return [answer[at : at + _NAME].partition(b"\0")[0].decode(errors="replace") for at in begins]


def statistic_values(device: str, count: int) -> tuple[int, ...]:
    """Their values. Raises OSError where the card is gone, or has another number of them by now."""
    answer = _ask(device, struct.pack("=II", _GET_VALUES, count) + bytes(8 * count))
    if struct.unpack_from("=I", answer, 4)[0] != count:
        raise OSError(f"{device} has other statistics than a moment ago")
    return struct.unpack_from(f"={count}Q", answer, 8)


def _ask(device: str, question: bytes) -> bytes:
    """The answer to a question of ethtool, which the kernel writes into it. Raises OSError."""
    room = array.array("B", question)
    request = struct.pack("16sP16x", device.encode(), room.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _ETHTOOL, request)
    return room.tobytes()


_GET_QDISC, _NEW_QDISC, _ERROR, _DONE = 38, 36, 2, 3
_REQUEST_DUMP = 0x1 | 0x300
"""NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH."""
_HEADER, _TCMSG, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiIII"), struct.Struct("=HH")
_ROOT = 0xFFFFFFFF
"""TC_H_ROOT: the queue that all packets of the card pass."""
_KIND, _OPTIONS, _TBF_PARAMETERS, _TBF_RATE64 = 1, 2, 1, 4
_RATE_OFFSET = 8
"""Of `rate` in `struct tc_ratespec`, the first field of `struct tc_tbf_qopt`; bytes per second."""
_LIMIT_S = 0.2
_MOST = 1 << 16


def queue_readings() -> Iterator[Reading]:
    """The limit of each card that has one, in bytes per second."""
    at = time.monotonic()
    for device, rate in queue_limits().items():
        yield Reading("gridwright_network_limit_bytes", (device,), rate, at)


def queue_limits() -> dict[str, float]:
    """By card; empty where none has a limit, or the kernel cannot be asked."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(_LIMIT_S)
        link.bind((0, 0))
        body = _TCMSG.pack(0, 0, 0, 0, 0)
        link.send(_HEADER.pack(_HEADER.size + len(body), _GET_QDISC, _REQUEST_DUMP, 1, 0) + body)
        return dict(_answers(link))
    return {}


def _answers(link: socket.socket) -> Iterator[tuple[str, float]]:
    while True:
        data = link.recv(_MOST)
        for kind, body in _messages(data):
            if kind in {_DONE, _ERROR}:
                return
            found = parse_queue(body) if kind == _NEW_QDISC else None
            if found is not None:
                with contextlib.suppress(OSError):
                    yield socket.if_indextoname(found[0]), found[1]


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if not _HEADER.size <= length <= len(data):
            return
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def parse_queue(body: bytes) -> tuple[int, float] | None:
    """Index of the card and limit of a queue; None of one that limits nothing, or that has another above."""
    if len(body) < _TCMSG.size:
        return None
    _, index, _, parent, _ = _TCMSG.unpack_from(body)
    attributes = dict(_attributes(body[_TCMSG.size :]))
    if parent != _ROOT or attributes.get(_KIND, b"").rstrip(b"\0") != b"tbf":
        return None
    options = dict(_attributes(attributes.get(_OPTIONS, b"")))
    wide, parameters = options.get(_TBF_RATE64, b""), options.get(_TBF_PARAMETERS, b"")
    if len(wide) == 8:
        return index, float(struct.unpack("=Q", wide)[0])
    if len(parameters) < _RATE_OFFSET + 4:
        return None
    return index, float(struct.unpack_from("=I", parameters, _RATE_OFFSET)[0])


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= length <= len(data):
            return
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]


@dataclass(frozen=True, slots=True)
class SourceReadings:
    """What a source tells now."""

    readings: list[Reading]
    earlier: list[Reading]
    """What it had told before, where it was not read anew: for rates that do not come and go."""


@dataclass(slots=True)
class PacedSource:
    """Reads a source when it is due, and tells what it said last in between."""

    source: FigureSource
    _last: list[Reading] = field(default_factory=list)
    _earlier: list[Reading] = field(default_factory=list)
    _due_s: float = 0.0
    _failure: Exception | None = None

    def read(self) -> SourceReadings:
        """What it says by now. Raises what the source raised last, until it is due again."""
        begun = time.monotonic()
        if begun < self._due_s:
            if self._failure is not None:
                raise self._failure
            return self.last
        cost = time.thread_time()
        self._failure = None
        try:
            readings = self.source.read()
        except Exception as error:
            # One that starts a process is not to start one with each sample.
            self._failure, self._due_s = error, begun + self.source.every_s
            raise
        cost = time.thread_time() - cost
        self._earlier, self._last = self._last, readings
        # A sample comes a moment early or late: what is due within half of the shortest time is due now.
        wait = max(self.source.every_s, cost / self.source.most_part)
        self._due_s = begun + wait - min(0.5, self.source.every_s / 2)
        return SourceReadings(readings, [])

    @property
    def resting(self) -> SourceReadings | None:
        """What it says while it is not due; None where it has to be read, or did not answer last."""
        return self.last if self._failure is None and time.monotonic() < self._due_s else None

    @property
    def last(self) -> SourceReadings:
        """What it said last."""
        return SourceReadings(self._last, self._earlier)


LIMIT_S = 0.5
"""For what may hang: files of a kernel that is well take milliseconds, a server's answer a few more."""
SPACE_S = 60.0
"""How often mounts are asked how full they are: each of them asks its servers."""
QUEUES_S = 5.0
"""How often the kernel is asked which queues let through less than their card can do."""
JOBS_PART, MOUNTS_PART = 0.005, 0.001
"""Of one core that jobs and each mount may take: the rest of 1 % is the kernel's figures and other processes.
With some 100 busy jobs, or as client of some 30 targets, they are read less often than each second."""
_JOBS, _OTHERS, _KERNEL, _SPACE = "jobs", "processes of no job", "kernel", "space"
_MOUNT = "mount:"
_EARLIER = "earlier "


@dataclass(slots=True)
class Sampler:
    """Samples the node whose files lie below `root`. Ends nothing that hangs: see `HeldReads`."""

    directories: tuple[str, ...] = ()
    root: Path = Path("/")
    run: Run = run_here
    """Starts a process for what no file tells: at most one a minute."""
    brief: bool = False
    """Whether it takes a few samples alone, so that processes of no job may be looked at with each."""
    _reads: HeldReads[SourceReadings] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _spaces: HeldReads[list[Reading]] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _paced: dict[str, PacedSource] = field(default_factory=dict)
    _groups: GroupSources = field(init=False)
    _kernel: KernelSources = field(init=False)
    _queues: PacedSource = field(
        default_factory=lambda: PacedSource(FigureSource(lambda: list(queue_readings()), every_s=QUEUES_S))
    )
    _allowances: CardAllowances = field(default_factory=CardAllowances)
    _mounts: list[Mount] = field(default_factory=list)
    _places: Mapping[str, MountedPlace] = field(default_factory=dict)
    _space: list[Reading] = field(default_factory=list)
    _hang: Mapping[str, str] = field(default_factory=dict)
    _space_at: float | None = None
    _cost_s: float = 0.0
    _texts: dict[str, tuple[list[Reading], bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._groups, self._kernel = GroupSources(self.root), KernelSources(self.root)

    def sample(self) -> Snapshot:
        """All readings, now; takes LIMIT_S where something hangs, twice that once a minute."""
        snapshot, told = self._sampled()
        readings = [reading for source in told.values() for reading in source.readings]
        earlier = [each for source in told.values() for each in source.earlier]
        return replace(snapshot, readings=tuple(readings), earlier=tuple(earlier))

    def line(self) -> bytes:
        """The same as a message; what was not read anew is not written anew either."""
        snapshot, told = self._sampled()
        # A quotation mark within a text is behind a backslash, so that these are the fields.
        head, readings, rest = encode(snapshot).partition(b'"readings":[')
        between, earlier, rest = rest.partition(b'"earlier":[')
        now = self._texts_of((name, source.readings) for name, source in told.items())
        before = self._texts_of((f"{_EARLIER}{name}", source.earlier) for name, source in told.items())
        return b"".join([head, readings, *now, between, earlier, *before, rest])

    def _texts_of(self, parts: Iterable[tuple[str, list[Reading]]]) -> list[bytes]:
        """The readings of all parts as JSON, with commas between them."""
        texts: list[bytes] = []
        for name, readings in parts:
            known = self._texts.get(name)
            if known is None or known[0] is not readings:
                if known is not None:
                    # What a source said before is told once more, beside what it says now.
                    self._texts[f"{_EARLIER}{name}"] = known
                known = self._texts[name] = readings, readings_json(readings)
            if known[1]:
                texts += [b",", known[1]] if texts else [known[1]]
        return texts

    def _sampled(self) -> tuple[Snapshot, dict[str, SourceReadings]]:
        """A snapshot without readings, and all of these by their source."""
        self._look_at_mounts()
        kernel = [*self._kernel.readings(), *self._queues.read().readings]
        kernel += [*self._groups.readings(), *self._allowances.readings()]
        found = {_KERNEL: SourceReadings(kernel, []), _SPACE: SourceReadings(self._space, [])}
        # What is not due says the same as before: no thread has to be asked for that.
        resting = {name: now for name, source in self._paced.items() if (now := source.resting) is not None}
        answers, silent = self._reads.read(resting)
        told = resting | answers
        for name, source in self._paced.items():
            # What does not answer is shown as it was, with the reason, and without rates.
            found[name] = told.get(name) or SourceReadings(source.last.readings, [])
        silent = {name.removeprefix(_MOUNT): why for name, why in silent.items()}
        used, self._cost_s = time.process_time() - self._cost_s, time.process_time()
        snapshot = Snapshot(
            node=socket.gethostname(),
            machine=boot_id(),
            time=time.time(),
            at_s=time.monotonic(),
            cpus=os.cpu_count() or 1,
            cores=physical_cores(),
            readings=(),
            silent={**self._hang, **silent},
            places=dict(self._places),
            cost_s=used,
        )
        return snapshot, found

    def _look_at_mounts(self) -> None:
        """Once a minute, and whenever something was mounted or unmounted."""
        now, mounts = time.monotonic(), shown_mounts(self.root)
        if self._space_at is not None and mounts == self._mounts and now - self._space_at < SPACE_S:
            return
        if self._space_at is None or mounts != self._mounts:
            self._paced = {
                name: self._paced.get(name) or PacedSource(source)
                for name, source in self._sources(mounts).items()
            }
            self._reads.set_sources({name: paced.read for name, paced in self._paced.items()})
            self._spaces.set_sources(space_sources(mounts))
            self._places = {path: place_of(path, self.root) for path in self.directories}
        self._mounts, self._space_at = mounts, now
        told, self._hang = self._spaces.read()
        self._space = [reading for each in told.values() for reading in each]

    def _sources(self, mounts: list[Mount]) -> dict[str, FigureSource]:
        jobs = JobSources(self.root / "proc", self.root / "sys/fs/cgroup", self.directories)
        moved = {
            f"{_MOUNT}{point}": FigureSource(read, every_s=0.0, most_part=self._part(MOUNTS_PART))
            for point, read in moved_sources(mounts, self.root).items()
        }
        served = served_sources(mounts, self.root, self.run)
        others = OtherSources(jobs.members, self.root / "proc")
        return {
            _JOBS: FigureSource(jobs.readings, every_s=0.0, most_part=self._part(JOBS_PART)),
            _OTHERS: FigureSource(others.readings, every_s=0.0, most_part=self._part(MOST_PART)),
            **moved,
            **served,
        }

    def _part(self, most: float) -> float:
        """Of one core; few samples may cost what they do."""
        return 1.0 if self.brief else most
