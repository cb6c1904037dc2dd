"""Carries changes out, each whole or not at all, so that a run that was killed goes on where it was."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gridwright.beneath import descriptor_path, is_same_file, make_private, remove_tree
from gridwright.node_programs.users.configuration import UsersError
from gridwright.node_programs.users.running import run
from gridwright.node_programs.users.sssd import read_secret
from gridwright.node_programs.users.steps import Change, MakeHome, Remove, Run, Write

_SHADOW = ("groupadd", "useradd", "usermod")
"""Programs that take --prefix (useradd(8)), for a system that is not the one that runs."""


def apply(changes: Iterable[Change], root: Path) -> None:
    """Carry them out in their order. Raises UsersError with the first that fails, OSError."""
    for change in changes:
        act = change.act
        try:
            if isinstance(act, Run):
                _run(act, root)
            elif isinstance(act, Write):
                write(root / act.path, act.text, act.mode)
            elif isinstance(act, Remove):
                (root / act.path).unlink(missing_ok=True)
            else:
                make_home(act, root)
        except OSError as error:
            raise UsersError(_why(change, error)) from None


def _why(change: Change, error: OSError) -> str:
    text = f"{change.setting}: {error.strerror}"
    if isinstance(change.act, MakeHome) and isinstance(error, PermissionError):
        return (
            f"{text}: root of this machine may not write there. Let its root be root of the file system, or "
            "make the directory of homes on the file server"
        )
    return text


def _run(act: Run, root: Path) -> None:
    argv = list(act.argv)
    if root != Path("/") and argv[0] in _SHADOW:
        argv[1:1] = ["--prefix", str(root)]
    run(argv, stdin=read_secret(root, act.secret) or "" if act.secret else "")


def write(path: Path, text: str, mode: int) -> None:
    """A file of root under a temporary name, flushed, and renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)  # noqa: PTH105 - of a descriptor's name
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def make_home(act: MakeHome, root: Path) -> None:
    """Make it under another name and rename it: another machine may make the same one at the same time.

    Whoever may write where homes are exchanges names there at any moment. So it is filled by its descriptor
    while nobody else may enter it, and it is looked at what has its name then. Raises OSError.
    """
    home = root / act.path.lstrip("/")
    home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    homes = os.open(home.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    part = f".{home.name}.{secrets.token_hex(8)}"
    try:
        made = make_private(homes, part.encode())
        try:
            _fill(made, root / "etc/skel", act)
            _rename(homes, part, home.name, made)
        finally:
            os.close(made)
            remove_tree(part, directory=homes)
    finally:
        os.close(homes)


def _fill(home: int, skeleton: Path, act: MakeHome) -> None:
    """Copy the skeleton into a private directory, and give all of it to its user, itself at last."""
    place = descriptor_path(home)
    # One by one: a copy of the skeleton itself would open the home to all whom its mode lets in.
    for entry in skeleton.iterdir() if skeleton.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, Path(place, entry.name), symlinks=True)
        else:
            shutil.copy2(entry, Path(place, entry.name), follow_symlinks=False)
    for directory, directories, files in os.walk(place):
        for name in (*directories, *files):
            os.lchown(Path(directory, name), act.uid, act.gid)
    os.fchown(home, act.uid, act.gid)


def _rename(homes: int, part: str, name: str, made: int) -> None:
    try:
        os.rename(part, name, src_dir_fd=homes, dst_dir_fd=homes)
    except OSError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=homes, follow_symlinks=False).st_mode):
            raise
        return
    if not is_same_file(os.stat(name, dir_fd=homes, follow_symlinks=False), os.fstat(made)):
        raise OSError(errno.ESTALE, "somebody exchanges directories where homes are made", name)
