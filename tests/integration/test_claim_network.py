"""The second interface with the real systemd-networkd, in a network name space: it is always there again."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path

import pytest

from gridwright.providers.aws.claim.this_machine import NETWORK_FILE, network_file
from tests.support.skips import needs

pytestmark = pytest.mark.root

MAC, ADDRESS = "02:00:00:00:00:11", "10.20.64.11"
NETPLANS = f"""\
[Match]
MACAddress={MAC}
[Network]
Address={ADDRESS}/24
[Route]
Gateway=10.20.64.1
Table=101
[RoutingPolicyRule]
From={ADDRESS}
Table=101
Priority=500
"""
"""What cloud-init has netplan write of a second interface, but for its address: there is no DHCP here."""
WORLD = """\
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
# As in a container: networkd does not wait for udev then.
mount --rbind /sys /sys
mount -o remount,ro,bind /sys
mkdir -p /run/systemd/network
cp "$1"/*.network /run/systemd/network/
ip link add eth1 type veth peer name peer1
ip link set eth1 address 02:00:00:00:00:11
ip link set peer1 up
for round in 1 2; do
    /lib/systemd/systemd-networkd >/dev/null 2>&1 &
    networkd=$!
    for try in $(seq 200); do
        ip -4 rule | grep -q "from 10.20.64.11 " && ip -4 route show table "$2" | grep -q default && break
        sleep 0.1
    done
    kill $networkd
    wait $networkd || true
    echo "round $round"
    ip -4 rule
    ip -4 -o address show dev eth1
    ip -4 route show table 7001 2>/dev/null || true
    # Whatever may take them away, an upgrade or an administrator.
    ip -4 rule delete from 10.20.64.11
    ip -4 address flush dev eth1
done
"""


def world(directory: Path, table: int) -> list[str]:
    """What interface, rules and table 7001 are like after networkd started, and after it started anew."""
    needs("unshare", "ip", "/lib/systemd/systemd-networkd")
    argv = ["unshare", "--net", "--mount", "sh", "-c", WORLD, "world", str(directory), str(table)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    _, first, second = done.stdout.replace("round 2", "round 1").split("round 1")
    return [first, second]


def test_it_is_there_again_whenever_networkd_starts_and_netplan_has_no_say(tmp_path: Path) -> None:
    subnet = ipaddress.IPv4Network("10.20.64.0/24")
    (tmp_path / NETWORK_FILE).write_text(network_file(MAC, ADDRESS, subnet, "10.20.64.1", 1500))
    (tmp_path / "10-netplan-eth1.network").write_text(NETPLANS)
    for seen in world(tmp_path, 7001):
        assert f"7001:\tfrom {ADDRESS} lookup 7001" in seen
        assert f"inet {ADDRESS}/32" in seen
        assert f"default via 10.20.64.1 dev eth1 proto static src {ADDRESS} onlink" in seen
        assert f"10.20.64.0/24 dev eth1 proto static scope link src {ADDRESS}" in seen
        assert "lookup 101" not in seen
        assert f"{ADDRESS}/24" not in seen


def test_without_our_file_netplan_would_have_it(tmp_path: Path) -> None:
    (tmp_path / "10-netplan-eth1.network").write_text(NETPLANS)
    for seen in world(tmp_path, 101):
        assert "lookup 101" in seen
        assert "7001" not in seen
