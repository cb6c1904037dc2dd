"""Records as the library hands them out, held to what `lfs changelog` printed of a real Lustre."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.changelog.records import (
    HEAD_BYTES,
    ChangeType,
    RecordError,
    inode_of,
    parse_record,
    size_of,
)
from gridwright.repository.copytool.liblustreapi import Fid
from tests.fixtures.lustre_node import RECORDED
from tests.support.changelog_double import build_library, write_log, write_names
from tests.support.skips import needs

FID = r"\[(0x[0-9a-f]+|0):0x([0-9a-f]+):0x([0-9a-f]+)\]"
LINE = re.compile(
    rf"(?P<index>\d+) (?P<type>\d\d)(?P<word>[A-Z]{{3,5}}) (?P<time>\S+ \S+) 0x(?P<flags>[0-9a-f]+) "
    rf"t=(?P<t>{FID}) j=(?P<job>\S+) ef=0x\w+ u=0:0 nid=\S+(?: p=(?P<p>{FID})(?: (?P<name>\w+))?)?"
    rf"(?: s=(?P<s>{FID}) sp=(?P<sp>{FID}) (?P<sname>\w+))?"
)
WORDS = {
    "CREAT": ChangeType.CREATE, "MKDIR": ChangeType.MKDIR, "HLINK": ChangeType.HARDLINK,
    "SLINK": ChangeType.SOFTLINK, "UNLNK": ChangeType.UNLINK, "RMDIR": ChangeType.RMDIR,
    "RENME": ChangeType.RENAME, "CLOSE": ChangeType.CLOSE, "LYOUT": ChangeType.LAYOUT,
    "TRUNC": ChangeType.TRUNCATE, "SATTR": ChangeType.SETATTR,
}  # fmt: skip
"""As `changelog_type2str` has them."""


@dataclass(frozen=True)
class Printed:
    """One line of a recording."""

    index: int
    type: ChangeType
    time_ns: int
    flags: int
    job: bytes
    fids: dict[str, Fid]
    names: bytes

    @classmethod
    def of(cls, line: str) -> Printed:
        found = LINE.fullmatch(line)
        assert found, line
        assert WORDS[found["word"]] == int(found["type"])
        when, part = found["time"].split(".", 1)
        second = datetime.strptime(f"{when} {part.split(' ')[1]}", "%H:%M:%S %Y.%m.%d").replace(tzinfo=UTC)
        texts = {key: found[key] for key in ("t", "p", "s", "sp") if found[key]}
        fids = {key: Fid(*(int(each, 16) for each in text[1:-1].split(":"))) for key, text in texts.items()}
        names = (found["name"] or "").encode()
        names += b"\0" + found["sname"].encode() if found["sname"] else b""
        time_ns = int(second.timestamp()) * 10**9 + int(part.split(" ")[0])
        kind = ChangeType(int(found["type"]))
        flags = int(found["flags"], 16)
        return cls(int(found["index"]), kind, time_ns, flags, found["job"].encode(), fids, names)

    def data(self) -> bytes:
        """As `changelog_remap_rec` leaves it for a reader that asks for jobs and extra flags."""
        nothing = Fid(0, 0)
        fids = [self.fids.get(key, nothing) for key in ("t", "p", "s", "sp")]
        packed = [struct.pack("=QII", each.sequence, each.object, each.version) for each in fids]
        time = (self.time_ns // 10**9 << 30) + self.time_ns % 10**9
        head = struct.pack(
            "=HHIQQQ", len(self.names), 0xF000 | self.flags & 0xFFF, self.type, self.index, 0, time
        )
        return head + b"".join(packed) + self.job.ljust(32, b"\0") + bytes(8) + self.names


def printed() -> list[Printed]:
    return [Printed.of(line) for line in (RECORDED / "503-lfs-changelog.out").read_text().splitlines()]


def test_the_recording_has_what_it_is_said_to_have() -> None:
    assert [each.index for each in printed()] == list(range(1, 19))
    assert {each.type for each in printed()} == set(WORDS.values())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("cc")
    return build_library(tmp_path_factory.mktemp("library"))


_PROGRAM = """
import ctypes, json, os, sys
from pathlib import Path
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.copytool.liblustreapi import Fid

source = LustreSource(Path("/"))
def tried(what):
    try:
        return what()
    except OSError as error:
        return error.errno
def fid(each):
    return None if each is None else [each.sequence, each.object, each.version]
records = list(source.records("scratch-MDT0000", 1))
partly = source.records("scratch-MDT0000", 4)
next(partly)
partly.close()
print(json.dumps({
    "records": [[e.index, int(e.type), e.time_ns, *map(fid, (e.target, e.parent, e.source, e.source_parent))]
                for e in records],
    "later": [e.index for e in source.records("scratch-MDT0000", 17)],
    "none": tried(lambda: list(source.records("scratch-MDT0007", 1))),
    "clears": [tried(lambda: source.clear("scratch-MDT0000", *each))
               for each in (("cl1", 4), ("cl1", 4), ("cl1", 3), ("cl1", 99), ("cl2", 4))],
    "mdts": source.mdt_count(),
    "names": [[e.decode("latin-1") for e in source.paths_of(Fid(0x200000401, n))] for n in (1, 2, 3)],
    "fid": fid(source.fid_of(b"/")),
    "left": ctypes.CDLL("liblustreapi.so.1").double_left(),
}))
"""


def asked(library: Path, place: Path) -> dict[str, Any]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "CHANGELOG_DOUBLE": str(place)}
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def test_the_library_is_asked_for_what_the_recording_has(library: Path, tmp_path: Path) -> None:
    lines = printed()
    data = [each.data() for each in lines]
    write_log(tmp_path, "scratch-MDT0000", data)
    (tmp_path / "scratch-MDT0000.users").write_text("cl1 0\n")
    (tmp_path / "scratch-MDT0000.index").write_text("18")
    hostile = [b"a\nb 02MKDIR", b"\xff\xfe", b"d/" + b"n" * 255]
    write_names(tmp_path, "0x200000401:0x1:0x0", hostile)
    write_names(tmp_path, "0x200000401:0x2:0x0", [b"/one"])
    told = asked(library, tmp_path)

    def fid(each: Printed, key: str) -> list[int] | None:
        found = each.fids.get(key)
        return [found.sequence, found.object, found.version] if found and found.sequence else None

    assert told["records"] == [
        [each.index, each.type, each.time_ns, *(fid(each, key) for key in ("t", "p", "s", "sp"))]
        for each in lines
    ]
    assert told["later"] == [17, 18]
    assert told["none"] == 2
    # Once more the same is well; less, more, and a stranger are not.
    assert told["clears"] == [None, None, 22, 22, 2]
    assert told["mdts"] == 1
    assert told["names"] == [[each.decode("latin-1") for each in hostile], ["one"], []]
    assert told["fid"] == [Path("/").stat().st_ino, 7, 0]
    assert told["left"] == 0


def test_files_of_a_record_are_those_that_it_changes() -> None:
    by_index = {each.index: parse_record(each.data()) for each in printed()}
    file, directory = Fid(0x200000401, 0xE9), Fid(0x200000401, 0xE8)
    assert by_index[4].moved == [file]
    assert set(by_index[4].changed_fids) == {file, directory}
    assert by_index[7].changed_fids == [file]
    assert by_index[18].changed_fids == [directory, Fid(0x200000007, 1)]


def test_an_inode_number_is_that_of_the_fid() -> None:
    """As a client of a real Lustre has it, and by the rule of lustre_fid.h."""
    text = (RECORDED / "254-stat-file.out").read_text()
    line = (RECORDED / "238-lfs-path2fid.out").read_text().splitlines()[0]
    found = re.search(r"Inode: (\d+)", text)
    assert found
    assert inode_of(Fid(*(int(each, 16) for each in line.strip("[]").split(":")))) == int(found[1])
    assert inode_of(Fid(4711, 3)) == 4711
    assert inode_of(Fid(0x12345678_00000402, 5)) == (
        (0x12345678_00000402 << 24) + ((0x12345678_00000402 >> 24) & 0xFFFFFF0000) + 5
    ) & (2**64 - 1)


FIDS = st.builds(Fid, st.integers(1, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))


TIMES = st.tuples(st.integers(0, 2**33), st.integers(0, 2**30 - 1))


@given(st.sampled_from(ChangeType), FIDS, FIDS, TIMES, st.binary(max_size=300), st.integers(0, 7), st.data())
def test_records_of_every_form_are_read_and_cut_ones_are_not(
    kind: ChangeType,
    target: Fid,
    parent: Fid,
    time: tuple[int, int],
    name: bytes,
    form: int,
    data: st.DataObject,
) -> None:
    index, (seconds, ns) = 2**63 + form, time
    flags = form << 13 | 0x1000
    extensions = b"".join(
        bytes(size) for bit, size in ((0x2000, 32), (0x4000, 32), (0x8000, 8)) if flags & bit
    )
    head = struct.pack("=HHIQQQ", len(name), flags, kind, index, 0, (seconds << 30) + ns)
    fids = struct.pack(
        "=QIIQII", target.sequence, target.object, target.version, parent.sequence, parent.object,
        parent.version,
    )  # fmt: skip
    whole = head + fids + extensions + name
    assert size_of(whole[:HEAD_BYTES]) == len(whole)
    read = parse_record(whole)
    assert (read.index, read.type, read.time_ns) == (index, kind, seconds * 10**9 + ns)
    if kind is not ChangeType.MARK:
        assert (read.target, read.parent, read.source) == (target, parent, None)
    with pytest.raises(RecordError):
        parse_record(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_type_of_a_later_release_is_none_that_is_known() -> None:
    record = printed()[0]
    data = bytearray(record.data())
    data[4:8] = struct.pack("=I", 31)
    assert parse_record(bytes(data)).type is None
    assert parse_record(bytes(data)).changed_fids == list(record.fids.values())
