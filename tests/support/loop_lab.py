"""A lab whose nodes share a loop device, so that nothing else on this machine moves bytes there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gridwright.providers.lab.record import read
from tests.support.command import Command
from tests.support.disks import run
from tests.support.lab import Lab, up
from tests.support.skips import no_such_kernel

SPEC = """\
name: {name}
provider: lab
nodes:
  compute: {{count: 2, cores: 2, memory: 1 GiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{requires: {requires}}}}}
scheduler: {{type: ssh}}
lab: {{network: {network}}}
"""
MIB = 256
READER = """
# Blocks that are small beside what a limit lets through in a second.
import mmap, os, sys, time
block = mmap.mmap(-1, 1 << 17)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for number in range(256):
    os.pwrite(file, block, number << 17)
print("begun", flush=True)
rest = (1 << 17) / float(sys.argv[2]) if float(sys.argv[2]) else 0.0
due = time.monotonic()
while True:
    for number in range(256):
        os.preadv(file, [block], number << 17)
        due = max(due + rest, time.monotonic() - 0.1)
        if rest:
            time.sleep(max(0.0, due - time.monotonic()))
"""


@dataclass(frozen=True, slots=True)
class LoopLab:
    """The lab, and the device that its nodes have at /mnt/grid."""

    lab: Lab
    device: str

    @property
    def number(self) -> str:
        return f"7:{self.device.removeprefix('/dev/loop')}"

    def throttle(self, way: str, bytes_per_s: int) -> None:
        """Let each node read or write so much a second; 0 for all that it can."""
        record = read(self.lab.name)
        assert record is not None
        for node in record.nodes:
            for top in node.groups.tops:
                if "blkio" in top:
                    limit = Path(top, f"blkio.throttle.{way}_bps_device")
                    limit.write_text(f"{self.number} {bytes_per_s}")

    @contextmanager
    def reads(self, node: str, program: str, job: str = "", bytes_per_s: float = 0.0) -> Iterator[None]:
        """A process that reads so much, or as fast as it can, as a job or as a program of no job."""
        script, file = f"/mnt/grid/{program}.py", f"/mnt/grid/data/{program}"
        environment = [f"GRIDWRIGHT_JOB_ID={job}"] if job else []
        self.lab.run(node, "sh", "-c", f"cat > {script} <<'END'\n{READER}\nEND")
        command = " ".join([*environment, "exec", "setsid", sys.executable, script, file, str(bytes_per_s)])
        began = f"/mnt/grid/{program}.began"
        started = self.lab.run(
            node, "sh", "-c", f"({command}) > {began} 2>&1 & echo $!; "
            f"while ! grep -q begun {began}; do kill -0 $! || exit 1; sleep 0.05; done",
        )  # fmt: skip
        assert started.status == 0, started
        try:
            yield
        finally:
            self.lab.run(node, "kill", "-9", started.out.strip())


@contextmanager
def loop_lab(gridwright: Command, place: Path, name: str, network: str, requires: str) -> Iterator[LoopLab]:
    """Have it up; skip the test where no control group limits what processes move."""
    if not Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device").exists():
        no_such_kernel("no control group of the kind blkio (v1) is here")
    image, spec = place / "grid.img", place / f"{name}.yaml"
    spec.write_text(SPEC.format(name=name, network=network, requires=requires))
    with image.open("wb") as file:
        file.truncate(MIB << 20)
    run("mkfs.ext4", "-q", "-F", "-m", "0", image)
    device = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        with up(Lab(gridwright, spec, name)) as lab:
            nodes = ("compute1", "compute2")
            try:
                for node in nodes:
                    number = device.removeprefix("/dev/loop")
                    mounted = lab.run(
                        node, "sh", "-c",
                        f"mknod {device} b 7 {number} && mount {device} /mnt/grid && mkdir -p /mnt/grid/data",
                    )  # fmt: skip
                    assert mounted.status == 0, mounted
                yield LoopLab(lab, device)
            finally:
                for node in nodes:
                    lab.run(node, "umount", "/mnt/grid")
    finally:
        run("losetup", "--detach", device)
