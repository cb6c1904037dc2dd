"""Looks at the health of this server of Lustre, and tells it to CloudWatch.

`lustre_health.py write` looks, with a limit of time for each command, and writes its figures.
`lustre_health.py tell` puts the figures where the grid's alarms look, by boto3; all else is Python 3.9 alone.
`lustre_health.py wait` waits until this server serves all of its targets, their recovery over.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
FIGURES = ROOT / "var/lib/gridwright/health/figures.json"
NODE = ROOT / "run/gridwright/node.json"
CLAIM = ROOT / "etc/gridwright/claim.json"
TARGETS = ROOT / "etc/gridwright/targets.json"
"""Of a machine that is one server for good; others claim a place among those of CLAIM."""
MOUNTS = ROOT / "proc/self/mounts"
LIMIT_S = 15
WAIT_S = float(os.environ.get("GRIDWRIGHT_WAIT_S", "1200"))
"""Longer than a recovery takes at most (recovery_time_hard, 900 s; Lustre Operations Manual)."""
PAUSE_S = 5.0
OVER = ("COMPLETE", "INACTIVE")
"""States of a recovery that is over, or that nothing needed."""
OLD_S = 300


def output_of(*command: str) -> str:
    """The standard output of a command; its failure, in brackets, where it fails or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"(no answer in {LIMIT_S} s)"
    except OSError as error:
        return f"({error.strerror})"
    return done.stdout.strip() if done.returncode == 0 else f"(status {done.returncode})"


def read(path: Path) -> dict:  # type: ignore[type-arg] # Python 3.9
    """A JSON file; empty where it is not there."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def mounted() -> dict[str, str]:
    """Mount points of Lustre, and their devices."""
    lines = [line.split() for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    return {fields[1]: fields[0] for fields in lines if len(fields) > 2 and fields[2].startswith("lustre")}


def own_name() -> str:
    """Which server this is; empty where nobody has told."""
    return str(read(TARGETS).get("name") or read(NODE).get("name", ""))


def expected(name: str) -> list[tuple[str, str]]:
    """Targets of this server and where they belong."""
    fixed = read(TARGETS)
    if fixed.get("name") == name and name:
        return [(each["name"], each["mount"]) for each in fixed.get("targets", [])]
    slots = [each for each in read(CLAIM).get("slots", []) if each.get("name") == name]
    return [(each["name"], each["mount"]) for slot in slots for each in slot.get("targets", [])]


class SeenTarget:
    """A target as it is now."""

    def __init__(self, device: str, space: list[int]) -> None:
        self.device, self.space = device, space

    @property
    def free(self) -> float | None:
        """Percent of its space; None where nobody can tell."""
        return 100 * self.space[1] / sum(self.space) if self.space and sum(self.space) else None


def look(mount: str, there: dict[str, str]) -> SeenTarget:
    """Look at one target; used and free bytes of one that is mounted."""
    if mount not in there:
        return SeenTarget("", [])
    space = re.findall(r"(\d+)\s+(\d+)\s*$", output_of("df", "-B1", "--output=used,avail", mount))
    return SeenTarget(there[mount], [int(each) for each in space[0]] if space else [])


def seen() -> dict:  # type: ignore[type-arg] # Python 3.9
    """The figures of this server."""
    name = own_name()
    said = output_of("lctl", "get_param", "-n", "health_check")
    there = mounted()
    targets = [look(mount, there) for _, mount in expected(name)]
    down = len(targets) if said != "healthy" else sum(not each.device for each in targets)
    free = [each.free for each in targets if each.free is not None]
    return {"server": name, "down": down, "free": min(free, default=None), "at": time.time()}


def write() -> None:
    """Put the figures in their place, whole."""
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    new = FIGURES.with_name(f".{FIGURES.name}")
    with new.open("w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        json.dump(seen(), file)
    new.replace(FIGURES)


def tell() -> None:
    """Put what was seen last where the grid's alarms look; what is old says nothing."""
    figures, claim = read(FIGURES), read(CLAIM)
    if not figures.get("server") or time.time() - figures["at"] > OLD_S:
        return
    import boto3
    from botocore.config import Config

    # shared-oss1 serves the file system shared: names of servers are made so.
    filesystem = figures["server"].rpartition("-")[0]
    dimensions = [{"Name": "Grid", "Value": claim["grid"]}, {"Name": "FileSystem", "Value": filesystem}]
    data = [{"MetricName": "TargetsDown", "Value": figures["down"], "Unit": "Count"}]
    if figures["free"] is not None:
        data.append({"MetricName": "TargetFree", "Value": round(figures["free"], 2), "Unit": "Percent"})
    config = Config(connect_timeout=10, read_timeout=20, retries={"max_attempts": 3, "mode": "standard"})
    metrics = boto3.client("cloudwatch", region_name=claim["region"], config=config)
    metrics.put_metric_data(
        Namespace="Gridwright", MetricData=[{**each, "Dimensions": dimensions} for each in data]
    )


def lacking() -> list[str]:
    """What keeps this server from serving, in words; nothing where it serves."""
    name = own_name()
    there, targets = mounted(), expected(name)
    if not targets:
        return [f"neither {TARGETS} nor {NODE} and {CLAIM} name targets of this server"]
    found = [f"{target} is not mounted" for target, mount in targets if mount not in there]
    said = output_of("lctl", "get_param", "-n", "health_check")
    if said != "healthy":
        found.append(f"lctl health_check says: {said}")
    # One name that is not there makes the status 2; the others are told all the same.
    for target, _ in targets:
        if target == "MGS":
            continue
        kind = "mdt" if "-MDT" in target else "obdfilter"
        told = output_of("lctl", "get_param", "-n", f"{kind}.{target}.recovery_status")
        status = re.search(r"^status: (\S+)", told, re.MULTILINE)
        if status is None or status[1] not in OVER:
            left = re.search(r"^time_remaining: (\d+)", told, re.MULTILINE)
            more = f", {left[1]} s left" if left else ""
            found.append(f"recovery of {target} is {status[1] if status else told or 'not told'}{more}")
    return found


def wait() -> None:
    """Return when this server serves; end with what is lacking where it does not in time."""
    deadline, before = time.monotonic() + WAIT_S, [""]
    while found := lacking():
        if found != before:
            print("; ".join(found), flush=True)  # noqa: T201 - the log of the boot
            before = found
        if time.monotonic() >= deadline:
            sys.exit(f"not healthy after {WAIT_S:.0f} s: {'; '.join(found)}")
        time.sleep(min(PAUSE_S, WAIT_S))


if __name__ == "__main__":
    words = {"write": write, "tell": tell, "wait": wait}
    words.get(sys.argv[1] if len(sys.argv) > 1 else "write", write)()
