"""Carries changes out, each whole or not at all, so that a run that was killed goes on where it was."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gridwright.node_programs.users.configuration import UsersError
from gridwright.node_programs.users.running import run
from gridwright.node_programs.users.sssd import read_secret
from gridwright.node_programs.users.steps import Change, MakeHome, Remove, Run, Write

_SHADOW = ("groupadd", "useradd", "usermod")
"""Programs that take --prefix (useradd(8)), for a system that is not the one that runs."""


def apply(changes: Iterable[Change], root: Path) -> None:
    """Carry them out in their order. Raises UsersError with the first that fails, OSError."""
    for each in changes:
        act = each.act
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
            raise UsersError(_why(each, error)) from None


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
    """Make it under another name and rename it: another machine may make the same one at the same time."""
    home = root / act.path.lstrip("/")
    home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}."))
    try:
        skeleton = root / "etc/skel"
        if skeleton.is_dir():
            shutil.copytree(skeleton, part, symlinks=True, dirs_exist_ok=True)
        part.chmod(0o700)
        for place, directories, files in os.walk(part):
            for name in (*directories, *files):
                os.lchown(Path(place, name), act.uid, act.gid)
        os.lchown(part, act.uid, act.gid)
        try:
            part.rename(home)
        except OSError:
            if not _is_directory(home):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
