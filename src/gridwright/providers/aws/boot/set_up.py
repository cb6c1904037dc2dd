"""Sets a machine of a grid up from the bundle that it is part of, and tells the grid how that ended.

The program that looks for bundles (fetch.py, of the machine's user data) runs it with the bundle's key, the
number of this try, and `first` where the machine was never set up before: such a one alone is restarted, by
fetch.py, where the exit status says so. Settings are in /etc/gridwright/boot.json. It needs Python 3.9 and
boto3; Ansible is a package that it installs. A second run changes nothing that is as it should be. Secrets go
into files of root alone, never into the log.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent))

from system_packages import (  # type: ignore[import-not-found]
    BUNDLE,
    LAST,
    PAUSE_S,
    QUIET,
    ROOT,
    TRIES,
    Failed,
    install,
    reason_of,
    run,
    say,
)

Settings = dict[str, Any]
_Answer = TypeVar("_Answer")
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
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
RESTARTING = "restarting for kernel"
RESTARTS = 75
"""The exit status that fetch.py restarts the machine for; from schema 3 of its settings on."""
ASKED = ROOT / "run/gridwright/restart.json"
"""Where a role asks for a restart, with the kernel that is to start."""
RESTARTED = ROOT / "var/lib/gridwright/restarted.json"
"""The kernels that the machine was restarted for."""


class Restart(Exception):
    """The machine is to start another kernel, which is in the message, and then goes on."""


def client(service: str, settings: Settings) -> Any:  # noqa: ANN401 - boto3 has no types of its own
    """A client that gives up after some minutes at most."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 8, "mode": "standard"})
    return boto3.client(service, region_name=settings["region"], config=config)


def asked(what: str, call: Callable[[], _Answer]) -> _Answer:
    """The answer of AWS; a role that was just made is not known everywhere at once, so it is asked again."""
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as error:
            say(f"{what}: {error}")
            last = str(error)
        time.sleep(PAUSE_S if attempt < TRIES - 1 else 0)
    raise Failed(f"{what}: {last}")


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


def variables(settings: Settings, first: bool) -> Path:
    """What the playbook needs beside the bundle; the key of the scheduler in a file of its own.

    A machine that was set up once has users and jobs on it, and is never restarted from here.
    """
    known = json.loads((BUNDLE / "boot/variables.json").read_text())
    content = {"gridwright_sources": settings["sources"], "gridwright_become": False, **known}
    content["gridwright_restart"] = "asked" if first and settings["schema"] >= 3 else "never"
    content["gridwright_restart_file"] = str(ASKED)
    if settings["key"]:
        name, secret = settings["key"]["name"], settings["key"]["secret"]
        secrets = client("secretsmanager", settings)
        key: str = asked(
            f"the key of {name}", lambda: secrets.get_secret_value(SecretId=secret)["SecretString"]
        )
        write(ETC / f"{name}.key", key)
        content[settings["key"]["variable"]] = str(ETC / f"{name}.key")
    secrets_of_the_site(settings)
    write(ETC / "sources.json", json.dumps(content, indent=2) + "\n")
    return ETC / "sources.json"


def secrets_of_the_site(settings: Settings) -> None:
    """Secrets that the grid spec names, each into its file of root alone: roles read them there."""
    listed = BUNDLE / "boot/secrets.json"
    wanted: dict[str, str] = json.loads(listed.read_text()) if listed.exists() else {}
    for path, arn in wanted.items():
        service = client("secretsmanager", settings)
        text: str = asked(
            f"secret {arn}",
            lambda: service.get_secret_value(SecretId=arn)["SecretString"],  # noqa: B023
        )
        write(ROOT / path.lstrip("/"), text)


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


def instance_arn() -> str:
    """Of this machine, from its metadata service: arn:aws:ec2:us-east-1:123456789012:instance/i-0123."""
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = {"X-aws-ec2-metadata-token": ask("PUT", METADATA + "/latest/api/token", headers)}
    known = json.loads(ask("GET", METADATA + "/latest/dynamic/instance-identity/document", token))
    partition = ask("GET", METADATA + "/latest/meta-data/services/partition", token).strip()
    return f"arn:{partition}:ec2:{known['region']}:{known['accountId']}:instance/{known['instanceId']}"


def ask(method: str, url: str, headers: dict[str, str]) -> str:
    """One request to the metadata service, which needs no proxy; a few times where nobody answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for attempt in range(TRIES):
        try:
            request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
            with opener.open(request, timeout=20) as answer:
                return bytes(answer.read(1 << 16)).decode("ascii", "replace")
        except OSError as error:
            last = getattr(error, "reason", error)
            if 400 <= getattr(error, "code", 0) < 500:
                break
        time.sleep(PAUSE_S if attempt < TRIES - 1 else 0)
    raise Failed(f"{url} is not answered: {last}")


class Teller:
    """Tells the grid how this machine gets on; what cannot be told is no reason to stop."""

    def __init__(self, settings: Settings, bundle: str, tries: int) -> None:
        self.settings, self.bundle, self.tries = settings, bundle, tries
        self.name: str = settings["name"] or ""
        self.arn = ""
        self._began = LOG.stat().st_size if LOG.exists() else 0

    @property
    def instance(self) -> str:
        """Its ID."""
        return self.arn.rpartition("/")[2]

    def tell(self, state: str, reason: str = "") -> None:
        """Put `running`, `done` or `failed` into the table of claims, with the end of the log."""
        tail = "\n".join(LAST)[-LONGEST_TAIL:] if state == "failed" else ""
        texts = {
            "slot": f"boot#{self.arn}",
            "instance": self.instance,
            "name": self.name,
            "state": state,
            "bundle": self.bundle,
            "reason": reason[:LONGEST_REASON],
            "log": tail,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        item = {**{name: {"S": text} for name, text in texts.items()}, "tries": {"N": str(self.tries)}}
        table = client("dynamodb", self.settings)
        self._try(lambda: table.put_item(TableName=self.settings["table"], Item=item))

    def go_on(self, ended: threading.Event) -> None:
        """Tell now and then that it still works, with the last line of its log."""
        while not ended.wait(PULSE_S):
            self.tell("running", LAST[-1] if LAST else "")

    def keep_log(self) -> None:
        """Put what this try wrote into the grid's bucket, where it outlives the machine."""
        with LOG.open("rb") as file:
            file.seek(self._began)
            text = file.read(1 << 24)
        key = f"boot-logs/{self.instance}/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.log"
        s3 = client("s3", self.settings)
        self._try(lambda: s3.put_object(Bucket=self.settings["bucket"], Key=key, Body=text))

    def count_failure(self) -> None:
        """Count it where the grid's alarm looks."""
        dimension = {"Name": "Grid", "Value": self.settings["table"][len("gridwright-") : -len("-claims")]}
        datum = {"MetricName": "SetUpFailures", "Dimensions": [dimension], "Value": 1.0, "Unit": "Count"}
        metrics = client("cloudwatch", self.settings)
        self._try(lambda: metrics.put_metric_data(Namespace="Gridwright", MetricData=[datum]))

    def give_up(self) -> None:
        """Have the group replace this machine, whose log is in the bucket."""
        groups = client("autoscaling", self.settings)
        self._try(lambda: groups.set_instance_health(InstanceId=self.instance, HealthStatus="Unhealthy"))

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            say(f"not told: {error}")


def on_console(text: str) -> None:
    """On the console of the machine, which EC2 shows also where the machine reaches nothing."""
    try:
        with (ROOT / "dev/console").open("w") as console:
            console.write(f"gridwright: {text}\n")
    except OSError:
        pass


def carry_out(settings: Settings, teller: Teller, first: bool, pulse: threading.Thread) -> None:
    """All steps in order; `pulse` is started when it is known who tells. Raises Failed, and Restart."""
    teller.arn = instance_arn()
    teller.tell("running")
    pulse.start()
    install()
    if settings["claim"]:
        teller.name = claim(settings)
    set_name(teller.name)
    extra = variables(settings, first)
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
