"""Atomic files and the journal: a reader sees the old file or the whole new one."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gridwright.atomic import write_atomically
from gridwright.runs.journal import Journal, read_journal
from gridwright.runs.process import is_alive, process_facts


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    write_atomically(file, "grün")
    assert file.read_text() == "grün"
    write_atomically(file, b"\0\1")
    assert file.read_bytes() == b"\0\1"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("size", [1 << 15, (1 << 16) + 1, 1_234_567])
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_large_files_are_written_past_the_cache_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, where: str
) -> None:
    """Kernels before 6.6 refuse it in memory (tmpfs); what is written is the same."""
    told: list[int] = []
    real = fcntl.fcntl

    def heard(descriptor: int, command: int, flags: int = 0) -> int:
        told.append(flags)
        return real(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", heard)
    directory = tmp_path if where == "disk" else Path("/dev/shm")
    file = directory / f"gridwright-test-{os.getpid()}"
    try:
        content = os.urandom(size)
        write_atomically(file, content)
        assert file.read_bytes() == content
        assert any(flags & os.O_DIRECT for flags in told)
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fsync", OSError(28, "No space left on device")),
        ("rename", OSError(28, "No space left on device")),
        ("fsync", KeyboardInterrupt()),
    ],
    ids=["full when flushed", "full when renamed", "interrupted in between"],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    file = tmp_path / "run.json"
    write_atomically(file, "old")

    def fail(*_: Any, **_named: Any) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error), match=r"No space|^$"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_links_in_a_directory_of_somebody_else_are_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").symlink_to(outside)
    # The name that it had for a process, which can be guessed: each one leads out.
    for pid in (os.getpid(), os.getpid() + 1):
        (run / f".report.html.{pid}.part").symlink_to(outside)
    write_atomically(run / "report.html", "page")
    assert outside.read_text() == "mine"
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_text() == "page"


def test_a_directory_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "report.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_events_come_back_in_order(tmp_path: Path) -> None:
    events = [{"event": "sample", "n": number, "text": "zwei\nZeilen"} for number in range(5)]
    with Journal(tmp_path / "journal") as journal:
        for event in events:
            journal.append(event, durable=event["n"] == 4)
    assert list(read_journal(tmp_path / "journal")) == events


@pytest.mark.parametrize("cut", [1, 5, 17])
def test_a_line_torn_in_the_middle_ends_the_journal(tmp_path: Path, cut: int) -> None:
    lines = [json.dumps({"event": "sample", "n": number}) + "\n" for number in range(4)]
    torn = "".join(lines[:2]) + lines[2][:cut] + "\n" + lines[3]
    (tmp_path / "journal").write_text(torn)
    assert [event["n"] for event in read_journal(tmp_path / "journal")] == [0, 1]


def test_this_process_is_alive_and_a_reused_number_is_not_it() -> None:
    facts = process_facts()
    assert is_alive(facts) is True
    assert is_alive(facts | {"started": 1.0}) is False
    assert is_alive(facts | {"pid": 2**22 + 1}) is False
    assert is_alive(facts | {"boot_id": "another boot"}) is False
    assert is_alive(facts | {"host": "another host"}) is None


@pytest.mark.parametrize("pid", [None, "7", -1, 2**70, True])
def test_a_process_that_cannot_be_is_not_alive(pid: Any) -> None:
    assert is_alive(process_facts() | {"pid": pid}) is False
