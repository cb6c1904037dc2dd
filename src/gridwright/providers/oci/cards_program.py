"""The program that sets up second network cards: package `cards` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file, unit_of

UNIT = "gridwright-cards.service"
_PACKAGE = "gridwright.providers.oci.cards"


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources."""
    return one_file(_PACKAGE, "the look for network cards", ["gridwright.providers.oci.boot"])


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_PACKAGE)
