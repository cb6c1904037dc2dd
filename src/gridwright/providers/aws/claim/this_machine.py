"""The machine of a claim: this one. Every command has a limit of time."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import Any

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.tools import LustreTools
from gridwright.node_programs.lustre_targets.writing import write
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Configuration
from gridwright.providers.aws.claim.instance_metadata import Metadata
from gridwright.providers.aws.claim.machine import Identity
from gridwright.providers.aws.claim.network import Network

_AGAIN = "then start again: systemctl restart gridwright-claim"


class ThisMachine(LustreTools):
    """See `machine.Machine`."""

    def __init__(self, configuration: Configuration, metadata: Metadata | None = None) -> None:
        self._at = configuration.directories
        self.mounts, self.modprobe = self._at.mounts, self._at.modprobe
        self._metadata = metadata or Metadata()
        self._network = Network(configuration.directories, self._metadata)
        region = self._metadata.region()
        if region != configuration.region:
            raise ClaimError(
                Trouble(
                    f"this instance runs in {region}, "
                    f"and grid {configuration.grid} is in {configuration.region}",
                    "a claim file belongs to the machines of its grid; nothing was claimed",
                )
            )

    def instance(self) -> str:
        """The ID of this instance."""
        return self._metadata.instance()

    def identity(self) -> Identity | None:
        """What it has been named since it started; None before."""
        path = self._at.run / "node.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return Identity(str(data["name"]), str(data["address"]), int(data["token"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"{path} is not what a claim writes there: {error}"
            raise ClaimError(Trouble(what, f"remove it; {_AGAIN}")) from None

    def name(self, identity: Identity) -> None:
        """Remember who it is until it is switched off."""
        document = {
            "schema": 1,
            "name": identity.name,
            "address": identity.address,
            "token": identity.token,
        }
        write(self._at.run / "node.json", json.dumps(document) + "\n")

    def link(self, mac: str) -> str | None:
        """The name of a network interface."""
        return self._network.link(mac)

    def is_configured(self, link: str, address: str) -> bool:
        """Whether the interface is up as configured."""
        return self._network.is_configured(link, address)

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up with its address, and route by source."""
        self._network.configure(link, mac, address)

    def path(self, volume: str, name: str) -> str | None:
        """By what the disk itself says it is: names such as nvme1n1 change from start to start."""
        serial = volume.replace("-", "")
        nitro = False
        for entry in sorted((self._at.sys / "block").glob("nvme*")):
            with contextlib.suppress(OSError):
                found = (entry / "device/serial").read_text(encoding="ascii", errors="replace").strip()
                nitro = nitro or found.startswith("vol")
                if found == serial:
                    return str(self._at.dev / entry.name)
        linked = self._at.dev / f"disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}"
        if linked.exists():
            return str(linked.resolve())
        # Machines of the Xen generation have no serials; the name that EC2 was given is the disk's there.
        letters = name.rsplit("/", 1)[-1]
        for each in (letters, re.sub("^sd", "xvd", letters)):
            if not nitro and (self._at.sys / "block" / each).exists():
                return str(self._at.dev / each)
        return None

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()


def plain(identity: Identity | None) -> dict[str, Any]:
    """For the JSON document."""
    if identity is None:
        return {"name": None, "address": None, "token": None}
    return {"name": identity.name, "address": identity.address, "token": identity.token}
