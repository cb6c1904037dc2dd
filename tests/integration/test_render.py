"""`gridwright render`: the files, and a directory that holds nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gridwright.cli.build.render import LIST, write_rendered
from gridwright.errors import GridwrightError
from tests.support.command import Command

LAB = """
provider: lab
nodes:
  compute: {count: 3, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 3}
scheduler:
  type: slurm
  queues: {batch: {cores: 5}}
"""
AWS = """
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}
nodes:
  compute: {count: 2, instance: m5n.8xlarge}
filesystems:
  lustre: {type: fsx-lustre, path: /fsx, capacity: 2400 GiB}
scheduler: {type: slurm, accounting: slurmdbd, backup_controller: true}
"""

PLAYBOOK = {"site.yml", "ansible.cfg", "inventory.yml", "group_vars/all.yml", "tuning.yaml"}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(LAB)
    return path


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_the_same_spec_gives_the_same_files(gridwright: Command, spec: Path, tmp_path: Path) -> None:
    first = gridwright("render", spec, "--out", tmp_path / "one", "--json")
    assert first.status == 0
    written = [each["path"] for each in first.json["files"]]
    assert {each["state"] for each in first.json["files"]} == {"written"}
    assert set(written) >= {"slurm/slurm.conf", "slurm/cgroup.conf", "README.md", *PLAYBOOK}
    assert [each["name"] for each in first.json["findings"]] == ["queue-on-fewer-nodes"]
    assert gridwright("render", spec, "--out", tmp_path / "two" / "below").status == 0
    assert content(tmp_path / "one") == content(tmp_path / "two" / "below")
    again = gridwright("render", spec, "--out", tmp_path / "one", "--json")
    assert {each["state"] for each in again.json["files"]} == {"unchanged"}
    assert b"munge.key" in content(tmp_path / "one")["README.md"]
    assert {*written, LIST} == set(content(tmp_path / "one"))


def test_nodes_of_a_cloud_have_what_the_catalogue_lists(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "aws.yaml"
    spec.write_text(AWS)
    done = gridwright("render", spec, "--out", tmp_path / "out", "--slurm", "23.11")
    assert done.status == 0, done.err
    text = (tmp_path / "out/slurm/slurm.conf").read_text()
    # 16 cores of two threads, and 95 % of 128 GiB.
    assert (
        "NodeName=compute[1-2] CPUs=16 Sockets=1 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=124518" in text
    )
    assert "StateSaveLocation=/fsx/.gridwright/slurmctld" in text
    assert (tmp_path / "out/slurm/slurmdbd.conf").is_file()
    read_me = (tmp_path / "out/README.md").read_text()
    assert "unix_socket" in read_me
    assert "StoragePass" not in "".join(
        line for line in (tmp_path / "out/slurm/slurmdbd.conf").read_text().splitlines() if line[:1] != "#"
    )


def test_a_grid_without_slurm_says_that_nothing_is_to_be_set_up(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "local.yaml"
    spec.write_text("filesystems: {disk: {type: local, path: /data}}\n")
    done = gridwright("render", spec, "--out", tmp_path / "out", "--json")
    written = {each["path"] for each in done.json["files"]}
    assert not any(path.startswith("slurm/") for path in written)
    assert written >= {"README.md", *PLAYBOOK}
    assert "nothing is to be set up" in (tmp_path / "out/README.md").read_text()


def test_what_terraform_keeps_in_a_root_stays(tmp_path: Path) -> None:
    write_rendered(tmp_path, {"grid/main.tf.json": "1", "read.me": "1"}, overwrite=False)
    kept = ["grid/terraform.tfstate", "grid/.terraform/providers/oci", "grid/backend.tf", "grid/plan"]
    for name in kept:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("the user's")
    write_rendered(tmp_path, {"grid/main.tf.json": "2", "read.me": "2"}, overwrite=False)
    assert [(tmp_path / name).read_text() for name in kept] == ["the user's"] * 4
    with pytest.raises(GridwrightError, match=r"backend\.tf: it was not written"):
        write_rendered(tmp_path, {"grid/main.tf.json": "2", "grid/backend.tf": "ours"}, overwrite=True)
    (tmp_path / "terraform.tfstate").write_text("of no root")
    with pytest.raises(GridwrightError, match="it was not written by gridwright render"):
        write_rendered(tmp_path, {"grid/main.tf.json": "2"}, overwrite=False)


def test_files_of_others_and_edited_ones_are_all_named_and_kept(
    gridwright: Command, spec: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert gridwright("render", spec, "--out", out).status == 0
    (out / "mine.txt").write_text("mine")
    with (out / "slurm/slurm.conf").open("a") as file:
        file.write("DebugFlags=Backfill\n")
    before = content(out)
    refused = gridwright("render", spec, "--out", out)
    assert refused.status == 2
    assert "mine.txt: it was not written by gridwright render" in refused.text
    assert "slurm.conf: it was edited since gridwright render wrote it" in refused.text
    assert content(out) == before
    (out / "mine.txt").unlink()
    assert gridwright("render", spec, "--out", out, "--overwrite").status == 0
    assert "DebugFlags" not in (out / "slurm/slurm.conf").read_text()


def test_what_a_run_of_the_playbook_left_is_in_nobodys_way(tmp_path: Path) -> None:
    write_rendered(tmp_path, {"plugins/ours.py": "1"}, overwrite=False)
    compiled = tmp_path / "plugins/__pycache__"
    compiled.mkdir()
    (compiled / "ours.cpython-311.pyc").write_bytes(b"compiled")
    write_rendered(tmp_path, {"plugins/ours.py": "2"}, overwrite=False)
    assert (tmp_path / "plugins/ours.py").read_text() == "2"
    (compiled / "theirs.cpython-311.pyc").write_bytes(b"compiled")
    with pytest.raises(GridwrightError, match=r"theirs\.cpython-311\.pyc: it was not written"):
        write_rendered(tmp_path, {"plugins/ours.py": "3"}, overwrite=False)


def test_what_is_not_rendered_any_more_is_removed(tmp_path: Path) -> None:
    write_rendered(tmp_path, {"a": "1", "slurm/b": "2"}, overwrite=False)
    done = write_rendered(tmp_path, {"a": "1"}, overwrite=False)
    assert [(each.path, each.state) for each in done] == [("a", "unchanged"), ("slurm/b", "removed")]
    assert not (tmp_path / "slurm/b").exists()


def test_a_render_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    """The list is written before the files: it names the old digests and the new ones."""
    write_rendered(tmp_path, {"a": "old", "b": "old"}, overwrite=False)
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in ("old", "new")]
    names = dict.fromkeys(("a", "b"), digests)
    (tmp_path / LIST).write_text(json.dumps({"schema": 1, "files": names}))
    (tmp_path / "a").write_text("new")
    assert {each.state for each in write_rendered(tmp_path, {"a": "new", "b": "new"}, overwrite=False)} == {
        "unchanged",
        "written",
    }
    assert (tmp_path / "b").read_text() == "new"


def test_a_damaged_list_is_refused(tmp_path: Path) -> None:
    outside = '{"files": {"../../precious": []}}'
    for damaged in ("{", "[]", '{"files": 3}', '{"files": {"a": 3}}', outside):
        (tmp_path / LIST).write_text(damaged)
        with pytest.raises(GridwrightError, match="damaged"):
            write_rendered(tmp_path, {"a": "1"}, overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slurm", "21.08"], "no release of Slurm"),
        (["--slurm", "soon"], "write one of 22.05, 23.02, 23.11, 24.05, 24.11"),
    ],
)
def test_wrong_releases_are_refused_before_anything_is_written(
    gridwright: Command, spec: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = gridwright("render", spec, "--out", tmp_path / "out", *arguments)
    assert done.status == 2
    assert message in done.text
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_directory_is_refused(
    gridwright: Command, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("")
    done = gridwright("render", spec, "--out", tmp_path / "out")
    assert done.status == 2
    assert "is no directory" in done.text


def test_an_unknown_instance_type_is_named_at_its_field(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "aws.yaml"
    spec.write_text(AWS.replace("m5n.8xlarge", "m5n.9xlarge"))
    done = gridwright("render", spec, "--out", tmp_path / "out")
    assert done.status == 2
    assert "nodes.compute.instance" in done.text
    assert "m5n.9xlarge" in done.text
