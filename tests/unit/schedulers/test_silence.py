"""Patience with a scheduler that is silent: who is silent is told once, and the wait has an end."""

from __future__ import annotations

import pytest

from gridwright.cli.work.jobs import PatientQuestions
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.schedulers.head_node import HeadNodeUnreachable, Silence
from gridwright.schedulers.job import Job, JobState

OFF = HeadNodeUnreachable("node controller of lab x is powered off", "controller", "power it on")
DEAF = environment_error("slurmctld does not answer", where="controller", remedy="scontrol ping")


class Told:
    """A silence with a clock of its own, and what it told."""

    def __init__(self, patience_s: float = 600.0) -> None:
        self.now = 1000.0
        self.told: list[tuple[str, str, str]] = []
        self.silence = Silence(
            lambda *words: self.told.append(words),
            meanwhile="what runs goes on",
            patience_s=patience_s,
            clock=lambda: self.now,
        )

    def ask(self, error: GridwrightError, took_s: float = 1.0) -> None:
        asked = self.now
        self.now += took_s
        self.silence.unanswered(error, asked)


def test_the_side_that_is_silent_is_told_once_and_again_when_it_is_another() -> None:
    told = Told()
    for error in (OFF, OFF, DEAF, DEAF):
        told.ask(error)
    assert [level for level, *_ in told.told] == ["warning", "warning"]
    (_, first, remedy), (_, second, _) = told.told
    assert "its machine controller is away: node controller of lab x is powered off" in first
    assert "asked again for 10 minutes, and what runs goes on" in first
    assert remedy == "power it on"
    assert "its machine controller is there, its service is silent: slurmctld does not answer" in second


def test_its_return_is_told_with_how_long_it_was_away_and_the_count_begins_anew() -> None:
    told = Told(patience_s=50.0)
    told.ask(OFF, took_s=20.0)
    told.now += 11.0
    told.silence.answered()
    assert told.told[-1][:2] == ("info", "the scheduler answers again, after 31 s")
    told.silence.answered()
    assert len(told.told) == 2
    told.ask(OFF, took_s=40.0)
    told.silence.check()


def test_it_is_given_up_in_time_though_a_question_is_still_open() -> None:
    told = Told(patience_s=60.0)
    told.ask(OFF, took_s=25.0)
    told.now += 34.0
    told.silence.check()
    told.now += 2.0
    with pytest.raises(GridwrightError) as raised:
        told.silence.check()
    assert (
        "has not answered for 61 s: node controller of lab x is powered off" in raised.value.problems[0].what
    )


def test_the_time_in_which_this_process_was_stopped_is_not_counted() -> None:
    told = Told(patience_s=100.0)
    told.ask(DEAF)
    told.now += 3600.0
    told.ask(DEAF)
    told.now += 98.0
    told.silence.check()


def test_a_wrong_question_is_no_silence() -> None:
    with pytest.raises(GridwrightError, match="no such job"):
        Told().ask(input_error("no such job"))


class Scripted:
    """A scheduler that answers as it is told to."""

    def __init__(self, *answers: GridwrightError | JobState) -> None:
        self.answers = list(answers)

    def jobs(self, identifiers: object = None) -> list[Job]:
        answer = self.answers.pop(0)
        if isinstance(answer, GridwrightError):
            raise answer
        return [Job(id="1", name="j", state=answer, cores=1)]


def questions(*answers: GridwrightError | JobState) -> tuple[PatientQuestions, list[str]]:
    said: list[str] = []
    scheduler = Scripted(*answers)
    return PatientQuestions(scheduler, meanwhile="jobs go on", tell=said.append), said  # type: ignore[arg-type]


def test_a_command_fails_at_once_where_nobody_answers_its_first_question() -> None:
    patient, said = questions(OFF)
    with pytest.raises(HeadNodeUnreachable):
        patient.jobs(["1"])
    assert said == []


def test_a_command_that_had_an_answer_waits_and_tells_why() -> None:
    patient, said = questions(JobState.RUNNING, OFF, OFF, JobState.COMPLETED)
    found = [patient.jobs(["1"]) for _ in range(4)]
    assert [each and each[0].state for each in found] == [JobState.RUNNING, None, None, JobState.COMPLETED]
    assert len(said) == 2
    assert "powered off" in said[0]
    assert "power it on" in said[0]
    assert "answers again" in said[1]
