"""Specs of grids that are yet to be planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridwright.spec.model import GridSpec

BASE: dict[str, Any] = {
    "name": "planned",
    "provider": "aws",
    "region": "us-east-1",
    "requirements": {"cores": 64, "memory_per_core": "8 GB"},
    "libraries": {
        "data": {"requires": "100 MB/s/core", "capacity": "20 TiB"},
        "work": {"requires": "125 MB/s/core", "capacity": "8 TiB"},
        "util": {"requires": "125 MB/s/core", "capacity": "8 TiB"},
    },
}


def spec(**sections: Any) -> GridSpec:
    """The base spec with sections replaced; requirements and libraries are merged by field."""
    document = {**BASE, **sections}
    for name in ("requirements", "libraries"):
        if name in sections:
            document[name] = {**BASE[name], **sections[name]}
    return GridSpec.model_validate(document, context={"base": Path("/")})
