"""A machine with a real systemd as its first process, in name spaces of this kernel: it boots within seconds.

What it has of its own is all that a boot is made of: services, timers, cloud-init, networkd, resolved,
packages, rules of nftables, accounts. Its kernel, disks and clock are this machine's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from tests.vm.machine import Answer, MachineError, end, start_apart

BOOT_S = 60.0
_START = """
mount -t tmpfs tmpfs /run
# As in a container: systemd-nspawn does not wait for udev then.
mount -o remount,bind,ro /sys
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
ip link delete "$4" 2>/dev/null || true
ip link add "$4" type veth peer name eth0 address "$3"
ip link set "$4" master lan up
exec systemd-nspawn --quiet --register=no --keep-unit --directory="$2/root" --machine=vm --boot \\
    --network-interface=eth0 --console=pipe --link-journal=no --resolv-conf=off --timezone=off
"""


class Container:
    """One machine: what is written to its disk stays from one boot to the next, and nothing else."""

    def __init__(self, root: Path, directory: Path, enter: list[str], mac: str) -> None:
        """`root`: what its disk has. `enter`: the command that runs another one in its cloud's network."""
        self.root, self.directory, self.enter, self.mac = root, directory, enter, mac
        for each in ("upper", "work", "root"):
            (directory / each).mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Its console, over all boots."""
        return self.directory / "console.log"

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file on its disk while it is off."""
        if self.is_up:
            raise MachineError("it runs: its disk is its own")
        place = self.directory / "upper" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def boot(self) -> None:
        """Start it; returns when its first process takes commands."""
        if self.is_up:
            raise MachineError("it runs already")
        environment = ["env", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1"]
        apart = ["unshare", "--mount", "--propagation=private", "--uts", "--ipc"]
        command = ["sh", "-ec", _START, "boot", str(self.root), str(self.directory), self.mac]
        command.append(f"vm{self.mac.replace(':', '')[-6:]}")
        self._process = start_apart(
            [*apart, *environment, *command], subprocess.DEVNULL, self.log, self.enter
        )
        deadline = time.monotonic() + BOOT_S
        while not self._answers():
            if not self.is_up or time.monotonic() > deadline:
                raise MachineError(f"it did not boot\n{self.tail()}")
            time.sleep(0.05)

    def run(self, script: str, *, timeout_s: float = 60.0, user: str = "") -> Answer:
        """Run a script of the shell in it, as root or as a user."""
        started = time.monotonic()
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        inside = ["nsenter", f"--target={self.first}", "--all", "--wdns=/", "env", "-i"]
        inside += ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"]
        try:
            done = subprocess.run(
                [*inside, *words, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MachineError(f"did not answer {script!r} within {timeout_s:.0f} s\n{self.tail()}") from None
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return Answer(done.returncode, out, err, time.monotonic() - started)

    @property
    def first(self) -> int:
        """Its first process, as this machine numbers it. Raises MachineError."""
        found = self._first()
        if found is None:
            raise MachineError(f"it does not run\n{self.tail()}")
        return found

    def _first(self) -> int | None:
        if self._process is None:
            return None
        try:
            below = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return None
        for each in below:
            try:
                parent = each.parent()
                if each.name() == "systemd" and parent is not None and parent.name() == "systemd-nspawn":
                    return each.pid
            except psutil.NoSuchProcess:
                continue
        return None

    def _answers(self) -> bool:
        if self._first() is None:
            return False
        return self.run("test -S /run/systemd/private && systemctl show --property=Version").status == 0

    def power_off(self) -> None:
        """End all of it at once."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def shut_down(self) -> None:
        """Let systemd end all."""
        self.run("systemctl --no-block poweroff")
        if self._process is not None:
            try:
                self._process.wait(90)
            except subprocess.TimeoutExpired:
                raise MachineError(f"did not shut down\n{self.tail()}") from None
        self.power_off()

    def remove(self) -> None:
        """End it, and remove its disk; its console stays."""
        self.power_off()
        for each in ("upper", "work", "root"):
            shutil.rmtree(self.directory / each, ignore_errors=True)

    def tail(self) -> str:
        """The end of its console."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return os.linesep.join(lines[-20:])
