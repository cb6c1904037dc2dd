"""Nothing that a job starts outlives it: as root and as an ordinary user, with control groups and without.

As root, all four are shown: the ordinary user is nobody, in a mount namespace in which the Python of these
tests can be read, and a control group is delegated as systemd does it, by giving it to that user.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from tests.support.local_grid import words

ROOT = Path(__file__).parents[2]
NOBODY = 65534
MANY = 5
SECONDS = "4711.25"
ESCAPES = f"""
cat /proc/self/cgroup
setsid -f env -i PATH="$PATH" sleep {SECONDS} </dev/null >/dev/null 2>&1
env -i {sys.executable} -I -S -c '
import os
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
os.closerange(0, 99)
os.execv("/bin/sleep", ["sleep", "{SECONDS}"])
'
(while :; do (sleep {SECONDS} & ); sleep 0.01; done) </dev/null >/dev/null 2>&1 &
sleep 0.3
"""
"""It detaches a process, makes a daemon by the book, and leaves a loop that makes more."""
RUN = """
import json, sys
from pathlib import Path
from tests.support.local_grid import ended, local_grid
with local_grid(Path(sys.argv[1])) as grid:
    scheduler = grid.scheduler()
    job, count, fields = sys.argv[2:]
    scheduler.submit([grid.request("sh", "-c", job, array=range(int(count)), **json.loads(fields))])
    jobs = ended(scheduler, ["1"], seconds=60)
    print(json.dumps([[job.state, job.reason, Path(job.log).read_text()] for job in jobs]))
"""
HIDE = "mount -t tmpfs none /sys/fs/cgroup; "
"""Without control groups."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that others can reach, too."""
    made = tmp_path_factory.mktemp("contained")
    for directory in (made, *made.parents):
        if directory == Path(tempfile.gettempdir()):
            break
        directory.chmod(0o755)
    made.chmod(0o1777)
    return made


@contextlib.contextmanager
def delegated_group() -> Iterator[Path]:
    """A control group of version 2 that belongs to nobody, as systemd delegates one to its user."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    top = next((Path(each[1]) for each in mounts if each[2] == "cgroup2"), None)
    if top is None or not os.access(top, os.W_OK):
        pytest.skip("no control group of version 2 can be made here")
    group = top / f"gridwright-test-{os.getpid()}"
    group.mkdir()
    try:
        os.setxattr(group, "user.delegate", b"1")
        for each in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
            os.chown(each, NOBODY, NOBODY)
        yield group
    finally:
        _remove_group(group)


def _remove_group(group: Path) -> None:
    deadline = time.monotonic() + 20
    while group.exists() and time.monotonic() < deadline:
        for below in sorted(group.rglob("*"), reverse=True):
            if below.is_dir():
                with contextlib.suppress(OSError):
                    below.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.02)


def run(
    script: str, place: Path, *, job: str, count: int = 1, **fields: object
) -> list[tuple[str, str | None, str]]:
    """Run a job in surroundings that a shell script makes: its last line executes "$@"."""
    command = [sys.executable, "-c", RUN, str(place / "grid"), job, str(count), json.dumps(fields)]
    shell = ["unshare", "--mount", "sh", "-ec", script, "sh", str(place), *command]
    if os.geteuid():
        shell = command
    done = subprocess.run(
        shell, cwd=ROOT, env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]


def as_nobody() -> str:
    """Shell: become an ordinary user who can read this Python and the checkout, wherever they lie."""
    hidden = [each for each in (Path(sys.base_prefix), ROOT) if not _is_for_all(each)]
    aside = [f'mkdir -p "$home/{n}"; mount --bind {each} "$home/{n}"' for n, each in enumerate(hidden)]
    covers = [f"mount -t tmpfs -o mode=755 none {top}" for top in {each.parents[-2] for each in hidden}]
    back = [f'mkdir -p {each}; mount --bind "$home/{n}" {each}' for n, each in enumerate(hidden)]
    become = f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --no-new-privs"
    return "\n".join(["home=$1; shift", *aside, *covers, *back, f'{become} "$@"'])


def _is_for_all(path: Path) -> bool:
    """Whether everybody can read a directory, and get there."""
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.parents))


def left() -> Sequence[psutil.Process]:
    """What has escaped."""
    return [each for each in psutil.process_iter() if words(each) == ["sleep", SECONDS]]


@pytest.mark.few(2)
@pytest.mark.parametrize("groups", [True, False])
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_daemons_do_not_outlive_their_job(place: Path, user: str, groups: bool) -> None:
    if os.geteuid() and (user == "root" or groups):
        pytest.skip("only root can show that")
    with contextlib.ExitStack() as stack:
        script = "" if groups else HIDE
        if user == "nobody" and groups and not os.geteuid():
            group = stack.enter_context(delegated_group())
            script = f"echo $$ >{group}/cgroup.procs; "
        script += 'shift; exec "$@"' if user == "root" else as_nobody()
        ends = run(script, place, job=ESCAPES, count=MANY)
        assert {(state, reason) for state, reason, _ in ends} == {("completed", None)}
        assert len(ends) == MANY
        assert left() == []
    inside = [any("/gridwright-" in line for line in log.splitlines()) for _, _, log in ends]
    if not groups or Path("/sys/fs/cgroup/unified").exists() or Path("/sys/fs/cgroup/cgroup.procs").exists():
        assert inside == [groups] * MANY


HOLD = "m = b'x' * (300 << 20)"


@pytest.mark.few(1)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide control groups")
@pytest.mark.parametrize("groups", [True, False])
def test_memory_is_held_to_its_limit(place: Path, groups: bool) -> None:
    """By the kernel where it can be; a child that takes too much ends all of the job."""
    job = f'{sys.executable} -S -c "{HOLD}; import time; time.sleep(60)"; sleep 60'
    script = ("" if groups else HIDE) + 'shift; exec "$@"'
    ((state, reason, _),) = run(script, place, job=job, memory_bytes=200 << 20)
    assert state == "out-of-memory"
    assert "200 MiB" in str(reason)
    if not groups:
        assert str(reason).startswith("used ")
