"""Looks at the health of this server of Lustre and serves what it saw as one page; Python 3.9, nothing else.

`lustre_health.py write` looks, with a limit of time for each command, and writes the page.
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


def row(target: str, mount: str, there: dict[str, str]) -> tuple[bool, str]:
    """Whether a target is started, and its line."""
    if mount not in there:
        return False, f"<tr><td>{html.escape(target)}<td>not mounted<td><td></tr>"
    space = re.findall(r"(\d+)\s+(\d+)\s*$", asked("df", "-B1", "--output=used,avail", mount))
    used, free = (f"{int(each) / 1e9:.1f} GB" for each in space[0]) if space else ("unknown", "unknown")
    device = html.escape(there[mount])
    return True, f"<tr><td>{html.escape(target)}<td>started from {device}<td>{used}<td>{free}</tr>"


def page() -> str:
    """The whole page."""
    name = str(read(NODE).get("name", ""))
    said = asked("lctl", "get_param", "-n", "health_check")
    there = mounted()
    rows = [row(target, mount, there) for target, mount in expected(name)]
    well = bool(name) and said == "healthy" and bool(rows) and all(started for started, _ in rows)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")  # noqa: UP017 - 3.9
    return _PLACE.format(
        mark=HEALTHY if well else "",
        title=html.escape(f"Lustre server {name or '(has no name yet)'}"),
        at=now,
        said=html.escape(f"lctl health_check says: {said}"),
        rows="\n".join(line for _, line in rows),
    )


def write() -> None:
    """Put the page in its place, whole."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    new = PAGE.with_name(".index.html")
    new.write_text(page(), encoding="utf-8")
    new.chmod(0o644)
    new.replace(PAGE)


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
    {"write": write, "serve": serve, "wait": wait}.get(sys.argv[1] if len(sys.argv) > 1 else "write", write)()
