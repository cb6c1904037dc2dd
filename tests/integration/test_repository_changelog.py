"""Exports to a real store that find what was changed by changelogs of a modelled Lustre."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from gridwright.repository.verify import verify
from tests.support.changelog_model import LustreModel
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_of_environment

MDT = "scratch-MDT0000"
URL: dict[str, str] = {}
"""Of the test that runs."""


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


@pytest.fixture(autouse=True)
def own_prefix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(URL, "", prefix_of(request.node.name))


def exported(lustre: LustreModel, server: StoreServer, **options: bool) -> RepositoryReport:
    file = lustre.mount.parent / "changelog.json"
    settings = RepositorySettings("archive", lustre.mount / "results", URL[""], changelog=file)
    store = S3Store(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    opened = OpenRepository.open(settings, store)
    try:
        return export(opened, ExportOptions(**options), source_of=lambda _mount: lustre)
    finally:
        opened.close()


def counts(report: RepositoryReport) -> dict[str, int]:
    assert report.problems == []
    return {action: each.count for action, each in report.done.items()}


def differing(lustre: LustreModel, server: StoreServer) -> list[tuple[str, str]]:
    """What a comparison of all files and objects finds."""
    store = S3Store(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    opened = OpenRepository.open(RepositorySettings("archive", lustre.mount / "results", URL[""]), store)
    try:
        return verify(opened, ()).problems
    finally:
        opened.close()


def test_exports_by_changelogs_leave_the_bucket_as_scans_do(lustre: LustreModel, server: StoreServer) -> None:
    lustre.mkdir(b"results/year")
    lustre.create(b"results/year/jan", b"1" * 5000)
    lustre.create(b"results/a", b"a")
    first = exported(lustre, server)
    assert "all files were looked at: nothing was scanned yet" in first.notes
    assert counts(first) == {"sent": 4}
    lustre.rename(b"results/year", b"results/last")
    lustre.chmod(b"results/a", 0o600)
    lustre.write_and_close(lustre.open(b"results/a"), b"A")
    lustre.link(b"results/a", b"results/last/b")
    second = exported(lustre, server, deletions=True)
    assert "changelogs named" in second.notes[0]
    # The file of the renamed directory is copied within the bucket; its directory is a new object.
    assert counts(second)["renamed in the bucket"] == 1
    assert counts(second)["deleted from the bucket"] == 2
    assert differing(lustre, server) == []
    lustre.unlink(b"results/a")
    lustre.touch(b"results/last/jan", 10**18)
    third = exported(lustre, server, deletions=True)
    assert "changelogs named" in third.notes[0]
    assert counts(third)["deleted from the bucket"] == 1
    assert differing(lustre, server) == []
    assert lustre.logs[MDT].records == []
    assert counts(exported(lustre, server, deletions=True)) == {}


def test_records_do_not_wait_for_a_store_that_is_away(
    lustre: LustreModel, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.create(b"results/a", b"a")
    exported(lustre, server)
    lustre.create(b"results/b", b"b")
    lustre.chmod(b"results/a", 0o600)
    with monkeypatch.context() as away:
        away.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(GridwrightError):
            exported(lustre, replace(server, endpoint_url="http://127.0.0.1:9"))
    assert lustre.logs[MDT].records == []
    again = exported(lustre, server)
    assert "changelogs named" in again.notes[0]
    assert counts(again)["sent"] >= 1
    assert differing(lustre, server) == []


def test_a_dry_run_looks_at_all_files_and_takes_no_record(lustre: LustreModel, server: StoreServer) -> None:
    lustre.create(b"results/a", b"a")
    exported(lustre, server)
    lustre.create(b"results/c", b"c")
    kept = len(lustre.logs[MDT].records)
    assert counts(exported(lustre, server, dry_run=True))["sent"] == 1
    assert len(lustre.logs[MDT].records) == kept > 0
