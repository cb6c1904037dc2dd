"""The command itself: `targets.pyz`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.alone import alone, interruptible
from gridwright.node_programs.scratch.problems import Interrupted, ScratchError, Trouble
from gridwright.node_programs.scratch.report import complain, say
from gridwright.providers.oci.targets.configuration import TARGETS_FILE, read_targets
from gridwright.providers.oci.targets.ledger import BucketLedger, TargetLedger
from gridwright.providers.oci.targets.serving import Serving
from gridwright.providers.oci.targets.this_server import ThisServer

BOOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/") / "etc/gridwright/boot.json"
"""Settings that the machine began with: bucket and namespace are in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where all targets are mounted."""
    parser = argparse.ArgumentParser(prog="targets", description="Start the targets of this Lustre server.")
    parser.add_argument("--config", type=Path, default=TARGETS_FILE, metavar="FILE", help="what it serves")
    parser.add_argument("--dry-run", action="store_true", help="print the next step, and do nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    done: list[str] = []
    troubles: Sequence[Trouble] = ()
    status = 0
    try:
        with interruptible():
            _run(given.config, done, dry=given.dry_run, quiet=given.json)
    except ScratchError as error:
        troubles, status = error.troubles, error.status
    except Interrupted as error:
        troubles = (Trouble(str(error), "what was begun is finished at the next start"),)
        status = error.status
    complain(troubles)
    if given.json:
        problems = [{"what": each.what, "remedy": each.remedy} for each in troubles]
        say(json.dumps({"schema": 1, "ok": not status, "steps": done, "problems": problems}, indent=2))
    return status


def _run(config: Path, done: list[str], *, dry: bool, quiet: bool) -> None:
    configuration = read_targets(config)
    if os.geteuid() != 0:
        raise ScratchError(Trouble("only root can format and mount", "run it with sudo"))

    def tell(step: str) -> None:
        done.append(step)
        if not quiet:
            say(step)

    serving = Serving(configuration, ThisServer(configuration), _ledger(configuration.name), tell)
    if dry:
        step = serving.look()
        tell(f"next: {step}; what follows is seen then" if step is not None else "nothing is to be done")
        return
    with alone(configuration.directories.run / "targets.lock", "another one is at work on the targets"):
        serving.run()
    if not quiet:
        say(f"{configuration.name} serves its targets" + ("" if done else "; nothing was to be done"))


def _ledger(server: str) -> TargetLedger:
    from gridwright.providers.oci.boot import cloud

    try:
        settings = json.loads(BOOT.read_text("utf-8"))
        settings["bucket"], settings["namespace"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{BOOT} does not name the grid's bucket: {error!r}"
        raise ClaimError(Trouble(what, "the machine writes it when it starts: restart it")) from None
    return BucketLedger(cloud.Cloud(settings), server, cloud.REFUSED)
