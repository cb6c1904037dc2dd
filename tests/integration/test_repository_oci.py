"""Repositories of Oracle's managed Lustre by its links: the real command and SDK, a strict double."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.oci.files import oci_files
from gridwright.spec.load import load_spec
from tests.support.command import Command, wait_until
from tests.support.oci_cloud.lustre import make_rendered
from tests.support.oci_cloud.server import OciDouble
from tests.support.oci_cloud.signed_in import signed_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "oci-managed-lustre.yaml"
RAW, OUT = ("mynamespace", "raw-data"), ("mynamespace", "results")


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciDouble]:
    with signed_in(tmp_path, monkeypatch) as double:
        lake = tmp_path / "lake"
        text = EXAMPLE.read_text().replace("path: /shared", f"path: {lake}")
        (tmp_path / "grid.yaml").write_text(
            text + "repositories:\n  results: {library: work, path: /results, rpo: 2h, overwrite: true,"
            " bucket: 'oci://results@mynamespace/2026'}\n",
            "utf-8",
        )
        root = json.loads(oci_files(load_spec(tmp_path / "grid.yaml"))[0]["storage/main.tf.json"])
        assert len(make_rendered(double.resources, root)) == 2
        results = lake / "work/results"
        (results / "may").mkdir(parents=True)
        (results / "may/a.csv").write_text("1,2\n", "utf-8")
        (results / "b.bin").write_bytes(bytes(5000) + b"parts")
        double.lustre.root = lake
        double.lustre.buckets = {RAW: {"2026/x": b"raw", "2027/y": b"not mine"}, OUT: {}}
        yield double


@pytest.fixture
def grid(tmp_path: Path, cloud: OciDouble) -> Path:
    return tmp_path / "grid.yaml"


def test_an_export_is_a_job_and_the_recovery_point_is_that_of_the_last_whole_one(
    grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    before = gridwright("repo", "status", grid, "--json")
    assert before.status == 1
    raw, results = before.json["repositories"]
    assert (raw["repository"], raw["objects"], raw["link"], raw["finding"]) == (
        "shared/raw",
        1,
        "ACTIVE",
        None,
    )
    assert results["finding"]["name"] == "recovery-point-missed"

    dry = gridwright("repo", "export", "results", "--grid", grid, "--dry-run", "--json")
    assert dry.json["done"]["sent"] == {"count": 2, "bytes": 5009}
    assert cloud.lustre.jobs == {}

    cloud.throttled = 1
    done = gridwright("repo", "export", "results", "--grid", grid, "--json")
    assert done.status == 0, done.text
    assert done.json["done"]["sent"] == {"count": 2, "bytes": 5009}
    assert set(cloud.lustre.buckets[OUT]) == {"2026/may/a.csv", "2026/b.bin"}
    assert any("deletions" in each for each in done.json["notes"])

    after = gridwright("repo", "status", grid, "--json")
    (_, status) = after.json["repositories"]
    assert after.status == 0, after.text
    assert (status["objects"], status["object_bytes"]) == (2, 5009)
    assert status["unprotected_s"] < status["required_s"]
    assert status["restore_s"] == pytest.approx(5009 / (41.6 * 500e6))
    assert any("hard links" in each for each in status["not_carried"])
    text = gridwright("repo", "status", grid).out
    assert "not copied: deletions" in text
    assert "overwrite is false" in text, "that of the section of the file system"

    # A job that leaves files behind is told, and is no whole export.
    cloud.lustre.failing = {"a.csv"}
    os.utime(cloud.lustre.root / "work/results/may/a.csv", (time.time() + 60,) * 2)
    part = gridwright("repo", "export", "results", "--grid", grid, "--json")
    assert part.status == 1
    assert "1 files failed" in part.json["problems"][0]["why"]
    failed = gridwright("repo", "status", grid, "--json")
    assert failed.status == 1
    assert failed.json["repositories"][1]["last_failed"]["failed"] == 1
    assert failed.json["repositories"][1]["last_export"] == status["last_export"]


def test_an_import_brings_contents_and_passes_over_what_is_there(
    grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    done = gridwright("repo", "import", "shared/raw", "--contents", "--grid", grid, "--json")
    assert done.status == 0, done.text
    assert done.json["done"]["brought"] == {"count": 1, "bytes": 3}
    assert [each.name for each in (cloud.lustre.root / "raw").iterdir()] == ["x"]
    cloud.lustre.buckets[RAW]["2026/x"] = b"newer"
    again = gridwright("repo", "import", "shared/raw", "--grid", grid, "--json")
    assert again.json["done"] == {}
    assert any("overwrite is false" in each for each in again.json["notes"])
    assert (cloud.lustre.root / "raw/x").read_text() == "raw"
    dry = gridwright("repo", "import", "shared/raw", "--grid", grid, "--dry-run", "--json")
    assert dry.json["done"] == {"looked at": {"count": 1, "bytes": 5}}


def test_contents_are_compared_where_the_file_system_is_mounted(
    grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    gridwright("repo", "export", "results", "--grid", grid)
    objects = cloud.lustre.buckets[OUT]
    (cloud.lustre.root / "work/results/link").symlink_to("b.bin")
    objects["2026/link"] = b"however Oracle keeps it"
    equal = gridwright("repo", "verify", "results", "--grid", grid, "--json")
    assert equal.status == 0, equal.text
    assert equal.json["done"]["equal"]["count"] == 2
    # The object that was sent in parts has no MD5, and is read.
    assert equal.json["requests"]["get"] == 1
    objects["2026/may/a.csv"] = b"1,3\n"
    objects["2026/gone"] = b""
    (cloud.lustre.root / "work/results/new").write_text("new")
    (cloud.lustre.root / "work/results/other").symlink_to("b.bin")
    differing = gridwright("repo", "verify", "results", "--grid", grid, "--json")
    told = {each["name"]: each["why"] for each in differing.json["problems"]}
    assert told == {
        "may/a.csv": "the contents differ",
        "gone": "the object is there, and the file is not",
        "new": "it has no object: gridwright repo export results sends it",
    }
    plan = gridwright("repo", "verify", "results", "--grid", grid, "--dry-run", "--json")
    assert plan.json["done"]["compared, at most"]["count"] == 4


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "results", "--deletions"], "oci os object bulk-delete"),
        (["import", "results", "--prefer", "files"], "overwrite: true"),
        (["export", "results", "may"], "all of a link"),
        (["export", "results", "--endpoint", "https://store.example.com"], "OCI's own API"),
        (["release", "results", "--unread-for", "30d"], "nothing can be released"),
        (["duplicate", "results", "--to", "grid.yaml"], "carries repository results itself"),
        (["export", "raw"], "has no repository raw"),
    ],
)
def test_what_jobs_know_nothing_of_is_refused_with_what_to_do(
    words: list[str], said: str, grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    found = gridwright("repo", *words, "--grid", grid)
    assert found.status == 2, found.text
    assert said in found.err
    assert cloud.asked == []


def test_links_buckets_and_file_systems_that_are_not_there(
    grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    link = "ocid1.filestorageobjectstoragelink.oc1..shared_results"
    cloud.lustre.states[link] = "FAILED"
    cloud.lustre.complaints[link] = ["the policy lacks manage objects"]
    broken = gridwright("repo", "export", "results", "--grid", grid)
    assert broken.status == 3
    assert "failed: the policy lacks manage objects" in broken.err
    standing = gridwright("repo", "status", grid, "--json")
    assert standing.json["repositories"][1]["why"] == "the policy lacks manage objects"
    del cloud.resources[link]
    assert "is not there" in gridwright("repo", "export", "results", "--grid", grid).err
    del cloud.lustre.buckets[OUT]
    gone = gridwright("repo", "status", grid)
    assert gone.status == 3
    assert "same region and tenancy" in gone.out
    cloud.resources.clear()
    assert "gridwright up" in gridwright("repo", "status", grid).out


def test_a_failed_job_says_why_and_an_interrupt_stops_one(
    grid: Path, cloud: OciDouble, gridwright: Command
) -> None:
    cloud.lustre.fails = "the bucket's key is disabled"
    failed = gridwright("repo", "export", "results", "--grid", grid, "--json")
    assert failed.status == 1
    assert failed.json["problems"][0]["why"] == "the bucket's key is disabled"
    cloud.lustre.fails, cloud.lustre.held = "", True
    with gridwright.start("repo", "export", "results", "--grid", grid) as running:
        wait_until(
            lambda: len(cloud.lustre.jobs) == 2 or None,
            seconds=20,
            what="a job",
            last=lambda: cloud.asked,
        )
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130
    assert [each["lifecycleState"] for each in cloud.lustre.jobs.values()] == ["FAILED", "CANCELING"]
