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


def predicted(directory: Path, name: str, text: str = NFS, objects: int | None = None) -> None:
    (directory / "grid.yaml").write_text(text, "utf-8")
    run_predict(PredictFlags(file=directory / "grid.yaml", repository=name, objects=objects, json=True))


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


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("archiv", NFS, "no repository archiv"),
        ("scratch", NFS, "nothing says how much library work holds"),
        ("archive", FSX, "carries repository archive itself"),
    ],
)
def test_what_is_not_known_is_said(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(GridwrightError, match=says):
        predicted(tmp_path, name, text)


def test_objects_are_those_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(NFS, "utf-8")
    with pytest.raises(GridwrightError, match="objects of a repository"):
        run_predict(PredictFlags(file=tmp_path / "grid.yaml", objects=5))
    with pytest.raises(GridwrightError, match="one question at a time"):
        run_predict(PredictFlags(file=tmp_path / "grid.yaml", repository="archive", sensitivity=True))
