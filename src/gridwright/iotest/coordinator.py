"""The command's end of a test on several nodes: has workers started, lets them in, and watches over them.

One event loop serves all nodes; no thread, and nothing of size, for each. The command itself touches no
library. `gridwright.iotest.wire` says what goes over the connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from gridwright import __version__
from gridwright.errors import Finding, GridwrightError, environment_error
from gridwright.grid.launching import NodeLauncher
from gridwright.grid.nodes import GridNode
from gridwright.iotest.clock import LIMIT_S
from gridwright.iotest.remote_node import NodeFailed, RemoteNode, read_message
from gridwright.iotest.wire import SECRET_BYTES, Handshake, Opener, Sealer, WireError, nonce, text_of

WORKER = "gridwright.iotest.node_worker"
_OTHER_FILES = 256
"""Files that a command has open beside the connections of nodes."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the coordinator waits, in seconds."""

    gather_s: float = 120.0
    """For a node to come: its job may wait for another one, and its first start reads Python from a
    shared file system."""
    greet_s: float = 15.0
    silence_s: float = 15.0
    """A node answers a ping every two seconds, whatever its libraries do; one that is silent for this long is
    down, cut off or stopped. A server of MooseFS that restarts takes 6 s, and its clients go on meanwhile."""
    order_s: float = 75.0
    """For an order that touches a library: more than the minute after which a worker itself sees a stall."""
    stop_s: float = 10.0
    """For a phase to end that was told to stop."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of a grid, and what it takes to reach them."""

    nodes: Sequence[GridNode]
    launcher: NodeLauncher
    listen: Callable[[], tuple[socket.socket, str]]
    """A socket that listens, and the host that nodes reach it at; see `HeadNode`."""
    secrets: Path
    """A directory that all nodes see at the same path."""
    limits: Limits = field(default_factory=Limits)


class Coordinator:
    """The nodes of a test, as an asynchronous context: all that could come have come."""

    def __init__(
        self, fleet: Fleet, stop: threading.Event, logs: Path, tell: Callable[[Finding], None]
    ) -> None:
        """`logs` is a directory for what workers say; `tell` is called with what the user should know."""
        self.limits = fleet.limits
        self.stop = stop
        self.tell = tell
        self.nodes = {node.name: RemoteNode(node.name, node.cores) for node in fleet.nodes}
        for node in fleet.nodes:
            if node.absent is not None:
                self.nodes[node.name].fail(node.absent)
        self._fleet = fleet
        self._logs = logs
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._secret_file: Path | None = None
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._strangers: dict[str, str] = {}

    @property
    def here(self) -> list[RemoteNode]:
        """The nodes that can be asked, in the order of the spec."""
        return [node for node in self.nodes.values() if node.here]

    async def __aenter__(self) -> Self:
        """Have workers started, and wait for them. Raises GridwrightError if none could be started."""
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.here:
            node.send({"do": "leave"})
        await self._close()

    async def _open(self) -> None:
        _allow_files(len(self.nodes) + _OTHER_FILES)
        listener, host = self._fleet.listen()
        port = listener.getsockname()[1]
        self._server = await asyncio.start_server(self._greet, sock=listener, backlog=1024)
        self._secret_file = _write_secret(self._fleet.secrets, self._secret)
        to = ["--connect", f"{host}:{port}", "--secret-file", str(self._secret_file)]
        commands = {
            name: [sys.executable, "-P", "-m", WORKER, *to, "--node", name]
            for name, node in self.nodes.items()
            if node.failure is None
        }
        await asyncio.to_thread(self._fleet.launcher.start, commands, self._logs)
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._ask_launcher())]
        await self._gather()
        # Each worker has read it by now, and a file that is not there cannot be left behind.
        self._remove_secret()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._fleet.launcher.stop)
        for node in self.nodes.values():
            node.fail("the test is over")
        if self._server is not None:
            self._server.close()
        self._remove_secret()

    def _remove_secret(self) -> None:
        if self._secret_file is not None:
            with contextlib.suppress(OSError):
                self._secret_file.unlink(missing_ok=True)

    async def _gather(self) -> None:
        """Wait until every node has come, or cannot, or the time is up."""
        deadline = time.monotonic() + self.limits.gather_s
        while any(not node.here and node.failure is None for node in self.nodes.values()):
            if self.stop.is_set():
                return
            if time.monotonic() > deadline:
                await self._give_up()
                break
            await asyncio.sleep(0.02)
        await self.on_each(self.here, lambda node: node.measure_clock(8))
        for node in self.here:
            if abs(node.clock.wall_s) > LIMIT_S:
                self.tell(_clock_finding(node))

    async def _give_up(self) -> None:
        """Say of those who have not come what is known."""
        waiting: dict[str, str] = {}
        with contextlib.suppress(GridwrightError):
            waiting = await asyncio.to_thread(self._fleet.launcher.waiting)
        for node in self.nodes.values():
            if not node.here:
                why = waiting.get(node.name) or self._strangers.get(node.name) or "nothing was heard of it"
                node.fail(f"it did not come within {self.limits.gather_s:.0f} s: {why}")

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a node in that knows the secret; one that does not hears no more than a number."""
        name = ""
        try:
            async with asyncio.timeout(self.limits.greet_s):
                sealer, opener = Sealer(), Opener()
                first = await read_message(reader, opener)
                name, version = text_of(first, "node"), text_of(first, "gridwright")
                shake = Handshake(self._secret, name, text_of(first, "nonce"), nonce())
                proof = shake.proof("coordinator")
                writer.write(sealer.seal({"nonce": shake.coordinator_nonce, "proof": proof}))
                shake.check("node", await read_message(reader, opener))
                channel = shake.channel("coordinator")
                hello = await read_message(reader, channel.opener)
            node = self.nodes.get(name)
            if node is None or node.here or node.failure is not None:
                raise WireError(f"nobody waits for a node {name}")
            node.attach(reader, writer, channel, dict(hello["facts"]))
            if version != __version__:
                node.send({"do": "leave"})
                node.fail(f"it has gridwright {version}, and {__version__} is here: install the same on both")
        except (TimeoutError, OSError, WireError, KeyError, TypeError, asyncio.IncompleteReadError) as error:
            if isinstance(error, WireError) and name in self.nodes:
                self._strangers[name] = f"a connection in its name was refused: {error}"
            writer.transport.abort()

    async def _watch(self) -> None:
        """Have every node show that it lives, and give up on those that do not."""
        woke = time.monotonic()
        while True:
            await asyncio.sleep(2.0)
            now, before = time.monotonic(), woke
            woke = now
            for node in self.here:
                if now - before > 4.0:
                    # This process itself was stopped: nobody could be heard meanwhile.
                    node.heard = now
                elif now - node.heard > self.limits.silence_s:
                    node.fail(f"nothing was heard of it for {now - node.heard:.0f} s")
                node.ping()

    async def _ask_launcher(self) -> None:
        """Hear of workers that have ended, also where their connections do not tell."""
        while True:
            await asyncio.sleep(1.0 if len(self.here) < len(self.nodes) else 5.0)
            try:
                ended = await asyncio.to_thread(self._fleet.launcher.ended)
            except GridwrightError:
                # A scheduler that is away for a while is no reason to end a test.
                continue
            for name, reason in ended.items():
                node = self.nodes[name]
                if node.failure is None and not self.stop.is_set():
                    stranger = self._strangers.get(name)
                    node.fail(f"{reason}; {stranger}" if stranger else reason)

    async def on_each(
        self, nodes: Sequence[RemoteNode], act: Callable[[RemoteNode], Awaitable[Result]]
    ) -> dict[str, Result | NodeFailed]:
        """Do something on all these nodes at once; by name, what came of it, or how it failed."""
        results = await asyncio.gather(*(self._bounded(node, act) for node in nodes))
        return {node.name: result for node, result in zip(nodes, results, strict=True)}

    async def _bounded(
        self, node: RemoteNode, act: Callable[[RemoteNode], Awaitable[Result]]
    ) -> Result | NodeFailed:
        try:
            return await act(node)
        except NodeFailed as failed:
            return failed

    @contextlib.asynccontextmanager
    async def heeding_stop(self) -> AsyncIterator[None]:
        """While it is open, an order to stop goes to all nodes; one that does not heed it is given up on."""
        task = asyncio.create_task(self._pass_on_stop())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _pass_on_stop(self) -> None:
        while not self.stop.is_set():
            await asyncio.sleep(0.02)
        for node in self.here:
            node.send({"do": "stop"})
        await asyncio.sleep(self.limits.stop_s)
        for node in self.here:
            node.fail(f"it did not stop within {self.limits.stop_s:.0f} s")


def _allow_files(count: int) -> None:
    """Raise the limit of open files, one for each connection. Raises GridwrightError if it is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise environment_error(
            f"a test of so many nodes needs {count} open files, and {hard} are allowed",
            remedy=f"raise the limit: ulimit -Hn {count}, or LimitNOFILE= of the service",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _clock_finding(node: RemoteNode) -> Finding:
    offset = node.clock.wall_s
    way = "ahead" if offset > 0 else "behind"
    return Finding(
        "warning",
        "clock-apart",
        f"the clock of node {node.name} is {abs(offset):.2f} s {way}; the test accounts "
        "for it, but logs of the nodes cannot be laid beside each other",
        "run a time service on all nodes, such as chrony",
    )


def _write_secret(directory: Path, secret: bytes) -> Path:
    """Put the secret where only its owner can read it, on all nodes. Raises GridwrightError."""
    path = directory / f"iotest-{secrets.token_hex(6)}.secret"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, secret.hex().encode())
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise environment_error(
            f"the secret of the test cannot be written: {error.strerror}",
            where=str(error.filename or path),
            remedy="name a directory that all nodes share with `state:` in the grid spec",
        ) from error
    return path
