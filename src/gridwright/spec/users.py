"""People of a grid: accounts of the spec with fixed numbers, a directory of users, and their homes.

Fields of names, numbers and public keys of accounts, and of where secrets are, are here, too.
"""

from __future__ import annotations

import base64
import binascii
import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from gridwright.spec.fields import Change, Directory, HostName, SpecModel, Subdirectory, Update
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

FIRST_ID, LAST_ID = 1000, 2**31 - 1
"""Below the first are accounts of the system (UID_MIN of login.defs(5)); tools with signed numbers end at the
last."""
_SYSTEMD = range(60001, 65536)
"""Homes, dynamic users, nobody and the 16-bit -1 (systemd.io, Users, Groups, UIDs and GIDs)."""
ALGORITHMIC = range(200_000, 2_000_200_000)
"""Numbers that SSSD gives accounts of an Active Directory by their SID (sssd-ad(5), ldap_idmap_range_min)."""
ACCOUNT_PATTERN = r"^[a-z_][a-z0-9_-]{0,31}$"
"""Names that useradd(8) takes on Debian and Red Hat alike."""
SECRET_ARN = r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,519}"  # noqa: S105 - where one is
_KEY_TYPES = (
    *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
)
_LEAST_RSA_BITS = 2048
"""OpenSSH in Red Hat 9 refuses shorter ones (RequiredRSASize)."""


@cache
def reserved_accounts() -> dict[str, str]:
    """Accounts and groups that people cannot have, and whose they are; from data/reserved-accounts.csv."""
    text = resources.files("gridwright.spec").joinpath("data/reserved-accounts.csv").read_text("utf-8")
    return {row["name"]: row["of"] for row in csv.DictReader(text.splitlines())}


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(f"{show(value)} is not a number of an account", "write one, such as 2001")
    if not FIRST_ID <= value <= LAST_ID:
        raise FieldError(
            f"{value} is not for people: systems have their accounts below {FIRST_ID}",
            f"write a number from {FIRST_ID} on, such as {max(2001, min(value, 59_999))}",
        )
    if value in _SYSTEMD:
        raise FieldError(f"{value} is one that systemd gives out", "write one up to 60000, or from 65536 on")
    return value


def _account(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(ACCOUNT_PATTERN, value, re.ASCII):
        allowed = "use a to z, 0 to 9, _ and -, beginning with a letter, at most 32 characters"
        near = re.sub(r"[^a-z0-9_-]+", "", str(value).lower()).lstrip("-0123456789")[:32]
        remedy = f"write {near}, or another name: {allowed}" if near else allowed
        raise FieldError(f"{show(value)} is not a name that useradd takes", remedy)
    if (of := reserved_accounts().get(value)) is not None or value.startswith("systemd-"):
        raise FieldError(f"{value} is an account of {of or 'systemd'}", "give it another name")
    return value


def _public_key(value: object) -> str:
    """A line of authorized_keys without options (sshd(8)), and nothing that only looks like one."""
    example = "write the line of a file such as id_ed25519.pub"
    if isinstance(value, str) and "PRIVATE KEY" in value:
        raise FieldError("this is a private key, and the spec is copied to all machines", example)
    if not isinstance(value, str) or not value.isprintable():
        raise FieldError(f"{show(value)} is not one line of a public key", example)
    kind, _, rest = value.strip().partition(" ")
    if kind not in _KEY_TYPES:
        types = ", ".join(_KEY_TYPES[:3])
        raise FieldError(
            f"{show(kind)} is no type of key that sshd takes", f"{example}: it begins with {types} or another"
        )
    try:
        blob = base64.b64decode(rest.partition(" ")[0], validate=True)
    except binascii.Error:
        blob = b""
    fields = _fields_of(blob)
    if not fields or fields[0] != kind.encode() or len(fields) < 2:
        raise FieldError(f"a key of type {kind} that is not whole", f"{example}, all of it")
    if kind == "ssh-rsa" and int.from_bytes(fields[-1], "big").bit_length() < _LEAST_RSA_BITS:
        raise FieldError(
            f"a key of {int.from_bytes(fields[-1], 'big').bit_length()} bits is too short", "use ssh-ed25519"
        )
    return " ".join(value.split())


def _fields_of(blob: bytes) -> list[bytes]:
    """Strings of a key (RFC 4253, section 6.6); nothing where it ends within one."""
    found = []
    while blob:
        size = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + size:
            return []
        found.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return found


def _comment(value: object) -> str:
    if isinstance(value, str) and value.isprintable() and len(value) <= 120 and not set(value) & set(":,="):
        return value.strip()
    raise FieldError(
        f"{show(value)} is not a name of a person",
        "write up to 120 characters without : , and =, such as Anna Arendt",
    )


def _secret(value: object) -> str:
    """Where a secret is: it is never in the spec."""
    if isinstance(value, str) and re.fullmatch(
        rf"(?:{SECRET_ARN}|/[A-Za-z0-9._/-]{{1,255}})", value, re.ASCII
    ):
        return value
    raise FieldError(
        "what is written here is neither the ARN of a secret nor a file",
        "write where the secret is, never the secret: arn:aws:secretsmanager:..., or the path of a file that "
        "only root reads on the machines",
    )


AccountId = Annotated[
    int, PlainValidator(_number), WithJsonSchema({"type": "integer", "minimum": FIRST_ID, "maximum": LAST_ID})
]
"""Number of a user or a group."""
AccountName = Annotated[
    str, PlainValidator(_account), WithJsonSchema({"type": "string", "pattern": ACCOUNT_PATTERN})
]
"""Name of a user or a group."""
PublicKey = Annotated[
    str,
    PlainValidator(_public_key),
    WithJsonSchema({"type": "string", "examples": ["ssh-ed25519 AAAA... anna"]}),
]
FullName = Annotated[str, PlainValidator(_comment), WithJsonSchema({"type": "string", "maxLength": 120})]
Secret = Annotated[
    str,
    PlainValidator(_secret),
    WithJsonSchema(
        {"type": "string", "examples": ["/etc/gridwright/bind.secret", "arn:aws:secretsmanager:..."]}
    ),
]
"""The ARN of a secret of Secrets Manager, or a file on machines."""
Shell = Annotated[
    str, matching(r"^/[A-Za-z0-9._/-]{1,120}$", "a shell", "its path, such as /bin/bash", "/bin/bash")
]
DistinguishedName = Annotated[
    str,
    matching(
        r"^[A-Za-z][A-Za-z0-9-]*=[^,\n\r]+(?:,\s*[A-Za-z][A-Za-z0-9-]*=[^,\n\r]+)*$",
        "a distinguished name",
        "one, such as dc=example,dc=com",
        "dc=example,dc=com",
    ),
]
LdapServer = Annotated[
    str,
    matching(
        r"^ldaps?://[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[1-9][0-9]{0,4})?/?$",
        "the address of a server of LDAP",
        "ldaps://HOST, or ldap://HOST, which is encrypted by StartTLS",
        "ldaps://ldap1.example.com",
    ),
]
DomainName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62})+$",
        "the name of a domain",
        "it in full, such as ad.example.com",
        "ad.example.com",
    ),
]
DirectoryGroup = Annotated[
    str,
    matching(
        r"^[^,:/\\\s][^,:/\\\n\r]{0,254}$",
        "the name of a group",
        "it as the directory has it, such as grid-users",
    ),
]
JoinAccount = Annotated[
    str, matching(r"^[A-Za-z0-9._@-]{1,104}$", "an account of a domain", "one, such as grid-join")
]


_IN_PLACE = Update(Change.LIVE, "machines run the playbook in place, and jobs go on")
_NUMBER = Update(Change.NEVER, "files keep the number that they have: make another account, and move them")


class Person(SpecModel):
    """An account that all machines have alike."""

    uid: Annotated[AccountId, _NUMBER] = Field(description="Its number, the same on all machines.")
    full_name: Annotated[FullName, _IN_PLACE] = Field(
        default="", description="Whose it is, such as Anna Arendt."
    )
    group: Annotated[AccountName | None, Update(Change.LIVE, "new files belong to the other group")] = Field(
        default=None,
        description="Its primary group, one of users.groups. By default a group of its own, of the same name "
        "and number.",
    )
    groups: Annotated[list[AccountName], _IN_PLACE] = Field(
        default_factory=list, description="The other groups it is in, of users.groups."
    )
    shell: Annotated[Shell, _IN_PLACE] = Field(
        default="/bin/bash", description="What it gets when it logs in."
    )
    keys: Annotated[list[PublicKey], _IN_PLACE] = Field(
        default_factory=list,
        description="Public keys of ssh that let it in, each a line as in id_ed25519.pub. There are no "
        "passwords in a spec.",
    )


class Homes(SpecModel):
    """Where homes are: on a file system that all machines see."""

    filesystem: Annotated[str, Update(Change.REMOUNT, "homes stay where they are, and have to be copied")] = (
        Field(description="The name, under filesystems, of the file system that homes are on.")
    )
    path: Annotated[
        Subdirectory, Update(Change.REMOUNT, "homes stay where they are, and have to be moved")
    ] = Field(
        default="homes",
        description="The directory of all homes, below the path of the file system; outside of libraries.",
    )


class UserDirectory(SpecModel):
    """What both kinds of directories have."""

    allow_groups: Annotated[list[DirectoryGroup], _IN_PLACE] = Field(
        default_factory=list,
        description="Groups of the directory whose members may log in. By default everybody in it.",
    )
    login: Annotated[list[Literal["keys", "password"]], _IN_PLACE] = Field(
        default=["keys"],
        min_length=1,
        description="How its people log in by ssh: keys, which the directory has (sshPublicKey, or "
        "altSecurityIdentities of an AD), password, or both.",
    )
    shell: Annotated[Shell, _IN_PLACE] = Field(
        default="/bin/bash", description="Of people for whom the directory has none."
    )
    offline_days: Annotated[int, _IN_PLACE] = Field(
        default=7,
        ge=0,
        le=365,
        description="How long who has logged in before may do so while no server answers; 0 for not at all.",
    )


class Bind(SpecModel):
    """As whom machines ask a server of LDAP."""

    dn: Annotated[DistinguishedName, _IN_PLACE] = Field(
        description="The account, such as cn=grid,dc=example,dc=com."
    )
    secret: Annotated[Secret, _IN_PLACE] = Field(
        description="Where its password is: a file of root on the machines, or the ARN of a secret."
    )


class Ldap(UserDirectory):
    """A directory of LDAP."""

    servers: Annotated[list[LdapServer], _IN_PLACE] = Field(
        min_length=1,
        description="Its servers, in the order that they are asked in: ldaps://HOST, or "
        "ldap://HOST with StartTLS.",
    )
    base: Annotated[DistinguishedName, _IN_PLACE] = Field(
        description="Where users and groups are searched, such as dc=example,dc=com."
    )
    ca: Annotated[Directory | None, _IN_PLACE] = Field(
        default=None,
        description="The file with certificates of the authority of its servers, in PEM. By default those "
        "that machines trust.",
    )
    bind: Annotated[Bind | None, _IN_PLACE] = Field(
        default=None, description="As whom it is asked. By default as nobody."
    )
    members: Annotated[Literal["names", "dns"], _IN_PLACE] = Field(
        default="names",
        description="How groups list members: names (memberUid, RFC 2307) or dns (member, RFC 2307bis).",
    )


class Join(SpecModel):
    """Who joins machines to a domain."""

    user: Annotated[JoinAccount, _IN_PLACE] = Field(
        description="The account that may do so, with no other right."
    )
    secret: Annotated[Secret, _IN_PLACE] = Field(
        description="Where its password is: a file of root on the machines, or the ARN of a secret."
    )


class ActiveDirectory(UserDirectory):
    """A domain of Active Directory."""

    domain: Annotated[
        DomainName, Update(Change.REBUILD, "people have other numbers, and files keep the old ones")
    ] = Field(description="Its name, such as ad.example.com.")
    join: Annotated[Join, _IN_PLACE] = Field(description="Who joins machines to it.")
    ou: Annotated[DistinguishedName | None, _IN_PLACE] = Field(
        default=None,
        description="The unit that accounts of machines are made in. By default the domain's own.",
    )
    servers: Annotated[list[HostName], _IN_PLACE] = Field(
        default_factory=list, description="Its controllers. By default those that DNS names."
    )
    ids: Annotated[
        Literal["algorithmic", "directory"],
        Update(Change.REBUILD, "people have other numbers, and files keep the old ones"),
    ] = Field(
        default="algorithmic",
        description="Where numbers come from: algorithmic, out of each SID and the same on all machines, or "
        "directory, by uidNumber and gidNumber there.",
    )


class Users(SpecModel):
    """People of a grid, the same on all machines but servers of file systems."""

    local: Annotated[Mapping[AccountName, Person], Update(Change.LIVE, "who left is locked; files stay")] = (
        Field(
            default_factory=dict,
            description="Accounts by name, such as {anna: {uid: 2001, groups: [risk]}}.",
        )
    )
    groups: Annotated[
        Mapping[AccountName, AccountId], Update(Change.LIVE, "groups are added, never removed")
    ] = Field(default_factory=dict, description="Groups with their numbers, such as {risk: 3001}.")
    homes: Annotated[
        Homes | None, Update(Change.REMOUNT, "homes stay where they are, and have to be copied")
    ] = Field(
        default=None,
        description="The shared file system that homes are on. By default each machine has its own in /home.",
    )
    ldap: Annotated[Ldap | None, _IN_PLACE] = Field(
        default=None, description="A directory of LDAP that has more people."
    )
    ad: Annotated[ActiveDirectory | None, _IN_PLACE] = Field(
        default=None, description="A domain of Active Directory that has more people."
    )

    @property
    def directory(self) -> Ldap | ActiveDirectory | None:
        """The directory, of either kind."""
        return self.ldap or self.ad
