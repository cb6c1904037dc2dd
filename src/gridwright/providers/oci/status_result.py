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

    @property
    def state(self) -> str:
        """not-up, storage-only, up or broken."""
        if not self.has_grid:
            return "storage-only" if self.has_storage else "not-up"
        return "up" if self.whole else "broken"

    @property
    def whole(self) -> bool:
        """Whether all machines run, and all volumes are at all their servers."""
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
            yield f"  {each.name}  {each.role}  {each.state}  {each.fault_domain or '-'}"
        whole = sum(each.is_whole for each in self.volumes)
        yield f"  volumes attached to all their servers: {whole} of {len(self.volumes)}"
        for one in self.volumes:
            if not one.is_whole:
                is_at, belongs_to = ", ".join(one.attached) or "none", ", ".join(one.wanted)
                yield f"  {one.name}: attached to {is_at}, not to {belongs_to}"
