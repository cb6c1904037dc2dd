"""A server of a pair: systemd, udev and open-iscsi, and our own program that gives it its volumes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gridwright.node_programs.one_file import SCRATCH
from gridwright.providers.oci.files import VOLUMES
from tests.vm.iscsi_target import IscsiTarget
from tests.vm.machine import Answer, MachineError
from tests.vm.uml import Uml

PROGRAM = "/usr/local/lib/gridwright/volumes.pyz"
CONFIGURATION = "/etc/gridwright/volumes.json"
DAEMON = "gpfs.service"
"""What serves volumes. Here it only notes, when it starts, which of them it finds."""
RUN_S = 120.0
"""The program takes seconds on an idle machine."""
_NOTE = """[Unit]
Description=Stands for the daemon of a file system
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-/bin/sh -c 'ls /dev/oracleoci > /run/found-by-daemon'
[Install]
WantedBy=multi-user.target
"""
_SET_UP = f"""set -e
install -D -m 755 /vm/volumes.pyz {PROGRAM}
install -D -m 644 /vm/{VOLUMES.unit} /etc/systemd/system/{VOLUMES.unit}
install -D -m 644 /vm/{DAEMON} /etc/systemd/system/{DAEMON}
# Machines of one image have one name as initiators, which a target takes for one machine.
echo InitiatorName=$NAME > /etc/iscsi/initiatorname.iscsi
systemctl --quiet enable {VOLUMES.unit} {DAEMON}
"""
_WHY = "systemctl --failed --plain --no-legend; journalctl --boot --no-pager | tail -40"


@dataclass(frozen=True)
class IscsiServer:
    """One of the pair."""

    initiator: str
    """What the target knows it by."""
    machine: Uml
    devices: dict[str, str]
    """Device of each volume."""

    def wait(self) -> None:
        """Until systemd has started all. Raises MachineError for units that failed or stood in a circle."""
        up = self.machine.run("systemctl is-system-running --wait", timeout_s=RUN_S)
        circle = self.machine.run("journalctl --boot --no-pager | grep 'ordering cycle'")
        if up.stdout.strip() != "running" or circle.stdout:
            raise MachineError(f"{up.stdout}{up.stderr}{self.machine.run(_WHY).stdout}")

    def boot_first(self) -> None:
        """Start it with what the role shared_volumes installs; it has no volumes to look for yet."""
        share = self.machine.share
        (share / "volumes.pyz").write_bytes(VOLUMES.archive())
        (share / VOLUMES.unit).write_text(VOLUMES.unit_text())
        (share / DAEMON).write_text(_NOTE)
        self.machine.before_systemd = f"NAME={self.initiator}\n{_SET_UP}"
        self.machine.boot()
        self.machine.before_systemd = ""

    def configure(self, target: IscsiTarget, *names: str, wait_seconds: int = 60) -> None:
        """Say which volumes it has."""
        document = {
            "schema": 1,
            "volumes": [{"name": name, "device": self.devices[name]} for name in names],
            "attachments": [target.attachment(name, self.devices[name]) for name in names],
            "wait_seconds": wait_seconds,
        }
        (self.machine.share / "volumes.json").write_text(json.dumps(document))
        self.machine.run(f"install -D -m 644 /vm/volumes.json {CONFIGURATION}").ok()

    def volumes(self, *flags: str) -> Answer:
        """Run the program."""
        return self.machine.run(f"python3 {PROGRAM} --json {' '.join(flags)}", timeout_s=RUN_S)

    def joined(self) -> list[str]:
        """What it did to have its volumes. Raises MachineError where it failed."""
        steps: list[str] = json.loads(self.volumes().ok())["steps"]
        return steps

    def disk(self, name: str) -> dict[str, str]:
        """What udev knows of the disk that a volume's name leads to."""
        shown = self.machine.run(f"udevadm info --query=property --name={self.devices[name]}").ok()
        return dict(line.split("=", 1) for line in shown.splitlines())

    def write(self, name: str, letter: str, block: int) -> None:
        """A block of this letter, past every cache."""
        to = f"dd of={self.devices[name]} bs=4096 count=1 seek={block} oflag=direct conv=notrunc status=none"
        self.machine.run(f"head -c 4096 /dev/zero | tr '\\0' {letter} | {to} iflag=fullblock").ok()

    def reading(self, name: str, block: int) -> str:
        """The command that prints which letters a block has, past every cache."""
        source = f"dd if={self.devices[name]} bs=4096 count=1 skip={block} iflag=direct status=none"
        return f"{source} | tr -s '\\0-\\377'"

    def read(self, name: str, block: int) -> str:
        """Those letters."""
        return self.machine.run(self.reading(name, block)).ok()

    def scratch_standings(self, wanted: dict[str, Any]) -> dict[str, str]:
        """How the program of scratch storage, which formats disks, looks at each of them, by its path."""
        (self.machine.share / "scratch.pyz").write_bytes(SCRATCH.archive())
        (self.machine.share / "scratch.json").write_text(json.dumps(wanted))
        run = "python3 /vm/scratch.pyz --config /vm/scratch.json --json"
        seen = json.loads(self.machine.run(run, timeout_s=RUN_S).stdout)
        return {disk["path"]: disk["standing"] for disk in seen["disks"]}
