"""Looks at the health of this server of Lustre, serves what it saw as one page, and tells it to CloudWatch.

`lustre_health.py write` looks, with a limit of time for each command, and writes the page and its figures.
`lustre_health.py tell` puts the figures where the grid's alarms look, by boto3; all else is Python 3.9 alone.
`lustre_health.py wait` waits until this server serves all of its targets, their recovery over.
`lustre_health.py serve` serves it on port 8080 of the server's own address. It answers 503 where the page is
old or says that something is wrong, so that a load balancer sees it, too.
"""

from __future__ import annotations

import datetime
import html
import http.server
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
FIGURES = ROOT / "var/lib/gridwright/health/figures.json"
PAGE = ROOT / "var/lib/gridwright/health/index.html"
NODE = ROOT / "run/gridwright/node.json"
CLAIM = ROOT / "etc/gridwright/claim.json"
MOUNTS = ROOT / "proc/self/mounts"
PORT = 8080
LIMIT_S = 15
WAIT_S = float(os.environ.get("GRIDWRIGHT_WAIT_S", "1200"))
"""Longer than a recovery takes at most (recovery_time_hard, 900 s; Lustre Operations Manual)."""
PAUSE_S = 5.0
OVER = ("COMPLETE", "INACTIVE")
"""States of a recovery that is over, or that nothing needed."""
OLD_S = 300
HEALTHY = "<!-- healthy -->"
_PLACE = """<!DOCTYPE html>
<html lang="en">{mark}
<meta charset="utf-8"><meta http-equiv="refresh" content="60">
<title>{title}</title>
<style>body{{font-family:sans-serif;margin:2em}}td,th{{text-align:left;padding:.2em 1em .2em 0}}</style>
<h1>{title}</h1>
<p>Seen at {at}. {said}</p>
<table><tr><th>target<th>state<th>used<th>free</tr>
{rows}
</table>
</html>
"""


def asked(*command: str) -> str:
    """What a command says; in brackets what became of it where it fails or does not end."""
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


def expected(name: str) -> list[tuple[str, str]]:
    """Targets of this server and where they belong."""
    slots = [each for each in read(CLAIM).get("slots", []) if each.get("name") == name]
    return [(each["name"], each["mount"]) for slot in slots for each in slot.get("targets", [])]


class SeenTarget:
    """A target as it is now."""

    def __init__(self, name: str, device: str, space: list[int]) -> None:
        self.name, self.device, self.space = name, device, space

    @property
    def free(self) -> float | None:
        """Percent of its space; None where nobody can tell."""
        return 100 * self.space[1] / sum(self.space) if self.space and sum(self.space) else None

    def row(self) -> str:
        """Its line on the page."""
        if not self.device:
            return f"<tr><td>{html.escape(self.name)}<td>not mounted<td><td></tr>"
        used, free = (f"{each / 1e9:.1f} GB" for each in self.space) if self.space else ("unknown", "unknown")
        started = f"started from {html.escape(self.device)}"
        return f"<tr><td>{html.escape(self.name)}<td>{started}<td>{used}<td>{free}</tr>"


def look(target: str, mount: str, there: dict[str, str]) -> SeenTarget:
    """Look at one target; used and free bytes of one that is mounted."""
    if mount not in there:
        return SeenTarget(target, "", [])
    space = re.findall(r"(\d+)\s+(\d+)\s*$", asked("df", "-B1", "--output=used,avail", mount))
    return SeenTarget(target, there[mount], [int(each) for each in space[0]] if space else [])


def seen() -> tuple[str, dict]:  # type: ignore[type-arg] # Python 3.9
    """The whole page, and its figures."""
    name = str(read(NODE).get("name", ""))
    said = asked("lctl", "get_param", "-n", "health_check")
    there = mounted()
    targets = [look(target, mount, there) for target, mount in expected(name)]
    down = len(targets) if said != "healthy" else sum(not each.device for each in targets)
    well = bool(name) and bool(targets) and not down
    free = [each.free for each in targets if each.free is not None]
    figures = {"server": name, "down": down, "free": min(free, default=None), "at": time.time()}
    return page(name, said, targets, well), figures


def page(name: str, said: str, targets: list[SeenTarget], well: bool) -> str:
    """The page."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")  # noqa: UP017 - 3.9
    return _PLACE.format(
        mark=HEALTHY if well else "",
        title=html.escape(f"Lustre server {name or '(has no name yet)'}"),
        at=now,
        said=html.escape(f"lctl health_check says: {said}"),
        rows="\n".join(each.row() for each in targets),
    )


def write() -> None:
    """Put the page and its figures in their places, whole."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    text, figures = seen()
    for path, content in ((PAGE, text), (FIGURES, json.dumps(figures))):
        new = path.with_name(f".{path.name}")
        new.write_text(content, encoding="utf-8")
        new.chmod(0o644)
        new.replace(path)


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
    name = str(read(NODE).get("name", ""))
    there, targets = mounted(), expected(name)
    if not targets:
        return [f"{NODE} and {CLAIM} name no targets of this server"]
    found = [f"{target} is not mounted" for target, mount in targets if mount not in there]
    said = asked("lctl", "get_param", "-n", "health_check")
    if said != "healthy":
        found.append(f"lctl health_check says: {said}")
    # One name that is not there makes the status 2; the others are told all the same.
    for target, _ in targets:
        if target == "MGS":
            continue
        kind = "mdt" if "-MDT" in target else "obdfilter"
        told = asked("lctl", "get_param", "-n", f"{kind}.{target}.recovery_status")
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


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the page, whatever is asked for."""

    timeout = 10
    server_version = "gridwright"
    sys_version = ""

    def do_GET(self) -> None:
        """The page."""
        try:
            text = PAGE.read_text(encoding="utf-8")
            old = time.time() - PAGE.stat().st_mtime > OLD_S
        except OSError:
            text, old = "<!DOCTYPE html><title>nothing seen yet</title>", True
        body = text.encode()
        self.send_response(503 if old or HEALTHY not in text else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A load balancer asks every few seconds; the journal is for what is wrong."""


def serve() -> None:
    """Serve until it is ended."""
    address = str(read(NODE).get("address", ""))
    if not address:
        sys.exit(f"{NODE} does not say which address is this server's: gridwright-claim has to succeed first")
    http.server.ThreadingHTTPServer.daemon_threads = True
    http.server.ThreadingHTTPServer((address, int(os.environ.get("PORT", PORT))), Handler).serve_forever()


if __name__ == "__main__":
    words = {"write": write, "serve": serve, "tell": tell, "wait": wait}
    words.get(sys.argv[1] if len(sys.argv) > 1 else "write", write)()
