"""The network of a cloud: a bridge in a name space, with addresses by DHCP and names of AWS's services."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from pathlib import Path

METADATA, SERVICES = "169.254.169.254", "10.20.0.2"
"""Addresses of the metadata service, and of AWS's other services."""
HEAD_MAC, NODE_MAC = "02:00:00:00:10:01", "02:00:00:00:10:02"
"""Of the first interfaces. The head node always has its address; nodes have any, and claim theirs."""
_CLONE_NEWNET = 0x40000000
_SCRIPT = f"""
set -e
ip link set lo up
ip link add lan type bridge
ip address add 10.20.128.1/24 dev lan
for each in {METADATA} {SERVICES}; do ip address add $each/32 dev lan; done
ip link set lan up
echo up
exec dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --no-hosts --no-resolv --local=/#/ \\
    --interface=lan --bind-interfaces --no-ping --leasefile-ro --pid-file= \\
    --dhcp-range=10.20.128.200,10.20.128.250,1h \\
    --dhcp-host={HEAD_MAC},10.20.128.10 --dhcp-host={NODE_MAC},10.20.128.200 \\
    --address=/amazonaws.com/{SERVICES} 2>&1
"""


class BootNetwork:
    """It ends with the test; the kernel removes the rest."""

    def __init__(self, log: Path) -> None:
        """Raises RuntimeError where it cannot be made."""
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", _SCRIPT]
        with log.open("wb") as err:
            self._holder = subprocess.Popen(
                apart, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err
            )
        if self._holder.stdout is None or self._holder.stdout.readline() != b"up\n":
            self.close()
            raise RuntimeError(f"no network can be made: {log.read_text()}")

    @property
    def enter(self) -> list[str]:
        """The command that runs another one in it."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def listen(self, address: str, port: int) -> socket.socket:
        """A socket that machines in it reach, for a server of this process."""
        found: list[socket.socket] = []
        thread = threading.Thread(target=lambda: found.append(self._listen(address, port)))
        thread.start()
        thread.join(10)
        return found[0]

    def _listen(self, address: str, port: int) -> socket.socket:
        """In a thread of its own: what a thread enters it stays in."""
        place = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(place, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(place)
        return socket.create_server((address, port), backlog=50)

    def plug(self, name: str, mac: str, process: int) -> None:
        """Give a machine, by its first process, another interface, as EC2 does when one is attached."""
        inside = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]
        far = f"x{mac.replace(':', '')[-6:]}"
        link = [
            "link",
            "add",
            far,
            "type",
            "veth",
            "peer",
            "name",
            name,
            "address",
            mac,
            "netns",
            str(process),
        ]
        for words in (link, ["link", "set", far, "master", "lan", "up"]):
            subprocess.run([*inside, "ip", *words], check=True, timeout=20)

    def close(self) -> None:
        """End it."""
        self._holder.kill()
        self._holder.wait(10)
        if self._holder.stdout is not None:
            self._holder.stdout.close()
