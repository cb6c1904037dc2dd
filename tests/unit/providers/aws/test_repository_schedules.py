"""Schedules that export and import repositories of FSx for Lustre by time."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.providers.aws.storage_template import rate_of
from gridwright.spec.repository import Schedule
from tests.support.fsx_service import FILE_SYSTEM, wrong_values
from tests.unit.providers.aws.storage_specs import (
    FSX,
    SPECS,
    TIMED,
    properties,
    spec,
    template,
    with_repositories,
)

SCHEDULE = "AWS::Scheduler::Schedule"


def requests(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each schedule sends, with the file system's ID."""
    inputs = {name: each["Target"]["Input"]["Fn::Sub"] for name, each in properties(found, SCHEDULE).items()}
    assert all(given == {"FileSystem": {"Ref": "Shared"}} for _, given in inputs.values())
    return {
        name: json.loads(text.replace("${FileSystem}", FILE_SYSTEM).replace("${!", "${"))
        for name, (text, _) in inputs.items()
    }


def test_requests_are_what_fsx_takes() -> None:
    shape = (
        botocore.session.get_session().get_service_model("fsx").operation_model("CreateDataRepositoryTask")
    )
    found = requests(template(SPECS["timed"]))

    assert {name: (each["Type"], each["Paths"]) for name, each in found.items()} == {
        "SharedExportSales": ("EXPORT_TO_REPOSITORY", ["data/sales"]),
        "SharedImportSales": ("IMPORT_METADATA_FROM_REPOSITORY", ["s3://sources/sales"]),
    }
    for each in found.values():
        # EventBridge puts a word of letters and digits there.
        token = {"ClientRequestToken": "d32c5kddcf5bb8c3"}
        assert list(wrong_values(shape.input_shape, each | token)) == []


def test_a_dollar_in_a_name_is_no_variable_of_the_template() -> None:
    link = TIMED["sales"] | {"bucket": "s3://sources/sa(les)'!"}
    (export, _) = requests(template(with_repositories(spec(), {"sales": link}))).values()

    assert export["Report"]["Path"] == "s3://sources/sa(les)'!/.gridwright/tasks"


def test_the_role_may_start_tasks_of_its_file_system_and_nothing_else() -> None:
    boundary = "arn:aws:iam::123456789012:policy/site/Boundary"
    grid = spec({"permissions_boundary": boundary}, shared=FSX, other=FSX | {"path": "/other"})
    found = template(with_repositories(grid, TIMED))
    (role,) = (each for name, each in properties(found, "AWS::IAM::Role").items() if name == "RepositoryRole")
    (policy,) = role["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]

    assert role["PermissionsBoundary"] == boundary
    assert statement["Action"] == ["fsx:CreateDataRepositoryTask"]
    file_system, task = statement["Resource"]
    assert file_system == {"Fn::GetAtt": ["Shared", "ResourceARN"]}
    assert task["Fn::Sub"].endswith(":task/*")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert set(trust["Condition"]["StringEquals"]) == {"aws:SourceAccount", "aws:SourceArn"}


def test_an_alarm_is_raised_when_a_task_could_not_be_started() -> None:
    found = properties(template(SPECS["timed"]), "AWS::CloudWatch::Alarm")["RepositoryTasks"]

    assert (found["Namespace"], found["MetricName"]) == ("AWS/Scheduler", "InvocationDroppedCount")
    assert found["Dimensions"] == [{"Name": "ScheduleGroup", "Value": {"Ref": "RepositorySchedules"}}]


@pytest.mark.parametrize("name", ["site-bucket", "repository-schedules"])
def test_a_file_system_with_the_name_of_another_part_is_refused(name: str) -> None:
    with pytest.raises(GridwrightError, match="another name"):
        template(with_repositories(spec(**{name: FSX}), TIMED))


@pytest.mark.parametrize("often", ["never", "at-once"])
def test_without_a_time_there_is_neither_schedule_nor_role(often: str) -> None:
    link = {"library": "data", "bucket": "s3://sources/sales", "export": {"changed": often}}
    found = template(with_repositories(spec(), {"sales": link}))

    assert not properties(found, SCHEDULE)
    assert "RepositoryRole" not in found["Resources"]


@given(st.integers(60, 400_000))
def test_a_rate_is_never_longer_than_what_is_asked_for(seconds: int) -> None:
    count, unit = rate_of(Schedule(f"{seconds}s")).removeprefix("rate(").removesuffix(")").split()
    length = {"minute": 60, "hour": 3600, "day": 86400}[unit.rstrip("s")]

    assert (count == "1") is not unit.endswith("s")
    assert seconds - 60 < int(count) * length <= seconds
