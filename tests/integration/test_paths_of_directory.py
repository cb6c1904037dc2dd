"""With --directory no grid spec says what a name is: what is written after the verb limits it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer, prefix_of


class Placed:
    """A library with two files, and its bucket."""

    def __init__(self, server: StoreServer, gridwright: Command, url: str, library: Path) -> None:
        self.library = library
        self._client, self._gridwright = server.client(), gridwright
        self._prefix = url.removeprefix(f"s3://{BUCKET}/")
        self._flags = ("--directory", library, "--bucket", url)
        for name in ("m1", "m2"):
            (library / name).write_text(name)

    def __call__(self, verb: str, *arguments: str) -> Ended:
        ended = self._gridwright("repo", verb, *arguments, *self._flags)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def json(self, verb: str, *arguments: str) -> Any:
        ended = self(verb, *arguments, "--json")
        assert ended.status == 0, ended
        return ended.json

    @property
    def keys(self) -> list[str]:
        found = self._client.list_objects_v2(Bucket=BUCKET, Prefix=self._prefix).get("Contents", [])
        return [each["Key"][len(self._prefix) + 1 :] for each in found if "/.gridwright/" not in each["Key"]]

    @property
    def files(self) -> list[str]:
        return sorted(each.name for each in self.library.iterdir() if not each.name.startswith("."))


@pytest.fixture
def placed(server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest) -> Placed:
    return Placed(server, gridwright, prefix_of(request.node.name), library)


def test_a_verb_is_limited_to_the_one_path_that_is_named(placed: Placed) -> None:
    assert placed.json("export", "./m1")["repository"] == BUCKET
    assert placed.keys == ["m1"]
    assert placed("export").status == 0
    assert [each["path"] for each in placed.json("ls", "m1")["entries"]] == ["m1"]
    assert sum(each["count"] for each in placed.json("verify", "m2")["done"].values()) == 1
    assert placed.json("release", "m1", "--name", "archive")["repository"] == "archive"
    assert placed.files == ["m2"]
    assert placed("release", "m2").status == 0
    assert placed("import", "m1", "--name", "archive").status == 0
    assert placed.files == ["m1"]


def test_a_name_that_is_also_a_path_is_refused(placed: Placed) -> None:
    refused = placed("export", "m1")
    assert (refused.status, placed.keys) == (2, [])
    assert "write ./m1 for the path, or --name m1" in " ".join(refused.err.split())
    assert placed("export").status == 0
    assert placed("release").status == 0
    refused = placed("import", "m1")
    assert (refused.status, placed.files) == (2, [])
    assert placed("import", "m1", "m2").status == 0
    assert placed.files == ["m1", "m2"]


def test_an_object_that_is_not_known_here_is_a_path_too(
    placed: Placed, gridwright: Command, tmp_path: Path
) -> None:
    assert placed("export").status == 0
    other = tmp_path / "other"
    other.mkdir()
    flags = ("--directory", other, *placed._flags[2:])
    assert gridwright("repo", "import", "m1", *flags).status == 2
    assert gridwright("repo", "import", "m1x", *flags).status == 0, "a name, as units give it"
    assert sorted(each.name for each in other.iterdir()) == ["m1", "m2"]


def test_units_go_on_whatever_users_call_their_files(placed: Placed) -> None:
    """Those of earlier releases give the name alone."""
    assert placed.json("export", "archive")["repository"] == "archive"
    assert placed.json("import", "archive")["repository"] == "archive"
    (placed.library / "archive").write_text("a user's")
    assert placed("export", "archive").status == 2
    assert placed.json("export", "archive", "--name", "archive")["repository"] == "archive"
    assert sorted(placed.keys) == ["archive", "m1", "m2"] or "" in placed.keys


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export", "site.yaml"), "write --grid site.yaml"),
        (("trash", "site.yaml"), "write --grid site.yaml"),
        (("trash", "archive", "--name", "results"), "archive or results?"),
        (("status", "archive", "--name", "results"), "archive or results?"),
    ],
)
def test_a_repository_has_one_name_which_is_no_grid_spec(
    gridwright: Command, words: tuple[str, ...], says: str
) -> None:
    refused = gridwright("repo", *words)
    assert (refused.status, says in refused.err) == (2, True), refused
