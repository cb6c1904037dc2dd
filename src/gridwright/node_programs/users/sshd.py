"""What sshd is told: where keys of the spec are, and how people of a directory log in."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.node_programs.users.configuration import UsersConfiguration
from gridwright.node_programs.users.machine import KEYS, SSHD, SSHD_DIRECTORY, Machine
from gridwright.node_programs.users.steps import Change, Remove, Write

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
