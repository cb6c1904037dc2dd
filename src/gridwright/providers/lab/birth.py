"""Starts the processes that a lab consists of: its anchor, and the first process of each node.

The anchor is the first process in a PID namespace that those of all nodes lie in: its end is the end
of everything in the lab. It holds the network namespace with the bridge, too. All are `catatonit -P`
from the image, a static program that does nothing but wait for ended children.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.cgroups import MemberGroups
from gridwright.providers.lab.network import configure_node
from gridwright.providers.lab.node_root import RootPlan, make_root
from gridwright.providers.lab.processes import ProcessId, identify
from gridwright.providers.lab.syscalls import Namespace, enter, unshare

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
