"""Rules between fields of a grid spec, and defaults that come from other fields.

Works on the plain data of a spec, so that these problems are found beside those of single fields.
Whatever has the wrong type is passed over here; the models report it.

Rules between fields of the section `users`, on plain data: numbers, groups, homes, where secrets are.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.errors import nearest
from gridwright.spec.fields import mapping_of
from gridwright.spec.filesystem import ProviderRules, filesystem_kind_in
from gridwright.spec.findings import KNOWN, known_findings
from gridwright.spec.hosts import MOST_HOSTS, expand_hosts
from gridwright.spec.machines import counted as counted_machines
from gridwright.spec.machines import machine_problems, only_on_problems
from gridwright.spec.monitoring import monitoring_problems
from gridwright.spec.power import buying_problems, power_problems
from gridwright.spec.provider import PROVIDERS, ProviderKind, provider_in
from gridwright.spec.repository_problems import repository_problems
from gridwright.spec.requirements import bound_problems
from gridwright.spec.scheduler import queue_problems, scheduler_kind_in
from gridwright.spec.site_setup import setup_problems
from gridwright.spec.users import ALGORITHMIC
from gridwright.units import Bytes, UnitError
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import KEY, Refused

_Problems = Iterator[tuple[tuple[str, ...], FieldError]]
_IMAGE_ACCOUNT = 1000
"""Of the account that images of clouds bring for administrators: ubuntu, ec2-user, rocky."""


def user_problems(data: Mapping[str, Any], provider: ProviderKind | None) -> _Problems:
    """What is wrong between fields of `users`; what has the wrong type is passed over."""
    users = mapping_of(data, "users")
    people = {name: each for name, each in mapping_of(users, "local").items() if isinstance(each, Mapping)}
    groups = mapping_of(users, "groups")
    if "ldap" in users and "ad" in users:
        yield (
            ("users", "ad", KEY),
            FieldError("the grid has a directory of LDAP, too", "leave one of them out"),
        )
    yield from _numbers(people, groups)
    yield from _memberships(people, groups)
    if isinstance(mapping_of(users, "ad").get("domain"), str):
        yield from _algorithmic(users, people, groups)
    if provider is not None and provider.is_cloud:
        yield from _of_images(people, groups)
    elif provider is not None:
        yield from _secrets(users)
    yield from _homes(data, users, provider)


def _numbers(people: Mapping[str, Any], groups: Mapping[str, Any]) -> _Problems:
    """Two accounts, or two groups, with one number; a user of whom a group of its own has a taken name."""
    taken: dict[object, str] = {}
    for name, number in groups.items():
        other = taken.setdefault(number, name)
        if isinstance(number, int) and other != name:
            yield (
                ("users", "groups", name),
                FieldError(f"{number} is the number of {other}, too", "write another"),
            )
    users: dict[object, str] = {}
    for name, person in people.items():
        uid, path = person.get("uid"), ("users", "local", name)
        if not isinstance(uid, int):
            continue
        other = users.setdefault(uid, name)
        if other != name:
            yield (*path, "uid"), FieldError(f"{uid} is the number of {other}, too", "write another")
        if "group" in person:
            continue
        if name in groups:
            yield (
                (*path, KEY),
                FieldError(f"a group is called {name}, too", f"write group: {name}, or call one otherwise"),
            )
        elif taken.get(uid) is not None and taken[uid] in groups:
            yield (
                (*path, "uid"),
                FieldError(
                    f"its own group would have the number of group {taken[uid]}",
                    "write another number, or name its primary group with group:",
                ),
            )


def _memberships(people: Mapping[str, Any], groups: Mapping[str, Any]) -> _Problems:
    """Groups that the spec does not have."""
    for name, person in people.items():
        required: list[tuple[tuple[str, ...], Any]] = [(("group",), person.get("group"))]
        listed = person.get("groups")
        required += [
            (("groups", str(at)), one) for at, one in enumerate(listed if isinstance(listed, list) else [])
        ]
        for path, group in required:
            if isinstance(group, str) and group not in groups:
                near = nearest(group, list(groups))
                hint = f"did you mean {near}? " if near else ""
                yield (
                    ("users", "local", name, *path),
                    FieldError(
                        f"there is no group {show(group)}",
                        f"{hint}add it with its number: users: {{groups: {{{group}: 3001}}}}",
                    ),
                )


def _algorithmic(users: Mapping[str, Any], people: Mapping[str, Any], groups: Mapping[str, Any]) -> _Problems:
    """Numbers that SSSD may give somebody of the domain."""
    if mapping_of(users, "ad").get("ids", "algorithmic") != "algorithmic":
        return
    for path, number in _written(people, groups):
        if number in ALGORITHMIC:
            yield (
                path,
                FieldError(
                    f"{number} is among those that people of the domain get, "
                    f"{ALGORITHMIC.start} to {ALGORITHMIC.stop - 1}",
                    f"write one below {ALGORITHMIC.start}",
                ),
            )


def _of_images(people: Mapping[str, Any], groups: Mapping[str, Any]) -> _Problems:
    for path, number in _written(people, groups):
        if number == _IMAGE_ACCOUNT:
            yield (
                path,
                FieldError(
                    f"{number} is the number of the administrator that images of clouds have", "write another"
                ),
            )


def _written(people: Mapping[str, Any], groups: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], int]]:
    for name, number in groups.items():
        if isinstance(number, int):
            yield ("users", "groups", name), number
    for name, person in people.items():
        if isinstance(person.get("uid"), int):
            yield ("users", "local", name, "uid"), person["uid"]


def _secrets(users: Mapping[str, Any]) -> _Problems:
    """Secrets of a cloud are read by machines that it makes."""
    for kind, section in (("ldap", "bind"), ("ad", "join")):
        secret = mapping_of(mapping_of(users, kind), section).get("secret")
        if isinstance(secret, str) and secret.startswith("arn:"):
            yield (
                ("users", kind, section, "secret"),
                FieldError(
                    "only machines of AWS can read this secret",
                    "write the path of a file that only root reads, on each machine",
                ),
            )


def _homes(data: Mapping[str, Any], users: Mapping[str, Any], provider: ProviderKind | None) -> _Problems:
    homes, filesystems = mapping_of(users, "homes"), mapping_of(data, "filesystems")
    name, path = homes.get("filesystem"), homes.get("path", "homes")
    if not isinstance(name, str):
        return
    if name not in filesystems:
        near = nearest(name, list(filesystems))
        hint = f"did you mean {near}? " if near else ""
        yield (
            ("users", "homes", "filesystem"),
            FieldError(f"there is no file system {show(name)}", f"{hint}add it under filesystems"),
        )
        return
    kind = filesystem_kind_in(filesystems[name])
    has_own_kernels = provider is None or provider.has_own_kernels
    if kind is not None and kind.spec_model.is_node_local and has_own_kernels:
        yield (
            ("users", "homes", "filesystem"),
            FieldError(
                f"each machine has its own {name}: a home there would not be the same anywhere else",
                "name a file system that all machines mount, such as one of type nfs",
            ),
        )
    if isinstance(path, str):
        yield from _within_libraries(data, name, posixpath.normpath(path), written="path" in homes)


def _within_libraries(data: Mapping[str, Any], name: str, path: str, *, written: bool) -> _Problems:
    """Homes inside or around a library: emptying the library would empty them."""
    for library, each in mapping_of(data, "libraries").items():
        if not isinstance(each, Mapping) or each.get("filesystem") != name:
            continue
        other = each.get("path")
        if not isinstance(other, str) or not other.strip():
            continue
        inner, outer = sorted((path, posixpath.normpath(other)), key=len, reverse=True)
        if outer in (inner, ".") or inner.startswith(f"{outer}/"):
            yield (
                ("users", "homes", *(["path"] if written else [])),
                FieldError(
                    f"{show(path)} is the directory of library {library}, or inside or around it",
                    "give homes a directory of their own, such as homes",
                ),
            )


Path = tuple[str, ...]
ROLES = ("data", "work", "util")
"""The libraries a grid can have."""

MAX_NODES = MOST_HOSTS
"""Most nodes in a group."""


def fill_defaults(data: Any) -> Any:  # noqa: ANN401 - whatever YAML or a caller gave
    """A copy with the defaults out of other fields: the only file system, a library's own directory."""
    if not isinstance(data, Mapping):
        return data
    data = _counted(data)
    if "machines" in data:
        data = {**data, "machines": counted_machines(data["machines"])}
    only = _only_filesystem(data)
    libraries = data.get("libraries", {role: {} for role in ROLES} if only else None)
    if not isinstance(libraries, Mapping):
        return data
    filled = {name: _filled(name, library, only) for name, library in libraries.items()}
    return {**data, "libraries": filled}


def libraries_without_filesystem(data: Mapping[str, Any]) -> frozenset[str]:
    """The libraries of plain data, before defaults are filled in, that name no file system."""
    libraries = mapping_of(data, "libraries")
    return frozenset(
        str(name)
        for name, library in libraries.items()
        if isinstance(library, Mapping) and "filesystem" not in library
    )


def _counted(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Groups whose hosts are named have as many nodes as that."""
    groups = data.get("nodes")
    if not isinstance(groups, Mapping):
        return data
    return {**data, "nodes": {name: _with_count(group) for name, group in groups.items()}}


def _with_count(group: Any) -> Any:  # noqa: ANN401
    named = _named(group)
    return group if named is None or "count" in group else {**group, "count": named}


def _named(group: Any) -> int | None:  # noqa: ANN401
    """How many nodes a group names; None where it names none, or none that can be read."""
    hosts = group.get("hosts") if isinstance(group, Mapping) else None
    if not isinstance(hosts, str):
        return None
    try:
        return len(expand_hosts(hosts.strip()))
    except FieldError:
        return None


def _filled(name: Any, library: Any, only: str | None) -> Any:  # noqa: ANN401
    if not isinstance(library, Mapping) or name not in ROLES:
        return library
    defaults = {"path": name, **({"filesystem": only} if only else {})}
    return {**defaults, **library}


def _only_filesystem(data: Mapping[str, Any]) -> str | None:
    names = list(mapping_of(data, "filesystems"))
    return names[0] if len(names) == 1 and isinstance(names[0], str) else None


def cross_problems(data: Any) -> Iterator[Refused]:  # noqa: ANN401
    """Problems between fields: a path and a FieldError, or a section and the name of its missing field."""
    if not isinstance(data, Mapping):
        return
    yield from _library_problems(data)
    yield from bound_problems(data)
    yield from _growth_problems(data)
    yield from _shared_directories(data)
    required = data.get("requirements")
    if isinstance(required, Mapping) and not (
        "cores" in required or {"jobs", "finish_within"} <= set(required)
    ):
        yield ("requirements",), "cores"
    provider = provider_in(data)
    yield from _named_nodes(data, provider)
    if provider is not None:
        yield from _nodes_by_type(data, provider)
        yield from _other_sections(data, provider)
        yield from provider.problems(data)
        yield from power_problems(data, provider)
        yield from buying_problems(data, provider)
    yield from _of_kinds(data, provider)
    yield from repository_problems(data, provider)
    yield from queue_problems(data)
    yield from setup_problems(data)
    yield from monitoring_problems(data)
    yield from machine_problems(data, provider)
    yield from only_on_problems(data)
    yield from user_problems(data, provider)
    for name in mapping_of(data, "silence"):
        if name not in KNOWN and name not in (known := known_findings()):
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else "all findings: gridwright help grid-spec"
            yield ("silence", name, KEY), FieldError(f"there is no finding {show(name)}", hint)


def _library_problems(data: Mapping[str, Any]) -> Iterator[tuple[Path, FieldError | str]]:
    defined = list(mapping_of(data, "filesystems"))
    to_be_planned = "requirements" in data and not data.get("filesystems")
    if not data.get("filesystems") and isinstance(data.get("filesystems", {}), Mapping) and not to_be_planned:
        yield from _no_filesystem(data)
    if "libraries" not in data and (defined or to_be_planned):
        yield (), "libraries"
    if to_be_planned:
        yield from _placed_before_planning(data)
    if isinstance(data.get("libraries"), Mapping) and not data["libraries"]:
        yield ("libraries",), FieldError("no library is named", f"name one or more of {', '.join(ROLES)}")
    for name, library in mapping_of(data, "libraries").items():
        if not isinstance(library, Mapping) or name not in ROLES or not defined:
            continue
        kind = filesystem_kind_in(mapping_of(data, "filesystems").get(str(library.get("filesystem"))))
        if library.get("layout") is not None and kind is not None and not kind.spec_model.takes_layouts:
            yield (
                ("libraries", name, "layout"),
                FieldError(
                    f"files on {show(library.get('filesystem'))} have no layout that one chooses",
                    "remove the line; file systems of Lustre have layouts",
                ),
            )
        required = library.get("filesystem")
        if "filesystem" not in library:
            # A spec with requirements leaves it to the plan.
            if "requirements" not in data:
                yield ("libraries", name), "filesystem"
        elif isinstance(required, str) and required not in defined:
            near = nearest(required, defined)
            hint = f"did you mean {near}? " if near and len(defined) > 1 else ""
            names = f"write {defined[0]}" if len(defined) == 1 else f"File systems are {', '.join(defined)}"
            yield (
                ("libraries", name, "filesystem"),
                FieldError(
                    f"there is no file system {show(required)}", f"{hint}{names}; or add it under filesystems"
                ),
            )


def _no_filesystem(data: Mapping[str, Any]) -> Iterator[tuple[Path, FieldError | str]]:
    if "filesystems" not in data:
        yield (), "filesystems"
    else:
        yield (
            ("filesystems",),
            FieldError(
                "filesystems is empty, and at least one entry is needed",
                "name one, or add requirements: and run gridwright plan",
            ),
        )


def _placed_before_planning(data: Mapping[str, Any]) -> Iterator[tuple[Path, FieldError]]:
    for name, library in mapping_of(data, "libraries").items():
        if name in ROLES and isinstance(library, Mapping) and isinstance(library.get("filesystem"), str):
            yield (
                ("libraries", name, "filesystem"),
                FieldError(
                    f"there is no file system {show(library['filesystem'])}: the grid is yet to be planned",
                    "remove the line, or describe the file system under filesystems",
                ),
            )


def _nodes_by_type(data: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    """What nodes of a cloud need, and nodes of one's own cannot have."""
    if provider.market.needs_region and "region" not in data:
        yield (), "region"
    to_be_planned = "requirements" in data and "nodes" not in data
    if provider.is_cloud and "nodes" not in data and not to_be_planned:
        yield (), "nodes"
    for name, group in mapping_of(data, "nodes").items():
        if not isinstance(group, Mapping):
            continue
        # A spec with requirements leaves it to the plan.
        if provider.is_cloud and "instance" not in group and "requirements" not in data:
            yield ("nodes", name), "instance"
        if not provider.is_cloud and "instance" in group:
            yield (
                ("nodes", name, "instance"),
                FieldError(
                    f"provider {provider.name} has no instance types: its nodes come out of no catalogue",
                    "remove the line, or write provider: aws",
                ),
            )


def _other_sections(data: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    """Sections that only other providers have."""
    for name in data:
        if name != provider.name and name in PROVIDERS.names() and PROVIDERS.get(name).section is not None:
            yield (
                (name, KEY),
                FieldError(
                    f"provider {provider.name} has no section {name}", f"remove it, or write provider: {name}"
                ),
            )


def _growth_problems(data: Mapping[str, Any]) -> Iterator[tuple[Path, FieldError]]:
    """Libraries that are to hold less in a year than now: a plan is for growth alone."""
    for name, library in mapping_of(data, "libraries").items():
        if not isinstance(library, Mapping) or "capacity_in_12_months" not in library:
            continue
        now, later = (_bytes(library.get(field)) for field in ("capacity", "capacity_in_12_months"))
        path = ("libraries", name, "capacity_in_12_months")
        if "capacity" not in library:
            yield path, FieldError("nothing says what it needs now", "add capacity: with that")
        elif now is not None and later is not None and later < now:
            yield (
                path,
                FieldError(
                    f"{library['capacity']} now and {library['capacity_in_12_months']} later is no growth",
                    "write at least the capacity, or remove the line",
                ),
            )


def _bytes(written: object) -> int | None:
    """A size in bytes; None where it cannot be read."""
    try:
        return None if written is None else int(Bytes.parse(written))
    except UnitError:
        return None


def _shared_directories(data: Mapping[str, Any]) -> Iterator[tuple[Path, FieldError]]:
    """Libraries within each other: emptying the one would empty the other."""
    seen: list[tuple[str, str, str]] = []
    for name, library in mapping_of(data, "libraries").items():
        if name not in ROLES or not isinstance(library, Mapping):
            continue
        filesystem, path = library.get("filesystem"), library.get("path")
        if not isinstance(filesystem, str) or not isinstance(path, str) or not path.strip():
            continue
        mine = posixpath.normpath(path)
        for other, other_filesystem, other_path in seen:
            inner, outer = sorted((mine, other_path), key=len, reverse=True)
            if filesystem == other_filesystem and (outer in (inner, ".") or inner.startswith(outer + "/")):
                relation = "the directory of" if inner == outer else "inside or around the directory of"
                yield (
                    ("libraries", name, "path") if "path" in library else ("libraries", name),
                    FieldError(
                        f"{show(path)} is {relation} library {other}",
                        "give each library a directory of its own",
                    ),
                )
        seen.append((name, filesystem, mine))


def _of_kinds(data: Mapping[str, Any], provider: ProviderKind | None) -> Iterator[tuple[Path, FieldError]]:
    """What kinds of file systems know of their own fields, and of their provider."""
    for name, filesystem in mapping_of(data, "filesystems").items():
        kind = filesystem_kind_in(filesystem)
        if kind is None:
            continue
        for path, problem in kind.problems(filesystem):
            yield ("filesystems", name, *path), problem
        if provider and isinstance(kind, ProviderRules):
            for path, problem in kind.provider_problems(filesystem, data, provider):
                yield ("filesystems", name, *path), problem


def _named_nodes(data: Mapping[str, Any], provider: ProviderKind | None) -> Iterator[tuple[Path, FieldError]]:
    """Hosts of groups: whether the provider lets a site name them, and whether they are counted right."""
    scheduler = scheduler_kind_in(data)
    whose: dict[str, str] = {}
    for name, group in mapping_of(data, "nodes").items():
        named = _named(group)
        if named is None:
            continue
        path = ("nodes", name, "hosts")
        if provider is not None and provider.names_its_nodes:
            yield path, FieldError(f"provider {provider.name} names its nodes itself", "remove the line")
            continue
        if isinstance(group.get("count"), int) and group["count"] != named:
            yield (
                ("nodes", name, "count"),
                FieldError(f"hosts names {named} nodes, and count is {group['count']}", "remove the count"),
            )
        twice = [
            expand_host
            for expand_host in expand_hosts(group["hosts"].strip())
            if whose.setdefault(expand_host, name) != name
        ]
        if twice:
            problem = f"{show(twice[0])} is in group {whose[twice[0]]}, too"
            yield path, FieldError(problem, "name each node in one group")
        if scheduler is not None and scheduler.spec_model.runs_on_one_machine:
            yield (
                path,
                FieldError(
                    "the local scheduler is for the machine that Gridwright runs on",
                    "write scheduler: {type: slurm}, or {type: ssh} where there is none",
                ),
            )
