"""Writes files that other programs read."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.problems import Trouble


def write(path: Path, text: str) -> None:
    """Write whole or not at all. Raises ClaimError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ClaimError(Trouble(f"{path}: {error.strerror}", "make room there, then start again")) from None
