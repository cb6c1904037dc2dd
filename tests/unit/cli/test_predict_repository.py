"""`gridwright predict --repository`: rates of the grid's own, and nothing made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridwright.cli.plan.predict import PredictFlags, run_predict
from gridwright.errors import GridwrightError

NFS = """\
provider: aws
region: us-east-1
nodes: {compute: {instance: m5n.8xlarge, count: 4}}
filesystems:
  shared:
    {type: nfs, path: /shared, server: 10.9.0.7, export: /vol, delivers: {read: 1 GB/s, write: 500 MB/s}}
libraries: {data: {capacity: 10 TB}, work: {}}
scheduler: {type: slurm}
repositories:
  archive: {library: data, bucket: s3://site/prod, export: {changed: hourly}}
  scratch: {library: work, bucket: s3://site/work}
"""
FSX = NFS.replace("hourly", "at-once").replace(
    "type: nfs, path: /shared, server: 10.9.0.7, export: /vol, delivers: {read: 1 GB/s, write: 500 MB/s}",
    "type: fsx-lustre, path: /shared, capacity: 12000 GiB",
)


TIER = 125e6
"""Bytes per second and TiB of the lowest tier of persistent-2."""


def predicted(
    directory: Path, name: str, text: str = NFS, objects: int | None = None, changed: int | None = None
) -> None:
    (directory / "grid.yaml").write_text(text, "utf-8")
    file = directory / "grid.yaml"
    run_predict(PredictFlags(file=file, repository=name, objects=objects, changed=changed, json=True))


def test_the_file_system_binds_one_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predicted(tmp_path, "archive", objects=10_000)

    found = json.loads(capsys.readouterr().out)
    export, warm_up, restore = found["transfers"]
    assert found["month"]["storage_usd"] == pytest.approx(1e13 / 2**30 * 0.023)
    assert (found["month"]["exports"], found["month"]["imports"]) == (730, 0)
    assert export["seconds"] == pytest.approx(1e13 / 1e9)
    assert warm_up["seconds"] == restore["seconds"] == pytest.approx(1e13 / 5e8)
    assert "NFS server" in export["bound_by"]
    assert export["requests_usd"] > restore["requests_usd"] > 0


def test_a_fast_server_leaves_the_network_of_the_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted(tmp_path, "archive", NFS.replace("1 GB/s", "90 GB/s").replace("500 MB/s", "90 GB/s"))

    export, warm_up, _ = json.loads(capsys.readouterr().out)["transfers"]
    assert "network" in export["bound_by"]
    assert "network" in warm_up["bound_by"]
    assert export["requests_usd"] is None


def test_a_linked_file_system_is_bound_by_its_throughput_and_not_by_a_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted(tmp_path, "archive", FSX, objects=1_000_000)
    export, names, warm_up, restore = json.loads(capsys.readouterr().out)["transfers"]

    seconds = 1e13 / (12000 / 1024 * TIER)
    assert [each["seconds"] for each in (export, warm_up, restore)] == [pytest.approx(seconds)] * 3
    assert (
        "FSx for Lustre persistent-2 of 12000 GiB at 125 MB/s per TiB, without bursts" in export["bound_by"]
    )
    assert names["seconds"] == pytest.approx(1_000_000 / 5500)
    assert names["requests"] == {"head": 1_000_000, "list": 1000}
    assert export["requests_usd"] == pytest.approx(5.0)
    assert restore["requests_usd"] == pytest.approx(names["requests_usd"] + warm_up["requests_usd"])

    # More throughput is bought until requests bind.
    predicted(tmp_path, "archive", FSX.replace("12000 GiB", "12000 GiB, throughput: 1000 MB/s/TiB"), 10**8)
    export, _, warm_up, restore = json.loads(capsys.readouterr().out)["transfers"]
    assert (export["seconds"], warm_up["seconds"]) == (pytest.approx(1e8 / 3500), pytest.approx(1e8 / 5500))
    assert restore["seconds"] == pytest.approx(2e8 / 5500)


def test_a_link_of_the_file_system_itself_holds_what_that_has_room_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = FSX.partition("repositories:")[0]
    own = head.replace("12000 GiB", "12000 GiB, repository: {bucket: s3://site/prod}")
    predicted(tmp_path, "shared", own)
    found = json.loads(capsys.readouterr().out)

    assert found["bytes"] == 12000 * 2**30
    assert "No library says its capacity" in found["notes"][0]
    assert [each["requests_usd"] for each in found["transfers"]] == [None] * 3


def test_what_is_changed_a_day_has_a_request_for_each_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (NFS, FSX):
        predicted(tmp_path, "archive", text, changed=24_000)
        month = json.loads(capsys.readouterr().out)["month"]
        assert month["changed_usd"] == pytest.approx(730_000 * 0.005 / 1000)
    predicted(tmp_path, "archive", NFS)
    assert json.loads(capsys.readouterr().out)["month"]["changed_usd"] is None
    predicted(tmp_path, "archive", NFS.replace("hourly", "never"), changed=24_000)
    assert json.loads(capsys.readouterr().out)["month"]["changed_usd"] == 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("archiv", NFS, "no repository archiv"),
        ("scratch", NFS, "nothing says how much library work holds"),
        ("archiv", FSX, "no repository archiv"),
        ("archive", FSX.replace("12000 GiB", "12001 GiB"), "12001 GiB"),
    ],
)
def test_what_is_not_known_is_said(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(GridwrightError, match=says):
        predicted(tmp_path, name, text)


def test_objects_are_those_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(NFS, "utf-8")
    with pytest.raises(GridwrightError, match="objects of a repository"):
        run_predict(PredictFlags(file=tmp_path / "grid.yaml", objects=5))
    with pytest.raises(GridwrightError, match="files of a repository"):
        run_predict(PredictFlags(file=tmp_path / "grid.yaml", changed=5))
    with pytest.raises(GridwrightError, match="one question at a time"):
        run_predict(PredictFlags(file=tmp_path / "grid.yaml", repository="archive", sensitivity=True))
