"""What a job can ask beyond its size: read, kept, refused where a scheduler cannot do it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import ClassVar

import pytest

from gridwright.errors import Problem
from gridwright.node_programs.batch_job import command
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers import all_kinds
from gridwright.schedulers.job import JobOptions, JobRequest, exit_reason, options_text, read_options
from gridwright.schedulers.job_request import (
    INSTEAD,
    NAMES,
    Dependency,
    DependencyType,
    chosen_environment,
    filled,
    option_problems,
    parse_begin,
    parse_dependency,
    path_problems,
)
from gridwright.schedulers.local.runner import LocalSchedulerSection
from gridwright.schedulers.slurm.submission import file_words

NOW = 1_800_000_000.0
"""2027-01-15, 08:00 UTC."""


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def request(**values: object) -> JobRequest:
    return JobRequest(**{"command": ["a"], "directory": "/", "environment": {}} | values)  # type: ignore[arg-type]


def test_options_come_back_from_their_text_whatever_they_hold() -> None:
    options = JobOptions(
        account=os.fsdecode(b"\xff\x80"),
        licences=("sas:2",),
        begin=NOW,
        nice=-3,
        stdout="/a {job}",
        flow="n/1",
    )
    assert asdict_lists(read_options(options_text(options))) == asdict_lists(options)
    assert options_text(JobOptions()) == "{}"


def asdict_lists(options: JobOptions) -> dict[str, object]:
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def test_every_option_has_advice_and_is_declared_by_a_name_that_is_there() -> None:
    assert set(INSTEAD) == set(NAMES)
    kinds = [kind for kind in all_kinds() if kind.spec_model.has_queue]
    assert len(kinds) >= 2
    for kind in kinds:
        section = kind.spec_model
        assert section.job_options <= set(NAMES), section
        assert section.dependency_types <= {each.value for each in DependencyType}, section
        advised = {each.removeprefix("after ") for each in section.job_options_instead}
        assert advised <= set(NAMES) | {each.value for each in DependencyType}, section


class Little(LocalSchedulerSection):
    """A scheduler that can do next to nothing."""

    job_options: ClassVar[frozenset[str]] = frozenset({"nice"})
    job_options_instead: ClassVar[Mapping[str, str]] = {"qos": "ask nicely"}
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok"})


def test_all_that_a_scheduler_cannot_do_is_refused_with_what_to_use_instead() -> None:
    asked = request(
        options=JobOptions(nice=4, qos="high", gres=("gpu:1",), flow="n/1"),
        after=["17", "any:18", "any:19", "each:20", "some:21"],
    )
    told = {
        (each.where, each.what.partition(":")[0]): each.remedy for each in option_problems(asked, Little())
    }
    assert told == {
        ("qos", "scheduler local has no qos for a job"): "ask nicely",
        ("gres", "scheduler local has no gres for a job"): INSTEAD["gres"],
        ("after", "scheduler local starts no job after any"): told[
            ("after", "scheduler local starts no job after any")
        ],
        ("after", "scheduler local starts no job after each"): told[
            ("after", "scheduler local starts no job after each")
        ],
        ("after", "'some' in 'some"): told[("after", "'some' in 'some")],
    }
    assert all(told.values())


@pytest.mark.parametrize(
    ("text", "job", "kind"),
    [
        ("17", "17", "ok"),
        ("ok:17_3", "17_3", "ok"),
        ("any:17-2_3", "17-2_3", "any"),
        ("not-ok:#0", "#0", "not-ok"),
        ("each:#12", "#12", "each"),
    ],
)
def test_dependencies_are_read(text: str, job: str, kind: str) -> None:
    assert parse_dependency(text) == Dependency(job, DependencyType(kind))


@pytest.mark.parametrize("text", ["", "ok:", "17 18", "ok:any:17", "#x", "OK:17", "never:17"])
def test_what_is_no_dependency_is_refused(text: str) -> None:
    assert isinstance(parse_dependency(text), Problem)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("+2h", 7200),
        ("+90s", 90),
        ("09:00", 3600),
        ("8:00:01", 1),
        ("08:00", 86_400),
        ("07:59", 86_400 - 60),
        ("2027-01-15T10:00", 7200),
        ("2027-01-16", 57_600),
        ("2027-01-15T08:00+01:00", -3600),
    ],
)
@pytest.mark.usefixtures("in_utc")
def test_begin_times_are_read(text: str, seconds: float) -> None:
    assert parse_begin(text, NOW) == NOW + seconds


@pytest.mark.parametrize("text", ["", "25:00", "tomorrow", "+3x", "8", "2027-13-01"])
def test_what_is_no_begin_time_is_refused(text: str) -> None:
    assert isinstance(parse_begin(text, NOW), Problem)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"A": "1", "B": "2", "PATH": "/x"}),
        (["all", "A=5"], {"A": "5", "B": "2", "PATH": "/x"}),
        (["C=a=b"], {"A": "1", "B": "2", "PATH": "/x", "C": "a=b"}),
    ],
)
def test_an_environment_is_chosen(words: list[str], expected: dict[str, str]) -> None:
    assert chosen_environment(words, {"A": "1", "B": "2", "PATH": "/x"}) == (expected, [])


def test_without_the_rest_a_job_has_what_a_fresh_login_has() -> None:
    mine = {"A": "1", "B": "2", "PATH": "/mine", "HOME": "/home/me", "LD_PRELOAD": "x"}
    for words, own in (
        (["none"], {}),
        (["A"], {"A": "1"}),
        (["none", "A=7", "PATH"], {"A": "7", "PATH": "/mine"}),
    ):
        chosen, problems = chosen_environment(words, mine)
        assert not problems
        assert {name: chosen[name] for name in own} == own
        assert chosen["HOME"] == "/home/me"
        assert {"B", "LD_PRELOAD"} & chosen.keys() == set()
        assert ("PATH" in own) == (chosen["PATH"] == "/mine")


def test_words_that_choose_nothing_are_told() -> None:
    _, problems = chosen_environment(["all", "none", "MISSING", "=x"], {"A": "1"})
    assert [each.what for each in problems] == [
        "all and none exclude each other",
        "there is no variable MISSING",
        "'=x' has no name",
    ]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("../../../../tmp/esc", ".._.._.._.._tmp_esc"),
        ("/etc/x", "_etc_x"),
        ("..", "__"),
        (".", "_"),
        ("a..b", "a..b"),
    ],
)
def test_a_name_of_a_job_leads_to_no_other_directory(
    monkeypatch: pytest.MonkeyPatch, name: str, part: str
) -> None:
    path = f"/logs/{part}/17.log"
    options = JobOptions(stdout="/logs/{name}/{job}.log")
    assert filled(options.stdout or "", {"name": name, "job": "17"}) == path
    assert f"--output=/logs/{part}/%j.log" in [*file_words(request(options=options), name, "log")]
    monkeypatch.setenv("NUMBER", "17")
    job = SimpleNamespace(number_variable="NUMBER", name=name)
    assert command._placed(options.stdout or "", job, WHOLE) == path  # type: ignore[arg-type]


def test_places_in_the_names_of_files_are_filled_and_other_braces_stay() -> None:
    assert filled("/o/{name}-{job}.{x}{", {"job": "17_3", "name": "{job}"}) == "/o/{job}-17_3.{x}{"
    wrong = request(options=JobOptions(stdin="rel", stdout="/o/{index}", stderr="/o/{user}"))
    assert [(each.where, each.what) for each in path_problems(wrong)] == [
        ("stdin", "stdin rel is no absolute path"),
        ("stdout", "stdout has {index}, and the job is no array"),
        ("stderr", "stderr has {user}, which stands for nothing"),
    ]
    assert not list(path_problems(request(array=[1], options=JobOptions(stdout="/o/{job}-{index}"))))


@pytest.mark.parametrize(
    ("status", "signal", "text"),
    [
        (42, None, "exit status 42"),
        (127, None, "exit status 127, as where a program is not found"),
        (None, 11, "ended by signal 11 (SIGSEGV)"),
        (None, 40, "ended by signal 40 (unknown)"),
        (0, None, None),
        (None, None, None),
    ],
)
def test_the_reason_of_a_failure_is_in_words(
    status: int | None, signal: int | None, text: str | None
) -> None:
    assert exit_reason(status, signal) == text
