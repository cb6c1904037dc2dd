"""sshd and sssd: their configuration, and how they are started anew where their files changed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from gridwright.node_programs.users.configuration import (
    DirectoryOfUsers,
    JoinedDomain,
    UsersConfiguration,
    UsersError,
)
from gridwright.node_programs.users.machine import (
    KEYS,
    LIMIT_S,
    PAM_SESSION,
    SSHD,
    SSHD_DIRECTORY,
    SSSD,
    Change,
    Machine,
    Remove,
    Run,
    Write,
    printed,
    run,
    succeeds,
)

DROP_IN = f"{SSHD_DIRECTORY}/20-gridwright-users.conf"
"""Of two values sshd takes the first (sshd_config(5)): before 50-cloud-init.conf, which forbids passwords."""
BEGIN, END = "# BEGIN gridwright users", "# END gridwright users"


def sshd_text(desired: UsersConfiguration) -> str:
    """Lines of sshd_config; empty where there is nothing to say."""
    lines = []
    if any(account.keys for account in desired.accounts):
        lines.append(f"AuthorizedKeysFile .ssh/authorized_keys /{KEYS}/%u")
    if desired.directory is not None:
        if "keys" in desired.directory.login:
            lines += [
                "AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys %u",
                "AuthorizedKeysCommandUser nobody",
            ]
        if "password" in desired.directory.login:
            lines += ["PasswordAuthentication yes", "KbdInteractiveAuthentication yes"]
    return "".join(f"{line}\n" for line in lines)


def sshd_changes(desired: UsersConfiguration, there: Machine) -> Iterator[Change]:
    """The file that is read first, or the head of the one file where sshd reads no others (Red Hat 8)."""
    main = there.files.get(SSHD)
    if main is None:  # a machine that nobody logs in to
        return
    text = sshd_text(desired)
    includes = any(line.split()[:2] == ["Include", f"/{SSHD_DIRECTORY}/*.conf"] for line in main.splitlines())
    if includes:
        now, path = there.files.get(DROP_IN), DROP_IN
        new = f"# Written by Gridwright for the users of the grid.\n{text}" if text else None
    else:
        now, path = main, SSHD
        new = (f"{BEGIN}\n{text}{END}\n" if text else "") + _without_ours(main)
    if now == new:
        return
    wanted_words = "keys of the spec are read" if text else "as the system has it"
    act = Remove(path) if new is None else Write(path, new, 0o600)
    yield Change(f"/{path}", "otherwise" if now else "missing", wanted_words, act)


def _without_ours(text: str) -> str:
    before, begin, rest = text.partition(f"{BEGIN}\n")
    return before + rest.partition(f"{END}\n")[2] if begin else text


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


SYSTEMD = Path("/run/systemd/system")
NSS_PIPE = "/var/lib/sss/pipes/nss"
_PID = Path("/run/sssd.pid")
_READY_S, _PAUSE_S = 30.0, 0.1
_OF_SSSD, _OF_SSHD = frozenset({SSSD, CA}), frozenset({SSHD, DROP_IN})


def settle(desired: UsersConfiguration, written: Collection[str]) -> None:
    """Have services read what was written. Raises UsersError."""
    if _OF_SSHD & set(written):
        _reload_sshd()
    anew = bool(_OF_SSSD & set(written))
    if desired.directory is None:
        if anew:
            _stop_sssd()
    elif SYSTEMD.exists():
        run(["systemctl", "enable", "sssd"])
        run(["systemctl", "restart" if anew else "start", "sssd"])
    elif anew or not _answers():
        _start_sssd()
    if desired.directory is not None:
        _wait()


def conflicts(desired: UsersConfiguration, there: Machine) -> Iterator[str]:
    """Names and numbers of the spec that the directory has, too; SSSD is asked, where it runs."""
    users = {account.name: account.uid for account in desired.accounts}
    for database, own, kind, here in (
        ("passwd", users, "user", there.users.keys()),
        ("group", desired.groups, "group", there.groups.keys()),
    ):
        if not own:
            continue
        keys = [*own, *(str(number) for number in own.values())]
        for line in printed(["getent", "-s", "sss", database, *keys]).splitlines():
            name, _, number, *_ = line.split(":")
            if own.get(name) == int(number) and name not in here:
                yield f"{kind} {name} is in the directory, too: take it out of the spec"
            elif own.get(name) not in (None, int(number)):
                yield f"{kind} {name} has number {number} in the directory, and {own[name]} in the spec"
            taken = [each for each, mine in own.items() if mine == int(number) and each != name]
            if taken:
                yield (
                    f"number {number} is that of {kind} {name} in the directory, and of {taken[0]} in the "
                    "spec"
                )


def _reload_sshd() -> None:
    if SYSTEMD.exists():
        # Debian calls it ssh. What is not running is not started.
        for name in ("ssh", "sshd"):
            if succeeds(["systemctl", "is-active", "--quiet", name]):
                run(["systemctl", "reload", name])
                return
        return
    try:
        os.kill(int(Path("/run/sshd.pid").read_text()), signal.SIGHUP)
    except (OSError, ValueError):  # no daemon runs that would have to know
        return


def _stop_sssd() -> None:
    if SYSTEMD.exists():
        succeeds(["systemctl", "disable", "--now", "sssd"])
        return
    try:
        pid = int(_PID.read_text())
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return
    until = time.monotonic() + _READY_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(_PAUSE_S)


def _start_sssd() -> None:
    _stop_sssd()
    with subprocess.Popen(
        ["sssd", "--daemon", "--logger=files"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise UsersError(f"sssd had not started after {LIMIT_S} s; see /var/log/sssd") from None
    if status:
        raise UsersError(f"sssd does not start (status {status}); see /var/log/sssd/sssd.log")


def _wait() -> None:
    until = time.monotonic() + _READY_S
    while not _answers():
        if time.monotonic() > until:
            raise UsersError(f"sssd does not answer after {_READY_S:.0f} s; see /var/log/sssd")
        time.sleep(_PAUSE_S)


def _answers() -> bool:
    with socket.socket(socket.AF_UNIX) as pipe:
        pipe.settimeout(2)
        try:
            pipe.connect(NSS_PIPE)
        except OSError:
            return False
    return True
