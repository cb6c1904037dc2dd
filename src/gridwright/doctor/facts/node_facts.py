"""Facts of a node: lookers return them on the node, `gather` sends them, and checks read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridwright.errors import Finding
from gridwright.messages import Extensible


@dataclass(frozen=True, slots=True)
class LibraryFacts(Extensible):
    """What a node sees of a library; None where it could not be looked at."""

    path: str
    hangs: bool = False
    missing: str | None = None
    """Why it cannot be looked at, such as `No such file or directory`."""
    refused: str | None = None
    """Why it cannot be written to."""
    reader: str | None = None
    """The user who looked, where that user may read it and not write it."""
    is_roots: bool = False
    """Whether no other user than root may write it."""
    read_only: bool | None = None
    filesystem_type: str | None = None
    source: str | None = None
    mount_point: str | None = None
    device: str | None = None
    """The kernel's name of its disk."""
    options: str | None = None
    total_bytes: int | None = None
    available_bytes: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    file_times_off_s: float | None = None
    locks: dict[str, str | None] | None = None
    """`flock` and `fcntl`: None where they exclude, else what is wrong; None as a whole where not tried."""


@dataclass(frozen=True, slots=True)
class SystemFacts(Extensible):
    """Kernel, release and identity."""

    kernel: str
    architecture: str
    release: str | None = None
    identity: str | None = None
    container: bool = False
    selinux: str = "off"
    root: bool = False


@dataclass(frozen=True, slots=True)
class NameFacts(Extensible):
    """What the host name resolves to."""

    host: str
    addresses: list[str]
    unresolved: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessorFacts(Extensible):
    """Physical cores, hardware threads of each, and processors that are off."""

    cores: int
    threads_per_core: int
    offline: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryFacts(Extensible):
    """In bytes."""

    total_bytes: int
    available_bytes: int
    swap_bytes: int
    swap_used_bytes: int


@dataclass(frozen=True, slots=True)
class DiskFacts(Extensible):
    """A disk or an array, and the settings of its queue."""

    name: str
    medium: str
    model: str | None = None
    size_bytes: int = 0
    queue: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ArrayFacts(Extensible):
    """An md array; `missing` members where its level can miss some."""

    name: str
    level: str | None = None
    state: str | None = None
    wanted: int | None = None
    missing: int | None = None
    action: str | None = None
    members: list[str] = field(default_factory=list)
    faulty: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MountFacts(Extensible):
    """A mount that holds data; sizes in bytes, None where it could not be asked."""

    mount_point: str
    source: str
    type: str
    options: str
    local: bool
    hangs: bool = False
    broken: str | None = None
    total_bytes: int | None = None
    available_bytes: int | None = None
    used_bytes: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceFacts(Extensible):
    """A network interface; None where it has no speed of its own."""

    name: str
    real: bool
    default: bool
    up: bool
    bytes_per_s: int | None = None
    mtu: int | None = None
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClockFacts(Extensible):
    """Whether it is kept right, and by which services."""

    synchronised: bool
    keepers: list[str]


@dataclass(frozen=True, slots=True)
class Trouble(Extensible):
    """A kind of trouble in the kernel's log."""

    count: int
    last: str


@dataclass(frozen=True, slots=True)
class ServiceFacts(Extensible):
    """Units of systemd."""

    failed: list[str]


@dataclass(frozen=True, slots=True)
class ScratchFacts(Extensible):
    """Arrays that the scratch unit is to keep mounted, by mount point: whether each is."""

    mounted: dict[str, bool]


@dataclass(frozen=True, slots=True)
class KernelFacts(Extensible):
    """An installed kernel: where its modules of file systems are, by their names."""

    release: str
    modules: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelsFacts(Extensible):
    """Kernels that the node can start, the newest first."""

    installed: list[KernelFacts]
    default: str | None = None
    """The one that starts next; None where that is not known, and `unknown_default` says why."""
    unknown_default: str | None = None
    types: list[str] = field(default_factory=list)
    """File systems that the running kernel has by modules."""
    restart_asked: bool = False
    free: list[str] | None = None
    """Packages that may bring another kernel, as nobody holds them; None where that is not known."""


@dataclass(frozen=True, slots=True)
class NodeFacts(Extensible):
    """What a node tells of itself; None for what it could not tell, and `unknown` says why."""

    hostname: str
    version: str
    time: float
    cpus: int
    """Logical ones."""
    memory_bytes: int
    libraries: dict[str, LibraryFacts]
    system: SystemFacts | None = None
    names: NameFacts | None = None
    processors: ProcessorFacts | None = None
    memory: MemoryFacts | None = None
    disks: list[DiskFacts] | None = None
    arrays: list[ArrayFacts] | None = None
    mounts: list[MountFacts] | None = None
    interfaces: list[InterfaceFacts] | None = None
    clock: ClockFacts | None = None
    kernel_log: dict[str, Trouble] | None = None
    services: ServiceFacts | None = None
    scratch: ScratchFacts | None = None
    kernels: KernelsFacts | None = None
    health: dict[str, list[Finding]] = field(default_factory=dict)
    """By file system of the spec: what this node, as its client, finds wrong with it."""
    targets_away: dict[str, dict[str, str]] = field(default_factory=dict)
    """By file system of the spec whose targets this node knows: the state of each that is not up."""
    tuned: str | None = None
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """By kind, then key: None where there is no such setting, `?` and why where it may not be read.

    Of kinds that file systems bring it is all that their command printed.
    """
    unknown: dict[str, str] = field(default_factory=dict)
    """By section."""
