"""The coordinator of a test on several nodes: starts workers, lets them connect, and watches over them.

One event loop serves all nodes; no thread, and nothing of size, for each. The command itself touches no
library. `gridwright.iotest.wire` says what goes over the connections.

Each node has a key and a certificate of its own, in a file that only its owner can read, in a directory
that all nodes see. The authority signs for one test only: a certificate of another test opens nothing.

Watches over the nodes of a test: who is silent for too long is lost, and told with the cause at once.

Names what is wrong with a grid before what it hit: asked when nodes or a file system go silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self, TypeVar, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gridwright import __version__
from gridwright.beneath import remove_tree
from gridwright.errors import Finding, GridwrightError, environment_error
from gridwright.grid.grid import Grid
from gridwright.grid.launching import NodeLauncher
from gridwright.grid.nodes import GridNode
from gridwright.grid.outages import OutageCause
from gridwright.interference.watch import LoadWatch
from gridwright.iotest.coordinator.remote_node import (
    PING_EVERY_S,
    NodeFailed,
    RemoteNode,
    SilenceJudge,
    clock_finding,
    cpu_pressure,
    read_message,
)
from gridwright.iotest.messages import (
    ORDERS,
    Answer,
    Emit,
    Hello,
    Leave,
    Pong,
    Refuse,
    Stop,
    Welcome,
    WorkerFacts,
)
from gridwright.iotest.wire import COORDINATOR, WireError, coordinator_context, frame, in_words, peer_name
from gridwright.messages import MessageError, typed
from gridwright.refusals import refusal
from gridwright.runs.iotest_events import NodesAwaited
from gridwright.services.connections import AcceptedConnection, Bounds, Listener, allow_descriptors
from gridwright.spec.hosts import fold_hosts
from gridwright.state_parts import fresh_directory

VALID = timedelta(days=1)
"""Before and after the moment they are made: connections are made in the first minutes of a test, and clocks
of nodes may be off by a time zone."""


class Authority:
    """Signs the certificates of one test."""

    def __init__(self, now: datetime | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now or datetime.now(UTC)
        self._name = _named(f"gridwright iotest {secrets.token_hex(8)}")
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))

    def of_node(self, node: str) -> str:
        """Key, certificate and authority of a node, as PEM. Raises ValueError if its name is not ASCII."""
        return self._issue(node, ExtendedKeyUsageOID.CLIENT_AUTH)

    def of_coordinator(self) -> str:
        """Key, certificate and authority of the coordinator, as PEM."""
        return self._issue(COORDINATOR, ExtendedKeyUsageOID.SERVER_AUTH)

    def context(self) -> ssl.SSLContext:
        """How the coordinator lets nodes in."""
        # Python's ssl takes a key from a file only; this one is in memory.
        fd = os.memfd_create("gridwright", os.MFD_CLOEXEC)
        try:
            os.write(fd, self.of_coordinator().encode())
            return coordinator_context(Path(f"/proc/self/fd/{fd}"))
        finally:
            os.close(fd)

    def _issue(self, name: str, side: x509.ObjectIdentifier) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named("gridwright iotest"), key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # Else a node could show its certificate to others as that of the coordinator.
        builder = builder.add_extension(x509.ExtendedKeyUsage([side]), critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        return text + _pem(builder.sign(self._key, hashes.SHA256())) + self.certificate

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        authority = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - VALID)
            .not_valid_after(self._now + VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


class HandedOver:
    """The files of a test's nodes, in a fresh directory of the state directory, which all nodes see."""

    def __init__(self, authority: Authority, state: Path, nodes: Iterable[str]) -> None:
        """Write them. Raises GridwrightError."""
        self._directory = fresh_directory(state, "iotest")
        try:
            for node in nodes:
                self._write(node, authority.of_node(node))
        except OSError as error:
            self.remove()
            where = self._directory / os.fsdecode(error.filename or "")
            otherwise = "name a directory that all nodes share with `state:` in the grid spec"
            why = refusal(where, error, otherwise, writes=True)
            raise environment_error(
                f"the certificates of the test cannot be written: {why.reason}",
                where=str(where),
                remedy=why.remedy,
            ) from error

    def file_of(self, node: str) -> Path:
        """The file that only this node needs."""
        return self._directory / f"{node}.pem"

    def remove(self) -> None:
        """Remove all of them; those that cannot be removed open nothing once the test is over."""
        remove_tree(self._directory)

    def _write(self, node: str, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.file_of(node), flags, 0o600)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


Ask = Callable[[Collection[str]], Sequence[OutageCause]]
"""Looks for causes of the silence of nodes; of none, for what else is wrong. Bounded in time, and blocks."""
LONGEST_S = 20.0
"""For all looks together; what is not known by then is not waited for."""
AGAIN_S = 10.0
"""Between two looks for the same silence: who is asked has something to do as well."""


class OutageDiagnosis:
    """The causes that are known, each told once, and looked for by one look at a time."""

    def __init__(self, ask: Ask | None, emit: Emit) -> None:
        """`ask` is None where nobody knows anything of the nodes."""
        self._ask = ask
        self._emit = emit
        self._causes: dict[str, OutageCause] = {}
        self._told: dict[str, set[str | None]] = {}
        """What each cause hit, as far as it was told."""
        self._look: asyncio.Task[None] | None = None
        self._asked_for: frozenset[str] = frozenset()
        self._asked_at = float("-inf")

    @property
    def looks(self) -> bool:
        """Whether somebody is being asked."""
        return self._look is not None and not self._look.done()

    def begin(self, silent: Collection[str], filesystem: str | None = None, *, at_once: bool = False) -> None:
        """Have causes looked for, where nobody does so, and unless `at_once` nobody just did."""
        wanted = frozenset(silent)
        again = at_once or time.monotonic() - self._asked_at > AGAIN_S
        if self._ask is None or self.looks or not (again or wanted - self._asked_for):
            return
        self._asked_for, self._asked_at = wanted, time.monotonic()
        self._look = asyncio.create_task(self._find(wanted, filesystem))

    async def settle(self, silent: Collection[str], filesystem: str | None = None) -> None:
        """Look for causes and wait for what comes of it, for a limited time."""
        await self._wait()
        if not all(self.of(node) for node in silent) or not silent:
            self.begin(silent, filesystem, at_once=True)
            await self._wait()

    async def end(self) -> None:
        """Ask no more."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)

    def of(self, node: str) -> str | None:
        """Why a node is silent, in words."""
        for cause in self._causes.values():
            if node in cause.nodes:
                return f"{cause.what}, and it is reached through that" if cause.reaches_them else cause.what
        return None

    def is_certain(self, node: str) -> bool:
        """Whether it is known for certain that a node is lost."""
        return any(node in cause.nodes and cause.certain for cause in self._causes.values())

    def of_filesystem(self, filesystem: str) -> str | None:
        """Why a file system does not serve, in words."""
        for cause in self._causes.values():
            if filesystem in cause.filesystems:
                return f"{cause.what}, which serves file system {filesystem}"
        return None

    async def _wait(self) -> None:
        if self._look is not None:
            await asyncio.wait([self._look], timeout=LONGEST_S)

    async def _find(self, silent: frozenset[str], filesystem: str | None) -> None:
        ask = self._ask
        if ask is None:
            return
        found = await asyncio.to_thread(ask, silent)
        # Every look covers all servers: what serves again is no cause any more.
        self._causes = {what: cause for what, cause in self._causes.items() if not cause.filesystems}
        for cause in found:
            self._causes[cause.what] = cause
            nodes = cause.nodes if cause.certain else frozenset()
            self._tell(cause, nodes, {filesystem} & set(cause.filesystems))

    def tell_for(self, lost: Collection[str]) -> None:
        """Tell the causes of nodes that are lost now: one that was silent for a while may have come back."""
        for cause in self._causes.values():
            if not cause.of_node_alone:
                self._tell(cause, cause.nodes & set(lost), set())

    def _tell(self, cause: OutageCause, nodes: frozenset[str], filesystems: Collection[str | None]) -> None:
        told = self._told.setdefault(cause.what, set())
        if news := (set(nodes) | set(filesystems)) - told:
            told |= news
            self._emit(outage_finding(replace(cause, nodes=nodes)))


def outage_finding(cause: OutageCause) -> Finding:
    """What is wrong, and what it hit."""
    hit = []
    if cause.nodes:
        are = "is" if len(cause.nodes) == 1 else "are"
        names = fold_hosts(sorted(cause.nodes))
        if cause.reaches_them:
            hit.append(f"{names}, reached through it, {are} lost to this test")
        else:
            hit.append(f"{names} {are} lost to this test")
    if cause.filesystems:
        systems = " and ".join(cause.filesystems)
        hit.append(f"it serves file system {systems}: what is read and written there waits for it, or fails")
    return Finding("error", "outage", f"{cause.what}; {'; '.join(hit)}", cause.remedy)


_LOOK_S = 0.5


class FleetWatch:
    """Has every node show that it lives, and gives up on those that do not; `run` goes on until cancelled."""

    def __init__(
        self, nodes: Mapping[str, RemoteNode], judge: SilenceJudge, blame: OutageDiagnosis, emit: Emit
    ) -> None:
        self._nodes = nodes
        self._judge = judge
        self._blame = blame
        self._emit = emit

    async def run(self) -> None:
        """Ping all nodes, and judge their silence."""
        woke = time.monotonic()
        while True:
            await asyncio.sleep(PING_EVERY_S)
            now, before = time.monotonic(), woke
            woke = now
            here = [node for node in self._nodes.values() if node.here]
            beats = [node.beats for node in here]
            self._judge.woke(beats, now, late_s=now - before - PING_EVERY_S, pressure=cpu_pressure())
            self._give_up(here, now)
            for node in here:
                node.ping()

    def _give_up(self, here: list[RemoteNode], now: float) -> None:
        """Give up on the nodes that are lost: their silence says so, or somebody who knows for certain."""
        suspects = [node.name for node in here if self._judge.is_suspect(node.beats, now)]
        if suspects:
            # What took one may have taken all that missed a beat.
            self._blame.begin([node.name for node in here if now - node.beats.heard > 2 * PING_EVERY_S])
        for node in here:
            known = node.name in suspects and self._blame.is_certain(node.name)
            # Who is silent is told with the cause; looking for that has a limit of time.
            if (known or self._judge.is_lost(node.beats, now)) and not self._blame.looks:
                node.fail(self._judge.verdict(node.beats, now))

    async def tell_as_it_happens(self, stop: threading.Event) -> None:
        """Name each node that is lost, soon, with its cause before it; not when the user ends the test."""
        while not stop.is_set():
            await asyncio.sleep(_LOOK_S)
            if news := self._news():
                await self._blame.settle([node.name for node in news])
                self.tell_of_lost()

    def tell_of_lost(self) -> None:
        """Name every node that is lost, once, and before them what they were lost by."""
        news = self._news()
        self._blame.tell_for([node.name for node in news])
        for node in news:
            node.told = True
            self._emit(_lost(node.name, node.failure or "", self._blame.of(node.name)))

    def _news(self) -> list[RemoteNode]:
        return [node for node in self._nodes.values() if node.failure is not None and not node.told]


def _lost(node: str, reason: str, cause: str | None) -> Finding:
    why = f"{cause}; {reason}" if cause else reason
    return Finding(
        "error",
        "node-lost",
        f"node {node} was lost: {why}; its figures are left out",
        "see whether the node is up and reaches this machine, and the log of its job",
    )


WORKER = "gridwright.iotest.node.worker"
_OTHER_FILES = 256
"""Files that a command has open beside the connections of nodes: those of strangers are among them."""
_STRANGERS = 128
"""Connections whose other side has not shown yet who it is, beside one for each node; see `_bounds`."""
_TELL_S = 5.0
"""Nodes that have not come are named so often."""
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
    longest_silence_s: float = 35.0
    """The same where answers come late: as many seconds as leave time to name a loss within a minute."""
    order_s: float = 75.0
    """For an order that touches a library: more than the minute after which a worker itself sees a stall."""
    stop_s: float = 10.0
    """For a phase to end that was told to stop."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of a grid, and what it takes to reach them."""

    nodes: Sequence[GridNode]
    launcher: NodeLauncher
    listen: Callable[[], tuple[Listener, str]]
    """A socket that listens, and the host that nodes reach it at; see `HeadNode`."""
    secrets: Path | None
    """A directory that all nodes see, for their certificates; None: each node reads its own on stdin."""
    limits: Limits = field(default_factory=Limits)
    served_by: Sequence[int] = ()
    """Processes of this machine that the grid consists of, with all below them."""
    asleep: Sequence[str] = ()
    """Nodes that are off until a job waits for them: they are named, and not tested."""
    causes: Ask | None = None
    """Who knows why nodes went silent."""
    filesystems: Mapping[str, str] = field(default_factory=dict)
    """The file system of each library."""


class Coordinator:
    """The nodes of a test, as an asynchronous context: all that could come have come."""

    def __init__(self, fleet: Fleet, stop: threading.Event, logs: Path, tell: Emit) -> None:
        """`logs` is a directory for what workers say; `tell` is called with what the user should know."""
        self.limits = fleet.limits
        self.stop = stop
        self.tell = tell
        judge = SilenceJudge(fleet.limits.silence_s, fleet.limits.longest_silence_s)
        self.nodes = {node.name: RemoteNode(node.name, node.cores, judge) for node in fleet.nodes}
        for node in fleet.nodes:
            if node.absent is not None:
                self.nodes[node.name].fail(node.absent)
        self._fleet = fleet
        self.watch = LoadWatch(roots=[os.getpid(), *fleet.served_by])
        """Sees this machine, of which nodes may be containers."""
        self.blame = OutageDiagnosis(fleet.causes, tell)
        self.write_rates: dict[str, float] = {}
        """Bytes a second of all nodes, with the closing fsync, by file system."""
        self._watching = FleetWatch(self.nodes, judge, self.blame, tell)
        self._logs = logs
        self._credentials: HandedOver | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._greeting: set[asyncio.Task[None]] = set()
        self._strangers: dict[str, str] = {}
        self._refused = ""
        """Why the last connection of somebody unknown was refused."""

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
            node.send(Leave())
        await self._close()

    async def _open(self) -> None:
        listener, host = self._fleet.listen()
        listener.bounds = _bounds(len(self.nodes), self.limits.greet_s)
        authority = Authority()
        self._tasks = [asyncio.create_task(self._accept(listener, authority.context()))]
        expected = [name for name, node in self.nodes.items() if node.failure is None]
        files, inputs = await asyncio.to_thread(self._hand_out, authority, expected)
        port = listener.getsockname()[1]
        address = f"{host}:{port}"
        self.watch.add_token(address)
        worker = [sys.executable, "-P", "-m", WORKER, "--connect", address]
        commands = {name: [*worker, "--credentials", files[name], "--node", name] for name in expected}
        await asyncio.to_thread(self._fleet.launcher.start, commands, self._logs, inputs)
        self._tasks += [asyncio.create_task(self._watching.run()), asyncio.create_task(self._ask_launcher())]
        await self._gather()
        self._tasks.append(asyncio.create_task(self._watching.tell_as_it_happens(self.stop)))
        # Each worker has read its own by now, and files that are not there cannot be left behind.
        if self._credentials is not None:
            await asyncio.to_thread(self._credentials.remove)

    def _hand_out(
        self, authority: Authority, nodes: Sequence[str]
    ) -> tuple[Mapping[str, str], Mapping[str, bytes] | None]:
        """The file of each node's certificate, and what each reads on stdin. Raises GridwrightError."""
        if self._fleet.secrets is None:
            return dict.fromkeys(nodes, "-"), {node: authority.of_node(node).encode() for node in nodes}
        self._credentials = HandedOver(authority, self._fleet.secrets, nodes)
        return {node: str(self._credentials.file_of(node)) for node in nodes}, None

    async def _close(self) -> None:
        tasks = [*self._tasks, *self._greeting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.blame.end()
        await asyncio.to_thread(self._fleet.launcher.stop)
        for node in self.nodes.values():
            node.fail("the test is over")
        if self._credentials is not None:
            await asyncio.to_thread(self._credentials.remove)

    async def _gather(self) -> None:
        """Wait until every node has come, or cannot, or the time is up."""
        began = told = time.monotonic()
        while awaited := [
            node.name for node in self.nodes.values() if not node.here and node.failure is None
        ]:
            if self.stop.is_set():
                return
            now = time.monotonic()
            if now - began > self.limits.gather_s:
                await self._give_up()
                break
            if now - told > _TELL_S:
                reasons = await self._reasons()
                self.tell(NodesAwaited(waiting={name: reasons.get(name, "") for name in awaited}))
                told = now
            await asyncio.sleep(0.02)
        if self._fleet.asleep:
            self.tell(_asleep_finding(self._fleet.asleep))
        await self.run_on_nodes(self.here, lambda node: node.measure_clock(8))
        for node in self.here:
            if (apart := clock_finding(node.name, node.clock.wall_s)) is not None:
                self.tell(apart)

    async def _give_up(self) -> None:
        """Say of those who have not come what is known."""
        waiting = await self._reasons()
        await self.blame.settle([name for name, node in self.nodes.items() if not node.here])
        for node in self.nodes.values():
            if not node.here:
                why = waiting.get(node.name) or self._strangers.get(node.name) or "nothing was heard of it"
                if self._refused:
                    why += f"; {self._refused}"
                node.fail(f"it did not come within {self.limits.gather_s:.0f} s: {why}")

    async def _reasons(self) -> dict[str, str]:
        """Why workers do not run yet, as far as the launcher knows."""
        with contextlib.suppress(GridwrightError):
            return await asyncio.to_thread(self._fleet.launcher.waiting)
        return {}

    async def _accept(self, listener: Listener, context: ssl.SSLContext) -> None:
        """Take connections, and greet each beside the others."""
        with listener:
            listener.setblocking(False)
            while True:
                try:
                    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
                except ConnectionAbortedError:
                    # There was no room for one; the listener has made a pause.
                    await asyncio.sleep(0)
                    continue
                task = asyncio.create_task(self._greet(cast(AcceptedConnection, connection), context))
                self._greeting.add(task)
                task.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: AcceptedConnection, context: ssl.SSLContext) -> None:
        """Let a node in that has a certificate of this test, and refuse every other connection."""
        try:
            async with asyncio.timeout(self.limits.greet_s):
                reader, writer = await _secured(connection, context)
        except (TimeoutError, OSError, asyncio.CancelledError) as error:
            why = in_words(error) if isinstance(error, ssl.SSLError) else str(error) or "it was silent"
            self._refused = f"a connection was refused: {why}"
            connection.close()
            return
        name = ""
        try:
            async with asyncio.timeout(self.limits.greet_s):
                name = peer_name(writer.get_extra_info("peercert"))
                hello = await read_message(reader)
                self._let_in(name, reader, writer, hello)
            connection.listener.admit(connection)
        except (
            *(TimeoutError, OSError, WireError, MessageError),
            *(asyncio.IncompleteReadError, asyncio.CancelledError),
        ) as error:
            if isinstance(error, WireError | MessageError):
                self._strangers[name] = f"a connection in its name was refused: {error}"
            writer.transport.abort()

    def _let_in(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hello: Hello | Pong | Answer,
    ) -> None:
        """Take a node whose name is proven, if it is waited for. Raises WireError and MessageError."""
        if not isinstance(hello, Hello):
            raise WireError("a connection that did not begin with a greeting")
        node = self.nodes.get(name)
        if node is None or node.here or node.failure is not None:
            writer.write(frame(ORDERS.encode(Refuse("it waits for no such node"))))
            raise WireError(f"nobody waits for a node {name}")
        if hello.gridwright != __version__:
            reason = (
                f"it has gridwright {hello.gridwright}, and {__version__} is here: install the same on both"
            )
            writer.write(frame(ORDERS.encode(Refuse(reason))))
            writer.close()
            node.fail(reason)
            return
        facts = typed(hello.facts, WorkerFacts)
        writer.write(frame(ORDERS.encode(Welcome())))
        node.attach(reader, writer, facts)

    def tell_of_lost(self) -> None:
        """Name every node that is lost, once; see FleetWatch."""
        self._watching.tell_of_lost()

    def causes_for(self, library: str, silent: Collection[str]) -> Awaitable[None]:
        """Look for what is wrong first, and wait for it, where a library or nodes failed."""
        return self.blame.settle(silent, self.filesystem_of(library))

    def look_at_library(self, library: str) -> None:
        """Look for what is wrong where a library moves nothing; what is found is told."""
        self.blame.begin((), self.filesystem_of(library))

    def filesystem_of(self, library: str) -> str:
        """The name of its file system; of one that nobody names, its own."""
        return self._fleet.filesystems.get(library, library)

    def cause_at(self, library: str) -> str | None:
        """Why a library does not answer, in words, as far as is known."""
        return self.blame.of_filesystem(self.filesystem_of(library))

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

    async def run_on_nodes(
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
            node.send(Stop())
        await asyncio.sleep(self.limits.stop_s)
        for node in self.here:
            node.fail(f"it did not stop within {self.limits.stop_s:.0f} s")


async def _secured(
    connection: socket.socket, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection once both sides have shown their certificates. Raises OSError, so ssl.SSLError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _bounds(nodes: int, greet_s: float) -> Bounds:
    """Of connections whose other side has not shown yet who it is.

    All nodes may come at once, through ssh as one user or from behind one address, beside strangers.
    Raises GridwrightError where the limit of open files leaves none for each node.
    """
    needed = nodes + _OTHER_FILES
    left = allow_descriptors(nodes + needed) - needed
    if left < 0:
        raise environment_error(
            f"a test of so many nodes needs {needed} open files, and {needed + left} are allowed",
            remedy=f"raise the limit: ulimit -Hn {needed}, or LimitNOFILE= of the service",
        )
    coming = min(nodes, left)
    # A stranger alone, of whatever name, leaves room for others.
    return Bounds(coming + _STRANGERS, coming + _STRANGERS // 2, 2 * greet_s, greet_s)


def _asleep_finding(nodes: Sequence[str]) -> Finding:
    are = "is" if len(nodes) == 1 else "are"
    return Finding(
        "info",
        "nodes-off",
        f"{fold_hosts(nodes)} {are} off until jobs wait, and not tested",
        "submit jobs that wake them, and test while these run; or test what is on",
    )


def fleet_of(grid: Grid) -> Fleet | None:
    """The nodes of a grid to test; None where this machine alone is tested.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up, or no node of it is.
    """
    if grid.is_this_machine:
        return None
    nodes = grid.prepared(grid.nodes())
    secrets = None if grid.launches_by_ssh else grid.state
    return Fleet(
        nodes,
        grid.launcher(nodes),
        grid.listen,
        secrets,
        served_by=grid.processes_here,
        asleep=grid.asleep,
        causes=grid.causes(),
        filesystems={name: library.filesystem for name, library in grid.spec.libraries.items()},
    )
