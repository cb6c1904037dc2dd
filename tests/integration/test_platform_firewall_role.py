"""Role platform_firewall run by Ansible: the kernel's own packet filter, and machines that knock."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.role_play import play
from tests.support.skips import needs, root_only

pytestmark = [root_only, pytest.mark.thorough]

ROLE = Path(__file__).parents[2] / "src/gridwright/providers/oci/roles/platform_firewall"
NETWORKS = ["10.60.0.0/20", "10.60.16.0/20"]
OF_THE_GRID, STRANGER = "10.60.1.2", "203.0.113.2"
SSH, DAEMON = 22, 1191
IMAGE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:InstanceServices - [0:0]
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p udp -m udp --sport 123 -j ACCEPT
-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j REJECT --reject-with icmp-host-prohibited
-A OUTPUT -d 169.254.0.0/16 -j InstanceServices
-A InstanceServices -d 169.254.2.0/24 -p tcp -m owner --uid-owner 0 -m tcp --dport 3260 -j ACCEPT
-A InstanceServices -d 169.254.0.0/16 -p tcp -m tcp -j REJECT --reject-with tcp-reset
COMMIT
"""
"""Rules of the form that Oracle's images of Ubuntu have in /etc/iptables/rules.v4."""
_HOLD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo up; exec sleep infinity")
_LISTEN = """
import socket, sys
listeners = [socket.create_server(("0.0.0.0", int(port)), backlog=64) for port in sys.argv[1:]]
print("up", flush=True)
sys.stdin.read()
"""
_KNOCK = """
import socket, sys
try:
    to = sys.argv[2], int(sys.argv[3])
    socket.create_connection(to, timeout=10, source_address=(sys.argv[1], 0)).close()
    print("let in")
except OSError as error:
    print(error.strerror or error)
"""
_REFUSED = "No route to host"
"""What a kernel says of icmp-host-prohibited."""


@dataclass
class Machine:
    """A network name space with a packet filter, and another one that knocks at it."""

    directory: Path
    enter: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def rules(self) -> Path:
        """What is loaded at each start."""
        return self.directory / "rules.v4"

    def start(self, text: str) -> None:
        """As netfilter-persistent does at each start of such an image."""
        self.rules.write_text(text)
        self.load()

    def load(self) -> None:
        self.run("iptables-restore", str(self.rules))

    def run(self, *argv: str) -> str:
        return ran(*self.enter, *argv)

    def filter(self) -> list[str]:
        """All rules as the kernel has them, without counters."""
        return self.run("iptables", "--wait", "30", "--list-rules").splitlines()

    def knock(self, address: str, port: int) -> str:
        """How a connection from this address ended."""
        return ran(*self.outside, sys.executable, "-c", _KNOCK, address, "10.60.1.1", str(port)).strip()

    def play(self, **more: object) -> str:
        """What Ansible printed."""
        shutil.copytree(ROLE, self.directory / "roles/platform_firewall", dirs_exist_ok=True)
        variables = {
            "gridwright_trusted_networks": NETWORKS, "platform_firewall_rules": str(self.rules), **more,
        }  # fmt: skip
        tasks = [{"ansible.builtin.include_role": {"name": "platform_firewall"}}]
        return play(self.directory, tasks, variables, world=self.enter)


def ran(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    needs("iptables", "iptables-restore", "ip", "nsenter")
    started: list[subprocess.Popen[str]] = []

    def begin(*argv: str) -> int:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process.pid

    inside, outside = begin(*_HOLD), begin(*_HOLD)
    enter, leave = (("nsenter", f"--net=/proc/{pid}/ns/net") for pid in (inside, outside))
    ran(*enter, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(outside))
    for side, number in ((enter, 1), (leave, 2)):
        for network, length in (("10.60.1", 20), ("203.0.113", 24)):
            ran(*side, "ip", "address", "add", f"{network}.{number}/{length}", "dev", "eth0")
        ran(*side, "ip", "link", "set", "eth0", "up")
    # Strangers come from afar: the machine's one address is in the grid's network.
    ran(*leave, "ip", "address", "flush", "dev", "eth0", "to", "203.0.113.2")
    ran(*leave, "ip", "address", "add", f"{STRANGER}/32", "dev", "eth0")
    begin(*enter, sys.executable, "-c", _LISTEN, str(SSH), str(DAEMON))
    yield Machine(tmp_path, enter, leave)
    for each in started:
        each.kill()
        each.communicate()


def changed(printed: str) -> int:
    found = re.search(r"changed=(\d+) +unreachable=0 +failed=0", printed)
    assert found, printed
    return int(found[1])


def test_the_grid_comes_through_now_and_after_a_restart_and_nobody_else(machine: Machine) -> None:
    machine.start(IMAGE)
    before = machine.filter()
    assert machine.knock(OF_THE_GRID, DAEMON) == _REFUSED
    assert machine.knock(OF_THE_GRID, SSH) == "let in"

    assert changed(machine.play()) == 2
    rules = machine.filter()
    let_in = {f"-A INPUT -s {network} -j ACCEPT" for network in NETWORKS}
    assert set([each for each in rules if each.startswith("-A INPUT")][:2]) == let_in
    assert [each for each in rules if each not in let_in] == before
    assert machine.knock(OF_THE_GRID, DAEMON) == "let in"
    assert machine.knock(STRANGER, DAEMON) == _REFUSED
    assert machine.knock(STRANGER, SSH) == "let in"

    text = machine.rules.read_text()
    assert changed(machine.play()) == 0
    assert (machine.filter(), machine.rules.read_text()) == (rules, text)

    machine.load()
    assert machine.filter() == rules
    assert machine.knock(OF_THE_GRID, DAEMON) == "let in"
    assert machine.knock(STRANGER, DAEMON) == _REFUSED


def test_rules_that_refuse_by_policy_alone_are_loaded_again(machine: Machine) -> None:
    """A rule in another table than the filter's, or behind its end, would let nobody in or stop the load."""
    mangle = "*mangle\n:INPUT ACCEPT [0:0]\n-A INPUT -p icmp -j ACCEPT\nCOMMIT\n"
    machine.start(f"{mangle}*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n")
    assert changed(machine.play()) == 2
    rules = machine.filter()
    assert machine.knock(OF_THE_GRID, DAEMON) == "let in"
    machine.load()
    assert machine.filter() == rules
    assert machine.knock(OF_THE_GRID, DAEMON) == "let in"


def test_an_image_without_a_filter_of_its_own_is_left_alone(machine: Machine) -> None:
    before = machine.filter()
    assert changed(machine.play()) == 0
    assert machine.filter() == before
    assert not machine.rules.exists()
    machine.start(text := "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n")
    assert "failed=0" in machine.play()
    assert machine.rules.read_text() == text
