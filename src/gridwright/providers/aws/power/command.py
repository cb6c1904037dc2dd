"""The command itself: `power.pyz`, which gridwright-power.service runs on the head node."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from gridwright.node_programs.power.asking import ASKED
from gridwright.node_programs.power.keeping import AskedFile, PowerKeeper, keep
from gridwright.node_programs.power.nodes import PowerStates
from gridwright.node_programs.power.supply import SupplyError
from gridwright.node_programs.scratch.commands import run
from gridwright.node_programs.scratch.problems import FAILED, WRONG_INPUT
from gridwright.providers.aws.power.aws import AwsPower
from gridwright.providers.aws.power.configuration import (
    CONFIGURATION,
    ConfigurationError,
    PowerConfiguration,
    read_configuration,
)
from gridwright.providers.aws.power.supplying import AwsSupply

EVERY_S = 30.0
"""Slurm asks at once where it wants nodes; this is for what nobody asked for, and for starts that fail."""
AGAIN_S = 600.0
"""A zone that has no machines of a type left has some again after minutes, seldom seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="power", description="Have machines of nodes there as long as Slurm wants these nodes on."
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument("--once", action="store_true", help="one round, instead of one after the other")
    given = parser.parse_args(arguments)
    try:
        configuration = read_configuration(given.config)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT
    try:
        keeper = keeper_of(configuration)
    except SupplyError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    if given.once:
        return 0 if keeper.round() else FAILED
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    keep(keeper, AskedFile(lambda: ASKED), EVERY_S, stop.wait)
    return 0


def keeper_of(configuration: PowerConfiguration) -> PowerKeeper:
    """What keeps the nodes of this grid. Raises SupplyError where AWS cannot be asked at all."""
    groups = configuration.groups
    return PowerKeeper(
        PowerStates(run),
        AwsSupply(AwsPower(configuration), groups),
        [node for group in groups for node in group.nodes],
        frozenset(node for group in groups for node in group.always_on),
        AGAIN_S,
        _say,
    )


def _say(text: str) -> None:
    """A line of the journal, which has its time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
