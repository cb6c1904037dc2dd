"""Directories and files of a library keep their owners, whatever its users exchange and the bucket says."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gridwright.repository.known import Known
from tests.integration.test_hostile_repository import Attacked, attacked
from tests.support.as_user import ALICE, MALLORY, as_user, exchange, open_to_all, start_as
from tests.support.object_store import BUCKET

__all__ = ["attacked"]

pytestmark = pytest.mark.root


def owned(path: Path, uid: int, mode: int) -> Path:
    """Give a file or a directory, made where it is missing, to a user."""
    if not path.exists():
        path.mkdir()
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def seen(path: Path) -> tuple[int, int, str]:
    """Owner, group and permissions."""
    status = path.stat()
    return status.st_uid, status.st_gid, f"{stat.S_IMODE(status.st_mode):o}"


def put_later(attacked: Attacked, name: str, body: bytes = b"", **metadata: str) -> None:
    """Write an object so much later that its date tells, whose steps are seconds.

    What an export sent is noted a second late: servers date their answers once a second.
    """
    time.sleep(2.1)
    # Directories of some stores keep their date when they are only written anew.
    attacked.client.delete_object(Bucket=BUCKET, Key=f"{attacked.prefix}/{name}")
    attacked.put(name, body, **metadata)


def forget(library: Path) -> None:
    """Make this a machine that knows nothing of a library."""
    known = Known(library)
    state = known.state.path
    known.close()
    for each in state.iterdir():
        each.unlink()


def held(library: Path) -> bytes | None:
    """What mallory reads of alice's file."""
    with (library.parent / "read").open("w+b") as out:
        os.fchmod(out.fileno(), 0o666)
        command = ["sh", "-c", f"cat {library}/shared/*/new"]
        start_as(MALLORY, command, stdout=out, stderr=subprocess.DEVNULL).wait(60)
        out.seek(0)
        return out.read() or None


@pytest.mark.parametrize("shared", [0o777, 0o775])
def test_an_exchange_of_names_gives_mallory_no_directory_of_alice(attacked: Attacked, shared: int) -> None:
    library = attacked.library
    open_to_all(library.parent)
    library.chmod(0o755)
    (library / "shared").mkdir()
    os.chown(library / "shared", 0, MALLORY)
    (library / "shared").chmod(shared)
    alice = owned(library / "shared/alice", ALICE, 0o700)
    mallory = owned(library / "shared/mallory", MALLORY, 0o755)
    for directory, uid in ((alice, ALICE), (mallory, MALLORY)):
        (directory / "old").write_text("exported")
        owned(directory / "old", uid, 0o644)
    assert attacked("export").status == 0
    (alice / "new").write_text("alice's secret")
    owned(alice / "new", ALICE, 0o644)
    as_user(MALLORY, lambda: exchange(os.fsencode(alice), os.fsencode(mallory)))
    # What comes by the name of alice's directory would come into mallory's.
    (mallory / "old").unlink()
    forget(library)
    for _ in range(2):
        ended = attacked("import", "--contents", "--json")
        assert (seen(mallory), seen(alice)) == ((ALICE, ALICE, "700"), (MALLORY, MALLORY, "755"))
        assert held(library) is None
    assert "in the place of" in ended.out


def test_what_comes_for_alice_does_not_come_into_a_directory_of_mallory(attacked: Attacked) -> None:
    library = attacked.library
    open_to_all(library.parent)
    owned(library / "shared", 0, 0o777)
    owned(library / "shared/alice", MALLORY, 0o755)
    attacked.publish(
        attacked.row("shared/alice/", b"", mode=0o040700),
        attacked.row("shared/alice/sub/", b"", mode=0o040755),
        attacked.row("shared/alice/new"),
        attacked.row("shared/alice/sub/new"),
    )
    problems = attacked.refused("--contents")
    assert list(problems) == ["shared/alice", "shared/alice/new", "shared/alice/sub", "shared/alice/sub/new"]
    assert list((library / "shared/alice").iterdir()) == []


def kill_while_it_dresses(attacked: Attacked) -> None:
    """Kill an import before it gives directories their attributes."""
    kill(attacked, "import", "making.Maker.dress_directory")


def kill(attacked: Attacked, verb: str, call: str) -> None:
    """Have a command killed when it comes to a function of a class of the repository."""
    module, owner, name = call.split(".")
    code = (
        "import os, signal, sys\n"
        f"from gridwright.repository.{module} import {owner}\n"
        f"{owner}.{name} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.argv[0] = 'gridwright'\n"
        "from gridwright.cli.start import run\n"
        "run()\n"
    )
    command = [sys.executable, "-c", code, "repo", verb, *map(str, attacked.flags)]
    ended = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert ended.returncode < 0, ended


def test_who_writes_the_bucket_gets_no_directory_that_was_here(attacked: Attacked) -> None:
    """Metadata of `dir/` objects, of the library's own, too, and ACLs of a manifest."""
    library = attacked.library
    library.chmod(0o755)
    places = {
        "": owned(library, 0, 0o755),
        "private/": owned(library / "private", 0, 0o700),
        "alices/": owned(library / "alices", ALICE, 0o700),
        "sticky/": owned(library / "sticky", ALICE, 0o1777),
    }
    (library / "private/key").write_text("never exported")
    before = {name: seen(path) for name, path in places.items()}

    def attack() -> None:
        for name, uid in (("", MALLORY), ("private/", MALLORY), ("alices/", ALICE), ("sticky/", ALICE)):
            put_later(attacked, name, file_permissions="040777", file_owner=str(uid), file_group=str(uid))

    attack()
    ended = attacked("import", "--contents")
    assert {name: seen(path) for name, path in places.items()} == before
    assert "the owner and who may enter it stay" in ended.out
    # Less is given where the owner stays.
    given = {"file_owner": str(ALICE), "file_group": str(ALICE)}
    put_later(attacked, "sticky/", b"", file_permissions="041755", **given)
    assert attacked("import").status == 0
    assert seen(places["sticky/"]) == (ALICE, ALICE, "1755")
    before["sticky/"] = seen(places["sticky/"])
    # Once more, with all that is known of them.
    assert attacked("export", "--prefer", "files").status == 0
    attack()
    for flags in ((), ("--prefer", "objects")):
        attacked("import", "--contents", *flags)
        assert {name: seen(path) for name, path in places.items()} == before


def test_new_directories_get_what_the_bucket_says_also_after_a_kill(attacked: Attacked) -> None:
    library = attacked.library
    attacked.put("a/", b"", file_permissions="042770", file_owner=str(ALICE), file_group=str(ALICE))
    attacked.put("a/b/", b"", file_permissions="040700", file_owner=str(MALLORY), file_group=str(MALLORY))
    attacked.put("a/b/file")
    attacked.put("implied/file")
    attacked.put("system/", b"", file_permissions="042777", file_owner="2", file_group="6")
    kill_while_it_dresses(attacked)
    # No wider than its object says, which may be known only once something in it has come.
    assert seen(library / "a") in ((0, 0, "750"), (0, 0, "700"))
    assert attacked("import").status == 0
    assert seen(library / "a") == (ALICE, ALICE, "2770")
    assert seen(library / "a/b") == (MALLORY, MALLORY, "700")
    assert seen(library / "implied") == (0, 0, "755")
    assert seen(library / "system") == (0, 0, "777")
    assert not [each for each in os.listxattr(library / "a") if "made" in each]


def test_names_that_are_gridwrights_own_are_named_and_come_from_no_bucket(attacked: Attacked) -> None:
    library = attacked.library
    mine = [".gridwright-part-list", "d/.gridwright-part-dir/deep", ".gridwright/notes"]
    mine.append(".gridwright-part-aside-01/q")
    for name in mine:
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text("a user's own")
    ended = attacked("export")
    assert ended.status == 0
    for verb in ("export", "status"):
        assert attacked(verb).out.count("4 files are never exported") == 1
    attacked.put("d/.gridwright-part-new")
    attacked.put(".gridwright-part-other/new")
    attacked.publish(attacked.row("good"), attacked.row(".gridwright-part-row"))
    # Of a directory that is here an import gives attributes only where its object has a later date.
    attacked.put("new-directory/", b"")
    kill_while_it_dresses(attacked)
    for _ in range(2):
        problems = attacked.refused("--contents")
        assert len(problems) == 4
        assert all("begins with .gridwright-part-" in why for why in problems.values())
    assert all((library / name).read_text() == "a user's own" for name in mine), "tidying up takes none"


def test_status_says_how_many_files_lie_aside_and_the_next_change_puts_them_back(attacked: Attacked) -> None:
    library = attacked.library
    for place in range(3):
        (library / f"file{place}").write_bytes(b"content")
    assert attacked("export").status == 0
    kill(attacked, "release", "release._LocalRelease._finish_one")
    for _ in range(2):
        assert "3 files lie aside" in attacked("status").out
    assert attacked("export").status == 0
    assert "lie aside" not in attacked("status").out
    assert [(library / f"file{place}").read_bytes() for place in range(3)] == [b"content"] * 3


def test_a_file_that_mallory_has_open_is_not_given_to_alice(attacked: Attacked) -> None:
    library = attacked.library
    tool = library / "tool"
    tool.write_bytes(b"#!/bin/true\n")
    owned(tool, MALLORY, 0o755)
    assert attacked("export").status == 0
    body, given = tool.read_bytes(), {"file_owner": str(ALICE), "file_group": str(ALICE)}
    put_later(attacked, "tool", body, file_permissions="0100755", **given)
    writing = os.open(tool, os.O_WRONLY)
    problems = attacked.refused()
    assert "somebody has it open for writing; it was left as it is" in problems["tool"]
    assert seen(tool) == (MALLORY, MALLORY, "755")
    os.close(writing)
    before = tool.stat().st_ino
    assert attacked.refused() == {}
    assert (seen(tool), tool.read_bytes()) == ((ALICE, ALICE, "755"), body)
    assert tool.stat().st_ino != before, "it was made anew"
    # Narrower permissions need no copy; wider ones do.
    for mode, is_same in (("0100700", True), ("0100755", False)):
        before = tool.stat().st_ino
        put_later(attacked, "tool", body, file_permissions=mode, **given)
        assert attacked.refused() == {}
        assert (seen(tool)[2], tool.stat().st_ino == before) == (mode[-3:], is_same)
