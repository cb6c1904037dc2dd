"""How SAS words a timing note: in English on each of its systems, in Chinese and in Japanese.

FULLSTIMER writes on UNIX and Windows; STIMER leaves out all but the real time and one CPU time:

    NOTE: PROCEDURE SORT used (Total process time):
          real time           1:02.33
          user cpu time       40.10 seconds
          system cpu time     4.02 seconds
          memory              812345.67k
          OS Memory           830000.00k
          Timestamp           11/21/2026 07:00:00 AM
          Step Count                        3  Switch Count  12
          Block Input Operations            4096
          Block Output Operations           128

and on z/OS, where STIMER has one line of two figures, and none of them is the real time; so has version 6
on Windows, with the real time alone:

    NOTE: The PROCEDURE SORT used the following resources:
          CPU     time -         00:00:40.10
          Elapsed time -         00:01:02.33
          Task  memory -         1602K (38K data, 1564K program)

    NOTE: The DATA statement used 0.02 CPU seconds and 1602K.
    NOTE: The DATA statement used 0.93 seconds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CLOSING = "SAS SYSTEM"
INITIALIZATION = "SAS initialization"

_OPEN, _CLOSE, _COLON = "[（(]", "[）)]", "[:：]"  # noqa: RUF001 - as wide as Chinese letters
_HEADS = (
    re.compile(
        r"NOTE:\s+(?:The\s+)?(\S.{0,119}?)\s+used"
        r"(?:\s+\(Total process\b.*|\s+the following resources)?\s*:?$",
        re.IGNORECASE,
    ),
    re.compile(rf"NOTE:\s*(\S.{{0,119}}?)\s*所用时间(?:\s*{_OPEN}总处理时间{_CLOSE})?\s*{_COLON}$"),
    re.compile(rf"NOTE:\s*(\S.{{0,119}}?)\s*処理\s*{_OPEN}合計処理時間{_CLOSE}\s*{_COLON}$"),
)
_ONE_LINE = re.compile(
    r"NOTE:\s+(?:The\s+)?(\S.{0,119}?)\s+used\s+"
    r"((?:\d{1,6} hours? )?(?:\d{1,6} minutes? )?\d[\d:.,]{0,15})\s+(CPU )?seconds?"
    r"(?:\s+and\s+(\d[\d,]{0,15}[KMG])(?:B|\b))?[^:]{0,80}$",
    re.IGNORECASE,
)
FIELD = re.compile(
    r"(?P<real_s>real time|elapsed time|实际时间|処理時間)"
    r"|(?P<user_s>user cpu time|用户\s*CPU\s*时间|ユーザー\s*CPU\s*時間)"
    r"|(?P<system_s>system cpu time|系统\s*CPU\s*时间|システム\s*CPU\s*時間)"
    r"|(?P<cpu_s>cpu\s+time|CPU\s*时间|CPU\s*時間)"
    r"|(?P<memory>task\s+memory|memory|内存|メモリ)"
    r"|(?P<read_blocks>block input operations)"
    r"|(?P<written_blocks>block output operations)"
    r"|(?P<stamp>timestamp|时间戳|タイムスタンプ)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\s*-?\s+(\S.*)")
_OTHER_FIELDS = re.compile(
    r"os memory|os 内存|os\s*メモリ|step count|步骤计数|ステップ|total memory|excp count|page |"
    r"voluntary context|involuntary context|semaphores|sas task context|"
    r"rsm hiperspace|vector|(?:non-)?preemptible|threads|switch count",
    re.IGNORECASE,
)
# A note that ends the one before it. CAS actions write each of their figures as a note of its own, and
# their times are part of the procedure's: so they are never taken.
_NEXT = re.compile(r"(?:NOTE|WARNING|ERROR|INFO)\b")
# The last line of a log that was cut can hold a shortened number; these cannot be a shortened one.
_COMPLETE = re.compile(r"seconds?\.?$|秒$|:\d\d[.,]\d\d$|k$|[AP]M$|program\)$", re.IGNORECASE)

_QUOTES = "“”\"'「」 "
_PROCEDURE = ("PROCEDURE", "プロシジャ")
_FIRST_WORDS = {"DATA": "DATA", "DATAステートメント": "DATA", "SQL": "SQL"}
_KNOWN_NAMES = {
    **dict.fromkeys(("sas system", "sas session", "sas 系统", "sas システム"), CLOSING),
    **dict.fromkeys(
        ("sas initialization", "initialization phase", "sas 初始化", "sas の初期化"), INITIALIZATION
    ),
}


class Figure(NamedTuple):
    """One figure of a timing note: which of its fields, and the value as written."""

    field: str
    value: str
    whole: bool
    """Whether the value cannot be a shortened one."""


class OneLine(NamedTuple):
    """A note that tells its figures in its own line."""

    name: str
    time: str
    is_cpu: bool
    memory: str | None


def head_name(line: str) -> str | None:
    """The name of the step whose timing note this line begins; None if it begins none."""
    for head in _HEADS:
        if match := head.match(line):
            return step_name(match[1])
    return None


def one_line_note(line: str) -> OneLine | None:
    """Read a timing note of a single line; None if this is none."""
    match = _ONE_LINE.match(line)
    if match is None:
        return None
    return OneLine(step_name(match[1]), match[2], bool(match[3]), match[4])


def figure(line: str) -> Figure | None:
    """Read a line below the head of a note; None if it holds no figure that is wanted."""
    match = FIELD.match(line)
    value = _VALUE.match(line, match.end()) if match else None
    if match is None or value is None or match.lastgroup is None:
        return None
    return Figure(match.lastgroup, value[1], _COMPLETE.search(line) is not None)


def is_other_figure(line: str) -> bool:
    """Whether a line of a note holds a figure that nobody asks for."""
    return _OTHER_FIELDS.match(line) is not None


def begins_another(line: str) -> bool:
    """Whether a line ends the note before it."""
    return _NEXT.match(line) is not None


def is_spoken_of(line: str) -> bool:
    """Whether a line with letters beyond ASCII is one of a timing note."""
    return head_name(line) is not None or figure(line) is not None or is_other_figure(line)


def step_name(subject: str) -> str:
    """Name a step as its procedure, DATA, or what else the note is about."""
    words = subject.strip(_QUOTES).split() or [subject]
    plain = " ".join(words)
    first = words[0].upper()
    if known := _KNOWN_NAMES.get(plain.lower()) or _FIRST_WORDS.get(first):
        return known
    if first in _PROCEDURE and len(words) > 1:
        return words[1].upper()
    if first == "VIEW":
        return plain.upper()
    return "".join(letter for letter in plain if letter.isprintable())
