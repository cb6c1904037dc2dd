"""Directories of libraries: made on this machine where they belong there, with a layout for new files."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from gridwright.beneath import DIRECTORY, owner_of
from gridwright.bounded import Hangs, call_bounded
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Run
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import DesiredLayout
from gridwright.filesystems.mounts import Mount, is_closed, mount_of, parse_mounts
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.library import Library
from gridwright.spec.model import GridSpec
from gridwright.trusted import user_name

LOOK_S = 10.0
"""For file systems that answer; one that does not is told of by the test that needs it."""
LIBRARY_MODES: Mapping[str, int] = {"data": 0o755, "work": 0o1777, "util": 0o1777}
"""All users write to work and util, and none may remove what is another's; data are root's until the site
says otherwise."""
_FSTAB = Path("/etc/fstab")
_ROOT = 0
_MOUNT_PLACES = (PurePosixPath("/mnt"), PurePosixPath("/media"))
"""Where file systems are mounted by hand (Filesystem Hierarchy Standard 3.0, 3.11 and 3.12)."""


def make_library_directories(spec: GridSpec) -> list[str]:
    """Make the directories of libraries that are missing on this machine, and return their paths.

    A directory is made in the directory of its file system, where that is no mount point that nothing is
    mounted on, and below the directory of the grid spec. It is the user's, or its group lets the user write,
    unless all users may. Root's are for all users
    (LIBRARY_MODES), whatever the umask; a user's have the modes that the umask gives. Nothing is made, and
    GridwrightError (status ENVIRONMENT) raised with one problem for each file system, where another one is
    missing. A file system that hangs is left to those who use it. Touches what may hang in a child process.
    """
    try:
        made, wrong = call_bounded(partial(_make_all, spec), LOOK_S)
    except (Hangs, OSError):
        return []
    if wrong:
        problems = [Problem(what, where=where, remedy=remedy) for what, where, remedy in wrong]
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    return [str(path) for path in made]


def closed_to_user(spec: GridSpec) -> str | None:
    """A library of this machine that the user who runs this may not write, with its path, in words.

    None where there is none, and for what is not there or hangs.
    """
    try:
        return call_bounded(partial(_closed, spec), LOOK_S)
    except (Hangs, OSError):
        return None


def _closed(spec: GridSpec) -> str | None:
    places = ((name, spec.library_directory(name)) for name in spec.libraries)
    closed = (f"library {name} ({path})" for name, path in places if is_closed(path))
    return next(closed, None)


def making_command(paths: Mapping[str, str]) -> str:
    """The command by which root makes directories of libraries, by library, for all users."""
    by_mode: dict[int, list[str]] = {}
    for name, path in paths.items():
        by_mode.setdefault(LIBRARY_MODES.get(name, 0o755), []).append(shlex.quote(path))
    return " && ".join(f"install -d -m {mode:04o} {' '.join(each)}" for mode, each in by_mode.items())


Wrong = tuple[str, str, str]
"""What is wrong, where, and the remedy."""


def _make_all(spec: GridSpec) -> tuple[list[str], list[Wrong]]:
    missing = _missing(spec)
    if not missing:
        return [], []
    mounts = parse_mounts(Path("/proc/mounts").read_text(errors="surrogateescape"))
    wrong = [
        found
        for name, paths in missing.items()
        if (found := _obstacle(spec.filesystems[name], name, paths, spec, mounts)) is not None
    ]
    if wrong:
        return [], wrong
    made = {name: path for paths in missing.values() for name, path in paths.items()}
    for name, path in made.items():
        try:
            _make(path, LIBRARY_MODES.get(name))
        except OSError as error:
            remedy = f"make it as a user who may: {making_command({name: str(path)})}"
            return [], [(f"the directory cannot be made: {error.strerror}", str(path), remedy)]
    return [str(path) for path in made.values()], []


def _make(path: Path, mode: int | None) -> None:
    """Make a directory; root's is for all users. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != _ROOT or mode is None:
        return
    opened = os.open(path, DIRECTORY)
    try:
        # By an open one: somebody else may have been faster.
        if owner_of(os.fstat(opened)) == _ROOT:
            os.fchmod(opened, mode)
    finally:
        os.close(opened)


def _missing(spec: GridSpec) -> Mapping[str, dict[str, Path]]:
    """Directories that are not there, by file system and library; a file or a broken link is there."""
    missing: dict[str, dict[str, Path]] = {}
    for name, library in spec.libraries.items():
        path = spec.library_directory(name)
        if not os.path.lexists(path):
            missing.setdefault(library.filesystem, {})[name] = path
    return missing


def _obstacle(
    filesystem: FileSystem, name: str, paths: Mapping[str, Path], spec: GridSpec, mounts: list[Mount]
) -> Wrong | None:
    """Why directories of a file system may not be made; None where they may."""
    root = filesystem.path
    make = making_command({library: str(path) for library, path in paths.items()})
    mount = f"mount file system {name}; where {root} is a plain directory: {make}"
    if why := _unmounted(filesystem, name, mounts):
        return why, str(root), mount
    if not root.is_dir():
        beside_spec = spec.file is not None and root.is_relative_to(os.path.normpath(spec.file.parent))
        if not (filesystem.is_node_local and beside_spec):
            return f"file system {name}: there is no such directory", str(root), mount
    holder = next(parent for parent in next(iter(paths.values())).parents if parent.exists())
    status = holder.stat()
    if status.st_uid == os.geteuid():
        return None
    may = os.geteuid() != _ROOT and os.access(holder, os.W_OK | os.X_OK, effective_ids=True)
    if may and not status.st_mode & stat.S_IWOTH:
        return None
    owner = (
        f"file system {name}: its libraries are not there, and {holder} belongs to {user_name(status.st_uid)}"
    )
    if may:
        mkdir = f"mkdir -p {' '.join(shlex.quote(str(path)) for path in paths.values())}"
        return f"{owner}, as a place of all users", str(root), f"if they belong there: {mkdir}"
    return owner, str(root), f"have them made by who may: {make}"


def _unmounted(filesystem: FileSystem, name: str, mounts: list[Mount]) -> str | None:
    """Why something should be mounted at the path of a file system and is not; None where nothing says so."""
    path = str(filesystem.path)
    types = kind_of(filesystem).kernel_types
    held = mount_of(path, mounts)
    if types and (held is None or held.type not in types):
        return f"file system {name}: no {' or '.join(types)} is mounted here"
    if point := unmounted_point(path, mounts):
        return f"file system {name}: {point} is a mount point in {_FSTAB}, and nothing is mounted there"
    if path not in {mount.point for mount in mounts} and _looks_like_a_mount_point(filesystem.path):
        return f"file system {name}: an empty directory where file systems are mounted, and none is"
    return None


def unmounted_point(path: str | Path, mounts: list[Mount]) -> str | None:
    """The mount point of /etc/fstab that holds a path, and where nothing is mounted; None where none is."""
    points = {mount.point for mount in mounts}
    holding = (
        fstab_point for fstab_point in _fstab_points() if PurePosixPath(path).is_relative_to(fstab_point)
    )
    return next((each for each in holding if each not in points), None)


def _fstab_points() -> Iterator[str]:
    try:
        text = _FSTAB.read_text(errors="surrogateescape")
    except OSError:
        return
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for mount in parse_mounts("\n".join(" ".join(line.split()) for line in lines)):
        if mount.point.startswith("/") and mount.point != "/":
            yield mount.point


def _looks_like_a_mount_point(path: Path) -> bool:
    """Whether it is empty, belongs to root, and lies where file systems are mounted by custom."""
    customary = path.parent == Path("/") or any(path.is_relative_to(place) for place in _MOUNT_PLACES)
    return customary and path.is_dir() and owner_of(path.stat()) == _ROOT and not any(path.iterdir())


def layout_in_spec(filesystem: FileSystem, name: str, library: Library) -> DesiredLayout:
    """What the spec says of a library's layout, for who does not ask the model."""
    kind = kind_of(filesystem)
    stated = kind.stated_layout(filesystem, library) if isinstance(kind, Layouts) else None
    return DesiredLayout(library=name, layout=stated)


def number_of_targets(filesystem: FileSystem, run: Run) -> int:
    """How many targets it has: a spec may not say so, and the model then chooses as if there were many.

    0 where nobody says.
    """
    kind = kind_of(filesystem)
    with suppress(GridwrightError):
        return kind.mover(filesystem, run).targets() if isinstance(kind, Layouts) else 0
    return 0


def directory_findings(
    filesystem: FileSystem, run: Run, directory: str, wish: DesiredLayout
) -> list[Finding]:
    """A finding where it gives another one; none where none is wanted, or the kind has no layouts.

    Where the model chooses, a layout that somebody has set is information: setup leaves it, too.
    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    wanted, kind = wish.layout, kind_of(filesystem)
    if wanted is None or not isinstance(kind, Layouts):
        return []
    layout = kind.layout(filesystem, run, directory)
    if layout.is_as(wanted):
        return []
    if not wish.stated and (targets := number_of_targets(filesystem, run)):
        wanted = wanted.within(targets)
        if layout.within(targets).is_as(wanted):
            return []
    whose = "the spec states" if wish.stated else "the model chooses"
    own = " (that of the whole file system)" if layout.is_default else ""
    return [
        Finding(
            "warning" if wish.stated or layout.is_default else "info",
            "directory-layout-differs",
            f"new files in {directory} get {layout.text}{own}; {whose} {wanted.text}",
            f"Set it for new files: {wish.command('set')}"
            + ("" if wish.stated else "; or state in the spec what you have set"),
        )
    ]
