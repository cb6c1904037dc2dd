"""A release on a real Lustre: another client writes meanwhile, and no byte of it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.lustre_vm import Ended, LustreMachine
from tests.support.object_store import BUCKET

SIZE = 2 << 20
WRITER = """
import mmap, os, sys, time
how, file, until = sys.argv[1:]
descriptor = os.open(file, os.O_RDWR)
if how == "mapped":
    there = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    there[0:5] = b"first"
else:
    os.pwrite(descriptor, b"first", 0)
open(until + ".begun", "w").close()
while not os.path.exists(until):
    time.sleep(0.05)
if how == "mapped":
    there[5:9] = b"last"
    there.flush()
else:
    os.pwrite(descriptor, b"last", 5)
    os.close(descriptor)
open(until + ".done", "w").close()
"""


@dataclass(frozen=True)
class Library:
    """A repository on the guest's Lustre, with files that were exported."""

    machine: LustreMachine
    name: str

    @property
    def directory(self) -> str:
        return f"/mnt/lustre/{self.name}"

    def repo(self, verb: str, *more: str, archive: bool = True, ok: bool = True) -> Ended:
        flags = ["--directory", self.directory, "--bucket", f"s3://{BUCKET}/{self.name}", *more]
        return self.machine.gridwright(
            "repo", verb, self.name, "--json", *flags, *(["--hsm-archive", "1"] if archive else []), ok=ok
        )

    def state(self, file: str) -> str:
        return self.machine.run(f"lfs hsm_state {self.directory}/{file}").out

    def inode(self, file: str) -> str:
        return self.machine.run(f"stat -c %i {self.directory}/{file}").out

    def digest(self, file: str, mount: str = "/mnt/lustre") -> str:
        return self.machine.run(f"sha256sum {mount}/{self.name}/{file}").out.split()[0]


@pytest.fixture
def library(lustre: LustreMachine, request: pytest.FixtureRequest) -> Library:
    found = Library(lustre, request.node.name.translate(str.maketrans("[]_", "---")).strip("-"))
    lustre.run(f"mkdir {found.directory} && cd {found.directory} && for i in a b c; do "
               f"head -c {SIZE} /dev/urandom >$i; done; sleep 2")  # fmt: skip
    assert found.repo("export").json["done"]["sent"]["count"] == 4, "and the directory"
    return found


@pytest.fixture
def agent(library: Library) -> Iterator[None]:
    machine = library.machine
    machine.background(
        machine.command(
            "repo", "serve", library.name, "--directory", library.directory, "--bucket",
            f"s3://{BUCKET}/{library.name}", "--hsm-archive", "1",
        ),
        "agent",
    )  # fmt: skip
    machine.run("for i in $(seq 200); do grep -q serving /tmp/agent.log && exit; sleep 0.2; done; exit 1")
    yield
    machine.end("agent")


def test_what_nobody_writes_is_released_and_keeps_its_inode(library: Library, agent: None) -> None:
    before = library.digest("a"), library.inode("a")
    assert library.repo("release").json["done"]["released"] == {"count": 3, "bytes": 3 * SIZE}
    assert "released exists archived" in library.state("a")
    assert library.repo("status").json["repositories"][0]["names_only"] == 3
    assert (library.digest("a", "/mnt/lustre2"), library.inode("a")) == before


@pytest.mark.parametrize("how", ["written", "mapped"])
def test_what_another_client_writes_meanwhile_is_kept(library: Library, how: str) -> None:
    """Its bytes are in its own cache, and its file is not closed, while the release runs."""
    machine, until = library.machine, f"/root/{library.name}"
    inode = library.inode("b")
    machine.run("cat >/root/writer.py", given=WRITER.encode())
    machine.background(f"python3 /root/writer.py {how} /mnt/lustre2/{library.name}/b {until}", "writer")
    machine.run(f"for i in $(seq 200); do [ -e {until}.begun ] && exit; sleep 0.1; done; exit 1")
    done = library.repo("release", ok=False).json["done"]
    assert done["released"]["count"] == 2
    assert done["left, as they were changed"]["count"] == 1
    machine.run(
        f"touch {until}; for i in $(seq 200); do [ -e {until}.done ] && exit; sleep 0.1; done; exit 1"
    )
    assert "released" not in library.state("b")
    assert library.inode("b") == inode
    assert machine.run(f"head -c 9 {library.directory}/b").out == "firstlast"


def test_who_opened_it_before_and_writes_after_waits_for_its_content(library: Library) -> None:
    machine, until = library.machine, f"/root/{library.name}"
    before = machine.run(f"tail -c +10 {library.directory}/c | sha256sum").out
    machine.run("cat >/root/late.py", given=LATE.encode())
    machine.background(f"python3 /root/late.py /mnt/lustre2/{library.name}/c {until}", "writer")
    machine.run(f"for i in $(seq 200); do [ -e {until}.begun ] && exit; sleep 0.1; done; exit 1")
    library.repo("release")
    machine.background(
        machine.command("repo", "serve", library.name, "--directory", library.directory, "--bucket",
                        f"s3://{BUCKET}/{library.name}", "--hsm-archive", "1"), "agent",
    )  # fmt: skip
    try:
        machine.run(
            f"touch {until}; for i in $(seq 300); do [ -e {until}.done ] && exit; sleep 0.2; done; exit 1"
        )
        assert machine.run(f"head -c 9 {library.directory}/c").out == "firstlast"
        assert machine.run(f"tail -c +10 {library.directory}/c | sha256sum").out == before
    finally:
        machine.end("agent")


LATE = """
import os, sys, time
file, until = sys.argv[1:]
descriptor = os.open(file, os.O_RDWR)
open(until + ".begun", "w").close()
while not os.path.exists(until):
    time.sleep(0.05)
os.pwrite(descriptor, b"firstlast", 0)
os.close(descriptor)
open(until + ".done", "w").close()
"""


def test_without_an_archive_no_lock_holds_for_all_clients(library: Library) -> None:
    refused = library.repo("release", archive=False, ok=False)
    assert refused.status != 0
    assert "no lock tells whether another client writes" in refused.err
    assert "--hsm-archive" in refused.err


COPIES = {
    "cp": "cp a /tmp/copy",
    "cp --reflink": "cp --reflink=auto a /tmp/copy",
    "cp --sparse": "cp --sparse=always a /tmp/copy",
    "install": "install a /tmp/copy",
    "mv": "mv a /tmp/copy",
    "tar": "tar -cf - a | tar -xf - -C /tmp && mv /tmp/a /tmp/copy",
    "tar -S": "tar -Scf - a | tar -xf - -C /tmp && mv /tmp/a /tmp/copy",
    "rsync": "rsync -a a /tmp/copy",
    "rsync -S": "rsync -aS a /tmp/copy",
    "SEEK_HOLE": "python3 -c \"import os; d=os.open('a',0); assert os.lseek(d,0,4)==os.fstat(d).st_size\" "
    "&& cp a /tmp/copy",
}


def test_no_tool_copies_a_released_file_as_zeros(library: Library, agent: None) -> None:
    want, machine = library.digest("a"), library.machine
    for name, how in COPIES.items():
        library.repo("release", "a")
        assert "released" in library.state("a"), name
        machine.run(f"cd {library.directory} && rm -f /tmp/copy && {how}")
        assert machine.run("sha256sum /tmp/copy").out.split()[0] == want, name
        machine.run(f"[ -e {library.directory}/a ] || cp -p /tmp/copy {library.directory}/a")
        library.repo("export")
