"""The process that tests libraries on one of several nodes, on the orders of the coordinator.

    python -m gridwright.iotest.node.worker --connect HOST:PORT --credentials FILE --node NAME

Started by the scheduler or through ssh. Its key and certificate are in a file that only its owner can read,
or on stdin, where FILE is `-`. The process ends when the coordinator is done or gone; it leaves no files.

Carries out the coordinator's orders on a library, one by one, on a node of a test.

`gridwright.iotest.messages` declares them. A library that fails is answered by a `Failed`.

One phase on one node of several: prepared, held until the coordinator lets all nodes go, reported live.

A node's end of the connection to the coordinator: a thread receives orders, and answers urgent ones.

Orders go to a queue for the thread that touches the library. A ping is answered at once, an order to stop
heeded at once, whatever that thread does; an end of the connection is an order to stop, too.

A node's connection to its coordinator: one thread receives while others send.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import queue
import select
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from gridwright import __version__
from gridwright.commands import run_here
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.mounts import LibraryMount
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.iotest.drive import ClientView, Driven, Stalled, drive
from gridwright.iotest.engine import Phase
from gridwright.iotest.library_facts import (
    announce,
    describe_library,
    os_error_problem,
    stalled_problem,
    tidied,
    watch_over,
)
from gridwright.iotest.messages import (
    ANSWERS,
    ORDERS,
    Answer,
    Armed,
    AtOnce,
    Clocks,
    Close,
    Closed,
    CommandRan,
    Failed,
    Finish,
    Go,
    Hello,
    Leave,
    Numbered,
    Open,
    Opened,
    PhaseEnded,
    Ping,
    Pong,
    Prepare,
    Prepared,
    Refuse,
    Removing,
    Report,
    RetainedSet,
    RunCommand,
    RunPhase,
    See,
    Seen,
    Share,
    Shared,
    Started,
    Stop,
    Tidied,
    TidyAfter,
    WorkerFacts,
)
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.scratch import Scratch, leftovers, remove_owned
from gridwright.iotest.stream_plan import usable_room
from gridwright.iotest.wire import COORDINATOR, HEAD, WireError, frame, in_words, length_of, node_context
from gridwright.kernel_files import boot_id
from gridwright.machine import physical_cores
from gridwright.messages import MessageError, plain
from gridwright.runs.iotest_events import Progress
from gridwright.runs.samples import Measured

CONNECT_S = 15.0
GREET_S = 15.0
SILENCE_S = 45.0
"""A coordinator that says or takes nothing for this long is gone: it sends a ping every few seconds."""
_PART = 1 << 16
Argument = TypeVar("Argument")
Value = TypeVar("Value")


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended."""


class Connection:
    """A TLS connection that several threads may use: OpenSSL serves one call at a time."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self.patience_s = GREET_S
        """How long to wait for the other side."""
        self._tls = tls
        self._tls.setblocking(False)
        self._calling = threading.Lock()
        self._sending = threading.Lock()

    def send(self, message: Hello | Pong | Answer) -> None:
        """Send a message. Raises OSError."""
        rest = memoryview(frame(ANSWERS.encode(message)))
        with self._sending:
            while rest:
                rest = rest[self._call(self._tls.send, rest) :]

    def receive(self) -> AtOnce | Numbered:
        """The next message. Raises CoordinatorGone at its end, OSError, WireError and MessageError."""
        return ORDERS.decode(self._exactly(length_of(self._exactly(HEAD.size))))

    def close(self) -> None:
        """End the connection."""
        self._tls.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            chunk = self._call(self._tls.recv, min(count - len(parts), _PART))
            if not chunk:
                raise CoordinatorGone
            parts += chunk
        return bytes(parts)

    def _call(self, act: Callable[[Argument], Value], argument: Argument) -> Value:
        """Call OpenSSL, and wait outside of it. Raises TimeoutError after `patience_s`."""
        while True:
            with self._calling:
                try:
                    return act(argument)
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
            ready = select.poll()
            ready.register(self._tls, wanted)
            if not ready.poll(self.patience_s * 1000):
                raise TimeoutError(f"the coordinator was silent for {self.patience_s:.0f} s")


def connect(address: tuple[str, int], credentials: Path, hello: Hello) -> Connection:
    """Connect, say hello and be let in. Raises OSError, WireError, MessageError and CoordinatorGone."""
    try:
        context = node_context(credentials)
    except ssl.SSLError as error:
        raise WireError(f"{credentials} holds no credentials: {error.reason}") from error
    plain = socket.create_connection(address, timeout=CONNECT_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.settimeout(GREET_S)
    with contextlib.ExitStack() as undo:
        undo.enter_context(plain)
        try:
            tls = undo.enter_context(context.wrap_socket(plain, server_hostname=COORDINATOR))
            connection = Connection(tls)
            connection.send(hello)
            # A coordinator that does not take our certificate says so only now (RFC 8446, section 4.4).
            answer = connection.receive()
        except ssl.SSLEOFError as error:
            raise CoordinatorGone from error
        except ssl.SSLError as error:
            raise WireError(in_words(error)) from error
        if isinstance(answer, Refuse):
            raise WireError(f"the coordinator does not let us in: {answer.reason}")
        undo.pop_all()
    connection.patience_s = SILENCE_S
    return connection


class NodeLink:
    """The connection, once both sides have proven themselves."""

    def __init__(self, connection: Connection, stop: threading.Event) -> None:
        """`stop` is set when the coordinator says so, or is gone."""
        self.orders: queue.Queue[Numbered | None] = queue.Queue()
        """What to do next; None when the connection has ended."""
        self.go: queue.Queue[float] = queue.Queue()
        """When to start the phase that is armed, by time.monotonic()."""
        self.finish = threading.Event()
        """Set when the phase that runs shall end as if its time were up."""
        self.gone = threading.Event()
        self._connection = connection
        self._stop = stop

    def start(self) -> None:
        """Begin to hear."""
        threading.Thread(target=self._hear, name="coordinator", daemon=True).start()

    def send(self, message: Pong | Answer) -> None:
        """Send a message. Raises CoordinatorGone, and sets `stop`, if it cannot be."""
        try:
            self._connection.send(message)
        except OSError as error:
            self._end()
            raise CoordinatorGone from error

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _hear(self) -> None:
        try:
            while True:
                self._take(self._connection.receive())
        except (OSError, WireError, MessageError, CoordinatorGone):
            self._end()

    def _take(self, message: AtOnce | Numbered) -> None:
        match message:
            case Ping(ping):
                received = _clocks()
                self.send(Pong(ping, received, _clocks()))
            case Stop():
                self._stop.set()
            case Go(at):
                self.go.put(at)
            case Finish():
                self.finish.set()
            case Numbered():
                self.orders.put(message)

    def _end(self) -> None:
        self.gone.set()
        self._stop.set()
        self.orders.put(None)


def _clocks() -> Clocks:
    return Clocks(time.monotonic(), time.time())


GO_S = 300.0
"""How long a node that is prepared waits for the others; the coordinator gives up on them earlier."""
_LOOK_S = 0.002
_UNARMED_S = 2.0


class NodePhase:
    """Runs the phase that an order describes."""

    def __init__(
        self, order: RunPhase, options: IotestOptions, link: NodeLink, stop: threading.Event
    ) -> None:
        self._order = order
        self._options = options
        self._link = link
        self._stop = stop
        self._phase: Phase | None = None
        self._watch: LoadWatch
        self._samples: list[Measured] = []
        self._sent = 0.0

    def run(self, device: str | None, watch: LoadWatch, client: ClientView | None = None) -> Driven:
        """Run it to its end. Raises Stalled, OSError, and CoordinatorGone."""
        self._watch = watch
        self._link.finish.clear()
        self._drop_old_go()
        driven = drive(
            self._order.plan,
            self._options,
            device=device,
            watch=watch,
            client=client,
            live=self._take,
            stop=self._stop,
            gate=self._gate,
        )
        if self._samples:
            self._report(None)
        return driven

    def _drop_old_go(self) -> None:
        try:
            while True:
                self._link.go.get_nowait()
        except queue.Empty:
            return

    def _gate(self, phase: Phase) -> None:
        """Say when the streams are prepared, and let them go at the moment that the coordinator names."""
        self._phase = phase
        deadline = time.monotonic() + self._options.stall_s
        while not phase.armed():
            if phase.wait(_LOOK_S):
                # A stream could not prepare; its failure is in the result.
                return
            if self._stop.is_set():
                phase.stop(discard=True)
                return
            if time.monotonic() > deadline:
                phase.stop(discard=False)
                raise Stalled(self._options.stall_s, hung=not phase.wait(_UNARMED_S))
        self._watch.look()
        self._link.send(Armed(re=self._order.id))
        at = self._moment()
        if at is None:
            phase.stop(discard=True)
            return
        while (left := at - time.monotonic()) > 0 and not self._stop.is_set():
            time.sleep(min(left, 0.05))
        phase.open()
        while not (elapsed := phase.progress().elapsed_s) and not phase.wait(0.0005):
            pass
        self._link.send(Started(time.monotonic() - elapsed, re=self._order.id))

    def _moment(self) -> float | None:
        """When to start, by this node's clock; None if there will be no start."""
        deadline = time.monotonic() + GO_S
        while not self._stop.is_set() and time.monotonic() < deadline:
            try:
                return self._link.go.get(timeout=0.02)
            except queue.Empty:
                continue
        return None

    def _take(self, live: Measured | Progress) -> None:
        """Collect samples, and send them with the progress, no more often than was asked for."""
        if isinstance(live, Measured):
            self._samples.append(live)
            return
        if self._link.finish.is_set() and self._phase is not None:
            self._phase.finish()
        if time.monotonic() - self._sent >= self._order.report_s:
            self._report(live)

    def _report(self, progress: Progress | None) -> None:
        self._sent = time.monotonic()
        samples, self._samples = self._samples, []
        self._link.send(Report(samples, progress, re=self._order.id))


class NodeTest:
    """Carries out orders; `serve` returns when the coordinator is done or gone."""

    def __init__(self, node: str, link: NodeLink, stop: threading.Event, token: str = "") -> None:
        """`token` is among the arguments of the workers of all nodes: some may run beside this one."""
        self._node = node
        self._token = token
        self._presence = Presence()
        self._watch: LoadWatch
        self._link = link
        self._stop = stop
        self._target: LibraryTarget
        self._options: IotestOptions
        self._mount: LibraryMount
        self._client: ClientView
        self._run = self._name = ""
        self._scratch: Scratch | None = None
        self._handlers: dict[type[Numbered], Callable[[Any], Answer]] = {
            Open: self._open,
            Prepare: self._prepare,
            RunCommand: self._run_command,
            See: self._see,
            Share: self._share,
            RunPhase: self._phase,
            Close: self._close,
            TidyAfter: self._tidy,
        }

    def serve(self) -> None:
        """Carry out orders until there are no more, then leave nothing behind."""
        try:
            while (order := self._link.orders.get()) is not None and not isinstance(order, Leave):
                answer = self._carry_out(order)
                self._link.send(replace(answer, re=order.id))
        except CoordinatorGone:
            pass
        finally:
            self._abandon()

    def _carry_out(self, order: Numbered) -> Answer:
        try:
            return self._handlers[type(order)](order)
        except Stalled as stalled:
            problem = stalled_problem(
                stalled.seconds,
                library=self._target.library,
                path=self._target.path,
                op=order.op if isinstance(order, RunPhase) else "",
                detail=self._client.unreached(),
            )
            if stalled.hung:
                # Its threads hang in the kernel: nothing that waits for them would end.
                self._link.send(Failed(problem, hung=True, re=order.id))
                os._exit(ExitStatus.ENVIRONMENT)
            return Failed(problem)
        except OSError as error:
            doing = {Close: "removing the test's files", RunPhase: "starting threads"}
            return Failed(
                os_error_problem(
                    error,
                    library=self._target.library,
                    path=self._target.path,
                    doing=doing.get(type(order), "preparing the test"),
                )
            )

    def _open(self, order: Open) -> Opened:
        self._target, self._options = order.target, order.options
        self._run, self._name = order.run, order.name
        self._mount, remarks = describe_library(self._target)
        self._client = ClientView.of(self._mount)
        path = Path(self._target.path)
        return Opened(
            device=self._mount.to_record(),
            memory_backed=self._mount.memory_backed,
            room=usable_room(path, self._mount, self._options),
            kept=self._newest_set(path),
            findings=[*remarks, *tidied(self._target)],
        )

    def _newest_set(self, path: Path) -> RetainedSet | None:
        """The newest kept set that this node wrote."""
        for left in leftovers(path):
            if left.kept and left.node == self._node:
                return RetainedSet(str(left.directory), left.bytes, left.kept)
        return None

    def _prepare(self, _order: Prepare) -> Prepared:
        path = Path(self._target.path)
        try:
            self._scratch = Scratch.create(path, run=self._run, node=self._node)
        except OSError as error:
            # The library is what the user knows; the directory in it was never there.
            error.filename = str(path)
            raise
        directory = self._scratch.directory
        announce(self._presence, path, directory, run=self._name, token=self._run)
        tokens = [self._token] if self._token else []
        self._watch = watch_over(self._mount, self._presence, tokens=tokens)
        return Prepared(str(directory))

    def _run_command(self, order: RunCommand) -> Answer:
        try:
            done = run_here(order.command, timeout_s=order.timeout_s, stop=self._stop.is_set)
        except GridwrightError as error:
            return Failed(error.problems[0])
        told = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return CommandRan(done.status, *told)

    def _see(self, order: See) -> Seen:
        deadline = time.monotonic() + order.seconds
        seen = [False]
        while not self._stop.is_set():
            seen = [os.path.lexists(path) for path in order.paths]
            if all(seen) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return Seen(seen)

    def _share(self, order: Share) -> Shared:
        if self._scratch is not None:
            self._scratch.make_shared(order.name, instead_of=order.instead_of)
        return Shared()

    def _phase(self, order: RunPhase) -> PhaseEnded:
        phase = NodePhase(order, self._options, self._link, self._stop)
        driven = phase.run(self._mount.device, self._watch, self._client)
        return PhaseEnded(driven.outcome, driven.load)

    def _tidy(self, order: TidyAfter) -> Tidied:
        removed = remove_owned(Path(self._target.path), self._run, order.nodes)
        return Tidied([str(directory) for directory in removed])

    def _close(self, order: Close) -> Closed:
        self._presence.end(kept=order.kept is not None)
        scratch, self._scratch = self._scratch, None
        if scratch is not None and order.kept is not None:
            scratch.retain(order.kept)
        elif scratch is not None:
            scratch.remove(lambda: self._link.send(Removing(re=order.id)))
        return Closed()

    def _abandon(self) -> None:
        """Remove what is left, if the coordinator went away before it said so."""
        self._presence.end()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.remove(lambda: None)


CONNECT_FOR_S = 30.0
"""The coordinator listens before it has nodes started; a network may take a moment."""


def main() -> None:
    """Serve one coordinator; exit status 3 if it could not be reached or did not let this node in."""
    arguments = _arguments()
    stop = threading.Event()
    try:
        hello = Hello(__version__, plain(facts(arguments.node)))
        connection = _connect(arguments.connect, _in_memory(arguments.credentials), hello)
    except (OSError, ValueError, WireError, CoordinatorGone) as error:
        reason = "it ended the connection" if isinstance(error, CoordinatorGone) else error
        print(f"the coordinator at {arguments.connect} is out of reach: {reason}", file=sys.stderr)  # noqa: T201
        sys.exit(ExitStatus.ENVIRONMENT)
    link = NodeLink(connection, stop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _leave(link, stop))
    link.start()
    NodeTest(arguments.node, link, stop, arguments.connect).serve()
    link.close()
    # Threads that hang in the kernel would hold up an orderly end.
    os._exit(ExitStatus.DONE)


def facts(node: str) -> WorkerFacts:
    """What the coordinator records of this node."""
    return WorkerFacts(
        node=node,
        host=socket.gethostname(),
        cores=physical_cores(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        boot_id=boot_id(),
        version=__version__,
    )


def _leave(link: NodeLink, stop: threading.Event) -> None:
    stop.set()
    link.orders.put(None)


def _in_memory(credentials: Path) -> Path:
    """The file of the credentials; what is on stdin becomes one that nobody else can read."""
    if str(credentials) != "-":
        return credentials
    file = os.memfd_create("credentials", os.MFD_CLOEXEC)
    os.write(file, sys.stdin.buffer.read())
    return Path(f"/proc/self/fd/{file}")


def _connect(address: str, credentials: Path, hello: Hello) -> Connection:
    host, _, port = address.rpartition(":")
    retrying = Retrying(
        retry=retry_if_exception_type(OSError),
        stop=stop_after_delay(CONNECT_FOR_S),
        wait=wait_random_exponential(multiplier=0.2, max=5.0),
        reraise=True,
    )
    # A thousand nodes come at once: each tries again at a moment of its own.
    return retrying(connect, (host.strip("[]"), int(port)), credentials, hello)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gridwright.iotest.node.worker")
    parser.add_argument("--connect", required=True, metavar="HOST:PORT")
    parser.add_argument("--credentials", required=True, type=Path)
    parser.add_argument("--node", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
