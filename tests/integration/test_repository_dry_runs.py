"""A dry run tells what the run that follows does: where nothing changes meanwhile, the same numbers."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.migration.migrate import MigrationOptions
from gridwright.repository.migration.session import MigrationPlaces, migrate
from gridwright.repository.sending import MOST_SENT_ANEW
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.verify import verify
from tests.support.command import Command, Ended
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, store_server
from tests.support.repositories import run

OF_ONE_RUN = ("dry_run", "requests", "requests_usd", "seconds", "at_least_s", "at_least_by")
"""What tells of a run itself, and how it was made."""
KEPT = re.compile(r"(?:was|were) replaced, and what was there, (.*?), lies in (\S+)/\w+")
PLANNED = r"would be replaced, and what is there, \1, would lie below \2, by the time of the run"
NAMES = re.compile(r"(?<=, by the time of the run): .*")
"""Contents arrive in any order, and so do names of one file, of which the last one lies in the trash."""


class CountedStore:
    """A store behind a proxy that counts what it is asked, by kinds of requests as a report has them."""

    def __init__(self, server: StoreServer, proxy: LyingStore) -> None:
        self.server = server
        self.through = StoreServer(proxy.endpoint_url, server.kind, server.environment)
        self.asked: Counter[str] = Counter()
        proxy.lie = self._count

    def _count(self, answer: Answer) -> None:
        kind = {"HEAD": "head", "DELETE": "delete", "GET": "get"}.get(answer.method, "write")
        if answer.method == "GET" and "list-type=2" in answer.path:
            kind = "list"
        self.asked["probe" if "/.gridwright/probe-" in unquote(answer.path) else kind] += 1

    def taken(self) -> dict[str, int]:
        """What was asked since this was called last."""
        asked, self.asked = self.asked, Counter()
        return dict(asked)


@pytest.fixture
def counted(server: StoreServer) -> Iterator[CountedStore]:
    with LyingStore(server.endpoint_url) as proxy:
        yield CountedStore(server, proxy)


def requests(report: RepositoryReport) -> dict[str, int]:
    """Those of a report: what makes objects in one, as uploads in parts and copies ask the same."""
    found = Counter(report.requests)
    writes = found.pop("put", 0) + found.pop("copy", 0)
    return {kind: count for kind, count in {**found, "write": writes}.items() if count}


class World:
    """A library and a bucket that users change at random."""

    def __init__(self, library: Path, counted: CountedStore, url: str, seed: int) -> None:
        self.library, self.server, self.url = library, counted.server, url
        self.counted, self.state = counted, Path(os.environ[VARIABLE])
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
        kinds += [(self.rename, one), (self.another_name, one), (Path.unlink, one)]
        is_below = around != self.library
        kinds += [(self.remove, around), (self.rename, around)] * is_below
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

    def rename(self, one: Path) -> None:
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

    def go_to_another_machine(self) -> None:
        """Where nothing is known but by the manifest, and the store was not tried."""
        self.state = self.library.parent / f"state-{self.fresh()}"
        self.state.mkdir(mode=0o700)
        self.run(verify)

    def options(self) -> dict[str, Any]:
        random = self.random
        return {
            "deletions": random.random() < 0.6,
            "delete_up_to": random.choice((None, None, 2, 1000)),
            "prefer": random.choice((None, None, "files", "objects")),
        }

    def export(self, options: ExportOptions) -> RepositoryReport:
        return self.run(lambda each: export(each, options), looks=options.dry_run)

    def bring(self, options: ImportOptions) -> RepositoryReport:
        return self.run(lambda each: import_objects(each, options), looks=options.dry_run)

    def run(
        self, what: Callable[[OpenRepository], RepositoryReport], *, looks: bool = False
    ) -> RepositoryReport:
        self.counted.taken()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, str(self.state))
            return run(self.library, self.counted.through, what, self.url, looks=looks)

    def check_requests(self, plan: RepositoryReport, done: RepositoryReport, what: object) -> None:
        """Of the run that has just ended: a trial of the store is told as about so many requests."""
        asked, told, said = self.counted.taken(), requests(plan), requests(done)
        trials = [each.pop("probe", 0) for each in (asked, told, said)]
        assert told == asked == said, what
        assert max(trials) - min(trials) <= 15, trials

    def here(self) -> dict[str, tuple[int, ...]]:
        names = ("st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
        found = (self.library, *self.library.rglob("*"))
        return {str(each): tuple(getattr(each.lstat(), name) for name in names) for each in found}


def is_told(note: str) -> bool:
    """Whether both have a note: what a store lacks shows a trial."""
    return not note.startswith("this store ")


def told(report: RepositoryReport) -> dict[str, Any]:
    """What a report tells of files and objects."""
    report.problems.sort()
    document = {name: each for name, each in report.document().items() if name not in OF_ONE_RUN}
    document["done"] = {name: each for name, each in document["done"].items() if each["count"]}
    notes = sorted(NAMES.sub("", KEPT.sub(PLANNED, note)) for note in report.all_notes if is_told(note))
    return {**document, "notes": notes}


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_server(tmp_path_factory.mktemp("weed") / "store", "seaweedfs") as made:
        yield made


@pytest.fixture
def counted_weed(weed: StoreServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedStore]:
    for name, value in weed.environment.items():
        monkeypatch.setenv(name, value)
    with LyingStore(weed.endpoint_url) as proxy:
        yield CountedStore(weed, proxy)


def test_a_rename_after_a_verify_is_one_where_the_store_was_not_tried_yet(
    library: Path, counted: CountedStore, url: str
) -> None:
    world = World(library, counted, url, 1)
    world.fill()
    (library / "moved").write_bytes(os.urandom(MOST_SENT_ANEW + 1))
    assert world.export(ExportOptions()).problems == []
    shutil.rmtree(library)
    library.mkdir()
    world.go_to_another_machine()
    assert world.bring(ImportOptions()).problems == []
    assert world.run(verify).problems == []
    (library / "moved").rename(library / "renamed")
    plan = world.export(ExportOptions(dry_run=True))
    done = world.export(ExportOptions())
    assert (plan.count("renamed in the bucket").count, plan.count("sent").count) == (1, 0)
    assert told(plan) == told(done)
    assert any("was not tried yet" in note for note in plan.all_notes)


def test_what_was_renamed_is_sent_or_copied_with_the_requests_that_were_told(
    library: Path, counted: CountedStore, url: str
) -> None:
    world = World(library, counted, url, 1)
    (library / "d").mkdir()
    for number in range(20):
        (library / "d" / f"small{number}").write_bytes(os.urandom(4096))
    (library / "d" / "large").write_bytes(os.urandom(MOST_SENT_ANEW + 1))
    assert world.export(ExportOptions()).problems == []
    (library / "d").rename(library / "e")
    for change in (None, (library / "e" / "large").chmod):
        if change is not None:
            change(0o640)
        plan = world.export(ExportOptions(dry_run=True))
        done = world.export(ExportOptions())
        assert told(plan) == told(done)
        world.check_requests(plan, done, change)
        if change is None:
            assert (done.count("renamed in the bucket").count, done.count("sent").count) == (1, 21)
            # Lease, both directories and the manifest, and three to copy.
            assert requests(done)["write"] == 20 + 4 + 3


def test_a_store_that_makes_directories_is_told_of_alike(
    library: Path, counted_weed: CountedStore, url: str
) -> None:
    world = World(library, counted_weed, url, 2)
    world.fill()
    assert world.export(ExportOptions()).problems == []
    for place in (library, world.directories()[1], None):
        if place is not None:
            world.add(place)
        plan = world.export(ExportOptions(dry_run=True))
        done = world.export(ExportOptions())
        assert told(plan) == told(done)
        world.check_requests(plan, done, "with directories")


def test_what_would_go_to_the_trash_is_told_with_its_place(
    library: Path, counted: CountedStore, url: str
) -> None:
    world = World(library, counted, url, 3)
    (library / "both").write_bytes(b"first")
    assert world.export(ExportOptions()).problems == []
    put(counted.server, url, both=b"of the bucket")
    (library / "both").write_bytes(b"of the library")
    plan = world.bring(ImportOptions(prefer="objects", dry_run=True))
    done = world.bring(ImportOptions(prefer="objects"))
    assert told(plan) == told(done)
    (note,) = plan.all_notes
    assert "below .gridwright/trash, by the time of the run: both" in note
    assert [each.read_bytes() for each in (library / ".gridwright/trash").rglob("both")] == [
        b"of the library"
    ]


def seeds(count: int) -> list[Any]:
    """So many in short runs, and sixty in thorough ones."""
    return [pytest.param(seed, marks=[pytest.mark.thorough] if seed >= count else []) for seed in range(60)]


def live(world: World) -> None:
    """Export and import what changes, and hold each run to its dry run."""
    world.fill()
    plan = world.export(ExportOptions(dry_run=True))
    done = world.export(ExportOptions())
    if world.server.kind != "seaweedfs":  # Which makes the repository's own directory with the lease.
        assert told(plan) == told(done)
        world.check_requests(plan, done, "first")
    for _ in range(4):
        if world.random.random() < 0.3:
            world.go_to_another_machine()
        for _ in range(world.random.randrange(6)):
            world.change_here()
            world.change_there()
        before, options = world.here(), world.options()
        if world.random.random() < 0.5:
            out = ExportOptions(**options)
            plan = world.export(replace(out, dry_run=True))
            assert world.here() == before
            done = world.export(out)
        else:
            back = ImportOptions(**options, names=world.random.random() < 0.2)
            plan = world.bring(replace(back, dry_run=True))
            assert world.here() == before
            done = world.bring(back)
        assert told(plan) == told(done), options
        world.check_requests(plan, done, options)


@pytest.mark.parametrize("seed", seeds(3))
def test_a_run_does_what_its_dry_run_said(library: Path, counted: CountedStore, url: str, seed: int) -> None:
    live(World(library, counted, url, seed))


@pytest.mark.parametrize("seed", seeds(1))
def test_a_run_does_so_with_seaweedfs(library: Path, counted_weed: CountedStore, url: str, seed: int) -> None:
    live(World(library, counted_weed, url, seed))


MIGRATED = ("dry_run", "seconds")


class Source(World):
    """The tree of another file system, which moves into a library that its users change at random."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.library, self.random, self.made = tmp_path / "source", Random(seed), 0  # noqa: S311
        self.target = tmp_path / "library"
        # Of no matter but that directories and files change places.
        self.server = StoreServer("", "seaweedfs")
        for each in (self.library, self.target):
            each.mkdir()

    def change_target(self) -> None:
        """One thing that somebody does in the library."""
        there, self.library = self.library, self.target
        try:
            if self.files():
                self.change_here()
        finally:
            self.library = there

    def move(self, options: MigrationOptions) -> dict[str, Any]:
        report = migrate(MigrationPlaces("archive", self.library, self.target), options)
        return {name: each for name, each in told(report).items() if name not in MIGRATED}


@pytest.mark.parametrize("seed", seeds(6))
def test_a_tree_moves_in_as_its_dry_run_said(tmp_path: Path, seed: int) -> None:
    source = Source(tmp_path, seed)
    source.fill()
    for _ in range(5):
        cut_over = source.random.random() < 0.6
        options = MigrationOptions(
            cut_over=cut_over, delete_up_to=source.random.choice((None, 1000)) if cut_over else None
        )
        before = source.here()
        plan = source.move(replace(options, dry_run=True))
        assert source.here() == before
        assert plan == source.move(options), options
        for _ in range(source.random.randrange(5)):
            source.change_here()
            source.change_target()


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
    made = {"count": 4, "bytes": len(b"content") + len("a"), "files": 3, "links": 1, "directories": 0}
    assert done.json["done"]["made"] == made
    brought = {"count": 1, "bytes": len(b"content"), "files": 1, "links": 0, "directories": 0}
    assert done.json["done"]["brought"] == brought


def everything(server: StoreServer, url: str) -> dict[str, Any]:
    """All objects below a prefix, and all files of the state, as they are."""
    prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
    listed = server.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
    objects = {each["Key"]: (each["ETag"], each["LastModified"]) for each in listed}
    files = [each for each in sorted(Path(os.environ[VARIABLE]).rglob("*")) if each.is_file()]
    return {**objects, **{str(each): (each.read_bytes(), each.stat().st_mtime_ns) for each in files}}


@pytest.mark.parametrize("edits_before", [False, True])
def test_a_planned_release_changes_nothing_and_asks_what_the_release_does(
    server: StoreServer, url: str, library: Path, gridwright: Command, edits_before: bool
) -> None:
    flags = ("--json", "--bucket", url, "--directory", library)
    for number in range(9):
        (library / f"f{number}").write_text("x" * 100)
    assert gridwright("repo", "export", *flags).status == 0
    if edits_before:
        (library / "f5").write_text("edited")
    before = everything(server, url)
    plan = gridwright("repo", "release", "--dry-run", *flags)
    assert everything(server, url) == before
    (library / "f5").write_text("edited")
    (library / "f3").unlink()
    sent = gridwright("repo", "export", "--deletions", *flags)
    assert sent.json["problems"] == []
    assert not [each for each in sent.json["notes"] if "released" in each]
    assert (count(sent, "sent"), count(sent, "deleted from the bucket")) == (1, 1)

    plan, done = (gridwright("repo", "release", *words, *flags) for words in (["--dry-run"], []))
    assert document(plan) == document(done)
    assert plan.json["requests"] == done.json["requests"]
    assert count(done, "released") == 8


def test_a_release_leaves_edits_of_other_files_as_they_are(
    server: StoreServer, url: str, library: Path, gridwright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that were looked at and stay, and for another machine that has the library."""
    flags = ("--json", "--bucket", url, "--directory", library)
    for number in range(9):
        (library / f"f{number}").write_text("x" * 100)
    assert gridwright("repo", "export", *flags).status == 0
    state = os.environ[VARIABLE]
    monkeypatch.setenv(VARIABLE, f"{state}-another")
    Path(f"{state}-another").mkdir(mode=0o700)
    assert gridwright("repo", "import", *flags).status == 0
    monkeypatch.setenv(VARIABLE, state)
    (library / "f0").write_text("edited before")
    with (library / "f1").open():
        assert count(gridwright("repo", "release", *flags, "f0", "f1", "f2", "f3"), "released") == 2
    for name, number in (("", 4), ("-another", 6)):
        monkeypatch.setenv(VARIABLE, state + name)
        for each in (1, number):
            (library / f"f{each}").write_text(f"edited {number}")
        (library / f"f{number + 1}").unlink()
        sent = gridwright("repo", "export", "--deletions", *flags)
        assert sent.json["problems"] == []
        assert count(sent, "deleted from the bucket") == 1
        assert count(sent, "sent") == (3 if number == 4 else 2)


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
