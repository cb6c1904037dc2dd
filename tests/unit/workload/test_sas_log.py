"""SAS logs of several systems and ages, whole and damaged; all of them written for these tests."""

from __future__ import annotations

import gzip
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.errors import Finding, GridwrightError
from gridwright.messages import decode, encode
from gridwright.runs.launch_record import LaunchRecord
from gridwright.workload.imports import sas_log as sas_log_sessions
from gridwright.workload.imports.sas_log import read_sas_log
from gridwright.workload.imports.sas_notes import parse_memory, parse_stamp, parse_time
from gridwright.workload.session import write_step_log
from tests.support.examples import examples
from tests.support.records import launch_record

in_same_directory = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150)
)

UNIX = """\
1                                   The SAS System        06:58 Saturday, November 21, 2026

NOTE: Copyright (c) 2016 by SAS Institute Inc., Cary, NC, USA.
NOTE: SAS initialization used:
      real time           0.84 seconds
      user cpu time       0.03 seconds
      system cpu time     0.05 seconds
      memory              1024.00k
      OS Memory           5672.00k
      Timestamp           11/21/2026 06:57:59 AM
      Page Faults                       37
      Block Output Operations           0

1          data work.a; set big.a; where used = 1; run;
MPRINT(LOAD):   proc sort data=work.a; by k; run;

NOTE: There were 4877 observations read from the data set BIG.A.
NOTE: DATA statement used (Total process time):
      real time           1:02.33
      user cpu time       40.10 seconds
      system cpu time     4.02 seconds
      memory              812,345.67k
      OS Memory           999999999.00k
      Timestamp           11/21/2026 06:59:02 AM
      Step Count                        3  Switch Count  12
      Page Faults                       0
      Voluntary Context Switches        67

NOTE: PROCEDURE SORT used (Total process time):
      real time           1:00:02.50
      user cpu time       30:00.00
      system cpu time     10.00 seconds
\f2                                   The SAS System        06:58 Saturday, November 21, 2026

      memory              2000.00k
      OS Memory           3000.00k
      Timestamp           11/21/2026 07:59:05 AM
      Step Count                        4  Switch Count  0

NOTE: SAS Institute Inc., SAS Campus Drive, Cary, NC USA 27513-2414
NOTE: The SAS System used:
      real time           1:01:06.00
      user cpu time       30:41.00
      system cpu time     15.00 seconds
      memory              900000.50k
      OS Memory           999999999.00k
      Timestamp           11/21/2026 07:59:06 AM
      Step Count                        4  Switch Count  12

"""

WINDOWS_STIMER = """\
NOTE: SAS initialization used:
      real time           1:05.27
      cpu time            0.99 seconds

1    proc import datafile="C:\\data.tsv" out=mydata dbms=tab replace;
NOTE: PROCEDURE IMPORT used:
      real time           2,50 seconds
      cpu time            1.50 seconds


NOTE: SAS Institute Inc., SAS Campus Drive, Cary, NC USA 27513-2414
NOTE: The SAS System used:
      real time           1:10.00
      cpu time            3.50 seconds
"""

WINDOWS_FULL = """\
NOTE: PROCEDURE PRINT used (Total process time):
      real time           0.96 seconds
      user cpu time       0.01 seconds
      system cpu time     0.15 seconds
      Memory                            83k
      OS Memory                         4648k
      Timestamp            3/9/2011  9:13:39 AM
"""


def read(directory: Path, text: str | bytes, name: str = "job.log") -> tuple[LaunchRecord, list[Finding]]:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_sas_log(path, number=7, node="n01")


def names(findings: list[Finding]) -> list[str]:
    return [finding.name for finding in findings]


def local(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))


def test_a_whole_unix_log(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, UNIX, "night.v2.log")
    assert findings == []
    assert (launch.number, launch.test, launch.class_, launch.node) == (7, "night.v2", "command", "n01")
    assert (launch.stream, launch.ok, launch.reason) == (1, True, None)
    assert (launch.real_s, launch.user_s, launch.system_s) == (3666.0, 1841.0, 15.0)
    assert launch.peak_memory_bytes == round(900000.5 * 1024)
    assert launch.cpu_real_ratio == pytest.approx(1856 / 3666)
    assert launch.ended == local(2026, 11, 21, 7, 59, 6)
    assert launch.started == launch.ended - 3666.0
    steps = [(s.procedure, s.real_s, s.user_s, s.system_s, s.peak_memory_bytes, s.line) for s in launch.steps]
    assert steps == [
        ("SAS initialization", 0.84, 0.03, 0.05, 1024 * 1024, 4),
        ("DATA", 62.33, 40.10, 4.02, round(812345.67 * 1024), 18),
        ("SORT", 3602.5, 1800.0, 10.0, 2000 * 1024, 29),
    ]


def test_cpu_time_of_stimer_stands_under_user(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, WINDOWS_STIMER)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert findings[0].level == "info"
    assert (launch.real_s, launch.user_s, launch.system_s) == (70.0, 3.5, None)
    assert launch.cpu_real_ratio == pytest.approx(0.05)
    assert (launch.started, launch.ended, launch.peak_memory_bytes) == (None, None, None)
    assert [(s.procedure, s.real_s, s.user_s, s.system_s) for s in launch.steps] == [
        ("SAS initialization", 65.27, 0.99, None),
        ("IMPORT", 2.5, 1.5, None),
    ]


def test_a_log_without_closing_note_is_summed(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, UNIX[: UNIX.index("NOTE: SAS Institute Inc., SAS")] + WINDOWS_FULL)
    assert names(findings) == ["sas-log-truncated"]
    assert launch.real_s == pytest.approx(0.84 + 62.33 + 3602.5 + 0.96)
    assert launch.user_s == pytest.approx(0.03 + 40.10 + 1800 + 0.01)
    assert launch.system_s == pytest.approx(0.05 + 4.02 + 10 + 0.15)
    assert launch.peak_memory_bytes == round(812345.67 * 1024)


def test_closing_note_without_memory_takes_the_most_of_any_step(tmp_path: Path) -> None:
    launch, _ = read(tmp_path, WINDOWS_FULL + WINDOWS_STIMER)
    assert launch.peak_memory_bytes == 83 * 1024


@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(tmp_path: Path, name: str, newline: str) -> None:
    text = UNIX.replace("BIG.A", "GRÖSSE").replace("\n", newline)
    launch, findings = read(tmp_path, text.encode(name))
    expected, _ = read(tmp_path, UNIX)
    assert findings == []
    assert launch == expected


def test_stray_bytes_and_nuls_between_lines(tmp_path: Path) -> None:
    noisy = (
        UNIX.encode().replace(b"\n      real", b"\n\0\0      real").replace(b"\nNOTE", b"\n\xff\xfe\0\nNOTE")
    )
    launch, findings = read(tmp_path, noisy)
    assert findings == []
    assert (launch.real_s, launch.user_s, len(launch.steps)) == (3666.0, 1841.0, 3)


def test_notes_indented_or_behind_the_prefix_of_the_logging_facility(tmp_path: Path) -> None:
    whole, _ = read(tmp_path, UNIX)
    indented, _ = read(tmp_path, "".join(f"   {line}\n" for line in UNIX.split("\n")))
    prefix = "2026-11-21T07:00:00,123 INFO  [00000022] :sasdemo - "
    logged, _ = read(tmp_path, "".join(f"{prefix}{line}\n" for line in UNIX.split("\n")))
    assert indented == whole
    assert logged == whole


def test_a_note_that_the_program_only_quotes_is_none(tmp_path: Path) -> None:
    quoted = "".join(f"{n}    {line}\n" for n, line in enumerate(UNIX.split("\n"), 10))
    mprint = "".join(f"MPRINT(M):   {line}\n" for line in UNIX.split("\n"))
    launch, _ = read(tmp_path, quoted + mprint + WINDOWS_STIMER)
    assert (launch.real_s, len(launch.steps)) == (70.0, 2)


def test_noise_within_a_note(tmp_path: Path) -> None:
    noisy = WINDOWS_FULL.replace("      user", "MPRINT(M):   run;\n\n12   %put x;\n      user")
    launch, _ = read(tmp_path, noisy)
    assert (launch.real_s, launch.user_s, launch.system_s) == (0.96, 0.01, 0.15)


def test_figures_far_below_a_note_are_not_its_own(tmp_path: Path) -> None:
    launch, _ = read(tmp_path, WINDOWS_STIMER + "put x;\n" * 4 + "      memory    1234k\n")
    assert launch.peak_memory_bytes is None


def test_time_of_a_view_is_part_of_its_reader(tmp_path: Path) -> None:
    view = WINDOWS_FULL.replace("PROCEDURE PRINT", "View WORK.V.VIEW")
    launch, _ = read(tmp_path, view + WINDOWS_FULL)
    assert [step.procedure for step in launch.steps] == ["VIEW WORK.V.VIEW", "PRINT"]
    assert (launch.real_s, launch.user_s) == (0.96, 0.01)


def test_actions_of_proc_cas_are_part_of_it(tmp_path: Path) -> None:
    action = (
        "NOTE: Action 'simple.summary' used (Total process time):\nNOTE:       real time     9.9 seconds\n"
    )
    launch, _ = read(tmp_path, action + WINDOWS_FULL)
    assert (launch.real_s, len(launch.steps)) == (0.96, 1)


def test_of_appended_sessions_the_last_counts(tmp_path: Path) -> None:
    failed = UNIX.replace("\nMPRINT", "\nERROR: File BIG.A does not exist.\nMPRINT")
    launch, findings = read(tmp_path, failed + WINDOWS_STIMER)
    assert names(findings) == ["sas-log-several-sessions", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.ok, launch.ended) == (70.0, True, None)
    again, _ = read(tmp_path, UNIX + failed)
    assert (again.ok, again.reason) == (
        False,
        f"ERROR: File BIG.A does not exist. (line {UNIX.count(chr(10)) + 15} of the log)",
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ERROR: Libref POLICE is not assigned.", "ERROR: Libref POLICE is not assigned."),
        (" ERROR 180-322: Statement is not valid.", "ERROR 180-322: Statement is not valid."),
        ("ERROR: Grö\x1b[1m\u2028ße", "ERROR: Grö [1m ße"),
        (
            "NOTE: The SAS System stopped processing this step because of errors.",
            "NOTE: The SAS System stopped processing this step because of errors.",
        ),
        (
            "ERROR: Execution terminated by an ABORT statement at line 1 column 5.",
            "ERROR: Execution terminated by an ABORT statement at line 1 column 5.",
        ),
    ],
)
def test_the_first_failure_is_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    text = f"1    data a;\n{line}\nERROR: A second one.\n{WINDOWS_STIMER}"
    launch, _ = read(tmp_path, text)
    assert (launch.ok, launch.reason) == (False, f"{reason} (line 2 of the log)")
    assert launch.real_s == 70.0


@pytest.mark.parametrize(
    "line",
    [
        "12   %put ERROR: no file;",
        "MPRINT(M):   put 'ERROR: x';",
        "WARNING: ERROR",
        "ERRORS= 3",
        "_ERROR_=1 _N_=1",
    ],
)
def test_what_is_no_failure(tmp_path: Path, line: str) -> None:
    launch, _ = read(tmp_path, f"{line}\n{WINDOWS_STIMER}")
    assert launch.ok


def test_day_first_dates_are_told_by_another_of_the_log(tmp_path: Path) -> None:
    def note(stamp: str) -> str:
        return WINDOWS_FULL.replace("3/9/2011  9:13:39 AM", stamp)

    day_first, findings = read(tmp_path, note("31/08/2026 23:00:00") + note("01/09/2026 07:00:01"))
    assert day_first.ended == local(2026, 9, 1, 7, 0, 1)
    assert names(findings) == ["sas-log-truncated"]
    unknown, findings = read(tmp_path, note("01/09/2026 07:00:01"))
    assert (unknown.started, unknown.ended) == (None, None)
    assert names(findings) == ["sas-log-truncated", "sas-log-date-ambiguous"]
    torn, findings = read(tmp_path, note("31/08/2026 07:00:01") + note("08/31/2026 07:00:01"))
    assert torn.ended is None
    assert "sas-log-date-ambiguous" in names(findings)


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("11/21/2026 07:00:00 AM", (2026, 11, 21, 7, 0, 0)),
        ("3/13/2011  9:13:39 PM", (2011, 3, 13, 21, 13, 39)),
        ("16/03/2011 09:13:39 PM", (2011, 3, 16, 21, 13, 39)),
        ("2011-03-09 09:13:39 下午", (2011, 3, 9, 21, 13, 39)),
        ("12/31/2026 12:00:00 AM", (2026, 12, 31, 0, 0, 0)),
        ("12/31/2026 12:00:00 PM", (2026, 12, 31, 12, 0, 0)),
        ("21/11/2026 19:00:00", (2026, 11, 21, 19, 0, 0)),
        ("5/5/2026 19:00:00", (2026, 5, 5, 19, 0, 0)),
        ("05.06.2026 19:00:00", (2026, 6, 5, 19, 0, 0)),
        ("2026-11-21T19:00:00", (2026, 11, 21, 19, 0, 0)),
        ("2026/11/21 19:00", (2026, 11, 21, 19, 0, 0)),
        ("21NOV2026:19:00:00.123", (2026, 11, 21, 19, 0, 0)),
    ],
)
def test_timestamps(tmp_path: Path, stamp: str, expected: tuple[int, int, int, int, int, int]) -> None:
    launch, _ = read(tmp_path, WINDOWS_FULL.replace("3/9/2011  9:13:39 AM", stamp))
    assert launch.ended == local(*expected)


@pytest.mark.parametrize(
    "stamp",
    ["", "11/21/26 07:00:00 AM", "13/32/2026 07:00:00", "21XXX2026:19:00:00", "11/21/2026 25:00:00", "now"],
)
def test_what_is_no_timestamp(stamp: str) -> None:
    assert parse_stamp(stamp) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("236k", 236 * 1024),
        ("236 KB", 236 * 1024),
        ("1234.56k", round(1234.56 * 1024)),
        ("1234,56k", round(1234.56 * 1024)),
        ("12,345.67k", round(12345.67 * 1024)),
        ("12.345,67k", round(12345.67 * 1024)),
        ("12,345k", 12345 * 1024),
        ("1,234,567K", 1234567 * 1024),
        ("1.5m", 3 << 19),
        ("2GB", 2 << 30),
        ("236", None),
        ("k", None),
        ("-5k", None),
    ],
)
def test_memory(text: str, size: int | None) -> None:
    assert parse_memory(text) == size


@given(st.integers(0, 100 * 3600 * 100 - 1), st.sampled_from([".", ","]))
def test_times_round_trip(hundredths: int, point: str) -> None:
    seconds, part = divmod(hundredths, 100)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    end = f"{second:02}{point}{part:02}"
    assert parse_time(f"{hour}:{minute:02}:{end}") == pytest.approx(hundredths / 100, abs=1e-9)
    assert parse_time(f"{minutes}:{end}") == pytest.approx(hundredths / 100, abs=1e-9)
    assert parse_time(f"{seconds}{point}{part:02} seconds") == pytest.approx(hundredths / 100, abs=1e-9)


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "1..2 seconds", "3 fortnights", "9" * 5000])
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None


def test_a_log_without_cpu_time(tmp_path: Path) -> None:
    launch, findings = read(tmp_path, "NOTE: DATA statement used:\n      real time           1.80 seconds\n")
    assert (launch.real_s, launch.user_s, launch.cpu_real_ratio) == (1.8, None, None)
    assert names(findings) == ["sas-log-truncated", "sas-log-no-cpu-time"]


def test_no_real_time_gives_no_ratio(tmp_path: Path) -> None:
    launch, _ = read(tmp_path, WINDOWS_STIMER.replace("1:10.00", "0.00 seconds"))
    assert (launch.real_s, launch.cpu_real_ratio) == (0.0, None)


def test_of_very_many_steps_the_longest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sas_log_sessions, "MOST_STEPS", 10)
    monkeypatch.setattr("gridwright.workload.imports.sas_log.MOST_STEPS", 10)
    order = [(n * 37) % 101 for n in range(101)]
    launch, findings = read(tmp_path, "".join(WINDOWS_FULL.replace("0.96", f"{n}.00") for n in order))
    assert names(findings) == ["sas-log-truncated", "sas-log-date-ambiguous", "sas-log-steps-left-out"]
    assert [step.real_s for step in launch.steps] == [float(n) for n in order if n > 90]
    assert launch.real_s == sum(order)


def test_a_record_can_be_written_for_any_file_name(tmp_path: Path) -> None:
    launch, _ = read(tmp_path, UNIX, "nicht\udcff.log")
    assert decode(encode(launch).decode(), LaunchRecord) == launch


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the log is empty"),
        ("hello\n", "this is no SAS log"),
        ("NOTE: The following variables are used:\n a b c\n", "this is a SAS log without times"),
        (
            "NOTE: Verwendet wurde: PROZEDUR SORT\n  Echtzeit  0.1 Sekunden\n",
            "this is a SAS log without times",
        ),
        ("NOTE: PROCEDURE SORT used:\n real time 1.0".encode("cp037"), "its text is in EBCDIC"),
        (gzip.compress(b"NOTE: DATA statement used:\n" * 99, mtime=0)[:-20], "it cannot be unpacked"),
        (b"\0" * 100_000, "this is no SAS log"),
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str | bytes, what: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.what.startswith(what)
    assert problem.where == str(tmp_path / "job.log")
    assert problem.remedy


@pytest.mark.parametrize("path", ["missing.log", ".", "/dev/zero"])
def test_what_cannot_be_read(tmp_path: Path, path: str) -> None:
    with pytest.raises(GridwrightError, match=r"cannot be read|no file"):
        read_sas_log(tmp_path / path, number=1, node="n")


def test_a_pipe_that_nobody_writes_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(GridwrightError, match="no file"):
        read_sas_log(tmp_path / "pipe.log", number=1, node="n")


PIECES = [
    b"NOTE: ",
    b"PROCEDURE SORT used (Total process time):\n",
    b"The SAS System used:\n",
    b"SAS initialization used:\n",
    b"      real time   1:02.33\n",
    b"cpu time   ",
    b"0.50 seconds\n",
    b"memory  99,9k\n",
    b"Timestamp   1/2/2026 07:00:00 AM\n",
    b"Timestamp   31.12.9999 23:59:59\n",
    b"ERROR: x\n",
    b"stopped processing",
    b"\n",
    b"\xff\xfe",
    b"\0",
    b"\f",
    b"\r\n",
]


@in_same_directory
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=60).map(b"".join))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    try:
        launch, _ = read(tmp_path, content)
    except GridwrightError:
        return
    encode(launch)
    assert launch.ok == (launch.reason is None)


@in_same_directory
@given(st.integers(0, len(UNIX)), st.sampled_from(["utf-8", "utf-16"]))
def test_a_log_cut_anywhere_tells_no_false_figure(tmp_path: Path, end: int, encoding: str) -> None:
    whole, _ = read(tmp_path, UNIX)
    content = UNIX.encode(encoding)
    try:
        launch, findings = read(tmp_path, content[: end * len(content) // len(UNIX)])
    except GridwrightError:
        return
    for step, full in zip(launch.steps, whole.steps, strict=False):
        for name in ("procedure", "real_s", "user_s", "system_s", "peak_memory_bytes", "line"):
            assert getattr(step, name) in (getattr(full, name), None)
    if "sas-log-truncated" not in names(findings):
        assert (launch.real_s, launch.user_s, launch.system_s) == (3666.0, 1841.0, 15.0)


def test_a_big_log_needs_little_memory(tmp_path: Path) -> None:
    source = b"".join(b"%-9d  MPRINT(LOAD):   select a.key from lib.a;\n" % n for n in range(20_000))
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        while file.tell() < 40e6:
            file.write(source)
            file.write(WINDOWS_FULL.encode())
        # One line of more than ten million bytes, which holds the words that are sought.
        file.write(b"NOTE: used ERROR " * 600_000 + b"\n")
        file.write(UNIX.encode())
    tracemalloc.start()
    try:
        launch, findings = read_sas_log(path, number=1, node="n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8e6
    assert (launch.real_s, findings) == (3666.0, [])
    content = path.read_bytes()
    last = content[: content.rindex(b"NOTE: PROCEDURE SORT")].count(b"\n") + 1
    assert launch.steps[-1].line == last


# Sessions of SAS/CONNECT within the log of a job, and sessions one after the other.


def note(subject: str, real_s: float, cpu_s: float) -> str:
    times = f"      real time           {real_s:.2f} seconds\n      cpu time            {cpu_s:.2f} seconds\n"
    return f"NOTE: {subject} used:\n{times}\n"


def start(cpu_s: float = 0.5) -> str:
    return note("SAS initialization", 1.0, cpu_s)


def step(real_s: float, cpu_s: float, name: str = "SORT") -> str:
    return note(f"PROCEDURE {name}", real_s, cpu_s)


def close(real_s: float, cpu_s: float) -> str:
    return note("The SAS System", real_s, cpu_s)


def remote(what: str, name: str, within: str = "") -> str:
    word = "from" if what == "signoff" else "to"
    release = " (SAS Release 9.04.01M6P110718)" if what == "signon" else ""
    return (
        f"41   {what} {name};\nNOTE: Remote {what} {word} {name} commencing{release}.\n{within}"
        f"NOTE: Remote {what} {word} {name} complete.\n"
    )


def connected(name: str, steps: str, closing: str = "") -> str:
    """A session that is signed on to, used and, with its closing note, signed off from."""
    log = remote("signon", name, start()) + remote("submit", name, steps)
    return log + (remote("signoff", name, closing) if closing else "")


def test_cpu_time_of_a_nested_session_is_the_jobs(tmp_path: Path) -> None:
    log = (
        start()
        + step(60, 50)
        + connected("TASK1", step(600, 500), close(610, 505))
        + step(30, 20)
        + close(720, 75)
    )
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (720.0, 580.0)
    assert [(each.procedure, each.session) for each in launch.steps] == [
        ("SAS initialization", None),
        ("SORT", None),
        ("SAS initialization", "TASK1"),
        ("SORT", "TASK1"),
        ("SORT", None),
    ]


def test_a_nested_session_without_a_closing_note_counts_by_its_steps(tmp_path: Path) -> None:
    log = start() + step(60, 50) + connected("TASK1", step(600, 500)) + step(30, 20) + close(720, 75)
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-nested-session-open", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (720.0, 575.5)


def test_a_nested_session_after_one_that_closed_loses_nothing(tmp_path: Path) -> None:
    first = connected("TASK1", step(600, 500), close(610, 505))
    log = start() + step(60, 50) + first + connected("TASK2", step(300, 200)) + step(30, 20) + close(1030, 75)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s, len(launch.steps)) == (1030.0, 505 + 200.5 + 75, 7)


def test_where_the_log_is_cut_the_nested_closing_note_is_not_the_jobs(tmp_path: Path) -> None:
    log = start() + step(600, 500) + connected("TASK1", step(60, 50), close(70, 52)) + step(30, 20)
    launch, findings = read(tmp_path, log)
    assert "sas-log-truncated" in names(findings)
    assert (launch.real_s, launch.user_s) == (1 + 600 + 70 + 30, 0.5 + 500 + 52 + 20)


def test_sessions_in_the_background_speak_when_their_log_is_fetched(tmp_path: Path) -> None:
    begun = "".join(
        remote("signon", name, start())
        + f"NOTE: Remote submit to {name} commencing.\n"
        + f"NOTE: Background remote submit to {name} in progress.\n"
        for name in ("A", "B")
    )
    fetched = remote("submit", "B", step(100, 90, "REG")) + remote("submit", "A", step(120, 110, "GLM"))
    log = start() + begun + step(50, 40) + fetched + remote("signoff", "A", close(130, 111)) + close(140, 41)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s) == (140.0, 41 + 111 + 90.5)
    assert [(each.procedure, each.session) for each in launch.steps][-3:] == [
        ("SORT", None),
        ("REG", "B"),
        ("GLM", "A"),
    ]


def test_a_session_within_a_nested_one(tmp_path: Path) -> None:
    inner = connected("INNER", step(100, 90), close(105, 92))
    log = start() + connected("OUTER", step(50, 40) + inner + step(20, 10), close(190, 52)) + close(200, 1)
    launch, _ = read(tmp_path, log)
    assert (launch.real_s, launch.user_s) == (200.0, 92 + 52 + 1)


@pytest.mark.parametrize("closing", ["", close(620, 502)])
def test_sessions_that_no_note_names(tmp_path: Path, closing: str) -> None:
    log = start() + step(60, 50) + start() + step(600, 500) + closing
    whole, _ = read(tmp_path, log + step(30, 20) + close(720, 75) if closing else log + close(720, 75))
    assert (whole.real_s, whole.user_s) == (720.0, 75 + (502 if closing else 500.5))
    cut, findings = read(tmp_path, log)
    assert "sas-log-truncated" in names(findings)
    assert cut.real_s == (1 + 60 + 620 if closing else 1 + 60 + 1 + 600)


def test_a_new_first_page_begins_another_job_even_after_one_that_was_cut(tmp_path: Path) -> None:
    header = "1                     The SAS System        06:58 Saturday, November 21, 2026\n\n"
    launch, findings = read(tmp_path, header + start() + step(600, 500) + header + start() + close(20, 2))
    assert names(findings) == ["sas-log-several-sessions", "sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (20.0, 2.0)


def test_notes_of_another_name_are_no_sessions(tmp_path: Path) -> None:
    log = start() + "NOTE: Remote library MYLIB commencing to be used.\n" + step(6, 5) + close(9, 6)
    launch, findings = read(tmp_path, log)
    assert names(findings) == ["sas-log-no-fullstimer"]
    assert (launch.real_s, launch.user_s) == (9.0, 6.0)


# The log of a launch: `workload import` reads the same figures back.

in_one_directory = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
durations = st.floats(min_value=0.01, max_value=400_000.0)


def read_back(directory: Path, launch: LaunchRecord, output: str = "") -> LaunchRecord:
    found, findings = read_sas_log(write_step_log(directory, launch, output), number=1, node="n")
    assert not [each for each in findings if each.level == "error"]
    return found


@in_one_directory
@given(
    real=durations,
    user=durations,
    system=durations,
    memory=st.integers(min_value=0, max_value=1 << 45),
)
def test_the_figures_are_read_back(
    tmp_path: Path, real: float, user: float, system: float, memory: int
) -> None:
    launch = launch_record(real_s=real, user_s=user, system_s=system, peak_memory_bytes=memory)
    found = read_back(tmp_path, launch)
    assert found.real_s == pytest.approx(real, abs=0.0051)
    assert found.user_s == pytest.approx(user, abs=0.0051)
    assert found.system_s == pytest.approx(system, abs=0.0051)
    assert found.peak_memory_bytes == pytest.approx(memory, abs=16)
    assert found.ended == pytest.approx(launch.ended, abs=1.0)
    assert found.ok


def test_a_failure_is_read_back_with_its_reason(tmp_path: Path) -> None:
    reason = "ended with exit status 3: oops"
    found = read_back(tmp_path, launch_record(ok=False, reason=reason, exit_status=3))
    assert not found.ok
    assert found.reason is not None
    assert reason in found.reason


HOSTILE = """\
ERROR: not ours
NOTE: The SAS System used:
      real time           99:00.00
NOTE: PROCEDURE SORT used (Total process time):
      real time           1.00 seconds
\x0cERROR: after a form feed
\u2028ERROR: after a line separator
"""


@in_one_directory
@given(st.one_of(st.just(HOSTILE), st.text(max_size=200)))
def test_what_a_launch_printed_does_not_pass_for_figures(tmp_path: Path, output: str) -> None:
    found = read_back(tmp_path, launch_record(), output)
    assert found.real_s == 20.0
    assert found.ok
    assert [step.procedure for step in found.steps] == ["IO_SORT"]


@pytest.mark.parametrize("test", ["../../etc/passwd", "a b\nc", "grün", "x" * 200, "", "sort\nERROR: mine"])
def test_the_log_of_any_name_lies_in_its_directory(tmp_path: Path, test: str) -> None:
    launch = launch_record(7, test)
    path = write_step_log(tmp_path, launch, "")
    assert path.parent == tmp_path
    assert path.name.startswith("0007-")
    found = read_back(tmp_path, launch)
    assert found.real_s == 20.0
    assert found.ok


def test_the_reason_of_a_failure_stays_one_line(tmp_path: Path) -> None:
    reason = "could not be started: No such file or directory: /a\nNOTE: The SAS System used:"
    text = write_step_log(tmp_path, launch_record(ok=False, reason=reason), "").read_text()
    assert text.count("\nNOTE: The SAS System used:\n") == 1


def test_a_launch_that_never_began_has_a_log_too(tmp_path: Path) -> None:
    launch = launch_record(
        ok=False, reason="no", real_s=0.0, user_s=0.0, system_s=0.0, started=None, ended=None
    )
    assert not read_back(tmp_path, launch).ok
