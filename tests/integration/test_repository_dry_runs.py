"""A dry run tells what the run that follows does: where nothing changes meanwhile, the same numbers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer
from tests.support.repositories import run

OF_ONE_RUN = ("dry_run", "requests", "requests_usd", "seconds", "at_least_s", "at_least_by")
"""What tells of a run itself, and how it was made."""
KEPT = "which others may have open, lies in"


class World:
    """A library and a bucket that users change at random."""

    def __init__(self, library: Path, server: StoreServer, url: str, seed: int) -> None:
        self.library, self.server, self.url = library, server, url
        self.random = Random(seed)  # noqa: S311
        self.prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
        self.made = 0

    def fresh(self) -> str:
        self.made += 1
        return f"{self.random.choice(('a', 'n', 'z'))}{self.made}"

    def content(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 3, 3, 3, 5000)))

    def all_here(self, kind: Callable[[Path], bool]) -> list[Path]:
        found = [each for each in sorted(self.library.rglob("*")) if ".gridwright" not in each.parts]
        return [each for each in found if kind(each)]

    def files(self) -> list[Path]:
        return self.all_here(lambda each: each.is_file() and not each.is_symlink())

    def directories(self) -> list[Path]:
        return [self.library, *self.all_here(lambda each: each.is_dir() and not each.is_symlink())]

    def fill(self) -> None:
        for _ in range(4):
            (self.random.choice(self.directories()) / self.fresh()).mkdir()
        for _ in range(12):
            (self.random.choice(self.directories()) / self.fresh()).write_bytes(self.content())
        for _ in range(2):
            os.link(self.random.choice(self.files()), self.random.choice(self.directories()) / self.fresh())
            self.link_in(self.random.choice(self.directories()))

    def change_here(self) -> None:
        """One thing that a user does in the library."""
        one, around = self.random.choice(self.files()), self.random.choice(self.directories())
        kinds: list[tuple[Callable[[Path], None], Path]] = [(self.add, around), (self.link_in, around)]
        kinds += [
            (each, one) for each in (self.rewrite, self.rewrite_in_secret, self.give_rights, self.touch)
        ]
        kinds += [(self.move, one), (self.another_name, one), (Path.unlink, one)]
        is_below = around != self.library
        kinds += [(self.remove, around), (self.move, around)] * is_below
        if self.server.kind != "versitygw":  # Which has no object below the key of another one.
            kinds += [(self.make_directory, one), *[(self.make_file, around)] * is_below]
        change, what = self.random.choice(kinds)
        change(what)

    def another_name(self, one: Path) -> None:
        os.link(one, self.library / self.fresh())

    def remove(self, around: Path) -> None:
        shutil.rmtree(around)

    def rewrite(self, one: Path) -> None:
        one.write_bytes(self.content())

    def rewrite_in_secret(self, one: Path) -> None:
        status = one.stat()
        one.write_bytes(self.random.randbytes(status.st_size))
        os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))

    def give_rights(self, one: Path) -> None:
        one.chmod(self.random.choice((0o600, 0o640, 0o700)))

    def touch(self, one: Path) -> None:
        os.utime(one, ns=(0, self.random.randrange(10**18)))

    def move(self, one: Path) -> None:
        one.rename(self.library / self.fresh())

    def make_directory(self, one: Path) -> None:
        one.unlink()
        one.mkdir()
        self.add(one)

    def make_file(self, around: Path) -> None:
        shutil.rmtree(around)
        around.write_bytes(self.content())

    def add(self, around: Path) -> None:
        (around / self.fresh()).write_bytes(self.content())

    def link_in(self, around: Path) -> None:
        (around / self.fresh()).symlink_to(self.fresh())

    def change_there(self) -> None:
        """One thing that somebody does in the bucket."""
        client, random = self.server.client(), self.random
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self.prefix)
        keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        keys = [each for each in keys if "/.gridwright/" not in each and each != self.prefix]
        of_files = [each for each in keys if not each.endswith("/")]
        what, one = random.randrange(9), random.choice(of_files or [self.prefix + self.fresh()])
        here = self.library / one.removeprefix(self.prefix)
        around = one.rpartition("/")[0] + "/"
        if what == 0:
            client.put_object(Bucket=BUCKET, Key=one, Body=self.content())
        elif what == 1 and here.is_file() and not here.is_symlink():
            client.put_object(Bucket=BUCKET, Key=one, Body=here.read_bytes())
        elif what in (2, 3) and keys:
            client.delete_object(Bucket=BUCKET, Key=one if what == 2 else random.choice(keys))
        elif what == 4:
            body, told = b"elsewhere", {"file-permissions": "0120777"}
            client.put_object(Bucket=BUCKET, Key=around + self.fresh(), Body=body, Metadata=told)
        elif what == 5 and of_files:
            told = client.head_object(Bucket=BUCKET, Key=one)["Metadata"]
            told = {**told, "file-mtime": f"{random.randrange(10**18)}ns"}
            client.copy_object(
                Bucket=BUCKET, Key=one, CopySource={"Bucket": BUCKET, "Key": one}, Metadata=told,
                MetadataDirective="REPLACE",
            )  # fmt: skip
        elif what == 6:
            for each in [each for each in keys if each.startswith(around) and around != self.prefix]:
                client.delete_object(Bucket=BUCKET, Key=each)
        else:
            deep = "" if what == 7 else self.fresh() + "/"
            client.put_object(Bucket=BUCKET, Key=around + deep + self.fresh(), Body=self.content())

    def options(self) -> dict[str, Any]:
        random = self.random
        return {
            "deletions": random.random() < 0.6,
            "delete_up_to": random.choice((None, None, 2, 1000)),
            "prefer": random.choice((None, None, "files", "objects")),
        }

    def export(self, options: ExportOptions) -> RepositoryReport:
        looks = options.dry_run
        return run(self.library, self.server, lambda each: export(each, options), self.url, looks=looks)

    def bring(self, options: ImportOptions) -> RepositoryReport:
        looks = options.dry_run
        return run(
            self.library, self.server, lambda each: import_objects(each, options), self.url, looks=looks
        )

    def here(self) -> dict[str, tuple[int, ...]]:
        names = ("st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
        found = (self.library, *self.library.rglob("*"))
        return {str(each): tuple(getattr(each.lstat(), name) for name in names) for each in found}


def is_told(note: str) -> bool:
    """Whether both have a note: the trash is named by its moment, and what a store lacks shows a trial."""
    return KEPT not in note and not note.startswith("this store ")


def told(report: RepositoryReport) -> dict[str, Any]:
    """What a report tells of files and objects."""
    report.problems.sort()
    document = {name: each for name, each in report.document().items() if name not in OF_ONE_RUN}
    document["done"] = {name: each for name, each in document["done"].items() if each["count"]}
    return {**document, "notes": sorted(filter(is_told, report.all_notes))}


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 60))]
)
def test_a_run_does_what_its_dry_run_said(library: Path, server: StoreServer, url: str, seed: int) -> None:
    world = World(library, server, url, seed)
    world.fill()
    first = world.export(ExportOptions(dry_run=True))
    assert told(first) == told(world.export(ExportOptions()))
    for _ in range(4):
        for _ in range(world.random.randrange(6)):
            world.change_here()
            world.change_there()
        before = world.here()
        if world.random.random() < 0.5:
            out = ExportOptions(**world.options())
            plan = world.export(replace(out, dry_run=True))
            assert world.here() == before
            assert told(plan) == told(world.export(out)), out
        else:
            back = ImportOptions(**world.options(), names=world.random.random() < 0.2)
            plan = world.bring(replace(back, dry_run=True))
            assert world.here() == before
            assert told(plan) == told(world.bring(back)), back


def document(ended: Ended) -> dict[str, Any]:
    """What a command says that is of no single run."""
    return {name: each for name, each in ended.json.items() if name not in OF_ONE_RUN}


def count(ended: Ended, action: str) -> int:
    found = ended.json["done"].get(action, {"count": 0})["count"]
    assert isinstance(found, int)
    return found


def put(server: StoreServer, url: str, **bodies: bytes) -> None:
    for name, body in bodies.items():
        server.client().put_object(
            Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/{name}", Body=body
        )


def delete(server: StoreServer, url: str, *names: str) -> None:
    for name in names:
        server.client().delete_object(Bucket=BUCKET, Key=f"{url.removeprefix(f's3://{BUCKET}/')}/{name}")


def test_a_planned_export_sends_no_conflict(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    for name in ("both", "same", "mine"):
        (library / name).write_bytes(b"first")
    assert gridwright("repo", "export", *flags).status == 0
    put(server, url, both=b"theirs", same=b"agreed", new=b"theirs")
    for name, body in (("both", b"ours"), ("same", b"agreed"), ("mine", b"ours"), ("new", b"ours")):
        (library / name).write_bytes(body)
    plan, done = (gridwright("repo", "export", *words, *flags) for words in (["--dry-run"], []))
    assert (plan.status, done.status) == (1, 1)
    assert document(plan) == document(done)
    assert sorted(each["name"] for each in plan.json["problems"]) == ["both", "new"]


def test_deletions_count_alike_in_status_refusal_plan_and_run(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    (library / "deep" / "er").mkdir(parents=True)
    for number in range(12):
        (library / "deep" / "er" / f"f{number}").write_text("x")
    (library / "deep" / "link").symlink_to("er")
    (library / "kept").write_text("kept")
    assert gridwright("repo", "export", *flags).status == 0
    shutil.move(library / "deep", aside := library.parent / "aside")
    status = gridwright("repo", "status", *flags).json["repositories"][0]
    refused = gridwright("repo", "export", "--deletions", *flags)
    (why,) = [each["why"] for each in refused.json["problems"]]
    wanted = ("repo", "export", "--deletions", "--delete-up-to", "13")
    plan, done = (gridwright(*wanted, *words, *flags) for words in (["--dry-run"], []))
    assert (status["gone_files"], why.startswith("13 of 14 would be deleted")) == (13, True)
    assert (plan.status, done.status) == (0, 0)
    assert document(plan) == document(done)
    assert count(done, "deleted from the bucket") == 13
    assert count(done, "deleted from the bucket as directories") == 2

    shutil.move(aside, library / "deep")
    assert gridwright("repo", "export", *flags).status == 0
    (library / "deep" / "new").write_text("not exported")
    delete(server, url, *(f"deep/er/f{number}" for number in range(12)), "deep/link", "deep/er/", "deep/")
    status = gridwright("repo", "status", *flags).json["repositories"][0]
    refused = gridwright("repo", "import", "--deletions", *flags)
    (why,) = [each["why"] for each in refused.json["problems"]]
    wanted = ("repo", "import", "--deletions", "--delete-up-to", "13")
    plan, done = (gridwright(*wanted, *words, *flags) for words in (["--dry-run"], []))
    assert (status["gone_objects"], why.startswith("13 of 14 would be deleted")) == (13, True)
    assert (plan.status, done.status) == (0, 0)
    assert document(plan) == document(done)
    assert (count(done, "removed"), count(done, "removed as empty directories")) == (13, 1)
    assert (library / "deep" / "new").exists()


def test_a_planned_import_tells_names_of_one_file_and_links_as_it_makes_them(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    (library / "a").write_bytes(b"content")
    os.link(library / "a", library / "b")
    (library / "link").symlink_to("a")
    (library / "empty").touch()
    assert gridwright("repo", "export", *flags).status == 0
    status = gridwright("repo", "status", *flags).json["repositories"][0]
    assert (status["files"], status["file_bytes"]) == (4, len(b"content") + len("a"))
    for each in library.iterdir():
        os.utime(each, ns=(0, each.lstat().st_mtime_ns), follow_symlinks=False)
    status = gridwright("repo", "status", *flags).json["repositories"][0]
    assert (status["unknown_files"], status["unknown_bytes"]) == (4, len(b"content") + len("a"))
    for each in list(library.iterdir()):
        each.unlink()
    plan, done = (gridwright("repo", "import", *words, *flags) for words in (["--dry-run"], []))
    assert document(plan) == document(done)
    assert done.json["done"]["made"] == {"count": 4, "bytes": len(b"content") + len("a")}
    assert done.json["done"]["brought"] == {"count": 1, "bytes": len(b"content")}


def test_a_file_that_is_here_is_not_told_to_be_in_the_bucket_alone(
    server: StoreServer, url: str, library: Path, gridwright: Command
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    (library / "table").write_bytes(b"content")
    (library / "other").write_bytes(b"content")
    assert gridwright("repo", "export", *flags).status == 0
    assert gridwright("repo", "release", *flags).status == 0
    put(server, url, table=b"theirs", other=b"theirs")
    (library / "table").write_bytes(b"ours")
    notes = gridwright("repo", "import", "--names", *flags).json["notes"]
    assert [each for each in notes if "in the bucket alone" in each] == [
        "1 file is in the bucket alone, with another object than was known: other"
    ]


def test_who_finds_an_object_deleted_has_not_deleted_it(
    server: StoreServer, url: str, library: Path, gridwright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines share a library; what the one has deleted the other one forgets."""
    flags = ("--json", "--bucket", url, "--directory", library)
    for number in range(30):
        (library / f"f{number}").write_text("x")
    assert gridwright("repo", "export", *flags).status == 0
    state = os.environ[VARIABLE]
    monkeypatch.setenv(VARIABLE, f"{state}-second")
    Path(f"{state}-second").mkdir(mode=0o700)
    assert gridwright("repo", "import", *flags).status == 0
    monkeypatch.setenv(VARIABLE, state)
    (library / "f3").unlink()
    first = gridwright("repo", "export", "--deletions", *flags)
    assert count(first, "deleted from the bucket") == 1
    monkeypatch.setenv(VARIABLE, f"{state}-second")
    second = gridwright("repo", "export", "--deletions", "--name", "x", "f3", *flags)
    assert (second.status, count(second, "deleted from the bucket")) == (0, 0)
    second = gridwright("repo", "export", "--deletions", *flags)
    assert (second.status, count(second, "deleted from the bucket")) == (0, 0)
    second = gridwright("repo", "import", "--deletions", *flags)
    assert (second.status, second.json["done"]) == (0, {})
