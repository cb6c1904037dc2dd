"""Gets what a machine sets itself up from, and runs it: when it starts, and whenever there is something new.

User data of the machine write it to /var/lib/gridwright/fetch.py, with settings in /etc/gridwright/boot.json,
and a timer of systemd runs it by begin.sh. It stays as it is for the life of a machine, and across releases:
what may change is in the bundle. It needs Python 3.9 and boto3, which begin.sh finds or installs. What failed
is tried again, later each time.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
ETC, STATE = ROOT / "etc/gridwright", ROOT / "var/lib/gridwright"
PAUSE_S = float(os.environ.get("GRIDWRIGHT_BOOT_PAUSE_S", "15"))
TRIES = 8
SET_UP_S = 10 * 3600
"""A claim may wait for hours for a machine that shuts down; set_up.py bounds each of its steps."""
FIRST_RETRY_S, LONGEST_RETRY_S = 60, 1800
ITEMS_S = 60
"""Of one request to AWS."""
RESTARTS = 75
"""Exit status of a program that goes on when the machine was restarted: no failure, and no try more."""


class NotFetched(Exception):
    """A step that did not succeed, in words for administrators."""


def say(text: str) -> None:
    """A line of the log."""
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, flush=True)  # noqa: T201 - the log


def on_console(text: str) -> None:
    """On the machine's console, which EC2 shows also where the machine reaches nothing."""
    try:
        with (ROOT / "dev/console").open("w") as console:
            console.write(f"gridwright: {text}\n")
    except OSError:
        pass


def store(settings: dict[str, Any]) -> Any:  # noqa: ANN401 - boto3 has no types of its own
    """A client of S3 that gives up after some minutes at most."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=10, read_timeout=ITEMS_S, retries={"max_attempts": 8, "mode": "standard"})
    return boto3.client("s3", region_name=settings["region"], config=config)


def content(s3: Any, bucket: str, key: str) -> bytes:  # noqa: ANN401 - boto3 has no types of its own
    """An object; a role that was just made is not known everywhere at once, so it is asked for again."""
    for attempt in range(TRIES):
        time.sleep(PAUSE_S if attempt else 0)
        try:
            return bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        except Exception as error:
            last = error
            say(f"s3://{bucket}/{key}: {error}")
    raise NotFetched(f"s3://{bucket}/{key}: {last}")


def unpack(archive: bytes, key: str) -> Path:
    """Put the bundle where the playbook runs, whole or not at all."""
    if hashlib.sha256(archive).hexdigest() != Path(key).name.partition(".")[0]:
        raise NotFetched(f"{key} does not hold what its name says: upload it again")
    new, there = STATE / "bundle.new", STATE / "bundle"
    shutil.rmtree(new, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as entries:
        for member in entries:
            if not member.isfile() or ".." in Path(member.name).parts or member.name.startswith("/"):
                raise NotFetched(f"{key} has an entry that does not belong there: {member.name}")
            path = new / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with entries.extractfile(member) or io.BytesIO() as entry:
                path.write_bytes(entry.read())
    shutil.rmtree(there, ignore_errors=True)
    new.rename(there)
    return there


def read_state() -> dict[str, Any]:
    """What the last runs came to; nothing where there was none, or where the file was damaged."""
    try:
        found = json.loads((STATE / "boot-state.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_state(state: dict[str, Any]) -> None:
    """Whole or not at all."""
    new = STATE / "boot-state.new"
    with new.open("w") as file:
        file.write(json.dumps(state) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(STATE / "boot-state.json")


def is_due(state: dict[str, Any], wanted: str, boot: str, now: float) -> bool:
    """Whether to set the machine up: at each start, for what is new, and some time after a failure."""
    if (state.get("wanted"), state.get("boot")) != (wanted, boot):
        return True
    if state.get("done"):
        return False
    wait = min(FIRST_RETRY_S * 2 ** (int(state.get("tries", 1)) - 1), LONGEST_RETRY_S)
    # A clock that was set back must not stop the tries.
    return not 0 <= now - float(state.get("at", 0)) < wait


def set_up(s3: Any, settings: dict[str, Any], text: str) -> int:  # noqa: ANN401 - boto3 has no types
    """Set the machine up where that is due; the exit status of the bundle's program."""
    key = content(s3, settings["bucket"], settings["pointer"]).decode().strip()
    wanted = hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = read_state()
    if not is_due(known, wanted, boot, time.time()):
        return 0
    again = known.get("wanted") == wanted and not known.get("done")
    tries = int(known.get("tries", 0)) + 1 if again else 1
    ever = bool(known.get("ever"))
    state = {"wanted": wanted, "boot": boot, "at": time.time(), "tries": tries, "ever": ever, "done": False}
    write_state(state)
    say(f"setting up with {key}, try {tries}")
    program = unpack(content(s3, settings["bucket"], key), key) / "boot/set_up.py"
    command = [sys.executable, str(program), key, str(tries), "again" if ever else "first"]
    status = subprocess.run(command, timeout=SET_UP_S, check=False).returncode
    restarts = status == RESTARTS
    state["tries"] = tries - 1 if restarts else tries
    # The pause begins when the try has ended.
    write_state({**state, "at": time.time(), "ever": ever or status == 0, "done": status == 0})
    if restarts:
        say("restarting")
        subprocess.run(["systemctl", "reboot"], stdin=subprocess.DEVNULL, timeout=60, check=False)
        return 0
    return status


def main() -> int:
    """Look for something new, and set the machine up with it; 0 where all is well."""
    text = (ETC / "boot.json").read_text()
    settings: dict[str, Any] = json.loads(text)
    try:
        return set_up(store(settings), settings, text)
    except (NotFetched, OSError, tarfile.TarError, subprocess.TimeoutExpired) as error:
        say(f"FAILURE {error}")
        on_console(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
