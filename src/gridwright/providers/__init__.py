"""Where the nodes of a grid come from: this machine, a lab on it, a cloud; one package for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from gridwright.providers.provider import GridHere, Provider
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


def provider_of(spec: GridSpec) -> Provider:
    """The provider of a grid: whatever is asked of one, by its name in the spec."""
    return cast("Provider", spec.provider_kind)


def local_grids() -> list[GridHere]:
    """Grids of all providers on this machine, whether their specs are at hand or not."""
    from gridwright.spec.provider import PROVIDERS

    local = (cast("Provider", kind).on_this_machine for _, kind in PROVIDERS.kinds())
    return [grid for grids in local if grids is not None for grid in grids.all()]


def head_node(spec: GridSpec) -> HeadNode:
    """How to reach the head node of a grid from here. Raises GridwrightError; see `Provider.head_node`."""
    return provider_of(spec).head_node(spec)
