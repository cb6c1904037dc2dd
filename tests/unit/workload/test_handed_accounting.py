"""Accounting and logs that somebody else hands over: launches come of them, or an error that says why not.

A small file may be packed from a thousand times its size; memory and time are bounded all the same.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.messages import encode
from gridwright.runs.profiles import load_profiles
from gridwright.workload.imports import imported
from gridwright.workload.imports.imported import accounting_kind, import_logs, read_accounting
from gridwright.workload.imports.job_table import read_jobs
from tests.support.bounded_memory import in_bounded_memory
from tests.support.examples import examples
from tests.unit.workload.test_accounting import BACCT, RECORDED, lsb, stamp

FIGURES = st.sampled_from(
    [
        "",
        "-1",
        "0",
        "1e400",
        "nan",
        "-inf",
        "9" * 400,
        "99999999999",
        "1" * 30,
        "x",
        "\x1b]52;c;x\x07",
        "=1+1",
    ]
) | st.text(max_size=12)


def read(path: Path) -> None:
    """What an import does with a file: launches that documents can hold, or a GridwrightError."""
    try:
        kind = accounting_kind(path)
        if kind is None:
            return
        launches, _ = read_accounting(path, kind, first_number=1)
    except GridwrightError as error:
        assert all(problem.remedy for problem in error.problems)
        return
    for launch in launches:
        json.loads(encode(launch))
        assert launch.real_s is None or math.isfinite(launch.real_s)
        assert not any(ord(letter) < 32 for letter in launch.test)


@settings(deadline=None, max_examples=examples(800))
@given(data=st.data())
def test_any_field_of_a_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["sacct", "lsb", "bacct"]))
    if kind == "sacct":
        text, mark = (RECORDED / "sacct-22.05.txt").read_text(), "|"
    elif kind == "lsb":
        text, mark = lsb() * 3, " "
    else:
        text, mark = BACCT.format(day=stamp(1e9), ended=stamp(1e9), dispatched="x"), " "
    lines = text.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        fields = lines[number].split(mark)
        fields[data.draw(st.integers(0, len(fields) - 1))] = data.draw(FIGURES)
        lines[number] = mark.join(fields)
    path = tmp_path_factory.getbasetemp() / "fields"
    path.write_text("".join(lines), errors="replace")
    read(path)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in a document."""
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*way, key))


RECORDED_JSON = json.loads((RECORDED / "sacct-22.05.json").read_text())
JOBS = [*places(RECORDED_JSON["jobs"][:3], ("jobs",))]
ANYTHING = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.sampled_from(
        [-1, 0, 10**30, 10**400, 2**63, {}, [], {"number": 1e300}, {"set": True, "infinite": True}]
    )
    | FIGURES
)


@settings(deadline=None, max_examples=examples(800))
@given(data=st.data())
def test_any_value_of_a_document(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    document = json.loads(json.dumps(RECORDED_JSON | {"jobs": RECORDED_JSON["jobs"][:3]}))
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(JOBS))
        inner: Any = document
        try:
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = data.draw(ANYTHING)
        except (TypeError, KeyError, IndexError):
            continue
    path = tmp_path_factory.getbasetemp() / "document"
    path.write_text(json.dumps(document))
    read(path)


def packed(pieces: Iterator[bytes]) -> bytes:
    """The pieces, packed by gzip, one after the other."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(each) for each in pieces), packer.flush()])


SACCT = b"JobID|JobName|State|ElapsedRaw|Start|End\n"
ROW = b"%d|x|COMPLETED|1|2026-01-01T00:00:00|2026-01-01T00:00:01\n"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("json", lambda: (b'{"meta":{},"jobs":[', *([b"{}," * MIB] * 400))),
        ("endless", lambda: (SACCT, *([b"x" * MIB] * 300))),
        ("rows", lambda: (SACCT, *([b"".join(ROW % each for each in range(20_000))] * 20))),
        ("pipes", lambda: (SACCT, b"1|" + b"|" * (900 << 10) + b"\n", ROW % 1)),
        ("wrapped", lambda: (BACCT.encode()[:300], b"                     abcdefghijklmno\n" * 190_000)),
        ("log", lambda: (b"NOTE: x\n", *([b"\0" * MIB] * 300))),
    ],
)
@pytest.mark.timeout(200)
def test_a_packed_bomb_is_refused_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pieces: Callable[[], Iterator[bytes]]
) -> None:
    monkeypatch.setattr(imported, "MOST_LINES", 200_000, raising=False)
    path = tmp_path / "bomb.log.gz"
    path.write_bytes(packed(iter(pieces())))
    assert path.stat().st_size < 4 << 20
    said = in_bounded_memory(lambda: import_logs([path], node="here"), 1 << 30)
    # What is no bomb, only strange, may be read: then nothing is said.
    assert not said or said.startswith("GridwrightError"), said
    if name in {"json", "endless", "rows", "log"}:
        assert "limit" in said or "no SAS log" in said, said


def test_what_is_nested_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep"
    path.write_bytes(b'{"meta":{},"jobs":[' + b"[" * 200_000)
    with pytest.raises(GridwrightError, match="nested too deep"):
        read_accounting(path, "sacct --json", first_number=1)
    with pytest.raises(GridwrightError, match="nested too deep"):
        load_profiles(path)


def test_a_table_of_jobs_has_its_limits(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("name,real_s,cpu_s,stream\n" + "a,1,1,1\n" * 100_002)
    with pytest.raises(GridwrightError, match="more rows than 100000, the limit"):
        read_jobs(table)
    table.write_bytes(b"name," + b"x" * (129 << 20))
    with pytest.raises(GridwrightError, match="larger than 128 MiB, the limit"):
        read_jobs(table)


OTHERS = [gzip.compress(b"", mtime=0) + b"x", b"\x1f\x8b", b"", b"\0" * 100, b"NOTE:"]


@pytest.mark.parametrize("content", OTHERS)
def test_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.log"
    path.write_bytes(content)
    with pytest.raises(GridwrightError):
        import_logs([path], node="here")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(GridwrightError):
        import_logs([tmp_path / "pipe.log"], node="here")
