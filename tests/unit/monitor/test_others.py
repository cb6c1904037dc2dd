"""What processes of no job move is read of real ones, and told to those who may know it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.rates import Key, rates
from gridwright.monitor.readings import Reading
from gridwright.monitor.sampler import OtherSources
from tests.support.skips import root_only

MIB = 1 << 20
PROGRAM = f"""
import mmap, os, sys
block = mmap.mmap(-1, {MIB})
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for order in sys.stdin:
    for number in range(int(order)):
        os.pwrite(file, block, number * {MIB})
    print("done", flush=True)
"""


class Mover:
    """A process that writes so many MiB when it is told to."""

    def __init__(self, script: Path, file: Path, job: str) -> None:
        script.write_text(PROGRAM)
        environment = os.environ | ({"GRIDWRIGHT_JOB_ID": job} if job else {})
        self.process = subprocess.Popen(
            [sys.executable, script, file], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def writes(self, mib: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def movers(tmp_path: Path) -> Iterator[tuple[Mover, Mover]]:
    both = (
        Mover(tmp_path / "job_script.py", tmp_path / "one", "17"),
        Mover(tmp_path / "nightly_backup.py", tmp_path / "two", ""),
    )
    for each in both:
        each.writes(1)
    yield both
    for each in both:
        each.process.kill()
        each.process.wait(10)


class Sources:
    """All processes: those of jobs, and the others."""

    def __init__(self) -> None:
        self._jobs = JobSources()
        self._others = OtherSources(self._jobs.members)

    def readings(self) -> list[Reading]:
        return [*self._jobs.readings(), *self._others.readings()]


def moved(before: list[Reading], after: list[Reading]) -> dict[Key, float]:
    """Bytes between two readings, not their rates."""
    spans = {each.key: each.at_s for each in after}
    began = {each.key: each.at_s for each in before}
    latest = max(began.values())
    return {key: rate * (spans[key] - began.get(key, latest)) for key, rate in rates(before, after).items()}


def backup(found: dict[Key, float]) -> float:
    return sum(
        value for key, value in found.items()
        if key[0] == "gridwright_process_moved_bytes_total" and "nightly_backup.py" in key[1]
    )  # fmt: skip


@root_only
def test_a_stranger_has_its_bytes_and_a_job_has_none_of_them(movers: tuple[Mover, Mover]) -> None:
    job, stranger = movers
    sources = Sources()
    before = sources.readings()
    job.writes(8)
    stranger.writes(16)
    after = sources.readings()
    found = moved(before, after)
    assert backup(found) == pytest.approx(16 * MIB, rel=0.1), "it began to be told with what it moved since"
    assert found["gridwright_job_written_bytes_total", "17"] == pytest.approx(8 * MIB, rel=0.1)
    assert found["gridwright_others_written_bytes_total",] > 15 * MIB
    assert not any("job_script.py" in each.labels[0] for each in after if "process_moved" in each.metric)
    assert ("gridwright_job_user", "17", "root") in {each.key for each in after}
    stranger.writes(4)
    assert backup(moved(after, sources.readings())) == pytest.approx(4 * MIB, rel=0.1)


@root_only
def test_what_a_child_moved_that_has_ended_is_not_told_twice(tmp_path: Path) -> None:
    script = tmp_path / "parent_of_many.py"
    script.write_text(
        "import subprocess, sys\n"
        "child = ['dd', 'if=/dev/zero', f'of={sys.argv[1]}', 'bs=1M', 'count=16', 'oflag=direct']\n"
        "for order in sys.stdin:\n"
        "    subprocess.run(child, check=True, stderr=subprocess.DEVNULL)\n"
        "    print('done', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, script, tmp_path / "file"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        sources = Sources()
        before = sources.readings()
        parent.stdin.write("go\n")
        parent.stdin.flush()
        parent.stdout.readline()
        found = moved(before, sources.readings())
    finally:
        parent.kill()
        parent.wait(10)
    told = sum(
        value for key, value in found.items()
        if key[0] == "gridwright_process_moved_bytes_total" and "parent_of_many.py" in key[1]
    )  # fmt: skip
    assert told == pytest.approx(16 * MIB, rel=0.1)
