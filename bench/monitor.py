"""What it costs to sample a node each second, beside prometheus-node-exporter that is scraped each second.

python bench/monitor.py                                          # 200 jobs of two processes, 100 targets
python bench/monitor.py --exporter DIR/usr/bin/prometheus-node-exporter   # beside it, alternating
python bench/monitor.py --publish                                # puts the table into docs/performance.md

The exporter is in the Debian package of this name: `apt-get download prometheus-node-exporter`, and
`dpkg -x FILE DIR`. It reads no jobs and no Lustre. Processes are real: half of them run within each second,
and half wait, as the shell of a job does for its program. The counters of Lustre are files as recorded
(tests/fixtures/lustre), which go on meanwhile: what a kernel takes to print them is not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, cast

from gridwright.filesystems.lustre_client import counters
from gridwright.filesystems.mounts import Mount
from gridwright.messages import encode
from gridwright.monitor import node_program, sampler
from gridwright.monitor.mount_sources import shown_mounts
from gridwright.monitor.readings import Request
from tables import machine, markdown, publish, spread

RECORDED = Path(__file__).parents[1] / "tests/fixtures/lustre"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LINKED = ("class", "block", "devices", "fs/cgroup")
"""Of /sys: everything else below it is Lustre's."""


@dataclass(frozen=True)
class Case:
    """What a node has to be sampled."""

    name: str
    jobs: int = 0
    connections: int = 0
    """To OSTs, as a client."""
    targets: int = 0
    """OSTs, as a server."""


CASES = (
    Case("a quiet node"),
    Case("200 jobs of two processes", jobs=200),
    Case("the same, client of 100 OSTs", jobs=200, connections=100),
    Case("server of 8 OSTs, 200 jobs on each", targets=8),
    Case("server of 100 OSTs, 200 jobs on each", targets=100),
)


def recorded(name: str, parameter: str) -> str:
    """The value of a recorded parameter."""
    text = (RECORDED / f"{name}.out").read_text()
    value = text.partition(f"{parameter}=\n")[2]
    return re.split(r"^[a-z]\S*\.\S*=$", value, maxsplit=1, flags=re.MULTILINE)[0]


def job_stats(second: int, jobs: int = 200) -> str:
    """As recorded, with so many jobs, each of which goes on."""
    text = recorded("330-after-write-i-job_stats-ost", "obdfilter.scratch-OST0000.job_stats")
    head, *blocks = re.split(r"^(?=- job_id:)", text, flags=re.MULTILINE)
    block = next(each for each in blocks if "dd.0" in each)
    return head + "".join(
        block.replace("dd.0", f"{number}").replace("104857600", f"{104857600 + second * number:9d}")
        for number in range(jobs)
    )


def tree(root: Path, case: Case) -> None:
    """The files of a node: its own, but Lustre's as recorded."""
    (root / "sys/fs").mkdir(parents=True)
    (root / "proc").symlink_to("/proc")
    for name in LINKED:
        (root / "sys" / name).symlink_to(f"/sys/{name}")
    go_on(root, case, 0)


def go_on(root: Path, case: Case, second: int) -> None:
    """Let counters move: of all targets what they moved, of an eighth of them also their jobs."""
    debug, values = root / "sys/kernel/debug/lustre", root / "sys/fs/lustre"
    own = recorded("330-after-write-c-osc-stats", "osc.scratch-OST0000-osc-ffff8e4fab1e5000.stats")
    for number in range(case.connections):
        name = f"osc/scratch-OST{number:04x}-osc-ffff8e4fab1e5000"
        put(debug / name / "stats", moved(own, second))
        put(debug / name / "state", "current_state: FULL\n")
    stats = recorded("330-after-write-b-obdfilter-stats", "obdfilter.scratch-OST0000.stats")
    locks = recorded("extra-22-ldlm-stats", "ldlm.namespaces.filter-scratch-OST0000_UUID.pool.stats")
    shapes = recorded("310-before-f-brw_stats-osd", "osd-ldiskfs.scratch-OST0000.brw_stats")
    for number in range(case.targets):
        target = f"scratch-OST{number:04x}"
        put(debug / f"obdfilter/{target}/stats", moved(stats, second))
        put(debug / f"ldlm/namespaces/filter-{target}_UUID/pool/stats", moved(locks, second))
        if second == 0:
            put(values / f"ldlm/namespaces/filter-{target}_UUID/lock_count", "17\n")
            put(values / f"obdfilter/{target}/num_exports", "100\n")
            put(debug / f"obdfilter/{target}/recovery_status", "status: INACTIVE\n")
            put(debug / f"osd-ldiskfs/{target}/brw_stats", shapes)
            for name in ("kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree"):
                put(values / f"osd-ldiskfs/{target}/{name}", "3833116\n")
        if second == 0 or number % 8 == second % 8:
            put(debug / f"obdfilter/{target}/job_stats", job_stats(second))


def moved(text: str, second: int) -> str:
    """The same statistics, so many seconds later, with more bytes written."""
    text = re.sub(r"(?<=snapshot_time             )\d+", lambda at: str(int(at[0]) + second), text)
    text = re.sub(r"(?<=elapsed_time              )\d+", lambda at: str(int(at[0]) + second), text)
    return re.sub(r"\b247529472\b", lambda at: str(int(at[0]) + second * 4096), text)


def put(path: Path, text: str) -> None:
    """Write a file in one piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@contextlib.contextmanager
def going_on(root: Path, case: Case) -> Iterator[None]:
    """Counters move each second."""
    over = threading.Event()

    def run() -> None:
        second = 0
        while not over.wait(1.0):
            second += 1
            go_on(root, case, second)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def working(jobs: int) -> Iterator[None]:
    """Jobs of two processes each: a shell that waits, and a program that runs twice a second."""
    script = 'tail -s 0.5 -f ---disable-inotify "$0" > /dev/null & wait; true'
    running = [
        subprocess.Popen(
            ["sh", "-c", script, __file__],
            env={**os.environ, "GRIDWRIGHT_JOB_ID": f"{number}"},
            start_new_session=True,
        )
        for number in range(jobs)
    ]
    try:
        time.sleep(1.0)
        yield
    finally:
        for each in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, 9)
            each.wait()


def used_s(pids: Sequence[int]) -> float:
    """CPU time of processes, user and system."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total * TICK_S


def resident_mb(pids: Sequence[int]) -> float:
    """Memory that processes do not share, and their part of what they share (smaps_rollup)."""
    texts = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE)[0]) for text in texts) * 1024 / 1e6


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def sampled(root: Path, case: Case, seconds: float) -> tuple[float, float]:
    """Percent of a core, and MB, of the sampler at a sample each second."""
    command = [
        sys.executable,
        __file__,
        "--as-sampler",
        str(root),
        *(["--lustre"] if case.connections or case.targets else []),
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    order, lines = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    order.write(encode(Request(1.0, 0)) + b"\n")
    order.flush()
    reader = threading.Thread(target=lambda: [None for _ in lines])
    reader.start()
    time.sleep(3.0)
    found = cost(lambda: family(process.pid), seconds)
    order.close()
    process.wait(10)
    reader.join()
    return found


def cost(
    pids: Callable[[], Sequence[int]], seconds: float, work: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Percent of a core that processes take over some seconds, with `work` each second, and their MB."""
    begun, before = time.monotonic(), used_s(pids())
    due = begun
    while time.monotonic() - begun < seconds:
        work()
        due += 1.0
        time.sleep(max(0.0, due - time.monotonic()))
    taken = used_s(pids()) - before
    return taken / (time.monotonic() - begun) * 100, resident_mb(pids())


def exported(path: Path, seconds: float) -> tuple[float, float]:
    """The same of node-exporter, scraped each second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(path), f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def scrape() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            answer.read()

    try:
        time.sleep(3.0)
        scrape()
        return cost(lambda: [process.pid], seconds, scrape)
    finally:
        process.kill()
        process.wait()


def be_sampler(root: Path, *, lustre: bool) -> int:
    """Sample as the node's program does, a node whose files are below `root`."""
    client = Mount("192.168.77.1@tcp:/scratch", "/mnt/scratch", "lustre", ("rw",))

    def shown(at: Path = root) -> list[Mount]:
        return [*shown_mounts(at), *([client] if lustre else [])]

    for module, name, double in (
        (sampler, "shown_mounts", shown),
        (sampler, "space_sources", lambda _mounts: {}),
        *([(counters, "read_mounts", lambda _run: [client])] if lustre else []),
        (node_program, "Sampler", partial(sampler.Sampler, root=root)),
    ):
        setattr(module, name, double)
    return node_program.main()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--exporter", type=Path, help="the program of prometheus-node-exporter")
    parser.add_argument("--case", default="", help="only cases with this in their name")
    parser.add_argument("--directory", type=Path, help="where files of Lustre are made")
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    parser.add_argument("--as-sampler", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lustre", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_sampler:
        sys.exit(be_sampler(args.as_sampler, lustre=args.lustre))
    found: Mapping[str, list[tuple[float, float]]] = {case.name: [] for case in CASES} | {"exporter": []}
    loads = []
    for _ in range(args.rounds):
        for case in (each for each in CASES if args.case in each.name):
            root = Path(tempfile.mkdtemp(dir=args.directory))
            try:
                tree(root, case)
                with working(case.jobs), going_on(root, case):
                    found[case.name].append(sampled(root, case, args.seconds))
                    loads.append(os.getloadavg()[0])
                    if args.exporter and case.jobs and not case.connections:
                        found["exporter"].append(exported(args.exporter, args.seconds))
            finally:
                shutil.rmtree(root)
    names = {"exporter": "prometheus-node-exporter, 200 jobs of two processes"}
    rows = [
        [names.get(name, name), spread([cpu for cpu, _ in told], 2), spread([memory for _, memory in told])]
        for name, told in found.items()
        if told
    ]
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {args.rounds} rounds of {args.seconds:.0f} s, "
            f"alternating; median (minimum to maximum). Load average of the machine {spread(loads, 1)}.",
            "",
            markdown(["sampled each second", "% of a core", "MB"], rows),
        ]
    )
    print(text)
    if args.publish:
        publish("monitor", text)


if __name__ == "__main__":
    main()
