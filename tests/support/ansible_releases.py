"""Releases of ansible-core that a node may have, each in an environment of its own, and plays by them.

Debian 12 and Red Hat 9 have 2.14, Ubuntu 24.04 has 2.16; Gridwright's own environment has 2.19.
`python -m tests.support.ansible_releases` makes the environments, once for all tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gridwright.setup.running import NodeSetup, read_report
from tests.support.skips import no_such_python

ROOT = Path(__file__).parents[2]
CALLBACKS = ROOT / "src/gridwright/setup/ansible_report"
_INSTALL_S, _PLAY_S = 300.0, 280.0


@dataclass(frozen=True, slots=True)
class Release:
    """One release, and the Pythons 3.x that it runs on, as Ansible's support matrix has them."""

    name: str
    oldest: int
    newest: int

    @property
    def environment(self) -> Path:
        """Where it is installed."""
        return ROOT / ".venv" / f"ansible-{self.name}"

    @property
    def python(self) -> Path:
        """The Python that runs it; skips the test where this machine has none that can."""
        if not (self.environment / "made").exists():
            no_such_python(f"ansible-core {self.name} needs 3.{self.oldest} to 3.{self.newest}")
        return self.environment / "bin/python"

    @property
    def packages(self) -> Path:
        """The directory with its modules."""
        (found,) = self.environment.glob("lib/python3*/site-packages")
        return found


RELEASES = (
    Release("2.14", 9, 11),
    Release("2.16", 10, 12),
    Release("2.17", 10, 12),
    Release("2.18", 11, 13),
    Release("2.21", 12, 14),
)


def play(release: Release, playbook: Path, host: str, *words: str, file: str = "site.yml") -> NodeSetup:
    """Run a file of the playbook as if this machine were one of its hosts; what became of it."""
    report = playbook / f"report-{release.name}-{host}"
    report.touch()
    done = subprocess.run(
        [release.python, "-m", "ansible", "playbook", "-i", "inventory.yml", "--connection", "local",
         "--limit", host, "--extra-vars", "gridwright_become=false",
         "--extra-vars", "ansible_python_interpreter=/usr/bin/python3", *words, file],
        cwd=playbook, env=_environment(playbook, report), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=_PLAY_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-4000:]
    (node,) = read_report(report.read_text().splitlines())
    return node


def _environment(playbook: Path, report: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(playbook / "home"),
        "ANSIBLE_LOCAL_TEMP": str(playbook / "home/tmp"),
        "ANSIBLE_REMOTE_TEMP": str(playbook / "home/remote"),
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "gridwright_report",
        "GRIDWRIGHT_REPORT": str(report),
    }


def _python_for(release: Release) -> str | None:
    """A Python of this machine that the release runs on: one like ours, as a lab has it, or the newest."""
    like_this = sys.version_info.minor
    runs_on = range(release.oldest, release.newest + 1)
    for minor in sorted(runs_on, key=lambda each: (each != like_this, -each)):
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"))
        for each in [shutil.which(f"python3.{minor}"), *map(str, pyenv)]:
            # What pyenv puts into PATH may be there and refuse to run.
            if each and _runs(each):
                return each
    return None


def _runs(python: str) -> bool:
    command = [python, "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def make(release: Release) -> None:
    """Install a release where it is not; nothing where no Python is there for it."""
    lock = (ROOT / "requirements" / f"ansible-{release.name}.lock").read_text()
    made = release.environment / "made"
    python = _python_for(release)
    if python is None or (made.exists() and made.read_text() == lock):
        return
    subprocess.run([python, "-m", "venv", "--clear", release.environment], timeout=_INSTALL_S, check=True)
    locked = ("--require-hashes", "-r", f"requirements/ansible-{release.name}.lock")
    pip = [str(release.environment / "bin/python"), "-m", "pip", "install", "--quiet", *locked]
    subprocess.run(pip, cwd=ROOT, timeout=_INSTALL_S, check=True)
    made.write_text(lock)


if __name__ == "__main__":
    for each in RELEASES:
        make(each)
