"""The spec that a lab was made from, kept with it: what later commands work from, and compare with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import LabRecord, write_durably
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec

_SHAPES = ("nodes", "filesystems", "libraries", "scheduler", "state", "lab")
"""Sections of a spec that a lab is made from; the rest may change while it is up."""
_ONLY_JUDGED = ("requires", "capacity")
"""Fields of a library that only planning and proofs read."""
_SHOWN = 5


def _copy(lab: str) -> Path:
    return Places(lab).home / "grid.yaml"


def keep_copy(spec: GridSpec) -> None:
    """Keep the text of a spec with its lab. Raises OSError."""
    # One that was made from values has no text; JSON is YAML.
    text = spec.source_text or json.dumps(spec.model_dump(mode="json", exclude_unset=True))
    write_durably(_copy(spec.name), text)


def deployed_spec(record: LabRecord) -> GridSpec:
    """The spec that a lab was made from. Raises GridwrightError."""
    path = _copy(record.lab)
    base = Path(record.spec_file).parent if record.spec_file else None
    try:
        return parse_spec(path.read_bytes(), str(path), base=base)
    except (OSError, GridwrightError) as error:
        raise environment_error(
            f"the spec that lab {record.lab} was made from cannot be read: {error}",
            where=str(path),
            remedy="write it there again, as you have it; gridwright down deletes the lab with its data",
        ) from error


def digest(spec: GridSpec) -> str:
    """Tells whether two specs make the same lab."""
    return hashlib.sha256(json.dumps(_shape(spec), sort_keys=True).encode()).hexdigest()


def differences(record: LabRecord, spec: GridSpec) -> list[str]:
    """What a spec has otherwise than the one that a lab was made from, in words; empty where nothing."""
    if digest(spec) == record.digest:
        return []
    found = list(_differences("", _shape(deployed_spec(record)), _shape(spec)))
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return found[:_SHOWN] + more


def _shape(spec: GridSpec) -> dict[str, Any]:
    shape: dict[str, Any] = spec.model_dump(mode="json", include=set(_SHAPES))
    for library in shape["libraries"].values():
        for name in _ONLY_JUDGED:
            library.pop(name, None)
    return shape


def _differences(path: str, old: object, new: object) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif old != new:
        yield f"{path} is {json.dumps(old)} in the lab and {json.dumps(new)} in the spec"
