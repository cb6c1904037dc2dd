"""Finds and loads the grid spec for verbs."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.arguments import DEFAULT_SPEC
from gridwright.cli.verbosity import say
from gridwright.errors import environment_error, input_error

if TYPE_CHECKING:
    from gridwright.spec import GridSpec


def load(file: Path | None) -> GridSpec:
    """Load the grid spec, `./grid.yaml` by default. Raises GridwrightError."""
    from gridwright.spec import load_spec

    if file is None:
        has_default_spec()
    return load_spec(file or DEFAULT_SPEC)


def has_default_spec() -> bool:
    """Whether ./grid.yaml is there, which is then taken where no file is named.

    Raises GridwrightError (ENVIRONMENT) where somebody else could have written it: what a spec names is run.
    """
    if not DEFAULT_SPEC.exists():
        return False
    real = DEFAULT_SPEC.resolve()
    places = {
        f"./{DEFAULT_SPEC}": (DEFAULT_SPEC.stat(), DEFAULT_SPEC.lstat()),
        "its directory": (Path.cwd().stat(), real.parent.stat()),
    }
    for place, statuses in places.items():
        for status in statuses:
            if reason := _why_of_others(status):
                raise environment_error(
                    f"it is not taken without being named: {place} {reason}",
                    where=f"./{DEFAULT_SPEC}",
                    remedy="read it, and name it if you trust it, such as gridwright doctor ./grid.yaml, "
                    "or gridwright jobs --grid ./grid.yaml",
                )
    return True


def _why_of_others(status: os.stat_result) -> str | None:
    """Why somebody else wrote, or could write, a file or directory; None where nobody else could.

    Root is believed, and to root the user who called sudo. A group that is its owner's own is nobody else.
    """
    from gridwright.trusted import user_name

    owners = {0, os.geteuid()}
    if os.geteuid() == 0 and (caller := os.environ.get("SUDO_UID", "")).isdecimal():
        owners.add(int(caller))
    if status.st_uid not in owners:
        return f"belongs to {user_name(status.st_uid)}"
    is_link = stat.S_ISLNK(status.st_mode)
    by_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status)
    if not is_link and (by_group or status.st_mode & stat.S_IWOTH):
        owner, mode = user_name(status.st_uid), stat.S_IMODE(status.st_mode)
        return f"belongs to {owner}, and other users can write it (mode {mode:04o})"
    return None


def _is_own_group(status: os.stat_result) -> bool:
    """Whether the group is the private one of the owner, as useradd(8) makes it: of that name, for one."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return (owner.pw_gid, owner.pw_name) == (group.gr_gid, group.gr_name) and {*group.gr_mem} <= {
        owner.pw_name
    }


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
