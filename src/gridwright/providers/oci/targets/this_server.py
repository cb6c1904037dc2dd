"""The machine itself, as a server of Lustre. Every command has a limit of time."""

from __future__ import annotations

import json
import os
import time

from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.lustre_targets.tools import LustreTools
from gridwright.node_programs.scratch.commands import run
from gridwright.providers.oci.targets.configuration import TargetsConfiguration
from gridwright.providers.oci.targets.deciding import AGAIN

_LOOK_S = 30.0


class ThisServer(LustreTools):
    """See `deciding.SeenServer`."""

    options_file = "61-gridwright-targets.conf"
    writer = "gridwright-targets"
    again = AGAIN

    def __init__(self, configuration: TargetsConfiguration) -> None:
        self.mounts = configuration.directories.mounts
        self.modprobe = configuration.directories.modprobe

    def link(self, address: str) -> str | None:
        """The network interface that has an address (ip-address(8), JSON output)."""
        ended = run(["ip", "-json", "-4", "address", "show", "to", f"{address}/32"], _LOOK_S)
        try:
            found = json.loads(ended.output) if ended.well else []
            names = [str(each["ifname"]) for each in found if each]
        except (ValueError, KeyError, TypeError):
            return None
        return names[0] if names else None

    def mounted(self, target: DesiredTarget) -> str | None:
        """The disk that is mounted there, whatever name it was mounted by."""
        there = super().mounted(target)
        return None if there is None else os.path.realpath(there)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()
