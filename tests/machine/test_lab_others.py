"""Two users of a lab: what lies where is whose the table says, and neither ends the other's jobs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from gridwright.providers import head_node
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.slurm import reconciliation
from gridwright.schedulers.slurm.scheduler import SlurmScheduler
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec import load_spec
from gridwright.state_parts import PARTS
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up
from tests.unit.schedulers.test_forged_ends import line

pytestmark = pytest.mark.root
SPEC = """\
name: directories-test
provider: lab
lab: {network: 10.83.11.0/24}
nodes: {compute: {count: 1, cores: 2, memory: 1 GiB}}
filesystems: {shared: {type: local, path: /mnt/grid}}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
users: {local: {alice: {uid: 2001}, mallory: {uid: 2002}}}
"""
NODES = ("controller", "compute1")
MALLORY = ("setpriv", "--reuid=2002", "--regid=2002", "--clear-groups", "--")
ABOVE = ("/var/lib", "/run", "/etc", "/usr/local/lib", "/var/cache", "/var/log", "/opt", "/srv")


def rows() -> list[dict[str, str]]:
    with resources.files("gridwright.setup").joinpath("directories.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("lab")
    spec = place / "directories-test.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, "directories-test")) as lab:
        # What users make, too.
        submitted = lab.command("submit", "--grid", spec, "--", "true")
        assert submitted.status == 0, submitted.err
        yield lab


def there(lab: Lab, node: str, state: Path) -> dict[str, tuple[str, str]]:
    """Directories of a node that are Gridwright's, with owner and mode."""
    roots = [state, *(f"/mnt/grid/{name}" for name in ("data", "work", "util"))]
    said = lab.run(
        node, "sh", "-c",
        f"find {' '.join(ABOVE)} -name 'gridwright*' -prune -type d -exec find {{}} -type d "
        f"-not -path '{state}/*' -printf '%p\\t%u\\t%04m\\n' ';' 2>/dev/null;"
        f"for each in {' '.join(map(str, roots))}; do find $each -type d -printf '%p\\t%u\\t%04m\\n'; done",
    )  # fmt: skip
    lines = [line.split("\t") for line in said.out.splitlines()]
    return {path: (owner, mode) for path, owner, mode in lines}


def test_each_directory_has_the_owner_and_the_mode_of_the_table(lab: Lab) -> None:
    state = state_directory(load_spec(lab.spec))
    names = {"{state}": str(state)} | {
        f"{{{name}}}": f"/mnt/grid/{name}" for name in ("data", "work", "util")
    }
    table = []
    for row in rows():
        path = row["path"]
        for name, value in names.items():
            path = path.replace(name, value)
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
        table.append((row, path, re.compile(pattern)))
    # What is named stands before what a pattern takes.
    table.sort(key=lambda each: each[1].count("{"))
    for node in NODES:
        found = there(lab, node, state)
        for path, (owner, mode) in found.items():
            fitting = [(row, match) for row, _, pattern in table if (match := pattern.fullmatch(path))]
            assert fitting, f"{path} on {node} is not in the table"
            row, match = fitting[0]
            wanted = (
                row["owner"].format(**{"user": owner} | match.groupdict())
                if "{" in row["owner"]
                else row["owner"]
            )
            assert (owner, mode) == (wanted, row["mode"]), f"{path} on {node}"
        absent = [path for row, path, _ in table if row["always"] and path not in found]
        assert absent == [], f"{node} lacks them"
    assert {f"{state}/{part}" for part in PARTS} <= found.keys()


def test_no_name_of_a_job_of_mallorys_ends_a_job_of_another_user(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_spec(lab.spec)
    head, state = head_node(spec), state_directory(spec)

    def job(identifier: str) -> Job:
        (found,) = SlurmScheduler(spec, head, state).jobs([identifier])
        return found

    request = JobRequest(command=["sleep", "600"], directory="/", environment={"PATH": "/usr/bin:/bin"})
    (identifier,) = SlurmScheduler(spec, head, state).submit([request])
    wait_until(
        lambda: job(identifier).state is JobState.RUNNING or None,
        seconds=30,
        what="the job",
        last=lambda: job(identifier),
    )
    name = lab.run("controller", "squeue", "-h", "-j", identifier, "-O", "Name:200").out.strip()
    whole = line(job=int(identifier), user="root(0)", name=name)
    forged = [name, f"x UserId=root(0) Name={name}", f"x\n{whole}", f"x JobState=COMPLETED\n{whole}\ny"]
    assert lab.run("controller", "scancel", identifier).status == 0
    for each in [*forged, "last-of-mallory"]:
        words = ["sbatch", "-J", each, "-D", "/mnt/grid", "-o", "/dev/null", "--wrap", "true"]
        assert lab.run("controller", *MALLORY, *words).status == 0
    log = "/var/log/slurm/jobcomp.log"
    wait_until(
        lambda: lab.run("controller", "grep", "-c", "last-of-mallory", log).status == 0 or None,
        seconds=60,
        what="jobs of mallory",
        last=lambda: lab.run("controller", "cat", log).out,
    )
    assert whole in lab.run("controller", "cat", log).out, "Slurm writes names as they are"
    # As when Slurm has forgotten the job, after MinJobAge.
    monkeypatch.setattr(reconciliation, "read_queue", lambda *_: [])
    assert job(identifier).state is JobState.CANCELLED
