"""What becomes of changelogs that do not tell all: a scan, which says why, and records that are given up."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.repository.changelog import changes
from gridwright.repository.changelog.changes import RegisteredUsers
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.changelog.records import ChangeRecord, ChangeType
from gridwright.repository.walking import is_own_path
from tests.support.changelog_model import MdtLog, oserror
from tests.unit.repository.changelog_site import ChangelogSite

MDT = "scratch-MDT0000"


@pytest.fixture
def site(tmp_path: Path) -> ChangelogSite:
    """With some files, all of which are exported, by changelogs from now on."""
    made = ChangelogSite(tmp_path)
    made.lustre.mkdir(b"results/year")
    for name in (b"a", b"b", b"year/jan"):
        made.lustre.create(b"results/" + name, name)
    assert "all files were looked at: nothing was scanned yet" in made.export()
    assert "changelogs named" in made.export()
    return made


def log_of(site: ChangelogSite) -> MdtLog:
    return site.lustre.logs[MDT]


def test_only_what_changelogs_name_is_looked_at(site: ChangelogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.lustre.chmod(b"results/a", 0o600)

    def walk(*_: object) -> None:
        raise AssertionError("all files were looked at")

    monkeypatch.setattr("gridwright.repository.scan.walk_below", walk)
    assert "changelogs named 1 file or directory" in site.export(compares=False)


def test_all_names_of_a_file_are_found(site: ChangelogSite) -> None:
    site.lustre.link(b"results/a", b"results/year/z")
    site.lustre.link(b"results/a", b"elsewhere/z")
    assert "changelogs named" in site.export()
    site.lustre.chmod(b"elsewhere/z", 0o640)
    assert "changelogs named" in site.export()
    site.lustre.unlink(b"results/a")
    assert "changelogs named" in site.export(deletions=True)


def test_a_name_that_lustre_does_not_keep_is_found_by_a_scan(site: ChangelogSite) -> None:
    site.lustre.link(b"results/a", b"results/year/z")
    site.lustre.hidden_links = 1
    assert "Lustre knows 1 of the 2 names of a file" in site.export()
    assert "changelogs named" in site.export()


def test_what_an_export_could_not_do_is_found_again(site: ChangelogSite) -> None:
    site.lustre.chmod(b"results/a", 0o600)
    site.lustre.unlink(b"results/b")
    for _ in range(3):
        # Held to a scan, which finds both again.
        assert "changelogs named" in site.export(deletions=True, fails=lambda _path: True)
    assert log_of(site).records == []
    site.export(deletions=True)
    assert site.scanned(deletions=True) == []


def test_files_that_are_gone_are_counted_until_they_are_deleted(site: ChangelogSite) -> None:
    site.lustre.rename(b"results/year", b"elsewhere/year")
    for _ in range(2):
        assert "changelogs named" in site.export(deletions=False)
    assert "changelogs named" in site.export(deletions=True)


def test_nothing_is_given_up_from_the_first_record_on_that_is_not_written_yet(site: ChangelogSite) -> None:
    log, lustre = log_of(site), site.lustre
    lustre.chmod(b"results/a", 0o600)
    lustre.holds_back = True
    lustre.chmod(b"results/b", 0o600)
    lustre.holds_back = False
    lustre.chmod(b"results/year/jan", 0o600)
    assert "changelogs named" in site.export(compares=False)
    lustre.write_held_back()
    assert log.records[0].index == log.users[site.user()] + 1
    assert "changelogs named" in site.export()
    # One that is never written is waited for once.
    log.index += 1
    lustre.chmod(b"results/a", 0o644)
    for _ in range(2):
        assert "are missing" in site.export()
    assert log.records == []
    assert "changelogs named" in site.export()


def lose_records(site: ChangelogSite) -> None:
    site.lustre.create(b"results/new")
    log_of(site).records.clear()
    site.lustre.create(b"results/newer")


def add_mdt(site: ChangelogSite) -> None:
    site.lustre.logs["scratch-MDT0001"] = MdtLog()


def fail(call: str, number: int) -> Callable[[ChangelogSite], None]:
    def refuse(site: ChangelogSite) -> None:
        site.lustre.create(b"results/new")
        site.lustre.refuses[call] = oserror(number)

    return refuse


def write_unknown(site: ChangelogSite) -> None:
    site.lustre.create(b"results/new")
    log = log_of(site)
    log.index += 1
    log.records.append(ChangeRecord(log.index, None, 0, None, None))


def move_it_all(site: ChangelogSite) -> None:
    record = ChangeRecord(0, ChangeType.RENAME, 0, None, None, site.lustre.fid_of(bytes(directory(site))))
    log = log_of(site)
    log.index += 1
    log.records.append(ChangeRecord(log.index, record.type, 0, None, None, record.source))


def directory(site: ChangelogSite) -> Path:
    return site.lustre.mount / "results"


def write_file(text: str) -> Callable[[ChangelogSite], None]:
    def write(site: ChangelogSite) -> None:
        site.lustre.create(b"results/new")
        site.file.write_text(text)

    return write


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (lose_records, "are missing"),
        (add_mdt, "2 MDTs, and changelog users are registered at 1"),
        (lambda site: log_of(site).remove(site.user()), "cl1 is not registered at scratch-MDT0000 any more"),
        (fail("records", errno.EIO), "cannot be read: Input/output error"),
        (fail("clear", errno.EIO), "cannot be read: Input/output error"),
        (fail("mdt_count", errno.ESHUTDOWN), "does not answer"),
        (fail("paths_of", errno.EOVERFLOW), "does not tell the path of a file"),
        (write_unknown, "of a type that this release does not know"),
        (move_it_all, "the repository's own directory was moved"),
        (write_file("{"), "changelog.json: "),
        (write_file('{"mount": "/lustre"}'), "it has no users"),
        (write_file('{"mount": "/lustre", "users": {"x": {}}}'), "'x' is no MDT"),
        (write_file('{"mount": "lustre", "users": {}}'), "its mount is 'lustre'"),
        (lambda site: site.file.unlink(), "is not there: gridwright setup registers a user"),
        (lambda site: site.register(), "as cl2 yet"),
    ],
)
def test_where_changelogs_do_not_tell_all_a_scan_does_and_says_why(
    site: ChangelogSite, what: Callable[[ChangelogSite], None], why: str
) -> None:
    what(site)
    said = site.export()
    assert said.startswith("all files were looked at: ")
    assert why in said


@pytest.mark.parametrize("call", ["paths_of", "mdt_count"])
def test_records_are_given_up_though_a_scan_has_to_tell(site: ChangelogSite, call: str) -> None:
    """One file whose path cannot be told must not have them fill the MDT."""
    fail(call, errno.EOVERFLOW)(site)
    site.export()
    assert log_of(site).records == []
    site.lustre.refuses.clear()
    assert "changelogs named" in site.export()


def test_a_log_that_is_cleared_under_its_reader_is_read_again(site: ChangelogSite) -> None:
    """As robinhood has met it: llapi_changelog_recv ends with ENOENT."""
    site.lustre.chmod(b"results/a", 0o600)
    site.lustre.chmod(b"results/b", 0o600)
    records, times = site.lustre.records, [0]

    def ending(mdt: str, first: int) -> Iterator[ChangeRecord]:
        times[0] += 1
        yield next(records(mdt, first))
        if times[0] == 1:
            raise oserror(errno.ENOENT)
        yield from records(mdt, first + 1)

    site.lustre.records = ending  # type: ignore[method-assign]
    assert "changelogs named 2 files" in site.export()
    assert times == [2]


def test_many_changes_are_found_by_a_scan(site: ChangelogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_PATHS", 3)
    monkeypatch.setattr(changes, "_AT_ONCE", 2)
    for number in range(5):
        site.lustre.create(b"results/%d" % number)
    assert "5 files were touched" in site.export()
    assert log_of(site).records == []
    monkeypatch.setattr(changes, "MOST_TREES", 1)
    for name in (b"one", b"two"):
        site.lustre.mkdir(b"elsewhere/" + name)
        site.lustre.rename(b"elsewhere/" + name, b"results/" + name)
    monkeypatch.setattr(changes, "MOST_PATHS", 100)
    assert "more than 1 directories were moved" in site.export()


def test_a_scan_comes_by_itself_after_a_week(site: ChangelogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SCAN_AGAIN_S", 0.0)
    assert "the last scan was 0 days ago" in site.export()


def test_a_scan_that_is_owed_outlives_a_kill(site: ChangelogSite) -> None:
    write_unknown(site)

    def kill() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        site.export(meanwhile=kill)
    assert log_of(site).records == []
    assert "does not know" in site.export()


@pytest.mark.parametrize("step", ["paths_of", "clear", "meanwhile", "settle"])
def test_nothing_is_lost_by_kill_9(site: ChangelogSite, step: str) -> None:
    """Between the reading of records and their clearing, and between the clearing and the end."""
    site.lustre.chmod(b"results/a", 0o600)
    site.lustre.create(b"results/new")
    site.lustre.unlink(b"results/b")
    child = os.fork()
    if child == 0:
        try:
            kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
            if step in ("paths_of", "clear"):
                setattr(site.lustre, step, kill)
            site.export(
                deletions=True,
                meanwhile=kill if step == "meanwhile" else lambda: None,
                fails=kill if step == "settle" else lambda _path: False,  # type: ignore[arg-type]
                compares=False,
            )
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    if step in ("meanwhile", "settle"):
        # What the child cleared is cleared.
        site.lustre.clear(MDT, site.user(), log_of(site).index)
    assert "changelogs named" in site.export(deletions=True)
    assert site.scanned(deletions=True) == []


def test_what_set_up_writes_is_read(tmp_path: Path) -> None:
    file = tmp_path / "changelog-archive.json"
    file.write_text(json.dumps({"mount": "/lustre", "users": {MDT: {"user": "cl3", "index": "18"}}}))
    read = RegisteredUsers.read(file)
    assert read.mount == Path("/lustre")
    assert [(each.mdt, each.user, each.index) for each in read.users] == [(MDT, "cl3", 18)]


def test_files_of_gridwrights_own_are_left_out() -> None:
    assert is_own_path(b".gridwright/known.sqlite")
    assert is_own_path(b"year/.gridwright-part-0")
    assert not is_own_path(b"year/.gridwright")


def test_what_could_not_be_looked_at_waits(site: ChangelogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    from gridwright.beneath import Beneath

    site.lustre.chmod(b"results/year/jan", 0o600)
    status = Beneath.status

    def unread(below: Beneath, path: bytes) -> os.stat_result | None:
        if path.startswith(b"year/"):
            raise oserror(errno.EIO)
        return status(below, path)

    with monkeypatch.context() as broken:
        broken.setattr(Beneath, "status", unread)
        site.export(compares=False)
    with site.opened() as opened:
        assert ChangeJournal(opened.known).trees() == [b"year"]
    assert "changelogs named" in site.export()
    assert site.scanned(deletions=True) == []
