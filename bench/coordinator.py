"""What the coordinator of iotest costs for each node: a real one against many null workers.

python bench/coordinator.py             # 200 nodes, in one run with 50
python bench/coordinator.py --publish   # also puts the table into docs/performance.md

The coordinator is a process of its own, with journal and records as in any run. Its nodes are clients in
a few processes (a real worker takes 30 MB of memory): they speak the real protocol, over real connections,
and send what a real worker of 16 streams sends, without touching a disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gridwright import __version__
from gridwright.grid.nodes import GridNode
from gridwright.iotest.coordinator.coordinator import Fleet, Limits
from gridwright.iotest.engine import Phase, PhasePlan, StreamPlan
from gridwright.iotest.messages import (
    ANSWERS,
    ORDERS,
    Answer,
    Armed,
    AtOnce,
    Clocks,
    Close,
    Closed,
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
    Report,
    RunPhase,
    See,
    Seen,
    Started,
)
from gridwright.iotest.node.worker import facts
from gridwright.iotest.options import IotestOptions, LibraryTarget, NullVolume
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.recorded import record_iotest
from gridwright.iotest.stream_plan import Room
from gridwright.iotest.wire import COORDINATOR, HEAD, frame, length_of, node_context
from gridwright.messages import plain
from gridwright.runs.directory import RunDirectory
from gridwright.runs.iotest_events import IotestEvent, PhaseBegun, PhaseDone, PhaseProgress, Progress
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.samples import Measured
from tables import machine, markdown, publish, spread

STREAMS = 16
PROCESSES = 2
SETTLE_S = 2.0
"""After the start of a phase, until its cost is counted: nodes that start are another matter."""


class NullNode:
    """A node that measures nothing: it answers orders as a worker does."""

    def __init__(self, name: str, outcome: Outcome) -> None:
        self.name = name
        self._outcome = outcome
        self._writer: asyncio.StreamWriter
        self._go: asyncio.Queue[float] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, host: str, port: int, credentials: Path) -> None:
        """Connect, and serve until told to leave."""
        reader, self._writer = await asyncio.open_connection(
            host, port, ssl=node_context(credentials), server_hostname=COORDINATOR
        )
        self._send(Hello(__version__, plain(facts(self.name))))
        while not isinstance(message := await read_order(reader), Leave):
            self._take(message)
        self._writer.close()

    def _send(self, message: Hello | Pong | Answer) -> None:
        self._writer.write(frame(ANSWERS.encode(message)))

    def _take(self, message: AtOnce | Numbered) -> None:
        match message:
            case Ping(ping):
                now = Clocks(time.monotonic(), time.time())
                self._send(Pong(ping, now, now))
            case Go(at):
                self._go.put_nowait(at)
            case RunPhase():
                task = asyncio.create_task(self._phase(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case Numbered() if type(message) in ANSWER_TO:
                self._send(replace(ANSWER_TO[type(message)], re=message.id))

    async def _phase(self, order: RunPhase) -> None:
        self._send(Armed(re=order.id))
        at = await self._go.get()
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        start = time.monotonic()
        self._send(Started(start, re=order.id))
        done, sampled = 0, 0
        while (elapsed := time.monotonic() - start) < (order.plan.seconds or 0.0):
            await asyncio.sleep(order.report_s)
            done += 1 << 28
            samples = []
            if int(elapsed) > sampled:
                sampled = int(elapsed)
                samples = [replace(SAMPLE, elapsed_s=float(sampled))]
            progress = Progress(False, elapsed, 0, done, 0)
            self._send(Report(samples, progress, re=order.id))
        self._send(PhaseEnded(self._outcome, re=order.id))


async def read_order(reader: asyncio.StreamReader) -> AtOnce | Numbered:
    """The next order of the coordinator."""
    return ORDERS.decode(await reader.readexactly(length_of(await reader.readexactly(HEAD.size))))


SAMPLE = Measured(
    elapsed_s=0.0,
    interval_s=1.0,
    read_bytes=0,
    written_bytes=1 << 28,
    operations=0,
    cpu_percent=12.5,
    memory_used_bytes=7_516_192_768,
    device="nvme0n1",
    device_read_bytes=4096,
    device_written_bytes=1 << 28,
)
ANSWER_TO: Mapping[type[Numbered], Answer] = {
    Open: Opened(
        device={"mount_point": "/mnt/data", "filesystem_type": "lustre"},
        memory_backed=False,
        room=Room(usable_bytes=1 << 50, inodes=None),
        kept=None,
        findings=[],
    ),
    Prepare: Prepared("/mnt/data/.gridwright-iotest-bench"),
    See: Seen([True]),
    Close: Closed(),
}


def null_outcome() -> Outcome:
    """What a real engine measures with the streams of one node, on no storage; latencies spread out."""
    volume = NullVolume(burst_bytes_per_s=2e9)
    options = IotestOptions(engine="null", null=volume)
    streams = tuple(StreamPlan("write", f"/mnt/data/{n}", n, 1 << 26) for n in range(STREAMS))
    phase = Phase(PhasePlan(streams, seed=1, bytes_per_stream=1 << 26, seconds=None), options)
    while not phase.wait(1.0):
        pass
    return phase.result()


async def serve_nodes(arguments: argparse.Namespace) -> None:
    """Be so many nodes."""
    host, _, port = arguments.connect.rpartition(":")
    outcome = null_outcome()
    nodes = [NullNode(name, outcome) for name in arguments.nodes.split(",")]
    await asyncio.gather(
        *(node.serve(host, int(port), arguments.credentials / f"{node.name}.pem") for node in nodes)
    )


class ClientLauncher:
    """Starts a few processes that are all nodes."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        names = list(commands)
        command = list(commands[names[0]])
        to = command[command.index("--connect") : command.index("--credentials")]
        to += ["--credentials", str(Path(command[command.index("--credentials") + 1]).parent)]
        with (logs / "clients.log").open("wb") as log:
            for number in range(PROCESSES):
                own = ",".join(names[number::PROCESSES])
                self._processes.append(
                    subprocess.Popen([sys.executable, __file__, *to, "--nodes", own], stdout=log, stderr=log)
                )

    def ended(self) -> dict[str, str]:
        return {}

    def waiting(self) -> dict[str, str]:
        return {}

    def stop(self) -> None:
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


class Meter:
    """Reads this process's CPU time at the moments that count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._marks: dict[str, tuple[float, float]] = {"begin": self._now()}
        self.record: PhaseRecord | None = None

    @staticmethod
    def _now() -> tuple[float, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return time.monotonic(), usage.ru_utime + usage.ru_stime

    def take(self, event: IotestEvent) -> None:
        """Note where the test stands."""
        match event:
            case PhaseBegun():
                self._marks["phase"] = self._now()
            case PhaseProgress():
                if "settled" not in self._marks and event.elapsed_s >= SETTLE_S:
                    self._marks["settled"] = self._now()
                if event.elapsed_s < self._seconds - 1.0:
                    self._marks["late"] = self._now()
            case PhaseDone():
                self._marks["result"] = self._now()
                self.record = event.phase

    def figures(self, nodes: int) -> dict[str, float]:
        """Milliseconds of CPU: to let a node in, for each second that it runs, for its result."""
        spent = {name: mark[1] for name, mark in self._marks.items()}
        seconds = self._marks["late"][0] - self._marks["settled"][0]
        told = self.record.nodes if self.record else []
        starts = [node.start_offset_s or 0.0 for node in told]
        return {
            "in_ms": (spent["phase"] - spent["begin"]) / nodes * 1e3,
            "second_ms": (spent["late"] - spent["settled"]) / seconds / nodes * 1e3,
            "result_ms": (spent["result"] - spent["late"]) / nodes * 1e3,
            "start_spread_ms": (max(starts) - min(starts)) * 1e3,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            "through": sum(node.status == "complete" for node in told),
        }


def coordinate(nodes: int, seconds: float) -> None:
    """Coordinate one test as the command does, and print what that cost."""
    from gridwright.services.connections import Listener, listen_on

    def listen() -> tuple[Listener, str]:
        return listen_on("127.0.0.1"), "127.0.0.1"

    with tempfile.TemporaryDirectory() as scratch:
        names = [GridNode(f"node{number:04}", STREAMS) for number in range(nodes)]
        fleet = Fleet(names, ClientLauncher(), listen, Path(scratch), Limits())
        run = RunDirectory.create(Path(scratch), "bench", command=["bench"], what=["iotest"])
        target = LibraryTarget("data", "/mnt/data", "shared", 1e8, cores=STREAMS)
        options = IotestOptions(seconds=seconds, phases=("write",))
        meter = Meter(seconds)
        record_iotest(run, [target], options, observers=[meter], stop=threading.Event(), fleet=fleet)
        print(json.dumps(meter.figures(nodes)))


def measure(nodes: int, seconds: float) -> dict[str, float]:
    """The costs of one run, by a coordinator in a process of its own."""
    command = [sys.executable, __file__, "--coordinate", str(nodes), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, float] = json.loads(done.stdout)
    if found["through"] != nodes:
        raise SystemExit(f"only {found['through']:.0f} of {nodes} nodes came through")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", default="50,200", help="numbers of nodes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    parser.add_argument("--coordinate", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--nodes", help=argparse.SUPPRESS)
    parser.add_argument("--connect", help=argparse.SUPPRESS)
    parser.add_argument("--credentials", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.nodes:
        asyncio.run(serve_nodes(args))
        return
    if args.coordinate:
        coordinate(args.coordinate, args.seconds)
        return
    counts = [int(count) for count in args.counts.split(",")]
    found: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    for _ in range(args.rounds):
        # Interleaved, so that what the machine does meanwhile falls on all alike.
        for count in counts:
            found[count].append(measure(count, args.seconds))
    text = _table(found, args.rounds, args.seconds)
    print(text)
    if args.publish:
        publish("coordinator", text)


def _table(found: Mapping[int, Sequence[Mapping[str, float]]], rounds: int, seconds: float) -> str:
    rows = []
    for count, runs in found.items():
        second = [run["second_ms"] for run in runs]
        rows.append(
            [
                f"{count}",
                spread([run["in_ms"] for run in runs], 2),
                spread(second, 3),
                spread([each * count / 10 for each in second], 1),
                spread([run["result_ms"] for run in runs], 2),
                spread([run["start_spread_ms"] for run in runs], 1),
                spread([run["memory_mb"] for run in runs]),
            ]
        )
    head = [
        "nodes",
        "CPU ms to let a node in",
        "CPU ms per node and second",
        "% of a core for all",
        "CPU ms for its result",
        "ms between first and last start",
        "MB of memory",
    ]
    return "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; null workers of {STREAMS} streams in {PROCESSES} "
            f"processes on the same machine, phases of {seconds:.0f} s, {rounds} rounds; median (minimum to "
            "maximum). The time between starts is that of clients that share two cores.",
            "",
            markdown(head, rows),
        ]
    )


if __name__ == "__main__":
    main()
