"""Files without content that an older release has made go with the next command, and no object with them."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.making import note_here
from gridwright.repository.references import write_state
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.unfinished import FACT, remove_placeholders
from gridwright.repository.verify import verify
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.file_trees import look_at
from tests.support.object_store import BUCKET, StoreServer
from tests.support.repositories import forget, run
from tests.support.skips import root_only


def hollow_out(opened: OpenRepository) -> None:
    """Make placeholders of all files, as earlier releases had them, and close the directory."""
    root = opened.settings.directory
    for row in list(opened.known.rows("inode <> 0 AND size > 0 AND mode & 61440 = 32768")):
        file = root / os.fsdecode(row.path)
        status = file.stat()
        file.unlink()
        with file.open("wb") as made:
            made.truncate(row.size)
            os.chown(made.fileno(), status.st_uid, status.st_gid)
            os.utime(made.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            row.is_name_only = True
            write_state(made.fileno(), row.state(opened.settings.bucket_url))
            note_here(opened, row, replaced := os.fstat(made.fileno()))
            row.mode = status.st_mode
            os.fchmod(made.fileno(), 0)
            assert replaced.st_size == row.size
        opened.known.put(row)
    mode = stat.S_IMODE(root.stat().st_mode)
    value = json.dumps({"mode": mode, "uid": os.geteuid(), "gid": os.getegid()})
    os.setxattr(root, "trusted.gridwright.closed", value.encode())
    root.chmod(0)


@root_only
@pytest.mark.parametrize("is_known", [True, False])
def test_no_file_that_reads_as_zeros_is_left(
    library: Path, server: StoreServer, url: str, is_known: bool
) -> None:
    """`is_known`: the state of the repository is there, and was not removed."""
    (library / "in").mkdir()
    (library / "in/table").write_bytes(b"content" * 1000)
    (library / "own").write_bytes(b"own" * 70_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    before = look_at(library)
    run(library, server, hollow_out, url)
    with (library / "own").open("r+b") as file:
        file.write(b"new")
    if not is_known:
        forget(library)
    removed, problems = run(library, server, remove_placeholders, url)
    assert removed == 1
    assert not (library / "in/table").exists()
    assert [path for path, _ in problems] == [b"own"], "somebody wrote to it: he sees to it"
    assert stat.S_IMODE(library.stat().st_mode) == 0, "closed, as long as one is left"
    assert "deleted from the bucket" not in run(
        library, server, lambda each: export(each, ExportOptions(deletions=True)), url
    ).done  # fmt: skip

    (library / "own").unlink()
    assert run(library, server, remove_placeholders, url) == (0, [])
    assert stat.S_IMODE(library.stat().st_mode) != 0
    assert run(library, server, lambda each: import_objects(each, ImportOptions()), url).problems == []
    after = look_at(library)
    assert after.keys() == before.keys()
    for name in (b"in/table", b"own"):
        assert replace(after[name], mode=0) == replace(before[name], mode=0)


def test_a_new_library_is_looked_through_once(
    library: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "file").write_bytes(b"content")
    assert run(library, server, remove_placeholders, url) == (0, [])
    monkeypatch.setattr("os.fwalk", lambda *_, **__: pytest.fail("it was looked through again"))
    assert run(library, server, remove_placeholders, url) == (0, [])
    shutil.rmtree(library)


@root_only
def test_what_another_user_keeps_to_himself_ends_no_first_command(
    tmp_path: Path, server: StoreServer, url: str
) -> None:
    """Each verb names what it may not read, and does the rest."""
    open_to_all(tmp_path)
    tmp_path.chmod(0o711)
    library, state = tmp_path / "library", tmp_path / "state"
    for path, owner, mode in (
        (library, 0, 0o1777), (state, ALICE, 0o700), (library / "a", ALICE, 0o755),
        (library / "bp", MALLORY, 0o700), (library / "b", MALLORY, 0o755),
        (library / "listed", MALLORY, 0o744),
    ):  # fmt: skip
        path.mkdir()
        if path != state:
            (path / "sec").write_bytes(b"content")
            (path / "sec").chmod(0o600 if owner == MALLORY else 0o644)
            os.chown(path / "sec", owner, owner)
        os.chown(path, owner, owner)
        path.chmod(mode)
    verbs: dict[str, Callable[[OpenRepository], RepositoryReport]] = {
        "export": lambda each: export(each, ExportOptions()),
        "a part": lambda each: export(each, ExportOptions(paths=[b"a"])),
        "import": lambda each: import_objects(each, ImportOptions()),
        "verify": verify,
        "release": lambda each: release(each, ReleaseOptions()),
    }

    def first(directory: Path, verb: str) -> dict[str, str]:
        def looks_and_does(opened: OpenRepository) -> dict[str, str]:
            assert remove_placeholders(opened) == (0, [])
            assert opened.known.fact(FACT) == "1", "it is looked through once"
            return dict(verbs[verb](opened).problems)

        return run(directory, server, looks_and_does, url)

    (tmp_path / "warm-up").mkdir()
    for verb in verbs:
        first(tmp_path / "warm-up", verb)

    def all_verbs() -> None:
        for verb in verbs:
            os.environ[VARIABLE] = str(state / verb.replace(" ", "-"))
            Path(os.environ[VARIABLE]).mkdir(mode=0o700)
            problems = first(library, verb)
            if verb in ("export", "verify"):
                assert {"b/sec", "bp"} <= set(problems), problems
            assert "a" not in {name[:1] for name in problems}, problems

    as_user(ALICE, all_verbs)
    key = f"{url.split('/', 3)[3]}/a/sec"
    assert server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"content"
