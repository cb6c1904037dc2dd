"""Two users of one grid, under every scheduler: whatever mallory (2002) does, alice (2001) loses nothing.

Slurm and Grid Engine are real. LSF is the double of tests/support/lsf_double, which runs on the controller as
root and starts jobs as who handed them in. mallory knows more than she should: the tokens of alice's jobs.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridwright.providers.lab.power import record_of
from gridwright.providers.lab.record import Places
from gridwright.providers.lab.services import node_of
from tests.support import lsf_double
from tests.support.command import GRIDWRIGHT, Command, Ended, wait_until
from tests.support.lab import Lab, up
from tests.support.lsf_double.running import COMMANDS

pytestmark = pytest.mark.root
LAB = """\
name: {name}
provider: lab
lab: {{network: {network}}}
nodes: {{compute: {{count: 2, cores: 4, memory: 1 GiB}}}}
filesystems: {{shared: {{type: local, path: /mnt/grid}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: {type}}}
users: {{local: {{alice: {{uid: 2001}}, mallory: {{uid: 2002}}}}}}
"""
LABS = {"slurm": ("two-slurm", "10.155.0.0/24"), "grid_engine": ("two-sge", "10.156.0.0/24")}
PLACES = [("slurm", "slurm"), ("slurm", "local"), ("slurm", "lsf"), ("grid_engine", "grid_engine")]
"""Labs, and what schedules there: two of them need no service of a lab."""
ON_ONE_MACHINE = ("local", "lsf")
GRID = """\
name: two
provider: {provider}
nodes: {{compute: {{{nodes}}}}}
filesystems: {{shared: {{type: local, path: /mnt/grid}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: {type}}}
state: {state}
"""
LSF = "/srv/lsf"
PLANTED = "/tmp/planted"
TABLES = "what alice computes"


@dataclass(frozen=True, slots=True)
class Place:
    """A grid as two users have it, on the controller of a lab."""

    lab: Lab
    type: str
    state: str

    def sh(self, user: str, script: str) -> Ended:
        """A line of shell of a user who logged in; `root` is root."""
        path = f"{LSF}:$PATH" if self.type == "lsf" else "$PATH"
        return self.lab.run("controller", "su", "-", user, "-c", f"PATH={path}; cd /tmp; {script}")

    def __call__(self, user: str, verb: str, *words: str) -> Ended:
        """A command of Gridwright of a user."""
        return self.sh(user, shlex.join([GRIDWRIGHT, verb, "--grid", self.spec, *words]))

    @property
    def spec(self) -> str:
        return f"/srv/{self.type}.yaml"

    @property
    def own(self) -> str:
        """alice's directory of jobs, below the state directory."""
        return f"{self.state}/{self.type}/alice"

    def submit(self, user: str, script: str, *flags: str) -> str:
        done = self(user, "submit", *flags, "--", "sh", "-c", script)
        assert done.status == 0, done.err
        return done.out.strip()

    def ended(self, user: str, job: str) -> Ended:
        return self(user, "wait", job)

    def printed(self, user: str, job: str) -> str:
        """What a job printed."""
        done = self(user, "logs", job)
        assert done.status == 0, done.err
        return done.out

    def token(self) -> str:
        """The token of alice's last submission: mallory reads it off the names of jobs in the queue."""
        base = f"{self.own}/slurm.sqlite" if self.type == "slurm" else f"{self.own}/jobs.sqlite"
        look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("
        look += "'SELECT token FROM submission ORDER BY number DESC').fetchone()[0])"
        return self.sh("root", shlex.join([sys.executable, "-c", look, base])).out.strip()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One lab for all that needs it."""
    metafunc.parametrize(
        ("lab", "place"), PLACES, indirect=True, scope="module", ids=[each for _, each in PLACES]
    )


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    name, network = LABS[request.param]
    directory = tmp_path_factory.mktemp("two")
    file = directory / "grid.yaml"
    file.write_text(LAB.format(name=name, network=network, type=request.param))
    with up(Lab(Command(directory), file, name)) as there:
        for node in ("controller", "compute1", "compute2"):
            # This machine's Python, which nodes have at the same path, may lie in root's home.
            there.run(node, "chmod", "711", "/root")
        yield there


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Place]:
    type_ = str(request.param)
    state = str(Places(lab.name).state)
    nodes = "cores: 4" if type_ in ON_ONE_MACHINE else 'hosts: "compute[1-2]"'
    provider = "local" if type_ in ON_ONE_MACHINE else "site"
    text = GRID.format(provider=provider, nodes=nodes, type=type_, state=state)
    if type_ == "local":
        # Each user has a queue of its own.
        text = text.replace(f"state: {state}\n", "")
    node_of(record_of(lab.name), "controller").write(f"/srv/{type_}.yaml", text)
    found = Place(lab, type_, state)
    if type_ != "lsf":
        yield found
        return
    with lsf(lab):
        yield found


@contextmanager
def lsf(lab: Lab) -> Iterator[None]:
    """The double of LSF on the controller of a lab."""
    controller = node_of(record_of(lab.name), "controller")
    lab.run("controller", "mkdir", "-p", LSF)
    for file in Path(lsf_double.__file__).parent.glob("*.py"):
        controller.write(f"{LSF}/source/tests/support/lsf_double/{file.name}", file.read_text())
    for name in ("tests", "tests/support"):
        controller.write(f"{LSF}/source/{name}/__init__.py", "")
    client = (Path(lsf_double.__file__).parent / "client.py").read_text()
    for name in COMMANDS:
        controller.write(f"{LSF}/{name}", f"#!{sys.executable} -ES\n{client}", mode=0o755)
    start = f"cd {LSF}/source && exec setsid {sys.executable} -m tests.support.lsf_double.daemon {LSF}"
    lab.run("controller", "sh", "-c", f"{start} >/var/log/lsf.log 2>&1 </dev/null &")
    wait_until(
        lambda: lab.run("controller", "test", "-S", f"{LSF}/mbatchd.sock").status == 0 or None,
        seconds=10,
        what="the double of LSF",
        last=lambda: lab.run("controller", "cat", "/var/log/lsf.log").out,
    )
    yield
    lab.run("controller", "pkill", "-9", "-f", "lsf_double.daemon")


def own_state(place: Place) -> bool:
    """Whether users share no directory, so that there is nothing to take beforehand."""
    return place.type == "local"


def test_a_directory_that_mallory_took_beforehand_runs_nothing_of_hers(place: Place) -> None:
    if own_state(place):
        place.sh("root", "install -d -o mallory -m 755 /srv/taken")
        spec = place.sh(
            "root", f"sed '$ a state: /srv/taken' {place.spec} > /srv/taken.yaml; cat /srv/taken.yaml"
        )
        assert "state: /srv/taken" in spec.out
        refused = place.sh("alice", f"{GRIDWRIGHT} submit --grid /srv/taken.yaml -- true")
    else:
        # Her own submission tells her the names of the programs that hers would have.
        job = place.submit("mallory", "true")
        place.ended("mallory", job)
        part = f"{place.state}/{place.type}"
        plant = (
            f"mkdir -m 755 {part}/alice && cd {part} && for each in mallory/*.sh mallory/*.pyz; do "
            f'[ -e "$each" ] && printf "#!/bin/sh\\nid -un > {PLANTED}\\n" > alice/"${{each##*/}}" && '
            'chmod 755 alice/"${each##*/}"; done; '
            "mkdir -m 777 alice/logs alice/runs alice/jobs alice/fences; ls alice"
        )
        planted = place.sh("mallory", plant)
        assert ".sh" in planted.out, planted
        refused = place("alice", "submit", "--", "true")
        root = place.sh("root", f"rm -r -- {part}/alice")
        assert root.status == 0, root.err
    assert refused.status == 3, (refused.out, refused.err)
    assert "it belongs to mallory" in refused.err
    assert place.sh("root", f"cat {PLANTED}").status != 0


def test_each_user_has_jobs_that_run_as_that_user(place: Place) -> None:
    for user, uid in (("alice", "2001"), ("mallory", "2002")):
        job = place.submit(user, "id -u")
        assert place.ended(user, job).status == 0
        assert place.printed(user, job).strip() == uid


@pytest.mark.parametrize("umask", ["022", "000"])
def test_nothing_of_a_job_is_read_or_changed_by_another_user(place: Place, umask: str) -> None:
    script = (
        f'umask 077; echo "$TABLES {umask}"; echo "$TABLES" > "$GRIDWRIGHT_WORK/table"; '
        'echo "$TABLES" > "$GRIDWRIGHT_UTIL/spill"'
    )
    hand_in = [GRIDWRIGHT, "submit", "--grid", place.spec, "--keep", "--", "sh", "-c", script]
    done = place.sh("alice", f"umask {umask}; TABLES={shlex.quote(TABLES)} {shlex.join(hand_in)}")
    assert done.status == 0, done.err
    job = done.out.strip()
    assert place.ended("alice", job).status == 0
    assert f"{TABLES} {umask}" in place.printed("alice", job)
    everywhere = f"{place.state} /mnt/grid /home /srv /tmp /var/lib /run"
    look = (
        f"grep -rsl {shlex.quote(TABLES)} {everywhere}; "
        "find /mnt/grid/work /mnt/grid/util -mindepth 1 -maxdepth 1 -user alice -exec rm -rf {} +; "
        f"{GRIDWRIGHT} logs --grid {place.spec} {job}; {GRIDWRIGHT} cancel --grid {place.spec} {job}"
    )
    assert TABLES not in place.sh("mallory", look).out
    left = place.sh("root", "find /mnt/grid/work /mnt/grid/util -name table -o -name spill").out
    assert {line.rpartition("/")[2] for line in left.split()} == {"table", "spill"}
    place.sh("root", "find /mnt/grid/work /mnt/grid/util -mindepth 1 -maxdepth 1 -exec rm -rf {} +")


def test_names_of_private_directories_that_mallory_takes_cost_alice_nothing(place: Place) -> None:
    if own_state(place):
        token = "0" * 16
        job = place.submit("alice", f"sleep 3; {_USE}")
    else:
        job = place.submit("alice", f"sleep 3; {_USE}")
        # A job that waits for the other has a name that stands in the queue for as long as she likes.
        job = place.submit("alice", _USE, "--after", job)
        token = place.token()
    names = [f"gridwright-{token}.0", f"gridwright-{token}", *(f"gridwright-{token}.0.{n}" for n in range(3))]
    names += [f"gridwright-{job}", f"gridwright-{job}.0"]
    for library in ("work", "util"):
        took = [f"mkdir -m 777 /mnt/grid/{library}/{name}" for name in names]
        took.append(f"ln -s /home/mallory /mnt/grid/{library}/gridwright-{token}.0.9")
        place.sh("mallory", "; ".join(took))
    ended = place.ended("alice", job)
    said = place.printed("alice", job)
    assert ended.status == 0, said
    assert said.split() == ["alice", "700", "alice", "700"]
    # What she took is still hers: nobody's clearing away goes through it.
    kept = place.sh("root", "find /mnt/grid/work -maxdepth 1 -user mallory | wc -l").out
    assert int(kept) > len(names) - 1
    place.sh("root", "find /mnt/grid/work /mnt/grid/util -mindepth 1 -maxdepth 1 -exec rm -rf {} +")


_USE = (
    'stat -c "%U %a" "$GRIDWRIGHT_WORK" "$GRIDWRIGHT_UTIL" && echo x > "$GRIDWRIGHT_WORK/x" && '
    'echo x > "$GRIDWRIGHT_UTIL/x"'
)


def forging(place: Place, job: str) -> str:
    """What mallory does to a job of alice: she ends it, and submits jobs that look like it and fail."""
    orders = [f"{GRIDWRIGHT} cancel --grid {place.spec} {job}"]
    if place.type == "slurm":
        name = place.sh("root", "squeue -h -o %j -u alice").out.split()[-1]
        line = f"x JobState=FAILED JobId={job} UserId=alice(2001) Name={name}"
        orders += [f"scancel {job}"]
        orders += [f"sbatch -o /dev/null -J {shlex.quote(each)} --wrap 'exit 9'" for each in (name, line)]
    elif place.type == "grid_engine":
        orders += [f"qdel {job}", f"echo exit 9 | qsub -o /dev/null -e /dev/null -N job~{place.token()}.0"]
    elif place.type == "lsf":
        orders += [f"bkill {job}", f"bsub -J job~{place.token()}.0 -o /dev/null exit 9"]
    locks = f"$(find {place.state} -type f -name '*lock*')"
    return "; ".join([*orders, f"for each in {locks}; do flock -n $each sleep 5 & done"])


def test_mallory_cannot_end_a_job_of_alice_or_say_how_it_ended(place: Place) -> None:
    job = place.submit("alice", "sleep 8")
    place.sh("mallory", forging(place, job))
    assert place.ended("alice", job).status == 0
    shown = place("alice", "jobs", "--all", "--json").json["jobs"]
    assert [each["state"] for each in shown if each["id"] == job] == ["completed"]


def test_jobs_that_are_killed_are_cleared_away_without_following_what_mallory_left(place: Place) -> None:
    job = place.submit(
        "alice", 'ln -s /home/alice/kept "$GRIDWRIGHT_WORK/link"; chmod 000 "$GRIDWRIGHT_WORK"; sleep 60'
    )
    place.sh("alice", "mkdir -p /home/alice/kept && echo x > /home/alice/kept/file")
    wait_until(
        lambda: place.sh("root", "find /mnt/grid/work -name link").out or None,
        seconds=30,
        what="the job at work",
        last=lambda: place("alice", "jobs").out,
    )
    place("alice", "cancel", job)
    place.ended("alice", job)
    look = "find /mnt/grid/work -mindepth 1 -maxdepth 1 -user alice"
    wait_until(
        lambda: (place("alice", "jobs") and not place.sh("root", look).out) or None,
        seconds=60,
        what="a work that has nothing of alice",
        last=lambda: place.sh("root", "ls -la /mnt/grid/work").out,
    )
    assert place.sh("root", "cat /home/alice/kept/file").out.strip() == "x"
