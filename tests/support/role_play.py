"""Roles of the playbook run by Ansible, in a mount namespace of this machine; needs root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORLD = 'mount -t tmpfs units /etc/systemd/system; exec "$@"'


def play(directory: Path, tasks: list[dict[str, Any]], more: Mapping[str, Any] | None = None) -> str:
    """Run tasks on this machine, over an empty directory of units; what Ansible printed.

    Roles are those in `directory`; `more` are variables.
    """
    file = directory / "play.yml"
    variables = {
        "gridwright_grid": "demo",
        "group_names": ["compute"],
        "ansible_facts": {"service_mgr": "none"},
        "ansible_python_interpreter": sys.executable,
        **(more or {}),
    }
    head = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    file.write_text(json.dumps([head]), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    command = ["unshare", "--mount", "sh", "-ec", WORLD, "sh", sys.executable, "-m", "ansible", "playbook"]
    done = subprocess.run(
        [*command, "-i", "localhost,", "--connection", "local", file],
        env={
            **kept, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_ROLES_PATH": str(directory / "roles"),
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
