"""`--repeat`: one run directory holds all repeats, and those that were stopped keep what they measured."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.command import Command

FLAGS = ("--phases", "write", "--size", "256KiB", "--streams", "1", "--allow-disturbed")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    return tmp_path / "library"


def test_a_test_is_repeated_and_compared(tmp_path: Path, library: Path) -> None:
    gridwright = Command(tmp_path)
    ended = gridwright("iotest", "--directory", library, *FLAGS, "--repeat", "3", "--json")
    assert ended.status == 0, ended.err
    (found,) = ended.json["libraries"]
    rates = [phase["per_core_bytes_per_s"] for phase in found["phases"]]
    assert [phase["repeat"] for phase in found["phases"]] == [1, 2, 3]
    (write,) = found["repeats"]
    assert (write["of"], write["ran"], write["values"]) == ("write", 3, rates)
    assert write["median"] == sorted(rates)[1]
    assert "repeat 3 of 3" in ended.err
    assert list(library.iterdir()) == []
    compared = gridwright("runs", "compare", "last", "last", "--json").json["figures"]
    assert compared
    assert all(each["noise"] is not None and each["differs"] is False for each in compared)


def test_a_stopped_repeat_leaves_the_ones_before(tmp_path: Path, library: Path) -> None:
    gridwright = Command(tmp_path)
    flags = [flag if flag != "256KiB" else "1GiB" for flag in FLAGS]
    with gridwright.start(
        "iotest", "--directory", library, *flags, "--seconds", "1", "--repeat", "9"
    ) as running:
        running.says("repeat 2 of 9")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130, ended.err
    (record,) = gridwright.runs.glob("*/iotest.json")
    (found,) = json.loads(record.read_text())["libraries"]
    assert found["phases"][0]["status"] == "complete"
    assert found["repeats"][0]["values"][0] == found["phases"][0]["per_core_bytes_per_s"]
    assert found["repeats"][0]["ran"] < 9
    assert list(library.iterdir()) == []
