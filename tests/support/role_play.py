"""Roles of the playbook run by Ansible on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec.model import GridSpec

NO_UNITS = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs units /etc/systemd/system; exec "$@"', "sh")
"""A mount namespace with an empty directory of units; needs root."""


def write_roles(directory: Path, spec: GridSpec, *roles: str) -> None:
    """Write these roles of the playbook of a spec, as `play` looks for them."""
    for name, content in playbook_files(spec, Hosts.named(compute=["localhost"])).items():
        if name.startswith(tuple(f"roles/{role}/" for role in roles)):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def play(
    directory: Path,
    tasks: list[dict[str, Any]],
    more: Mapping[str, Any] | None = None,
    *,
    world: Sequence[str] = NO_UNITS,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run tasks on this machine; what Ansible printed.

    Roles are those in `directory`; `more` are variables, and `world` are the words that Ansible is run by.
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
    command = [*world, sys.executable, "-m", "ansible", "playbook"]
    done = subprocess.run(
        [*command, "-i", "localhost,", "--connection", "local", file],
        env={
            **kept, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_ROLES_PATH": str(directory / "roles"), **(environment or {}),
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
