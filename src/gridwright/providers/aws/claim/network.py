"""Sets up a second network interface: answers must leave by the one that the questions came in by.

Amazon Linux does that by itself (amazon-ec2-net-utils); other systems do not, or only with tools that take
minutes. The address gets no route of its subnet in the main table: two such routes would send what belongs to
one interface through the other.

Where systemd-networkd runs, as on Ubuntu, it is told this by a file. From 249 on it may take away rules and
routes that are not its own when it starts anew (networkd.conf(5), ManageForeignRoutingPolicyRules= and
ManageForeignRoutes=), and cloud-init may write a configuration of the same interface, with an address by DHCP
and a table 101 (10-netplan-*.network): the first file by name is the one that counts (systemd.network(5)).
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from pathlib import Path

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.writing import write
from gridwright.node_programs.scratch.commands import Ended, run, tool
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Directories
from gridwright.providers.aws.claim.instance_metadata import Metadata

TABLE = "7001"
"""A table of routes that nobody else has (ip-route(8))."""
OWN_TOOL = "setup-policy-routes"
"""Of amazon-ec2-net-utils, which routes by source itself."""
NETWORK_FILE = "05-gridwright-claim.network"
"""Before those of netplan, cloud-init and amazon-ec2-net-utils; in /run, as each start claims anew."""
_LIMIT_S = 20.0
_OWN_TOOL_S = 40.0
_RELOADED_S, _NETWORKD_S = 5.0, 20.0
_LARGEST_MTU = 9001
"""Of a VPC (Amazon EC2 User Guide, jumbo frames)."""


class Network:
    """Looks at, and sets, one interface."""

    def __init__(self, directories: Directories, metadata: Metadata) -> None:
        self._links = directories.sys / "class/net"
        self._networkd = directories.networkd
        self._metadata = metadata

    def link(self, mac: str) -> str | None:
        """The name of the interface with this address of its hardware."""
        for entry in sorted(self._links.glob("*")):
            with contextlib.suppress(OSError):
                if (entry / "address").read_text(encoding="ascii").strip().lower() == mac.lower():
                    return entry.name
        return None

    def is_configured(self, link: str, address: str) -> bool:
        """Whether it is up with its address and a rule for it."""
        shown = run(["ip", "-4", "-o", "address", "show", "dev", link, "up"], _LIMIT_S)
        if not shown.well or f" {address}/" not in shown.output:
            return False
        rules = run(["ip", "-4", "rule", "show"], _LIMIT_S)
        return rules.well and any(f"from {address} " in f"{line} " for line in rules.output.splitlines())

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up. Raises ClaimError."""
        if tool(OWN_TOOL) is not None and self._comes_up(link, address, _OWN_TOOL_S):
            return
        subnet = ipaddress.IPv4Network(self._metadata.subnet(mac))
        # VPC User Guide, subnet CIDR blocks: the router of a subnet has its second address.
        gateway = str(subnet[1])
        if networkd_runs():
            text = network_file(mac, address, subnet, gateway, self._mtu(link))
            write(self._networkd / NETWORK_FILE, text)
            run(["networkctl", "reload"], _LIMIT_S)
            # From 246 on that is all: to ask for more would take the address away again for a moment.
            if self._comes_up(link, address, _RELOADED_S):
                return
            run(["networkctl", "reconfigure", link], _LIMIT_S)
            if self._comes_up(link, address, _NETWORKD_S):
                return
        if tool("nmcli") is not None:
            # Else it asks for an address by DHCP, and adds the route that must not be there.
            run(["nmcli", "device", "set", link, "managed", "no"], _LIMIT_S)
        self._ip("link", "set", "dev", link, "mtu", str(self._mtu(link)), "up")
        self._ip("-4", "address", "replace", f"{address}/32", "dev", link)
        self._ip("route", "replace", str(subnet), "dev", link, "src", address, "table", TABLE)
        self._ip("route", "replace", "default", "via", gateway, "dev", link, "src", address, "table", TABLE)
        self._ip("-4", "rule", "add", "from", address, "lookup", TABLE, "priority", TABLE, known="exists")

    def _comes_up(self, link: str, address: str, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not (up := self.is_configured(link, address)) and time.monotonic() < deadline:
            time.sleep(1.0)
        return up

    def _mtu(self, link: str) -> int:
        """As large as that of the first interface, which its system has set."""
        found = [_number(entry / "mtu") for entry in self._links.glob("*") if entry.name not in ("lo", link)]
        return min(max(found, default=1500), _LARGEST_MTU)

    def _ip(self, *words: str, known: str = "") -> None:
        ended: Ended = run(["ip", *words], _LIMIT_S)
        if not ended.well and not (known and known in ended.output):
            raise ClaimError(
                Trouble(str(ended), "mend what it says; then systemctl restart gridwright-claim")
            )


def networkd_runs() -> bool:
    """Whether systemd-networkd sees to the interfaces of this machine."""
    if tool("networkctl") is None:
        return False
    return run(["systemctl", "is-active", "--quiet", "systemd-networkd.service"], _LIMIT_S).well


def network_file(mac: str, address: str, subnet: ipaddress.IPv4Network, gateway: str, mtu: int) -> str:
    """What systemd-networkd is told of the interface (systemd.network(5)): the same as `ip` would be."""
    return f"""\
# Written by gridwright node claim at each start. Changes here are lost.
[Match]
MACAddress={mac.lower()}

[Link]
MTUBytes={mtu}
RequiredForOnline=no

[Network]
Address={address}/32
LinkLocalAddressing=no
IPv6AcceptRA=no

[Route]
Destination={subnet}
Scope=link
PreferredSource={address}
Table={TABLE}

[Route]
Gateway={gateway}
GatewayOnLink=yes
PreferredSource={address}
Table={TABLE}

[RoutingPolicyRule]
From={address}
Table={TABLE}
Priority={TABLE}
"""


def _number(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return 0
