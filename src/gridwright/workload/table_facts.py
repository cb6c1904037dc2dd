"""What the manifest of a data set says of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the manifest of the data set says of a table. `bytes_` is the size of its file."""

    path: Path
    rows: int
    bytes_: int
    checksum: str
    expected: Mapping[str, Any]
    """Figures worked out when it was made, by code that no test shares."""
