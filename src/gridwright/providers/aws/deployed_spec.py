"""The grid spec that a stack was made from, kept in the metadata of its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gridwright.spec.model import GridSpec

_SECTION = "Gridwright"
SCHEMA = 1


def values(spec: GridSpec) -> dict[str, Any]:
    """A spec as plain values, from which the same spec can be made."""
    found: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return found


def keep(template: dict[str, Any], spec: GridSpec) -> None:
    """Put a spec into the metadata of a template."""
    template["Metadata"] = {
        **template.get("Metadata", {}),
        _SECTION: {"Schema": SCHEMA, "Spec": values(spec)},
    }


def deployed_values(template: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plain values in a template; None where it has none that this release can read."""
    section = template.get("Metadata", {}).get(_SECTION, {})
    found = section.get("Spec") if section.get("Schema") == SCHEMA else None
    return found if isinstance(found, dict) else None


def deployed_spec(template: Mapping[str, Any]) -> GridSpec | None:
    """The spec in a template; None where it has none that this release can read."""
    found = deployed_values(template)
    if found is None:
        return None
    try:
        return GridSpec.model_validate(found, context={"base": "/"})
    except ValidationError:
        return None
