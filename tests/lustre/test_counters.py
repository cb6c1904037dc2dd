"""What iotest, top and the exporter count on a real Lustre, beside what lctl says."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.support.lustre_vm import LustreMachine, until_there

pytestmark = pytest.mark.thorough
PLACE = "/mnt/lustre/counted"
GRID = """
name: counters
scheduler: {type: local}
state: /root/counters-state
filesystems: {scratch: {type: lustre, path: /mnt/lustre, source: "192.168.77.1@tcp:/testfs"}}
libraries: {data: {filesystem: scratch, path: counted}}
"""
WRITER = f"""
import os, time
descriptor = os.open("{PLACE}/written", os.O_WRONLY | os.O_CREAT)
next_s = time.monotonic()
while True:
    os.pwrite(descriptor, bytes(1 << 20), 0)
    os.fsync(descriptor)
    open("/root/writes", "w").close()
    next_s += 0.5
    time.sleep(max(next_s - time.monotonic(), 0))
"""
"""2 MiB/s, however fast the machine is."""
COUNTED = "lctl get_param osc.testfs-OST*-osc-[!M]*.stats"
"""By both mounts of this file system."""
SERVED = "lctl get_param obdfilter.testfs-OST*.stats"
PORT = "/dev/tcp/127.0.0.1/29118"
PAGE = f"""bash -c '
read_page() {{ exec 3<>{PORT} && printf "GET /metrics HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3; }}
for i in $(seq 250); do
  page=$(read_page 2>/dev/null)
  case $page in *lustre_write_bytes_total*) break ;; esac
  sleep 1
done
echo "$page"
'"""
"""Once its sampler has begun, and by no interpreter, which would take the exporter's time."""


@pytest.fixture(scope="module")
def machine(lustre: LustreMachine) -> Iterator[LustreMachine]:
    lustre.run(f"mkdir -p {PLACE} && cat >/root/counters.yaml", given=GRID.encode())
    try:
        yield lustre
    finally:
        lustre.run(f"rm -rf {PLACE}")


def counted(machine: LustreMachine, command: str, row: str) -> dict[str, int]:
    """The sum of a row of statistics, in bytes, for each OST."""
    parts = re.split(r"testfs-(OST\d{4})\S*\.stats=\n", machine.run(command).out)[1:]
    found: dict[str, int] = {}
    for target, rows in zip(parts[::2], parts[1::2], strict=True):
        told = re.search(rf"^{row} .*\[bytes\] \d+ \d+ (\d+)", rows, re.MULTILINE)
        found[target] = found.get(target, 0) + (int(told[1]) if told else 0)
    return found


def test_iotest_has_written_what_lctl_counts(machine: LustreMachine) -> None:
    before = counted(machine, COUNTED, "write_bytes")
    words = ("--directory", PLACE, "--phases", "write", "--seconds", "2", "--streams", "1", "--json")
    (library,) = machine.gridwright("iotest", *words, "--allow-disturbed").json["libraries"]
    after = counted(machine, COUNTED, "write_bytes")
    told = sum(each["written_bytes"] for each in library["phases"])
    assert told > 0
    assert told <= sum(after.values()) - sum(before.values()) < 1.02 * told


def test_the_exporter_counts_as_lctl_does(machine: LustreMachine) -> None:
    other = PLACE.replace("lustre", "lustre2", 1)
    machine.run(f"head -c 8M /dev/urandom >{PLACE}/some && sync && cat {other}/some >/dev/null")
    machine.start("exporter", "exporter", "/root/counters.yaml")
    try:
        page = machine.run(PAGE).out
    finally:
        machine.end("exporter")
    for row, ours, theirs in (
        ("write_bytes", "written", "write"),
        ("read_bytes", "read", "read"),
    ):
        mounted = (
            rf'^gridwright_mount_{ours}_bytes_total{{mountpoint="/mnt/lustre",target="testfs-(\w+)"}} (\d+)'
        )
        served = rf'^lustre_{theirs}_bytes_total{{.*target="testfs-(OST\w+)"}} (\d+)'
        for pattern, command in ((mounted, COUNTED), (served, SERVED)):
            rows = re.findall(pattern, page, re.MULTILINE)
            told = {target: int(value) for target, value in rows}
            assert len(rows) == len(told), "each once"
            known = counted(machine, command, row)
            assert told == {target: value for target, value in known.items() if target in told}
            assert {target for target, value in known.items() if value} <= told.keys()


def test_top_shows_the_rate_that_lctl_counts(machine: LustreMachine) -> None:
    machine.run("rm -f /root/writes; cat >/root/counted.py", given=WRITER.encode())
    machine.background("exec python3 /root/counted.py", "writer")
    try:
        machine.run(until_there("/root/writes"))
        before, begun = counted(machine, COUNTED, "write_bytes"), time.monotonic()
        # Its sampler has to start within the interval and 15 s.
        words = ("top", "/root/counters.yaml", "--once", "--json", "--interval", "20s")
        (library,) = machine.gridwright(*words).json["libraries"]
        after, seconds = counted(machine, COUNTED, "write_bytes"), time.monotonic() - begun
    finally:
        machine.end("writer")
    rate = (sum(after.values()) - sum(before.values())) / seconds
    assert rate / 2 < library["written_bytes_per_s"] < 2 * rate, json.dumps(library)
