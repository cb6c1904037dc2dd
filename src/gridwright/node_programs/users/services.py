"""sssd and sshd: started anew where their files changed, with systemd and where there is none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from gridwright.node_programs.users.configuration import UsersConfiguration, UsersError
from gridwright.node_programs.users.machine import SSHD, SSSD, Machine
from gridwright.node_programs.users.running import LIMIT_S, printed, run, succeeds
from gridwright.node_programs.users.sshd import DROP_IN
from gridwright.node_programs.users.sssd import CA

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
