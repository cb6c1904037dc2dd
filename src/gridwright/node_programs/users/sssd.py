"""SSSD: its configuration with the secret in it, certificates, homes at the first log-in, and the domain."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from gridwright.node_programs.users.configuration import (
    DirectoryOfUsers,
    JoinedDomain,
    UsersConfiguration,
    UsersError,
)
from gridwright.node_programs.users.machine import PAM_SESSION, SSSD, Machine
from gridwright.node_programs.users.running import printed, succeeds
from gridwright.node_programs.users.steps import Change, Remove, Run, Write

CA = "etc/gridwright/directory-ca.pem"
_OURS = "# Written by Gridwright; run the playbook again for another one."
_CONNECT = "usr/lib/systemd/system/ssh.service.d/ec2-instance-connect.conf"


def sssd_text(directory: DirectoryOfUsers, secret: str | None) -> str:
    """sssd.conf(5)."""
    lines = [_OURS]
    for name, settings in directory.sections.items():
        lines += ["", f"[{name}]", *(f"{key} = {value}" for key, value in settings.items())]
        if name == directory.bind_section and secret is not None:
            lines += ["ldap_default_authtok_type = password", f"ldap_default_authtok = {secret}"]
    return "\n".join(lines) + "\n"


def directory_changes(desired: UsersConfiguration, there: Machine, root: Path) -> Iterator[Change]:
    """Everything of a directory of users, also its end. Raises UsersError."""
    found, directory = there.files.get(SSSD), desired.directory
    ours = found is None or found.startswith(_OURS)
    if directory is None:
        if found is not None and ours:
            yield Change("directory of users", "configured", "none, as the spec has none", Remove(SSSD))
        return
    if not ours:
        raise UsersError(
            f"/{SSSD} is there, and Gridwright did not write it: move it away to have the grid's own, or "
            "take the directory of users out of the spec"
        )
    if directory.ca is not None and there.files.get(CA) != directory.ca:
        yield Change(
            f"/{CA}",
            "another one" if CA in there.files else "missing",
            "as in the spec",
            Write(CA, directory.ca, 0o644),
        )
    if directory.join is not None:
        yield from _join(directory.join, str(directory.secret))
    secret = read_secret(root, directory.secret) if directory.bind_section else None
    text = sssd_text(directory, secret)
    if found != text:
        yield Change(
            f"/{SSSD}", "another one" if found else "missing", "as in the spec", Write(SSSD, text, 0o600)
        )
    yield from _pam(desired, there)


def read_secret(root: Path, path: str | None) -> str | None:
    """The one line of a file of root. Raises UsersError."""
    if path is None:
        return None
    file = root / path.lstrip("/")
    try:
        mode, text = file.stat().st_mode, file.read_text("utf-8")
    except OSError as error:
        raise UsersError(f"{path}, the secret of the directory of users: {error.strerror}") from None
    if mode & 0o077:
        raise UsersError(
            f"{path}, the secret of the directory of users, can be read by others: chmod 600 {path}"
        )
    secret = text.strip("\n")
    if not secret or "\n" in secret:
        raise UsersError(f"{path}, the secret of the directory of users, is not one line")
    return secret


def _join(domain: JoinedDomain, secret: str) -> Iterator[Change]:
    if succeeds(["adcli", "testjoin", "--domain", domain.domain]):
        return
    where = ("--domain-ou", domain.ou) if domain.ou else ()
    command = (
        *("adcli", "join", "--domain", domain.domain, "--login-user", domain.user, "--stdin-password"),
        *("--computer-name", domain.computer, *where),
    )
    yield Change(
        f"domain {domain.domain}", "not joined", f"joined as {domain.computer}", Run(command, secret)
    )


def _pam(desired: UsersConfiguration, there: Machine) -> Iterator[Change]:
    """Who logs in for the first time gets a home, where root may make one."""
    if shutil.which("authselect"):
        profile = ["sssd", *(["with-mkhomedir"] if desired.makes_homes else [])]
        now = printed(["authselect", "current", "--raw"]).split()
        if now[:1] != profile[:1] or set(profile) - set(now):
            command = ("authselect", "select", *profile, "--force")
            yield Change("PAM and NSS", " ".join(now) or "otherwise", " ".join(profile), Run(command))
    elif (
        desired.makes_homes
        and PAM_SESSION in there.files
        and "pam_mkhomedir.so" not in there.files[PAM_SESSION]
    ):
        yield Change(
            "PAM",
            "no homes are made",
            "homes are made",
            Run(("pam-auth-update", "--package", "--enable", "mkhomedir")),
        )


def directory_notes(desired: UsersConfiguration, root: Path) -> Iterator[str]:
    """What works otherwise than it is written."""
    if desired.directory is not None and "keys" in desired.directory.login and (root / _CONNECT).exists():
        yield (
            "EC2 Instance Connect gives sshd its own command for keys, so that keys of the directory let "
            "nobody in: remove the package ec2-instance-connect where people log in, or write "
            "login: [password]"
        )
