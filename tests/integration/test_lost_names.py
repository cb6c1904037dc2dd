"""Names whose content was in the bucket alone, and whose objects are gone: every command says so."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gridwright.repository.state_directory import VARIABLE, open_state
from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer


def said(ended: Ended) -> str:
    return " ".join(ended.out.split())


def problems(ended: Ended) -> list[str]:
    return sorted(each["name"] for each in ended.json["problems"])


def delete(server: StoreServer, url: str, names: Sequence[str] | None = None) -> None:
    """Delete objects of these names, or all of the prefix, as a life cycle rule does."""
    client, prefix = server.client(), url.removeprefix(f"s3://{BUCKET}/") + "/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    # A store on directories keeps those that are not empty.
    for key in sorted(keys, reverse=True):
        if names is None or key.removeprefix(prefix) in names:
            client.delete_object(Bucket=BUCKET, Key=key)


def known(library: Path) -> dict[str, list[Any]]:
    """All tables of what is known."""
    state = open_state(library)
    state.close()
    found = {}
    for file in sorted(state.path.glob("known*.sqlite")):
        with closing(sqlite3.connect(file)) as database:
            names = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            for name in names:
                rows = database.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - its own names
                found[f"{file.name} {name}"] = sorted(map(repr, rows))
    return found


def files(library: Path) -> dict[str, tuple[int, ...]]:
    return {
        str(each.relative_to(library)): (each.lstat().st_ino, each.lstat().st_ctime_ns)
        for each in [library, *library.rglob("*")]
    }


def test_a_name_whose_object_is_gone_is_named_until_somebody_gives_it_up(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for number in range(12):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "release", "--name", "x", "f2", "f3", *flags).status == 0
    assert gridwright("repo", "status", *flags).status == 0
    delete(server, url, ["f2"])

    for _ in range(2):
        ended = gridwright("repo", "export", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f2"]), ended.out
        ended = gridwright("repo", "import", "--names", "--dry-run", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f2"]), ended.out
        ended = gridwright("repo", "import", "--names", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f2"]), ended.out
        ended = gridwright("repo", "import", "--name", "x", "f2", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f2"]), ended.out
        ended = gridwright("repo", "verify", "--json", *flags)
        assert (ended.status, problems(ended)) == (1, ["f2"]), ended.out
        ended = gridwright("repo", "ls", *flags)
        assert ended.status == 1
        assert [line.split()[3:] for line in ended.out.splitlines() if " gone " in line] == [["gone", "f2"]]
        ended = gridwright("repo", "status", *flags)
        assert ended.status == 1
        assert "in the bucket alone 1 (9 B)" in said(ended)
        assert "only copies gone 1 (9 B)" in said(ended)

    told = gridwright("repo", "status", "--json", *flags).json["repositories"][0]
    assert (told["lost_names"], told["finding"]["name"]) == (1, "only-copies-gone")
    assert told["findings"] == [told["finding"]]
    command = told["finding"]["remedy"].partition("run gridwright ")[2].partition(",")[0].split()
    ended = gridwright(*command, "--json")
    assert ended.status == 0, ended.out
    assert any("f2" in each for each in ended.json["notes"])
    assert gridwright("repo", "status", *flags).status == 0
    assert gridwright("repo", "verify", *flags).status == 0
    assert gridwright("repo", "import", *flags).status == 0
    assert (library / "f3").read_text() == "content 3"


def test_what_was_forgotten_stays_forgotten_on_two_machines(
    server: StoreServer,
    url: str,
    library: Path,
    tmp_path: Path,
    gridwright: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = ("--bucket", url, "--directory", library, "--json")

    def on(machine: str, *words: str) -> Ended:
        monkeypatch.setenv(VARIABLE, str(tmp_path / machine))
        return gridwright("repo", *words, *flags)

    for number in range(12):
        (library / f"f{number}").write_text(f"content {number}")
    assert on("a", "export").status == on("b", "export").status == 0
    assert on("a", "release", "f6").status == 0
    delete(server, url, ["f6"])
    assert problems(on("b", "export")) == ["f6"]
    ended = on("a", "import", "--deletions", "--delete-up-to", "5")
    assert (ended.status, any("f6" in each for each in ended.json["notes"])) == (0, True)
    told = on("a", "status").json["repositories"][0]
    assert (told["lost_names"], told["names_only"], told["findings"]) == (0, 0, [])
    # Whoever exports in between still names it, and has it in the manifest.
    (library / "new").write_text("new")
    assert problems(on("b", "export")) == ["f6"]
    for machine, verb in (("a", "verify"), ("a", "ls"), ("a", "export"), ("b", "export"), ("b", "verify")):
        assert (ended := on(machine, verb)).status == 0, (machine, verb, ended.out)
    for machine in "ab":
        assert on(machine, "status").status == 0
        assert "b'f6'" not in "".join(known(library)["known.sqlite files"])

    # What comes back is there, and its next loss is named.
    key = url.removeprefix(f"s3://{BUCKET}/") + "/f6"
    server.client().put_object(Bucket=BUCKET, Key=key, Body=b"content 6")
    assert on("a", "import").status == 0
    assert (library / "f6").read_text() == "content 6"
    assert on("a", "export").status == on("a", "release", "f6").status == 0
    delete(server, url, ["f6"])
    for machine in "ab":
        assert problems(on(machine, "export")) == ["f6"]


def test_an_emptied_prefix_is_no_reason_to_forget_what_was_there(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for number in range(30):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "release", *flags).status == 0
    assert not list(library.glob("f*"))
    delete(server, url)
    for words in (["import", "--names"], ["import"], ["import", "--deletions"], ["export"], ["verify"]):
        ended = gridwright("repo", *words, "--json", *flags)
        assert ended.status == 1, words
        assert {f"f{number}" for number in range(30)} <= set(problems(ended)), words
    ended = gridwright("repo", "status", *flags)
    assert (ended.status, "only copies gone 30 (" in said(ended)) == (1, True)

    # Who brings them back has them.
    key = url.removeprefix(f"s3://{BUCKET}/") + "/f7"
    server.client().put_object(Bucket=BUCKET, Key=key, Body=b"content 7")
    gridwright("repo", "import", *flags)
    assert (library / "f7").read_text() == "content 7"
    assert "only copies gone 29 (" in said(gridwright("repo", "status", *flags))


def test_what_another_machine_deletes_is_no_loss(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    flags, others = (("--bucket", url, "--directory", each) for each in (library, other))
    for number in range(5):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "import", "--names", *others).status == 0
    (library / "f1").unlink()
    assert gridwright("repo", "export", "--deletions", *flags).status == 0
    assert gridwright("repo", "status", *others).status == 0
    ended = gridwright("repo", "import", "--names", "--json", *others)
    assert (ended.status, ended.json["problems"]) == (0, [])
    # Who publishes later does not bring a name back.
    (library / "f3").unlink()
    assert gridwright("repo", "export", "--deletions", *flags).status == 0
    (other / "new").write_text("new")
    assert gridwright("repo", "export", *others).status == 0
    assert gridwright("repo", "status", *others).status == 0
    assert gridwright("repo", "release", "--name", "x", "f2", *flags).status == 0
    delete(server, url, ["f2"])
    assert gridwright("repo", "status", *others).status == 1
    assert problems(gridwright("repo", "import", "--names", "--json", *others)) == ["f2"]


def test_what_another_library_has_is_not_lost_here(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    flags, others = (("--bucket", url, "--directory", each) for each in (library, other))
    for number in range(12):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *flags).status == 0
    delete(server, url, ["f1", "f2"])
    assert gridwright("repo", "import", *others).status == 0
    for words in ("export", "import", "verify"):
        ended = gridwright("repo", words, "--json", *others)
        assert (ended.status, ended.json["problems"]) == (0, []), words
        assert any("another library" in each and "f1, f2" in each for each in ended.json["notes"]), words
    ended = gridwright("repo", "status", *others)
    assert (ended.status, "only copies gone" in ended.out) == (0, False)
    assert "in the bucket alone 0 (0 B)" in said(ended)
    assert (ended := gridwright("repo", "ls", *others)).status == 0
    assert " gone " not in ended.out
    assert gridwright("repo", "import", "--deletions", *others).status == 0

    # The library that has them names them, and brings them back.
    assert problems(gridwright("repo", "export", "--json", *flags)) == ["f1", "f2"]
    assert gridwright("repo", "export", "--prefer", "files", *flags).status == 0
    assert gridwright("repo", "import", *others).status == 0
    assert (other / "f1").read_text() == "content 1"
    assert gridwright("repo", "verify", *others).status == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("is_moved", [False, True])
def test_what_another_library_has_deleted_is_in_no_other_library(
    server: StoreServer, url: str, library: Path, tmp_path: Path, gridwright: Command, is_moved: bool
) -> None:
    other = tmp_path / "other"
    (library / "d").mkdir()
    (library / "d/f").write_text("1")
    (library / "z").write_text("2")
    other.mkdir()
    flags, other_flags = (("--bucket", url, "--directory", each) for each in (library, other))
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "import", *other_flags).status == 0
    if is_moved:
        (library / "d").rename(library / "moved")
        assert gridwright("repo", "export", *flags).status == 0
    else:
        shutil.rmtree(library / "d")
    shutil.rmtree(other / "d")
    assert gridwright("repo", "export", "--deletions", *flags).status == 0

    ended = gridwright("repo", "export", *["--deletions"] * is_moved, *other_flags)
    assert ended.status == 0, ended.out + ended.err
    assert "are gone from here and from the bucket, and forgotten: d, d/f" in said(ended)
    assert "in another library" not in said(ended)
    for flags_of in (flags, other_flags, other_flags, flags):
        for verb in ("export", "import"):
            ended = gridwright("repo", verb, *flags_of)
            assert ended.status == 0, ended.out + ended.err
            assert "forgotten" not in ended.out
            assert "in another library" not in said(ended)


def test_what_is_here_alone_is_told_to_be_in_no_other_library(
    url: str, library: Path, tmp_path: Path, gridwright: Command
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (library / "f").write_text("1")
    (library / "z").write_text("2")
    flags, other_flags = (("--bucket", url, "--directory", each) for each in (library, other))
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "import", *other_flags).status == 0
    (library / "f").unlink()
    assert gridwright("repo", "export", "--deletions", *flags).status == 0
    (other / "new").write_text("3")
    # Its file is here, so that it is named; then it is gone from both.
    assert problems(gridwright("repo", "export", "--json", *other_flags)) == ["f"]
    (other / "f").unlink()
    ended = gridwright("repo", "export", *other_flags)
    assert ended.status == 0, ended.out + ended.err
    assert "in another library" not in said(ended)
    assert "forgotten: f" in said(ended)


def test_what_is_nowhere_leaves_all_states_and_the_manifest(
    server: StoreServer,
    url: str,
    library: Path,
    tmp_path: Path,
    gridwright: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def on(machine: str, *words: str) -> Ended:
        monkeypatch.setenv(VARIABLE, str(tmp_path / machine))
        return gridwright("repo", *words, "--json", "--bucket", url, "--directory", library)

    def rows(machine: str) -> str:
        monkeypatch.setenv(VARIABLE, str(tmp_path / machine))
        return "".join(known(library)["known.sqlite files"])

    for number in range(12):
        path = library / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"content {number}")
    assert on("a", "export").status == on("b", "export").status == 0
    delete(server, url, ["d1/f1", "d1/f4"])
    assert problems(on("b", "export")) == ["d1/f1", "d1/f4"]
    ended = on("a", "import", "--deletions")
    assert (ended.status, (library / "d1" / "f1").exists()) == (0, False)
    for machine in "ab":
        assert (ended := on(machine, "verify")).status == 0, ended.out
    for machine in "ab":
        ended = on(machine, "export")
        assert ended.status == 0, ended.out
        assert any("d1/f1, d1/f4" in each for each in ended.json["notes"])
    # A machine that knows nothing learns nothing of them, either.
    assert on("c", "export").status == 0
    for machine in "abc":
        ended = on(machine, "verify")
        assert (ended.status, set(ended.json["done"])) == (0, {"equal"}), ended.out
        assert "d1/f7" in rows(machine)
        assert "d1/f1'" not in rows(machine)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "words",
    [
        ("export", "--deletions"),
        ("export", "--prefer", "files"),
        ("import", "--deletions", "--delete-up-to", "100"),
        ("import", "--names"),
        ("import", "--prefer", "objects"),
        ("release",),
        ("verify",),
    ],
)
def test_a_dry_run_changes_nothing_that_is_known(
    server: StoreServer, url: str, library: Path, gridwright: Command, words: Sequence[str]
) -> None:
    flags = ("--bucket", url, "--directory", library)
    for number in range(12):
        (library / f"f{number}").write_text(f"content {number}")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "release", "--name", "x", "f2", "f3", "f4", *flags).status == 0
    delete(server, url, ["f2", "f5", "f6"])
    (library / "f6").unlink()
    (library / "f7").unlink()
    (library / "f8").write_text("edited")
    (library / "f9").chmod(0o600)
    (library / "new").write_text("new")
    client, prefix = server.client(), url.removeprefix(f"s3://{BUCKET}/")
    for name in ("f3", "f9", "theirs"):
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=b"theirs")
    before = known(library), files(library)
    gridwright("repo", words[0], "--dry-run", *words[1:], *flags)
    assert (known(library), files(library)) == before
