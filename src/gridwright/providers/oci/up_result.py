"""What `up` of a grid on OCI did, and how to go on; nothing here calls OCI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.providers.oci.planned_changes import PlannedChange


@dataclass(frozen=True, slots=True)
class OciUp:
    """What `up` did."""

    grid: str
    region: str
    made: bool
    """Whether it was not there before."""
    changes: tuple[PlannedChange, ...]
    login: str | None
    """Public address of the machine that users log in to; None where the way in is the bastion service."""
    user: str
    """Whom the key of the spec lets in there."""
    seconds: float
    file: str = ""

    def document(self) -> dict[str, Any]:
        """See Result."""
        values = asdict(self)
        del values["file"]
        return {**values, "changed": bool(self.changes), "changes": [asdict(each) for each in self.changes]}

    def text(self) -> str:
        """What was done, and how to go on."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        minutes = f"{self.seconds / 60:.1f} min"
        if self.made:
            yield f"OCI has made all of grid {self.grid} in {self.region}, after {minutes}"
        elif self.changes:
            yield f"grid {self.grid} is changed, after {minutes}"
        else:
            yield f"grid {self.grid} is up already, as the spec has it: nothing is changed"
        yield "Next:"
        if self.login:
            yield f"  ssh {self.user}@{self.login}"
        spec = f" {self.file}" if self.file else ""
        yield f"  gridwright status{spec}"
        yield f"  gridwright down{spec}"
