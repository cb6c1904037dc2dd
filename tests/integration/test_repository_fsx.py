"""Repositories of FSx for Lustre by its tasks: the real command, a strict FSx, a real bucket."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command import Command, wait_until
from tests.support.fsx_service import FILE_SYSTEM, FsxService, fsx_service
from tests.support.object_store import BUCKET, REGION, StoreServer, store_server

SPEC = """\
name: demo
provider: aws
region: us-east-1
aws: {{zone: us-east-1a, ssh_from: [203.0.113.0/24]}}
nodes: {{compute: {{instance: m5n.8xlarge, count: 2}}}}
filesystems: {{shared: {{type: fsx-lustre, path: {path}, capacity: 2400 GiB}}}}
libraries: {{data: {{}}}}
scheduler: {{type: slurm}}
repositories:
  sales: {{library: data, path: /sales, bucket: s3://{bucket}/prod, export: {{changed: {often}}}, rpo: 2h}}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreServer]:
    with store_server(tmp_path / "store", "moto") as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        import boto3

        # All servers of moto in one process have one state, and tests that come after have one, too.
        forget(served)
        served.client().create_bucket(Bucket=BUCKET)
        # What a resource is called is all that is read of the stack.
        made = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": FILE_SYSTEM}}
        boto3.client("cloudformation", region_name=REGION).create_stack(
            StackName="gridwright-demo-storage", TemplateBody=json.dumps({"Resources": {"Shared": made}})
        )
        yield served
        forget(served)


def forget(served: StoreServer) -> None:
    """Have moto know nothing."""
    reset = http.client.HTTPConnection(served.endpoint_url.removeprefix("http://"), timeout=10)
    reset.request("POST", "/moto-api/reset")
    reset.getresponse().read()
    reset.close()


@pytest.fixture
def fsx(tmp_path: Path, store: StoreServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FsxService]:
    sales = tmp_path / "fsx" / "data" / "sales"
    (sales / "2026").mkdir(parents=True)
    (sales / "2026" / "may.csv").write_text("1,2\n", "utf-8")
    (sales / "june.csv").write_bytes(bytes(5000))
    with fsx_service(tmp_path / "fsx", BUCKET, "/data/sales", "prod", store.client()) as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_FSX", service.url)
        write(tmp_path, "hourly")
        yield service


def write(directory: Path, often: str) -> None:
    text = SPEC.format(path=directory / "fsx", bucket=BUCKET, often=often)
    (directory / "grid.yaml").write_text(text, "utf-8")


@pytest.fixture
def grid(tmp_path: Path, fsx: FsxService) -> Path:
    return tmp_path / "grid.yaml"


def test_an_export_is_a_task_and_the_recovery_point_is_that_of_the_last_whole_one(
    grid: Path, fsx: FsxService, store: StoreServer, gridwright: Command
) -> None:
    before = gridwright("repo", "status", grid, "--json")
    assert before.status == 1
    assert before.json["repositories"][0]["finding"]["name"] == "recovery-point-missed"

    dry = gridwright("repo", "export", "--grid", grid, "--dry-run", "--json")
    assert (dry.json["done"]["sent"], fsx.tasks) == ({"count": 2, "bytes": 5004}, [])

    fsx.busy = 1
    done = gridwright("repo", "export", "sales", "--grid", grid, "--json")
    assert done.status == 0, done.text
    assert done.json["done"]["sent"]["count"] == 2
    request = fsx.done("CreateDataRepositoryTask")[-1]
    assert request["Paths"] == ["data/sales"]
    assert request["Tags"] == [{"Key": "gridwright:grid", "Value": "demo"}]
    assert "waiting for another task" in done.err
    found = store.client().get_object(Bucket=BUCKET, Key="prod/2026/may.csv")["Body"].read()
    assert found == b"1,2\n"

    after = gridwright("repo", "status", grid, "--json")
    (status,) = after.json["repositories"]
    assert after.status == 0, after.text
    assert (status["objects"], status["association"], status["finding"]) == (2, "AVAILABLE", None)
    assert status["unprotected_s"] < status["required_s"]
    # Of two objects and 5 kB neither bytes nor requests take long; what binds is said.
    assert status["restore_requests"] == 5
    assert status["restore_s"] == pytest.approx(4 / 5500)
    assert "prefix" in status["restore_bound_by"]
    store.client().put_object(Bucket=BUCKET, Key="prod/large", Body=bytes(8_000_000))
    (large,) = gridwright("repo", "status", grid, "--json").json["repositories"]
    assert large["restore_s"] == pytest.approx(8_005_004 / (2400 / 1024 * 125e6))
    assert "FSx for Lustre persistent-2 of 2400 GiB" in large["restore_bound_by"]
    store.client().delete_object(Bucket=BUCKET, Key="prod/large")
    # A part of the directory is no whole export, and a later failure is told.
    fsx.failing = {"june.csv": "S3AccessDenied"}
    part = gridwright("repo", "export", "sales", "june.csv", "--grid", grid, "--json")
    assert part.status == 1
    assert {"name": str(fsx.root / "data/sales/june.csv"), "why": "FAILED: S3AccessDenied"} in part.json[
        "problems"
    ]
    failed = gridwright("repo", "status", grid, "--json")
    assert failed.status == 1
    assert failed.json["repositories"][0]["last_failed"]["failed"] == 1
    assert failed.json["repositories"][0]["last_export"] == status["last_export"]


def test_contents_are_compared_where_the_file_system_is_mounted(
    grid: Path, fsx: FsxService, store: StoreServer, gridwright: Command
) -> None:
    gridwright("repo", "export", "--grid", grid)
    equal = gridwright("repo", "verify", "--grid", grid, "--json")
    assert equal.status == 0, equal.text
    assert equal.json["done"]["equal"]["count"] == 2

    # Other bytes, a file that is gone, a key that leads out, and an association that is broken.
    client = store.client()
    client.put_object(Bucket=BUCKET, Key="prod/june.csv", Body=bytes(4999) + b"x")
    client.put_object(Bucket=BUCKET, Key="prod/../../etc/passwd", Body=b"x")
    (fsx.root / "data/sales/2026/may.csv").unlink()
    (fsx.root / "data/sales/2026/new.csv").write_bytes(b"new")
    (fsx.root / "data/sales/2026/link").symlink_to("new.csv")
    fsx.state = "MISCONFIGURED"
    differing = gridwright("repo", "verify", "--grid", grid, "--json")
    assert differing.status == 1
    told = {each["name"]: each["why"] for each in differing.json["problems"]}
    assert told["june.csv"] == "the contents differ"
    assert "the file is not" in told["2026/may.csv"]
    assert "leads elsewhere" in told["prod/../../etc/passwd"]
    assert differing.json["done"]["here alone"] == {"count": 2, "bytes": 10}
    assert (
        told["2026/new.csv"] == told["2026/link"] == "it has no object: gridwright repo export sales sends it"
    )
    part = gridwright("repo", "verify", "sales", "june.csv", "--grid", grid, "--json")
    assert not [each for each in part.json["problems"] if each["name"].startswith("2026")]
    assert told["association"] == "it is misconfigured: The bucket is gone."


def test_a_dry_run_of_a_verify_asks_for_nothing_but_the_listing(
    grid: Path, fsx: FsxService, store: StoreServer, gridwright: Command
) -> None:
    sales = fsx.root / "data/sales"
    client = store.client()
    gridwright("repo", "export", "--grid", grid)
    client.put_object(Bucket=BUCKET, Key="prod/2026/", Body=b"")
    client.put_object(Bucket=BUCKET, Key="prod/gone.csv", Body=bytes(70))
    client.put_object(Bucket=BUCKET, Key="prod/other.csv", Body=bytes(71))
    client.put_object(Bucket=BUCKET, Key="prod/link", Body=b"june.csv")
    client.put_object(Bucket=BUCKET, Key="prod/.gridwright/tasks/x", Body=b"x")
    client.put_object(Bucket=BUCKET, Key="prod/../../etc/passwd", Body=b"x")
    (sales / "other.csv").write_bytes(b"x")
    (sales / "link").symlink_to("june.csv")
    atime = (sales / "june.csv").stat().st_atime_ns

    plan = gridwright("repo", "verify", "--grid", grid, "--dry-run", "--json")
    assert plan.status == 1
    assert [each["name"] for each in plan.json["problems"]] == ["prod/../../etc/passwd"]
    assert plan.json["done"] == {
        "compared": {"count": 2, "bytes": 5004},
        "compared, links": {"count": 1, "bytes": 0},
        "looked at, directories": {"count": 1, "bytes": 0},
        "looked at, without a file": {"count": 1, "bytes": 0},
        "looked at, of another size or kind": {"count": 1, "bytes": 0},
    }
    assert plan.json["at_least_by"].startswith("bound by ")
    assert (sales / "june.csv").stat().st_atime_ns == atime
    # What is planned is what the verify asks for: moto's checksums tell, so that no object is read.
    done = gridwright("repo", "verify", "--grid", grid, "--json")
    assert done.json["requests"] == plan.json["requests"] == {"list": 1, "head": 5, "get": 1}

    part = gridwright("repo", "verify", "sales", "2026", "--grid", grid, "--dry-run", "--json")
    assert part.json["done"]["compared"] == {"count": 1, "bytes": 4}

    # Elsewhere the bucket alone tells.
    fsx.root.rename(fsx.root.with_name("away"))
    text = gridwright("repo", "verify", "--grid", grid, "--dry-run").out
    fsx.root.with_name("away").rename(fsx.root)
    assert "would be compared: 5" in text
    assert "is not mounted here" in text
    assert "time: at least 0.0 s, bound by " in text


def test_an_interrupt_cancels_the_task(grid: Path, fsx: FsxService, gridwright: Command) -> None:
    fsx.is_held = True
    with gridwright.start("repo", "release", "sales", "--unread-for", "36h", "--grid", grid) as running:
        wait_until(
            lambda: fsx.done("DescribeDataRepositoryTasks") or None,
            seconds=20,
            what="a task",
            last=lambda: fsx.seen,
        )
        running.signal(signal.SIGINT)
        ended = running.end()

    assert ended.status == 130
    assert [each["Lifecycle"] for each in fsx.tasks] == ["CANCELED"]
    (request,) = fsx.done("CreateDataRepositoryTask")
    assert request["ReleaseConfiguration"]["DurationSinceLastAccess"] == {"Unit": "DAYS", "Value": 2}


def test_what_is_exported_at_once_has_the_age_that_cloudwatch_tells(
    grid: Path, fsx: FsxService, gridwright: Command
) -> None:
    import boto3

    write(grid.parent, "at-once")
    boto3.client("cloudwatch", region_name=REGION).put_metric_data(
        Namespace="AWS/FSx",
        MetricData=[
            {
                "MetricName": "AgeOfOldestQueuedMessage",
                "Dimensions": [
                    {"Name": "FileSystemId", "Value": FILE_SYSTEM},
                    {"Name": "Publisher", "Value": "AutoExport"},
                ],
                "Timestamp": datetime.now(UTC) - timedelta(minutes=2),
                "Value": 9000.0,
            }
        ],
    )
    behind = gridwright("repo", "status", grid, "--json")
    assert behind.status == 1
    assert behind.json["repositories"][0]["unprotected_s"] == 9000.0

    refused = gridwright("repo", "export", "--grid", grid)
    assert refused.status == 2
    assert fsx.tasks == []


def test_flags_that_tasks_do_not_know_are_all_refused_at_once(
    grid: Path, fsx: FsxService, gridwright: Command
) -> None:
    refused = gridwright("repo", "import", "--contents", "--deletions", "--prefer", "files", "--grid", grid)

    assert refused.status == 2
    assert all(each in refused.err for each in ("--contents", "--deletions", "--prefer"))
    assert fsx.seen == []
