"""Which lab a verb is about: that of a spec, or the only one there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.arguments import DEFAULT_SPEC
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.spec.model import GridSpec


def chosen_lab(file: Path | None) -> str:
    """The name of the lab of a spec, of ./grid.yaml, or of the only one there is. Raises GridwrightError."""
    spec = chosen_spec(file)
    if spec is not None and spec.provider == "lab":
        return spec.name
    if spec is not None and file is not None:
        raise input_error(
            f"grid {spec.name} is no lab: its provider is {spec.provider}",
            where=str(file),
            remedy="name the spec of a lab",
        )
    return only_lab()


def chosen_spec(file: Path | None) -> GridSpec | None:
    """The spec that is named; else ./grid.yaml where its nodes are made; else none.

    Raises GridwrightError.
    """
    if file is None and not DEFAULT_SPEC.exists():
        return None
    from gridwright.spec import load_spec

    spec = load_spec(file or DEFAULT_SPEC)
    return None if file is None and spec.provider == "local" else spec


def only_lab() -> str:
    """The only lab there is. Raises GridwrightError (INPUT) where there are none, or several."""
    from gridwright.providers.lab.record import labs

    found = labs()
    if len(found) == 1:
        return found[0]
    if not found:
        raise input_error("there is no lab here", remedy="run gridwright up FILE with the grid spec of one")
    raise input_error(
        f"there are {len(found)} labs here, {', '.join(found)}, and none is named",
        remedy="name the grid spec of the one that is meant",
    )
