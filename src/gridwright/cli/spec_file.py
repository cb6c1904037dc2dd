"""Finds and loads the grid spec for verbs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.arguments import DEFAULT_SPEC
from gridwright.cli.verbosity import say
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.spec import GridSpec


def load(file: Path | None) -> GridSpec:
    """Load the grid spec, `./grid.yaml` by default. Raises GridwrightError."""
    from gridwright.spec import load_spec

    return load_spec(file if file is not None else DEFAULT_SPEC)


def load_placed(file: Path | None) -> GridSpec:
    """Load a grid spec whose libraries live on file systems. Raises GridwrightError."""
    spec = load(file)
    if not spec.is_placed:
        raise input_error(
            f"the grid is yet to be planned: {_left_open(spec)}",
            where=str(spec.file),
            remedy=f"Run gridwright plan {spec.file} --write OUT, and use OUT",
        )
    return spec


def _left_open(spec: GridSpec) -> str:
    """What a spec leaves to the planner, in words."""
    if not spec.filesystems:
        return "no library lives on a file system"
    homeless = [str(name) for name, library in spec.libraries.items() if not library.filesystem]
    if homeless:
        return f"{' and '.join(homeless)} name no file system"
    groups = [name for name, group in spec.nodes.items() if not group.instance]
    return f"nodes {' and '.join(groups)} have no instance"


def note_this_machine(spec: GridSpec) -> None:
    """Say on stderr that a grid from elsewhere is measured on the machine that runs the command."""
    if not spec.provider_kind.is_this_machine:
        nodes = spec.node_count()
        say(
            f"note: grid {spec.name} is on {spec.provider}; what is measured here is this machine"
            + (f", one of {nodes} nodes" if nodes > 1 else "")
        )


def make_libraries(spec: GridSpec) -> None:
    """Make the directories of libraries that are missing on this machine, and say so on stderr.

    Libraries of other nodes are left alone. Raises GridwrightError where a file system is not mounted.
    """
    if not spec.is_one_machine:
        return
    from gridwright.filesystems.library_directories import make_library_directories

    if made := make_library_directories(spec):
        say(f"made: {', '.join(made)}: libraries of grid {spec.name}, which were not there")
