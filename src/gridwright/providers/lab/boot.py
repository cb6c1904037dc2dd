"""Boots a lab: bridge, anchor, and nodes with their roots, each written down before it does anything.

The anchor is the first process in a PID namespace that those of all nodes lie in: its end is the end of
everything in the lab. It holds the network namespace with the bridge, too. All first processes are
`catatonit -P` from the image, a static program that does nothing but wait for ended children.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import NoReturn

from gridwright.beneath import DIRECTORY, remove_tree
from gridwright.commands import CommandError, run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.image import python_directories
from gridwright.providers.lab.layout import Lab, PlannedNode
from gridwright.providers.lab.namespaces import (
    ANCHOR,
    MemberGroups,
    MountFlag,
    Namespace,
    ProcessId,
    bind,
    change_root,
    detect,
    enter,
    identify,
    mount,
    remove,
    unshare,
)
from gridwright.providers.lab.record import (
    FILE_SYSTEM,
    MOUNT_POINT,
    LabRecord,
    NodeRecord,
    Places,
    attach,
    detach,
    size_of,
    write,
)
from gridwright.providers.lab.status import refuse_missing
from gridwright.providers.provider import Caller
from gridwright.schedulers.state_directory import state_directory
from gridwright.services.connections import Listener, listen_on
from gridwright.spec.model import GridSpec
from gridwright.state_parts import make_state
from gridwright.units import Rate

# The network of a lab: a bridge in a namespace of its own, and a pair of interfaces for each node.

BRIDGE = "lab0"
NODE_SIDE = "eth0"
IP_LIMIT_S = 20.0

# ioctl requests and flags of an interface (netdevice(7)).
_SET_FLAGS, _SET_ADDRESS, _SET_MASK = 0x8914, 0x8916, 0x891C
_UP_AND_RUNNING = 0x1 | 0x40


def bridge_side(node: PlannedNode) -> str:
    """The name, on the bridge, of a node's interface; names of nodes are too long for one."""
    return f"n{int(IPv4Address(node.address)) & 0xFFFF}"


def hardware_address(node: PlannedNode) -> str:
    """A hardware address out of the node's IP address.

    Always the same, so that other nodes find one again that was powered on; 02 marks it as administered
    locally (IEEE 802).
    """
    return "02:67:" + ":".join(f"{byte:02x}" for byte in IPv4Address(node.address).packed)


def make_bridge(anchor: int) -> None:
    """Make the bridge in the namespace of the anchor. Raises GridwrightError."""
    _ip(anchor, ["link set lo up", f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up"])


def connect(anchor: int, nodes: Iterable[tuple[PlannedNode, int]]) -> None:
    """Connect nodes, given with the process that holds each one's namespace. Raises GridwrightError."""
    lines = []
    for node, pid in nodes:
        name = bridge_side(node)
        peer = f"name {NODE_SIDE} address {hardware_address(node)} netns {pid}"
        lines += [f"link add {name} type veth peer {peer}", f"link set {name} master {BRIDGE} up"]
    _ip(anchor, lines)


def limit(anchor: int, nodes: Iterable[tuple[PlannedNode, int]], bandwidth: Rate) -> None:
    """Limit what each node sends and receives, with token buckets (tc-tbf(8)). Raises GridwrightError."""
    bits = round(bandwidth.bytes_per_s * 8)
    # A bucket holds what comes in 10 ms, and a whole segment as the kernel hands it over (64 KiB) at least;
    # so much more may wait, as it does in the port of a switch.
    bucket = max(bits // 8 // 100, 1 << 18)
    limited = f"root tbf rate {bits}bit burst {bucket}b latency 10ms"
    born = list(nodes)
    _in_network(anchor, "tc", [f"qdisc add dev {bridge_side(node)} {limited}" for node, _ in born])
    for _, pid in born:
        _in_network(pid, "tc", [f"qdisc add dev {NODE_SIDE} {limited}"])


def disconnect(anchor: int, nodes: Iterable[PlannedNode]) -> None:
    """Remove what a node that died left on the bridge; the kernel may have done it already."""
    _ip(anchor, [f"link del {bridge_side(node)}" for node in nodes], force=True)


def partition(anchor: int, nodes: Iterable[PlannedNode], *, heal: bool) -> None:
    """Cut nodes off the bridge, or heal it. Raises GridwrightError."""
    _ip(anchor, [f"link set {bridge_side(node)} {'up' if heal else 'down'}" for node in nodes])


def _ip(anchor: int, lines: list[str], *, force: bool = False) -> None:
    _in_network(anchor, "ip", lines, force=force)


def _in_network(pid: int, program: str, lines: list[str], *, force: bool = False) -> None:
    """Run commands of ip(8) or tc(8) in the network namespace of a process."""
    command = ["nsenter", "-t", str(pid), "-n", program, *(["-force"] if force else []), "-batch", "-"]
    try:
        done = run_bounded(
            command, stdin="".join(f"{line}\n" for line in lines).encode(), timeout_s=IP_LIMIT_S
        )
    except CommandError as error:
        raise environment_error(
            f"the network of the lab cannot be changed: {error}",
            remedy=f"see whether {program} and nsenter work",
        ) from error
    if done.status and not force:
        raise environment_error(
            f"the network of the lab cannot be changed: {done.stderr.decode(errors='replace').strip()}",
            remedy="run gridwright up again",
        )


def configure_node(address: str, prefix_length: int) -> None:
    """Give the calling process's network namespace its address. Raises OSError."""
    mask = socket.inet_ntoa(struct.pack("!I", (0xFFFFFFFF << (32 - prefix_length)) & 0xFFFFFFFF))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _bring_up(control, "lo")
        for request, value in ((_SET_ADDRESS, address), (_SET_MASK, mask)):
            packed = struct.pack("16sHH4s8x", NODE_SIDE.encode(), socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, packed)
        _bring_up(control, NODE_SIDE)


def _bring_up(control: socket.socket, name: str) -> None:
    fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", name.encode(), _UP_AND_RUNNING))


def listen(pid: int, address: str) -> Listener:
    """A TCP socket that listens on any port of an address in the network of a process. Raises OSError."""
    import threading

    made: list[Listener | OSError] = []

    def work() -> None:
        # The namespace is that of this thread alone, which ends at once; the socket keeps it,
        # and so does that which asks the kernel for the users at the other end.
        try:
            enter(pid, Namespace.NETWORK)
            made.append(listen_on(address))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_SAFE = MountFlag.NO_SUID | MountFlag.NO_DEVICES | MountFlag.NO_EXEC
_COPIED = ("etc", "home", "mnt", "opt", "root", "srv", "var")
"""Directories of the image that a node without an overlay has a copy of: about 40 MB."""
_COPIES = "copies"
_STORED = ("home", "srv", "var/lib/mfs", "var/lib/slurm", "var/spool/gridengine")
"""What outlives a crash of this machine, as far as programs wait for the disk: homes, data, queues, tables.
It goes past the overlay, on which nothing waits, and which would have figures that are none of a disk."""


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A directory of this machine that a node sees."""

    source: Path
    target: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class RootPlan:
    """What the root of a node is made of."""

    image: Path
    """The root file system that all nodes begin with."""
    changes: Path
    """The node's own directory: what it writes is kept there."""
    files: Mapping[str, str]
    """Text files that it has, by path, such as /etc/hosts."""
    shares: tuple[SharedDirectory, ...]
    disk: str | None = None
    """The block device of its disk, of a storage node that has one."""


def make_root(plan: RootPlan, groups: MemberGroups) -> None:
    """Make the root of a node and move into it.

    To be called in a mount namespace of the node's own, by its first process in its own PID, network and
    control-group namespaces. Raises OSError.
    """
    os.umask(0o022)
    mount("", "/", flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
    root = plan.changes / "root"
    root.mkdir(parents=True, exist_ok=True)
    if not _overlay(plan, root):
        _copies(plan, root)
    for path, text in plan.files.items():
        _write(root / path.lstrip("/"), text)
    _kernel_mounts(root)
    _devices(root / "dev")
    for share in plan.shares:
        target = root / str(share.target).lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        bind(str(share.source), str(target), read_only=share.read_only)
    if plan.disk is not None:
        target = root / MOUNT_POINT.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        mount(plan.disk, str(target), FILE_SYSTEM, MountFlag.NO_SUID | MountFlag.NO_DEVICES)
    _control_groups(root / "sys/fs/cgroup", groups)
    change_root(str(root))


def _write(path: Path, text: str) -> None:
    # The image may have a link there that leads out of the root.
    path.unlink(missing_ok=True)
    path.write_text(text)


def _overlay(plan: RootPlan, root: Path) -> bool:
    """The image below, and the node's own directory above; False where this machine has no overlays.

    Raises OSError where it had one before, so that a node never boots without what it wrote; one that began
    with copies goes on with them.
    """
    upper, work = plan.changes / "upper", plan.changes / "work"
    is_first = not upper.exists()
    if (plan.changes / _COPIES).exists():
        return False
    for directory in (upper, work):
        directory.mkdir(exist_ok=True)
    # A boot empties /tmp. The node's root may have left anything of that name.
    if not remove_tree(upper / "tmp"):
        with suppress(OSError):
            (upper / "tmp").unlink()
    # An overlay that is not synced warns so of a crash of the machine: what must outlive one is not in it.
    shutil.rmtree(work / "work" / "incompat", ignore_errors=True)
    try:
        try:
            _mount_overlay(plan.image, upper, work, root, ",volatile")
        except OSError:  # a kernel before 5.10
            _mount_overlay(plan.image, upper, work, root, "")
    except OSError:
        if not is_first:
            raise
        for directory in (upper, work):
            shutil.rmtree(directory)
        return False
    _make_temporary(root)
    for name in _STORED:
        begun = (plan.changes / name).exists()
        # An earlier release left it in the overlay.
        if not (plan.image / name).is_dir() or ((upper / name).exists() and not begun):
            continue
        stored = _own_copy(plan.image / name, plan.changes / name)
        target = root / name
        target.mkdir(parents=True, exist_ok=True)
        bind(str(stored), str(target))
    return True


def _make_temporary(root: Path) -> None:
    """The node's /tmp. Raises OSError where it is a link, which would lead out of the node's root."""
    (root / "tmp").mkdir(exist_ok=True)
    opened = os.open(root / "tmp", DIRECTORY)
    try:
        os.fchmod(opened, 0o1777)
    finally:
        os.close(opened)


def _mount_overlay(image: Path, upper: Path, work: Path, root: Path, options: str) -> None:
    """Mount it, by default without ever waiting for the disk of all of this machine."""
    opened = [os.open(each, os.O_PATH | os.O_DIRECTORY) for each in (image, upper, work)]
    try:
        # Through descriptors, as a comma or a colon in a path would end the option.
        lower, up, aside = (f"/proc/self/fd/{fd}" for fd in opened)
        data = f"lowerdir={lower},upperdir={up},workdir={aside},index=off{options}"
        mount("overlay", str(root), "overlay", data=data)
    finally:
        for fd in opened:
            os.close(fd)


def _copies(plan: RootPlan, root: Path) -> None:
    """Where overlays do not work (as in many containers): /usr of the image, and copies of the rest."""
    mount("tmpfs", str(root), "tmpfs", data="mode=755")
    for entry in plan.image.iterdir():
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
            continue
        target.mkdir()
        if entry.name in _COPIED:
            bind(str(_own_copy(entry, plan.changes / _COPIES / entry.name)), str(target))
        elif entry.name == "usr":
            bind(str(entry), str(target), read_only=True)
            own = _own_copy(entry / "local", plan.changes / _COPIES / "usr/local")
            bind(str(own), str(target / "local"))
    _make_temporary(root)


def _own_copy(source: Path, copy: Path) -> Path:
    """The node's copy of a directory of the image; made whole, or not at all."""
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        _copy(source, part)
        part.rename(copy)
    return copy


def _copy(source: Path, target: Path) -> None:
    """Copy a tree with owners, which shutil leaves out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True)
    for place, directories, files in os.walk(source):
        for name in (".", *directories, *files):
            found = Path(place, name)
            status = found.lstat()
            os.lchown(target / found.relative_to(source), status.st_uid, status.st_gid)
            if not found.is_symlink():
                (target / found.relative_to(source)).chmod(status.st_mode & 0o7777)


def _kernel_mounts(root: Path) -> None:
    for directory in ("proc", "sys", "run", "dev"):
        (root / directory).mkdir(exist_ok=True)
    proc = str(root / "proc")
    mount("proc", proc, "proc", _SAFE)
    # They change the machine, not the node.
    for name in ("sys", "sysrq-trigger"):
        if (root / "proc" / name).exists():
            bind(f"{proc}/{name}", f"{proc}/{name}", read_only=True)
    mount("sysfs", str(root / "sys"), "sysfs", _SAFE | MountFlag.READ_ONLY)
    mount("tmpfs", str(root / "run"), "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, "mode=755,size=10%")


def _devices(directory: Path) -> None:
    """Devices that no harm can be done with, and terminals of the node's own."""
    mount("tmpfs", str(directory), "tmpfs", MountFlag.NO_SUID, "mode=755,size=64k")
    for name in _DEVICES:
        if Path("/dev", name).exists():
            (directory / name).touch()
            bind(f"/dev/{name}", str(directory / name))
    for name, target in _LINKS.items():
        (directory / name).symlink_to(target)
    for name in ("pts", "shm"):
        (directory / name).mkdir()
    mount(
        "devpts",
        str(directory / "pts"),
        "devpts",
        MountFlag.NO_SUID | MountFlag.NO_EXEC,
        "newinstance,ptmxmode=666,mode=620",
    )
    mount("tmpfs", str(directory / "shm"), "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, "mode=1777")


def _control_groups(directory: Path, groups: MemberGroups) -> None:
    """The node's own groups, as it would see them on a machine of its own."""
    if groups.kind == "v2":
        mount("cgroup2", str(directory), "cgroup2", _SAFE)
    elif groups.kind == "v1":
        mount("tmpfs", str(directory), "tmpfs", _SAFE, "mode=755,size=64k")
        for controllers in groups.controllers:
            place = directory / controllers
            place.mkdir()
            mount("cgroup", str(place), "cgroup", _SAFE, controllers)
            for name in controllers.split(","):
                with suppress(FileExistsError):
                    (directory / name).symlink_to(controllers)


FIRST = "/usr/bin/catatonit"
LIMIT_S = 30.0
"""How long any step of a process may take."""
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HERE, _GO, _FAILED = b"here", b"go", b"failed: "


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the first process of a node sets up."""

    name: str
    address: str
    prefix_length: int
    root: RootPlan
    groups: MemberGroups


class Newborn:
    """A process that waits for its parent at every step, and ends when the parent ends."""

    def __init__(self, name: str, channel: socket.socket) -> None:
        self._name = name
        self._channel = channel
        channel.settimeout(LIMIT_S)
        message, pid = self._hear()
        if message != _HERE:
            raise self._failure(message)
        self.process: ProcessId = identify(pid)

    def go(self) -> None:
        """Let it take its next step."""
        self._channel.send(_GO)

    def wait(self) -> None:
        """Wait until it has taken a step. Raises GridwrightError."""
        message, _ = self._hear()
        if message != _HERE:
            raise self._failure(message)

    def wait_for_exec(self) -> None:
        """Wait until it has become what it is to be, its last step. Raises GridwrightError."""
        message, _ = self._hear()
        self._channel.close()
        # The channel closes at execve; where that fails, a message comes first.
        if message or not self.process.alive:
            raise self._failure(message)

    def _hear(self) -> tuple[bytes, int]:
        try:
            message, extra, _, _ = self._channel.recvmsg(4096, socket.CMSG_SPACE(12))
        except TimeoutError:
            raise self._failure(f"it has not answered for {LIMIT_S:.0f} s".encode()) from None
        except ConnectionResetError:
            return b"", 0
        # struct ucred: the kernel puts in the PID as this process sees it (unix(7)).
        pid = next((int.from_bytes(data[:4], "little") for _, _, data in extra), 0)
        return message, pid

    def _failure(self, message: bytes) -> GridwrightError:
        why = message.removeprefix(_FAILED).decode(errors="replace") or "it ended"
        return environment_error(f"{self._name} cannot be started: {why}", remedy="run gridwright up again")


def start_anchor(image: Path, groups: MemberGroups) -> Newborn:
    """Start the anchor up to where it waits for `go`. Raises GridwrightError."""

    def work(channel: socket.socket) -> None:
        _say_and_wait(channel)
        groups.join()
        os.execve(f"{image}{FIRST}", [FIRST, "-P"], {})  # noqa: S606

    return _spawn("the anchor of the lab", None, Namespace.PID | Namespace.NETWORK, work)


def start_node(anchor: int, plan: NodePlan) -> Newborn:
    """Start the first process of a node, which waits for `go` three times.

    It has its namespaces when it waits first; its root the second time; after the third it gives its
    network interface an address and becomes what it is to be. Raises GridwrightError.
    """

    def work(channel: socket.socket) -> None:
        unshare(Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.NETWORK)
        _say_and_wait(channel)
        if plan.groups.kind != "none":
            plan.groups.join_tops()
            unshare(Namespace.CGROUP)
            plan.groups.settle()
        socket.sethostname(plan.name)
        make_root(plan.root, plan.groups)
        _say_and_wait(channel)
        configure_node(plan.address, plan.prefix_length)
        os.execve(FIRST, [FIRST, "-P"], {"PATH": _SYSTEM_PATH})  # noqa: S606

    return _spawn(f"node {plan.name}", anchor, Namespace.PID, work)


def _say_and_wait(channel: socket.socket) -> None:
    channel.send(_HERE)
    if channel.recv(16) != _GO:
        os._exit(1)


def _spawn(name: str, within: int | None, kinds: Namespace, work: Callable[[socket.socket], None]) -> Newborn:
    """Fork until `work` runs as the first process of a new PID namespace, in that of `within`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    pid = os.fork()
    if pid == 0:
        _in_child(theirs, lambda: _descend(theirs, within, kinds, work))
    theirs.close()
    os.waitpid(pid, 0)
    return Newborn(name, ours)


def _descend(
    channel: socket.socket, within: int | None, kinds: Namespace, work: Callable[[socket.socket], None]
) -> None:
    os.setsid()
    _let_go(channel.fileno())
    if within is not None:
        # A new PID namespace lies in that of the process that makes it, not in one it made children enter.
        enter(within, Namespace.PID)
        if (between := os.fork()) != 0:
            os.waitpid(between, 0)
            return
    unshare(kinds)
    if os.fork() == 0:
        _in_child(channel, lambda: work(channel))


def _in_child(channel: socket.socket, work: Callable[[], None]) -> NoReturn:
    """Do some work and end, whatever happens: this is a copy of a process that has other things to do."""
    try:
        work()
    except OSError as error:
        channel.send(_FAILED + str(error).encode()[:4000])
    except BaseException as error:
        channel.send(_FAILED + repr(error).encode()[:4000])
    finally:
        os._exit(0)


def _let_go(channel: int) -> None:
    """Keep nothing of the command's: neither files nor what it does about signals."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are numbers
        if int(name) not in (0, 1, 2, channel):
            try:
                os.close(int(name))
            except OSError:
                continue
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    os.umask(0o022)


def boot_lab(record: LabRecord, spec: GridSpec, caller: Caller) -> LabRecord:
    """Boot everything of a lab of which nothing runs, new or stopped. Raises GridwrightError, OSError."""
    caller.go_on()
    cgroups = detect()
    tops = tuple(str(top) for top in cgroups.lab_directories(record.lab))
    support = cgroups.support
    record = replace(record, group_tops=tops, cgroups=(support.kind, support.controllers))
    write(record)
    groups = cgroups.make(record.lab, ANCHOR)
    anchor = start_anchor(Path(record.image), groups)
    record = replace(record, anchor=anchor.process, anchor_groups=groups)
    write(record)
    anchor.go()
    anchor.wait_for_exec()
    make_bridge(anchor.process.pid)
    caller.go_on()
    powered = spec.powered_nodes()
    return boot_nodes(
        record, spec, [node.plan.name for node in record.nodes if node.plan.name not in powered]
    )


def boot_nodes(record: LabRecord, spec: GridSpec, names: Collection[str]) -> LabRecord:
    """Boot nodes of a lab whose anchor runs; what is left of an earlier life goes first.

    Raises GridwrightError, OSError.
    """
    if record.anchor is None:
        raise ValueError("a node needs the anchor of its lab")
    refuse_missing(record, spec)
    anchor = record.anchor.pid
    planned = [node.plan for node in record.nodes if node.plan.name in names]
    disconnect(anchor, planned)
    newborns = []
    disks = []
    for plan in planned:
        remove(top / plan.name for top in map(Path, record.group_tops))
        groups = record.trees.make(record.lab, plan.name)
        root = RootPlan(
            image=Path(record.image),
            changes=Places(record.lab).node(plan.name),
            files={"/etc/hostname": f"{plan.name}\n", "/etc/hosts": record.layout.hosts_file()},
            shares=_shares(spec),
            disk=_disk(spec, plan),
        )
        disks += [root.disk] if root.disk else []
        prefix = record.layout.prefix_length
        newborn = start_node(anchor, NodePlan(plan.name, plan.address, prefix, root, groups))
        newborns.append((plan, newborn))
        record = record.with_node(NodeRecord(plan, newborn.process, groups))
    write(record)
    for _, newborn in newborns:
        newborn.go()
    born = [(plan, newborn.process.pid) for plan, newborn in newborns]
    connect(anchor, born)
    lab = spec.section(Lab)
    if lab is not None and lab.bandwidth is not None:
        limit(anchor, born, lab.bandwidth)
    for _, newborn in newborns:
        newborn.wait()
        newborn.go()
    for device in disks:
        # From here on it is there as long as its node has it mounted.
        detach(device)
    for _, newborn in newborns:
        newborn.wait_for_exec()
    return record


def _disk(spec: GridSpec, plan: PlannedNode) -> str | None:
    size = size_of(spec, plan)
    return attach(Places(spec.name).disk(plan.name), size) if size is not None else None


def _shares(spec: GridSpec) -> tuple[SharedDirectory, ...]:
    """What a node sees of this machine; the directories are made."""
    places = Places(spec.name)
    state = state_directory(spec)
    make_state(state)
    shares = [SharedDirectory(path, path, read_only=True) for path in python_directories()]
    shares.append(SharedDirectory(state, state))
    for name, filesystem in spec.filesystems.items():
        if filesystem.is_node_local:
            directory = places.filesystem(name)
            directory.mkdir(parents=True, exist_ok=True)
            shares.append(SharedDirectory(directory, filesystem.path))
    # One within another comes after it, or it would be hidden.
    return tuple(sorted(shares, key=lambda share: len(share.target.parts)))
