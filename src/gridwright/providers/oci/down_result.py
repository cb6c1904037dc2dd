"""What `down` of a grid on OCI did; nothing here calls OCI."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OciDown:
    """What `down` did."""

    grid: str
    region: str
    was_up: bool
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {**asdict(self), "removed": list(self.removed), "kept": list(self.kept), "left": []}

    def text(self) -> str:
        """See Result."""
        if not self.kept:
            state = "is down: nothing of it is left" if self.was_up else "was not up: nothing of it is"
            return f"grid {self.grid} {state} in {self.region}"
        first = f"grid {self.grid} is down; kept, and billed:"
        last = "  gridwright down --delete-data NAME, for each file system, removes it with all data"
        return "\n".join([first, *(f"  {each}" for each in self.kept), last])
