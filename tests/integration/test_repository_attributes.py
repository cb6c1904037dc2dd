"""Attributes that one library changes reach the other one, whatever date a store gives a copied object."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.publishing import publish_manifest
from gridwright.repository.settings import RepositoryReport
from tests.support.file_trees import Seen, look_at
from tests.support.object_store import StoreServer, prefix_of, store_in_environment
from tests.support.repositories import opened, run
from tests.support.skips import root_only

KINDS = ("versitygw", "moto", "seaweedfs")
with_directories = pytest.mark.parametrize(
    "server", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.thorough)], indirect=True
)
"""SeaweedFS keeps no metadata of directories."""
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHi", *each)
    for each in ((0x01, 6, -1), (0x02, 4, 1234), (0x04, 4, -1), (0x10, 4, -1), (0x20, 0, -1))
)
"""User 1234 may read it, too (include/uapi/linux/posix_acl_xattr.h)."""
ACCESS = "system.posix_acl_access"
DAY_NS = 86_400 * 10**9


on_each_store = pytest.mark.parametrize("server", KINDS, indirect=True)
"""Tests of which version of attributes is the later one, which goes by the dates that a store gives."""


@pytest.fixture(
    scope="module", params=[KINDS[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in KINDS[1:])]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_in_environment(tmp_path_factory.mktemp("store") / "made", request.param) as served:
        yield served


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return prefix_of(request.node.name)


@pytest.fixture
def libraries(tmp_path: Path) -> tuple[Path, Path]:
    places = tmp_path / "one", tmp_path / "other"
    for each in places:
        each.mkdir()
    return places


def do_export(directory: Path, server: StoreServer, url: str, **options: object) -> RepositoryReport:
    return run(directory, server, lambda each: export(each, ExportOptions(**options)), url)  # type: ignore[arg-type]


def do_import(directory: Path, server: StoreServer, url: str, **options: object) -> RepositoryReport:
    return run(directory, server, lambda each: import_objects(each, ImportOptions(**options)), url)  # type: ignore[arg-type]


def plan_import(directory: Path, server: StoreServer, url: str) -> RepositoryReport:
    with opened(directory, server, url, looks=True) as plan:
        return import_objects(plan, ImportOptions(dry_run=True))


def done(report: RepositoryReport) -> dict[str, int]:
    return {name: each.count for name, each in report.done.items() if each.count and name != "compared"}


def narrowed(path: Path) -> None:
    path.chmod(0o700 if path.is_dir() else 0o600)


def widened(path: Path) -> None:
    path.chmod(0o666)


def given_away(path: Path) -> None:
    os.chown(path, 1234, 1235, follow_symlinks=False)


def touched(path: Path) -> None:
    os.utime(path, ns=(DAY_NS, DAY_NS), follow_symlinks=False)


def tagged(path: Path) -> None:
    os.setxattr(path, "user.project", b"new")


def untagged(path: Path) -> None:
    os.removexattr(path, "user.owner")


def with_acl(path: Path) -> None:
    os.setxattr(path, ACCESS, ACL)


WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    "narrowed": (narrowed, "file name directory"),
    "widened": (widened, "file name"),
    "given": (given_away, "file name link"),
    "touched": (touched, "file name link directory"),
    "tagged": (tagged, "file name directory"),
    "untagged": (untagged, "file name directory"),
    "acl": (with_acl, "file name"),
}


def fill(library: Path) -> None:
    """One of each kind for each way; a name is one of two of a file."""
    for way, (_, kinds) in WAYS.items():
        for kind in kinds.split():
            path = library / f"{way}-{kind}"
            if kind == "directory":
                path.mkdir()
                (path / "file").write_bytes(b"in it")
            elif kind == "link":
                path.symlink_to("nowhere")
            else:
                path.write_bytes(f"content of {path.name}".encode())
            if kind == "name":
                os.link(path, library / f"{path.name}-other")
            if kind != "link":
                os.setxattr(path, "user.owner", b"somebody")
                path.chmod(0o755 if kind == "directory" else 0o644)


def looked_at(library: Path) -> dict[bytes, Seen]:
    return {path: each for path, each in look_at(library).items() if path}


@pytest.mark.few(1)
@on_each_store
@root_only
def test_what_a_library_changed_reaches_the_other_one_and_stays(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    one, other = libraries
    fill(one)
    assert do_export(one, server, url).problems == []
    assert do_import(other, server, url).problems == []
    assert do_export(other, server, url).problems == []
    assert looked_at(other) == looked_at(one)

    for way, (change, kinds) in WAYS.items():
        for kind in kinds.split():
            change(one / f"{way}-{kind}")
    wanted = looked_at(one)
    assert do_export(one, server, url).problems == []
    brought = do_import(other, server, url)
    assert brought.problems == []
    assert looked_at(other) == wanted
    for name in ("narrowed-name", "widened-name", "given-name", "acl-name"):
        assert (other / name).samefile(other / f"{name}-other")

    for _ in range(2):
        for library in (other, one):
            assert (done(do_export(library, server, url)), done(do_import(library, server, url))) == ({}, {})
    assert looked_at(one) == looked_at(other) == wanted


def shared(libraries: tuple[Path, Path], server: StoreServer, url: str) -> tuple[Path, Path]:
    """Two libraries that have the same files, and know it."""
    one, other = libraries
    (one / "directory").mkdir(0o755)
    (one / "file").write_bytes(b"content")
    (one / "untouched").write_bytes(b"content")
    do_export(one, server, url)
    do_import(other, server, url)
    assert do_export(other, server, url).problems == []
    return one, other


def names_of(report: RepositoryReport) -> list[str]:
    return sorted(name for name, _ in report.problems)


def in_place(path: Path) -> None:
    path.write_bytes(b"another content")


@pytest.mark.few(4)
@on_each_store
@pytest.mark.parametrize("theirs", [in_place, narrowed, tagged, touched], ids=lambda each: each.__name__)
def test_attributes_that_both_sides_changed_are_named_and_neither_is_lost(
    libraries: tuple[Path, Path], server: StoreServer, url: str, theirs: Callable[[Path], None]
) -> None:
    one, other = shared(libraries, server, url)
    os.setxattr(one / "file", "user.owner", b"somebody")
    (one / "file").chmod(0o640)
    assert do_export(one, server, url).problems == []
    theirs(other / "file")
    before = looked_at(other)

    assert names_of(do_export(other, server, url)) == ["file"]
    assert names_of(do_import(other, server, url)) == ["file"]
    assert looked_at(other) == before
    assert do_import(one, server, url).problems == []
    assert (one / "file").stat().st_mode & 0o777 == 0o640
    assert os.getxattr(one / "file", "user.owner") == b"somebody"

    assert do_import(other, server, url, prefer="objects").problems == []
    assert looked_at(other) == looked_at(one)


def test_the_same_change_on_both_sides_is_no_conflict(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    one, other = shared(libraries, server, url)
    for each in (one, other):
        (each / "file").chmod(0o600)
        os.setxattr(each / "file", "user.owner", b"somebody")
    assert do_export(one, server, url).problems == []
    for _ in range(2):
        assert do_import(other, server, url).problems == []
        assert do_export(other, server, url).problems == []


@pytest.mark.few(3)
@on_each_store
@pytest.mark.parametrize("first", [do_export, do_import], ids=["export", "import"])
def test_a_change_that_is_not_exported_yet_is_not_erased(
    libraries: tuple[Path, Path], server: StoreServer, url: str, first: Callable[..., RepositoryReport]
) -> None:
    one, other = shared(libraries, server, url)
    os.setxattr(other / "file", "user.owner", b"somebody")
    os.setxattr(other / "directory", "user.owner", b"somebody")
    (other / "directory").chmod(0o700)
    (one / "untouched").chmod(0o600)
    (one / "directory" / "new").write_bytes(b"a name more")
    assert do_export(one, server, url).problems == []
    wanted = looked_at(other)
    for verb in (first, do_import, do_export):
        assert verb(other, server, url).problems == []
    here = looked_at(other)
    for name in (b"file", b"directory"):
        assert (here[name].xattrs, here[name].mode) == (wanted[name].xattrs, wanted[name].mode)
    assert (other / "untouched").stat().st_mode & 0o777 == 0o600
    assert (other / "directory" / "new").exists()
    assert do_import(one, server, url).problems == []
    assert os.getxattr(one / "file", "user.owner") == b"somebody"
    if server.kind != "seaweedfs":
        assert looked_at(one) == looked_at(other)


@root_only
def test_what_a_library_could_not_take_over_is_not_undone_by_it(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    """A directory that was here before lets nobody else in; that stays its own affair."""
    one, other = libraries
    for each, mode in ((one, 0o777), (other, 0o755)):
        (each / "directory").mkdir()
        (each / "directory").chmod(mode)
        os.chown(each / "directory", 1234, 1234)
    (one / "directory" / "file").write_bytes(b"content")
    do_export(one, server, url)
    do_import(other, server, url)
    assert (other / "directory").stat().st_mode & 0o777 == 0o755
    (other / "directory" / "more").write_bytes(b"content")
    for library in (other, one) * 2:
        assert do_export(library, server, url).problems == []
        assert do_import(library, server, url).problems == []
        assert (one / "directory").stat().st_mode & 0o777 == 0o777
        assert (other / "directory").stat().st_mode & 0o777 == 0o755


@root_only
def test_an_import_marks_no_file_where_nobody_asks_for_it(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    _, other = shared(libraries, server, url)
    assert {path: os.listxattr(path) for path in other.rglob("*")} == {path: [] for path in other.rglob("*")}


DEFAULT_ACL = "system.posix_acl_default"


def private_tree(library: Path) -> None:
    """Nested directories of users, each with all that a directory can have."""
    for number, name in enumerate(("alice", "alice/deep", "alice/deep/er", "bob")):
        path = library / name
        path.mkdir()
        (path / "file").write_bytes(b"private")
        os.chown(path / "file", 1234 + number, 1235)
    for number, name in enumerate(("alice/deep/er", "alice/deep", "alice", "bob")):
        path = library / name
        os.chown(path, 1234 + number, 1235)
        path.chmod(0o2700)
        if number != 1:
            os.setxattr(path, ACCESS, ACL)
            os.setxattr(path, DEFAULT_ACL, ACL)
        os.setxattr(path, "user.project", name.encode())
        touched(path)


@pytest.mark.few(2)
@root_only
@pytest.mark.parametrize("way", ["removed", "renamed", "a part", "parents of a part", "killed"])
def test_a_directory_that_was_gone_here_comes_back_with_all_that_it_had(
    libraries: tuple[Path, Path], server: StoreServer, url: str, tmp_path: Path, way: str
) -> None:
    library, other = libraries
    private_tree(library)
    assert do_export(library, server, url).problems == []
    wanted, times = looked_at(library), library.stat()
    if way == "removed":
        shutil.rmtree(library / "alice")
        shutil.rmtree(library / "bob")
    elif way == "a part":
        shutil.rmtree(library / "alice/deep")
    else:
        for name in ("alice", "bob"):
            (library / name).rename(tmp_path / name)
    if way == "parents of a part":
        parts = [b"alice/deep/er/file", b"alice/deep/file", b"alice/file", b"bob/file"]
        assert do_import(library, server, url, paths=parts).problems == []
    elif way == "killed":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gridwright.repository.importing._Import._dress_directories", killed)
            with pytest.raises(KeyboardInterrupt):
                do_import(library, server, url)
        os.utime(library, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert {name for name, _ in do_export(library, server, url).problems} == {
            os.fsdecode(path) for path, each in wanted.items() if each.mode & 0o040000
        }
    if way != "parents of a part":
        assert do_import(library, server, url).problems == []
    # Names that went and came are changes of the directories around them.
    os.utime(library, ns=(times.st_atime_ns, times.st_mtime_ns))
    touched(library / "alice")
    assert looked_at(library) == wanted
    assert done(do_export(library, server, url)) == {}
    assert do_import(other, server, url).problems == []
    assert looked_at(other) == wanted


def killed(_self: object) -> None:
    raise KeyboardInterrupt


def test_a_directory_keeps_its_times_when_files_in_it_are_emptied(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    library, other = libraries
    (library / "some").mkdir()
    for name in ("kept", "full", "some/full"):
        (library / name).write_bytes(b"data")
    os.link(library / "some/full", library / "some/second")
    assert do_export(library, server, url).problems == []
    assert do_import(other, server, url).problems == []
    directories = (other, other / "some")
    before = [each.stat().st_mtime_ns for each in directories]

    for name in ("full", "some/full"):
        os.truncate(library / name, 0)
    assert do_export(library, server, url).problems == []
    assert do_import(other, server, url).problems == []
    assert [(other / name).stat().st_size for name in ("full", "some/full", "some/second")] == [0, 0, 0]
    assert [each.stat().st_mtime_ns for each in directories] == before


@pytest.mark.few(2)
@root_only
@pytest.mark.parametrize("owner", [0, 1234, 1235, 1236])
def test_names_of_one_file_in_directories_of_different_users_come(
    libraries: tuple[Path, Path], server: StoreServer, url: str, owner: int
) -> None:
    library, other = libraries
    directories = {"": 0, "x": 1235, "y": 1234, "z": 0}
    for name in filter(None, directories):
        (library / name).mkdir()
    for number, pair in enumerate(itertools.permutations(directories, 2)):
        size = number % 3
        first, second = (library / each / f"{number}{end}" for each, end in zip(pair, "ab", strict=True))
        first.write_bytes(b"s" * size)
        os.chown(first, owner, owner)
        os.link(first, second)
    for name, user in directories.items():
        os.chown(library / name, user, user)
    assert do_export(library, server, url).problems == []
    planned = plan_import(other, server, url)
    report = do_import(other, server, url)
    assert report.problems == []
    assert done(planned) == done(report)
    assert looked_at(other) == looked_at(library)
    assert {each.links for each in looked_at(other).values() if not each.mode & 0o040000} == {2}

    for path, each in looked_at(library).items():
        if not each.mode & 0o040000:
            os.chown(os.fsencode(library) + b"/" + path, 1240, 1240)
    assert do_export(library, server, url).problems == []
    planned = plan_import(other, server, url)
    report = do_import(other, server, url)
    assert (report.problems, done(planned)) == ([], done(report))
    assert looked_at(other) == looked_at(library)


@root_only
@pytest.mark.parametrize("content", [b"content", b"another one", b""], ids=["same", "edited", "emptied"])
def test_a_file_that_was_here_gets_no_name_in_a_directory_of_another_user(
    libraries: tuple[Path, Path], server: StoreServer, url: str, content: bytes
) -> None:
    """Nor does one that takes its place in the same run."""
    library, other = libraries
    (library / "a").write_bytes(b"content")
    os.chown(library / "a", 1234, 1234)
    assert do_export(library, server, url).problems == []
    assert do_import(other, server, url).problems == []
    (library / "b").mkdir()
    if content != b"content":
        (library / "a").write_bytes(content)
    os.link(library / "a", library / "b" / "a")
    os.chown(library / "b", 1235, 1235)
    assert do_export(library, server, url).problems == []
    planned = plan_import(other, server, url)
    report = do_import(other, server, url)
    assert done(planned) == done(report)
    for each in (planned, report):
        assert [note for note in each.all_notes if "made apart from" in note], each.text()
    assert (other / "b" / "a").read_bytes() == (other / "a").read_bytes() == content
    assert not (other / "a").samefile(other / "b" / "a")


def copied_without_attributes(library: Path, other: Path) -> None:
    """As root copies a library, who keeps neither owners nor times, nor attributes and ACLs."""
    subprocess.run(["cp", "-rT", library, other], check=True)


def first_seen(library: Path, other: Path, server: StoreServer, url: str) -> dict[bytes, Seen]:
    """A copy of a library of users, of which the bucket has all; how the library is."""
    (library / "directory").mkdir(0o750)
    (library / "file").write_bytes(b"content")
    (library / "empty").touch()
    (library / "link").symlink_to("file")
    for each in library.iterdir():
        if not each.is_symlink():
            os.setxattr(each, "user.owner", b"somebody")
            with_acl(each)
        given_away(each)
        touched(each)
    assert do_export(library, server, url).problems == []
    copied_without_attributes(library, other)
    return looked_at(library)


OTHERS = "its owner, permissions, times or attributes are others in the bucket"
FIRST_SEEN = ["empty", "file", "link"]


@pytest.mark.few(2)
@root_only
@pytest.mark.parametrize("first", [do_export, do_import], ids=["export", "import"])
@pytest.mark.parametrize("winner", ["objects", "files"])
def test_a_copy_that_has_lost_its_attributes_takes_none_from_the_bucket(
    libraries: tuple[Path, Path], server: StoreServer, url: str,
    first: Callable[..., RepositoryReport], winner: str,
) -> None:  # fmt: skip
    one, other = libraries
    wanted = first_seen(one, other, server, url)
    for verb in (first, do_import, do_export):
        report = verb(other, server, url)
        assert [each for each in names_of(report) if each != "directory"] == FIRST_SEEN
        assert all(OTHERS in text and f"--prefer {winner}" in text for _, text in report.problems)
        assert do_import(one, server, url).problems == []
        assert looked_at(one) == wanted
    if winner == "objects":
        assert do_import(other, server, url, prefer="objects").problems == []
    else:
        assert do_export(other, server, url, prefer="files").problems == []
        assert do_import(one, server, url).problems == []
    here, there = looked_at(other), looked_at(one)
    for name in map(os.fsencode, FIRST_SEEN):
        assert here[name] == there[name]
        assert (there[name] == wanted[name]) is (winner == "objects")
    for _ in range(2):
        for library in (other, one):
            assert (names_of(do_export(library, server, url)), names_of(do_import(library, server, url))) == (
                [],
                [],
            )
    assert looked_at(one)[b"file"] == there[b"file"]


@root_only
def test_a_copy_that_has_kept_its_attributes_is_told_of_nothing(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    one, other = libraries
    wanted = first_seen(one, other, server, url)
    subprocess.run(["cp", "-aT", one, other], check=True)
    assert do_export(other, server, url).problems == []
    assert (done(do_import(one, server, url)), looked_at(one)) == ({}, wanted)


@pytest.mark.few(1)
@on_each_store
def test_what_was_exported_while_another_library_imported_reaches_it(
    libraries: tuple[Path, Path], server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store tells whole seconds, and of extended attributes nothing."""
    one, other = shared(libraries, server, url)

    def publish(*arguments: Any) -> None:
        assert do_import(other, server, url).problems == []
        publish_manifest(*arguments)

    monkeypatch.setattr("gridwright.repository.export.publish_manifest", publish)
    (one / "new").write_bytes(b"content")
    for each in (one / "new", one / "file"):
        os.setxattr(each, "user.owner", b"somebody")
        each.chmod(0o600)
    assert do_export(one, server, url).problems == []
    monkeypatch.undo()
    assert do_import(other, server, url).problems == []
    assert looked_at(other) == looked_at(one)


@pytest.mark.few(1)
@on_each_store
def test_attributes_of_a_killed_export_are_no_conflict(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    one, other = shared(libraries, server, url)
    os.setxattr(one / "file", "user.owner", b"somebody")
    (one / "file").chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gridwright.repository.export._Export._known", lambda *_: killed(None))
        with pytest.raises(KeyboardInterrupt):
            do_export(one, server, url)
    for library in (one, other):
        assert do_import(library, server, url).problems == []
    assert do_export(one, server, url).problems == []
    assert do_import(other, server, url).problems == []
    assert looked_at(other) == looked_at(one)
    assert os.getxattr(one / "file", "user.owner") == b"somebody"


def said_in_bucket(server: StoreServer, url: str, key: str) -> tuple[str, str, str]:
    """Owner, group and mode of an object, as its metadata say."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    said = server.client().head_object(Bucket=bucket, Key=f"{prefix}/{key}")["Metadata"]
    return said["file-owner"], said["file-group"], said["file-permissions"]


def of_a_project(library: Path) -> Path:
    project = library / "proj"
    project.mkdir()
    (project / "file").write_bytes(b"content")
    os.chown(project / "file", 4101, 4102)
    os.chown(project, 4101, 4102)
    project.chmod(0o2770)
    return project


@pytest.mark.few(2)
@root_only
@pytest.mark.parametrize("prefer", [None, "objects"])
@pytest.mark.parametrize("first", [do_export, do_import], ids=["export", "import"])
def test_a_directory_keeps_in_the_bucket_the_owner_that_it_did_not_get_here(
    libraries: tuple[Path, Path], server: StoreServer, url: str, tmp_path: Path,
    first: Callable[..., RepositoryReport], prefer: str | None,
) -> None:  # fmt: skip
    one, other = libraries
    of_a_project(one)
    assert do_export(one, server, url).problems == []
    copied_without_attributes(one, other)
    first(other, server, url)
    do_import(other, server, url, prefer=prefer)
    for number in range(2):
        (other / "proj" / f"new-{number}").write_bytes(b"new")
        names = names_of(do_export(other, server, url))
        assert names == ([] if prefer else ["proj/file"])
        if server.kind != "seaweedfs":  # It keeps no metadata of directories: the manifest alone tells.
            assert said_in_bucket(server, url, "proj/") == ("4101", "4102", "0042770")
        assert do_import(other, server, url, prefer=prefer).problems == [] or not prefer
    third = tmp_path / "third"
    third.mkdir()
    assert do_import(third, server, url).problems == []
    status = (third / "proj").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (4101, 4102, 0o2770)


@with_directories
@root_only
@pytest.mark.parametrize("owner", ["4101", "500"])
def test_a_directory_of_another_tool_keeps_its_owner_in_the_bucket(
    libraries: tuple[Path, Path], server: StoreServer, url: str, owner: str
) -> None:
    """No manifest tells of it; 500 is the number of a system's user, whom no bucket gives files."""
    one, _ = libraries
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    said = {"file-owner": owner, "file-group": owner, "file-permissions": "0040700"}
    for name in ("here", "made"):
        server.client().put_object(Bucket=bucket, Key=f"{prefix}/{name}/", Body=b"", Metadata=said)
    (one / "here").mkdir()
    for verb in (do_import, do_export, do_import):
        assert verb(one, server, url).problems == []
        for name in ("here", "made"):
            (one / name / verb.__name__).write_bytes(b"content")
    assert do_export(one, server, url).problems == []
    for name in ("here", "made"):
        assert said_in_bucket(server, url, f"{name}/") == (owner, owner, "0040700")


@with_directories
@root_only
@pytest.mark.parametrize("owner", [(1234, 1235), (0, 0)], ids=["user", "root"])
def test_a_directory_without_an_object_is_of_whom_the_one_above_is(
    libraries: tuple[Path, Path], server: StoreServer, url: str, owner: tuple[int, int]
) -> None:
    one, _ = libraries
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    said = {"file-owner": "4101", "file-group": "4102", "file-permissions": "0042750"}
    put = partial(server.client().put_object, Bucket=bucket)
    put(Key=f"{prefix}/own/", Body=b"", Metadata=said)
    for name in ("file", "new/deep/file", "own/deep/er/file"):
        put(Key=f"{prefix}/{name}", Body=b"content")
    os.chown(one, *owner)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gridwright.repository.making.Maker.dress_without_objects", killed)
        with pytest.raises(KeyboardInterrupt):
            do_import(one, server, url)
    # What a killed import has made is made whole by the next one that puts something into it.
    for name in ("new/deep/file", "own/deep/er/file"):
        put(Key=f"{prefix}/{name}", Body=b"another content")
    assert do_import(one, server, url).problems == []
    for name, wanted in {
        "file": owner, "new": owner, "new/deep": owner, "new/deep/file": owner,
        "own": (4101, 4102), "own/deep": (4101, 4102), "own/deep/er": (4101, 4102),
    }.items():  # fmt: skip
        assert ((one / name).stat().st_uid, (one / name).stat().st_gid) == wanted, name
    assert do_export(one, server, url).problems == []
    if server.kind == "moto":
        assert said_in_bucket(server, url, "new/deep/") == (*map(str, owner), "0040755")
    assert done(do_import(one, server, url)) == {}


@root_only
def test_names_of_one_file_take_each_its_own_object(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    """A name that is replaced changes the ctime of the others, which is no change that anybody made."""
    one, _ = libraries
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    names = ("h", "h2", "x")
    (one / "h").write_bytes(b"content")
    for name in names:
        if name != "h":
            os.link(one / "h", one / name)
        server.client().put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=f"object {name}".encode())
    assert do_import(one, server, url, prefer="objects").problems == []
    assert [(one / name).read_text() for name in names] == [f"object {name}" for name in names]


def test_what_is_wrong_with_the_target_of_a_link_is_named(
    libraries: tuple[Path, Path], server: StoreServer, url: str
) -> None:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    wrong = {"empty": b"", "long": b"x" * 5000, "longer": b"x" * 100_000, "nul": b"a\0b"}
    for name, target in wrong.items():
        said = {"file-permissions": "0120777"}
        server.client().put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=target, Metadata=said)
    told = dict(do_import(libraries[0], server, url).problems)
    assert {name: text.partition(": ")[2] for name, text in told.items()} == {
        "empty": "it has no target",
        "long": "its target has 5,000 bytes, and no link can have more than 4,095",
        "longer": "its target has 100,000 bytes, and no link can have more than 4,095",
        "nul": "its target has a NUL, which no path can have",
    }
