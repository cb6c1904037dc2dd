"""The quick start of the README in an empty directory, and a disk that is not mounted."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Command


def test_the_quick_start_in_an_empty_directory(gridwright: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    matrix = tmp_path / "one.yaml"
    matrix.write_text("name: one\nstreams: [[optimize]]\n")
    assert gridwright("init", cwd=empty).status == 0
    assert gridwright("check", cwd=empty).status == 0
    ended = gridwright("prove", "--seconds", "0.2", "--scale", "tiny", "--matrix", matrix, cwd=empty)
    assert ended.status in (0, 1), ended.err
    made = ", ".join(str(empty / "grid-disk" / name) for name in ("data", "work", "util"))
    assert ended.err.splitlines()[0] == f"made: {made}: libraries of grid demo, which were not there"
    assert "verdict: " in ended.out
    assert sorted(path.name for path in empty.iterdir()) == ["grid-disk", "grid.yaml"]


def test_a_disk_that_is_not_mounted_is_one_error_and_leaves_no_run(
    gridwright: Command, tmp_path: Path
) -> None:
    spec = tmp_path / "grid.yaml"
    spec.write_text("filesystems: {disk: {type: local, path: /mnt/gridwright-no-such-disk}}\n")
    for verb in ("prove", "iotest", "workload"):
        ended = gridwright(verb, spec)
        assert ended.status == 3
        assert ended.err.count("error: ") == 1
        assert "mount file system disk" in ended.err
    assert not gridwright.runs.exists()
