"""The playbook of a grid as files: roles, inventory and variables, to be run by Ansible alone.

Among them are a site's own roles, which section `setup` of the spec names, the layouts that directories of
libraries are to have, and who is registered with the changelogs of Lustre. For an image of machines there is
a playbook of packages alone, by the same roles. Variables are YAML that Ansible reads as they were: it has
YAML 1.1, in which more words are no text.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from gridwright import schedulers
from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.kind import Changelogs, ClientSettings, Layouts
from gridwright.filesystems.layout import Component, LayoutChoice
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.schedulers.machines import SchedulerSetup
from gridwright.schedulers.state_directory import state_directory
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.distributions import FILE as DISTRIBUTIONS
from gridwright.setup.distributions import distributions_text
from gridwright.setup.node_specs import health_configuration, scratch_configuration, users_configuration
from gridwright.setup.services import (
    exporter_files,
    exporter_variables,
    history_files,
    history_variables,
    repository_files,
    service_variables,
    timers,
    watch_files,
    watch_variables,
    without_libraries,
)
from gridwright.setup.tuning import refuse_broken_tables, tuning_rows, tuning_text
from gridwright.spec.linked import changelog_user
from gridwright.spec.load import problem_at
from gridwright.spec.machines import inventory_group
from gridwright.spec.model import GridSpec
from gridwright.spec.site_setup import DEFAULT_GROUPS, GROUPS, MACHINES
from gridwright.state_parts import PARTS
from gridwright.trusted import Fault, user_name, way_fault

_OTHERWISE = re.compile(r"(?i:y|n|yes|no|on|off)|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
"""Truth values, and numbers to the base 60 (YAML 1.1, types bool, int and float), that YAML 1.2 has not."""


def playbook_yaml(content: object) -> str:
    """Plain data as YAML, in the form that ansible-lint asks for."""
    # Plain data: what the spec has are classes of its own, which YAML would write as such.
    if isinstance(content, dict) and content:
        return "".join(_written(json.dumps({name: each})) for name, each in content.items())
    return _written(json.dumps(content))


@lru_cache(maxsize=1024)
def _written(data: str) -> str:
    """Bundles of one grid have most variables in common, and to write YAML takes long."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 110
    text = io.StringIO()
    yaml.dump(_quoted(json.loads(data)), text)
    return text.getvalue()


def _quoted(value: Any) -> Any:  # noqa: ANN401 - any plain data
    if isinstance(value, dict):
        return {_quoted(name): _quoted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_quoted(each) for each in value]
    if isinstance(value, str) and _OTHERWISE.fullmatch(value):
        return DoubleQuotedScalarString(value)
    return value


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
        [role for number, path in enumerate(paths) if (role := _role(reading, (key, str(number)), path))]
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
    paths: dict[str, Path] = {}
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
                paths[name] = each
                size += each.stat().st_size
            if size > LARGEST_BYTES or len(paths) > MOST_FILES:
                most = f"{LARGEST_BYTES >> 20} MiB or {MOST_FILES} files"
                remedy = "put what it installs into a bucket or on a file system, and let the role fetch it"
                reading.problem(
                    path, f"{directory} has more than {most}, and each machine fetches them", remedy
                )
                return {}
        return {name: file.read_bytes() for name, file in sorted(paths.items())}
    except OSError as error:
        reading.problem(path, f"{error.filename or directory}: {error.strerror}", "let it be read")
        return {}


def _below(directory: Path) -> Iterator[Path]:
    """Everything below a directory but directories, and what tools leave in roles."""
    for entry in sorted(directory.iterdir()):
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
        else:
            yield entry


def layout_rows(spec: GridSpec, layouts: Mapping[str, LayoutChoice]) -> list[dict[str, Any]]:
    """A row for each library whose file system lets people choose: directory, layout, and what sets it."""
    rows: list[dict[str, Any]] = []
    for role in spec.libraries:
        choice = layouts.get(role)
        if choice is None:
            continue
        filesystem = spec.filesystem_of(role)
        directory = str(spec.library_directory(role))
        kind = kind_of(filesystem)
        if isinstance(kind, Layouts):
            rows.append(
                {
                    "library": str(role),
                    "path": directory,
                    "mount": str(filesystem.path),
                    "mode": f"{LIBRARY_MODES[role]:04o}",
                    "stated": choice.stated,
                    "layout": choice.layout.text,
                    "components": [_row(component) for component in choice.layout.components],
                    "command": kind.layout_command(filesystem, choice.layout, directory),
                }
            )
    return rows


def _row(component: Component) -> dict[str, Any]:
    """A part of the layout, in the names that `lfs getstripe` has for it; what is not wanted is left out."""
    end = {} if component.end is None else {"end": component.end}
    if component.on_metadata_server:
        return {**end, "pattern": "mdt"}
    size = {} if component.stripe_bytes is None else {"stripe_size": component.stripe_bytes}
    pool = {} if component.pool is None else {"pool": component.pool}
    return {
        **end,
        "pattern": "raid0,overstriped" if component.overstriped else "raid0",
        "stripe_count": component.stripe_count,
        **size,
        **pool,
    }


def changelog_variables(spec: GridSpec) -> dict[str, list[dict[str, str]]]:
    """What the role is told: for each repository the file system, its mount, and the user at each MDT.

    An empty list has users of an earlier spec removed. Nothing where no file system keeps changelogs.
    """
    sources = {
        name: kind.changelog_source(each)
        for name, each in spec.filesystems.items()
        if isinstance(kind := kind_of(each), Changelogs)
    }
    if not any(sources.values()):
        return {}
    found = []
    for name, repository in spec.repositories.items():
        filesystem = spec.filesystem_of(repository.library)
        source, user = sources.get(spec.libraries[repository.library].filesystem), changelog_user(spec, name)
        if source is not None and user is not None:
            found.append(
                {"repository": name, "filesystem": source, "mount": str(filesystem.path), "user": user}
            )
    return {"gridwright_changelogs": found}


LOCAL: Mapping[str, str] = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}
"""Variables of the machine that the playbook runs on, reached without ssh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Nodes by group, with the variables by which Ansible reaches each."""

    groups: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    @classmethod
    def named(cls, **groups: Iterable[str]) -> Hosts:
        """Nodes that are reached by their names: `compute=["compute1"]`."""
        return cls(groups={group: {name: {} for name in names} for group, names in groups.items()})

    @classmethod
    def this_machine(cls, name: str) -> Hosts:
        """The machine that the playbook runs on, as a node that runs jobs."""
        return cls(groups={"compute": {name: LOCAL}})

    def with_machines(self, spec: GridSpec, reach: Mapping[str, Mapping[str, str]] | None = None) -> Hosts:
        """The same with the machines beside the nodes, each in its own group, too, and in `machines`."""
        own = {
            inventory_group(name): {
                machine_name: (reach or {}).get(machine_name, {})
                for machine_name in group.machine_names(name)
            }
            for name, group in spec.machines.items()
        }
        if not own:
            return self
        every = {name: each for group in own.values() for name, each in group.items()}
        return Hosts(groups={**self.groups, MACHINES: every, **own})

    @property
    def is_this_machine(self) -> bool:
        """Whether there is no node that ssh would have to reach."""
        reaches = [reach for group in self.groups.values() for reach in group.values()]
        return bool(reaches) and all(reach == LOCAL for reach in reaches)

    def names(self) -> tuple[str, ...]:
        """Every node once, in the order of the groups."""
        return tuple(
            dict.fromkeys(name for group in GROUPS for name in self.groups.get(group, {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provided:
    """What the provider of a grid knows of its nodes, and the spec does not say."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """What clients mount of file systems that the spec names no source of, by file system; it may be a Jinja
    expression that the playbook knows the value of."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Those of all machines by name, where no DNS has them."""
    roles: Sequence[PlaybookRole] = ()
    """Roles that only its machines have, in the order of their tasks: after base, before all others."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files of these roles that are made, by their path."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """What these roles have to know; empty values are left out."""
    layouts: Mapping[str, LayoutChoice] = field(default_factory=dict)
    """How files of libraries are to be laid out, by library, where the model was asked."""


_NOTHING = Provided()
SERVERS = "storage"
"""Servers of file systems have no users."""
_MOUNTS, _SCHEDULERS = "    # ROLES OF FILE SYSTEMS\n", "    # ROLES OF SCHEDULERS\n"
"""Where the tasks of kinds stand in site.yml."""
_PROVIDED = "    # ROLES OF THE PROVIDER\n"
"""Where those of the provider stand."""
_FIRST = "    # ROLES OF THE SITE\n"
"""Where those of the site stand that run before all others; the rest stand at the end."""


def playbook_files(
    spec: GridSpec,
    hosts: Hosts,
    scheduler: SchedulerSetup | None = None,
    provided: Provided = _NOTHING,
    groups: Collection[str] = GROUPS,
) -> dict[str, str | bytes]:
    """Every file of the playbook by its path; the same arguments and files of the site give the same bytes.

    It has the site's roles of `groups` only. Raises GridwrightError (status ENVIRONMENT) where an extension's
    tuning table cannot be used, INPUT where roles of the site cannot.
    """
    from gridwright.node_programs.one_file import SCRATCH, USERS

    refuse_broken_tables(spec)
    files: dict[str, str | bytes] = {
        "inventory.yml": inventory(hosts),
        "group_vars/all.yml": variables(spec, scheduler, provided, groups),
        **_without_mounts(spec),
        **_programs_of_kinds(spec),
        "tuning.yaml": tuning_text(),
        DISTRIBUTIONS: distributions_text(),
        "roles/state/files/trusted.sh": resources.files("gridwright.grid")
        .joinpath("trusted.sh")
        .read_bytes(),
        **SCRATCH.role_files(),
        **USERS.role_files(),
        **({**repository_files(spec), **watch_files(spec)} if set(groups) - {SERVERS} else {}),
        **history_files(spec),
        **exporter_files(spec),
    }
    files.update(tree(resources.files("gridwright.setup").joinpath("ansible")))
    site = str(files["site.yml"])
    for mark, roles in (
        (_PROVIDED, provided.roles),
        (_MOUNTS, _roles_of_filesystems()),
        (_SCHEDULERS, _roles_of_schedulers()),
    ):
        for role in roles:
            files.update(tree(role.directory, f"roles/{role.name}/"))
        tasks = "\n".join(role.as_task() for role in roles)
        site = site.replace(mark, tasks) if tasks else site.replace(mark + "\n", "")
    # A role that is for one group of machines runs where all of them do.
    named = [*groups, *(spec.machines if MACHINES in groups else ())]
    own = site_roles(spec, provided).on(named)
    site = site.replace(_FIRST + "\n", "".join(f"{role.as_task()}\n" for role in own.before))
    site += "".join(f"\n{role.as_task()}" for role in own.after)
    files |= {"site.yml": site, **provided.files, **own.files()}
    return {name: files[name] for name in sorted(files)}


def site_roles(spec: GridSpec, provided: Provided = _NOTHING, *, runs: bool = True) -> SiteRoles:
    """The site's own roles: `read_site_roles`. Raises GridwrightError (INPUT) with all that is wrong."""
    ours = resources.files("gridwright.setup").joinpath("ansible", "roles")
    brought = {role.name for role in (*_roles_of_kinds(), *provided.roles)}
    return read_site_roles(spec, {entry.name for entry in ours.iterdir()} | brought, runs=runs)


def _roles_of_kinds() -> list[PlaybookRole]:
    """Roles of file systems, and then those of schedulers."""
    return [*_roles_of_filesystems(), *_roles_of_schedulers()]


def _roles_of_filesystems() -> list[PlaybookRole]:
    """Each once though kinds share some."""
    roles = {role.name: role for _, kind in all_kinds() for role in kind.playbook_roles()}
    return sorted(roles.values(), key=lambda role: role.task)


def _roles_of_schedulers() -> list[PlaybookRole]:
    return [role for kind in schedulers.all_kinds() for role in kind.playbook_roles()]


def inventory(hosts: Hosts) -> str:
    """inventory.yml: the groups, each with its nodes."""
    groups = {
        group: {"hosts": {name: dict(reach) or None for name, reach in hosts.groups.get(group, {}).items()}}
        for group in dict.fromkeys((*GROUPS, *hosts.groups))
    }
    return _INVENTORY + playbook_yaml(groups)


def variables(
    spec: GridSpec,
    scheduler: SchedulerSetup | None,
    provided: Provided = _NOTHING,
    groups: Collection[str] = GROUPS,
) -> str:
    """group_vars/all.yml: what the grid spec says of the nodes of these groups.

    Raises GridwrightError (INPUT) where the certificates of a directory of users cannot be read.
    """
    own_kernel = spec.provider_kind.has_own_kernels
    content = {
        "gridwright_grid": spec.name,
        "gridwright_own_kernel": own_kernel,
        "gridwright_mounts": _mounts(spec, provided.sources) if own_kernel else [],
        "gridwright_scratch": _scratch(spec) if own_kernel else {},
        "gridwright_health": health_configuration(spec, provided.sources),
        **({"gridwright_users": users_configuration(spec)} if set(groups) - {SERVERS} else {}),
        **({"gridwright_repositories": names} if set(groups) - {SERVERS} and (names := timers(spec)) else {}),
        **({**service_variables(spec), **watch_variables(spec)} if set(groups) - {SERVERS} else {}),
        **(_state(spec, provided) if set(groups) - {SERVERS} else {}),
        **history_variables(spec),
        **exporter_variables(spec),
        **changelog_variables(spec),
        **_of_kinds(spec),
        **_of_schedulers(spec, scheduler),
    }
    metadata = spec.provider_kind.metadata_service
    given = {
        "gridwright_metadata": metadata.variables() if metadata is not None else {},
        "gridwright_addresses": dict(provided.addresses),
        "gridwright_layouts": layout_rows(spec, provided.layouts) if own_kernel else [],
        **provided.variables,
    }
    return _VARIABLES + playbook_yaml(
        {**spec.setup.variables} | content | {name: value for name, value in given.items() if value}
    )


def _without_mounts(spec: GridSpec) -> dict[str, str]:
    """group_vars of machines that mount nothing: for roles of file systems there is none then."""
    nothing = _SOME_VARIABLES + playbook_yaml(
        {"gridwright_mounts": [], **without_libraries(spec), **_of_kinds(spec, present=False)}
    )
    return {
        f"group_vars/{inventory_group(name)}.yml": nothing
        for name, group in spec.machines.items()
        if not group.mounts
    }


def _of_kinds(spec: GridSpec, *, present: bool = True) -> dict[str, object]:
    """What roles of kinds of file systems have to know; else what they know where there is none."""
    found: dict[str, object] = {}
    for name, kind in all_kinds():
        own = [filesystem for filesystem in spec.filesystems.values() if present and filesystem.type == name]
        found |= kind.playbook_variables(own) if isinstance(kind, ClientSettings) else {}
    return found


def _programs_of_kinds(spec: GridSpec) -> dict[str, bytes]:
    """Programs that roles of kinds bring, of file systems that the spec has."""
    from gridwright.node_programs.one_file import NodeProgram

    there = {filesystem.type for filesystem in spec.filesystems.values()}
    roles = {role.name: role for name, kind in all_kinds() if name in there for role in kind.playbook_roles()}
    return {
        f"roles/{role.name}/files/{program.name}.pyz": program.archive()
        for role in roles.values()
        if role.program
        for program in [NodeProgram(role.program, role.task)]
    }


def _of_schedulers(spec: GridSpec, setup: SchedulerSetup | None) -> dict[str, object]:
    """What roles of kinds of schedulers have to know."""
    found: dict[str, object] = {}
    for kind in schedulers.all_kinds():
        own = setup if kind is schedulers.scheduler_kind(spec.scheduler) else None
        # A site that provides its own machines may have a scheduler of its own: it asks for one by name.
        found |= kind.playbook_variables(own, sets_up=spec.is_cloud)
    return found


def _mounts(spec: GridSpec, sources: Mapping[str, str]) -> list[dict[str, str]]:
    entries = [
        entry.for_nodes(suid=filesystem.suid)
        for name, filesystem in spec.filesystems.items()
        if (entry := kind_of(filesystem).mount_entry(filesystem, sources.get(name))) is not None
    ]
    return [
        {
            "source": entry.source,
            "path": entry.mount_point,
            "type": entry.type,
            "options": entry.option_text,
        }
        for entry in entries
    ]


def _state(spec: GridSpec, provided: Provided) -> dict[str, object]:
    """The state directory that users share; nothing where each has one of their own, on one machine."""
    if spec.is_one_machine or spec.scheduler.runs_on_one_machine:
        return {}
    state = state_directory(spec)
    mounts = (
        [mount["path"] for mount in _mounts(spec, provided.sources)]
        if spec.provider_kind.has_own_kernels
        else []
    )
    below = max((path for path in mounts if state.is_relative_to(path)), key=len, default="")
    return {"gridwright_state": {"path": str(state), "mount": below, "parts": list(PARTS)}}


def _scratch(spec: GridSpec) -> dict[str, Any]:
    """What the scratch program reads; nothing where no file system lies on an instance store."""
    configuration = scratch_configuration(spec, read_ahead_kib=_read_ahead_kib())
    return configuration if configuration["arrays"] else {}


def _read_ahead_kib() -> int:
    """Of the tuning table, so that array and member disks have the same."""
    return cast("int", next(row.value for row in tuning_rows() if row.name == "block-read-ahead"))


def tree(directory: Traversable, below: str = "") -> dict[str, str]:
    """All text files of a directory of a package, by their path below it; it is read once."""
    # Paths are hashable, which the protocol does not say.
    return {f"{below}{name}": text for name, text in _tree(cast("Any", directory)).items()}


@cache
def _tree(directory: Any) -> dict[str, str]:  # noqa: ANN401 - a Traversable
    return dict(_read(directory, ""))


def _read(directory: Traversable, below: str) -> Iterator[tuple[str, str]]:
    for entry in directory.iterdir():
        if not entry.is_dir():
            yield below + entry.name, entry.read_text("utf-8")
        elif entry.name != "__pycache__":
            yield from _read(entry, f"{below}{entry.name}/")


_INVENTORY = """\
# Nodes by what they are there for: compute runs jobs, storage serves file systems, head schedules, machines
# are beside them. A node may be in several groups. To reach one otherwise than by its name, write
# ansible_host, ansible_port and ansible_user beside it, in an inventory of your own (ansible-playbook -i,
# gridwright setup --inventory).
---
"""
_SOME_VARIABLES = """\
# These machines mount none of the grid's file systems.
---
"""
_VARIABLES = """\
# What the grid spec says of its nodes. What a site chooses beside it are the defaults of the roles, such as
# lustre_client_repository and slurm_munge_key_file: write them into a file of your own, and name it with
# ansible-playbook --extra-vars @FILE, or gridwright setup --variables FILE.
---
"""


PLAYBOOK = "image.yml"
_LATER = "told-at-the-start-of-a-machine"
"""Stands for what machines mount: an image mounts nothing."""
_ROLES = "    # ROLES\n"
_IMAGE_INVENTORY = """\
# The machine that the playbook runs on, which has all that compute, login and head node have.
---
image:
  hosts:
    machine: {ansible_connection: local}
compute:
  hosts: {machine: null}
head:
  hosts: {machine: null}
"""


def image_playbook_files(
    spec: GridSpec, scheduler: SchedulerSetup | None, provided: Provided
) -> dict[str, str | bytes]:
    """Every file of it, by its path; the same spec gives the same bytes.

    Roles of the site are not among them: they run when machines start. Raises GridwrightError as
    `playbook_files` does.
    """
    nowhere = replace(provided, sources=dict.fromkeys(provided.sources, _LATER), addresses={}, layouts={})
    files = playbook_files(spec, Hosts(), scheduler, nowhere, groups=())
    text = resources.files("gridwright.setup").joinpath(PLAYBOOK).read_text("utf-8")
    roles = [role for role in (*provided.roles, *_roles_of_kinds()) if role.has_install]
    files[PLAYBOOK] = text.replace(_ROLES, "\n".join(role.as_install_task() for role in roles))
    files["inventory.yml"] = _IMAGE_INVENTORY
    del files["site.yml"]
    return {name: files[name] for name in sorted(files)}
