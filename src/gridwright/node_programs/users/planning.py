"""What is to be done, out of what is wanted and what is there: planned purely, then carried out.

A plan names all that is wrong at once. Each change is made whole or not at all, so that a run that was killed
goes on where it was.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.beneath import descriptor_path, is_same_file, make_private, remove_tree
from gridwright.node_programs.users.configuration import Account, UsersConfiguration, UsersError
from gridwright.node_programs.users.machine import (
    KEYS,
    STATE,
    Change,
    Machine,
    MakeHome,
    Remove,
    Run,
    ThereUser,
    Write,
    run,
)
from gridwright.node_programs.users.services import read_secret, sshd_changes

MOST = 4


def named(names: Sequence[str]) -> str:
    """`anna, bob and carl`; of many the first ones and how many more."""
    if len(names) > MOST:
        return f"{', '.join(names[:MOST])} and {len(names) - MOST} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


NO_PASSWORD = "*"  # noqa: S105 - of shadow(5): none fits; sshd takes an account with ! for locked
LOCKED_SINCE = "1970-01-02"


@dataclass
class Plan:
    """What is done in this order, and what stands against it."""

    changes: list[Change] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def change(self, setting: str, found: str, desired: str, act: Run | Write | Remove | MakeHome) -> None:
        """Add one."""
        self.changes.append(Change(setting, found, desired, act))


def plan_users(desired: UsersConfiguration, there: Machine, *, homes: bool = True) -> Plan:
    """Accounts, groups, keys and homes; a directory of users has its own (sssd.py)."""
    made = Plan()
    if is_of_another(desired, there):
        return made
    _state(made, desired, there)
    _groups(made, desired, there)
    for account in desired.accounts:
        _account(made, account, desired, there)
    _departed(made, desired, there)
    _keys(made, desired, there)
    made.changes += sshd_changes(desired, there)
    if homes:
        _homes(made, desired, there)
    return made


def is_of_another(desired: UsersConfiguration, there: Machine) -> bool:
    """Whether a spec without users says nothing of the people here: they are of another grid, or of none.

    Such a spec is that of a machine of no grid (`gridwright setup --local`), or one that only measures.
    """
    return desired.is_empty and there.grid != desired.grid


def _state(made: Plan, desired: UsersConfiguration, there: Machine) -> None:
    """Who is made is written down before it is made, so that who leaves the grid later is known."""
    known = {**there.known, **{account.name: account.uid for account in desired.accounts}}
    if known != there.known or there.grid != desired.grid:
        state = {"schema": 1, "grid": desired.grid, "accounts": known}
        text = json.dumps(state, indent=2, sort_keys=True) + "\n"
        new = named(sorted(known.keys() - there.known.keys())) or f"grid {desired.grid}"
        made.change(f"/{STATE}", "without " + new, "with " + new, Write(STATE, text, 0o600))


def _groups(made: Plan, desired: UsersConfiguration, there: Machine) -> None:
    own = {account.name: account.gid for account in desired.accounts if account.own_group}
    whose = {group.gid: name for name, group in there.groups.items()}
    for name, gid in {**desired.groups, **own}.items():
        if name in there.groups:
            if there.groups[name].gid != gid:
                made.troubles.append(
                    f"group {name} has number {there.groups[name].gid} on this machine, and {gid} in the "
                    "grid: change it with groupmod and the files with it, or write that number into the spec"
                )
        elif gid in whose:
            made.troubles.append(
                f"number {gid} of group {name} is that of group {whose[gid]} on this machine: "
                "write another one into the spec"
            )
        else:
            made.change(f"group {name}", "missing", str(gid), Run(("groupadd", "--gid", str(gid), name)))


def _account(made: Plan, account: Account, desired: UsersConfiguration, there: Machine) -> None:
    found = there.users.get(account.name)
    whose = {user.uid: name for name, user in there.users.items()}
    if found is None and account.uid in whose:
        made.troubles.append(
            f"number {account.uid} of {account.name} is that of {whose[account.uid]} on this machine: "
            "write another one into the spec"
        )
    elif found is None:
        made.change(f"user {account.name}", "missing", str(account.uid), Run(_useradd(account)))
    elif found.uid != account.uid:
        made.troubles.append(
            f"{account.name} has number {found.uid} on this machine, and {account.uid} in the grid: "
            "change it with usermod and the files with it, or write that number into the spec"
        )
    else:
        for what, was, now, options in _differences(account, found, desired, there):
            made.change(f"user {account.name}: {what}", was, now, Run(("usermod", *options, account.name)))


def _useradd(account: Account) -> tuple[str, ...]:
    groups = ("--groups", ",".join(account.groups)) if account.groups else ()
    return (
        *("useradd", "--uid", str(account.uid), "--gid", str(account.gid), *groups, "--no-create-home"),
        *("--home-dir", account.home, "--shell", account.shell, "--comment", account.comment),
        *("--password", NO_PASSWORD, "--no-log-init", account.name),
    )


def _differences(
    account: Account, user: ThereUser, desired: UsersConfiguration, there: Machine
) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """What of an account is not as it should be: what, what it was, what it becomes, options of usermod."""
    if user.is_locked:
        yield "account", "locked", "open", ("--unlock", "--expiredate", "")
    for what, was, now, option in (
        ("primary group", str(user.gid), str(account.gid), "--gid"),
        ("full name", user.comment, account.comment, "--comment"),
        ("home", user.home, account.home, "--home"),
        ("shell", user.shell, account.shell, "--shell"),
    ):
        if was != now:
            yield what, was or "none", now or "none", (option, now)
    now_in = {name for name, group in there.groups.items() if account.name in group.members}
    # Groups of the machine's own, such as docker, are nobody's business here.
    be_in = (now_in - desired.groups.keys()) | set(account.groups)
    if now_in != be_in:
        yield (
            "groups",
            named(sorted(now_in)) or "none",
            named(sorted(be_in)) or "none",
            (*("--groups", ",".join(sorted(be_in))),),
        )


def _departed(made: Plan, desired: UsersConfiguration, there: Machine) -> None:
    """Who was in the spec and is not any more: locked. No file is removed, and no job ended."""
    here = {account.name for account in desired.accounts}
    for name, uid in sorted(there.known.items()):
        found = there.users.get(name)
        if name in here or found is None or found.uid != uid:
            continue
        if not found.is_locked:
            lock = ("usermod", "--lock", "--expiredate", LOCKED_SINCE, name)
            made.change(f"user {name}, who left the spec", "open", "locked", Run(lock))
        made.notes.append(
            f"{name} left the spec: the account is locked, its files and jobs stay; remove them when they "
            f"are no longer needed (scancel --user {name}, userdel {name})"
        )


def _keys(made: Plan, desired: UsersConfiguration, there: Machine) -> None:
    """One file of root for each account: who leaves, or a key that leaves, is out at once."""
    files = {
        f"{KEYS}/{account.name}": "".join(f"{key}\n" for key in account.keys)
        for account in desired.accounts
        if account.keys
    }
    for path, text in files.items():
        if there.files.get(path) != text:
            found = f"{len(there.files[path].splitlines())} keys" if path in there.files else "missing"
            count = len(text.splitlines())
            made.change(f"/{path}", found, f"{count} keys of the spec", Write(path, text, 0o644))
    for path in there.files:
        if path.startswith(f"{KEYS}/") and path not in files:
            made.change(f"/{path}", "there", "removed", Remove(path))


def _homes(made: Plan, desired: UsersConfiguration, there: Machine) -> None:
    missing = [account for account in desired.accounts if account.home not in there.homes]
    if desired.homes is not None and not desired.makes_homes:
        return
    mount = desired.homes.mount if desired.homes else None
    if mount is not None and mount not in there.mounts:
        if missing:
            # A home below a mount point that is empty would be hidden when it is mounted.
            made.troubles.append(
                f"{mount} is not mounted, and homes of {named([e.name for e in missing])} belong there"
            )
        return
    for each in missing:
        made.change(
            f"home {each.home}", "missing", f"of {each.name}", MakeHome(each.home, each.uid, each.gid)
        )


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
