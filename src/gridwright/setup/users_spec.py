"""Makes out of a grid spec what machines need to know of its users: accounts, homes, and SSSD's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.node_programs.users.configuration import SCHEMA
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.users import ActiveDirectory, Ldap, Person, UserDirectory, Users

SECRET_FILE = "/etc/gridwright/directory.secret"  # noqa: S105 - where it is
"""Where machines of a cloud put what they read from its service of secrets."""
_MOST_CA_BYTES = 1 << 18
_ON_EACH = "/home"
_BEGIN, _PRIVATE = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"

_NOTHING: Mapping[str, Any] = {
    "schema": SCHEMA,
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
        "schema": SCHEMA,
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
