"""The file system of a repository's state fills up: it is named, and nobody is told to delete anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gridwright.repository.state_directory import VARIABLE
from tests.support.command import Command
from tests.support.disks import other_mount
from tests.support.object_store import StoreServer, prefix_of


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory on a disk of its own, of 4 MiB."""
    place = tmp_path / "state"
    with other_mount(place, "tmpfs", "size=4m", "mode=700"):
        monkeypatch.setenv(VARIABLE, str(place))
        yield place


def fill(place: Path) -> Path:
    """Leave no byte."""
    with (file := place / "filler").open("wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size))
    return file


@pytest.mark.root
def test_a_full_disk_of_the_state_is_named_and_nothing_is_to_be_removed(
    server: StoreServer, library: Path, state: Path, request: pytest.FixtureRequest, gridwright: Command
) -> None:
    flags = ("--bucket", prefix_of(request.node.name), "--directory", library)
    (library / "first").write_text("first")
    assert gridwright("repo", "export", *flags).status == 0
    for number in range(200):
        (library / f"f{number}").write_text(f"{number}")
    filler = fill(state)
    for words in (("export",), ("status",)):
        ended = gridwright("repo", *words, *flags)
        if ended.status == 3:
            assert f"the file system of {state}" in ended.text and "is full" in ended.text, ended.err
            assert "make room there" in ended.text
            assert "remove that file" not in ended.text
    assert gridwright("repo", "export", *flags).status == 3
    filler.unlink()
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "verify", *flags).status == 0


@pytest.mark.root
def test_so_is_that_of_a_migration(tmp_path: Path, library: Path, state: Path, gridwright: Command) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(500):
        (source / f"f{number}").write_text(f"{number}")
    flags = ("repo", "import", "--from", source, "--directory", library)
    assert gridwright(*flags, "--dry-run").status == 0
    filler = fill(state)
    ended = gridwright(*flags)
    assert ended.status == 3
    assert f"the file system of {state}" in ended.text and "is full" in ended.text, ended.err
    filler.unlink()
    assert gridwright(*flags).status == 0
    assert len(list(library.glob("f*"))) == 500


@pytest.mark.root
def test_what_is_no_data_base_is_said_to_be_damaged(
    server: StoreServer, library: Path, state: Path, request: pytest.FixtureRequest, gridwright: Command
) -> None:
    flags = ("--bucket", prefix_of(request.node.name), "--directory", library)
    (library / "first").write_text("first")
    assert gridwright("repo", "export", *flags).status == 0
    (file,) = state.rglob("known.sqlite")
    file.write_bytes(b"no data base" * 1000)
    ended = gridwright("repo", "export", *flags)
    assert (ended.status, "remove that file" in ended.text) == (3, True), ended.err
