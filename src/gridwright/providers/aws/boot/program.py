"""Sets a machine of a grid up when it starts, and tells CloudFormation how that ended.

User data of the machine write it to /var/lib/gridwright/boot.py, with settings in /etc/gridwright/boot.json.
It needs Python 3.9 and nothing else; boto3 and Ansible are packages that it installs. A second run changes
nothing that is as it should be. Secrets go into files of root alone, never into the log.
"""

from __future__ import annotations

import collections
import hashlib
import importlib
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Settings = dict[str, Any]
_Answer = TypeVar("_Answer")
ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
ETC, STATE = ROOT / "etc/gridwright", ROOT / "var/lib/gridwright"
PAUSE_S = float(os.environ.get("GRIDWRIGHT_BOOT_PAUSE_S", "15"))
TRIES = 8
INSTALL_S, CLAIM_S, PLAYBOOK_S = 1200, 1800, 3000
LONGEST_REASON = 900
"""CloudFormation shows a reason in one line of its events."""
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")


class Failed(Exception):
    """A step that did not succeed, in words for who reads the events of the stack."""


def say(text: str) -> None:
    """A line of the log."""
    print(time.strftime("%H:%M:%SZ", time.gmtime()), text, flush=True)  # noqa: T201 - the log


def run(command: Sequence[str | Path], limit_s: float, **environment: str) -> tuple[int, list[str]]:
    """Run a command with a limit of time, its output into the log; returns status and the last lines."""
    say("+ " + " ".join(map(str, command)))
    process = subprocess.Popen(
        [str(each) for each in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
        text=True,
        errors="replace",
    )
    expired: list[bool] = []

    def end() -> None:
        expired.append(True)
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s, end)
    timer.start()
    lines: collections.deque[str] = collections.deque(maxlen=60)
    try:
        for line in process.stdout or ():
            print(line, end="", flush=True)  # noqa: T201 - the log
            lines.append(line.rstrip())
        status = process.wait()
    finally:
        timer.cancel()
    if expired:
        lines.append(f"it had not ended after {limit_s:.0f} s")
    return status, [line for line in lines if line.strip()]


def reason_of(lines: Sequence[str]) -> str:
    """What of a command's last lines says why: from the first line on that reports an error."""
    marks = ("fatal:", "ERROR", "Error", "E: ")
    first = next((at for at, line in enumerate(lines) if line.startswith(marks)), max(0, len(lines) - 5))
    return " | ".join(lines[first:])


def install() -> None:
    """Ansible and boto3, as packages of the system."""
    wanted = [] if shutil.which("ansible-playbook") else ["ansible-core"]
    if importlib.util.find_spec("boto3") is None:
        wanted.append("python3-boto3")
    if not wanted:
        return
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    wait = "DPkg::Lock::Timeout=300"
    if shutil.which("apt-get"):
        steps = [
            ["apt-get", "-o", wait, "-qq", "update"],
            ["apt-get", "-o", wait, "-qq", "-y", "install", *wanted],
        ]
    else:
        steps = [["dnf", "-y", "-q", "install", *wanted]]
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_S)
            if len(steps) == 1:  # boto3 is in EPEL on some systems; others have no such package
                run(["dnf", "-y", "-q", "install", "epel-release"], INSTALL_S)
        for step in steps:
            status, lines = run(step, INSTALL_S, **quiet)
            if status:
                break
        else:
            importlib.invalidate_caches()
            return
    raise Failed(f"{' and '.join(wanted)} cannot be installed: {reason_of(lines)}")


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


def _content(s3: Any, bucket: str, key: str) -> bytes:  # noqa: ANN401 - boto3 has no types of its own
    return bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())


def fetch(settings: Settings) -> Path:
    """Put the bundle where the playbook runs, whole or not at all."""
    bucket, key = settings["bucket"], settings["bundle"]
    s3 = client("s3", settings)
    where = f"bundle s3://{bucket}/{key}"
    content: bytes = asked(where, lambda: _content(s3, bucket, key))
    if hashlib.sha256(content).hexdigest() != key.rsplit("/", 1)[-1].split(".")[0]:
        raise Failed(f"{where} does not hold what its name says: upload it again")
    new, there = STATE / "bundle.new", STATE / "bundle"
    shutil.rmtree(new, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for member in archive:
            parts = Path(member.name).parts
            if not member.isfile() or ".." in parts or member.name.startswith("/"):
                raise Failed(f"{where} has an entry that does not belong there: {member.name}")
            path = new / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.extractfile(member) or io.BytesIO() as entry:
                path.write_bytes(entry.read())
    shutil.rmtree(there, ignore_errors=True)
    new.rename(there)
    return there


def claim(settings: Settings, bundle: Path) -> str:
    """The name of this machine, where it takes over that of one that is gone.

    Volumes follow when the playbook has installed what mounts them.
    """
    shutil.copyfile(bundle / "claims" / (settings["claim"] + ".json"), ETC / "claim.json")
    program = bundle / "claims/claim.pyz"
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


def variables(settings: Settings) -> Path:
    """What the playbook needs beside the bundle; the key of the scheduler in a file of its own."""
    content = {"gridwright_sources": settings["sources"], "gridwright_become": False, **settings["variables"]}
    if settings["key"]:
        name, secret = settings["key"]["name"], settings["key"]["secret"]
        secrets = client("secretsmanager", settings)
        key: str = asked(
            f"the key of {name}", lambda: secrets.get_secret_value(SecretId=secret)["SecretString"]
        )
        write(ETC / f"{name}.key", key)
        content[settings["key"]["variable"]] = str(ETC / f"{name}.key")
    write(ETC / "sources.json", json.dumps(content, indent=2) + "\n")
    return ETC / "sources.json"


def write(path: Path, text: str) -> None:
    """A file of root alone, whole or not at all."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def play(bundle: Path, name: str, extra: Path) -> None:
    """Run the playbook on this machine alone."""
    os.chdir(bundle)
    more = ["--limit", name, "--extra-vars", f"@{extra}"]
    command = ["ansible-playbook", "-i", "inventory.yml", "--connection", "local", *more, "site.yml"]
    status, lines = run(command, PLAYBOOK_S, ANSIBLE_NOCOLOR="1", PYTHONUNBUFFERED="1", HOME="/root")
    if status:
        raise Failed("the playbook failed: " + reason_of(lines))


def instance_id() -> str:
    """Of this machine, from its metadata service."""
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = ask("PUT", METADATA + "/latest/api/token", headers)
    return ask("GET", METADATA + "/latest/meta-data/instance-id", {"X-aws-ec2-metadata-token": token}).strip()


def ask(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> str:
    """One request over HTTP, a few times where nobody answers; the metadata service needs no proxy."""
    direct = [urllib.request.ProxyHandler({})] if url.startswith(METADATA) else []
    opener = urllib.request.build_opener(*direct)
    for attempt in range(TRIES):
        try:
            request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310
            with opener.open(request, timeout=20) as answer:
                return bytes(answer.read(1 << 16)).decode("ascii", "replace")
        except OSError as error:
            last = getattr(error, "reason", error)
            if 400 <= getattr(error, "code", 0) < 500:
                break
        time.sleep(PAUSE_S if attempt < TRIES - 1 else 0)
    raise Failed(f"{url.partition('?')[0]} is not answered: {last}")


def tell(settings: Settings, name: str, reason: str | None) -> None:
    """The wait condition first, since it shows the reason; then the group, which replaces one at a time."""
    status = "FAILURE" if reason else "SUCCESS"
    text = f"{name}: {reason}" if reason else f"{name} is set up"
    message = {"Status": status, "Reason": text[:LONGEST_REASON], "UniqueId": name, "Data": name}
    say(f"{status} {text}")
    body = json.dumps(message).encode()
    calls: list[Callable[[], object]] = [lambda: ask("PUT", settings["ready"], {"Content-Type": ""}, body)]
    if settings["group"]:
        calls.append(
            lambda: client("cloudformation", settings).signal_resource(
                StackName=settings["stack"],
                LogicalResourceId=settings["group"],
                UniqueId=instance_id(),
                Status=status,
            )
        )
    for call in calls:
        try:
            call()
        except Exception as error:  # a restart long after: nobody waits any more
            say(f"not told: {error}")


def main() -> int:
    """All steps in order; the exit status is 0 where each succeeded."""
    settings: Settings = json.loads((ETC / "boot.json").read_text())
    name: str = settings["name"] or settings["claim"]
    reason: str | None = None
    try:
        install()
        bundle = fetch(settings)
        if settings["claim"]:
            name = claim(settings, bundle)
        set_name(name)
        play(bundle, name, variables(settings))
    except Failed as failed:
        reason = str(failed)
    except Exception as error:  # whatever it is, the stack must not wait for its timeout to learn of it
        reason = f"{type(error).__name__}: {error}"
    tell(settings, name, reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
