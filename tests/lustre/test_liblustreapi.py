"""The doubles of liblustreapi answer as the library and the servers of a real Lustre do.

One program runs on both, by what Gridwright calls the library with, and says what came of each call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import changelog_double
from tests.support.hsm_double.coordinator import build_library, coordinator
from tests.support.lustre_vm import LustreMachine
from tests.support.skips import needs, root_only

pytestmark = root_only
MDT, PLACE = "testfs-MDT0000", "/mnt/lustre/liblustreapi"
TELL = """
import errno, json, os, select, sys, time
from pathlib import Path
said = []
def tell(what, call):
    try:
        found = call()
    except OSError as error:
        found = errno.errorcode[error.errno]
    said.append([what, found if isinstance(found, (str, int, list, type(None))) else ""])
    return found
"""
HSM = f"""
{TELL}
from gridwright.repository.copytool.liblustreapi import (
    CopytoolHandle, LustreLibrary, ReleasedFile, copy_layout
)
mount, place = map(Path, sys.argv[1:])
SIZE, MTIME = 70_001, 1_600_000_000_123_456_789
ARCHIVE, RESTORE, REMOVE = 10, 11, 13
library = LustreLibrary()

def opened(name):
    return os.open(place / name, os.O_RDONLY | os.O_NONBLOCK)

def state(name, becomes=None):
    descriptor = opened(name)
    for _ in range(50):
        if (flags := library.hsm_state(descriptor).flags) == becomes:
            break
        if becomes is None:
            break
        time.sleep(0.2)
    os.close(descriptor)
    return flags

def request(action, name, archive=3):
    descriptor = opened(name)
    library._request(os.fsencode(mount), descriptor, action, archive)
    os.close(descriptor)

def received(handle, seconds=60.0):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        select.select([handle.descriptor], [], [], left)
        if actions := handle.receive():
            return actions
    return []

def about(actions, name):
    descriptor = opened(name)
    own = library.fid_of(descriptor)
    os.close(descriptor)
    return [f"{{each.verb.name}} {{each.archive_id}} {{each.fid == own}}" for each in actions]

def imported(name):
    file = ReleasedFile(0o100640, 1000, 1001, SIZE, MTIME, MTIME)
    library.import_released(os.fsencode(place / name), 3, file)

def metadata(name):
    status = os.stat(place / name)
    return [status.st_size, oct(status.st_mode), status.st_uid, status.st_gid, int(status.st_mtime)]

def restored(handle, action, name):
    begun = handle.begin(action)
    content = begun.open_content()
    copy_layout(os.fsencode(place / name), content)
    os.write(content, b"c" * SIZE)
    os.close(content)
    tell("progress of a restore", lambda: begun.progress(0, SIZE))
    tell("its end", lambda: begun.end(SIZE, 0))
    tell("restored", lambda: [state(name, 9), *metadata(name), (place / name).read_bytes() == b"c" * SIZE])

imported("file")
tell("imported", lambda: [state("file"), *metadata("file")])
first = CopytoolHandle(library, mount, [3])
second = CopytoolHandle(library, mount, [4])

request(RESTORE, "file")
(action,) = actions = received(first)
tell("a restore comes", lambda: about(actions, "file"))
tell("its path", lambda: first.path_of(action.fid).decode().rpartition("/")[2])
restored(first, action, "file")
tell("progress of what is over", lambda: first.progress(action))

(place / "plain").write_bytes(b"plain")
tell("never archived", lambda: state("plain"))
request(ARCHIVE, "plain")
(action,) = actions = received(first)
tell("an archive comes", lambda: about(actions, "plain"))
begun = first.begin(action)
content = begun.open_content()
tell("its content", lambda: os.read(content, 100).decode())
os.close(content)
begun.end(5, 0)
tell("archived", lambda: state("plain", 9))
request(REMOVE, "plain")
(action,) = actions = received(first)
tell("a removal comes", lambda: about(actions, "plain"))
first.begin(action).end(0, 0)
tell("removed", lambda: state("plain", 0))

imported("failing")
request(RESTORE, "failing")
(action,) = received(first)
first.begin(action, only_to_refuse=True).end(0, errno.EIO)
tell("after a failure", lambda: [state("failing"), *about(received(first, 2), "failing")])
request(RESTORE, "failing")
(action,) = received(first)
tell("it is given back", lambda: first.give_back(action))
(action,) = actions = received(first, 180)
tell("and comes again", lambda: about(actions, "failing"))
restored(first, action, "failing")

imported("waiting")
request(RESTORE, "waiting")
(action,) = received(first)
first.begin(action, only_to_refuse=True).end(0, errno.ENOENT)

ping = library.open_ping(mount, 3)
library.request_removal(mount, ping, 3)
(action,) = received(first)
tell("a ping comes", lambda: [action.verb.name, action.fid == library.fid_of(ping)])
first.begin(action).end(0, 0)
request(ARCHIVE, "plain", 4)
tell("what the second one would be sent", lambda: [len(received(each, 2)) for each in (first, second)])
second.unregister()
request(RESTORE, "waiting")
tell("what the first is sent once the second has left", lambda: len(received(first, 2)))
first.unregister()
print(json.dumps(said))
"""
FORGOTTEN = f"""
lctl set_param mdt.*.hsm.policy=+NRA mdt.*.hsm_control=purge mdt.*.hsm_control=shutdown
for i in $(seq 100); do lctl get_param -n mdt.*.hsm_control | grep -q stopped && break; sleep 0.2; done
lctl set_param mdt.*.hsm_control=enabled
rm -rf {PLACE}
"""
"""What was under way when the program ended would count for an hour against those that may be."""
WITHOUT_LAYOUT = """
import os, sys
from gridwright.repository.copytool.liblustreapi import copy_layout
made = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_NOCTTY | os.O_ASYNC)
try:
    print(os.write(made, b"x"))
except OSError as error:
    print(error.strerror)
copy_layout(b"/nowhere", made)
print(os.write(made, b"x"))
"""
CHANGELOGS = f"""
{TELL}
from gridwright.repository.changelog import lustre_source
from gridwright.repository.copytool.liblustreapi import Fid
mount, mdt, user, fid = Path(sys.argv[1]), *sys.argv[2:]
source, parse, raw = lustre_source.LustreSource(mount), lustre_source.parse_record, []
lustre_source.parse_record = lambda data: (raw.append(data.hex()), parse(data))[1]

def names(text):
    fid = Fid(*(int(part, 16) for part in text.split(":")))
    return sorted(each.decode() for each in source.paths_of(fid))

tell("MDTs", source.mdt_count)
tell("no such path", lambda: source.fid_of(b"/nowhere"))
tell("all names", lambda: names(fid))
tell("no names", lambda: names("0x200000400:0x7ffffff:0x0"))
last = [each.index for each in source.records(mdt, 0)][-1]
records = raw[:]
tell("from an index on", lambda: len(list(source.records(mdt, last))))
tell("beyond the last", lambda: list(source.records(mdt, last + 1)))
tell("of no MDT", lambda: list(source.records("nosuch-MDT0000", 0)))
tell("cleared for nobody", lambda: source.clear(mdt, "cl99", last))
tell("cleared beyond the last", lambda: source.clear(mdt, user, last + 1000))
tell("cleared", lambda: source.clear(mdt, user, last))
tell("cleared once more", lambda: source.clear(mdt, user, last))
tell("cleared below", lambda: source.clear(mdt, user, last - 1))
print(json.dumps([said, last, records]))
"""
MADE = f"""
mkdir -p {PLACE}/d && cd {PLACE} && touch one && ln one d/two && mv one three
lfs path2fid three | tr -d '[]'
"""


def on_double(library: Path, program: str, *words: str | Path, **environment: str) -> Any:
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, timeout=120, check=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(library), **environment},
    )  # fmt: skip
    return json.loads(ended.stdout)


@pytest.mark.thorough
def test_the_double_of_the_coordinator_does_what_a_real_one_does(
    lustre: LustreMachine, tmp_path: Path
) -> None:
    needs("cc")
    (mount := tmp_path / "lustre").mkdir()
    with coordinator(mount) as made:
        (mount / "place").mkdir()
        double = on_double(build_library(tmp_path), HSM, mount, mount / "place", **made.environment)
    lustre.run(f"mkdir -p {PLACE} && lctl set_param mdt.*.hsm.policy=-NRA")
    try:
        real = json.loads(lustre.python(HSM, "/mnt/lustre", PLACE))
    finally:
        lustre.run(FORGOTTEN)
    assert double == real


def test_what_is_restored_takes_bytes_though_its_layout_cannot_be_copied(lustre: LustreMachine) -> None:
    lustre.run(f"mkdir -p {PLACE}")
    try:
        assert lustre.python(WITHOUT_LAYOUT, f"{PLACE}/made").splitlines() == ["Bad file descriptor", "1"]
    finally:
        lustre.run(f"rm -rf {PLACE}")


def test_the_double_of_changelogs_answers_as_the_library_does(lustre: LustreMachine, tmp_path: Path) -> None:
    """It hands out the records that the real one did."""
    needs("cc")
    user = lustre.run(f"lctl --device {MDT} changelog_register -n").out.split()[0]
    try:
        fid = lustre.run(MADE).out.strip()
        real, last, records = json.loads(lustre.python(CHANGELOGS, "/mnt/lustre", MDT, user, fid))
    finally:
        lustre.run(f"lctl --device {MDT} changelog_deregister {user}; rm -rf {PLACE}")
    assert real[2] == ["all names", ["liblustreapi/d/two", "liblustreapi/three"]]
    changelog_double.write_log(tmp_path, MDT, map(bytes.fromhex, records))
    changelog_double.write_names(tmp_path, fid, map(str.encode, real[2][1]))
    (tmp_path / f"{MDT}.users").write_text(f"{user} 0\n")
    (tmp_path / f"{MDT}.index").write_text(str(last))
    library = changelog_double.build_library(tmp_path)
    double, _, same = on_double(library, CHANGELOGS, "/", MDT, user, fid, CHANGELOG_DOUBLE=str(tmp_path))
    assert (double, same) == (real, records)
