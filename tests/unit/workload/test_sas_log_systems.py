"""SAS logs beyond batch jobs in English on UNIX and Windows; all of them written for these tests.

What SAS writes there was taken from public logs: a stored process and a workspace server, SAS Studio on a
Viya in Chinese, SAS in Japanese, z/OS, version 6 on Windows.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from tests.unit.workload.test_sas_log import UNIX, WINDOWS_FULL, WINDOWS_STIMER, local, names, read

CHINESE = """\
1    %studio_hide_wrapper;
82   PROC PRINT DATA=SASHELP.CARS; RUN;
NOTE: 从以下数据集读取了 428 个观测: SASHELP.CARS.
NOTE: PROCEDURE PRINT 已打印第 21-30 页。
NOTE: “PROCEDURE PRINT”所用时间（总处理时间）:
      实际时间          1:01.99
      用户 CPU 时间     40.50 秒
      系统 CPU 时间     2.25 秒
      内存              321.25k
      OS 内存           28584.00k
      时间戳            2026-11-21 02:08:19 下午
      步骤计数                        24  切换计数  0

99    data test; run;
NOTE: “DATA 语句”所用时间（总处理时间）:
      实际时间          0.06 秒
      CPU 时间          0.04 秒

"""  # noqa: RUF001 - as SAS writes it
JAPANESE = """\
64   run ;
NOTE: データセットWORK.TESTは1オブザベーション、1変数です。
NOTE: DATAステートメント処理(合計処理時間):
      処理時間           2.50 秒
      CPU時間            0.75 秒
"""
Z_OS_STIMER = """\
NOTE: The initialization phase used 0.05 CPU seconds and 4321K.
NOTE: The address space has used a maximum of 1120K below the line and 8680K above the line.
9    run ;
NOTE: The data set WORK.TEMP has 4 observations and 6 variables.
NOTE: The DATA statement used 0.02 CPU seconds and 1602K.
NOTE: The view SASUSER.READX.VIEW used 0.02 CPU seconds and 2066K.
NOTE: The PROCEDURE PRINT used 0.01 CPU seconds and 2066K.
NOTE: The SAS session used 0.34 CPU seconds and 7211K.
NOTE: SAS Institute Inc., SAS Campus Drive, Cary, NC USA 27513-2414
"""
Z_OS_FULL = """\
NOTE: The PROCEDURE SORT used the following resources:
      CPU     time -         00:01:40.10
      Elapsed time -         00:04:02.33
      EXCP count   - 4711
      Task  memory -         1602K (38K data, 1564K program)
      Total memory -         9999K (38K data, 1564K program)
      Timestamp   11/21/2026 07:00:00 AM
NOTE: The SAS session used the following resources:
      CPU     time -         00:01:41.00
      Elapsed time -         01:04:02.33
      EXCP count   - 4711
      Task  memory -         7211K (38K data, 1564K program)
"""
WINDOWS_6 = """\
NOTE: 1 record was written to the file PROBLEM.
NOTE: The DATA statement used 0.93 seconds.
NOTE: The PROCEDURE SORT used 1 minute 12.5 seconds.
"""


def page(log: str) -> str:
    """A log as a stored process shows it."""
    escaped = log.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return (
        f"<html>\n<head><title>log</title></head>\n<body>\n<h1>Result</h1><hr size=3>\n"
        f"<h3>SAS Log</h3><pre>{escaped}</pre></body></html>\n"
    )


def exported(log: str) -> str:
    """A log as the window of an editor exports it: a colour for each line, breaks, hard blanks."""
    lines = (line.replace("  ", "&nbsp; ") for line in log.splitlines())
    return "<!DOCTYPE html><body>" + "".join(f'<font color="#0000ff">{x}</font><br>' for x in lines)


def test_a_log_in_chinese(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, CHINESE)
    assert names(findings) == ["sas-log-truncated"]
    steps = [(s.procedure, s.real_s, s.user_s, s.system_s, s.peak_memory_bytes) for s in launch.steps]
    assert steps == [("PRINT", 61.99, 40.5, 2.25, round(321.25 * 1024)), ("DATA", 0.06, 0.04, None, None)]
    assert launch.ended == local(2026, 11, 21, 14, 8, 19)


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16-le", "utf-16"])
def test_encodings_of_a_log_in_chinese(tmp_path: Path, encoding: str) -> None:
    expected, _ = read(tmp_path, CHINESE)
    assert read(tmp_path, CHINESE.encode(encoding))[0] == expected


@pytest.mark.parametrize("encoding", ["utf-8", "cp932"])
def test_a_log_in_japanese(tmp_path: Path, encoding: str) -> None:
    launch, _ = read(tmp_path, JAPANESE.encode(encoding))
    assert [(s.procedure, s.real_s, s.user_s) for s in launch.steps] == [("DATA", 2.5, 0.75)]


def test_z_os_tells_no_real_time_without_fullstimer(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, Z_OS_STIMER)
    assert names(findings) == ["sas-log-no-real-time", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s, launch.cpu_real_ratio) == (None, 0.34, None)
    assert launch.peak_memory_bytes == 7211 * 1024
    steps = [(step.procedure, step.real_s, step.user_s) for step in launch.steps]
    assert steps == [
        ("SAS initialization", None, 0.05),
        ("DATA", None, 0.02),
        ("VIEW SASUSER.READX.VIEW", None, 0.02),
        ("PRINT", None, 0.01),
    ]


def test_z_os_with_fullstimer(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, Z_OS_FULL)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s, launch.peak_memory_bytes) == (3842.33, 101.0, 7211 * 1024)
    assert [(s.procedure, s.real_s, s.user_s) for s in launch.steps] == [("SORT", 242.33, 100.1)]
    assert launch.ended == local(2026, 11, 21, 7, 0, 0)


def test_version_6_tells_the_real_time_alone(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, WINDOWS_6)
    assert names(findings) == ["sas-log-truncated", "sas-log-no-cpu-time"]
    assert (launch.real_s, launch.user_s) == (73.43, None)
    assert [(s.procedure, s.real_s) for s in launch.steps] == [("DATA", 0.93), ("SORT", 72.5)]


@pytest.mark.parametrize("shape", [page, exported])
def test_html(tmp_path: Path, shape: object) -> None:
    assert callable(shape)
    launch, findings = read(tmp_path, shape(UNIX), "proc.html")
    expected, _ = read(tmp_path, UNIX, "proc.log")
    assert findings == []
    figures = ("test", "real_s", "user_s", "system_s", "peak_memory_bytes", "ended")
    assert [getattr(launch, x) for x in figures] == [getattr(expected, x) for x in figures]
    assert [(x.procedure, x.real_s, x.user_s) for x in launch.steps] == [
        (x.procedure, x.real_s, x.user_s) for x in expected.steps
    ]


@pytest.mark.parametrize("form", ["{}  {}", "{:08d}: {}", "{:6d} | {}", "20261121:07.00.12.34: {:08d}:{}"])
def test_numbered_lines_of_a_server(tmp_path: Path, form: str) -> None:
    numbered = "".join(form.format(n, line) + "\n" for n, line in enumerate(UNIX.split("\n"), 1))
    launch, findings = read(tmp_path, numbered)
    expected, _ = read(tmp_path, UNIX)
    assert findings == []
    assert launch == expected


def test_numbered_notes_do_not_count_beside_plain_ones(tmp_path: Path) -> None:
    quoted = "".join(f"{n}    {line}\n" for n, line in enumerate(UNIX.split("\n"), 10))
    assert read(tmp_path, WINDOWS_STIMER + quoted)[0].real_s == 70.0
    assert read(tmp_path, quoted + WINDOWS_STIMER)[0].real_s == 70.0


def test_packed_logs(tmp_path: Path) -> None:
    expected, _ = read(tmp_path, UNIX, "night.log")
    launch, findings = read(tmp_path, gzip.compress(UNIX.encode()), "night.log.gz")
    assert (launch, findings) == (expected, [])


STAMP = "3/9/2011  9:13:39 AM"


def stamped(*stamps: str, header: str = "") -> str:
    return header + "".join(WINDOWS_FULL.replace(STAMP, stamp) for stamp in stamps)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (stamped("01/09/2026 07:00:01 AM"), None),
        (stamped("31/08/2026 11:00:01 PM", "01/09/2026 07:00:01 AM"), (2026, 9, 1, 7, 0, 1)),
        (stamped("08/31/2026 11:00:01 PM", "01/09/2026 07:00:01 AM"), (2026, 1, 9, 7, 0, 1)),
        (
            stamped("01/09/2026 07:00:01 AM", header="1    Report   06:58 Tuesday, September 1, 2026\n"),
            (2026, 9, 1, 7, 0, 1),
        ),
        (
            stamped("01/09/2026 07:00:01 AM", header="1    Report   06:58 Friday, January 9, 2026\n"),
            (2026, 1, 9, 7, 0, 1),
        ),
        (stamped("01/09/2026 07:00:01 AM", header="1  Report  06:58 Friday, May 8, 2026\n"), None),
        (
            "2026-09-01T07:00:02,123 INFO  [00000022] :sas - " + stamped("01/09/2026 07:00:01 AM"),
            (2026, 9, 1, 7, 0, 1),
        ),
        # Ten hours from the first of the month to the second are no month.
        (
            stamped("01/09/2026 10:00:01 PM", "02/09/2026 07:00:01 AM")
            + WINDOWS_STIMER[WINDOWS_STIMER.index("NOTE: The SAS System") :].replace(
                "1:10.00", "10:00:00.00"
            ),
            (2026, 9, 2, 7, 0, 1),
        ),
    ],
)
def test_other_dates_of_the_log_tell_day_from_month(
    tmp_path: Path, log: str, expected: tuple[int, int, int, int, int, int] | None
) -> None:
    launch, findings = read(tmp_path, log)
    assert launch.ended == (local(*expected) if expected else None)
    assert ("sas-log-date-ambiguous" in names(findings)) == (expected is None)


def test_a_log_of_very_many_notes_needs_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    filler = b"%-9d  MPRINT(LOAD):   select a.key, a.value from lib.a;\n" * 40 % tuple(range(40))
    note = WINDOWS_FULL.encode()
    sizes = {"small.log": 20, "large.log": 20_000}
    used = {}
    for name, notes in sizes.items():
        with (tmp_path / name).open("wb") as file:
            file.writelines(filler + note.replace(b"0.96", b"%d.96" % (n % 1000)) for n in range(notes))
        code = (
            "import pathlib, resource, sys\n"
            "from gridwright.workload.imports.sas_log import read_sas_log\n"
            "launch, _ = read_sas_log(pathlib.Path(sys.argv[1]), number=1, node='n')\n"
            "print(launch.real_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        real, kilobytes = done.stdout.split()
        assert float(real) == pytest.approx(sum(n % 1000 + 0.96 for n in range(notes)))
        used[name] = int(kilobytes)
    assert used["large.log"] < used["small.log"] + 8_000


def test_a_page_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="this is no SAS log"):
        read(tmp_path, page("hello"), "x.html")
