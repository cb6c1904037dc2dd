"""What `repo status` and reports count is what is there: each number beside the test's own count."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.keys import MANIFEST
from gridwright.repository.known import Known
from gridwright.repository.known_file import sent_stamp
from gridwright.repository.publishing import Manifest
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.status import RepositoryStatus, repository_status
from gridwright.repository.verify import verify
from tests.support.as_user import ALICE, as_user, open_to_all
from tests.support.command import Command
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer
from tests.support.repositories import forget, looking, opened, run

SPEC = """\
filesystems: {{disk: {{type: local, path: .}}}}
libraries: {{data: {{}}}}
repositories: {{archive: {{library: data, bucket: "{url}", endpoint: "{endpoint}", rpo: 1h}}}}
"""
ARCHIVED = b"<Error><Code>InvalidObjectState</Code><Message>It is archived</Message></Error>"


@pytest.fixture
def spec(tmp_path: Path, server: StoreServer, url: str) -> Path:
    """A grid whose library `data` has a repository with a recovery point of an hour."""
    (tmp_path / "data").mkdir()
    file = tmp_path / "grid.yaml"
    file.write_text(SPEC.format(url=url, endpoint=server.endpoint_url), "utf-8")
    return file


def counted(library: Path) -> tuple[int, int]:
    """Names of files and links, and their bytes, those of a file with several names once."""
    found = [each.lstat() for each in library.rglob("*") if ".gridwright" not in each.parts]
    files = [each for each in found if not stat.S_ISDIR(each.st_mode)]
    return len(files), sum({each.st_ino: each.st_size for each in files}.values())


def objects(server: StoreServer, url: str) -> list[str]:
    """Keys below a prefix, without Gridwright's own."""
    found = server.client().list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix(url)}/").get("Contents", ())
    return [each["Key"] for each in found if "/.gridwright/" not in each["Key"]]


def prefix(url: str) -> str:
    return url.removeprefix(f"s3://{BUCKET}/")


def empty(server: StoreServer, url: str) -> int:
    """Delete all objects, as somebody does at the bucket; how many were of files."""
    keys = objects(server, url)
    for key in keys:
        server.client().delete_object(Bucket=BUCKET, Key=key)
    assert objects(server, url) == []
    return sum(not each.endswith("/") for each in keys)


def sent(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def planned(opened: OpenRepository) -> RepositoryReport:
    with looking(opened) as plan:
        return export(plan, ExportOptions(dry_run=True))


def bring(opened: OpenRepository) -> RepositoryReport:
    return import_objects(opened, ImportOptions())


def free(opened: OpenRepository) -> RepositoryReport:
    return release(opened, ReleaseOptions())


def counts(report: RepositoryReport) -> dict[str, int]:
    return {name: each.count for name, each in report.done.items() if each.count}


def fill(library: Path, files: int) -> None:
    for number in range(files):
        (library / f"rows-{number}").write_bytes(b"x" * (number + 1))


def test_files_are_those_that_a_walk_finds(library: Path, server: StoreServer, url: str) -> None:
    (library / "deep" / "er").mkdir(parents=True)
    fill(library, 9)
    (library / "deep" / "er" / "large").write_bytes(bytes(12_345))
    os.link(library / "deep" / "er" / "large", library / "deep" / "again")
    (library / "link").symlink_to("rows-1")

    def holds() -> RepositoryStatus:
        status = run(library, server, repository_status, url)
        assert (status.files, status.file_bytes) == counted(library)
        return status

    assert holds().changed_files > 0, "nothing is exported yet"
    run(library, server, sent, url)
    holds()
    for name in ("rows-1", "rows-2"):
        (library / name).unlink()
    (library / "rows-3").rename(library / "renamed")
    (library / "new").write_bytes(bytes(77))
    assert holds().gone_files == 3
    run(library, server, sent, url)
    holds()


def test_files_of_which_nothing_is_known_are_there_and_not_known(
    library: Path, tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 4)
    run(library, server, sent, url)
    # Another machine with this very library knows it from the manifest; a copy is a library of its own.
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other-machine"))
    for place, is_own in ((library, True), (copy, False)):
        status = run(place, server, repository_status, url)
        plan = run(place, server, planned, url)
        assert (status.files, status.file_bytes) == counted(place)
        assert status.unknown_files == plan.done["compared"].count == 4
        assert status.unknown_bytes == counted(place)[1]
        assert (status.names_only, status.changed_files > 1) == (0, False)
        assert (status.unprotected_s is None) is not is_own
        status.required_s = 3600.0
        assert (status.finding is None) is is_own
        if status.finding is not None:
            assert "not known yet: 4" in status.finding.text
        assert "  not known yet        4 (10 B)" in status.text()
        assert status.document()["unknown_files"] == 4
    run(copy, server, sent, url)
    time.sleep(0.05)
    run(copy, server, sent, url)
    after = run(copy, server, repository_status, url)
    assert (after.unknown_files, after.changed_files, after.unprotected_s) == (0, 0, 0.0)


def test_another_user_sees_the_files_that_are_there(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 4)
    run(library, server, sent, url)
    said = library.parent / "alice"
    said.mkdir()
    os.chown(said, ALICE, ALICE)
    open_to_all(library)
    library.chmod(0o755)

    def look() -> None:
        os.environ |= {"HOME": str(said), VARIABLE: str(said / "state")}
        status = run(library, server, repository_status, url)
        shown = {"files": status.files, "names_only": status.names_only, "unknown": status.unknown_files}
        (said / "status.json").write_text(json.dumps(shown))

    as_user(ALICE, look)
    shown = json.loads((said / "status.json").read_text())
    assert shown == {"files": counted(library)[0], "names_only": 0, "unknown": 4}


def test_an_emptied_bucket_is_told_until_the_files_are_sent_again(
    spec: Path, server: StoreServer, url: str, gridwright: Command
) -> None:
    fill(library := spec.parent / "data", 20)
    assert gridwright("repo", "export", "archive", "--grid", spec).status == 0
    assert gridwright("repo", "status", spec).status == 0
    assert empty(server, url) == 20

    told = gridwright("repo", "status", spec, "--json")
    (archive,) = told.json["repositories"]
    assert (told.status, archive["gone_objects"], archive["changed_files"]) == (1, 20, 0)
    assert archive["finding"]["name"] == "objects-gone"
    assert f"export archive --grid {spec} --prefer files" in archive["finding"]["remedy"]
    assert archive["unprotected_s"] > 0
    for words in ([], ["--dry-run"], ["rows-3"]):
        again = gridwright("repo", "export", "archive", *words, "--grid", spec)
        assert again.status == 1
        assert "nothing to do" not in again.out
        assert f"could not be done: {1 if words == ['rows-3'] else 20}" in again.out
        named = "rows-3" if words == ["rows-3"] else "rows-12 and 15 more"
        assert f"{named}: its object is gone from the bucket" in again.out
        assert "--prefer files" in again.out
    assert [each for each in objects(server, url) if not each.endswith("/")] == []

    one = gridwright(
        "repo", "export", "archive", "rows-3", "--prefer", "files", "--grid", spec, "--json"
    ).json
    assert one["done"]["sent"] == {"count": 1, "bytes": 4, "files": 1, "links": 0, "directories": 0}
    back = gridwright("repo", "export", "archive", "--prefer", "files", "--grid", spec)
    assert (back.status, "sent: 19 files, 1 directory (206 B)" in back.out) == (0, True), back.out
    after = gridwright("repo", "status", spec, "--json")
    assert (after.status, after.json["repositories"][0]["gone_objects"]) == (0, 0)
    proof = gridwright("repo", "verify", "archive", "--grid", spec, "--json").json
    assert proof["problems"] == []
    kinds = {"files": 20, "links": 0, "directories": 1}
    assert proof["done"]["equal"] == {"count": 21, "bytes": counted(library)[1]} | kinds


def test_the_recovery_point_counts_objects_that_are_gone_or_overwritten(
    library: Path, server: StoreServer, url: str
) -> None:
    fill(library, 4)
    client = server.client()
    run(library, server, sent, url)
    exported = time.time()
    run(library, server, sent, url)
    client.put_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-1", Body=b"of somebody else")
    written = client.head_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-1")["LastModified"].timestamp()
    time.sleep(1.1)
    before = time.time()
    status = run(library, server, repository_status, url)
    assert (status.overwritten_objects, status.gone_objects, status.changed_files) == (1, 0, 0)
    assert before - written <= (status.unprotected_s or 0) <= time.time() - written
    status.required_s = 0.5
    assert status.finding is not None
    assert "repo import archive" in status.finding.remedy
    assert "repo export" not in status.finding.remedy

    client.delete_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-2")
    assert run(library, server, sent, url).failed.count == 1
    gone = run(library, server, repository_status, url)
    assert gone.gone_objects == 1
    assert (gone.unprotected_s or 0) <= time.time() - exported + 2
    assert (gone.unprotected_s or 0) >= 1.1, "an export that left a file without an object is not whole"


def test_a_changed_file_whose_object_is_gone_is_sent(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 4)
    run(library, server, sent, url)
    empty(server, url)
    for each in library.iterdir():
        each.write_bytes(b"changed " + each.read_bytes())
    plan = run(library, server, planned, url)
    report = run(library, server, sent, url)
    assert (plan.failed.count, report.problems) == (0, [])
    assert report.done["sent"].bytes == counted(library)[1]
    assert run(library, server, repository_status, url).gone_objects == 0


def test_the_recovery_point_is_that_of_the_library(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for each in (ours, theirs):
        each.mkdir()
    fill(ours, 3)
    (theirs / "only-theirs").write_text("never exported")
    run(ours, server, sent, url)
    first = run(ours, server, repository_status, url).last_export
    status = run(theirs, server, repository_status, url)
    assert (status.last_export, status.unprotected_s) == (None, None)
    status.required_s = 20.0
    assert status.finding is not None
    # Nor does an import say that anything was exported.
    run(theirs, server, bring, url)
    assert run(theirs, server, repository_status, url).last_export is None

    run(theirs, server, sent, url)
    second = run(theirs, server, repository_status, url).last_export
    assert first is not None
    assert second is not None
    assert second > first
    assert run(ours, server, repository_status, url).last_export == first
    # Who lost what was known finds each library's own moment in the manifest.
    for library, moment in ((ours, first), (theirs, second)):
        forget(library)
        assert run(library, server, repository_status, url).last_export == moment
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other-machine"))
    assert run(ours, server, repository_status, url).last_export == first


def facts_of_an_earlier_release(known: Known) -> dict[str, str]:
    return {"exported": known.fact("exported") or "", "written": repr(time.time())}


def test_a_manifest_of_an_earlier_release_says_when_its_only_library_was_exported(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, other = tmp_path / "library", tmp_path / "other"
    for each in (library, other):
        each.mkdir()
        fill(each, 2)
    with monkeypatch.context() as earlier:
        earlier.setattr("gridwright.repository.publishing._facts", facts_of_an_earlier_release)
        run(library, server, sent, url)
    manifest = tmp_path / MANIFEST
    key = f"{prefix(url)}/.gridwright/{MANIFEST}"
    manifest.write_bytes(server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    assert set(Manifest(manifest).facts) == {"exported", "written"}
    forget(library)
    exported = float(Manifest(manifest).facts["exported"])
    assert run(library, server, repository_status, url).last_export == exported
    assert run(other, server, repository_status, url).last_export is None


def test_made_is_what_is_there(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 4)
    (library / "empty").touch()
    run(library, server, sent, url)
    shutil.rmtree(library)
    library.mkdir()
    with LyingStore(server.endpoint_url) as liar:
        through = dataclasses.replace(server, endpoint_url=liar.endpoint_url)

        def archive(answer: Answer) -> None:
            if answer.method == "GET" and "/rows-" in answer.path:
                answer.status, answer.body = 403, ARCHIVED

        liar.lie = archive
        for made in (1, 0):
            report = run(library, through, bring, url)
            assert counted(library) == (1, 0)
            assert report.failed.count == 4
            assert report.count("made").bytes == 0
            assert sum(each.count for each in report.done.values()) <= made + 1, "the directory may be made"
    report = run(library, server, bring, url)
    assert report.count("made") == report.count("brought")
    assert (report.count("made").count + 1, report.count("made").bytes) == counted(library)


def test_objects_of_files_that_are_gone_are_those_of_the_bucket(
    library: Path, server: StoreServer, url: str
) -> None:
    fill(library, 5)
    run(library, server, sent, url)
    for number in range(3):
        (library / f"rows-{number}").unlink()
    server.client().delete_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-0")
    assert run(library, server, repository_status, url).gone_files == 2
    for what in (planned, sent):
        (note,) = [each for each in run(library, server, what, url).all_notes if "gone;" in each]
        assert note.startswith("2 objects are of files that are gone;")
    server.client().delete_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-1")
    (note,) = [each for each in run(library, server, sent, url).all_notes if "gone;" in each]
    assert note.startswith("1 object is of a file that is gone;")


def test_a_dry_run_counts_what_the_export_does(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 6)
    (library / "rows-5").write_bytes(os.urandom(2 << 20))
    run(library, server, sent, url)
    (library / "rows-5").rename(library / "renamed")
    (library / "new").write_bytes(b"new")
    (library / "rows-1").write_bytes(b"another content")
    plan = run(library, server, planned, url)
    done = run(library, server, sent, url)
    assert counts(plan) == counts(done)
    assert counts(done)["renamed in the bucket"] == 1
    assert plan.done["sent"].bytes == done.done["sent"].bytes


def test_bytes_of_links_count_alike_everywhere(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 3)
    (library / "link").symlink_to("rows-2")
    plan = run(library, server, planned, url)
    done = run(library, server, sent, url)
    proof = run(library, server, verify, url)
    status = run(library, server, repository_status, url)
    expected = counted(library)[1]
    assert plan.done["sent"] == done.done["sent"] == proof.done["equal"]
    assert (done.done["sent"].bytes, status.object_bytes) == (expected, expected)


def test_no_verb_notes_gridwrights_own_files(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory of a user's own what is known lies beside the data."""
    library = tmp_path / "alice"
    library.mkdir(mode=0o755)
    fill(library, 3)
    for each in (library, *library.iterdir()):
        os.chown(each, ALICE, ALICE)
    open_to_all(tmp_path)
    tmp_path.chmod(0o755)

    def all_verbs() -> None:
        del os.environ[VARIABLE]
        os.environ["HOME"] = str(library)
        run_all(library)
        names = {each.name for each in (library / ".gridwright").iterdir()}
        assert {"known.sqlite", "uploads", "lock"} <= names

    def run_all(library: Path) -> None:
        for act in (sent, planned, verify, bring, free, repository_status, sent):
            found = run(library, server, act, url)
            notes = found.notes if isinstance(found, RepositoryStatus) else found.all_notes  # type: ignore[attr-defined]
            assert not [each for each in notes if "never exported" in each], notes

    (tmp_path / "warm-up").mkdir()
    run_all(tmp_path / "warm-up")
    as_user(ALICE, all_verbs)


def test_one_file_is_one_file() -> None:
    report = RepositoryReport("archive", "export")
    report.note_of("are never exported", b"a")
    report.note_of("have no object, since each is a pipe", b"b")
    report.note_of("lost their bits", b"c")
    assert report.all_notes == [
        "1 file is never exported: a",
        "1 file has no object, since each is a pipe: b",
        "1 file lost their bits: c",
    ]
    report.note_of("are never exported", b"d")
    assert report.all_notes[0] == "2 files are never exported: a, d"


def test_what_a_killed_export_has_sent_is_not_known_yet(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 8)
    run(library, server, sent, url)
    before = run(library, server, lambda each: each.known.get(b"rows-7"), url)
    (library / "rows-7").write_bytes(b"edited since")
    (library / "rows-6").write_bytes(b"edited after the kill")
    run(library, server, sent, url)

    def kill(opened: OpenRepository) -> None:
        """Have what was sent of five files not noted, as after a kill."""
        assert before is not None
        status = opened.below.status(b"rows-7")
        assert status is not None
        opened.known.put(before)
        opened.known.begin(b"rows-7", sent_stamp(status))
        opened.known.forget(b"rows-0", b"rows-1", b"rows-2", b"rows-6")
        opened.known.flush()

    run(library, server, kill, url)
    (library / "rows-6").write_bytes(b"edited after the kill, once more")
    (library / "new").write_text("new")
    status = run(library, server, repository_status, url)
    plan = run(library, server, planned, url)
    assert (status.unknown_files, status.changed_objects, status.changed_on_both) == (4, 1, 1)
    assert (status.changed_files, plan.done["compared"].count, plan.failed.count) == (3, 4, 1)
    assert status.unknown_bytes == 1 + 2 + 3 + 12


def test_a_file_that_became_a_directory_is_gone(library: Path, server: StoreServer, url: str) -> None:
    fill(library, 5)
    run(library, server, sent, url)
    for number in (1, 2):
        (library / f"rows-{number}").unlink()
    (library / "rows-1").mkdir()
    assert run(library, server, repository_status, url).gone_files == 2
    with opened(library, server, url) as repository, looking(repository) as plan:
        told = export(plan, ExportOptions(deletions=True, dry_run=True))
    assert told.done["deleted from the bucket"].count == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("has_timer", [False, True])
def test_a_conflict_is_named_and_has_its_own_advice(
    spec: Path, server: StoreServer, url: str, gridwright: Command, has_timer: bool
) -> None:
    if has_timer:
        spec.write_text(spec.read_text().replace("rpo: 1h", "rpo: 2h, export: {changed: hourly}"), "utf-8")
    library = spec.parent / "data"
    fill(library, 4)
    assert gridwright("repo", "export", "archive", "--grid", spec).status == 0
    (library / "rows-1").write_bytes(b"here")
    server.client().put_object(Bucket=BUCKET, Key=f"{prefix(url)}/rows-1", Body=b"in the bucket")
    assert gridwright("repo", "export", "archive", "--grid", spec).status == 1
    proof = gridwright("repo", "verify", "archive", "--grid", spec, "--json").json
    (problem,) = proof["problems"]
    assert problem["why"].startswith("both the file and its object were changed")
    assert f"gridwright repo export archive --grid {spec} --prefer files sends the file" in problem["why"]

    known = Known(library)
    known.set_fact("exported", str(float(known.fact("exported") or 0) - 86400))
    known.close()
    (archive,) = gridwright("repo", "status", spec, "--json").json["repositories"]
    remedy = archive["finding"]["remedy"]
    assert (archive["changed_files"], archive["changed_on_both"]) == (1, 1)
    assert f"{'2 h' if has_timer else '1 h'} without an object, and it is 1 d" in archive["finding"]["text"]
    assert "below the top directory (1)" in archive["finding"]["text"]
    assert remedy.startswith("Choose a side"), "an export sends nothing of it"
    assert "1 file was changed here and in the bucket: rows-1" in archive["notes"]
    (library / "new").write_text("new")
    remedy = gridwright("repo", "status", spec, "--json").json["repositories"][0]["finding"]["remedy"]
    assert f"Run gridwright repo export archive --grid {spec}, which names what cannot be sent" in remedy
    assert ("journalctl" in remedy) is has_timer
    text = gridwright("repo", "status", spec).out
    assert "  changed on both      1, which no export sends" in text


def test_a_library_has_no_identifier_before_its_first_export(spec: Path, gridwright: Command) -> None:
    fill(spec.parent / "data", 1)
    told = gridwright("repo", "status", spec, "--json").json["repositories"][0]["libraries"]
    assert [(each["identifier"], each["is_own"]) for each in told] == [(None, True)]
    assert (
        "  library none yet, this one: place not known, never exported as a whole"
        in gridwright("repo", "status", spec).out
    )
    assert gridwright("repo", "export", "archive", "--grid", spec).status == 0
    both = [gridwright("repo", "status", spec, "--json").json["repositories"][0]["libraries"] for _ in "12"]
    assert both[0] == both[1]
    assert len(both[0][0]["identifier"]) == 32


def test_a_finding_is_said_in_words(spec: Path, gridwright: Command) -> None:
    (spec.parent / "data" / "sales.csv").write_text("1,2\n")
    out = gridwright("repo", "status", spec).out
    assert "Finding(" not in out
    assert "\n  warning recovery-point-missed: repository archive: no change may be older" in out
    assert "\n    Run gridwright repo export archive" in out
