"""What batch systems promise beyond the contract of schedulers: Grid Engine in a lab, the double of LSF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import head_node
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.batch.scheduler import BatchScheduler
from gridwright.schedulers.batch.system import BatchCall, BatchSystem, Unclear
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState, JobTag
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec import load_spec
from tests.support.batch_places import lsf_grid
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up
from tests.support.local_grid import ended

pytestmark = pytest.mark.root

LAB = """\
name: batch
provider: lab
lab: {network: 10.145.0.0/24}
nodes:
  compute: {count: 2, cores: 4, memory: 1 GiB}
filesystems:
  shared: {type: local, path: /mnt/grid}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: grid_engine, queues: {batch: {}, short: {time: 10m, cores: 2}}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A grid with a batch system."""

    scheduler: BatchScheduler
    libraries: dict[str, str]
    scratch: Path
    """A directory that nodes and this machine share."""
    lab: Lab | None

    def request(self, *command: str, **fields: object) -> JobRequest:
        given: dict[str, object] = {
            "command": command,
            "directory": "/",
            "environment": {"PATH": "/usr/bin:/bin"},
            "libraries": self.libraries,
            "memory_bytes": 32 << 20,
        }
        return JobRequest(**(given | fields))  # type: ignore[arg-type]

    def run(self, *requests: JobRequest) -> list[Job]:
        """Their ends, elements of arrays singly."""
        return ended(self.scheduler, self.scheduler.submit(requests), seconds=90)

    @property
    def system(self) -> BatchSystem:
        return self.scheduler._system


@pytest.fixture(scope="module", params=["grid_engine", "lsf"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("batch")
    command = Command(directory)
    if request.param == "lsf":
        with lsf_grid(directory) as file:
            yield _site(file, None)
        return
    file = directory / "batch.yaml"
    file.write_text(LAB)
    with up(Lab(command, file, "batch")) as lab:
        yield _site(file, lab)


def _site(file: Path, lab: Lab | None) -> Site:
    spec = load_spec(file)
    scheduler = scheduler_kind(spec.scheduler).open(spec, head_node(spec))
    assert isinstance(scheduler, BatchScheduler)

    libraries: dict[str, str] = {name: str(spec.library_directory(name)) for name in spec.libraries}
    # All nodes and this machine have the state directory at the same path.
    scratch = state_directory(spec) / "scratch"
    scratch.mkdir()
    return Site(scheduler, libraries, scratch, lab)


def states(jobs: Sequence[Job]) -> list[JobState]:
    return [each.state for each in jobs]


def test_jobs_wait_for_others_in_every_way(site: Site) -> None:
    jobs = site.run(
        site.request("true"),
        site.request("false"),
        site.request("true", after=["#0"]),
        site.request("true", after=["any:#1"]),
        site.request("true", after=["not-ok:#1"]),
        site.request("true", after=["not-ok:#0"]),
        site.request("true", after=["#0", "#1"]),
    )
    done, failed, never = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED
    assert states(jobs) == [done, failed, done, done, done, never, never]
    assert [each.started for each in jobs[5:]] == [None, None]
    assert f"job {jobs[0].id}, after whose failure" in str(jobs[5].reason)
    assert f"job {jobs[1].id}, which" in str(jobs[6].reason)


def test_elements_wait_for_those_of_their_index(site: Site) -> None:
    fails = "exit $((GRIDWRIGHT_ARRAY_INDEX == 7))"
    jobs = site.run(
        site.request("sh", "-c", fails, array=[3, 7, 9]),
        site.request("true", array=[3, 7, 9], after=["each:#0"]),
    )
    done, failed, never = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED
    assert states(jobs) == [done, failed, done, done, never, done]
    assert [each.id.partition("_")[2] for each in jobs] == ["3", "7", "9"] * 2


@pytest.mark.parametrize("arrives", [True, False])
def test_a_submission_whose_answer_is_lost_runs_once(
    site: Site, arrives: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = site.system.submit
    lost: list[JobTag] = []

    def loses(call: BatchCall) -> int:
        number = submit(call) if arrives or lost else 0
        if not lost:
            lost.append(call.tag)
            raise Unclear("no answer came")
        return number

    monkeypatch.setattr(site.system, "submit", loses)
    trace = site.scratch / f"trace-{arrives}"
    (job,) = site.run(site.request("sh", "-c", f"echo ran >>{trace}"))
    assert (job.state, len(lost)) == (JobState.COMPLETED, 1)
    assert trace.read_text() == "ran\n"


def test_a_refused_job_takes_the_others_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [each.id for each in site.scheduler.jobs()]
    # What only the batch system itself finds out.
    command = site.system.command  # type: ignore[attr-defined]

    def wrong(call: BatchCall) -> list[str]:
        words: list[str] = command(call)
        return [*words[:1], "-no-such-option", *words[1:]] if call.request.name == "wrong" else words

    monkeypatch.setattr(site.system, "command", wrong)
    with pytest.raises(GridwrightError) as refused:
        site.scheduler.submit([site.request("sleep", "60"), site.request("true", name="wrong")])
    assert refused.value.status is ExitStatus.INPUT
    assert "wrong" in refused.value.problems[0].what
    assert [each.id for each in site.scheduler.jobs()] == before
    wait_until(
        lambda: all(each.state.final for each in site.system.queue()) or None,
        seconds=60,
        what="removal",
        last=site.system.queue,
    )


def test_what_nobody_can_give_is_refused_at_once(site: Site) -> None:
    with pytest.raises(GridwrightError) as refused:
        site.scheduler.submit(
            [
                site.request("true", cores=999),
                site.request("true", memory_bytes=1 << 50),
                site.request("true", queue="shart"),
                site.request("true", node="no-such-node"),
                site.request("true", after=["999999"]),
                site.request("true", options=JobOptions(licences=["bad name"])),
            ]
        )
    assert refused.value.status is ExitStatus.INPUT
    text = str(refused.value)
    for words in (
        "999 cores",
        "1 PiB",
        "no queue shart",
        "did you mean short?",
        "no-such-node",
        "no job 999999",
    ):
        assert words in text
    assert "bad name" in text


def test_input_and_output_go_where_they_were_asked_to(site: Site) -> None:
    given, out = site.scratch / "given", site.scratch / "printed-{index}"
    given.write_text("read\n")
    options = JobOptions(stdin=str(given), stdout=str(out))
    assert states(site.run(site.request("cat", array=[4], options=options))) == [JobState.COMPLETED]
    assert (site.scratch / "printed-4").read_text() == "read\n"


def test_why_a_job_waits_is_told(site: Site) -> None:
    cores = max(each.cores for each in site.scheduler.nodes())
    count = len(site.scheduler.nodes())
    full = site.scheduler.submit([site.request("sleep", "600", cores=cores) for _ in range(count)])
    (waits,) = site.scheduler.submit([site.request("true", cores=cores)])
    try:
        wait_until(
            lambda: all(each.state is JobState.RUNNING for each in site.scheduler.jobs(full)) or None,
            seconds=60,
            what="full nodes",
            last=lambda: site.scheduler.jobs(full),
        )
        explained = site.scheduler.explain(waits)
        assert explained.job.state is JobState.WAITING
        assert explained.summary.startswith("It waits")
        assert [each.fits for each in explained.candidates] == [True] + [False] * count
        lacking = [each.name for each in explained.candidates[1].requirements if not each.fits]
        assert lacking == ["cores"]
    finally:
        site.scheduler.cancel([*full, waits])
        ended(site.scheduler, [*full, waits])


def test_an_exclusive_job_has_its_node_alone(site: Site) -> None:
    node = site.scheduler.nodes()[0]
    (number,) = site.scheduler.submit([site.request("sleep", "600", exclusive=True, node=node.name)])
    (other,) = site.scheduler.submit([site.request("sleep", "600", node=node.name)])
    try:
        wait_until(
            lambda: site.scheduler.jobs([number])[0].state is JobState.RUNNING or None,
            seconds=60,
            what="a start",
            last=lambda: site.scheduler.jobs([number]),
        )
        assert site.scheduler.jobs([other])[0].state is JobState.WAITING
    finally:
        site.scheduler.cancel([number, other])
        ended(site.scheduler, [number, other])


@pytest.mark.parametrize("site", ["grid_engine"], indirect=True)
def test_a_killed_queue_master_loses_and_doubles_nothing(site: Site) -> None:
    assert site.lab is not None
    trace = site.scratch / "master"
    (number,) = site.scheduler.submit(
        [site.request("sh", "-c", f"echo $GRIDWRIGHT_ARRAY_INDEX >>{trace}; sleep 0.5", array=range(40))]
    )
    wait_until(lambda: trace.exists() or None, seconds=60, what="a begin", last=site.scheduler.jobs)
    site.lab.run("controller", "pkill", "-9", "sge_qmaster")
    assert site.lab.run("controller", "/usr/sbin/sge_qmaster").status == 0
    jobs = ended(site.scheduler, [number], seconds=240)
    assert set(states(jobs)) == {JobState.COMPLETED}
    assert sorted(map(int, trace.read_text().split())) == list(range(40))
