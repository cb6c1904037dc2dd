"""An observation of cloud and machine for one step: each fact is looked up once, when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from gridwright.node_programs.lustre_targets.device import Device
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.providers.aws.claim.cloud import UNKNOWN, Cloud, Interface, Volume
from gridwright.providers.aws.claim.machine import Identity, Machine
from gridwright.providers.aws.claim.records import Record

Looked = TypeVar("Looked")
_ASK_AGAIN_S = 5.0
"""A new instance can be unknown for a moment (EC2's answers are eventually consistent)."""


class Observation:
    """Reads cloud and machine; changes neither."""

    def __init__(self, cloud: Cloud, machine: Machine, instance: str) -> None:
        self._cloud, self._machine = cloud, machine
        self.instance = instance
        self._seen: dict[Any, Any] = {}

    def identity(self) -> Identity | None:
        """What this machine was named since it started."""
        return self._once("identity", self._machine.identity)

    def record(self, slot: str) -> Record | None:
        """The item of a slot."""
        return self._once(("record", slot), lambda: self._cloud.record(slot))

    def is_desired(self, slot: str) -> bool:
        """Whether the scheduler wants a slot on."""
        return self._once(("wanted", slot), lambda: self._cloud.is_desired(slot))

    def owners(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of instances; one that EC2 does not know is asked for twice."""
        desired = tuple(sorted(set(names)))

        def ask() -> Mapping[str, str]:
            states = dict(self._cloud.instances(desired))
            strange = [name for name, state in states.items() if state == UNKNOWN]
            if strange:
                self._machine.wait(_ASK_AGAIN_S)
                states.update(self._cloud.instances(strange))
            return states

        return self._once(("owners", desired), ask)

    def volumes(self, slot: str) -> tuple[Volume, ...]:
        """Volumes of a slot."""
        return self._once(("volumes", slot), lambda: self._cloud.volumes(slot))

    def interfaces(self, slot: str) -> tuple[Interface, ...]:
        """Network interfaces of a slot."""
        return self._once(("interfaces", slot), lambda: self._cloud.interfaces(slot))

    def link(self, mac: str) -> str | None:
        """The network interface with this address of its hardware."""
        return self._once(("link", mac), lambda: self._machine.link(mac))

    def is_configured(self, link: str, address: str) -> bool:
        """Whether it is up as configured."""
        return self._once(("configured", link), lambda: self._machine.is_configured(link, address))

    def missing(self) -> tuple[str, ...]:
        """Programs that are not there."""
        return self._once("missing", self._machine.missing)

    def cannot_format(self, kind: str) -> str | None:
        """What keeps the machine from making targets of a kind."""
        return self._once(("cannot format", kind), lambda: self._machine.cannot_format(kind))

    def nids(self) -> tuple[str, ...]:
        """Addresses of Lustre's network."""
        return self._once("nids", self._machine.nids)

    def reaches(self, nid: str) -> bool:
        """Whether a management server answers."""
        return self._once(("reaches", nid), lambda: self._machine.reaches(nid))

    def path(self, volume: str, name: str) -> str | None:
        """The device that a volume is."""
        return self._once(("path", volume), lambda: self._machine.path(volume, name))

    def device(self, path: str) -> Device:
        """What it holds."""
        return self._once(("device", path), lambda: self._machine.device(path))

    def unreadable(self, path: str) -> str | None:
        """What its own tool says of a target that it cannot read."""
        return self._once(("unreadable", path), lambda: self._machine.unreadable(path))

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where a target belongs."""
        return self._once(("mounted", target.name), lambda: self._machine.mounted(target))

    def _once(self, key: object, look: Callable[[], Looked]) -> Looked:
        if key not in self._seen:
            self._seen[key] = look()
        return cast("Looked", self._seen[key])
