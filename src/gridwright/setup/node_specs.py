"""What programs of nodes need to know of a grid spec: its users, mounts to be there, and scratch storage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import NodeDisks, ScratchArray
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.node_programs.health.configuration import SCHEMA as HEALTH_SCHEMA
from gridwright.node_programs.scratch.configuration import READ_AHEAD_KIB
from gridwright.node_programs.scratch.configuration import SCHEMA as SCRATCH_SCHEMA
from gridwright.node_programs.users.configuration import SCHEMA as USERS_SCHEMA
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.users import ActiveDirectory, Ldap, Person, UserDirectory, Users

SECRET_FILE = "/etc/gridwright/directory.secret"  # noqa: S105 - where it is
"""Where machines of a cloud put what they read from its service of secrets."""
_MOST_CA_BYTES = 1 << 18
_ON_EACH = "/home"
_BEGIN, _PRIVATE = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"

_NOTHING: Mapping[str, Any] = {
    "schema": USERS_SCHEMA,
    "groups": {},
    "accounts": [],
    "homes": None,
    "directory": None,
}


def users_configuration(spec: GridSpec) -> dict[str, Any]:
    """What /etc/gridwright/users.json holds, without who makes homes: plain data.

    Without a section `users` there are none: who was in one is locked. Raises GridwrightError (INPUT) where
    the file with certificates cannot be used.
    """
    users = spec.users
    if users is None:
        return {**_NOTHING, "grid": spec.name}
    homes = _homes(spec, users)
    below = str(homes["directory"]) if homes else _ON_EACH
    return {
        "schema": USERS_SCHEMA,
        "grid": spec.name,
        "groups": dict(users.groups),
        "accounts": [_account(name, each, users, below) for name, each in users.local.items()],
        "homes": homes,
        "directory": _directory(spec, users, below),
    }


def secret_of(users: Users | None) -> str | None:
    """Where the secret of its directory is, as the spec has it: an ARN or a file."""
    if users is None:
        return None
    if users.ad is not None:
        return users.ad.join.secret
    return users.ldap.bind.secret if users.ldap is not None and users.ldap.bind is not None else None


def secret_arn(spec: GridSpec) -> str | None:
    """The secret that machines of a cloud read; None where there is none, or it is a file."""
    secret = secret_of(spec.users)
    return secret if secret is not None and secret.startswith("arn:") else None


def _secret_file(users: Users) -> str | None:
    secret = secret_of(users)
    return SECRET_FILE if secret is not None and secret.startswith("arn:") else secret


def _homes(spec: GridSpec, users: Users) -> dict[str, str | None] | None:
    if users.homes is None:
        return None
    filesystem = spec.filesystems[users.homes.filesystem]
    # A kind that fstab has no part in may be mounted further up.
    is_mounted = not spec.provider_kind.has_own_kernels or kind_of(filesystem).mount_entry(filesystem, "any")
    return {
        "directory": str(filesystem.path / users.homes.path),
        "mount": str(filesystem.path) if is_mounted else None,
    }


def _account(name: str, person: Person, users: Users, homes: str) -> dict[str, Any]:
    gid = person.uid if person.group is None else users.groups[person.group]
    return {
        "name": name,
        "uid": person.uid,
        "gid": gid,
        "own_group": person.group is None,
        "groups": sorted(set(person.groups) - {person.group}),
        "comment": person.full_name,
        "home": f"{homes}/{name}",
        "shell": person.shell,
        "keys": list(person.keys),
    }


def _directory(spec: GridSpec, users: Users, homes: str) -> dict[str, Any] | None:
    directory = users.directory
    if directory is None:
        return None
    name = users.ad.domain if users.ad is not None else "grid"
    own = _ldap(users.ldap) if users.ldap is not None else _active_directory(users.ad)
    services = ["nss", "pam", *(["ssh"] if "keys" in directory.login else [])]
    domain = f"domain/{name}"
    return {
        "sections": {
            "sssd": {"services": ", ".join(services), "domains": name},
            # Accounts of the machine are its own, whatever a directory has.
            "nss": {"filter_users": "root", "filter_groups": "root"},
            "pam": {"offline_credentials_expiration": str(directory.offline_days)},
            domain: {**own, **_of_both(directory), "override_homedir": f"{homes}/%u"},
        },
        "secret": _secret_file(users),
        "bind_section": domain if users.ldap is not None and users.ldap.bind is not None else None,
        "ca": _certificates(spec, users.ldap.ca) if users.ldap is not None and users.ldap.ca else None,
        "login": list(directory.login),
        "join": _join(users.ad) if users.ad is not None else None,
    }


def _of_both(directory: UserDirectory) -> dict[str, str]:
    """sssd.conf(5), sssd-simple(5)."""
    allow = (
        {"access_provider": "simple", "simple_allow_groups": ", ".join(directory.allow_groups)}
        if directory.allow_groups
        else {}
    )
    return {
        "cache_credentials": "true" if directory.offline_days else "false",
        "default_shell": directory.shell,
        # Listing a whole directory is slow, and nothing of a grid needs it.
        "enumerate": "false",
        "min_id": "1000",
        **allow,
    }


def _ldap(ldap: Ldap | None) -> dict[str, str]:
    """sssd-ldap(5)."""
    assert ldap is not None  # noqa: S101 - for mypy
    return {
        "id_provider": "ldap",
        "auth_provider": "ldap",
        "access_provider": "permit",
        "ldap_uri": ", ".join(ldap.servers),
        "ldap_search_base": ldap.base,
        "ldap_schema": "rfc2307" if ldap.members == "names" else "rfc2307bis",
        "ldap_id_use_start_tls": "true",
        "ldap_tls_reqcert": "demand",
        **({"ldap_tls_cacert": "/etc/gridwright/directory-ca.pem"} if ldap.ca else {}),
        **({"ldap_default_bind_dn": ldap.bind.dn} if ldap.bind else {}),
    }


def _active_directory(ad: ActiveDirectory | None) -> dict[str, str]:
    """sssd-ad(5)."""
    assert ad is not None  # noqa: S101 - for mypy
    return {
        "id_provider": "ad",
        "access_provider": "ad",
        "ad_domain": ad.domain,
        "krb5_realm": ad.domain.upper(),
        **({"ad_server": ", ".join(ad.servers)} if ad.servers else {}),
        "ldap_id_mapping": "true" if ad.ids == "algorithmic" else "false",
        # The name that a machine joins under is no name of DNS.
        "dyndns_update": "false",
        "use_fully_qualified_names": "false",
        # Rules of the domain for Windows would else lock people out of ssh.
        "ad_gpo_access_control": "permissive",
        **({"ldap_user_ssh_public_key": "altSecurityIdentities"} if "keys" in ad.login else {}),
    }


def _join(ad: ActiveDirectory) -> dict[str, str | None]:
    """The computer's name is each machine's own: the playbook puts it in."""
    return {"domain": ad.domain, "user": ad.join.user, "ou": ad.ou, "computer": ""}


def _certificates(spec: GridSpec, path: Path) -> str:
    """Text of the file. Raises GridwrightError (INPUT)."""
    where = ("users", "ldap", "ca")
    try:
        text = path.read_bytes()[: _MOST_CA_BYTES + 1].decode("ascii")
    except OSError as error:
        problem = problem_at(spec, where, f"{path}: {error.strerror}", "name a file that can be read")
        raise GridwrightError(problem) from None
    except UnicodeDecodeError:
        text = ""
    if _PRIVATE in text:
        remedy = "name a file with certificates alone"
        raise GridwrightError(
            problem_at(spec, where, f"{path} has a private key, and it is copied to all machines", remedy)
        )
    if _BEGIN not in text or len(text) > _MOST_CA_BYTES:
        remedy = "name a file of PEM, whose certificates begin with " + _BEGIN
        raise GridwrightError(problem_at(spec, where, f"{path} is no file with certificates", remedy))
    return text


_NO_SOURCES: Mapping[str, str] = {}


def health_configuration(spec: GridSpec, sources: Mapping[str, str] = _NO_SOURCES) -> dict[str, Any]:
    """What /etc/gridwright/health.json holds on each compute node; plain data.

    `sources` are of file systems that the spec names no source of; they may be Jinja expressions. Raises
    GridwrightError where two file systems would each take all disks of a node.
    """
    # Nodes that share the kernel of one machine have no disks of their own, and directories in their place.
    arrays = scratch_configuration(spec)["arrays"] if spec.provider_kind.has_own_kernels else []
    below = [f"{array['mount_point']}/{each['path']}" for array in arrays for each in array["directories"]]
    scratch = [{"path": array["mount_point"], "types": [array["format"]], "source": None} for array in arrays]
    # Nodes of a cloud have such a directory only once a job has made it.
    own = [
        str(filesystem.path)
        for filesystem in spec.filesystems.values()
        if filesystem.is_node_local and filesystem.node_disks is None and not spec.is_cloud
    ]
    return {
        "schema": HEALTH_SCHEMA,
        "mounts": [*_mounts(spec, sources), *scratch],
        "directories": [*(array["mount_point"] for array in arrays), *below, *own],
    }


def _mounts(spec: GridSpec, sources: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, filesystem in spec.filesystems.items():
        kind = kind_of(filesystem)
        if kind.kernel_types:
            entry = kind.mount_entry(filesystem, sources.get(name))
            yield {
                "path": str(filesystem.path),
                "types": list(kind.kernel_types),
                "source": None if entry is None else entry.source,
            }


_LONGEST_NAME = 20
"""What md keeps of a name behind `gridwright:` (scratch.configuration)."""
_DIGITS = 6


def scratch_configuration(spec: GridSpec, *, read_ahead_kib: int = READ_AHEAD_KIB) -> dict[str, Any]:
    """What /etc/gridwright/scratch.json holds on each compute node; plain data, without arrays where none is.

    Each local file system on disks of an instance store becomes an array, and each library on it a directory.
    Raises GridwrightError where two of them would each take all disks.
    """
    found = {
        name: array
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), NodeDisks)
        and (array := kind.scratch_array(filesystem)) is not None
    }
    greedy = [name for name, array in found.items() if array.disks is None]
    if len(greedy) > 1:
        raise GridwrightError(
            *(
                Problem(
                    f"file systems {' and '.join(greedy)} would each take all disks of the instance store",
                    field=f"filesystems.{name}.disks.count",
                    remedy="say how many disks each has, or put their libraries on one file system",
                )
                for name in greedy
            )
        )
    arrays = [
        {**_array(spec, name, array), "read_ahead_kib": read_ahead_kib} for name, array in found.items()
    ]
    return {"schema": SCRATCH_SCHEMA, "arrays": arrays}


def _array(spec: GridSpec, name: str, array: ScratchArray) -> dict[str, Any]:
    filesystem = spec.filesystems[name]
    below: dict[str, str] = {}
    for library in spec.libraries:
        if spec.libraries[library].filesystem == name:
            directory = spec.library_directory(library).relative_to(filesystem.path)
            # Two libraries may share a directory; the more open one decides.
            mode = f"{LIBRARY_MODES[library]:04o}"
            below[directory.as_posix()] = max(mode, below.get(directory.as_posix(), ""))
    return {
        "name": array_name(name),
        "mount_point": str(filesystem.path),
        "members": array.disks,
        "chunk_bytes": array.chunk_bytes,
        "format": array.format,
        "owner": "root",
        "group": "root",
        "mode": below.pop(".", "0755"),
        "directories": [
            {"path": path, "owner": "root", "group": "root", "mode": mode} for path, mode in below.items()
        ],
    }


def array_name(filesystem: str) -> str:
    """The name of an array: the file system's; of a long one its beginning and a digest of the whole."""
    if len(filesystem) <= _LONGEST_NAME:
        return filesystem
    digest = hashlib.sha256(filesystem.encode()).hexdigest()[:_DIGITS]
    return f"{filesystem[: _LONGEST_NAME - _DIGITS - 1].rstrip('-')}-{digest}"
