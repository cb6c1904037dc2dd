"""Gives a node back to Slurm before EC2 takes its spot instance away.

EC2 tells the instance two minutes before (EC2 User Guide, spot instance interruption notices). A node that
goes is powered down in Slurm's view at once: no job starts there any more, jobs that may start again do so
elsewhere, and the reason says why. The program is `spot.pyz`, run as root by gridwright-spot.service on nodes
of groups that are spot instances; it needs Python 3.9 and Slurm's commands, and of AWS the metadata service
alone. It imports the standard library and `gridwright.node_programs`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Optional

from gridwright.node_programs.power import PowerStates, reason_of
from gridwright.node_programs.scratch.commands import run

METADATA = "http://169.254.169.254"
LOOK_S = 5.0
"""AWS advises to look for a notice that often (EC2 User Guide, spot instance interruption notices)."""
ANSWER_S = 2.0
TOKEN_S = 600

Ask = Callable[[str, str, dict], Optional[str]]  # type: ignore[type-arg] # noqa: UP045 - 3.9
"""Method, path and headers of a request; the answer, None for "not found". Raises OSError."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="spot", description="Have Slurm use this node no more before EC2 takes it away."
    )
    parser.add_argument("--once", action="store_true", help="look once, instead of again and again")
    given = parser.parse_args(arguments)
    stop = threading.Event()
    if not given.once:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    told = False
    while True:
        told = told or look(ask, PowerStates(run), own_name())
        if given.once or stop.wait(LOOK_S):
            return 0


def look(asking: Ask, slurm: PowerStates, name: str) -> bool:
    """Look for a notice, and tell Slurm; whether Slurm knows it by now."""
    try:
        notice = notice_of(asking)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the metadata service does not answer: {error}\n")
        return False
    if notice is None:
        return False
    # Powered down by force: jobs are started again elsewhere, and the node can be had again later.
    done = slurm.update(name, "POWER_DOWN_FORCE", reason_of(notice))
    sys.stdout.write(f"{notice}: {'Slurm knows' if done else 'Slurm does not answer, asked again'}\n")
    sys.stdout.flush()
    return done


def notice_of(asking: Ask) -> str | None:
    """What EC2 is about to do with this instance, in words; None where nothing."""
    token = asking("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)})
    text = asking("GET", "/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token or ""})
    if text is None:
        return None
    action = json.loads(text)
    return f"EC2 takes this spot instance back at {action['time']} ({action['action']})"


def ask(method: str, path: str, headers: dict[str, str]) -> str | None:
    """One request to the metadata service, past any proxy."""
    endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(endpoint + path, headers=headers, method=method)  # noqa: S310
    try:
        with opener.open(request, timeout=ANSWER_S) as answer:
            return bytes(answer.read(1 << 16)).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def own_name() -> str:
    """The name that Slurm has the node by."""
    return os.uname().nodename.partition(".")[0]
