"""ssh in a lab: every node reaches every node as root, with keys that belong to the lab alone."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from gridwright.providers.lab.service import RunningLab
from gridwright.services.daemon import call, make_directory, on_each, runs, start_daemon
from gridwright.services.service import ServiceNode

_SERVER = """\
# Of the lab: keys only, and no question that a lab without names of its own cannot answer.
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
MaxStartups 200:30:400
MaxSessions 200
"""
_CLIENT = """\
# Of the lab: its nodes have one host key, which ssh_known_hosts holds. Its network is this machine's memory,
# and the key exchange that ssh 9 prefers takes 60 ms of CPU time more for each connection.
Host *
    KexAlgorithms curve25519-sha256
    StrictHostKeyChecking yes
    UserKnownHostsFile /dev/null
    BatchMode yes
    LogLevel ERROR
    ConnectTimeout 5
"""
# What a server says first; ssh-keyscan would tell the same in 0.3 s.
_GREETING = 'exec 3<>/dev/tcp/127.0.0.1/22 && read -r -t 3 line <&3 && printf %s "$line"'


class Ssh:
    """sshd on every node."""

    name = "sshd"
    patience_s = 30.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Put the lab's keys on the nodes: one of the hosts, one of their root."""
        maker = lab.nodes[nodes[0]]
        host, user = (lab.secret(f"ssh-{kind}", lambda: _make_key(maker)) for kind in ("host", "user"))
        host_public = lab.secret("ssh-host.pub", lambda: _public(maker, host))
        user_public = lab.secret("ssh-user.pub", lambda: _public(maker, user))

        def put(node: ServiceNode) -> None:
            node.write("/etc/ssh/ssh_host_ed25519_key", host, mode=0o600)
            node.write("/etc/ssh/ssh_known_hosts", b"* " + host_public)
            node.write("/etc/ssh/sshd_config.d/gridwright.conf", _SERVER)
            node.write("/etc/ssh/ssh_config.d/gridwright.conf", _CLIENT)
            make_directory(node, "/root/.ssh", mode="0700")
            node.write("/root/.ssh/id_ed25519", user, mode=0o600)
            node.write("/root/.ssh/authorized_keys", user_public, mode=0o600)
            make_directory(node, "/run/sshd")
            node.write("/usr/local/bin/clush", _cluster_shell(), mode=0o755)

        on_each(lab, nodes, put)

    def start(self, lab: RunningLab, nodes: Sequence[str]) -> None:
        """Start sshd."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "sshd"):
                # Its log is a file of the node, as nothing collects what it says otherwise.
                start_daemon(node, ["/usr/sbin/sshd", "-E", "/var/log/sshd.log"])

        on_each(lab, nodes, start)

    def lacking(self, lab: RunningLab, node: str) -> str | None:
        """It answers on its port."""
        answer = lab.nodes[node].run(["bash", "-c", _GREETING], timeout_s=4.0)
        return None if answer.stdout.startswith(b"SSH-2.0") else "sshd does not answer"


def _make_key(node: ServiceNode) -> bytes:
    """A new key, made by the node's ssh-keygen, as this machine may have none."""
    directory = call(node, ["mktemp", "-d", "/run/key.XXXXXX"]).decode().strip()
    try:
        call(node, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", f"{directory}/key"])
        return node.read(f"{directory}/key")
    finally:
        node.run(["rm", "-rf", "--", directory])


def _public(node: ServiceNode, key: bytes) -> bytes:
    directory = call(node, ["mktemp", "-d", "/run/key.XXXXXX"]).decode().strip()
    try:
        node.write(f"{directory}/key", key, mode=0o600)
        return call(node, ["ssh-keygen", "-y", "-f", f"{directory}/key"])
    finally:
        node.run(["rm", "-rf", "--", directory])


def _cluster_shell() -> str:
    """`clush` of the Python that Gridwright runs with: nodes see it at the same path."""
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m ClusterShell.CLI.Clush "$@"\n'
