"""A release on a real Lustre: other clients write meanwhile, and no byte of theirs goes.

One export, one release and one agent for all tests: the guest is emulated, and they take two minutes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.command import Ended
from tests.support.lustre_vm import LustreMachine, until_there
from tests.support.object_store import BUCKET, StoreServer

pytestmark = pytest.mark.thorough
SIZE = 2 << 20
DIRECTORY, OTHER = "/mnt/lustre/release", "/mnt/lustre2/release"
WRITER = """
import mmap, os, sys, time
how, name = sys.argv[1:]
descriptor = os.open(name, os.O_RDWR)
if how == "mapped":
    there = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    there[0:5] = b"first"
elif how == "written":
    os.pwrite(descriptor, b"first", 0)
open(f"/root/{how}.begun", "w").close()
while not os.path.exists("/root/released"):
    time.sleep(0.05)
if how == "mapped":
    there[5:9] = b"last"
    there.flush()
else:
    os.pwrite(descriptor, b"firstlast", 0)
    os.close(descriptor)
open(f"/root/{how}.done", "w").close()
"""
WRITERS = ("written", "mapped", "late")
"""Who has written and not flushed when it runs, and who writes after it; each to a file of that name."""
TOOLS = {
    "cp": "cp FILE /tmp/copy",
    "reflink": "cp --reflink=auto FILE /tmp/copy",
    "sparse": "cp --sparse=always FILE /tmp/copy",
    "install": "install FILE /tmp/copy",
    "mv": "mv FILE /tmp/copy",
    "tar": "tar -cf - FILE | tar -xf - -C /tmp && mv /tmp/FILE /tmp/copy",
    "tar-S": "tar -Scf - FILE | tar -xf - -C /tmp && mv /tmp/FILE /tmp/copy",
    "rsync": "rsync -a FILE /tmp/copy",
    "rsync-S": "rsync -aS FILE /tmp/copy",
    "seek": "python3 -c \"import os; d = os.open('FILE', 0); "
    'assert os.lseek(d, 0, 4) == os.fstat(d).st_size" && cp FILE /tmp/copy',
}
"""What copies a file, each one of its name."""
LAYOUTS = {
    "stripes": "lfs setstripe -c 2 -S 2M FILE",
    "components": "lfs setstripe -E 1M -c 1 -E -1 -c 2 FILE",
    "mirrors": "lfs mirror create -N2 FILE",
    "on-mdt": "lfs setstripe -E 64K -L mdt -E -1 FILE",
}
"""How a file of that name is made."""
EDITED = ("edited", "conflicting")
"""Files that are read back and edited, the mtime set back; somebody replaces the object of the second."""


@dataclass
class Library:
    """A repository on the guest's Lustre."""

    machine: LustreMachine
    store: StoreServer
    before: dict[str, str] = field(default_factory=dict)
    """SHA-256 and inode of each file when it was exported."""
    report: dict[str, Any] = field(default_factory=dict)
    """What the release said."""
    refused: Ended = field(default_factory=lambda: Ended(0, "", ""))
    """How one without an archive ended."""

    def words(self, verb: str, *more: str) -> list[str]:
        flags = ["--directory", DIRECTORY, "--bucket", f"s3://{BUCKET}/release"]
        return ["repo", verb, *flags, *more]

    def seen(self, file: str, mount: str = DIRECTORY) -> str:
        return self.machine.run(f"cd {mount} && sha256sum {file} && stat -c %i {file}").out

    def state(self, file: str) -> str:
        return self.machine.run(f"lfs hsm_state {DIRECTORY}/{file}").out


@pytest.fixture(scope="module")
def library(lustre: LustreMachine, lustre_store: StoreServer) -> Iterator[Library]:
    """Files that were exported and released while others had some of them open, and an agent."""
    found, archive = Library(lustre, lustre_store), ("--hsm-archive", "1")
    files = ("idle", *WRITERS, *TOOLS, *LAYOUTS, *EDITED)
    makes = " && ".join(how.replace("FILE", name) for name, how in LAYOUTS.items())
    lustre.run(
        f"mkdir {DIRECTORY} && cd {DIRECTORY} && {makes} && "
        f"for i in {' '.join(files)}; do head -c {SIZE} /dev/urandom >$i; done; sleep 2"
    )
    sent = lustre.gridwright(*found.words("export", "--json", *archive)).json["done"]["sent"]
    assert sent["count"] == len(files) + 1, "and the directory"
    seen = lustre.run(f"cd {DIRECTORY}; for i in {' '.join(files)}; do sha256sum $i; stat -c %i $i; done").out
    lines = seen.splitlines(keepends=True)
    found.before = {each: "".join(lines[2 * at : 2 * at + 2]) for at, each in enumerate(files)}
    found.refused = lustre.gridwright(*found.words("release"), ok=False)
    lustre.run("cat >/root/writer.py", given=WRITER.encode())
    for each in WRITERS:
        lustre.background(f"python3 /root/writer.py {each} {OTHER}/{each}", each)
    lustre.run(until_there(*(f"/root/{each}.begun" for each in WRITERS)))
    found.report = lustre.gridwright(*found.words("release", "--json", *archive)).json
    lustre.run(f"cd {DIRECTORY} && lfs hsm_state * >/root/states; touch /root/released")
    lustre.start("agent", *found.words("serve", *archive))
    try:
        lustre.run("for i in $(seq 600); do grep -q serving /tmp/agent.log && exit; sleep 0.2; done; exit 1")
        yield found
    finally:
        lustre.end("agent")


def test_what_nobody_writes_is_released_and_keeps_its_inode(library: Library) -> None:
    # One is late; of those with a layout the one on the MDT stays.
    released = 2 + len(TOOLS) + len(LAYOUTS) - 1 + len(EDITED)
    assert library.report["done"]["released"]["count"] == released, library.report
    states = library.machine.run("cat /root/states").out
    assert "idle: (0x0000000d) released exists archived, archive_id:1" in states
    assert library.seen("idle", OTHER) == library.before["idle"]


@pytest.mark.parametrize("how", ["written", "mapped"])
def test_what_another_client_has_not_flushed_is_not_released(library: Library, how: str) -> None:
    assert library.report["done"]["left, as they were changed"]["count"] == 2
    library.machine.run(until_there(f"/root/{how}.done"))
    assert "released" not in library.state(how)
    assert library.machine.run(f"head -c 9 {DIRECTORY}/{how}").out == "firstlast"
    assert library.seen(how).split()[-1] == library.before[how].split()[-1]


def test_who_opened_it_before_and_writes_after_writes_to_the_same_file(library: Library) -> None:
    library.machine.run(until_there("/root/late.done"))
    assert library.machine.run(f"head -c 9 {DIRECTORY}/late").out == "firstlast"
    assert library.seen("late").split()[-1] == library.before["late"].split()[-1]


def test_without_an_archive_no_lock_holds_for_all_clients(library: Library) -> None:
    assert library.refused.status != 0
    assert "no lock tells whether another client writes" in library.refused.err
    assert "--hsm-archive" in library.refused.err


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_copies_a_released_file_as_zeros(library: Library, tool: str) -> None:
    assert "released" in library.state(tool)
    how = TOOLS[tool].replace("FILE", tool)
    library.machine.run(f"cd {DIRECTORY} && rm -f /tmp/copy && {how}")
    assert library.machine.run("sha256sum /tmp/copy").out.split()[0] == library.before[tool].split()[0]


@pytest.mark.parametrize("name", [each for each in LAYOUTS if each != "on-mdt"])
def test_what_is_restored_has_the_layout_that_it_had(library: Library, name: str) -> None:
    assert "released" in library.state(name)
    fields = "stripe_count|stripe_size|extent|mirror_count|entry_count"
    shape = f"lfs getstripe {DIRECTORY}/{name} | grep -E '{fields}'"
    before = library.machine.run(shape).out
    assert library.seen(name) == library.before[name]
    assert "released" not in library.state(name)
    assert library.machine.run(shape).out == before


def test_its_owner_cannot_free_what_was_read_back_without_proof(library: Library) -> None:
    """By Lustre's own command, after somebody else may have written the object."""
    library.machine.run(f"chown user {DIRECTORY}/idle && cat {DIRECTORY}/idle >/dev/null")
    freed = library.machine.run(f"su user -c 'lfs hsm_release {DIRECTORY}/idle'", ok=False)
    assert freed.status != 0
    assert library.seen("idle") == library.before["idle"]


def test_files_that_lustre_does_not_release_are_told_as_such(library: Library) -> None:
    (why,) = (each for each in library.report["done"] if "on an MDT" in each)
    assert library.report["done"][why]["count"] == 1
    assert library.seen("on-mdt") == library.before["on-mdt"]


def test_a_file_that_was_read_back_is_held_against_its_object_again(library: Library) -> None:
    """By hand, as an editor does that keeps times; the agent writes nothing to what is known."""
    for name in EDITED:
        path = f"{DIRECTORY}/{name}"
        library.machine.run(
            f"cat {path} >/dev/null && touch -r {path} /tmp/when && "
            f"printf edited | dd of={path} conv=notrunc status=none && touch -m -r /tmp/when {path}"
        )
    client = library.store.client()
    client.put_object(Bucket=BUCKET, Key="release/conflicting", Body=b"by somebody else")
    report = library.machine.gridwright(
        *library.words("verify", "--json", "--hsm-archive", "1"), ok=False
    ).json
    assert "edited" in str(report["problems"])
    brought = library.machine.gridwright(*library.words("import", "--json", "--hsm-archive", "1"), ok=False)
    assert "conflicting" in str(brought.json["problems"])
    for name in EDITED:
        assert library.machine.run(f"head -c 6 {DIRECTORY}/{name}").out == "edited"


def test_the_only_copy_of_a_released_file_stays_whatever_becomes_of_its_name(library: Library) -> None:
    """Moved out of the library, rotated as logs are, exchanged: nothing takes its object."""
    machine, place = library.machine, f"{DIRECTORY}/only"
    names = ("out", "gone", "log", "log.1", "a", "b")
    machine.run(
        f"mkdir {place} && cd {place} && "
        f"for i in {' '.join(names)}; do head -c 100000 /dev/urandom >$i; done; sleep 2"
    )
    shown = machine.run(f"cd {place}; sha256sum {' '.join(names)} | cut -c1-64").out
    sums = dict(zip(names, shown.split(), strict=True))
    archive = ("--hsm-archive", "1")
    machine.gridwright(*library.words("export", *archive), ok=False)
    machine.gridwright(*library.words("release", *archive, "--name", "x", "only"), ok=False)
    assert machine.run(f"cd {place}; lfs hsm_state * | grep -c released").out == f"{len(names)}\n"
    machine.run(
        f"cd {place} && mv out ../../moved-out && rm gone && mv log.1 log.2 && mv log log.1 && "
        "echo new >log && sync log && mv a x && mv b a && mv x b"
    )
    export = library.words("export", "--deletions", "--delete-up-to", "10", "--json", *archive)
    reports = [machine.gridwright(*export, ok=False).json for _ in range(3)]
    told = {each["name"]: each["why"] for each in reports[0]["problems"]}
    assert "the only copy of it, is gone" not in str(reports), "of what was renamed in the bucket"
    assert "only copy of a released file" in told["only/out"]
    files = f"cd {place}; sha256sum ../../moved-out log.2 log.1 b a | cut -c1-64"
    assert machine.run(files).out.split() == [sums[each] for each in ("out", "log.1", "log", "a", "b")]
    objects = library.store.client().list_objects_v2(Bucket=BUCKET, Prefix="release/only/")["Contents"]
    keys = {each["Key"].rpartition("/")[2] for each in objects}
    assert ("gone" in keys, "out" in keys) == (False, True)
    machine.run(f"cd {place} && echo more >>b && sleep 2")
    sent = machine.gridwright(*export, ok=False).out
    released = machine.gridwright(*library.words("release", *archive, "--name", "x", "only/b"), ok=False)
    was_dirty = machine.run(f"lfs hsm_state {place}/b").out
    assert "released" in was_dirty, (sent, released)


def test_new_times_of_a_released_file_bring_nothing_and_send_nothing(library: Library) -> None:
    machine, archive, file = library.machine, ("--hsm-archive", "1"), f"{DIRECTORY}/touched"
    machine.run(f"head -c {SIZE} /dev/urandom >{file}; sleep 2")
    before = library.seen("touched")
    machine.gridwright(*library.words("export", *archive), ok=False)
    machine.gridwright(*library.words("release", *archive, "--name", "x", "touched"), ok=False)
    machine.run(f"touch -d @1000000000 {file}")
    report = machine.gridwright(
        *library.words("export", "--json", *archive, "--name", "x", "touched"), ok=False
    ).json
    assert report["done"]["given new attributes"]["count"] == 1, report
    assert "sent" not in report["done"]
    assert "released" in library.state("touched")
    head = library.store.client().head_object(Bucket=BUCKET, Key="release/touched")
    assert head["Metadata"]["file-mtime"].startswith("1000000000")
    assert library.seen("touched") == before
    assert machine.run(f"stat -c %Y {file}").out == "1000000000\n"


def test_a_release_that_was_killed_before_its_note_loses_no_reader(library: Library) -> None:
    """Of a file that was exported before anybody spoke of an archive, too."""
    machine, archive, file = library.machine, ("--hsm-archive", "1"), f"{DIRECTORY}/noted"
    machine.run(f"head -c {SIZE} /dev/urandom >{file}; sleep 2")
    before = library.seen("noted")
    machine.gridwright(*library.words("export"), ok=False)
    # The process ends between Lustre's release and what Gridwright writes down of it.
    script = (
        "import os, sys\nfrom gridwright.repository import release\n"
        "release._HsmRelease._note = lambda *_: os._exit(0)\n"
        "import gridwright.cli.start\ngridwright.cli.start.run()\n"
    )
    machine.python(script, *library.words("release", *archive, "--name", "x", "noted"))
    assert "released" in library.state("noted")
    report = machine.gridwright(
        *library.words("export", "--json", *archive, "--name", "x", "noted"), ok=False
    ).json
    assert "sent" not in report["done"], report
    assert "released" in library.state("noted")
    assert library.seen("noted") == before


def test_an_export_that_was_not_told_of_the_archive_brings_nothing_either(library: Library) -> None:
    machine, archive, own = library.machine, ("--hsm-archive", "1"), ("--name", "x", "untold")
    place, names = f"{DIRECTORY}/untold", ("untold/p", "untold/q", "untold/r")
    machine.run(
        f"mkdir {place}; cd {place}; for i in p q r; do head -c {SIZE} /dev/urandom >$i; done; sleep 2"
    )
    before = {each: library.seen(each) for each in names}
    machine.gridwright(*library.words("export", *archive, *own), ok=False)
    machine.gridwright(*library.words("release", *archive, *own), ok=False)
    machine.run(f"cd {place}; touch -d @1000000001 p; ln q q2; touch -d @1000000002 q2")
    sent = [
        machine.gridwright(*library.words("export", "--json", *flags, *own), ok=False)
        .json["done"]
        .get("sent")
        for flags in (("--dry-run",), (), (*archive, "--dry-run"), archive)
    ]
    assert all(each is None or each["bytes"] == 0 for each in sent), sent
    for each in (*names, "untold/q2"):
        assert "released" in library.state(each)
    assert {each: library.seen(each) for each in names} == before
    objects = library.store.client().list_objects_v2(Bucket=BUCKET, Prefix="release/untold/q")["Contents"]
    assert [each["Size"] for each in objects] == [SIZE, SIZE]


def test_a_dry_run_brings_nothing_of_released_files_that_changed_their_names(library: Library) -> None:
    machine, archive = library.machine, ("--hsm-archive", "1")
    machine.run(f"cd {DIRECTORY}; for i in s t; do head -c {SIZE} /dev/urandom >$i; done; sleep 2")
    before = {each: library.seen(each).split()[0] for each in "st"}
    machine.gridwright(*library.words("export", *archive), ok=False)
    machine.gridwright(*library.words("release", *archive, "--name", "x", "s", "t"), ok=False)
    machine.run(f"cd {DIRECTORY}; mv s x; mv t s; mv x t")
    for _ in range(2):
        machine.gridwright(*library.words("export", "--json", "--dry-run", *archive), ok=False)
        assert "released" in library.state("s") + library.state("t")
        assert "released" in library.state("t")
    for _ in range(3):
        machine.gridwright(*library.words("export", *archive), ok=False)
    assert {"s": library.seen("t").split()[0], "t": library.seen("s").split()[0]} == before
