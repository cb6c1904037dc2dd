"""Values that fields of users hold: numbers and names of accounts, public keys, and where secrets are."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

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
