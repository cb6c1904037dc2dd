#!/usr/bin/python
"""Registers users of Lustre's changelogs at the MDTs that this host serves, and deregisters those that left.

Only users that an earlier run has made are ever deregistered: their names are in a file of this host, which
is written before they are registered. Syntax and output: lctl of Lustre 2.15 to 2.17, recordings 501 and 508.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]

LIMIT_S = 120
"""Deregistering gives up all records of a user, which takes its time where there are many."""
DEVICE = re.compile(r"^mdd\.([A-Za-z0-9_-]{1,8}-MDT[0-9a-f]{4})\.changelog_users=", re.MULTILINE)
USER = re.compile(r"^(cl[0-9]+)(?:-(\S+))? +([0-9]+)", re.MULTILINE)
NO_COMMAND = 127
"""The status where there is no lctl."""
Users = dict[str, dict[str, tuple[str, int]]]
"""By MDT and name: `cl3`, and the index of the last record that was cleared."""


class LctlError(Exception):
    """Why lctl did not do what it was asked."""


def lctl(*arguments: str) -> tuple[int, str]:
    """The status of lctl, and what it printed. Raises LctlError where it does not end."""
    try:
        done = subprocess.run(["lctl", *arguments], capture_output=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        return NO_COMMAND, ""
    except subprocess.TimeoutExpired:
        raise LctlError(f"lctl {' '.join(arguments)} does not end") from None
    text = done.stdout.decode("utf-8", "replace")
    return done.returncode, text if not done.returncode else text + done.stderr.decode("utf-8", "replace")


def changed(mdt: str, *arguments: str) -> None:
    """Have lctl change something of an MDT. Raises LctlError."""
    status, text = lctl("--device", mdt, *arguments)
    if status:
        raise LctlError(f"{mdt}: lctl {' '.join(arguments)}: {text.strip()}")


def registered() -> Users:
    """The named users at each MDT of this host. Raises LctlError."""
    _, told = lctl("get_param", "mdd.*-MDT*.changelog_users")
    parts = DEVICE.split(told)
    return {
        parts[place]: {
            name: (user, int(index)) for user, name, index in USER.findall(parts[place + 1]) if name
        }
        for place in range(1, len(parts), 2)
    }


def write(path: Path, names: set[str]) -> None:
    """Keep the names of our users, whole or not at all. Raises OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("w") as file:
        json.dump(sorted(names), file)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def read(path: Path) -> set[str]:
    """The names of users that earlier runs have made."""
    try:
        return set(json.loads(path.read_text()))
    except (OSError, ValueError):
        return set()


def main() -> None:
    """Register, deregister, and tell who is there."""
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "list", "elements": "dict", "required": True},
            "types": {"type": "list", "elements": "str", "required": True},
            "state_file": {"type": "path", "required": True},
            "may_serve": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = ensure(module.params, changes=not module.check_mode)
    except (LctlError, OSError) as error:
        module.fail_json(msg=f"{error}; users with a name and types of their own take Lustre 2.15 or newer")
    module.exit_json(**result)


def ensure(asked: dict[str, Any], *, changes: bool) -> dict[str, Any]:
    """Make what was asked for so, or only say what differs. Raises LctlError, OSError."""
    path = Path(asked["state_file"])
    there, before = registered(), read(path)
    names = {each["user"] for each in asked["wanted"]}
    adding = [
        (mdt, each["user"])
        for mdt, users in sorted(there.items())
        for each in asked["wanted"]
        if is_of(mdt, each) and each["user"] not in users
    ]
    leaving = [
        (mdt, name) for mdt, users in sorted(there.items()) for name in users if name in before - names
    ]
    # An MDT may come here from another server, with its users.
    if (there or asked["may_serve"]) and changes and not before >= names:
        write(path, before | names)
    if there and changes:
        for mdt, name in leaving:
            changed(mdt, "changelog_deregister", "-u", name)
        for mdt, name in adding:
            changed(mdt, "changelog_register", "-u", name, "-m", ",".join(asked["types"]))
        if before - names:
            write(path, names)
        there = registered()
    return {
        "changed": bool(adding or leaving),
        "registered": adding,
        "deregistered": leaving,
        "users": {each["repository"]: of_repository(there, each) for each in asked["wanted"]},
    }


def of_repository(there: Users, wanted: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Who is registered for a repository at the MDTs of this host."""
    return {
        mdt: {"user": users[wanted["user"]][0], "index": users[wanted["user"]][1]}
        for mdt, users in there.items()
        if is_of(mdt, wanted) and wanted["user"] in users
    }


def is_of(mdt: str, wanted: dict[str, str]) -> bool:
    """Whether an MDT is of the file system that a repository is on."""
    return mdt.rpartition("-")[0] == wanted["filesystem"]


if __name__ == "__main__":
    main()
