"""Finds the grid that a verb is about: that of a spec, or the only one of a provider on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.spec_file import has_default_spec, load
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.providers.provider import GridHere
    from gridwright.spec.model import GridSpec


def resolve_grid(file: Path | None) -> GridHere:
    """The grid of a spec, of ./grid.yaml where its nodes are made, or the only one found here.

    Raises GridwrightError.
    """
    from gridwright.providers import local_grids, provider_of
    from gridwright.providers.provider import GridHere

    if (spec := resolve_spec(file)) is not None:
        provider = provider_of(spec)
        return GridHere(
            spec.name,
            lambda: provider.status(spec),
            lambda names: provider.removal(spec, delete_data=names),
            lambda: spec,
        )
    found = local_grids()
    return found[only([here.name for here in found])]


def resolve_spec(file: Path | None) -> GridSpec | None:
    """The spec that is named; else ./grid.yaml where its nodes are made; else none.

    Raises GridwrightError.
    """
    if file is None and not has_default_spec():
        return None
    spec = load(file)
    return None if file is None and not spec.provider_kind.makes_grids else spec


def only(names: Sequence[str], what: str = "grid") -> int:
    """The index of the only grid, or lab, found here. Raises GridwrightError (INPUT) for none, or several."""
    if len(names) == 1:
        return 0
    if not names:
        raise input_error(
            f"there is no {what} here", remedy="run gridwright up FILE with the grid spec of one"
        )
    raise input_error(
        f"there are {len(names)} {what}s here, {', '.join(names)}, and none is named",
        remedy="name the grid spec of the one that is meant",
    )
