"""A lab: a grid of several nodes in Linux namespaces of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridwright.spec.model import GridSpec


def is_lab(spec: GridSpec) -> bool:
    """Whether a grid is a lab: for the verbs that only a lab has."""
    return spec.provider == "lab"
