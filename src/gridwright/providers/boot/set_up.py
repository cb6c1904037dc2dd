"""Sets a machine of a grid up from the bundle that it is part of, and tells the grid how that ended.

The program that looks for bundles (fetch.py, of the machine's user data) runs it with the bundle's key, the
number of this try, and `first` where the machine was never set up before: such a one alone is restarted, by
fetch.py, where the exit status says so. Settings are in /etc/gridwright/boot.json. It needs Python 3.9 and
what cloud.py needs, which is beside it and asks and tells the cloud; Ansible is a package that it installs.
A second run changes nothing that is as it should be. Secrets go into files of root alone, never into the log.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cloud import Cloud  # type: ignore[import-not-found]
from system_packages import (  # type: ignore[import-not-found]
    BUNDLE,
    LAST,
    QUIET,
    ROOT,
    Failed,
    install,
    reason_of,
    run,
    say,
)

Settings = dict[str, Any]
ETC: Path = ROOT / "etc/gridwright"
LOG: Path = ROOT / "var/log/gridwright-boot.log"
CLAIM_S, PLAYBOOK_S = 7 * 3600, 2 * 3600
"""Longer than a claim waits for a machine that shuts down, and than the claim in the playbook may take."""
PULSE_S = float(os.environ.get("GRIDWRIGHT_BOOT_PULSE_S", "600"))
"""How often a machine tells that it goes on: a claim may wait for hours."""
LONGEST_REASON = 900
LONGEST_TAIL = 4000
"""Characters of the log's end that are told, and of a reason."""
GIVE_UP = 5
"""From this try on a machine that was never set up is given back to its group: some 15 minutes of pauses."""
RESTARTING = "restarting for kernel"
RESTARTS = 75
"""The exit status that fetch.py restarts the machine for; from schema 3 of its settings on."""
ASKED = ROOT / "run/gridwright/restart.json"
"""Where a role asks for a restart, with the kernel that is to start."""
RESTARTED = ROOT / "var/lib/gridwright/restarted.json"
"""The kernels that the machine was restarted for."""


class Restart(Exception):
    """The machine is to start another kernel, which is in the message, and then goes on."""


def claim(settings: Settings) -> str:
    """The name of this machine, where it takes over that of one that is gone.

    Volumes follow when the playbook has installed what mounts them.
    """
    shutil.copyfile(BUNDLE / "claims" / (settings["claim"] + ".json"), ETC / "claim.json")
    program = BUNDLE / "claims/claim.pyz"
    command: list[str | Path] = [sys.executable, program, "--config", ETC / "claim.json", "--name-only"]
    status, lines = run(command, CLAIM_S)
    if status:
        raise Failed("it cannot claim its place in the grid: " + " | ".join(lines[-6:]))
    return str(json.loads((ROOT / "run/gridwright/node.json").read_text())["name"])


def set_name(name: str) -> None:
    """The host name, which Slurm knows nodes by."""
    if os.uname().nodename == name:
        return
    status, lines = run(["hostnamectl", "set-hostname", name], 60)
    if status:
        raise Failed("its host name cannot be set: " + reason_of(lines))


def variables(cloud: Cloud, settings: Settings, first: bool) -> Path:
    """What the playbook needs beside the bundle; the key of the scheduler in a file of its own.

    A machine that was set up once has users and jobs on it, and is never restarted from here.
    """
    known = json.loads((BUNDLE / "boot/variables.json").read_text())
    content = {"gridwright_sources": settings["sources"], "gridwright_become": False, **known}
    content["gridwright_restart"] = "asked" if first and settings["schema"] >= 3 else "never"
    content["gridwright_restart_file"] = str(ASKED)
    if settings["key"]:
        name, secret = settings["key"]["name"], settings["key"]["secret"]
        write(ETC / f"{name}.key", cloud.secret(f"the key of {name}", secret))
        content[settings["key"]["variable"]] = str(ETC / f"{name}.key")
    secrets_of_the_site(cloud)
    write(ETC / "sources.json", json.dumps(content, indent=2) + "\n")
    return ETC / "sources.json"


def secrets_of_the_site(cloud: Cloud) -> None:
    """Secrets that the grid spec names, each into its file of root alone: roles read them there."""
    listed = BUNDLE / "boot/secrets.json"
    desired: dict[str, str] = json.loads(listed.read_text()) if listed.exists() else {}
    for path, secret in desired.items():
        write(ROOT / path.lstrip("/"), cloud.secret(f"secret {secret}", secret))


def write(path: Path, text: str) -> None:
    """A file of root alone, whole or not at all."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def play(name: str, extra: Path) -> None:
    """Run the playbook on this machine alone. Raises Restart where a role asks for one."""
    os.chdir(BUNDLE)
    ASKED.unlink(missing_ok=True)
    more = ["--limit", name, "--extra-vars", f"@{extra}"]
    command = ["ansible-playbook", "-i", "inventory.yml", "--connection", "local", *more, "site.yml"]
    plain = {"ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1", "HOME": "/root"}
    status, lines = run(command, PLAYBOOK_S, **plain, **QUIET)
    if ASKED.exists():
        raise Restart(json.loads(ASKED.read_text())["kernel"])
    if status:
        raise Failed("the playbook failed: " + reason_of(lines))


def note_restart(kernel: str) -> None:
    """Remember that the machine is restarted for a kernel. Raises Failed where it was before."""
    known = json.loads(RESTARTED.read_text()) if RESTARTED.exists() else []
    if kernel in known:
        raise Failed(f"it was restarted for kernel {kernel}, and started {os.uname().release}")
    write(RESTARTED, json.dumps([*known, kernel]) + "\n")


class Teller:
    """Tells the grid how this machine gets on; what cannot be told is no reason to stop."""

    def __init__(self, settings: Settings, bundle: str, tries: int) -> None:
        self.cloud = Cloud(settings)
        self.bundle, self.tries = bundle, tries
        self.name: str = settings["name"] or ""
        self._began = LOG.stat().st_size if LOG.exists() else 0

    def tell(self, state: str, reason: str = "") -> None:
        """Tell `running`, `done` or `failed`, with the end of the log."""
        tail = "\n".join(LAST)[-LONGEST_TAIL:] if state == "failed" else ""
        texts = {
            "name": self.name,
            "state": state,
            "bundle": self.bundle,
            "reason": reason[:LONGEST_REASON],
            "log": tail,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._try(lambda: self.cloud.tell(texts, self.tries))

    def go_on(self, ended: threading.Event) -> None:
        """Tell now and then that it still works, with the last line of its log."""
        while not ended.wait(PULSE_S):
            self.tell("running", LAST[-1] if LAST else "")

    def keep_log(self) -> None:
        """Put what this try wrote into the grid's bucket, where it outlives the machine."""
        with LOG.open("rb") as file:
            file.seek(self._began)
            text = file.read(1 << 24)
        name = time.strftime("%Y%m%dT%H%M%SZ.log", time.gmtime())
        self._try(lambda: self.cloud.keep_log(name, text))

    def count_failure(self) -> None:
        """Count it where the grid's alarm looks."""
        self._try(self.cloud.count_failure)

    def give_up(self) -> None:
        """Have the group replace this machine, whose log is in the bucket."""
        self._try(self.cloud.give_up)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            say(f"not told: {error}")


def on_console(text: str) -> None:
    """On the console of the machine, which the cloud shows also where the machine reaches nothing."""
    try:
        with (ROOT / "dev/console").open("w") as console:
            console.write(f"gridwright: {text}\n")
    except OSError:
        pass


def carry_out(settings: Settings, teller: Teller, first: bool, pulse: threading.Thread) -> None:
    """All steps in order; `pulse` is started when it is known who tells. Raises Failed, and Restart."""
    teller.cloud.find()
    teller.tell("running")
    pulse.start()
    install()
    if settings["claim"]:
        teller.name = claim(settings)
    set_name(teller.name)
    extra = variables(teller.cloud, settings, first)
    try:
        play(teller.name, extra)
    except Restart as restart:
        note_restart(str(restart))
        raise


def main(bundle: str, tries: int, first: bool) -> int:
    """Set the machine up; the exit status is 0 where each step succeeded."""
    settings: Settings = json.loads((ETC / "boot.json").read_text())
    teller = Teller(settings, bundle, tries)
    ended = threading.Event()
    pulse = threading.Thread(target=teller.go_on, args=[ended], daemon=True)
    reason = restart = ""
    try:
        carry_out(settings, teller, first, pulse)
    except Restart as asked:
        restart = str(asked)
    except Failed as failed:
        reason = str(failed)
    except Exception as error:  # whatever it is, the grid must learn of it
        reason = f"{type(error).__name__}: {error}"
    ended.set()
    if pulse.is_alive():
        pulse.join(PULSE_S)  # what it tells must not come after what is told now
    if restart:
        say(f"{teller.name} restarts, for kernel {restart}")
        teller.tell("running", f"{RESTARTING} {restart}")
        return RESTARTS
    if not reason:
        say(f"{teller.name} is set up")
        teller.tell("done")
        teller.keep_log()
        return 0
    text = f"{teller.name or settings['claim']} is not set up, try {tries}: {reason}"
    say(text)
    on_console(text[:LONGEST_REASON])
    teller.tell("failed", reason)
    teller.keep_log()
    if tries % GIVE_UP == 0:
        teller.count_failure()
    # A machine that did its work once has jobs or data on it: it only tries again.
    if settings["group"] and first and tries >= GIVE_UP:
        teller.give_up()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "first"))
