"""Specs of labs for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridwright.spec.model import GridSpec

BASE: dict[str, Any] = {
    "name": "small",
    "provider": "lab",
    "nodes": {"compute": {"count": 3}},
    "filesystems": {"shared": {"type": "local", "path": "/mnt/grid"}},
    "libraries": {"data": {}, "work": {}},
    "scheduler": {"type": "slurm"},
}


def spec(**sections: Any) -> GridSpec:
    """The base spec with sections replaced."""
    return GridSpec.model_validate({**BASE, **sections}, context={"base": Path("/")})


def moosefs(servers: int, path: str = "/mnt/grid") -> dict[str, Any]:
    return {"type": "moosefs", "path": path, "servers": servers}
