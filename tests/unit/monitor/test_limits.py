"""Limits that somebody has set are read where they stand: control groups, and queues of cards."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.group_sources import GroupSources
from gridwright.monitor.readings import LABELS, Reading
from gridwright.monitor.sampler import parse_queue, queue_limits
from tests.support.skips import root_only

FIRST = (
    "31 1 0:1 / /cg/blkio rw - cgroup cgroup rw,blkio\n32 1 0:2 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
)
SECOND = "31 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n"


def put(root: Path, files: dict[str, str], mounts: str) -> GroupSources:
    for name, text in {"proc/self/mountinfo": mounts, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return GroupSources(root)


def told(sources: GroupSources) -> dict[tuple[str, ...], float]:
    readings = list(sources.readings())
    assert all(len(LABELS[each.metric]) == len(each.labels) for each in readings)
    return {each.key: each.value for each in readings}


VERSION_1 = {
    "cg/blkio/slurm/job_17/blkio.throttle.read_bps_device": "8:0 4000000\n",
    "cg/blkio/slurm/job_17/blkio.throttle.write_iops_device": "8:0 120\n",
    "cg/blkio/slurm/job_17/blkio.throttle.io_service_bytes": "8:0 Read 9\n8:0 Write 5\nTotal 14\n",
    "cg/blkio/slurm/job_17/blkio.throttle.io_serviced": "8:0 Read 3\n8:0 Write 6\nTotal 9\n",
    "cg/blkio/free/blkio.throttle.read_bps_device": "",
    "cg/cpu/slurm/job_17/cpu.cfs_quota_us": "50000\n",
    "cg/cpu/slurm/job_17/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
    "cg/cpu/free/cpu.cfs_quota_us": "-1\n",
    "cg/cpu/free/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
}
VERSION_2 = {
    "cg/slurm/job_17/io.max": "8:0 rbps=4000000 wbps=max riops=max wiops=120\n",
    "cg/slurm/job_17/io.stat": "8:0 rbytes=9 wbytes=8 rios=7 wios=6 dbytes=0 dios=0\n8:16 rbytes=1\n",
    "cg/slurm/job_17/cpu.max": "50000 100000\n",
    "cg/slurm/job_17/cpu.stat": "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2000000\n",
    "cg/free/cpu.max": "max 100000\n",
    "cg/free/io.max": "",
}


@pytest.mark.parametrize(
    ("files", "mounts"), [(VERSION_1, FIRST), (VERSION_2, SECOND)], ids=["version 1", "version 2"]
)
def test_groups_tell_their_own_limits_and_bytes(tmp_path: Path, files: dict[str, str], mounts: str) -> None:
    assert told(put(tmp_path, files, mounts)) == {
        ("gridwright_group_io_limit_bytes", "/slurm/job_17", "8:0", "read"): 4e6,
        ("gridwright_group_io_bytes_total", "/slurm/job_17", "8:0", "read"): 9,
        ("gridwright_group_io_limit_requests", "/slurm/job_17", "8:0", "write"): 120,
        ("gridwright_group_io_requests_total", "/slurm/job_17", "8:0", "write"): 6,
        ("gridwright_group_periods_total", "/slurm/job_17"): 10,
        ("gridwright_group_throttled_periods_total", "/slurm/job_17"): 4,
        ("gridwright_group_throttled_seconds_total", "/slurm/job_17"): 2.0,
    }


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_cannot_be_understood_has_no_limits(
    tmp_path_factory: pytest.TempPathFactory, one: str, other: str
) -> None:
    root = tmp_path_factory.mktemp("groups")
    sources = put(root, {"cg/job/io.max": f"8:0 rbps={one}\n{other}", "cg/job/io.stat": other}, SECOND)
    for each in sources.readings():
        assert isinstance(each, Reading)
        assert each.value >= 0


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def queue(kind: bytes, options: bytes, parent: int = 0xFFFFFFFF) -> bytes:
    return struct.pack("=BxxxiIII", 0, 7, 0, parent, 0) + attribute(1, kind + b"\0") + attribute(2, options)


def test_the_rate_of_a_token_bucket_is_told_and_of_no_other_queue() -> None:
    parameters = attribute(1, struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 10_000_000) + b"\0" * 24)
    assert parse_queue(queue(b"tbf", parameters)) == (7, 1e7)
    wide = parameters + attribute(4, struct.pack("=Q", 12_500_000_000))
    assert parse_queue(queue(b"tbf", wide)) == (7, 1.25e10)
    assert parse_queue(queue(b"fq_codel", parameters)) is None
    assert parse_queue(queue(b"tbf", parameters, parent=0x10001)) is None, "a part of another queue"


@given(st.binary(max_size=80))
def test_garbage_of_the_kernel_is_no_limit(body: bytes) -> None:
    parse_queue(body)
    parse_queue(queue(b"tbf", body))


@root_only
def test_a_limit_that_tc_sets_is_what_the_kernel_tells() -> None:
    program = "from gridwright.monitor.sampler import queue_limits; print(queue_limits())"
    script = (
        "ip link add d0 type veth peer name d1 && ip link set d0 up && "
        'tc qdisc add dev d0 root tbf rate 80mbit burst 256k latency 10ms && exec "$0" -P -c "$1"'
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, sys.executable, program],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "{'d0': 10000000.0}"
    assert all(rate > 0 for rate in queue_limits().values())
