"""Agents of the copytool against a strict double of liblustreapi, with real stores and real kills."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.references import (
    ContentPlace,
    FileState,
    ObjectReference,
    read_state,
    write_state,
)
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from tests.support.command import Command
from tests.support.hsm_double.agents import agent
from tests.support.hsm_double.coordinator import (
    ARCHIVE,
    REMOVE,
    RESTORE,
    Action,
    Coordinator,
    build_library,
    coordinator,
)
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, store_server
from tests.support.range_store import Numbered, RangeStore, range_store
from tests.support.skips import needs, root_only

pytestmark = root_only
MTIME_NS = 1_600_000_000_123_456_789
URL = f"s3://{BUCKET}/prod"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("cc")
    return build_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_server(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def lustre(tmp_path: Path) -> Iterator[Coordinator]:
    mount = tmp_path / "lustre"
    mount.mkdir()
    with coordinator(mount) as made:
        yield made


def released(lustre: Coordinator, name: str, reference: ObjectReference, crc64: str | None = None) -> Path:
    """A released file of an object, as an import leaves it."""
    path = lustre.mount / name
    path.touch()
    write_state(str(path), FileState(reference, ContentPlace.NAME_ONLY, MTIME_NS, crc64))
    os.truncate(path, reference.size)
    os.utime(path, ns=(MTIME_NS, MTIME_NS))
    lustre.released.add(path.stat().st_ino)
    lustre.fid_of(path)
    return path


def asked(store: RangeStore, count: int = 1) -> None:
    """Wait until the store has so many requests that it does not answer."""
    end = time.monotonic() + 20
    while store.is_asked < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def ended(actions: list[Action]) -> list[int]:
    return [each.wait() for each in actions]


def test_names_are_released_files_with_all_attributes_and_reading_brings_the_objects_bytes(
    lustre: Coordinator, library: Path, server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(Numbered(9_000_001)[:])
    metadata = {"file-permissions": "0100640", "file-owner": "1234", "file-group": "2099"}
    metadata |= {"file-mtime": f"{MTIME_NS}ns", "file-atime": f"{MTIME_NS + 7}ns"}
    client = server.client()
    client.put_object(Bucket=BUCKET, Key="read/a/large", Body=content, Metadata=metadata)
    client.put_object(Bucket=BUCKET, Key="read/empty", Body=b"")
    for name, value in {**server.environment, **lustre.environment}.items():
        monkeypatch.setenv(name, value)
    # Loaded once under its own name, it is what the name stands for in this process.
    ctypes.CDLL(str(library / "liblustreapi.so.1"))

    report = imported(lustre.mount, server, f"s3://{BUCKET}/read", archive_id=5)

    assert report.problems == []
    assert any("HSM archive 5" in each for each in report.notes)
    large = lustre.mount / "a" / "large"
    status = large.stat()
    assert (status.st_size, status.st_mode, status.st_uid, status.st_gid) == (
        len(content),
        0o100640,
        1234,
        2099,
    )
    assert (status.st_mtime_ns, status.st_atime_ns) == (MTIME_NS, MTIME_NS + 7)
    assert lustre.is_released(large)
    assert not lustre.is_released(lustre.mount / "empty")
    assert not [each for each in lustre.mount.iterdir() if each.name.startswith(".gridwright-part")]

    environment = dict(server.environment)
    with agent(lustre, library, environment, tmp_path / "node", archive_id=5):
        (action,) = lustre.request(RESTORE, large, archive_id=5)
        assert action.wait() == 0
        wait_for_state(large, ContentPlace.EXPORTED)
    assert large.read_bytes() == content
    assert large.stat().st_mtime_ns == MTIME_NS
    # The next import takes it for what it is.
    assert imported(lustre.mount, server, f"s3://{BUCKET}/read", archive_id=5).done == {}


def test_a_name_that_is_no_released_file_is_never_sent_as_zeros(
    lustre: Coordinator, library: Path, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = server.client().put_object(Bucket=BUCKET, Key="hollow/name", Body=b"content")
    for name, value in {**server.environment, **lustre.environment}.items():
        monkeypatch.setenv(name, value)
    # As an import made it before there was a copytool, or where no liblustreapi was.
    url = f"s3://{BUCKET}/hollow"
    reference = ObjectReference(url, "hollow/name", put["ETag"].strip('"'), None, 7)
    name_only = lustre.mount / "name"
    name_only.touch()
    os.truncate(name_only, 7)
    write_state(os.fsencode(name_only), FileState(reference, ContentPlace.NAME_ONLY, 2))
    os.utime(name_only, ns=(1, 1))
    ctypes.CDLL(str(library / "liblustreapi.so.1"))
    store = S3Store(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    settings = RepositorySettings("archive", lustre.mount, url, archive_id=1)
    repository = OpenRepository.open(settings, store)
    try:
        (problem,) = export(repository, ExportOptions(paths=[b"name"])).problems
    finally:
        repository.close()
    assert "before all its content was here" in problem[1]
    body = server.client().get_object(Bucket=BUCKET, Key="hollow/name")["Body"].read()
    assert body == b"content"


def test_an_agent_is_refused_where_no_lustre_is(tmp_path: Path, gridwright: Command) -> None:
    said = gridwright(
        "repo", "serve", "--directory", tmp_path, "--bucket", "s3://site/a", "--hsm-archive", "1"
    )
    assert said.status == 3
    assert "no Lustre is mounted there" in said.err
    units = gridwright(
        *("repo", "serve", "a", "--directory", "/mnt/l", "--bucket", "s3://site/a", "--hsm-archive", "7"),
        *("--units", "--json"),
    ).json["units"]
    (unit,) = units.values()
    assert "--bucket s3://site/a --hsm-archive 7 --patience 60s\n" in unit


def imported(directory: Path, server: StoreServer, url: str, archive_id: int) -> RepositoryReport:
    store = S3Store(connect(BUCKET, endpoint_url=server.endpoint_url), pause_ms=20)
    settings = RepositorySettings("archive", directory, url, archive_id=archive_id)
    repository = OpenRepository.open(settings, store)
    try:
        return import_names(repository, ImportOptions())
    finally:
        repository.close()


def wait_for_state(path: Path, presence: ContentPlace) -> None:
    end = time.monotonic() + 10
    while (state := read_state(str(path))) is None or state.presence is not presence:
        assert time.monotonic() < end, state
        time.sleep(0.01)


def test_two_agents_share_the_work_and_one_that_was_killed_goes_on_where_it_was(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    """Lustre hands out nothing again that an agent had; a reader would wait for active_request_timeout."""
    with range_store() as store:
        files = [released(lustre, f"f{n}", store.add(f"k{n}", Numbered(3_000_000 + n))) for n in range(4)]
        with (
            agent(lustre, library, store.environment, tmp_path / "one") as one,
            agent(lustre, library, store.environment, tmp_path / "two"),
        ):
            store.is_cut = True
            actions = [*lustre.request(RESTORE, *files[:2]), *lustre.request(RESTORE, *files[2:])]
            asked(store, 4)
            one.kill()
            store.is_cut = False
            assert [each.error for each in actions if each.agent == "one"] == [None, None]
            with agent(lustre, library, store.environment, tmp_path / "one") as again:
                assert ended(actions) == [0] * 4
                assert again.said().count("goes on") == 2
            (journal,) = (tmp_path / "one-state").glob("*/actions")
            assert (journal.stat().st_size, journal.parent.stat().st_mode & 0o777) == (0, 0o700)
    assert [len(each.agents) for each in actions] == [1] * 4
    for number, file in enumerate(files):
        assert file.read_bytes() == Numbered(3_000_000 + number)[:]


def test_one_agent_has_all_archives_of_a_mount_and_a_second_is_refused(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        files = [released(lustre, f"f{n}", store.add(f"k{n}", Numbered(5000 + n))) for n in range(3)]
        both = [(str(lustre.mount), f"s3://site/{each}", each) for each in (1, 2)]
        with agent(lustre, library, store.environment, tmp_path / "node", repositories=both) as first:
            asked_for = [lustre.request(RESTORE, files[n], archive_id=n) for n in (1, 2)]
            assert [each.wait() for (each,) in asked_for] == [0, 0]
            with agent(
                lustre, library, store.environment, tmp_path / "node", archive_id=3, said="one agent for all"
            ) as second:
                assert second.process.wait(20) == 3
                assert f"process {first.process.pid}, of HSM archives 1, 2" in second.said()
            (again,) = lustre.request(RESTORE, files[1], archive_id=1)
            assert again.wait() == 0


def test_who_is_not_asked_ends_and_says_so(lustre: Coordinator, library: Path, tmp_path: Path) -> None:
    """As where another vendor's copytool has registered on that client: Lustre tells of no error."""
    said = "the metadata servers do not ask this agent: nothing came for archive 2 within 1 s"
    with range_store() as store:
        with agent(lustre, library, store.environment, tmp_path / "node", archive_id=1) as killed:
            killed.kill()
        with agent(
            lustre, library, store.environment, tmp_path / "node", archive_id=2, answer_s=1.0, said=said
        ) as node:
            assert node.process.wait(20) == 3
        # It has left, and the next one is known with its own archives.
        with agent(lustre, library, store.environment, tmp_path / "node", archive_id=2):
            file = released(lustre, "wanted", store.add("k", Numbered(5000)))
            assert ended(lustre.request(RESTORE, file, archive_id=2)) == [0]


def test_an_outage_ends_the_readers_wait_in_the_stated_time_with_the_path_in_the_log(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        file = released(lustre, "wanted", store.add("k", Numbered(100_000)))
        store.is_cut = True
        with agent(lustre, library, store.environment, tmp_path / "node", patience_s=1.0) as node:
            (action,) = lustre.request(RESTORE, file)
            assert action.wait() == errno.EIO
            assert not action.was_retryable
            assert f"{file}: restore" in node.said()
            assert "nothing came for 1 s" in node.said()
            # Told more than once that it goes on, so that the coordinator does not take it away.
            assert len(action.progress) > 1
            store.is_cut = False
            (again,) = lustre.request(RESTORE, file)
            assert again.wait() == 0


def test_bytes_that_are_not_the_exported_ones_never_reach_the_reader(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        wrong = released(lustre, "wrong", store.add("k", Numbered(100_000)), crc64="0123456789abcdef")
        gone = released(lustre, "gone", ObjectReference("s3://site", "nowhere", "e", None, 10))
        other = store.add("changed", Numbered(10))
        changed = released(
            lustre, "changed", ObjectReference("s3://site", "changed", "another", None, other.size)
        )
        stranger = lustre.mount / "stranger"
        stranger.write_bytes(b"no attribute")
        files = (wrong, gone, changed, stranger)
        with agent(lustre, library, store.environment, tmp_path / "node") as node:
            assert ended(lustre.request(RESTORE, *files)) == [errno.EIO] * 4
            said = node.said()
    assert "CRC" in said
    assert all(f"{each}: restore" in said for each in files)
    assert lustre.is_released(wrong)


def test_cancelled_actions_end_at_once_also_those_that_wait(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        files = [released(lustre, f"f{n}", store.add(f"k{n}", Numbered(1000))) for n in range(2)]
        store.is_cut = True
        with agent(lustre, library, store.environment, tmp_path / "node", threads=1):
            actions = lustre.request(RESTORE, *files)
            asked(store)
            for each in reversed(actions):
                lustre.cancel(each)
                assert each.wait() == errno.ECANCELED
        store.is_cut = False
    assert lustre.order == [actions[0].cookie]


def test_readers_are_served_before_archives_that_came_earlier(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        files = [released(lustre, f"f{n}", store.add(f"k{n}", Numbered(1000))) for n in range(3)]
        outside = [lustre.mount / f"new{n}" for n in range(3)]
        for each in outside:
            each.write_bytes(b"x")
        below = lustre.mount / "library"
        below.mkdir()
        store.is_cut = True
        with agent(
            lustre, library, store.environment, tmp_path / "node", threads=1, directory=str(below)
        ) as node:
            (first,) = lustre.request(RESTORE, files[0])
            asked(store)
            archives = lustre.request(ARCHIVE, *outside)
            restores = lustre.request(RESTORE, *files[1:])
            # The agent has the lists of both: it takes them in the order that they come.
            (last,) = lustre.request(RESTORE, files[0])
            lustre.cancel(last)
            assert last.wait() == errno.ECANCELED
            store.is_cut = False
            assert ended([first, *restores]) == [0, 0, 0]
            assert ended(archives) == [errno.EINVAL] * 3
            assert "does not lie in the repository's directory" in node.said()
    assert lustre.order == [each.cookie for each in (first, *restores, *archives)]


def test_an_agent_that_is_told_to_stop_gives_its_work_back_and_the_next_one_goes_on(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        file = released(lustre, "wanted", store.add("k", Numbered(5000)))
        store.is_cut = True
        with agent(lustre, library, store.environment, tmp_path / "node") as node:
            (action,) = lustre.request(RESTORE, file)
            asked(store)
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(5) == 0, node.said()
        assert list((tmp_path / "node").iterdir()) == []
        assert (action.error, action.was_retryable) == (None, True)
        assert lustre.agents == {}
        store.is_cut = False
        with agent(lustre, library, store.environment, tmp_path / "node"):
            assert action.wait() == 0
    assert file.read_bytes() == Numbered(5000)[:]


def test_archiving_goes_over_no_object_that_somebody_else_has_written(
    lustre: Coordinator, library: Path, server: StoreServer, tmp_path: Path
) -> None:
    client = server.client()
    new, taken, both = (lustre.mount / each for each in ("new%", "taken", "both"))
    new.write_bytes(b"new")
    new.chmod(0o604)
    os.utime(new, ns=(MTIME_NS, MTIME_NS))
    taken.write_bytes(b"mine")
    both.write_bytes(b"same content")
    client.put_object(Bucket=BUCKET, Key="prod/taken", Body=b"theirs")
    client.put_object(Bucket=BUCKET, Key="prod/both", Body=b"same content")
    with agent(lustre, library, dict(server.environment), tmp_path / "node", bucket_url=URL) as node:
        assert ended(lustre.request(ARCHIVE, new, taken, both)) == [0, errno.EEXIST, 0]
        assert f"{taken}: archive" in node.said()
        # Removing is for who says so.
        assert ended(lustre.request(REMOVE, new)) == [errno.EPERM]
        state = read_state(str(new))
        assert state is not None
        head = client.head_object(Bucket=BUCKET, Key=state.reference.key)
        assert head["Metadata"]["file-permissions"] == "0100604"
        assert head["Metadata"]["file-mtime"] == f"{MTIME_NS}ns"
        # Changed here alone, it goes over the object that it is known to have.
        new.write_bytes(b"newer")
        assert ended(lustre.request(ARCHIVE, new)) == [0]
        assert client.get_object(Bucket=BUCKET, Key=state.reference.key)["Body"].read() == b"newer"
    assert client.get_object(Bucket=BUCKET, Key="prod/taken")["Body"].read() == b"theirs"
    with agent(
        lustre, library, dict(server.environment), tmp_path / "other", bucket_url=URL, removes=True
    ) as node:
        client.put_object(Bucket=BUCKET, Key="prod/both", Body=b"somebody else's")
        assert ended(lustre.request(REMOVE, new, both)) == [0, errno.EEXIST]
    assert read_state(str(new)) is None
    assert "Contents" not in client.list_objects_v2(Bucket=BUCKET, Prefix=state.reference.key)


def test_a_store_that_could_not_be_tried_at_the_start_is_tried_before_anything_is_archived(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    taken = lustre.mount / "taken"
    taken.write_bytes(b"mine")

    def forbid(answer: Answer) -> None:
        if answer.method in ("PUT", "POST"):
            answer.status, answer.body = 403, b"<Error><Code>AccessDenied</Code></Error>"

    # Moto looks at no signature, so that headers can be left out.
    with store_server(tmp_path / "moto", "moto") as server, LyingStore(server.endpoint_url) as liar:
        client = server.client()
        client.put_object(Bucket=BUCKET, Key="tried/taken", Body=b"theirs")
        liar.instead = forbid
        environment = dict(server.environment) | {"AWS_ENDPOINT_URL": liar.endpoint_url}
        with agent(
            lustre, library, environment, tmp_path / "node", bucket_url=f"s3://{BUCKET}/tried"
        ) as node:
            assert "the store was not tried" in node.said()
            liar.instead = lambda _answer: None
            liar.ignored = frozenset({"if-none-match", "if-match"})
            assert 0 not in ended(lustre.request(ARCHIVE, taken))
            assert "this store ignores the condition If-None-Match" in node.said()
            assert client.get_object(Bucket=BUCKET, Key="tried/taken")["Body"].read() == b"theirs"
            liar.ignored = frozenset()
            assert ended(lustre.request(ARCHIVE, taken)) == [errno.EEXIST]


def test_a_list_of_another_version_is_named_and_another_archive_is_left_alone(
    lustre: Coordinator, library: Path, tmp_path: Path
) -> None:
    with range_store() as store:
        file = released(lustre, "wanted", store.add("k", Numbered(5000)))
        with agent(lustre, library, store.environment, tmp_path / "node", archive_id=2) as node:
            (elsewhere,) = lustre.request(RESTORE, file, archive_id=1)
            lustre.version = 9
            (unread,) = lustre.request(RESTORE, file, archive_id=2)
            node.wait_for("it has version 9")
            lustre.version = 1
            (action,) = lustre.request(RESTORE, file, archive_id=2)
            assert action.wait() == 0
    assert elsewhere.agents == []
    assert unread.error is None


def test_without_lustres_library_the_package_is_named(tmp_path: Path) -> None:
    program = """
from gridwright.repository.copytool.liblustreapi import LustreLibrary
from gridwright.errors import GridwrightError
try:
    LustreLibrary()
except GridwrightError as error:
    print(error)
"""
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env=environment,
    ).stdout
    assert "liblustreapi.so.1" in said
    assert "lustre-client" in said
