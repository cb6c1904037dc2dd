"""Labs of the tests' own, and what a lab must not change about this machine."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gridwright.commands import CommandOutput
from gridwright.providers.lab.record import LABS, read
from gridwright.providers.lab.services import Node, node_of
from tests.support.command import Command, Ended
from tests.support.disks import run

NODES_ONLY = """\
name: {name}
provider: lab
nodes:
  compute: {{count: {count}, cores: 2, memory: 1 GiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: ssh}}
lab: {{network: {network}}}
"""
"""A lab without Slurm and without a distributed file system: up within a second or two."""


LIMIT_S = 270.0


class Lab:
    """A lab that a test made, and the commands on it."""

    def __init__(self, command: Command, spec: Path, name: str) -> None:
        self.command = command
        self.spec = spec
        self.name = name

    @property
    def record(self) -> Path:
        return LABS / self.name / "lab.json"

    def up(self) -> Ended:
        return self.command("up", self.spec)

    def down(self) -> Ended:
        return self.command("down", self.spec)

    def status(self) -> Ended:
        return self.command("status", self.spec, "--json")

    def run(self, node: str, *words: str) -> Ended:
        """Run a command on a node, as `exec` does, which starts Python for it and reads the spec."""
        record = read(self.name)
        assert record is not None, f"there is no lab {self.name}"
        there = node_of(record, node)
        # In files: what it leaves running may keep them open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run(
                there.argv(words), stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=LIMIT_S,
                cwd="/", preexec_fn=there.groups.join, check=False,
            )  # fmt: skip
            printed = [_whole(file) for file in (out, err)]
        return Ended(done.returncode, *printed)

    def exec(self, node: str, *words: str, **options: str) -> Ended:
        """Run a command on a node with the command that users have for it."""
        return self.command("lab", "exec", "--grid", self.spec, node, "--", *words, environment=options)

    def fault(self, what: str, node: str, *options: str) -> Ended:
        return self.command("lab", what, *options, "--grid", self.spec, node)


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def nodes_only(command: Command, directory: Path, name: str, network: str, *, count: int = 2) -> Lab:
    """A lab that is not up yet."""
    spec = directory / f"{name}.yaml"
    spec.write_text(NODES_ONLY.format(name=name, network=network, count=count))
    return Lab(command, spec, name)


@contextmanager
def up(lab: Lab) -> Iterator[Lab]:
    """Have it up, and take it down whatever happens."""
    ended = lab.up()
    try:
        assert ended.status == 0, ended.err
        yield lab
    finally:
        down = lab.down()
        assert down.status == 0, down.err


def printed(answer: CommandOutput) -> str:
    """What a command printed that has to succeed."""
    assert answer.status == 0, answer.stderr.decode(errors="replace")
    return answer.stdout.decode()


def on(node: Node, *command: str, seconds: float = 30.0) -> str:
    """What a command prints on a node."""
    return printed(node.run(command, timeout_s=seconds))


def machine() -> dict[str, object]:
    """What a lab must leave as it is: interfaces, routes, rules and mounts of this machine."""
    interfaces = [line.split(":")[1].strip() for line in run("ip", "-o", "link").splitlines()]
    return {
        "interfaces": sorted(interfaces),
        "addresses": run("ip", "-o", "-4", "address"),
        "routes": run("ip", "route", "show", "table", "all"),
        "rules": run("ip", "rule"),
        "mounts": sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "host name": run("uname", "-n"),
    }


def traces(lab: Lab) -> list[str]:
    """What is there of a lab on this machine: directories, control groups, and processes in them."""
    found = [str(path) for path in LABS.glob(f"{lab.name}*")] if LABS.exists() else []
    groups = subprocess.run(
        ["find", "/sys/fs/cgroup", "-name", f"gridwright-{lab.name}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found + groups.stdout.split()
