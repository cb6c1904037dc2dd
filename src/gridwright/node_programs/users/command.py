"""The command itself: `users.pyz`, which the playbook and labs run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gridwright.node_programs.users.configuration import (
    CONFIGURATION,
    FAILED,
    UsersConfiguration,
    UsersError,
    read_configuration,
)
from gridwright.node_programs.users.machine import Remove, Write, observe
from gridwright.node_programs.users.planning import Plan, apply, is_of_another, plan_users
from gridwright.node_programs.users.services import conflicts, directory_changes, directory_notes, settle

_RUNNING = Path("/")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 for a wrong configuration, 3 for what failed."""
    parser = argparse.ArgumentParser(
        prog="users", description="Make the accounts of the grid on this machine, and configure SSSD."
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument("--root", type=Path, default=_RUNNING, metavar="DIRECTORY", help="of another system")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument(
        "--no-homes", action="store_true", help="make no homes: their file system comes later"
    )
    given = parser.parse_args(arguments)
    made = Plan()
    try:
        desired = read_configuration(given.config)
        made = _planned(desired, given.root, homes=not given.no_homes)
        if not given.dry_run and not made.troubles:
            _carry_out(made, desired, given.root)
        status = FAILED if made.troubles else 0
    except UsersError as error:
        made.troubles.append(str(error))
        status = error.status
    sys.stdout.write(json.dumps(_document(made), indent=2) + "\n")
    for trouble in made.troubles:
        sys.stderr.write(f"{trouble}\n")
    return status


def _planned(desired: UsersConfiguration, root: Path, *, homes: bool) -> Plan:
    there = observe(root, [account.home for account in desired.accounts])
    made = plan_users(desired, there, homes=homes)
    if is_of_another(desired, there):
        return made
    try:
        made.changes += directory_changes(desired, there, root)
    except UsersError as error:
        if os.geteuid() == 0:  # else the secret cannot be read, and nothing is done anyway
            made.troubles.append(str(error))
    if desired.directory is not None and root == _RUNNING:
        # useradd and groupadd ask the directory, too, and say less.
        made.troubles += conflicts(desired, there)
    made.notes += directory_notes(desired, root)
    return made


def _carry_out(made: Plan, desired: UsersConfiguration, root: Path) -> None:
    apply(made.changes, root)
    if root != _RUNNING:  # nothing runs there
        return
    written = [change.act.path for change in made.changes if isinstance(change.act, (Write, Remove))]
    settle(desired, written)
    if desired.directory is not None:
        made.troubles += conflicts(desired, observe(root, []))


def _document(made: Plan) -> dict[str, object]:
    return {
        "schema": 1,
        "changes": [
            {"setting": change.setting, "found": change.found, "wanted": change.wanted}
            for change in made.changes
        ],
        "notes": [{"name": "users", "setting": "users", "skipped": note} for note in made.notes],
        "troubles": made.troubles,
    }
