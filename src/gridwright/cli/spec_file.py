"""The spec and the grid that a verb is about, and files of a grid rendered with the facts of this machine."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import DEFAULT_SPEC, read_path, typed_command
from gridwright.cli.named_spec import BY_GRID_FLAG, OF_GROUPS, remember
from gridwright.cli.verbosity import say
from gridwright.errors import environment_error, input_error

if TYPE_CHECKING:
    from gridwright.grid.grid import Grid
    from gridwright.providers.rendering import Rendering
    from gridwright.spec import GridSpec


def load(file: Path | None) -> GridSpec:
    """Load the grid spec, `./grid.yaml` by default. Raises GridwrightError."""
    from gridwright.spec import load_spec

    remember(file)
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
        real: f"./{DEFAULT_SPEC}",
        DEFAULT_SPEC.absolute(): f"./{DEFAULT_SPEC}",
        Path.cwd(): "its directory",
        real.parent: "its directory",
    }
    if faults := {place: fault for place in places if (fault := _why_of_others(place))}:
        place, (reason, _) = next(iter(faults.items()))
        remedy = f"read it, and name it if you trust it: {_naming_command()}"
        if all(is_mendable for _, is_mendable in faults.values()):
            mend = " ".join(shlex.quote(str(each)) for each in faults)
            remedy += f"; where nobody else is to write it: chmod go-w {mend}"
        raise environment_error(
            f"it is not taken without being named: {places[place]} {reason}",
            where=f"./{DEFAULT_SPEC}",
            remedy=remedy,
        )
    return True


def _why_of_others(path: Path) -> tuple[str, bool] | None:
    """Why somebody else wrote, or could write, a file or directory, and whether chmod mends it.

    None where nobody else could. Root is believed, and to root the user who called sudo. A link is looked at
    itself.
    """
    from gridwright.beneath import fuse_user
    from gridwright.trusted import others_write, sudo_callers, user_name

    status = path.lstat()
    owners = {0, os.geteuid(), *sudo_callers()}
    user = fuse_user(status.st_dev)
    if user is not None and user not in owners:
        return f"is on a FUSE file system that {user_name(user)} has mounted", False
    owner = user_name(status.st_uid)
    if status.st_uid not in owners:
        return f"belongs to {owner}", False
    if not stat.S_ISLNK(status.st_mode) and others_write(status, path):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        is_own = status.st_uid == os.geteuid()
        return f"belongs to {owner}, and other users can write it (mode {mode})", is_own
    return None


def _naming_command() -> str:
    """The command as it was typed, with the spec named."""
    words = typed_command()
    verb = next((at for at, word in enumerate(words[1:], 1) if not word.startswith("-")), len(words))
    if words[verb : verb + 1] and words[verb] in BY_GRID_FLAG:
        after = verb + (2 if words[verb] in OF_GROUPS else 1)
        return shlex.join([*words[:after], "--grid", f"./{DEFAULT_SPEC}", *words[after:]])
    # Without FILE there are verbs alone before it, as in `layout check`.
    end = next((at for at in range(verb, len(words)) if words[at].startswith("-")), len(words))
    return shlex.join([*words[:end], f"./{DEFAULT_SPEC}", *words[end:]])


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


GridFile = Annotated[
    Path | None,
    typer.Option(
        "--grid",
        envvar="GRIDWRIGHT_GRID",
        metavar="FILE",
        parser=read_path,
        help="The grid spec.  [default: grid.yaml]",
    ),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job such as 17, or an element: 17_3.")]
JobNames = Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs such as 17, or elements: 17_3.")]


def open_grid(file: Path | None) -> Grid:
    """Load a grid spec, and open its grid. Raises GridwrightError."""
    from gridwright.grid.grid import Grid

    return Grid.open(load_placed(file))


def grid_here(file: Path | None) -> Grid | None:
    """The grid of a spec, or of ./grid.yaml, open; None where there is neither. Raises GridwrightError."""
    return None if file is None and not has_default_spec() else open_grid(file)


_MOUNTS = Path("/proc/mounts")


def render_here(spec: GridSpec, slurm: str) -> Rendering:
    """Every file of a grid, with the facts of this machine where it is made of machines like this one.

    `slurm` is the release that its configuration is for. Raises GridwrightError (INPUT).
    """
    from gridwright.providers import provider_of
    from gridwright.providers.machines import HostMachine
    from gridwright.runs.host import host_facts
    from gridwright.schedulers.machines import NodeHardware, detect_cgroups

    host = host_facts()
    machine = NodeHardware(
        name=host.hostname.partition(".")[0],
        cores_per_socket=host.physical_cores,
        threads_per_core=max(1, host.logical_cpus // host.physical_cores),
        memory_bytes=host.memory_bytes,
    )
    host_machine = HostMachine(machine, detect_cgroups(_MOUNTS.read_text()))
    return provider_of(spec).render(spec, host_machine, slurm)


def render_image_here(spec: GridSpec, slurm: str) -> Rendering:
    """Files of a build of an image. Raises GridwrightError (INPUT)."""
    from gridwright.providers import provider_of
    from gridwright.providers.provider import images_of

    remedy = "leave --image out: what nodes of their own need is in the playbook"
    where = str(spec.file) if spec.file else None
    return images_of(provider_of(spec), where, remedy).render(spec, slurm)
