"""A lab that stands for bought nodes: a private network behind one machine that ssh reaches.

Its nodes have a Python of their own, and nothing of this machine's. Beyond them everything is real: ssh, its
keys, Slurm, file systems. AWS is moto's, and has nothing but the address of the machine in front.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gridwright.providers.lab.image import python_directories
from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.command import Command, Ended
from tests.support.lab import Lab

FRONT = "198.51.100.7"
"""Address of the machine in front (TEST-NET-2, RFC 5737): nobody else has it."""
LAB = """\
name: {name}
provider: lab
lab: {{network: {network}, bandwidth: 20 MB/s}}
nodes:
  compute: {{count: 3, cores: 2, memory: 1 GiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: slurm}}
"""
GRID = """\
name: {name}
provider: aws
region: us-east-1
aws: {{zone: us-east-1a, ssh_from: [203.0.113.0/24]}}
nodes: {{compute: {{instance: m6i.large, count: 3}}}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {libraries}
scheduler: {{type: slurm}}
silence: {{unusual-requirement: all nodes of a lab share one disk}}
"""
ONE = "{data: {requires: 0.01 MB/s/core}}"
ALL = "{data: {requires: 0.01 MB/s/core}, work: {}, util: {}}"
ENVIRONMENT = "/mnt/grid/.gridwright/python"
"""Where an administrator puts the packages that the workload needs."""
_PACKAGES = "/srv/site-packages"
_CONFIG = """\
Host {front}
    ProxyCommand nsenter -t {pid} -n {python} {bridge}
Host *
    User root
    IdentityFile {key}
    IdentitiesOnly yes
    UserKnownHostsFile {known}
    LogLevel ERROR
"""
_BRIDGE = '''\
"""Connects its streams with sshd, in the network namespace that it is started in."""
import os, select, socket, sys
link = socket.create_connection(("127.0.0.1", 22))
while True:
    ready, _, _ = select.select([0, link], [], [])
    if 0 in ready:
        data = os.read(0, 65536)
        if not data:
            sys.exit()
        link.sendall(data)
    if link in ready:
        data = link.recv(65536)
        if not data:
            sys.exit()
        while data:
            data = data[os.write(1, data):]
'''
_SSH = """\
#!/bin/sh
exec /usr/bin/ssh -F {config} "$@"
"""


@dataclass(frozen=True)
class BoughtGrid:
    """The grid, and the commands on it from outside."""

    lab: Lab
    spec: Path
    whole: Path
    """The same grid, with all three libraries."""
    environment: dict[str, str]
    front: Path
    """Configuration of ssh; without it nobody reaches the machine in front."""

    def __call__(self, verb: str, *arguments: str | Path, seconds: float = 150.0) -> Ended:
        return self.lab.command(verb, *arguments, environment=self.environment, seconds=seconds)

    def add_engines(self) -> None:
        """What `pip install gridwright[workload]` would do there."""
        venv = f"python3 -m venv --without-pip {ENVIRONMENT} && echo {_PACKAGES} > "
        packages = f"{ENVIRONMENT}/lib/python3.*/site-packages/"
        made = self.lab.run("controller", "sh", "-ec", f"{venv} $(echo {packages})packages.pth")
        assert made.status == 0, made.err

    def parts(self, node: str) -> str:
        """What a node has of Gridwright, with the times it was made."""
        return self.lab.run(node, "sh", "-c", "stat -c '%n %W' /root/.cache/gridwright/*").out


@contextmanager
def bought(lab: Lab, place: Path) -> Iterator[BoughtGrid]:
    """Make a lab one that stands for bought nodes, for a grid of provider aws with the lab's name."""
    controller = json.loads(lab.record.read_text())["nodes"][0]
    assert controller["plan"]["name"] == "controller"
    names = [each["plan"]["name"] for each in json.loads(lab.record.read_text())["nodes"]]
    key = place / "key"
    key.write_text(lab.run("controller", "cat", "/root/.ssh/id_ed25519").out)
    key.chmod(0o600)
    for name in names:
        _show_packages(lab, name)
        _take_python_away(lab, name)
    (place / "bridge.py").write_text(_BRIDGE)
    config = place / "ssh_config"
    config.write_text(
        _CONFIG.format(
            front=FRONT,
            pid=controller["process"][0],
            python=sys.executable,
            bridge=place / "bridge.py",
            key=key,
            known=place / "known_hosts",
        )
    )
    program = place / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(_SSH.format(config=config))
    program.chmod(0o755)
    spec, whole = place / "bought.yaml", place / "whole.yaml"
    spec.write_text(GRID.format(name=lab.name, libraries=ONE))
    whole.write_text(GRID.format(name=lab.name, libraries=ALL))
    with aws_cloud() as cloud:
        _tell_front(cloud, lab.name)
        path = f"{program.parent}:{os.environ['PATH']}"
        own = {"PATH": path, "XDG_STATE_HOME": str(place / "state")}
        yield BoughtGrid(lab, spec, whole, {**cloud.environment, **own}, config)


def _take_python_away(lab: Lab, node: str) -> None:
    """A lab's node has the Python of this machine, to run the same program; a bought node has not."""
    for directory in python_directories():
        lab.run(node, "umount", "--lazy", str(directory))
    gone = lab.run(node, "test", "-e", sys.executable)
    assert gone.status == 1, f"{node} still has {sys.executable}"


def _show_packages(lab: Lab, node: str) -> None:
    """Packages of this machine at another path, as if they were installed on the node."""
    packages = sysconfig.get_path("purelib")
    mount = (
        f"mkdir -p {_PACKAGES} && mount --bind {packages} {_PACKAGES} && mount -o remount,bind,ro {_PACKAGES}"
    )
    shown = lab.run(node, "sh", "-ec", mount)
    assert shown.status == 0, shown.err


def _tell_front(cloud: AwsCloud, grid: str) -> None:
    """The stack of the grid, as far as a head node is looked up in it."""
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"LoginPublicAddress": {"Value": FRONT}},
    }
    cloud.client("cloudformation").create_stack(
        StackName=f"gridwright-{grid}", TemplateBody=json.dumps(template)
    )


def lab_of(place: Path, name: str, network: str) -> Lab:
    """The lab, which is not up yet."""
    spec = place / f"{name}-lab.yaml"
    spec.write_text(LAB.format(name=name, network=network))
    return Lab(Command(place), spec, name)
