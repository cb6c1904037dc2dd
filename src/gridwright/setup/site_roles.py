"""Reads a site's own roles, the directories that section `setup` of a grid spec names, for its playbook."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import GridwrightError, Problem
from gridwright.spec.locate import problem_at
from gridwright.spec.machines import inventory_group
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import DEFAULT_GROUPS
from gridwright.trusted import Fault, user_name, way_fault

LARGEST_BYTES = 4 << 20
"""All files of a role: every machine fetches them at its start, and render writes them."""
MOST_FILES = 1000
LONGEST_PATH = 100
"""Bytes of a name in a tar archive of the format ustar (POSIX.1-1988), as the bundle is."""
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_OWN_IT = "root or you have to own it and all that is above it, and nobody else may write there"
_LEFT_OUT = frozenset({"__pycache__", ".git", ".DS_Store", ".molecule", ".cache"})


@dataclass(frozen=True, slots=True)
class SiteRole:
    """A role of the site, where it runs, and its files by their path in the playbook."""

    name: str
    groups: tuple[str, ...]
    files: Mapping[str, bytes]

    def as_task(self) -> str:
        """The task of a play that includes it."""
        groups = ", ".join(f"'{inventory_group(group)}'" for group in self.groups)
        return (
            f"    - name: Run the site's role {self.name}\n"
            "      ansible.builtin.include_role:\n"
            f"        name: {self.name}\n"
            f"      when: group_names | intersect([{groups}]) | length > 0\n"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRoles:
    """All of them, in the order in which they run."""

    before: Sequence[SiteRole] = ()
    after: Sequence[SiteRole] = ()
    doubts: Sequence[Problem] = ()
    """Why others are not run: other users can write them."""

    def on(self, groups: Collection[str]) -> SiteRoles:
        """Those that run in any of the groups."""
        before, after = (
            [role for role in roles if set(role.groups) & set(groups)] for roles in (self.before, self.after)
        )
        return SiteRoles(before=before, after=after)

    def files(self) -> dict[str, str | bytes]:
        """Files of all of them by their path in the playbook."""
        return {path: content for role in (*self.before, *self.after) for path, content in role.files.items()}


@dataclass(slots=True)
class _Reading:
    """What is known while the directories are read."""

    spec: GridSpec
    taken: Collection[str]
    problems: list[Problem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    doubts: list[Problem] = field(default_factory=list)
    """Of roles that are not run as other users can write them."""

    def problem(self, path: tuple[str, ...], what: str, remedy: str) -> None:
        self.problems.append(problem_at(self.spec, ("setup", *path), what, remedy))

    def doubt(self, path: tuple[str, ...], directory: Path, place: Path, fault: Fault) -> None:
        """Note that a role is not run for what is wrong with a place in it, or above it."""
        role = shlex.quote(str(directory.absolute()))
        mend = fault.remedy or f"chown -R {user_name(os.geteuid())} {role}, as root"
        if fault.remedy and (place != directory or fault.remedy.endswith(f" {role}")):
            mend = f"chmod -R go-w {role}"
        remedy = f"run {mend}; or use a copy of yours: {_OWN_IT}"
        what = f"{place} is not run: {fault.reason}"
        self.doubts.append(problem_at(self.spec, ("setup", *path), what, remedy))


def read_site_roles(spec: GridSpec, taken: Collection[str], *, runs: bool = True) -> SiteRoles:
    """Read the roles that a spec names; `taken` are names of Gridwright's own.

    Where nothing `runs` them, those that others can write are no problem, and left out as `doubts`.
    Raises GridwrightError (INPUT) with every problem of them, each at its line of the spec.
    """
    reading = _Reading(spec, taken)
    before, after = (
        [role for number, each in enumerate(paths) if (role := _role(reading, (key, str(number)), each))]
        for key, paths in (("before", spec.setup.before), ("after", spec.setup.after))
    )
    for name in spec.setup.only_on:
        if name not in reading.seen:
            names = ", ".join(sorted(reading.seen)) or "none"
            reading.problem(("only_on", name), f"the spec has no role {name}", f"roles of it: {names}")
    problems = [*reading.problems, *(reading.doubts if runs else ())]
    if problems:
        raise GridwrightError(*problems)
    return SiteRoles(before=before, after=after, doubts=reading.doubts)


def _role(reading: _Reading, path: tuple[str, ...], directory: Path) -> SiteRole | None:
    name = directory.name
    if not _NAME.fullmatch(name):
        reading.problem(
            path,
            f"{name} is not a name of a role",
            "name its directory with a to z, 0 to 9 and _, such as sas",
        )
    elif name in reading.taken:
        reading.problem(path, f"Gridwright has a role {name} of its own", "give the directory another name")
    elif name in reading.seen:
        reading.problem(path, f"there are two roles {name}", "name it once, or give one another name")
    reading.seen.add(name)
    if not directory.is_dir():
        reading.problem(path, f"there is no directory {directory}", "name the directory of a role of Ansible")
        return None
    if not (directory / "tasks/main.yml").is_file():
        reading.problem(path, f"{directory} has no tasks/main.yml", "name the directory of a role of Ansible")
        return None
    if fault := way_fault(directory.absolute()):
        reading.doubt(path, directory, directory, fault)
        return None
    groups = tuple(reading.spec.setup.only_on.get(name, DEFAULT_GROUPS))
    return SiteRole(name, groups, _files(reading, path, directory))


def _files(reading: _Reading, path: tuple[str, ...], directory: Path) -> dict[str, bytes]:
    """Its files by their path in the playbook; nothing where there is a problem with them."""
    found: dict[str, Path] = {}
    size = 0
    try:
        for each in _below(directory):
            name = f"roles/{directory.name}/{each.relative_to(directory).as_posix()}"
            if each.is_symlink() or not each.is_file():
                reading.problem(
                    path, f"{each} is no plain file", "put a copy of the file there, or remove it"
                )
            elif fault := way_fault(each.absolute()):
                reading.doubt(path, directory, each, fault)
                return {}
            elif len(os.fsencode(name)) > LONGEST_PATH:
                reading.problem(
                    path, f"{name} is longer than {LONGEST_PATH} bytes", "give the file a shorter path"
                )
            else:
                found[name] = each
                size += each.stat().st_size
            if size > LARGEST_BYTES or len(found) > MOST_FILES:
                most = f"{LARGEST_BYTES >> 20} MiB or {MOST_FILES} files"
                remedy = "put what it installs into a bucket or on a file system, and let the role fetch it"
                reading.problem(
                    path, f"{directory} has more than {most}, and each machine fetches them", remedy
                )
                return {}
        return {name: file.read_bytes() for name, file in sorted(found.items())}
    except OSError as error:
        reading.problem(path, f"{error.filename or directory}: {error.strerror}", "let it be read")
        return {}


def _below(directory: Path) -> Iterator[Path]:
    """Everything below a directory but directories, and what tools leave in roles."""
    for each in sorted(directory.iterdir()):
        if each.name in _LEFT_OUT:
            continue
        if each.is_dir() and not each.is_symlink():
            yield from _below(each)
        else:
            yield each
