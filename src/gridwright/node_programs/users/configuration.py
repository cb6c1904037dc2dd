"""What the machine is to have: users.json, as the playbook writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
CONFIGURATION = Path("/etc/gridwright/users.json")
WRONG_INPUT, FAILED = 2, 3
"""Exit statuses: a configuration that cannot be read, and a machine that cannot be as it says."""


class UsersError(Exception):
    """What is wrong; `status` is the exit status."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Account:
    """A person on all machines."""

    name: str
    uid: int
    gid: int
    own_group: bool
    """Whether its primary group is of its own, with its name."""
    groups: tuple[str, ...]
    comment: str
    home: str
    shell: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SharedHomes:
    """The directory of all homes, on a file system that is mounted at `mount`; None where it need not be."""

    directory: str
    mount: str | None


@dataclass(frozen=True)
class JoinedDomain:
    """The domain of an Active Directory that the machine is a member of."""

    domain: str
    user: str
    ou: str | None
    computer: str


@dataclass(frozen=True)
class DirectoryOfUsers:
    """What SSSD is configured with."""

    sections: Mapping[str, Mapping[str, str]]
    """sssd.conf(5) without its secret."""
    secret: str | None
    """File of root with the password of who asks or joins."""
    bind_section: str | None
    """Section that the secret is written into; None where it is for joining alone."""
    ca: str | None
    """Certificates in PEM."""
    login: tuple[str, ...]
    join: JoinedDomain | None


@dataclass(frozen=True)
class UsersConfiguration:
    """All of it."""

    grid: str
    groups: Mapping[str, int]
    accounts: tuple[Account, ...]
    homes: SharedHomes | None
    makes_homes: bool
    """Whether root of this machine makes homes on the shared file system, where it may write."""
    directory: DirectoryOfUsers | None

    @property
    def is_empty(self) -> bool:
        """Whether its spec has no users, groups and directory."""
        return not self.accounts and not self.groups and self.directory is None


def read_configuration(path: Path) -> UsersConfiguration:
    """Read the file. Raises UsersError (WRONG_INPUT)."""
    try:
        return parse_configuration(path.read_text("utf-8"))
    except OSError as error:
        raise UsersError(f"{path}: {error.strerror}", WRONG_INPUT) from None


def parse_configuration(text: str) -> UsersConfiguration:
    """The same from its text. Raises UsersError (WRONG_INPUT)."""
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise UsersError(f"schema {data['schema']} is of another release of Gridwright", WRONG_INPUT)
        return UsersConfiguration(
            grid=str(data["grid"]),
            groups={str(name): int(number) for name, number in data["groups"].items()},
            accounts=tuple(_account(each) for each in data["accounts"]),
            homes=SharedHomes(**data["homes"]) if data["homes"] else None,
            makes_homes=bool(data["makes_homes"]),
            directory=_directory(data["directory"]) if data["directory"] else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsersError(f"the configuration cannot be read: {error!r}", WRONG_INPUT) from None


def _account(data: Mapping[str, Any]) -> Account:
    return Account(**{**data, "groups": tuple(data["groups"]), "keys": tuple(data["keys"])})


def _directory(data: Mapping[str, Any]) -> DirectoryOfUsers:
    join = JoinedDomain(**data["join"]) if data["join"] else None
    return DirectoryOfUsers(**{**data, "login": tuple(data["login"]), "join": join})
