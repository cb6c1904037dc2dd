"""Alarms of the grid stack: what they watch is what machines and groups tell, and the topic is told."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.aws import machine_files
from gridwright.providers.aws.grid_template import METRICS
from gridwright.providers.aws.names import claims_table
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.boot_programs import boot_programs, sources
from tests.unit.providers.aws.test_grid_template import template

TOPIC = "arn:aws:sns:us-east-1:111122223333:grid-alarms"
ALARM = "AWS::CloudWatch::Alarm"


def alarms(text: str) -> dict[str, dict[str, Any]]:
    found = template(text)["Resources"]
    return {name: each["Properties"] for name, each in found.items() if each["Type"] == ALARM}


def with_topic(text: str) -> str:
    return text.replace("aws: {", f"aws: {{alarms: {{topic: '{TOPIC}'}}, ")


def test_each_group_and_each_machine_that_nothing_replaces_has_one() -> None:
    resources = template(LUSTRE)["Resources"]
    groups = [n for n, each in resources.items() if each["Type"] == "AWS::AutoScaling::AutoScalingGroup"]
    machines = [n for n, each in resources.items() if each["Type"] == "AWS::EC2::Instance"]
    expected = {"SetUpFails", *(f"{each}Missing" for each in groups), *(f"{each}Broken" for each in machines)}
    assert set(alarms(LUSTRE)) == {*expected, "SharedTargets", "SharedFreeSpace"}
    for each in groups:
        (collected,) = resources[each]["Properties"]["MetricsCollection"]
        wanted, there, _ = alarms(LUSTRE)[f"{each}Missing"]["Metrics"]
        watched = [one["MetricStat"]["Metric"] for one in (wanted, there)]
        assert [one["MetricName"] for one in watched] == list(METRICS) == collected["Metrics"]
        assert all(one["Dimensions"][0]["Value"] == {"Ref": each} for one in watched)


@pytest.mark.parametrize("text", [FSX, LUSTRE])
def test_the_topic_is_told_by_every_alarm_of_both_stacks(text: str) -> None:
    from gridwright.providers.aws.layout import aws_layout
    from gridwright.providers.aws.storage_template import storage_template

    spec = parse_spec(with_topic(text))
    storage = storage_template(spec, aws_layout(spec)).to_dict()["Resources"]
    found = {
        **alarms(with_topic(text)),
        **{name: each["Properties"] for name, each in storage.items() if each["Type"] == ALARM},
    }
    assert all(each["AlarmActions"] == [TOPIC] for each in found.values())
    quiet = [name for name, each in found.items() if "OKActions" not in each]
    assert quiet == ["SetUpFails"], "its end tells nothing of the machine"
    assert not [each for each in alarms(text).values() if "AlarmActions" in each or "OKActions" in each]


def test_what_a_machine_counts_is_what_the_alarm_looks_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[dict[str, Any]] = []

    class Metrics:
        def put_metric_data(self, **given: Any) -> None:
            told.append(given)

    spec = parse_spec(FSX)
    with boot_programs(tmp_path, sources("aws"), "cloud") as programs:
        monkeypatch.setattr(programs["cloud"], "client", lambda *_: Metrics())
        programs["cloud"].Cloud({"table": claims_table(spec)}).count_failure()
    alarm = alarms(FSX)["SetUpFails"]
    ((datum,),) = [each["MetricData"] for each in told]
    assert told[0]["Namespace"] == alarm["Namespace"] == machine_files.NAMESPACE
    assert datum["MetricName"] == alarm["MetricName"]
    assert datum["Dimensions"] == alarm["Dimensions"]


def body(text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Graphs of the dashboard, and what CloudFormation puts into its text."""
    (dashboard,) = [
        each["Properties"]
        for each in template(text)["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Dashboard"
    ]
    written, values = dashboard["DashboardBody"]["Fn::Sub"]
    assert set(re.findall(r"\$\{([^}]+)\}", written)) == {*values, "AWS::Region"}
    return json.loads(written)["widgets"], values


@pytest.mark.parametrize("text", [FSX, LUSTRE])
def test_the_dashboard_shows_every_alarm_group_and_file_system_once(text: str) -> None:
    widgets, values = body(text)
    (shown,) = [each["properties"]["alarms"] for each in widgets if each["type"] == "alarm"]
    assert sorted(shown) == sorted(f"${{{name}}}" for name in alarms(text))
    places = {(each["x"], each["y"]) for each in widgets}
    assert len(places) == len(widgets), "none lies upon another"
    titles = [each["properties"]["title"] for each in widgets]
    assert len(set(titles)) == len(titles)
    assert ("shared: MB/s" in titles) is (text == FSX)
    for name in values:
        assert f"${{{name}}}" in json.dumps(widgets)


def test_every_expression_uses_what_its_graph_has() -> None:
    for widget in body(FSX)[0]:
        options = [row[-1] for row in widget["properties"].get("metrics", [])]
        names = {each["id"] for each in options if isinstance(each, dict) and "id" in each}
        for each in options:
            if isinstance(each, dict) and "expression" in each:
                used = set(re.findall(r"[a-z_]+[a-z0-9_]*", each["expression"]))
                assert used <= names, each


def test_a_dashboard_that_is_not_wanted_is_not_made() -> None:
    found = template(FSX.replace("aws: {", "aws: {dashboard: false, "))["Resources"]
    assert "Dashboard" not in found


def test_a_budget_is_of_the_grids_tag_and_told_to_the_topic() -> None:
    text = FSX.replace("aws: {", f"aws: {{alarms: {{topic: '{TOPIC}', budget: 3650 USD/month}}, ")
    budget = template(text)["Resources"]["Budget"]["Properties"]
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 3650, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:gridwright:grid$demo"]}
    told = [
        (each["Notification"]["NotificationType"], each["Notification"]["Threshold"])
        for each in budget["NotificationsWithSubscribers"]
    ]
    assert told == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]
    # Who is told cannot be changed in a budget: another topic makes another one, beside the first.
    other = template(text.replace(":grid-alarms", ":others"))["Resources"]["Budget"]["Properties"]
    assert other["Budget"]["BudgetName"] != budget["Budget"]["BudgetName"]
    assert "Budget" not in template(with_topic(FSX))["Resources"]


def test_alarms_of_targets_watch_what_servers_tell() -> None:
    """Where a name differs, an alarm waits for ever for figures that nobody tells."""
    program = files("gridwright.providers.boot") / "roles/lustre_server/files/lustre_health.py"
    said = program.read_text()
    found = alarms(LUSTRE)
    free = found["SharedFreeSpace"]
    queries = {each["Id"]: each for each in found["SharedTargets"]["Metrics"]}
    metrics = [free, *(queries[name]["MetricStat"]["Metric"] for name in ("down", "told"))]
    for each in metrics:
        assert f'Namespace="{each["Namespace"]}"' in said
        assert f'"MetricName": "{each["MetricName"]}"' in said
        assert [f'"Name": "{one["Name"]}"' in said for one in each["Dimensions"]] == [True, True]
        assert [one["Value"] for one in each["Dimensions"]] == ["demo", "shared"]
    watched = {
        queries[name]["MetricStat"]["Metric"]["Dimensions"][0]["Value"]["Ref"]
        for name in ("servers1", "servers2")
    }
    assert watched == {"SharedMdsServers", "SharedOssServers"}
    assert queries["wrong"]["Expression"] == "IF(told < 3 * (servers1+servers2), 1, down)"
