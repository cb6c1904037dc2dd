"""The network of a lab: a bridge in a namespace of its own, and a pair of interfaces for each node."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address

from gridwright.commands import CommandError, run_bounded
from gridwright.errors import environment_error
from gridwright.providers.lab.layout import PlannedNode
from gridwright.providers.lab.syscalls import Namespace, enter
from gridwright.services.connections import Listener, listen_on
from gridwright.units import Rate

BRIDGE = "lab0"
NODE_SIDE = "eth0"
LIMIT_S = 20.0

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
        lines += [
            f"link add {name} type veth peer {peer}",
            f"link set {name} master {BRIDGE} up",
        ]
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
        done = run_bounded(command, stdin="".join(f"{line}\n" for line in lines).encode(), timeout_s=LIMIT_S)
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
