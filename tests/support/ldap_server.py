"""OpenLDAP in the network of a lab's node: this machine's daemon, with people of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.certificate_authority import make_certificates
from tests.support.command import wait_until

BASE = "dc=example,dc=com"
BIND_DN, BIND_SECRET = f"cn=grid,{BASE}", "of-the-grid-alone-7"
PEOPLE = {"bob": 5001, "carol": 5002}
ALLOWED = {"gridusers": (5100, ["bob"]), "others": (5101, ["carol"])}
PASSWORD = "in-the-directory"  # noqa: S105 - of a test's own people
_CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY
  MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {place}/slapd.pid
TLSCertificateFile {place}/server.pem
TLSCertificateKeyFile {place}/server.key
database mdb
suffix "{base}"
directory {place}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{bind}" read by * none
"""


@dataclass
class LdapServer:
    """A directory, as a lab's nodes reach it."""

    address: str
    ca: Path
    secret: Path
    pid: Path

    @property
    def uri(self) -> str:
        return f"ldaps://{self.address}"

    def stop(self) -> None:
        """As if the server had died."""
        os.kill(int(self.pid.read_text()), signal.SIGTERM)
        wait_until(
            lambda: not self.pid.exists() or None, seconds=20, what="the end of slapd", last=lambda: ""
        )


def prepare(place: Path, address: str, key: str) -> LdapServer:
    """Certificates, secret and data; nothing runs yet. `key` lets bob in."""
    (place / "data").mkdir()
    make_certificates(place, address)
    secret = place / "bind.secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{BIND_SECRET}\n")
    configuration = place / "slapd.conf"
    configuration.write_text(_CONFIGURATION.format(place=place, base=BASE, bind=BIND_DN))
    subprocess.run(
        ["/usr/sbin/slapadd", "-f", configuration], input=_entries(key), text=True, check=True, timeout=60
    )
    return LdapServer(address, place / "ca.pem", secret, place / "slapd.pid")


@contextmanager
def serving(server: LdapServer, pid: int) -> Iterator[LdapServer]:
    """Have it run in the network of the process `pid`."""
    configuration = server.pid.with_name("slapd.conf")
    command = [
        "nsenter",
        "-t",
        str(pid),
        "-n",
        "/usr/sbin/slapd",
        "-f",
        str(configuration),
        "-h",
        f"{server.uri}/",
    ]
    subprocess.run(command, check=True, timeout=60)
    try:
        yield server
    finally:
        if server.pid.exists():
            server.stop()


def _entries(key: str) -> str:
    people = [
        f"dn: uid={name},ou=people,{BASE}\nobjectClass: inetOrgPerson\nobjectClass: posixAccount\n"
        f"objectClass: ldapPublicKey\ncn: {name}\nsn: {name}\nuid: {name}\nuidNumber: {number}\n"
        f"gidNumber: {number + 99}\nhomeDirectory: /home/elsewhere/{name}\nuserPassword: {PASSWORD}\n"
        f"sshPublicKey: {key}\n"
        for name, number in PEOPLE.items()
    ]
    groups = [
        f"dn: cn={name},ou=groups,{BASE}\nobjectClass: posixGroup\ncn: {name}\ngidNumber: {number}\n"
        + "".join(f"memberUid: {each}\n" for each in members)
        for name, (number, members) in ALLOWED.items()
    ]
    units = [
        f"dn: ou={name},{BASE}\nobjectClass: organizationalUnit\nou: {name}\n"
        for name in ("people", "groups")
    ]
    top = f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n"
    bind = (
        f"dn: {BIND_DN}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: grid\n"
        f"userPassword: {BIND_SECRET}\n"
    )
    return "\n".join([top, bind, *units, *people, *groups])
