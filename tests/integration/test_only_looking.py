"""Commands that only look change nothing: no file, mode, time or name, also of what an older release left."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.repository.state_directory import ROOT_STATE, VARIABLE
from tests.support.command import Command
from tests.support.object_store import BUCKET, store_server

SPEC = """\
filesystems: {{disk: {{type: local, path: .}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
repositories:
  archive: {{library: data, path: /looked-at, bucket: s3://{bucket}/archive, endpoint: "{endpoint}"}}
"""
LOOKS = (
    ("repo", "status", "grid.yaml"),
    ("repo", "status", "grid.yaml", "--hot"),
    ("repo", "ls", "archive"),
    ("repo", "trash", "archive"),
    ("repo", "export", "archive", "--dry-run"),
    ("repo", "import", "archive", "--dry-run"),
    ("repo", "release", "archive", "--until-free", "20%", "--dry-run"),
    ("repo", "verify", "archive", "--dry-run"),
    ("check", "grid.yaml"),
    ("status", "grid.yaml"),
    ("doctor", "grid.yaml"),
    ("watch", "grid.yaml", "--status"),
    ("top", "grid.yaml", "--once"),
    ("explain", "1"),
    ("jobs",),
    ("usage",),
    ("layout", "show", "grid.yaml"),
    ("runs", "list"),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A grid whose library has state of an older release, beside its data, and root's has none."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with store_server(tmp_path / "store") as served:
        for name, value in served.environment.items():
            if name != "AWS_ENDPOINT_URL":
                monkeypatch.setenv(name, value)
        grid = tmp_path / "grid"
        for name in ("data/looked-at", "work", "util", "home"):
            (grid / name).mkdir(parents=True)
        monkeypatch.setenv("HOME", str(grid / "home"))
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        (grid / "grid.yaml").write_text(SPEC.format(bucket=BUCKET, endpoint=served.endpoint_url), "utf-8")
        (grid / "data" / "looked-at" / "sales.csv").write_text("1,2\n", "utf-8")
        monkeypatch.chdir(grid)
        yield grid


def tree(*places: Path) -> dict[str, tuple[int, ...]]:
    """All names below directories, with inode, mode, owner, size and mtime."""
    found: dict[str, tuple[int, ...]] = {}
    for top in places:
        for each in (top, *top.rglob("*")):
            status = each.lstat()
            found[str(each)] = (
                *(status.st_ino, status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns),
            )
    return found


def leave_state(grid: Path, version: int) -> None:
    """As the release before kept it: beside the data of root's library."""
    beside = grid / "data" / "looked-at" / ".gridwright"
    beside.mkdir(mode=0o700)
    with sqlite3.connect(beside / "known.sqlite") as former:
        former.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT)")
        former.execute("INSERT INTO facts VALUES ('exported', '1700000000.0')")
        former.execute(f"PRAGMA user_version = {version}")
    (beside / "known.sqlite").chmod(0o600)


def export_as_another_machine(grid: Path, gridwright: Command) -> None:
    """Have objects and a manifest in the bucket, which a look reads."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv(VARIABLE, str(grid.parent / "of-another-machine"))
        assert gridwright("repo", "export", "archive").status == 0


@pytest.mark.few(5)
@pytest.mark.root
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_who_looks_changes_nothing(place: Path, gridwright: Command, words: tuple[str, ...]) -> None:
    export_as_another_machine(place, gridwright)
    leave_state(place, 0)
    before, state = tree(place), _root_state()
    done = gridwright(*words)
    assert done.status in (0, 1, 2, 3, 4), done.text
    assert "Traceback" not in done.text
    after = tree(place)
    if words[0] == "doctor":
        # It tries whether libraries can be written, with a file that it takes away again.
        for each in [str(place / name) for name in ("data", "work", "util")]:
            after[each] = before[each]
    assert after == before
    assert _root_state() == state


def _root_state() -> set[str]:
    """Of libraries with the name of this one."""
    return {each.name for each in ROOT_STATE.glob("looked-at-*")} if ROOT_STATE.is_dir() else set()


@pytest.mark.root
@pytest.mark.alone  # The state of root is what others here hold to be as it was.
def test_a_verb_that_writes_moves_what_an_older_release_left_and_says_so_once(
    place: Path, gridwright: Command
) -> None:
    leave_state(place, 0)
    before = _root_state()
    looked = gridwright("repo", "status", "grid.yaml", "--json").json["repositories"][0]
    assert looked["last_export"] == 1_700_000_000.0, "it is read where it is"
    try:
        first, second = (gridwright("repo", "export", "archive") for _ in range(2))
        assert (first.status, second.status) == (0, 0), first.text + second.text
        assert "of an older release was moved to" in first.text
        assert "was moved to" not in second.text
        assert not (place / "data" / "looked-at" / ".gridwright" / "known.sqlite").exists()
    finally:
        for name in _root_state() - before:
            subprocess.run(["rm", "-r", ROOT_STATE / name], check=True)


KILLED = """
import os, sqlite3, sys
known = sqlite3.connect(sys.argv[1], isolation_level=None)
known.execute("PRAGMA cache_size = 1")
known.execute("BEGIN")
for number in range(2000):
    known.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"many{number}", "x" * 500))
known.execute("UPDATE facts SET value = '1' WHERE name = 'exported'")
os.kill(os.getpid(), 9)
"""


@pytest.mark.root
def test_a_look_at_what_a_killed_command_left_settles_a_copy_alone(place: Path, gridwright: Command) -> None:
    leave_state(place, 0)
    file = place / "data" / "looked-at" / ".gridwright" / "known.sqlite"
    subprocess.run([sys.executable, "-c", KILLED, file], check=False)
    assert file.with_name("known.sqlite-journal").stat().st_size > 0
    before, copies = tree(place), set(Path("/tmp").glob("gridwright-look-*"))
    looked = gridwright("repo", "status", "grid.yaml", "--json")
    assert looked.json["repositories"][0]["last_export"] == 1_700_000_000.0, looked.text
    assert tree(place) == before
    assert set(Path("/tmp").glob("gridwright-look-*")) <= copies


@pytest.mark.root
@pytest.mark.alone  # The state of root is what others here hold to be as it was.
@pytest.mark.parametrize("has_other", [False, True])
def test_doctor_names_a_refused_mass_deletion_and_how_to_go_on(
    place: Path, gridwright: Command, has_other: bool
) -> None:
    """Also where the directory was that of another bucket before."""
    library, before = place / "data" / "looked-at", _root_state()
    endpoint = (place / "grid.yaml").read_text().split('"')[1]
    for number in range(20):
        (library / f"file{number}").write_text("x")
    try:
        if has_other:
            other = ("--bucket", f"s3://{BUCKET}/other", "--endpoint", endpoint, "--directory", library)
            assert gridwright("repo", "export", *other).status == 0
        assert gridwright("repo", "export", "archive").status == 0
        for each in library.glob("file*"):
            each.unlink()
        refused = gridwright("repo", "export", "archive", "--deletions")
        assert refused.status == 1
        look = ("doctor", "grid.yaml", "--only", "deletions-refused", "--json")
        (found,) = [each for each in gridwright(*look).json["checks"] if not each["ok"]]
        assert "repository archive: the export of " in found["found"]
        assert "--delete-up-to 20" in found["found"]
        back = gridwright("repo", "import", "archive", "file7")
        assert (library / "file7").read_text() == "x", back.text
        assert gridwright("repo", "export", "archive", "--deletions", "--delete-up-to", "20").status == 0
        (found,) = gridwright(*look).json["checks"]
        assert found["ok"]
    finally:
        for name in _root_state() - before:
            subprocess.run(["rm", "-r", ROOT_STATE / name], check=True)
