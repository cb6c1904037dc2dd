"""A machine of a grid that boots in a cloud of the test: its root file system, metadata service and place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.providers.aws.layout import Role
from tests.support.aws_faults import Call
from tests.support.command import wait_until
from tests.vm.boot_cloud import TRUST, BootCloud
from tests.vm.boot_network import HEAD_MAC, NODE_MAC
from tests.vm.container import Container

BOOT_S = 240.0
"""A boot takes half a minute of an idle core, and packages half a minute more."""
DIVERSIONS = "var/lib/dpkg/diversions"
LOG = "/var/log/gridwright-boot.log"
STATE = "/var/lib/gridwright/boot-state.json"
_NFS = '#!/bin/sh\n# This kernel has no NFS.\nexec mount -i -t tmpfs "$1" "$2"\n'
_PLACES = {Role.HEAD: (HEAD_MAC, "10.20.128.10"), Role.COMPUTE: (NODE_MAC, "10.20.128.200")}


@dataclass
class BootMachine:
    """One instance; what EC2 does when it attaches an interface is done here."""

    cloud: BootCloud
    role: Role
    root: Path
    directory: Path
    interfaces: int = 1
    plugged: dict[str, str] = field(default_factory=dict)
    """Name by address of its hardware of each interface that was attached."""

    def __post_init__(self) -> None:
        """Switched off yet."""
        mac, address = _PLACES[self.role]
        self.metadata = self.cloud.metadata(self.role, mac, address)
        self.container = Container(self.root, self.directory, self.cloud.network.enter, mac)
        self.container.put(TRUST, (self.root / TRUST).read_text() + self.cloud.trusted)
        self.container.put("usr/sbin/mount.nfs", _NFS, 0o755)
        # Its package, where that is installed yet, must not put its own in that place.
        diverted = (self.root / DIVERSIONS).read_text() + "/sbin/mount.nfs\n/sbin/mount.nfs.diverted\n:\n"
        self.container.put(DIVERSIONS, diverted)
        self.cloud.faults.watching.append(self._see)

    @property
    def told(self) -> dict[str, str]:
        """What it told last of its set-up."""
        return self.cloud.told_of(self.metadata.instance)

    def _see(self, call: Call) -> None:
        if call.action != "ec2:AttachNetworkInterface":
            return
        if call.parameters["InstanceId"] != self.metadata.instance:
            return
        wanted = call.parameters["NetworkInterfaceId"]
        described = self.cloud.attached(self.cloud.slots[wanted])
        self.metadata.macs[described["mac"]] = described
        self.plugged[described["mac"]] = f"eth{len(self.plugged) + 1}"
        self.plug()

    def plug(self) -> None:
        """Have the kernel find what is attached."""
        for mac, name in self.plugged.items():
            self.cloud.network.plug(name, mac, self.container.first)

    def boot(self) -> None:
        """Start it with all interfaces that are attached."""
        self.container.boot()
        self.plug()

    def reboot(self) -> None:
        """Stop it in order, and start it."""
        self.container.shut_down()
        self.boot()

    def log(self) -> str:
        """What its set-up wrote."""
        return self.container.run(f"cat {LOG}").stdout

    def wait_for(self, state: str, *, after: str = "", tries: int | None = None) -> dict[str, str]:
        """What it told, once that is of this state, and of a later moment than what was told before."""

        def told() -> dict[str, str] | None:
            found = self.told
            well = found.get("state") == state and found.get("at", "") > after
            if found.get("state") == "failed" and state == "done" and found["at"] > after:
                raise AssertionError(f"{found['reason']}\n{self._last()}")
            return found if well and tries in (None, int(found["tries"])) else None

        return wait_until(
            told,
            seconds=BOOT_S,
            what=f"a machine that tells {state}",
            last=lambda: (self.told, self._last()),
        )

    def wait_for_log(self, number: int) -> list[str]:
        """The logs of its starts, once there are so many: a try ends with that."""
        return wait_until(
            lambda: found if len(found := self.cloud.logs()) >= number else None,
            seconds=60,
            what=f"{number} logs in the bucket",
            last=self._last,
        )

    def _last(self) -> str:
        return self.container.run(f"tail -n 30 {LOG}; systemctl --failed --no-pager").stdout

    def age(self) -> None:
        """Let so much time go by that what failed is tried again."""
        asked = "systemctl is-active gridwright-boot.service"
        # What it told comes before its end, which writes the state.
        wait_until(
            lambda: self.container.run(asked).stdout.strip() in ("inactive", "failed") or None,
            seconds=60,
            what="the end of a try",
            last=self._last,
        )
        state = json.loads(self.container.run(f"cat {STATE}").ok())
        text = json.dumps({**state, "at": state["at"] - 7200})
        self.container.run(f"echo '{text}' > {STATE}").ok()

    def remove(self) -> None:
        """End it."""
        self.container.remove()
