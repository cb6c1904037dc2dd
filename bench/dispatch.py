"""Jobs per second through the schedulers, beside hyperqueue and GNU parallel: jobs that do nothing.

python bench/dispatch.py             # an array of 2000 jobs, 5 rounds in alternation
python bench/dispatch.py --publish   # also puts the table into docs/performance.md

Every contender runs `/bin/true` so often on as many cores, each with a log of its own (GNU parallel: output
kept apart, as it does by itself). As root there is a second table, measured after the first, of arrays
through Slurm on a lab: see dispatch_slurm.py. The time is from handing the jobs in, to a scheduler that is
up and has run a few before, until the end of the last job; hyperqueue looks once a second whether all is
done, so its time ends with the last log that it made. GNU parallel has no scheduler, and its start counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from statistics import median

import dispatch_slurm  # type: ignore[import-not-found]  # it lies beside this file
from gridwright.machine import physical_cores
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.spec import parse_spec
from tables import machine, markdown, publish, spread, version

TIMEOUT_S = 120
WARM_UP = 50
TRUE = shutil.which("true") or "/bin/true"
PEER = "hyperqueue"


@dataclass(frozen=True, slots=True)
class Load:
    """How many jobs, on how many cores, with their files in which directory."""

    jobs: int
    cores: int
    directory: Path


Contender = Callable[[Load], float]
"""Runs a load; returns its seconds."""


def local(load: Load, *, private: bool = False, null: bool = False) -> float:
    """Gridwright's own scheduler; `private` with a directory in work and in util for each job."""
    for name in ("data", "work", "util"):
        (load.directory / name).mkdir()
    spec = parse_spec(
        f"nodes: {{compute: {{cores: {load.cores}}}}}\n"
        f"filesystems: {{disk: {{type: local, path: {load.directory}}}}}\n"
        f"state: {load.directory / 'state'}\n"
    )
    scheduler = scheduler_kind(spec.scheduler).open(spec, LocalHeadNode())
    libraries = {name: str(load.directory / name) for name in ("work", "util")} if private else {}
    return array(scheduler, load, libraries, null=null)


def array(scheduler: Scheduler, load: Load, libraries: Mapping[str, str], *, null: bool = False) -> float:
    """An array through any scheduler."""

    def run(count: int) -> float:
        request = JobRequest(
            command=[TRUE],
            directory=str(load.directory),
            environment=dict(os.environ),
            libraries=libraries,
            memory_bytes=1 << 20,
            array=range(1, count + 1),
            null=null,
        )
        began = time.time()
        (number,) = scheduler.submit([request])
        jobs = ends(scheduler, number)
        if wrong := [job for job in jobs if job.state is not JobState.COMPLETED]:
            raise SystemExit(f"a job that does nothing did not complete: {wrong[0]}")
        return max(job.ended or 0.0 for job in jobs) - began

    run(WARM_UP)
    return run(load.jobs)


def ends(scheduler: Scheduler, number: str) -> list[Job]:
    """The jobs of an array, when all have ended; asked for rarely, since asking takes a core, too."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        jobs = scheduler.jobs([number])
        if all(job.state.final for job in jobs):
            return jobs
        time.sleep(0.5)
    raise SystemExit(f"jobs have not ended within {TIMEOUT_S} s")


def hyperqueue(load: Load) -> float:
    """HyperQueue, through its Python package: server and one worker in a process of their own."""
    command = [
        sys.executable,
        __file__,
        "--as-hyperqueue",
        str(load.jobs),
        str(load.cores),
        str(load.directory),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def be_hyperqueue(load: Load) -> None:
    """In the process of its own."""
    from hyperqueue import Job as HqJob
    from hyperqueue import LocalCluster
    from hyperqueue.cluster import WorkerConfig

    with LocalCluster(worker_config=WorkerConfig(cores=load.cores)) as cluster:
        client = cluster.client()
        began = 0.0
        for count in (WARM_UP, load.jobs):
            job = HqJob(default_workdir=load.directory)
            for _ in range(count):
                job.program([TRUE])
            began = time.time()
            client.wait_for_jobs([client.submit(job)])
        seconds = max(path.stat().st_mtime for path in load.directory.rglob("*.stdout")) - began
        print("\n" + json.dumps({"seconds": seconds}), flush=True)


def parallel(load: Load) -> float:
    """GNU parallel."""
    numbers = "".join(f"{number}\n" for number in range(load.jobs))
    began = time.perf_counter()
    subprocess.run(
        ["parallel", f"-j{load.cores}", TRUE],
        input=numbers,
        text=True,
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    return time.perf_counter() - began


CONTENDERS: dict[str, Contender] = {
    "Gridwright local": local,
    "Gridwright local, with private directories": lambda load: local(load, private=True),
    "Gridwright local, null jobs": lambda load: local(load, null=True),
    PEER: hyperqueue,
    "GNU parallel": parallel,
    dispatch_slurm.OURS: lambda load: dispatch_slurm.ours(load.jobs),
    dispatch_slurm.OURS_PRIVATE: lambda load: dispatch_slurm.ours(load.jobs, private=True),
    dispatch_slurm.BARE: lambda load: dispatch_slurm.bare(load.jobs),
}
ON_SLURM = (dispatch_slurm.OURS, dispatch_slurm.OURS_PRIVATE, dispatch_slurm.BARE)


def missing() -> dict[str, str]:
    """Contenders that are not installed, with how they would be."""
    found = {}
    if util.find_spec("hyperqueue") is None:
        found[PEER] = "pip install hyperqueue"
    if shutil.which("parallel") is None:
        found["GNU parallel"] = "apt-get install parallel"
    if remedy := dispatch_slurm.why_not():
        found |= dict.fromkeys(ON_SLURM, remedy)
    return found


def measure(names: Sequence[str], args: argparse.Namespace) -> dict[str, list[float]]:
    """Jobs per second of each contender in each round, one after another in turn."""
    rates: dict[str, list[float]] = {name: [] for name in names}
    for number in range(args.rounds):
        for name in names:
            with tempfile.TemporaryDirectory(prefix="gridwright-bench-", dir=args.directory) as directory:
                jobs = args.slurm_jobs if name in ON_SLURM else args.jobs
                seconds = CONTENDERS[name](Load(jobs, args.cores, Path(directory)))
            rates[name].append(jobs / seconds)
            print(f"round {number + 1}/{args.rounds} {name}: {rates[name][-1]:.0f}/s", file=sys.stderr)
    return rates


def table(rates: Mapping[str, Sequence[float]], peer_name: str) -> str:
    """Medians with the spread; the ratio to the peer is the median of the rounds' ratios."""
    rows = []
    for name, values in rates.items():
        peer = rates.get(peer_name)
        ratio = median(a / b for a, b in zip(values, peer, strict=True)) if peer else float("nan")
        rows.append([name, spread(values), spread([1000 / each for each in values], 2), f"{ratio:.2f}"])
    text: str = markdown(["contender", "jobs/s", "ms per job", f"times {peer_name}"], rows)
    return text


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--slurm-jobs", type=int, default=480)
    parser.add_argument("--cores", type=int, default=physical_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where files go; by default the system's place")
    parser.add_argument(
        "--only", action="append", choices=list(CONTENDERS), help="a contender; can be repeated"
    )
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    parser.add_argument("--as-hyperqueue", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_hyperqueue:
        jobs, cores, directory = args.as_hyperqueue
        be_hyperqueue(Load(int(jobs), int(cores), Path(directory)))
        return
    absent = missing()
    for name, remedy in absent.items():
        print(f"{name} is not installed and left out: {remedy}", file=sys.stderr)
    names = [name for name in args.only or CONTENDERS if name not in absent]
    # The lab and its Slurm stay up from their first round on, and would take from the contenders without one.
    rates = measure([name for name in names if name not in ON_SLURM], args)
    rates |= measure([name for name in names if name in ON_SLURM], args)
    peers = [
        f"hyperqueue {metadata.version('hyperqueue')}" if PEER in rates else "",
        version("parallel", "--version") if "GNU parallel" in rates else "",
    ]
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {', '.join(filter(None, peers))}; arrays of "
            f"{args.jobs} jobs on {args.cores} cores, {args.rounds} rounds; median (minimum to maximum).",
            "",
            table({name: rates[name] for name in rates if name not in ON_SLURM}, PEER),
        ]
    )
    if dispatch_slurm.OURS in rates:
        text += (
            f"\n\nArrays of {args.slurm_jobs} jobs through {dispatch_slurm.release()} on a lab of 3 nodes"
            " that share this machine, 48 slots in all.\n\n"
            + table({name: rates[name] for name in rates if name in ON_SLURM}, dispatch_slurm.BARE)
        )
    print(text)
    if args.publish:
        publish("dispatch", text)


if __name__ == "__main__":
    main()
