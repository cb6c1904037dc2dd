"""Exports to a real store that find what was changed by changelogs of a modelled Lustre."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.changelog.changes import RepositoryChanges, standing_of
from gridwright.repository.changelog.records import ChangeType
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.s3.connection import connect
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from gridwright.repository.verify import verify
from tests.support.changelog_double import build_library, write_log, write_names
from tests.support.changelog_model import LustreModel
from tests.support.command import GRIDWRIGHT, wait_until
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_of_environment
from tests.support.repositories import SameStore, looking
from tests.support.skips import needs
from tests.unit.repository.test_many_objects import ListedStore

MDT = "scratch-MDT0000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_of_environment(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def lustre(tmp_path: Path) -> LustreModel:
    mount = tmp_path / "lustre"
    (mount / "results").mkdir(parents=True)
    made = LustreModel(mount)
    users = {MDT: {"user": made.logs[MDT].register(), "index": 0}}
    (tmp_path / "changelog.json").write_text(json.dumps({"mount": str(mount), "users": users}))
    return made


@dataclass(frozen=True)
class Bucket:
    """A prefix of the test's own in a store."""

    server: StoreServer
    url: str

    @contextlib.contextmanager
    def opened(self, lustre: LustreModel) -> Iterator[OpenRepository]:
        file = lustre.mount.parent / "changelog.json"
        settings = RepositorySettings("archive", lustre.mount / "results", self.url, changelog=file)
        store = SameStore(connect(BUCKET, endpoint_url=self.server.endpoint_url), pause_ms=20)
        opened = OpenRepository.open(settings, store)
        try:
            yield opened
        finally:
            opened.close()

    def export(
        self, lustre: LustreModel, *, deletions: bool = False, dry_run: bool = False
    ) -> RepositoryReport:
        with self.opened(lustre) as opened:
            options = ExportOptions(deletions=deletions, dry_run=dry_run)
            with looking(opened) if dry_run else contextlib.nullcontext(opened) as each:
                return export(each, options, source_of=lambda _mount: lustre)

    def differing(self, lustre: LustreModel) -> list[tuple[str, str]]:
        """What a comparison of all files and objects finds."""
        with self.opened(lustre) as opened:
            return verify(opened, ()).problems


@pytest.fixture
def bucket(server: StoreServer, request: pytest.FixtureRequest) -> Bucket:
    return Bucket(server, prefix_of(request.node.name))


def counts(report: RepositoryReport) -> dict[str, int]:
    assert report.problems == []
    return {action: each.count for action, each in report.done.items()}


def test_exports_by_changelogs_leave_the_bucket_as_scans_do(lustre: LustreModel, bucket: Bucket) -> None:
    lustre.mkdir(b"results/year")
    lustre.create(b"results/year/jan", b"1" * (2 << 20))
    lustre.create(b"results/a", b"a")
    first = bucket.export(lustre)
    assert "all files were looked at: nothing was scanned yet" in first.notes
    assert counts(first) == {"sent": 4}
    lustre.rename(b"results/year", b"results/last")
    lustre.chmod(b"results/a", 0o600)
    lustre.write_and_close(lustre.open(b"results/a"), b"A")
    lustre.link(b"results/a", b"results/last/b")
    second = bucket.export(lustre, deletions=True)
    assert "changelogs named" in second.notes[0]
    # The file of the renamed directory is copied within the bucket; its directory is a new object.
    assert counts(second)["renamed in the bucket"] == 1
    assert counts(second)["deleted from the bucket"] == 1
    assert counts(second)["deleted from the bucket as directories"] == 1
    assert bucket.differing(lustre) == []
    lustre.unlink(b"results/a")
    lustre.touch(b"results/last/jan", 10**18)
    third = bucket.export(lustre, deletions=True)
    assert "changelogs named" in third.notes[0]
    assert counts(third)["deleted from the bucket"] == 1
    assert bucket.differing(lustre) == []
    assert lustre.logs[MDT].records == []
    assert counts(bucket.export(lustre, deletions=True)) == {}


def test_records_do_not_wait_for_a_store_that_is_away(
    lustre: LustreModel, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.create(b"results/a", b"a")
    bucket.export(lustre)
    lustre.create(b"results/b", b"b")
    lustre.chmod(b"results/a", 0o600)
    with monkeypatch.context() as away:
        away.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(GridwrightError):
            replace(bucket, server=replace(bucket.server, endpoint_url="http://127.0.0.1:9")).export(lustre)
    assert lustre.logs[MDT].records == []
    again = bucket.export(lustre)
    assert "changelogs named" in again.notes[0]
    assert counts(again)["sent"] >= 1
    assert bucket.differing(lustre) == []


def test_a_dry_run_looks_at_all_files_and_takes_no_record(lustre: LustreModel, bucket: Bucket) -> None:
    lustre.create(b"results/a", b"a")
    bucket.export(lustre)
    lustre.create(b"results/c", b"c")
    kept = len(lustre.logs[MDT].records)
    assert counts(bucket.export(lustre, dry_run=True))["sent"] == 1
    assert len(lustre.logs[MDT].records) == kept > 0


def record(index: int, kind: ChangeType, path: Path) -> bytes:
    """As the library hands out a record of a file with a FID of the time before FIDs."""
    head = struct.pack("=HHIQQQ", 0, 0xF000, kind, index, 0, int(time.time()) << 30)
    fid = struct.pack("=QII", path.lstat().st_ino, 1, 0)
    return head + fid + bytes(16 + 32 + 32 + 8)


class RealCommand:
    """The command on a directory that a double of the library takes for a Lustre."""

    def __init__(self, place: Path, library: Path, bucket: Bucket) -> None:
        self.url = bucket.url
        self.mount, self.double = place / "lustre", place / "double"
        self.files = self.mount / "results"
        self.files.mkdir(parents=True)
        self.double.mkdir()
        self.file = place / "changelog.json"
        self.environment = {
            **os.environ, **bucket.server.environment, "LD_LIBRARY_PATH": str(library),
            "CHANGELOG_DOUBLE": str(self.double),
        }  # fmt: skip
        self.records: list[bytes] = []
        (self.double / f"{MDT}.users").write_text("cl3 7\n")
        users = {MDT: {"user": "cl3", "index": 7}}
        self.file.write_text(json.dumps({"mount": str(self.mount), "users": users}))
        self.notes(ChangeType.OPEN, self.files)

    def notes(self, kind: ChangeType, path: Path) -> None:
        index = 8 + len(self.records)
        self.records.append(record(index, kind, path))
        write_log(self.double, MDT, self.records)
        (self.double / f"{MDT}.index").write_text(str(index))
        write_names(self.double, f"{path.lstat().st_ino:#x}:0x1:0x0", [bytes(path.relative_to(self.mount))])

    def __call__(self, verb: str, *more: str | Path, library: bool = True) -> dict[str, Any]:
        environment = dict(self.environment)
        if not library:
            del environment["LD_LIBRARY_PATH"]
        where: list[str | Path] = ["--directory", self.files, "--bucket", self.url, "--json"]
        done = subprocess.run(
            [GRIDWRIGHT, "repo", verb, *more, *where],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def export(self, *, library: bool = True) -> tuple[str, int]:
        """The first note, and how many files were sent."""
        told = self("export", "archive", "--changelog", self.file, library=library)
        return told["notes"][0], told["done"].get("sent", {"count": 0})["count"]

    def cleared(self) -> str:
        return (self.double / f"{MDT}.users").read_text()


def test_the_command_asks_the_library(tmp_path: Path, bucket: Bucket) -> None:
    needs("cc")
    (tmp_path / "library").mkdir()
    command = RealCommand(tmp_path, build_library(tmp_path / "library"), bucket)
    for name in ("a", "b"):
        (command.files / name).write_text(name)
    assert command.export() == ("all files were looked at: nothing was scanned yet", 3)
    assert command.cleared() == "cl3 8\n"
    # A change without a record is not seen: what was looked at is what changelogs name.
    for name in ("a", "b"):
        (command.files / name).write_text("other")
    command.notes(ChangeType.CLOSE, command.files / "a")
    assert command.export() == ("changelogs named 1 file or directory", 1)
    assert command.cleared() == "cl3 9\n"
    (command.double / f"{MDT}.users").write_text("cl1 2\n")
    note, sent = command.export()
    assert ("cl3 is not registered" in note, sent) == (True, 1)
    note, sent = command.export(library=False)
    assert ("liblustreapi.so.1: cannot open shared object file" in note, sent) == (True, 0)


@pytest.mark.few(1)
@pytest.mark.parametrize("call", ["clear", "paths"])
def test_who_waits_for_lustre_can_be_stopped(tmp_path: Path, bucket: Bucket, call: str) -> None:
    needs("cc")
    (tmp_path / "library").mkdir()
    command = RealCommand(tmp_path, build_library(tmp_path / "library"), bucket)
    (command.files / "a").touch()
    command.export()
    command.notes(ChangeType.CLOSE, command.files / "a")
    asked = command.double / "asked"
    command.environment |= {"CHANGELOG_DOUBLE_HANGS": call, "CHANGELOG_DOUBLE_ASKED": str(asked)}
    arguments = ["--changelog", str(command.file), "--directory", str(command.files), "--bucket", bucket.url]
    process = subprocess.Popen(
        [GRIDWRIGHT, "repo", "export", "archive", *arguments],
        env=command.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: asked.exists() or None, seconds=20, what="a call", last=process.poll)
        process.terminate()
        assert process.wait(10) == 130
    finally:
        process.kill()
        process.wait()
    for name in ("CHANGELOG_DOUBLE_HANGS", "CHANGELOG_DOUBLE_ASKED"):
        del command.environment[name]
    assert command.export()[0] == "changelogs named 1 file or directory"


def test_status_shows_what_waits_in_changelogs(lustre: LustreModel, tmp_path: Path) -> None:
    file = tmp_path / "changelog.json"
    settings = RepositorySettings("archive", lustre.mount / "results", "s3://site/prod", changelog=file)
    lustre.create(b"results/a", b"a")
    opened = OpenRepository.open(settings, ListedStore(0))  # type: ignore[arg-type]
    try:
        (before,), _ = standing_of(opened, file, lambda _mount: lustre)
        kept = list(lustre.logs[MDT].records)
        changes = RepositoryChanges(opened, lambda _mount: lustre)
        changes.take()
        (after,), owed = standing_of(opened, file, lambda _mount: lustre)
        assert standing_of(opened, tmp_path / "none.json")[0] == []
    finally:
        opened.close()
    assert (before.untaken, before.idle_s) == (len(kept), None)
    assert "user cl1 is at record 0, 2 records behind (the last is 2, the oldest" in before.text()
    assert before.text().endswith("never taken")
    assert (after.untaken, after.oldest_s, after.index, after.last) == (0, None, 2, 2)
    assert "user cl1 is at record 2, with none behind it" in after.text()
    assert after.idle_s is not None
    assert owed == "nothing was scanned yet"
