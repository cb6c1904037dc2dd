"""Jobs per second through Slurm: an array of Gridwright's beside a bare `sbatch --array`, on a lab.

Both run `/bin/true` so often, each with a log of its own, one core and the same memory, through the same
slurmctld. The time is from handing the array in until squeue shows none of it any more, looked at by the same
loop; that of Gridwright also has the call that writes down how every job ended. Used by bench/dispatch.py.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gridwright.providers import head_node
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.spec import load_spec

OURS = "Gridwright on Slurm"
OURS_PRIVATE = "Gridwright on Slurm, with private directories"
BARE = "sbatch --array"
WARM_UP = 48
MEMORY_MIB = 16
"""Of each job: a shell has some MiB, and Slurm ends a job that it sees above its limit."""
TIMEOUT_S = 300
SPEC = """\
name: dispatch
provider: lab
lab: {network: 10.81.9.0/24}
nodes:
  compute: {count: 3, cores: 16, memory: 2 GiB}
filesystems:
  shared: {type: local, path: /mnt/grid}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""


@dataclass(frozen=True, slots=True)
class Slurm:
    """A Slurm that is up."""

    head: HeadNode
    scheduler: Scheduler
    state: Path

    def run(self, command: Sequence[str]) -> str:
        """What a command on the controller prints."""
        answer = self.head.run(command, timeout_s=30)
        if answer.status != 0:
            raise SystemExit(f"{command[0]}: {answer.stderr.decode(errors='replace')}")
        return answer.stdout.decode()

    def wait(self, number: str) -> None:
        """Until squeue shows nothing of an array."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            # One line for all that wait: what is asked must not cost what is measured.
            if not self.run(["squeue", "-h", "--me", "-o", "%F"]).split().count(number):
                return
            time.sleep(0.2)
        raise SystemExit(f"jobs have not ended within {TIMEOUT_S} s")


def why_not() -> str | None:
    """What a lab with Slurm lacks here; None where there can be one."""
    if os.geteuid() != 0:
        return "run it as root: it makes a lab"
    if shutil.which("debootstrap", path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
        return "apt-get install debootstrap"
    return None


def release() -> str:
    """Which Slurm it was."""
    return slurm().run(["sbatch", "--version"]).strip()


@cache
def slurm() -> Slurm:
    """A lab that is taken down when the benchmark ends."""
    directory = Path(tempfile.mkdtemp(prefix="gridwright-bench-lab-"))
    file = directory / "grid.yaml"
    file.write_text(SPEC)
    gridwright = str(Path(sys.executable).with_name("gridwright"))

    def down() -> None:
        subprocess.run([gridwright, "down", str(file)], check=False, timeout=120)
        shutil.rmtree(directory, ignore_errors=True)

    atexit.register(down)
    subprocess.run([gridwright, "up", str(file)], check=True, timeout=300)
    spec = load_spec(file)
    head = head_node(spec)
    state = Path("/var/lib/gridwright/labs/dispatch/state")
    return Slurm(head, scheduler_kind(spec.scheduler).open(spec, head), state)


def ours(jobs: int, *, private: bool = False) -> float:
    """Seconds of an array through Gridwright; of 48 before, not timed."""
    here = slurm()
    libraries = {name: f"/mnt/grid/{name}" for name in ("work", "util")} if private else {}

    def run(count: int) -> float:
        request = JobRequest(
            command=["/bin/true"],
            directory="/tmp",
            environment={"PATH": "/usr/bin:/bin"},
            libraries=libraries,
            memory_bytes=MEMORY_MIB << 20,
            array=range(1, count + 1),
        )
        began = time.perf_counter()
        (number,) = here.scheduler.submit([request])
        here.wait(number)
        jobs = here.scheduler.jobs([number])
        if wrong := [job for job in jobs if job.state is not JobState.COMPLETED]:
            raise SystemExit(f"{len(wrong)} of {count} jobs that do nothing did not complete: {wrong[0]}")
        return time.perf_counter() - began

    run(WARM_UP)
    return run(jobs)


def bare(jobs: int) -> float:
    """Seconds of an array through sbatch itself; of 48 before, not timed."""
    here = slurm()
    logs = here.state / "bare"
    logs.mkdir(exist_ok=True)
    options = ["--parsable", f"--mem={MEMORY_MIB}M", "--cpus-per-task=1", "--chdir=/tmp", "--no-requeue"]

    def run(count: int) -> float:
        began = time.perf_counter()
        command = ["sbatch", *options, f"--array=1-{count}", f"--output={logs}/%A_%a.log", "--wrap=/bin/true"]
        here.wait(here.run(command).strip())
        return time.perf_counter() - began

    run(WARM_UP)
    return run(jobs)
