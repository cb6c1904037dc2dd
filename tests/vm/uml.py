"""A virtual machine of User Mode Linux: real md, XFS, NFS and iSCSI of a kernel, in seconds without KVM."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.vm.images import Image
from tests.vm.machine import Answer, MachineError, end, start_apart
from tests.vm.network import Port
from tests.vm.uml_registers import register_library

KERNEL = "linux.uml"
BOOT_S = 60.0
"""Two seconds are usual."""
SHARE = "/vm"
"""Where a machine sees the directory that it shares with its test."""

_INIT = """#!/bin/sh
# The first process where there is no systemd.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /run/lock /dev/shm /dev/pts
mount -t devpts devpts /dev/pts
hostname node1
ip link set lo up
sh /vm/join
exec sh /vm/requests
"""
_INIT_SYSTEMD = """#!/bin/sh
# What systemd finds: the network is up, disks are not those of fstab, and a unit takes requests.
mount -t proc proc /proc
sh /vm/join
umount /proc
: > /etc/fstab
for unit in lan chrony ssh systemd-sysusers; do
    ln -sf /dev/null /etc/systemd/system/$unit.service
done
sh /vm/before || echo "what comes before systemd failed" > /dev/console
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system/sysinit.target.wants
cat > /run/systemd/system/requests.service << end
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh /vm/requests
KillMode=process
end
ln -s ../requests.service /run/systemd/system/sysinit.target.wants/
exec /lib/systemd/systemd
"""
_REQUESTS = """#!/bin/sh
# Runs what the test asks for, each request by itself, so that none waits for another.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
touch /vm/booted
exec < /dev/tty1
while true; do
    read -r n || continue
    (
        sh /vm/$n.sh > /vm/$n.out 2> /vm/$n.err < /dev/null
        echo $? > /vm/$n.part
        mv /vm/$n.part /vm/$n.status
    ) &
done
"""
_SHUTDOWN = """
umount --all --types xfs,nfs,nfs4
mdadm --stop --scan
sync
mount -o remount,ro /
(sleep 0.3; echo o > /proc/sysrq-trigger) &
"""


class Uml:
    """One machine: its root disk and its other disks keep what is on them from one boot to the next."""

    def __init__(
        self,
        image: Image,
        directory: Path,
        disks: Mapping[str, Path],
        *,
        memory_mib: int = 384,
        port: Port | None = None,
        with_systemd: bool = False,
    ) -> None:
        """`disks`: the file behind each device, such as `ubdb`. `port`: where it is plugged in.

        `with_systemd`: its first process is systemd, with udev and the units of the image; else a shell.
        """
        self.port, self.with_systemd = port, with_systemd
        self.prepare = ""
        """What a shell does first, in mounts of the machine's own."""
        self.before_systemd = ""
        """What a shell does in the machine before systemd is started."""
        self.image, self.directory, self.disks, self.memory_mib = image, directory, dict(disks), memory_mib
        self.share = directory / "share"
        self.share.mkdir(parents=True)
        self._asked = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What its kernel says, over all boots."""
        return self.directory / "console.log"

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def boot(self) -> float:
        """Start it; seconds until it took requests."""
        if self.is_up:
            raise MachineError("it runs already")
        started = time.monotonic()
        (self.share / "booted").unlink(missing_ok=True)
        (self.share / "init").write_text(_INIT_SYSTEMD if self.with_systemd else _INIT)
        (self.share / "join").write_text(f"{self.port.join}\n" if self.port else "")
        (self.share / "before").write_text(self.before_systemd)
        (self.share / "requests").write_text(_REQUESTS)
        if shutil.which(KERNEL) is None:
            raise MachineError(f"there is no {KERNEL}: install user-mode-linux")
        self._process = start_apart(
            self._command(), subprocess.PIPE, self.log, self.port.enter if self.port else ()
        )
        self._wait_for(self.share / "booted", BOOT_S, "did not boot")
        return time.monotonic() - started

    def _command(self) -> list[str]:
        root = f"ubd0={self.directory}/root.cow,{self.image.root_disk}"
        words = ["sh", "-ec", f'{self.prepare}\nexec "$@"', "sh"] if self.prepare else []
        words += [
            "env",
            f"LD_PRELOAD={register_library()}",
            KERNEL,
            f"mem={self.memory_mib}M",
            f"uml_dir={self.directory}/uml",
            "quiet",
        ]
        words += [root, "root=/dev/ubda", "rootfstype=ext4", "rw"]
        words += [f"{device}={path}" for device, path in self.disks.items()]
        words += [self.port.device] if self.port else []
        # The kernel speaks to the log; requests come in by the second console.
        words += ["con=null", "con0=null,fd:1", "con1=fd:0,null", "ssl=null", "init=/bin/sh", "--", "-c"]
        return [
            *words,
            f'"mkdir -p {SHARE}; mount -t hostfs -o {self.share} none {SHARE}; exec sh {SHARE}/init"',
        ]

    def run(self, script: str, *, timeout_s: float = 30.0) -> Answer:
        """Run a script of the shell in it."""
        return self.wait(self.start(script), timeout_s=timeout_s)

    def start(self, script: str) -> int:
        """Begin to run a script; `wait` takes the number."""
        self._asked += 1
        (self.share / f"{self._asked}.sh").write_text(script)
        if self._process is None or self._process.stdin is None:
            raise MachineError("it does not run")
        self._process.stdin.write(f"{self._asked}\n".encode())
        self._process.stdin.flush()
        return self._asked

    def wait(self, asked: int, *, timeout_s: float = 30.0) -> Answer:
        """The answer to a request. Raises MachineError where none came in time."""
        started = time.monotonic()
        what = (self.share / f"{asked}.sh").read_text().strip()
        self._wait_for(self.share / f"{asked}.status", timeout_s, f"did not answer {what!r}")
        text = {
            end: (self.share / f"{asked}.{end}").read_text(errors="replace")
            for end in ("status", "out", "err")
        }
        return Answer(int(text["status"]), text["out"], text["err"], time.monotonic() - started)

    def power_off(self) -> None:
        """Cut the power: what was not written to a disk yet is lost."""
        if self._process is not None:
            end(self._process)
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None

    def remove(self) -> None:
        """Cut the power and remove its disks; what its kernel said stays."""
        self.power_off()
        for disk in (self.directory / "root.cow", *self.disks.values()):
            disk.unlink(missing_ok=True)

    def shut_down(self) -> None:
        """End it in order, as systemd would: file systems unmounted, arrays stopped."""
        self.run(_SHUTDOWN)
        if self._process is not None:
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                raise MachineError(f"did not shut down:\n{self._tail()}") from None
        self.power_off()

    def _wait_for(self, path: Path, timeout_s: float, failure: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not path.exists():
            if not self.is_up:
                raise MachineError(f"{failure}: it stopped\n{self._tail()}")
            if time.monotonic() > deadline:
                raise MachineError(f"{failure} within {timeout_s:.0f} s\n{self._tail()}")
            time.sleep(0.01)

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return os.linesep.join(lines[-20:])
