"""How a grid on OCI stands; nothing here calls OCI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OciMachineStatus:
    """One machine of the layout."""

    name: str
    role: str
    state: str
    """As OCI calls it; `missing` where there is none."""
    fault_domain: str | None
    set_up: str
    """How its own set-up is: done, or what it is at; empty of a machine that is missing."""


@dataclass(frozen=True, slots=True)
class OciDrift:
    """One resource that is not as the state has it."""

    stack: str
    address: str
    how: str
    """changed or gone."""


@dataclass(frozen=True, slots=True)
class OciVolumeStatus:
    """One volume: the servers it is for, and those that it is attached to."""

    name: str
    wanted: tuple[str, ...]
    attached: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each of its servers has it, and nobody else."""
        return sorted(self.wanted) == sorted(self.attached)


@dataclass(frozen=True, slots=True)
class OciStatus:
    """See Status."""

    grid: str
    region: str
    has_storage: bool
    has_grid: bool
    machines: tuple[OciMachineStatus, ...]
    volumes: tuple[OciVolumeStatus, ...]
    drift: tuple[OciDrift, ...] | None = None
    """What somebody else has changed; None where nobody looked."""

    @property
    def state(self) -> str:
        """not-up, storage-only, up, setting-up or broken."""
        if not self.has_grid:
            return "storage-only" if self.has_storage else "not-up"
        if self.whole:
            return "up"
        at_it = all(each.set_up == "done" or not each.set_up.startswith("failed") for each in self.machines)
        return "setting-up" if self._is_there and at_it and not self.drift else "broken"

    @property
    def whole(self) -> bool:
        """Whether all machines run and are set up, all volumes are at all their servers, and none drifted."""
        return self._is_there and all(each.set_up == "done" for each in self.machines) and not self.drift

    @property
    def _is_there(self) -> bool:
        running = all(each.state == "RUNNING" for each in self.machines)
        return self.has_grid and self.has_storage and running and all(each.is_whole for each in self.volumes)

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {**asdict(self), "state": self.state, "whole": self.whole}

    def text(self) -> str:
        """See Result."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"grid {self.grid} in {self.region}: {self.state}"
        if not self.has_grid:
            return
        for each in self.machines:
            set_up = f"set-up: {each.set_up}" if each.set_up else "-"
            yield f"  {each.name}  {each.role}  {each.state}  {each.fault_domain or '-'}  {set_up}"
        whole = sum(each.is_whole for each in self.volumes)
        yield f"  volumes attached to all their servers: {whole} of {len(self.volumes)}"
        for one in self.volumes:
            if not one.is_whole:
                is_at, belongs_to = ", ".join(one.attached) or "none", ", ".join(one.wanted)
                yield f"  {one.name}: attached to {is_at}, not to {belongs_to}"
        if self.drift is not None:
            yield f"  resources that are not as the state has them: {len(self.drift) or 'none'}"
            yield from (f"  {each.address} is {each.how} ({each.stack})" for each in self.drift)
            if self.drift:
                yield "  gridwright up shows what it would mend, and mends it"
