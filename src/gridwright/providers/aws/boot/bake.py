"""Prepares a machine that an image is taken of: runs image.yml, and leaves nothing of this machine.

begin.sh runs it, with system_packages.py beside it. It needs Python 3.9. Exit status 1 where a step failed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import system_packages  # type: ignore[import-not-found]

PLAYBOOK_S = 5400
OF_THIS_MACHINE = ("etc/ssh/ssh_host_*", "root/.ansible", "var/lib/cloud/instances/*", "var/log/cloud-init*")
"""What every machine makes for itself at its first start, and must not share with others."""
EMPTIED = "etc/machine-id"
"""machine-id(5): an empty one is filled at the next start."""


def leave_nothing() -> None:
    """Remove what is of this machine alone."""
    for pattern in OF_THIS_MACHINE:
        for path in sorted(system_packages.ROOT.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    emptied = system_packages.ROOT / EMPTIED
    if emptied.exists():
        emptied.write_text("")


def main() -> int:
    """All steps in order."""
    try:
        system_packages.install()
        os.chdir(system_packages.BUNDLE)
        command = [
            "ansible-playbook",
            "-i",
            "inventory.yml",
            "--extra-vars",
            "gridwright_become=false",
            "image.yml",
        ]
        status, lines = system_packages.run(
            command, PLAYBOOK_S, ANSIBLE_NOCOLOR="1", PYTHONUNBUFFERED="1", HOME="/root"
        )
        if status:
            raise system_packages.Failed("the playbook failed: " + system_packages.reason_of(lines))
        leave_nothing()
    except (system_packages.Failed, OSError) as failed:
        system_packages.say(f"FAILURE {failed}")
        return 1
    system_packages.say("an image can be taken of this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
