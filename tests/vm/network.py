"""A network of its own for machines of User Mode Linux: a bridge in a namespace that ends with the test."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

SUBNET = "10.90.0"
_PORTS = 3
_SCRIPT = "; ".join(
    [
        "set -e",
        "ip link add lan type bridge",
        *(
            f"ip tuntap add tap{port} mode tap; ip link set tap{port} master lan; ip link set tap{port} up"
            for port in range(1, _PORTS + 1)
        ),
        "ip link set lan up",
        "echo up",
        "exec sleep infinity",
    ]
)


@dataclass(frozen=True, slots=True)
class Port:
    """Where a machine is plugged in."""

    enter: list[str]
    """The command that runs another one in the network."""
    device: str
    """What UML is started with to have the device `eth0` there."""
    address: str

    @property
    def join(self) -> str:
        """What the machine runs to have its address."""
        return f"ip link set eth0 up; ip addr add {self.address}/24 dev eth0"


class Network:
    """Taps `tap1` to `tap3` on one bridge."""

    def __init__(self) -> None:
        """Raises RuntimeError where it cannot be made."""
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", _SCRIPT]
        self._holder = subprocess.Popen(apart, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self._holder.stdout is None or self._holder.stdout.readline() != b"up\n":
            self.close()
            raise RuntimeError("no network can be made: see what ip link add says")

    def port(self, number: int) -> Port:
        """One end of it: 1 to 3."""
        enter = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]
        return Port(enter, f"eth0=tuntap,tap{number}", f"{SUBNET}.{number}")

    def plug(self, number: int, *, to: str) -> None:
        """Pull the cable of one end out (`down`), or plug it in again (`up`)."""
        command = [*self.port(number).enter, "ip", "link", "set", f"tap{number}", to]
        subprocess.run(command, check=True, timeout=10, capture_output=True)

    def close(self) -> None:
        """End it; the kernel removes the rest."""
        self._holder.kill()
        self._holder.wait(10)
        if self._holder.stdout is not None:
            self._holder.stdout.close()
