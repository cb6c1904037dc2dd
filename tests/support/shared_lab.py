"""One lab for all tests of a run that only look at one, whichever worker of pytest-xdist runs them.

The first test that asks for it makes it. Each process that uses it holds a lock on a file, which the kernel
takes away when the process dies, however it dies; what it forked has no part in it, as it is a record lock
(fcntl(2)), and may live longer. A process of its own, the keeper, waits for that lock and
takes the lab down. The end of the run waits until it is gone.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import GRIDWRIGHT, Command
from tests.support.lab import Lab

NAME = "sharedlab"
SPEC = f"""\
name: {NAME}
provider: lab
lab: {{network: 10.97.0.0/24}}
nodes:
  compute: {{count: 3, cores: 4, memory: 1 GiB}}
filesystems:
  shared: {{type: moosefs, path: /mnt/grid, servers: 3, copies: 2}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler:
  type: slurm
  queues:
    batch: {{}}
    narrow: {{cores: 3, priority: 5}}
    short: {{time: 60s}}
"""
DIRECTORY = "shared-lab"
"""In the directory of a test run."""
_ONE_AT_A_TIME, _USERS, _MADE = "making.lock", "users.lock", "made"
_UP_S, _DOWN_S = 280.0, 300.0


@contextmanager
def shared_lab(directory: Path, spec: str = SPEC, name: str = NAME) -> Iterator[Lab]:
    """The lab, up; `directory` is the same in all processes that share it."""
    # What this process prints is its own, as Command numbers its files.
    own = directory / f"of-{os.getpid()}"
    own.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.yaml"
    with (directory / _USERS).open("a+") as users:
        with (directory / _ONE_AT_A_TIME).open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            # A keeper that is taking the lab down is waited for.
            fcntl.lockf(users, fcntl.LOCK_SH)
            file.write_text(spec)
            lab = Lab(Command(own), file, name)
            if not (directory / _MADE).exists():
                (directory / _MADE).touch()
                _start_keeper(directory, file)
                _remove_former(name)
                ended = lab.command("up", file, seconds=_UP_S)
                assert ended.status == 0, ended.err
        yield lab


def _remove_former(name: str) -> None:
    """Take down one that a killed run left, whatever spec it had."""
    # A process of its own: taking a lab down ignores signals, and what a test starts would inherit that.
    program = "import sys; from gridwright.providers.lab.provider import take_away; take_away(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, name], timeout=_DOWN_S, check=True)


def _start_keeper(directory: Path, file: Path) -> None:
    # Forked, as no child of this process: tests kill what is left of theirs.
    keeper = ["setsid", "--fork", sys.executable, "-m", "tests.support.shared_lab", str(directory), str(file)]
    with (directory / "keeper.log").open("ab") as log:
        subprocess.run(
            keeper,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=30,
            check=True,
        )


def wait_until_gone(directory: Path) -> None:
    """Wait until no process uses the lab, and the keeper has taken it down. Raises TimeoutError."""
    # The keeper says why, where the lab does not go down within its time.
    deadline = time.monotonic() + _DOWN_S + 10.0
    while (directory / _MADE).exists():
        if time.monotonic() > deadline:
            said = (directory / "keeper.log").read_text()
            raise TimeoutError(f"{directory.name} is still up: {said}")
        time.sleep(0.05)


def _keep(directory: Path, file: Path) -> None:
    with (directory / _USERS).open("a+") as users:
        fcntl.lockf(users, fcntl.LOCK_EX)
        subprocess.run([GRIDWRIGHT, "down", str(file)], timeout=_DOWN_S, check=True)
        (directory / _MADE).unlink()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), Path(sys.argv[2]))
