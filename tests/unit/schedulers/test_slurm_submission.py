"""What sbatch is asked, what is refused before, and what its refusals mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.schedulers.job import Job, JobExplanation, JobOptions, JobRequest, JobState, JobTag
from gridwright.schedulers.job_request import Dependency
from gridwright.schedulers.slurm.cluster import Cluster, parse_config, parse_nodes, parse_partitions
from gridwright.schedulers.slurm.scheduler import explain_job
from gridwright.schedulers.slurm.submission import (
    SbatchCall,
    parse_answer,
    request_problems,
    sbatch_arguments,
    sbatch_options,
    slurm_time,
)
from gridwright.schedulers.slurm.tools import ToolRefused, Tools, reason, refusal

RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05"
TAG = JobTag("0123456789abcdef", 1)
GIB = 2**30
FAILED = "sbatch: error: Batch job submission failed"


def cluster(**config: str) -> Cluster:
    read = {name: (RECORDED / f"{name}.txt").read_text() for name in ("config", "partitions", "nodes")}
    return Cluster(
        parse_config(read["config"]) | config,
        parse_partitions(read["partitions"]),
        parse_nodes(read["nodes"]),
    )


def request(**values: Any) -> JobRequest:
    return JobRequest(**{"command": ["/bin/echo", "a"], "directory": "/data", "environment": {}} | values)


def asked(partition: str | None = None, **values: Any) -> list[str]:
    handing: dict[str, Any] = {"elements": None}
    handing |= {name: values.pop(name) for name in ("after", "elements", "doomed") if name in values}
    return sbatch_arguments(
        SbatchCall(request=request(**values), tag=TAG, **handing),
        cluster=cluster(),
        partition=partition,
        account=None,
        logs=Path("/state/logs"),
        options=["--qos=night"],
    )


def test_a_plain_job_asks_for_its_share_of_a_node() -> None:
    words = asked()
    assert words[0] == "sbatch"
    assert "--job-name=echo~0123456789abcdef.1" in words
    assert "--output=/state/logs/echo~0123456789abcdef.1.log" in words
    assert "--chdir=/data" in words
    assert "--cpus-per-task=1" in words
    assert "--threads-per-core=1" in words, "a node has two threads a core: cores are physical"
    assert "--mem=500M" in words, "an eighth of 4000 MiB"
    assert "--no-requeue" in words
    assert not [
        word for word in words if word.startswith(("--time", "--array", "--dependency", "--partition"))
    ]


def test_options_of_the_request_come_after_those_of_the_spec() -> None:
    words = asked(
        "night", time_limit_s=90, memory_bytes=GIB, cores=4, node="n1", exclusive=True, restart=True
    )
    assert words.index("--qos=night") < words.index("--partition=night")
    assert {"--time=0-00:01:30", "--mem=1024M", "--cpus-per-task=4", "--nodelist=n1", "--exclusive"} <= {
        *words
    }
    assert "--requeue" in words


def test_arrays_and_dependencies_are_slurms_own() -> None:
    words = asked(array=[1, 2, 3, 9], elements=[2, 3, 9], after=["afterok:17", "afterany:18_3"])
    assert "--array=2-3,9" in words
    assert "--output=/state/logs/echo~0123456789abcdef.1_%a.log" in words
    assert "--dependency=afterok:17,afterany:18_3" in words
    assert "--kill-on-invalid-dep=yes" in words
    assert "--hold" in asked(doomed=True)


def test_options_and_files_of_a_job_are_sbatchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    options = JobOptions(
        account="sales",
        begin=1090.5,
        constraint="a&b",
        gres=["gpu:2", "ssd"],
        licences=["sas:2"],
        mail="a@b",
        mail_on=["end"],
        nice=3,
        qos="day",
        reservation="r",
        stdin="/in %j",
        stdout="/o/{job}-{name}",
        stderr="/e/{index}",
    )
    words = asked(array=[1, 2], elements=[1, 2], options=options, name="a%b")
    assert {
        "--account=sales",
        "--begin=now+91seconds",
        "--constraint=a&b",
        "--gres=gpu:2,ssd",
        "--licenses=sas:2",
        "--mail-user=a@b",
        "--mail-type=END",
        "--nice=3",
        "--qos=day",
        "--reservation=r",
        "--input=/in %%j",
        "--output=/o/%A_%a-a%%b",
        "--error=/e/%a",
    } <= {*words}
    assert words.index("--qos=night") < words.index("--qos=day"), "of two, sbatch takes the latter"
    assert not [word for word in asked(options=JobOptions(begin=999.0)) if word.startswith("--begin")]
    assert "--output=/o/%j" in asked(options=JobOptions(stdout="/o/{job}"))


def test_a_directory_that_would_break_lines_of_the_accounting_is_left_to_the_script() -> None:
    assert "--chdir=/" in asked(directory="/a b")
    assert "--chdir=/" in asked(directory="/a\nJobState=COMPLETED")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"DefMemPerNode": "300"}, None),
        ({"DefMemPerCPU": "300"}, None),
        ({"SelectTypeParameters": "CR_CORE"}, None),
    ],
)
def test_where_slurm_has_a_default_for_memory_it_is_slurms(config: dict[str, str], expected: None) -> None:
    words = sbatch_arguments(
        SbatchCall(request=request(), tag=TAG, elements=None),
        cluster=cluster(**config),
        partition=None,
        account="physics",
        logs=Path("/logs"),
        options=[],
    )
    assert [word for word in words if word.startswith("--mem")] == []
    assert "--account=physics" in words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0-00:00:01"), (60, "0-00:01:00"), (3599.5, "0-01:00:00"), (90_061, "1-01:01:01")],
)
def test_times_are_written_as_slurm_reads_them(seconds: float, text: str) -> None:
    assert slurm_time(seconds) == text


@pytest.mark.parametrize(
    ("values", "what", "remedy"),
    [
        ({"queue": "nigth"}, "Slurm has no queue nigth", "did you mean night?"),
        ({"cores": 9}, "9 cores, and no node of queue batch has more than 8", "ask for 8 cores or fewer"),
        (
            {"memory_bytes": 5 * GIB},
            "5 GiB of memory, and no node of queue batch has more than 3.91 GiB",
            "3.91 GiB",
        ),
        (
            {"queue": "night", "time_limit_s": 7200.0},
            "queue night lets jobs run for 3600 s",
            "name another queue",
        ),
        ({"node": "n3"}, "queue batch has no node n3", "its nodes: n[1-2]"),
        ({"node": "n11"}, "queue batch has no node n11", "did you mean n1?"),
        ({"array": [0, 2001]}, "goes from 0 to 2001, and this Slurm allows 0 to 2000", "MaxArraySize"),
        ({"array": []}, "its array has no index", "1-100"),
        (
            {"array": range(1, 10_000_001)},
            "this Slurm allows 0 to 2000: its MaxArraySize is 2001",
            "split it",
        ),
        ({"options": JobOptions(gres=["gpu:2"])}, "Slurm has no resource gpu", "there is none"),
        ({"options": JobOptions(licences=["sas:2"])}, "Slurm has no licence sas", "there is none"),
        ({"options": JobOptions(constraint="fast")}, "no node has the feature fast", "there is none"),
        ({"options": JobOptions(qos=" x")}, "qos ' x' is no name", "write its name"),
        ({"options": JobOptions(stdout="/a\\b")}, "has a character that Slurm takes for its own", "without"),
        (
            {"command": ["a", *["x" * 100_000] * 11]},
            "slurmctld takes a command line of 1048576 bytes",
            "file",
        ),
        ({"null": True}, "Slurm has no null jobs", "type: local"),
        ({"cores": 0}, "0 cores", "1 core or more"),
        ({"command": []}, "a job needs a command", "after --"),
    ],
)
def test_what_no_node_can_give_is_refused_before_slurm_is_asked(
    values: dict[str, Any], what: str, remedy: str
) -> None:
    (problem,) = request_problems(request(**values), cluster(), None)
    assert what in problem.what
    assert remedy in (problem.remedy or "")


def test_all_problems_of_a_request_come_at_once() -> None:
    assert len(request_problems(request(cores=99, memory_bytes=99 * GIB, array=[]), cluster(), None)) == 3


def test_what_fits_has_no_problem() -> None:
    assert request_problems(request(cores=8, memory_bytes=3 * GIB, array=[0, 2000]), cluster(), "night") == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--qos=night", "--qos=night"),
        ("--qos night", "--qos=night"),
        ("-q night", "-qnight"),
        ("--comment='a b'", "--comment=a b"),
        ("--hold", "--hold"),
        ("-H", "-H"),
        ("--gres gpu:1", "--gres=gpu:1"),
        ("--begin=now+1hour", "--begin=now+1hour"),
        ("--time=10", "--time=10"),
    ],
)
def test_options_of_the_spec_are_one_word_each(line: str, word: str) -> None:
    assert sbatch_options([line], None) == [word]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("--array=1-3", "sets --array"),
        ("--arr=1-3", "sets --array"),
        ("-a1-3", "sets --array"),
        ("-Ha1", "sets --array"),
        ("-J x", "sets --job-name"),
        ("--wrap=true", "sets --wrap"),
        ("--mem 3G", "sets --mem"),
        ("--export=NONE", "sets --export"),
        ("--wait", "sets --wait"),
        ("job.sh", "is not one option"),
        ("--", "is not one option"),
        ("", "is not one option"),
        ("--qos night job.sh", "is not one option"),
        ("--comment='a", "cannot be read"),
        ("--qos=a b", "has two values"),
    ],
)
def test_options_that_gridwright_sets_itself_are_refused(line: str, what: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        sbatch_options(["--qos=x", line], "grid.yaml")
    (problem,) = caught.value.problems
    assert what in problem.what
    assert problem.field == "scheduler.options.1"


@pytest.mark.parametrize(
    ("stderr", "kind", "what"),
    [
        (f"{FAILED}: Invalid partition name specified", "input", "no such queue"),
        (f"{FAILED}: Requested node configuration is not available", "input", "no node"),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", "away", "does not answer"),
        (f"{FAILED}: Socket timed out on send/recv operation", "unclear", "in time"),
        (f"{FAILED}: Protocol authentication error", "broken", "who asks"),
        (
            "sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information",
            "input",
            "an option",
        ),
        ("sbatch: error: something of tomorrow", "input", "Slurm refuses it"),
        ("", "input", "Slurm refuses it"),
    ],
)
def test_refusals_of_slurm_are_translated(stderr: str, kind: str, what: str) -> None:
    found = refusal(stderr)
    assert found.kind == kind
    assert what in found.what
    assert "Try " not in found.message


def test_the_number_of_a_job_is_read_with_and_without_a_cluster() -> None:
    assert parse_answer(b"17\n") == 17
    assert parse_answer(b"sbatch: a note of the site\n18;main\n") == 18
    with pytest.raises(ValueError, match="invalid literal"):
        parse_answer(b"no number\n")


class Recording:
    """A head node that keeps the environment it was given."""

    name = "head"

    def __init__(self, *answers: CommandOutput) -> None:
        self.answers = list(answers)
        self.environment: dict[str, str] = {}

    def run(self, _command: object, **values: Any) -> CommandOutput:
        self.environment = values["environment"]
        return self.answers.pop(0)

    def argv(self, command: list[str]) -> list[str]:
        return command


def test_variables_of_slurm_that_would_change_jobs_do_not_reach_its_tools() -> None:
    head = Recording(CommandOutput(0, b"", b""))
    caller = {
        "PATH": "/bin",
        "SBATCH_ACCOUNT": "physics",
        "SBATCH_QOS": "night",
        "SLURM_CONF": "/site/slurm.conf",
        "SBATCH_ARRAY_INX": "1-9",
        "SBATCH_EXPORT": "NONE",
        "SBATCH_ERROR": "/dev/null",
        "SLURM_MEM_PER_CPU": "1",
        "SLURM_JOB_ID": "3",
        "SQUEUE_FORMAT": "%i",
        "SLURM_TIME_FORMAT": "relative",
        "HOME": "/root",
    }
    Tools(head, caller).once(["sbatch"])  # type: ignore[arg-type]
    assert head.environment == {
        "PATH": "/bin",
        "HOME": "/root",
        "SBATCH_ACCOUNT": "physics",
        "SBATCH_QOS": "night",
        "SLURM_CONF": "/site/slurm.conf",
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
    }


def test_a_query_is_tried_again_while_slurmctld_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    away = CommandOutput(1, b"", b"squeue: error: Unable to contact slurm controller (connect failure)")
    head = Recording(away, away, CommandOutput(0, b"fine", b""))
    assert Tools(head, {}).query(["squeue"]) == b"fine"  # type: ignore[arg-type]
    assert head.answers == []
    monkeypatch.setattr("gridwright.schedulers.slurm.tools.PATIENCE_S", 0.3)
    head.answers = [away] * 99
    with pytest.raises(GridwrightError) as caught:
        Tools(head, {}).query(["squeue"])  # type: ignore[arg-type]
    assert caught.value.status == 3
    assert "slurmctld does not answer" in str(caught.value)
    assert "scontrol ping" in str(caught.value)


def test_what_slurm_refuses_is_not_tried_again() -> None:
    head = Recording(CommandOutput(1, b"", b"sbatch: error: Invalid account"))
    with pytest.raises(ToolRefused):
        Tools(head, {}).once(["sbatch"])  # type: ignore[arg-type]
    head.answers = [CommandOutput(1, b"", b"sacct: error: Invalid account")]
    with pytest.raises(GridwrightError) as caught:
        Tools(head, {}).query(["sacct"])  # type: ignore[arg-type]
    assert caught.value.status == 2


def explained(word: str, *, restarts: int = 0, **values: Any) -> JobExplanation:
    asked_for = request(**values)
    here = cluster()
    job = Job(id="1", name="a", state=JobState.WAITING, restarts=restarts)
    return explain_job(
        job,
        asked_for,
        here,
        reason=reason(word),
        memory_bytes=asked_for.memory_bytes,
        partition=here.partition("batch"),
        dependencies=[(Dependency("7"), None)] if word == "Dependency" else [],
    )


def test_an_explanation_holds_the_job_against_the_queue_and_every_node() -> None:
    found = explained("Resources", cores=8, memory_bytes=GIB)
    assert found.summary.startswith("It waits: the cores, the memory or the nodes it needs are in use")
    assert [each.place for each in found.candidates] == ["queue batch", "n1", "n2"]
    node = found.candidates[1]
    assert [each.name for each in node.requirements] == ["state", "cores", "memory"]
    assert not node.fits
    assert node.requirements[1].required == "8"
    assert "free of 8" in node.requirements[1].provided


def test_an_explanation_names_what_a_job_waits_for() -> None:
    queue = explained("Dependency").candidates[0]
    assert [(each.name, each.fits) for each in queue.requirements if each.name.startswith("after")] == [
        ("after 7", False)
    ]


def test_a_requeued_job_waits_for_the_credential_of_its_lost_run() -> None:
    assert "11 s after that at the earliest" in explained("BeginTime", restarts=1).summary
    assert "start time has not come" in explained("BeginTime").summary
