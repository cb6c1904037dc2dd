"""A virtual machine of QEMU: Debian's kernel, systemd, NVMe and SCSI disks, reached by ssh like any node.

It takes KVM where that works, else it interprets: slower by ten times, and the same otherwise.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.vm.images import Image
from tests.vm.machine import Answer, MachineError, end, start_apart

PROGRAM = "qemu-system-x86_64"
ACCELERATOR = "GRIDWRIGHT_VM_ACCELERATOR"
"""Environment variable that chooses kvm or tcg; without it the machine is looked at."""
BOOT_S = 400.0
"""Seconds with KVM, about fifty of an idle core without."""
_KERNEL = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet systemd.show_status=0 "
    # What costs most where QEMU interprets, and is not what is tested.
    "mitigations=off nokaslr audit=0 selinux=0 apparmor=0"
)


class Qemu:
    """One machine: its root disk and its other disks keep what is on them from one boot to the next."""

    def __init__(
        self, image: Image, directory: Path, devices: Sequence[str], mounts: Mapping[str, Path]
    ) -> None:
        """`devices`: arguments of QEMU for its disks. `mounts`: directories by their tag (9p, read-only)."""
        self.image, self.directory = image, directory
        self.devices, self.mounts = list(devices), dict(mounts)
        directory.mkdir(parents=True, exist_ok=True)
        self.root = directory / "root.qcow2"
        command = [
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "raw",
            "-b",
            str(image.root_disk),
            str(self.root),
        ]
        subprocess.run(command, check=True, timeout=30)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What its kernel and systemd say, over all boots."""
        return self.directory / "console.log"

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def boot(self) -> float:
        """Start it; seconds until it let in root by ssh."""
        if self.is_up:
            raise MachineError("it runs already")
        started = time.monotonic()
        self.port = _free_port()
        self._process = start_apart(self._command(), subprocess.DEVNULL, self.log)
        self._wait_for_ssh(started + BOOT_S)
        return time.monotonic() - started

    def _command(self) -> list[str]:
        kind = accelerator()
        # QEMU's own best model has instructions that take long to interpret; host Python needs x86-64-v2.
        model = "host" if kind == "kvm" else "Nehalem"
        # Interpreted, two processors have hung in the first second of a boot, and gain little.
        processors = "2" if kind == "kvm" else "1"
        command = [PROGRAM, "-M", "q35", "-accel", kind, "-cpu", model, "-smp", processors, "-m", "1024"]
        command += ["-nodefaults", "-display", "none", "-serial", "stdio"]
        command += ["-kernel", str(self.image.kernel), "-initrd", str(self.image.initial_disk)]
        command += ["-append", _KERNEL]
        # UML locks the image as a whole when it reads it, which QEMU would take for a writer.
        root = f"if=none,id=root,format=qcow2,cache=unsafe,backing.file.locking=off,file={self.root}"
        command += ["-drive", root]
        command += ["-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci"]
        command += ["-netdev", f"user,id=lan,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        command += ["-device", "virtio-net-pci,netdev=lan", *self.devices]
        for tag, path in self.mounts.items():
            command += [
                "-virtfs",
                f"local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap",
            ]
        return command

    def ssh(self) -> list[str]:
        """The command of a connection to it, without what to run."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "20",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", "-p", str(self.port), "-i", str(self.image.key), *words, "root@127.0.0.1"]

    def run(self, script: str, *, timeout_s: float = 120.0, stdin: bytes = b"") -> Answer:
        """Run a script of the shell in it."""
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*self.ssh(), script], input=stdin, capture_output=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise MachineError(
                f"did not answer {script!r} within {timeout_s:.0f} s\n{self._tail()}"
            ) from None
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return Answer(done.returncode, out, err, time.monotonic() - started)

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file in it."""
        self.run(
            f"umask 077; mkdir -p $(dirname {path}); cat > {path}; chmod {mode:o} {path}", stdin=content
        ).ok()

    def reboot(self) -> float:
        """Let systemd start it again; seconds until it let in root by ssh."""
        started = time.monotonic()
        before = self.run("cat /proc/sys/kernel/random/boot_id").ok()
        self.run("systemctl reboot")
        self._wait_for_ssh(started + BOOT_S, before)
        return time.monotonic() - started

    def shut_down(self) -> None:
        """Let systemd end it."""
        self.run("systemctl poweroff")
        if self._process is not None:
            try:
                self._process.wait(90)
            except subprocess.TimeoutExpired:
                raise MachineError(f"did not shut down:\n{self._tail()}") from None
        self.power_off()

    def power_off(self) -> None:
        """Cut the power."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def remove(self) -> None:
        """Cut the power and remove its root disk; what its kernel said stays."""
        self.power_off()
        self.root.unlink(missing_ok=True)

    def _wait_for_ssh(self, deadline: float, but_not: str | None = None) -> None:
        """`but_not`: the identity of the boot that is to end first."""
        while time.monotonic() < deadline:
            if not self.is_up:
                raise MachineError(f"it stopped\n{self._tail()}")
            answer = self.run("cat /proc/sys/kernel/random/boot_id")
            if answer.status == 0 and answer.stdout != but_not:
                return
            time.sleep(0.3)
        raise MachineError(f"it did not let in root by ssh\n{self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-20:])


def accelerator() -> str:
    """What runs the machine: `kvm` by the hardware, or `tcg`, which interprets.

    A /dev/kvm of a module other than these two, such as PVM's, offers no virtual machine that an unchanged
    kernel boots in.
    """
    if chosen := os.environ.get(ACCELERATOR):
        return chosen
    by_hardware = any(Path("/sys/module", name).is_dir() for name in ("kvm_intel", "kvm_amd"))
    return "kvm" if by_hardware and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
