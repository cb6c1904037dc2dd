"""Accounting of schedulers: what a real Slurm 22.05.8 printed, and LSF by its manual pages."""

from __future__ import annotations

import gzip
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import Finding, GridwrightError
from gridwright.messages import encode
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.profiles import load_profiles
from gridwright.schedulers.usage import parse_elapsed, parse_size, parse_time
from gridwright.workload.imports import imported
from gridwright.workload.imports.imported import accounting_kind, import_logs, read_accounting
from gridwright.workload.imports.job_table import read_jobs
from tests.support.bounded_memory import in_bounded_memory
from tests.support.examples import examples

RECORDED = Path(__file__).parents[2] / "fixtures" / "accounting"
MIB = 1 << 20


def read(path: Path) -> tuple[list[LaunchRecord], list[Finding]]:
    kind = accounting_kind(path)
    assert kind is not None
    return read_accounting(path, kind, first_number=1)


def written(directory: Path, text: str | bytes, name: str = "accounting") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def names(findings: list[Finding]) -> list[str]:
    return [finding.name for finding in findings]


def local(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of the machine on which sacct was recorded: its text has local times."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_what_a_real_sacct_printed() -> None:
    launches, findings = read(RECORDED / "sacct-22.05.txt")
    assert names(findings) == ["accounting-unfinished"]
    assert findings[0].text.startswith("sacct-22.05.txt tells of 3 jobs")
    assert [(x.job, x.test, x.ok, x.cores) for x in launches] == [
        ("1", "night-load", True, 1),
        ("2", "month end|x", True, 1),
        ("3", "fails", False, 1),
        ("4", "memory", True, 1),
        ("6", "steps", True, 2),
        ("5_1", "sweep", True, 1),
        ("5_2", "sweep", True, 1),
        ("5_3", "sweep", True, 1),
        ("12", "interactive", True, 1),
    ]
    _, month_end, fails, memory, steps, *_ = launches
    assert (month_end.real_s, month_end.user_s, month_end.system_s) == (9.0, 0.261, 1.117)
    assert month_end.read_bytes == pytest.approx(800.04 * MIB, rel=1e-4)
    assert month_end.written_bytes == 800 * MIB
    assert (month_end.submitted, month_end.started) == (local(2026, 11, 22, 12, 44, 52),) * 2
    assert month_end.ended == local(2026, 11, 22, 12, 45, 1)
    assert fails.reason == "FAILED: exit status 3"
    assert memory.peak_memory_bytes == 155584 * 1024
    # Three steps moved bytes, one of them with two tasks; the memory is that of the largest.
    assert steps.read_bytes == pytest.approx(0.08 * MIB, rel=0.05)
    assert steps.peak_memory_bytes == 10812 * 1024
    assert steps.cpu_real_ratio == pytest.approx(2.033 / 13)


@pytest.mark.usefixtures("utc")
def test_text_and_json_of_sacct_tell_the_same() -> None:
    by_id = {launch.job: launch for launch in read(RECORDED / "sacct-22.05.txt")[0]}
    launches, findings = read(RECORDED / "sacct-22.05.json")
    assert [launch.job for launch in launches] == ["2", "3", "5_3", "6", "5_1"]
    assert names(findings) == ["accounting-unfinished"]
    for launch in launches:
        text = by_id[launch.job]
        for name in ("test", "node", "cores", "ok", "real_s", "submitted", "peak_memory_bytes"):
            assert getattr(launch, name) == getattr(text, name), name
        assert launch.user_s == pytest.approx(text.user_s, abs=0.002)
        assert launch.system_s == pytest.approx(text.system_s, abs=0.002)


def test_json_of_newer_releases(tmp_path: Path) -> None:
    document = json.loads((RECORDED / "sacct-22.05.json").read_text())
    old, _ = read(written(tmp_path, json.dumps(document)))
    for job in document["jobs"]:
        job["state"]["current"] = [job["state"]["current"]]
        job["array"]["task_id"] = number(job["array"]["task_id"])
        job["exit_code"] = {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None)}}
        for name in ("elapsed", "start", "end", "submission"):
            if name != "elapsed":
                job["time"][name] = number(job["time"][name])
        for step in job["steps"]:
            for direction in ("requested", "consumed"):
                for item in step["tres"][direction]["total"]:
                    item["count"] = number(item["count"])
    new, _ = read(written(tmp_path, json.dumps(document)))
    assert new == old


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


HEADER = "JobID|JobName|SubmitLine|Start|End|Elapsed|State|ExitCode|TotalCPU|"
ROW = "{id}|{name}|{line}|2026-11-22T12:44:52|2026-11-22T12:45:07|00:00:15|COMPLETED|0:0|00:03.012|"


def rows(*records: str) -> str:
    return "\n".join([HEADER, *records]) + "\n"


def test_parsable_ends_lines_with_a_separator(tmp_path: Path) -> None:
    launches, findings = read(written(tmp_path, rows(ROW.format(id=7, name="a", line="sbatch a"))))
    assert findings == []
    (launch,) = launches
    assert (launch.test, launch.real_s, launch.user_s, launch.system_s) == ("a", 15.0, 3.012, None)


def test_separators_and_line_breaks_in_free_text(tmp_path: Path) -> None:
    log = rows(
        ROW.format(id=1, name="a", line="sbatch --wrap 'x\ny | z'"),
        ROW.format(id=2, name="b", line="plain"),
        # Its separator can be the name's as well as the submit line's.
        ROW.format(id=3, name="c", line="e|f"),
        ROW.format(id=4, name="d", line="plain"),
    )
    launches, findings = read(written(tmp_path, log))
    assert [launch.job for launch in launches] == ["2", "4"]
    assert names(findings) == ["accounting-unreadable"]
    assert "lines 2, 5" in findings[0].text
    one = HEADER.replace("|SubmitLine", "")
    named = one + "\n" + ROW.replace("|{line}", "").format(id=1, name="c|e\n|f") + "\n"
    launches, _ = read(written(tmp_path, named))
    assert [launch.test for launch in launches] == ["c|e |f"]


def test_a_step_whose_job_cannot_be_read_is_no_job(tmp_path: Path) -> None:
    log = rows(
        ROW.format(id=1, name="a", line="x|y"),
        ROW.format(id="1.batch", name="batch", line=""),
        ROW.format(id=2, name="b", line=""),
    )
    launches, _ = read(written(tmp_path, log))
    assert [launch.test for launch in launches] == ["b"]


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("JobID|JobName|State|ExitCode\n1|a|COMPLETED|0:0\n", "no ElapsedRaw", "UserCPU,SystemCPU,MaxRSS"),
        ("1|night-load|batch|root|1|COMPLETED|0:0\n", "no header", "--parsable2"),
        (HEADER + "\n", "no job that has ended", "longer time"),
        ('{"meta": {"Slurm": 1}, "jobs": {}}', "no list of jobs", "sacct --allusers"),
        ('{"jobs": [', "no document of sacct --json", "--format"),
    ],
)
def test_what_is_refused_says_what_to_print(tmp_path: Path, text: str, what: str, remedy: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        read(written(tmp_path, text))
    (problem,) = caught.value.problems
    assert what in problem.what
    assert remedy in (problem.remedy or "")


LSB = (
    '"JOB_FINISH" "10.1" 1795351507 {id} 1000 33554438 4 1795351400 0 0 {start} "ann" "night" "span[x=1]" '
    '"" "" "head1" "/home/ann" "" "out" "" "1795351400.{id}" 1 "asked" 2 "4*n01" "n02" {state} 60.0 "{name}" '
    '"#BSUB -J x;echo ""hi"" there" 90.5 4.25 0 0 -1 0 0 1854 0 0 {blocks} 2048 -1 0 0 0 65 12 -1 "" "x" '
    '{exit} 4 "" "" {element} 2097152 25396 "" "" "" "" 0 "" 0\n'
)


def lsb(**fields: object) -> str:
    given = {
        "id": 7,
        "start": 1795351407,
        "state": 64,
        "name": "load[1-9]",
        "blocks": 4096,
        "exit": 0,
        "element": 0,
    }
    return LSB.format(**(given | fields))


def test_lsb_acct(tmp_path: Path) -> None:
    log = (
        '"JOB_RESIZE" "10.1" 1795351500 7\n'
        + lsb()
        + lsb(id=8, state=32, exit=3 << 8, name="", element=5)
        + lsb(id=9, state=32, exit=9, blocks=-1)
        + lsb(id=10, state=32, start=0)
        + '"JOB_FINISH" "10.1" 1795351507 11\n'
    )
    launches, findings = read(written(tmp_path, log))
    assert names(findings) == ["accounting-unfinished", "accounting-unreadable"]
    assert "lines 6" in findings[1].text
    first, second, third = launches
    assert (first.job, first.test, first.node, first.cores) == ("7", "load", "n01,n02", 4)
    assert (first.real_s, first.user_s, first.system_s) == (100.0, 90.5, 4.25)
    assert (first.peak_memory_bytes, first.device_read_bytes, first.device_written_bytes) == (
        2 << 30,
        2 << 20,
        1 << 20,
    )
    assert (first.submitted, first.started, first.ended) == (1795351400.0, 1795351407.0, 1795351507.0)
    assert (second.job, second.test, second.reason) == ("8[5]", "echo", "EXIT: exit status 3")
    assert (third.reason, third.device_read_bytes) == ("EXIT: signal 9", None)


BACCT = """\

Accounting information about jobs that are:
  - submitted by all users.
------------------------------------------------------------------------------

Job <101>, Job Name <month end>, User <ann>, Project <default>, Status <EXIT>
                     , Queue <night>, Command <#BSUB -J x;#BSUB -n 1;/opt/run_
                     it --all>
{day}: Submitted from host <head1>, CWD <$HOME>, Output F
                     ile <o%J>;
{dispatched}
{ended}: Completed <exit>.

Accounting information about this job:
     Share group charged </ann>
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
    120.50        6              6     exit         0.0035   1.5G     25M
------------------------------------------------------------------------------

Job <102[3]>, User <ann>, Project <default>, Status <DONE>, Queue <night>, Com
                     mand </opt/bin/night_load --fast>
{day}: Submitted from host <head1>, CWD <$HOME>;
{day}: Dispatched 4 Task(s) on Host(s) <n07> <n08>, Allocated 4 Slot(s) on Host(s
                     ) <n07> <n08>, Effective RES_REQ <select[type == any] >;
{ended}: Completed <done>.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.08        6              6     done         0.0035      -       -
------------------------------------------------------------------------------

Job <103>, User <ann>, Project <default>, Status <EXIT>, Queue <night>, Command <x>
{day}: Submitted from host <head1>, CWD <$HOME>;
{ended}: Completed <exit>; TERM_OWNER: job killed by owner.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.00        6              6     exit         0.0000      -       -
------------------------------------------------------------------------------

SUMMARY:      ( time unit: second )
 Total number of done jobs:       1      Total number of exited jobs:     1
"""


def stamp(at: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S", time.localtime(at))


def test_bacct(tmp_path: Path) -> None:
    # A date without a year that lies ahead of the file's own is one of an earlier year.
    day = local(2015, 12, 31, 23, 58, 0)
    text = BACCT.format(
        day=stamp(day), ended=stamp(day + 300), dispatched=f"{stamp(day + 60)}: [1] started on <n05>;"
    )
    path = written(tmp_path, text)
    os.utime(path, (day + 86400 * 200,) * 2)
    launches, findings = read(path)
    assert names(findings) == ["accounting-unfinished"]
    first, second = launches
    assert (first.job, first.test, first.node, first.ok) == ("101", "month end", "n05", False)
    assert (first.started, first.ended, first.real_s) == (day + 60, day + 300, 240.0)
    assert (first.user_s, first.system_s, first.peak_memory_bytes) == (120.5, None, round(1.5 * (1 << 30)))
    assert first.reason == "Completed <exit>"
    assert (second.job, second.test, second.node, second.cores) == ("102[3]", "night_load", "n07,n08", 4)
    assert (second.real_s, second.ok, second.peak_memory_bytes) == (300.0, True, None)


def test_accounting_can_be_packed(tmp_path: Path) -> None:
    content = (RECORDED / "sacct-22.05.txt").read_bytes()
    plain, _ = read(written(tmp_path, content, "a.txt"))
    packed, _ = read(written(tmp_path, gzip.compress(content), "a.txt.gz"))
    assert [replace(launch, log=None) for launch in packed] == [replace(launch, log=None) for launch in plain]


@pytest.mark.parametrize("text", ["", "NOTE: x\n", "a|b\n", "[1]", '{"kind": "gridwright launch profiles"}'])
def test_what_is_no_accounting(tmp_path: Path, text: str) -> None:
    assert accounting_kind(written(tmp_path, text)) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:03.012", 3.012), ("01:02:03", 3723.0), ("2-01:02:03", 176523.0), ("00:00:00", 0.0), ("", None)],
)
def test_elapsed(text: str, seconds: float | None) -> None:
    assert parse_elapsed(text) == seconds


def test_sizes_and_times() -> None:
    assert [parse_size(text) for text in ("9148K", "800.04M", "12", "1.5G", "", "9X")] == [
        9148 * 1024, round(800.04 * MIB), 12, 3 << 29, None, None,
    ]  # fmt: skip
    assert parse_time("1795351492") == 1795351492.0
    assert [parse_time(text) for text in ("Unknown", "None", "", "0")] == [None] * 4


@settings(deadline=None, max_examples=examples(100))
@given(st.data())
def test_damaged_accounting_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(["sacct-22.05.txt", "sacct-22.05.json", "lsb", "bacct"]))
    text = {"lsb": lsb() * 3, "bacct": BACCT.format(day=stamp(1e9), ended=stamp(1e9), dispatched="x")}.get(
        kind
    )
    content = text.encode() if text else (RECORDED / kind).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    damaged = content[:at] + data.draw(st.binary(max_size=8)) + content[at + data.draw(st.integers(0, 40)) :]
    read_or_refuse(written(tmp_path_factory.getbasetemp(), damaged, "damaged"))


# Accounting and logs that somebody else hands over: launches come of them, or an error that says why not.
#
# A small file may be packed from a thousand times its size; memory and time are bounded all the same.

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


def read_or_refuse(path: Path) -> None:
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
    read_or_refuse(path)


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
    read_or_refuse(path)


def packed(pieces: Iterator[bytes]) -> bytes:
    """The pieces, packed by gzip, one after the other."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(each) for each in pieces), packer.flush()])


SACCT = b"JobID|JobName|State|ElapsedRaw|Start|End\n"
JOB_ROW = b"%d|x|COMPLETED|1|2026-01-01T00:00:00|2026-01-01T00:00:01\n"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("json", lambda: (b'{"meta":{},"jobs":[', *([b"{}," * MIB] * 400))),
        ("endless", lambda: (SACCT, *([b"x" * MIB] * 300))),
        ("rows", lambda: (SACCT, *([b"".join(JOB_ROW % each for each in range(20_000))] * 20))),
        ("pipes", lambda: (SACCT, b"1|" + b"|" * (900 << 10) + b"\n", JOB_ROW % 1)),
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
