"""Where the nodes of a grid come from: this machine, a lab on it, a cloud; one package for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from gridwright.providers.provider import Provider
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.spec.model import GridSpec


def provider_of(spec: GridSpec) -> Provider:
    """The provider of a grid: whatever is asked of one, by its name in the spec."""
    return cast("Provider", spec.provider_kind)


def grids_found_here() -> Iterator[tuple[Provider, str]]:
    """Grids on this machine that a provider knows of without their specs: provider and name."""
    from gridwright.spec.provider import PROVIDERS

    for _, kind in PROVIDERS.kinds():
        provider = cast("Provider", kind)
        yield from ((provider, name) for name in provider.found_here())


def head_node(spec: GridSpec) -> HeadNode:
    """How to reach the head node of a grid from here. Raises GridwrightError; see `Provider.head_node`."""
    return provider_of(spec).head_node(spec)
