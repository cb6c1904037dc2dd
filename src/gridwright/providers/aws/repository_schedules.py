"""Schedules of EventBridge Scheduler that start data repository tasks of FSx for Lustre.

A universal target calls CreateDataRepositoryTask itself (EventBridge Scheduler User Guide, using universal
targets), so that no machine has to run. Whether the last task was soon enough says `gridwright repo status`;
that a task could not be started at all says an alarm, so that nobody has to read a queue of dead letters.
A schedule holds names alone. AWS encrypts it with a key of its own, also where the spec has aws.kms_key: one
whose policy leaves the scheduler out would end all exports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from troposphere import AWSObject, GetAtt, Ref, Sub, Tags, cloudwatch, iam, scheduler

from gridwright.providers.aws.alarms import acting
from gridwright.providers.aws.data_repository.requests import export_request, import_request
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.names import logical_id, tags
from gridwright.spec.linked import LinkedDirectory, linked_directories
from gridwright.spec.model import GridSpec
from gridwright.spec.schedule import Schedule

GROUP, ROLE, ALARM = "RepositorySchedules", "RepositoryRole", "RepositoryTasks"
_TARGET = "arn:${AWS::Partition}:scheduler:::aws-sdk:fsx:createDataRepositoryTask"
_TRIES, _LONGEST_AGE_S, _SHORTEST_AGE_S = 185, 86_400, 60
"""Tries that a schedule may have, and seconds for them (EventBridge Scheduler API Reference, RetryPolicy)."""


def timed_directories(spec: GridSpec, names: list[str]) -> list[LinkedDirectory]:
    """Of the file systems of these names, what is exported or imported by time."""
    return [
        each
        for each in linked_directories(spec).values()
        if each.filesystem in names and (each.export.is_timed or each.names.is_timed)
    ]


def schedule_resources(spec: GridSpec, layout: AwsLayout, names: list[str]) -> Iterator[AWSObject]:
    """Group, role, schedules and alarm for file systems of these names; nothing where none has a time."""
    timed = timed_directories(spec, names)
    if not timed:
        return
    yield scheduler.ScheduleGroup(GROUP, Tags=Tags(tags(spec, role="repository")))
    yield _role(spec, layout, list(dict.fromkeys(each.filesystem for each in timed)))
    for each in timed:
        if each.export.is_timed:
            yield _schedule(spec, each, "Export", each.export)
        if each.names.is_timed:
            yield _schedule(spec, each, "Import", each.names)
    yield _alarm(spec)


def rate_of(schedule: Schedule) -> str:
    """How often, in the words of EventBridge: whole minutes, rounded down, so that no time is missed."""
    minutes = max(1, int((schedule.period_s or 0) // 60))
    for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes % length == 0:
            count = minutes // length
            return f"rate({count} {unit}{'' if count == 1 else 's'})"
    raise AssertionError(minutes)


def _schedule(spec: GridSpec, directory: LinkedDirectory, what: str, often: Schedule) -> scheduler.Schedule:
    build = export_request if what == "Export" else import_request
    # What names an invocation is its token: a request that AWS itself repeats starts no second task.
    request = build(directory, (), identity="<aws.scheduler.execution-id>")
    return scheduler.Schedule(
        logical_id(directory.filesystem, what, directory.name),
        Description=f"{what} of repository {directory.name} of grid {spec.name}",
        GroupName=Ref(GROUP),
        ScheduleExpression=rate_of(often),
        FlexibleTimeWindow=scheduler.FlexibleTimeWindow(Mode="OFF"),
        Target=scheduler.Target(
            Arn=Sub(_TARGET),
            RoleArn=GetAtt(ROLE, "Arn"),
            Input=_input(request, logical_id(directory.filesystem)),
            RetryPolicy=scheduler.RetryPolicy(
                MaximumRetryAttempts=_TRIES,
                MaximumEventAgeInSeconds=min(_LONGEST_AGE_S, max(_SHORTEST_AGE_S, int(often.period_s or 0))),
            ),
        ),
    )


def _input(request: dict[str, Any], filesystem: str) -> Sub:
    """The request as text; `$` of names is no variable of Fn::Sub."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False).replace("${", "${!")
    return Sub(text.replace('{"', '{"FileSystemId": "${FileSystem}", "', 1), FileSystem=Ref(filesystem))


def _role(spec: GridSpec, layout: AwsLayout, filesystems: list[str]) -> iam.Role:
    """What the schedules may do: start tasks of the grid's linked file systems, and nothing else.

    Only for schedules of this group (EventBridge Scheduler User Guide, confused deputy prevention).
    """
    boundary = layout.aws.permissions_boundary
    of_account = "arn:${AWS::Partition}:fsx:${AWS::Region}:${AWS::AccountId}"
    return iam.Role(
        ROLE,
        Description=f"Starts data repository tasks of grid {spec.name} by time",
        AssumeRolePolicyDocument=_document(
            {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "StringEquals": {
                        "aws:SourceAccount": Ref("AWS::AccountId"),
                        "aws:SourceArn": GetAtt(GROUP, "Arn"),
                    }
                },
            }
        ),
        Policies=[
            iam.Policy(
                PolicyName="gridwright",
                PolicyDocument=_document(
                    {
                        "Sid": "Tasks",
                        "Effect": "Allow",
                        "Action": ["fsx:CreateDataRepositoryTask"],
                        "Resource": [
                            *(GetAtt(logical_id(each), "ResourceARN") for each in filesystems),
                            Sub(f"{of_account}:task/*"),
                        ],
                    }
                ),
            )
        ],
        Tags=Tags(**tags(spec, role="repository")),
        **({"PermissionsBoundary": boundary} if boundary else {}),
    )


def _document(statement: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement]}


def _alarm(spec: GridSpec) -> cloudwatch.Alarm:
    """Raised when a task could not be started in all of its tries."""
    return cloudwatch.Alarm(
        ALARM,
        AlarmDescription=f"A scheduled export or import of grid {spec.name} could not be started: see "
        "gridwright repo status",
        Namespace="AWS/Scheduler",
        MetricName="InvocationDroppedCount",
        Dimensions=[cloudwatch.MetricDimension(Name="ScheduleGroup", Value=Ref(GROUP))],
        Statistic="Sum",
        ComparisonOperator="GreaterThanThreshold",
        Threshold=0,
        EvaluationPeriods=1,
        Period=300,
        TreatMissingData="notBreaching",
        **acting(spec),
    )
