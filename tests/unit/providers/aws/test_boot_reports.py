"""Which reports of machines count."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gridwright.providers.aws.machine_files import BOOT, AwsBootReport, boot_reports

ARN = "arn:aws:ec2:us-east-1:123456789012:instance/i-0123"


def report(**texts: str) -> AwsBootReport:
    row: dict[str, Any] = {"slot": {"S": BOOT + ARN}, "state": {"S": "done"}, "tries": {"N": "1"}}
    (found,) = boot_reports([row | {name: {"S": text} for name, text in texts.items()}]).values()
    return found


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ("2026-11-23T09:15:00Z", True),
        ("2026-11-23T09:14:59Z", False),
        # Told by a program of a release that did not say when.
        ("", True),
    ],
)
def test_a_report_counts_when_it_was_told_since_the_instance_started(told: str, counts: bool) -> None:
    started = {"LaunchTime": datetime(2026, 11, 23, 9, 15, tzinfo=UTC)}
    assert report(at=told).is_of_this_start(started) is counts
    assert report(at=told).is_of_this_start({})


@pytest.mark.parametrize(
    ("state", "tries", "text"),
    [
        ("running", "1", "running"),
        ("running", "2", "running, try 2"),
        ("failed", "1", "failed, try 1"),
        # What is done is done, also at the second try: status looks for this word.
        ("done", "2", "done"),
    ],
)
def test_how_far_a_machine_is_in_words(state: str, tries: str, text: str) -> None:
    row = {"slot": {"S": BOOT + ARN}, "state": {"S": state}, "tries": {"N": tries}}
    (found,) = boot_reports([row]).values()
    assert found.text == text
    assert not found.has_failed


def test_a_machine_that_restarts_says_so_and_has_not_failed() -> None:
    found = report(state="running", reason="restarting for kernel 6.8.0-1057-aws")
    assert (found.state, found.text) == ("running", "restarting for kernel 6.8.0-1057-aws")
    assert report(state="running").text == "running"


def test_rows_of_claims_are_none_and_an_instance_is_known_by_its_arn() -> None:
    assert boot_reports([{"slot": {"S": "compute1"}, "owner": {"S": "i-0123"}}]) == {}
    found = report(bundle="bundles/nodes/1.tar.gz")
    assert (found.instance, found.text) == ("i-0123", "done")
