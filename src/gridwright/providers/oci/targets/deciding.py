"""Decides the next step towards targets that run. Nothing here changes anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from gridwright.node_programs.lustre_targets.judging import Act, DiskVerdict, DiskWords, SeenDisks, verdict
from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.oci.targets.configuration import TargetsConfiguration
from gridwright.providers.oci.targets.ledger import TargetLedger, state_of

AGAIN = "then start again: systemctl restart gridwright-targets"


class SeenServer(SeenDisks, Protocol):
    """What a decision asks of the machine."""

    def missing(self) -> tuple[str, ...]:
        """Programs that a server of Lustre needs and that are not there."""

    def nids(self) -> tuple[str, ...]:
        """Addresses of Lustre's network."""

    def link(self, address: str) -> str | None:
        """The network interface that has an address."""


@dataclass(frozen=True)
class NetworkStep:
    """Bring Lustre's network up."""

    link: str

    def __str__(self) -> str:
        return f"bring Lustre's network up on {self.link}"


@dataclass(frozen=True)
class TargetStep:
    """One thing that is done with one target."""

    target: DesiredTarget
    volume: str
    path: str
    verdict: DiskVerdict

    def __str__(self) -> str:
        name, act = self.target.name, self.verdict.act
        return {
            Act.NOTE_FORMATTING: f"write down: {self.path} is blank, and about to be formatted as {name}",
            Act.NOTE_FORMATTED: f"write down: {self.path} holds {name}",
            Act.FORMAT: f"format {self.path} as {name}",
            Act.MOUNT: f"mount {self.path} with {name} on {self.target.mount}",
        }.get(act, f"wait until {name} can be registered")


def next_of_server(
    configuration: TargetsConfiguration, seen: SeenServer, ledger: TargetLedger
) -> NetworkStep | TargetStep | None:
    """What is to be done next; None where all targets are mounted. Raises ClaimError."""
    if missing := seen.missing():
        raise ClaimError(
            Trouble(
                f"this machine cannot serve Lustre: {', '.join(missing)} is not installed",
                "install the packages of a Lustre server for the running kernel, or choose an image that has "
                "them: oci.server_image of the grid spec",
            )
        )
    volumes = _volumes(configuration, ledger)
    step = _network(configuration, seen)
    if step is not None:
        return step
    for target in configuration.targets:
        device = configuration.devices[target.name]
        path, volume = _path(configuration, device, target.name), volumes[device]
        found = verdict(
            seen,
            target,
            path,
            state_of(ledger, target.name, volume),
            configuration.mgs_of(target),
            _words(volume, device),
        )
        if found.act is not Act.NOTHING:
            return TargetStep(target, volume, path, found)
    return None


def _words(volume: str, device: str) -> DiskWords:
    return DiskWords(
        volume=f"volume {volume} at {device}",
        meant="attached",
        restore="if there is a backup of it, make a volume from that and attach it in its place",
        again=AGAIN,
        silent="look at its own targets there: systemctl status gridwright-targets",
    )


def _volumes(configuration: TargetsConfiguration, ledger: TargetLedger) -> dict[str, str]:
    """The volume at each device. Raises ClaimError with all that are missing."""
    found = ledger.volumes()
    lacking = [
        Trouble(
            f"no volume is attached to this machine as {device}, where {name} belongs",
            "apply the grid anew; what attaches volumes says more: systemctl status gridwright-volumes. "
            "Nothing was formatted",
        )
        for name, device in configuration.devices.items()
        if device not in found
    ]
    if lacking:
        raise ClaimError(*lacking)
    return found


def _path(configuration: TargetsConfiguration, device: str, target: str) -> str:
    """The disk that a name in /dev leads to now."""
    named = configuration.directories.dev / device.removeprefix("/dev/")
    path = os.path.realpath(named)
    if not named.exists():
        what = f"{device} with {target} is attached, and no disk of this machine is it"
        raise ClaimError(Trouble(what, f"systemctl restart gridwright-volumes; {AGAIN}"))
    return path


def _network(configuration: TargetsConfiguration, seen: SeenServer) -> NetworkStep | None:
    """Lustre's network on the address that clients know, which stays when the machine is made anew."""
    nids = seen.nids()
    wanted = f"{configuration.address}@tcp"
    if wanted in nids:
        return None
    if nids:
        raise ClaimError(
            Trouble(
                f"Lustre's network is up as {', '.join(nids)}, and {configuration.name} is {wanted}",
                f"take it down (lustre_rmmod), or restart the machine; {AGAIN}",
            )
        )
    link = seen.link(configuration.address)
    if link is None:
        what = f"no network interface of this machine has {configuration.address}, which clients know"
        raise ClaimError(
            Trouble(what, f"see ip addr; a second card: systemctl restart gridwright-cards; {AGAIN}")
        )
    return NetworkStep(link)
