"""Rules between fields of the section `users`, on plain data: numbers, groups, homes, where secrets are."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.errors import nearest
from gridwright.spec.account_fields import ALGORITHMIC
from gridwright.spec.filesystem import filesystem_kind_in
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.together import KEY

_Problems = Iterator[tuple[tuple[str, ...], FieldError]]
_IMAGE_ACCOUNT = 1000
"""Of the account that images of clouds bring for administrators: ubuntu, ec2-user, rocky."""


def user_problems(data: Mapping[str, Any], provider: ProviderKind | None) -> _Problems:
    """What is wrong between fields of `users`; what has the wrong type is passed over."""
    users = _mapping(data, "users")
    people = {name: each for name, each in _mapping(users, "local").items() if isinstance(each, Mapping)}
    groups = _mapping(users, "groups")
    if "ldap" in users and "ad" in users:
        yield (
            ("users", "ad", KEY),
            FieldError("the grid has a directory of LDAP, too", "leave one of them out"),
        )
    yield from _numbers(people, groups)
    yield from _memberships(people, groups)
    if isinstance(_mapping(users, "ad").get("domain"), str):
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
    for name, each in people.items():
        uid, path = each.get("uid"), ("users", "local", name)
        if not isinstance(uid, int):
            continue
        other = users.setdefault(uid, name)
        if other != name:
            yield (*path, "uid"), FieldError(f"{uid} is the number of {other}, too", "write another")
        if "group" in each:
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
    for name, each in people.items():
        wanted: list[tuple[tuple[str, ...], Any]] = [(("group",), each.get("group"))]
        listed = each.get("groups")
        wanted += [
            (("groups", str(at)), one) for at, one in enumerate(listed if isinstance(listed, list) else [])
        ]
        for path, group in wanted:
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
    if _mapping(users, "ad").get("ids", "algorithmic") != "algorithmic":
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
    for name, each in people.items():
        if isinstance(each.get("uid"), int):
            yield ("users", "local", name, "uid"), each["uid"]


def _secrets(users: Mapping[str, Any]) -> _Problems:
    """Secrets of a cloud are read by machines that it makes."""
    for kind, section in (("ldap", "bind"), ("ad", "join")):
        secret = _mapping(_mapping(users, kind), section).get("secret")
        if isinstance(secret, str) and secret.startswith("arn:"):
            yield (
                ("users", kind, section, "secret"),
                FieldError(
                    "only machines of AWS can read this secret",
                    "write the path of a file that only root reads, on each machine",
                ),
            )


def _homes(data: Mapping[str, Any], users: Mapping[str, Any], provider: ProviderKind | None) -> _Problems:
    homes, filesystems = _mapping(users, "homes"), _mapping(data, "filesystems")
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
    for library, each in _mapping(data, "libraries").items():
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


def _mapping(data: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, Mapping) else {}
