"""People of a grid: accounts of the spec with fixed numbers, a directory of users, and their homes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gridwright.spec.account_fields import (
    AccountId,
    AccountName,
    DirectoryGroup,
    DistinguishedName,
    DomainName,
    FullName,
    JoinAccount,
    LdapServer,
    PublicKey,
    Secret,
    Shell,
)
from gridwright.spec.fields import Change, Directory, HostName, SpecModel, Subdirectory, Update

IN_PLACE = Update(Change.LIVE, "machines run the playbook in place, and jobs go on")
_NUMBER = Update(Change.NEVER, "files keep the number that they have: make another account, and move them")


class Person(SpecModel):
    """An account that all machines have alike."""

    uid: Annotated[AccountId, _NUMBER] = Field(description="Its number, the same on all machines.")
    full_name: Annotated[FullName, IN_PLACE] = Field(
        default="", description="Whose it is, such as Anna Arendt."
    )
    group: Annotated[AccountName | None, Update(Change.LIVE, "new files belong to the other group")] = Field(
        default=None,
        description="Its primary group, one of users.groups. By default a group of its own, of the same name "
        "and number.",
    )
    groups: Annotated[list[AccountName], IN_PLACE] = Field(
        default_factory=list, description="The other groups it is in, of users.groups."
    )
    shell: Annotated[Shell, IN_PLACE] = Field(
        default="/bin/bash", description="What it gets when it logs in."
    )
    keys: Annotated[list[PublicKey], IN_PLACE] = Field(
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

    allow_groups: Annotated[list[DirectoryGroup], IN_PLACE] = Field(
        default_factory=list,
        description="Groups of the directory whose members may log in. By default everybody in it.",
    )
    login: Annotated[list[Literal["keys", "password"]], IN_PLACE] = Field(
        default=["keys"],
        min_length=1,
        description="How its people log in by ssh: keys, which the directory has (sshPublicKey, or "
        "altSecurityIdentities of an AD), password, or both.",
    )
    shell: Annotated[Shell, IN_PLACE] = Field(
        default="/bin/bash", description="Of people for whom the directory has none."
    )
    offline_days: Annotated[int, IN_PLACE] = Field(
        default=7,
        ge=0,
        le=365,
        description="How long who has logged in before may do so while no server answers; 0 for not at all.",
    )


class Bind(SpecModel):
    """As whom machines ask a server of LDAP."""

    dn: Annotated[DistinguishedName, IN_PLACE] = Field(
        description="The account, such as cn=grid,dc=example,dc=com."
    )
    secret: Annotated[Secret, IN_PLACE] = Field(
        description="Where its password is: a file of root on the machines, or the ARN of a secret."
    )


class Ldap(UserDirectory):
    """A directory of LDAP."""

    servers: Annotated[list[LdapServer], IN_PLACE] = Field(
        min_length=1,
        description="Its servers, in the order that they are asked in: ldaps://HOST, or "
        "ldap://HOST with StartTLS.",
    )
    base: Annotated[DistinguishedName, IN_PLACE] = Field(
        description="Where users and groups are searched, such as dc=example,dc=com."
    )
    ca: Annotated[Directory | None, IN_PLACE] = Field(
        default=None,
        description="The file with certificates of the authority of its servers, in PEM. By default those "
        "that machines trust.",
    )
    bind: Annotated[Bind | None, IN_PLACE] = Field(
        default=None, description="As whom it is asked. By default as nobody."
    )
    members: Annotated[Literal["names", "dns"], IN_PLACE] = Field(
        default="names",
        description="How groups list members: names (memberUid, RFC 2307) or dns (member, RFC 2307bis).",
    )


class Join(SpecModel):
    """Who joins machines to a domain."""

    user: Annotated[JoinAccount, IN_PLACE] = Field(
        description="The account that may do so, with no other right."
    )
    secret: Annotated[Secret, IN_PLACE] = Field(
        description="Where its password is: a file of root on the machines, or the ARN of a secret."
    )


class ActiveDirectory(UserDirectory):
    """A domain of Active Directory."""

    domain: Annotated[
        DomainName, Update(Change.REBUILD, "people have other numbers, and files keep the old ones")
    ] = Field(description="Its name, such as ad.example.com.")
    join: Annotated[Join, IN_PLACE] = Field(description="Who joins machines to it.")
    ou: Annotated[DistinguishedName | None, IN_PLACE] = Field(
        default=None,
        description="The unit that accounts of machines are made in. By default the domain's own.",
    )
    servers: Annotated[list[HostName], IN_PLACE] = Field(
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
    ldap: Annotated[Ldap | None, IN_PLACE] = Field(
        default=None, description="A directory of LDAP that has more people."
    )
    ad: Annotated[ActiveDirectory | None, IN_PLACE] = Field(
        default=None, description="A domain of Active Directory that has more people."
    )

    @property
    def directory(self) -> Ldap | ActiveDirectory | None:
        """The directory, of either kind."""
        return self.ldap or self.ad
