"""Directories of libraries that are missing: which are made, and which are an error, told once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems import library_directories
from gridwright.filesystems.library_directories import make_library_directories
from gridwright.spec import GridSpec, load_spec

LIBRARIES = ("data", "work", "util")


def spec_at(directory: Path, path: str, kind: str = "local", more: str = "") -> GridSpec:
    directory.mkdir(exist_ok=True)
    file = directory / "grid.yaml"
    file.write_text(f"filesystems:\n  disk: {{type: {kind}, path: {path}{more}}}\n")
    return load_spec(file)


def refused(spec: GridSpec) -> str:
    with pytest.raises(GridwrightError) as caught:
        make_library_directories(spec)
    assert caught.value.status is ExitStatus.ENVIRONMENT
    (problem,) = caught.value.problems
    assert problem.remedy
    return f"{problem.where}: {problem.what}"


def test_libraries_below_the_directory_of_the_spec_are_made(tmp_path: Path) -> None:
    spec = spec_at(tmp_path / "new", "./grid-disk")
    disk = tmp_path / "new" / "grid-disk"
    assert make_library_directories(spec) == [str(disk / name) for name in LIBRARIES]
    assert sorted(path.name for path in disk.iterdir()) == sorted(LIBRARIES)
    assert make_library_directories(spec) == [], "once they are there, nothing is done or said"


def test_only_what_is_missing_is_made(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "data").mkdir(parents=True)
    (disk / "work").write_text("a file in its place is for the test to tell of")
    assert make_library_directories(spec_at(tmp_path / "spec", str(disk))) == [str(disk / "util")]
    assert (disk / "work").is_file()


def test_a_directory_elsewhere_that_is_missing_is_told_of_once(tmp_path: Path) -> None:
    said = refused(spec_at(tmp_path / "spec", str(tmp_path / "none")))
    assert said == f"{tmp_path}/none: file system disk: there is no such directory"
    assert not (tmp_path / "none").exists()


def test_a_mount_point_of_fstab_that_nothing_is_mounted_on_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were libraries made there, the root disk would be measured in the place of the disk that is meant."""
    point = tmp_path / "spec" / "scratch"
    (point / "grid").mkdir(parents=True)
    fstab = tmp_path / "fstab"
    fstab.write_text(f"# what is where\nLABEL=scratch\t{point}  xfs   noatime 0 2\n")
    monkeypatch.setattr(library_directories, "_FSTAB", fstab)
    said = refused(spec_at(tmp_path / "spec", "./scratch/grid"))
    assert f"{point} is a mount point in {fstab}, and nothing is mounted there" in said
    assert list((point / "grid").iterdir()) == []


def test_an_empty_directory_where_disks_are_mounted_by_custom_is_taken_for_a_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = tmp_path / "mnt"
    (places / "scratch").mkdir(parents=True)
    monkeypatch.setattr(library_directories, "_MOUNT_PLACES", (places,))
    monkeypatch.setattr(library_directories, "_ROOT", os.geteuid())
    spec = spec_at(tmp_path / "spec", str(places / "scratch"))
    assert "an empty directory where file systems are mounted" in refused(spec)
    (places / "scratch" / "in-use").touch()
    assert len(make_library_directories(spec)) == 3


def test_a_parallel_file_system_that_is_not_mounted_is_no_place_to_make_libraries(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    spec = spec_at(tmp_path / "spec", str(tmp_path / "shared"), "nfs", ", server: nfs1, export: /x")
    assert "no nfs4 or nfs is mounted here" in refused(spec)
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.root
def test_in_the_directory_of_another_user_nothing_is_made(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    os.chown(disk, 12345, 12345)
    assert "belongs to 12345" in refused(spec_at(tmp_path / "spec", str(disk)))
    assert list(disk.iterdir()) == []


def test_several_file_systems_are_told_of_at_once(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        "filesystems:\n  a: {type: local, path: /no/a}\n  b: {type: local, path: /no/b}\n"
        "libraries: {data: {filesystem: a}, work: {filesystem: b}, util: {filesystem: b}}\n"
    )
    with pytest.raises(GridwrightError) as caught:
        make_library_directories(load_spec(file))
    assert [problem.where for problem in caught.value.problems] == ["/no/a", "/no/b"]
