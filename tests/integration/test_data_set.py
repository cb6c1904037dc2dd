"""The data set: the same from the same seed, kept from run to run, finished where it is not whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.runs.workload_events import TableMade, WorkloadEvent
from gridwright.workload.data_set import HOME, DataSet, Locked, remove_data
from gridwright.workload.datasets.catalogue import TABLES
from gridwright.workload.datasets.table import Checksum
from gridwright.workload.datasets.writer import PARTIAL
from gridwright.workload.messages import scale
from gridwright.workload.prepare import Stopped, missing_tables, prepare
from tests.support.command import wait_until

SMALL = replace(scale("tiny"), units=dict.fromkeys(TABLES, 2000))
PAIR = {"accounts", "transactions"}
Event = dict[str, Any]


def data_set(library: Path, seed: int = 1) -> DataSet:
    return DataSet.of(library, SMALL, seed)


def make(data: DataSet, tables: set[str] = PAIR, copies: int = 1) -> list[TableMade]:
    """Have it made; returns what was told of each table."""
    events: list[WorkloadEvent] = []
    prepare(data, tables, copies, workers=2, emit=events.append, stopped=lambda: False)
    return [event for event in events if isinstance(event, TableMade)]


def hashes(data: DataSet) -> dict[str, str]:
    return {name: entry["sha256"] for name, entry in data.entries().items()}


def state(data: DataSet) -> dict[str, tuple[int, int]]:
    """Inode and time of change of each table."""
    return {
        str(file): (file.stat().st_ino, file.stat().st_mtime_ns) for file in data.directory.glob("copy-*/*")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """A set of two copies that no test changes."""
    data = data_set(tmp_path_factory.mktemp("whole"))
    make(data, copies=2)
    return data


def test_the_same_seed_gives_the_same_bytes_anywhere(whole: DataSet, tmp_path: Path) -> None:
    again = data_set(tmp_path)
    made = make(again, copies=2)
    assert {f"{event.copy}/{event.table}": event.sha256 for event in made} == hashes(whole)
    assert again.entries().keys() == {f"{copy}/{table}" for copy in (0, 1) for table in PAIR}
    for name, entry in again.entries().items():
        assert (again.directory / entry["file"]).read_bytes() == (
            whole.directory / whole.entries()[name]["file"]
        ).read_bytes()


def test_copies_and_seeds_differ(whole: DataSet, tmp_path: Path) -> None:
    other = data_set(tmp_path, seed=2)
    make(other)
    found = hashes(whole)
    for table in PAIR:
        assert len({found[f"0/{table}"], found[f"1/{table}"], hashes(other)[f"0/{table}"]}) == 3


def test_a_whole_set_is_left_alone(whole: DataSet) -> None:
    before = state(whole)
    assert make(whole, copies=2) == []
    assert state(whole) == before


def test_what_is_missing_is_made_and_the_rest_left_alone(tmp_path: Path) -> None:
    data = data_set(tmp_path)
    make(data, {"accounts"})
    before = state(data)
    assert [(event.table, event.copy) for event in make(data)] == [("transactions", 0)]
    assert state(data).items() > before.items()


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", ["truncated", "removed"])
def test_a_damaged_table_is_made_again(whole: DataSet, tmp_path: Path, damage: str) -> None:
    data = data_set(tmp_path)
    make(data)
    file = data.path("accounts", 0, "arrow")
    kept = state(data)[str(data.path("transactions", 0, "arrow"))]
    if damage == "truncated":
        os.truncate(file, file.stat().st_size - 1)
    else:
        file.unlink()
    assert [event.table for event in make(data)] == ["accounts"]
    assert hashes(data)["0/accounts"] == hashes(whole)["0/accounts"]
    assert file.stat().st_size == data.entries()["0/accounts"]["bytes"]
    assert state(data)[str(data.path("transactions", 0, "arrow"))] == kept


def break_manifest(data: DataSet, how: str) -> None:
    file = data.directory / "manifest.json"
    manifest = json.loads(file.read_text())
    entry = manifest["tables"]["0/accounts"]
    if how.startswith("without "):
        del entry[how.removeprefix("without ")]
    elif how == "other units":
        manifest["units"] = manifest["units"] | {"accounts": 1}
    elif how == "a list":
        manifest = [manifest]
    elif how == "a text for a table":
        manifest["tables"]["0/accounts"] = "gone"
    text = json.dumps(manifest)
    file.write_text({"cut": text[: len(text) // 2], "empty": "", "no text": "\x00" * 50}.get(how, text))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "how",
    [
        *(f"without {name}" for name in ("checksum", "rows", "expected", "bytes", "file", "sha256")),
        *("other units", "a list", "a text for a table", "cut", "empty", "no text"),
    ],
)
def test_a_damaged_manifest_is_made_good(tmp_path: Path, how: str) -> None:
    data = data_set(tmp_path)
    (data.directory / "copy-0").mkdir(parents=True)
    table = data.path("accounts", 0, "arrow")
    table.write_bytes(b"12345")
    entry = {
        "file": "copy-0/accounts.arrow",
        "bytes": 5,
        "rows": 1,
        "sha256": "",
        "checksum": "",
        "expected": {},
    }
    manifest = {"schema": 1, "units": SMALL.units, "tables": {"0/accounts": entry}}
    (data.directory / "manifest.json").write_text(json.dumps(manifest))
    assert missing_tables(data, {"accounts"}, 1) == []
    break_manifest(data, how)
    assert missing_tables(data, {"accounts"}, 1) == [("accounts", 0)]
    assert data.facts(0) == {}


def test_a_set_is_finished_after_its_manifest_was_lost(whole: DataSet, tmp_path: Path) -> None:
    data = data_set(tmp_path)
    make(data, {"accounts"})
    (data.directory / "manifest.json").write_text("{")
    make(data)
    assert hashes(data).items() <= hashes(whole).items()
    assert missing_tables(data, PAIR, 1) == []


def test_what_a_killed_maker_left_half_written_is_cleared(tmp_path: Path) -> None:
    data = data_set(tmp_path)
    (data.directory / "copy-0").mkdir(parents=True)
    half = data.path("accounts", 0, f"arrow{PARTIAL}")
    half.write_bytes(b"half")
    make(data, {"transactions"})
    assert not half.exists()


def test_an_order_to_stop_leaves_no_half_table(tmp_path: Path) -> None:
    others = psutil.Process().children()
    data = data_set(tmp_path)
    with pytest.raises(Stopped):
        prepare(data, PAIR, 1, workers=2, emit=lambda _: None, stopped=lambda: True)
    assert [*data.directory.rglob(f"*{PARTIAL}")] == []
    assert [each for each in psutil.Process().children() if each not in others] == []
    make(data)


def test_the_lock_keeps_others_out_and_ends_with_its_holder(tmp_path: Path) -> None:
    data = data_set(tmp_path)
    with data.lock():
        with pytest.raises(Locked), data.lock():
            pass
        with pytest.raises(Locked):
            remove_data(tmp_path)
    with data.lock():
        pass


class Maker:
    """The process that makes a set, as the agent starts it."""

    def __init__(self, library: Path, size: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gridwright.workload.prepare", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        request = {
            "libraries": dict.fromkeys(("data", "work", "util"), str(library)),
            "scale": size,
            "seed": 1,
            "copies": 1,
            "streams": [["lookup"]],
            "keep": False,
            "workers": 1,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def events(self) -> list[Event]:
        out, _ = self.process.communicate(timeout=120)
        return [json.loads(line) for line in out.splitlines()]


def test_two_makers_at_once_make_each_table_once(tmp_path: Path) -> None:
    told = [maker.events() for maker in [Maker(tmp_path, "tiny"), Maker(tmp_path, "tiny")]]
    made = [event["table"] for events in told for event in events if event["event"] == "table"]
    assert made
    assert len(made) == len(set(made))
    assert [events[-1]["event"] for events in told] == ["ready", "ready"]


def test_a_killed_maker_takes_its_writers_along_and_the_next_one_goes_on(tmp_path: Path) -> None:
    library = tmp_path / HOME
    maker = Maker(tmp_path, "small")
    wait_until(
        lambda: next(library.glob(f"*/copy-0/*{PARTIAL}"), None),
        seconds=60,
        what="a table that is being written",
        last=lambda: [*library.rglob("*")],
    )
    writers = psutil.Process(maker.process.pid).children()
    assert writers
    maker.process.send_signal(signal.SIGKILL)
    maker.process.communicate(timeout=20)
    assert psutil.wait_procs(writers, timeout=5)[1] == []
    assert [*library.glob(f"*/copy-0/*{PARTIAL}")]
    events = Maker(tmp_path, "small").events()
    assert events[-1]["event"] == "ready"
    assert [*library.glob(f"*/copy-0/*{PARTIAL}")] == []


def test_clean_removes_the_sets_and_nothing_else(whole: DataSet, tmp_path: Path) -> None:
    data = data_set(tmp_path)
    make(data, {"accounts"})
    older = tmp_path / HOME / "paper-seed7-v0"
    (older / "copy-0").mkdir(parents=True)
    (older / "copy-0" / f"orders.arrow{PARTIAL}").write_text("half")
    others = [
        tmp_path / "sales.sas7bdat",
        tmp_path / HOME / "notes.txt",
        tmp_path / HOME / "my-own-seed5-v1" / "sales.sas7bdat",
        tmp_path / HOME / "small-seed5-v1" / "copy-0" / "sales.sas7bdat",
    ]
    for file in others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    (tmp_path / HOME / "tiny-seed9-v1").symlink_to(whole.directory)
    before = state(whole)
    assert {data.directory, older} <= set(remove_data(tmp_path))
    assert not data.directory.exists()
    assert not older.exists()
    assert all(file.read_text() == "mine" for file in others)
    assert state(whole) == before
    for file in others[1:]:
        file.unlink()


def test_clean_leaves_no_empty_directory_behind(tmp_path: Path) -> None:
    make(data_set(tmp_path), {"accounts"})
    remove_data(tmp_path)
    assert [*tmp_path.iterdir()] == []
    assert remove_data(tmp_path) == []


words = st.integers(min_value=-(2**63), max_value=2**63 - 1)
rows = st.lists(st.tuples(words, words), min_size=2, max_size=30)


def checksum(table: list[tuple[int, int]]) -> str:
    found = Checksum()
    for part in (table[:5], table[5:]):
        columns = np.array(part, dtype=np.int64).reshape(-1, 2)
        found.add([columns[:, 0], columns[:, 1]])
    return found.value


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: list[tuple[int, int]], chance: Any) -> None:
    mixed = list(table)
    chance.shuffle(mixed)
    assert checksum(mixed) == checksum(table)


@given(rows, words, st.data())
def test_a_changed_value_shows(table: list[tuple[int, int]], value: int, data: Any) -> None:
    row = data.draw(st.integers(min_value=0, max_value=len(table) - 1))
    column = data.draw(st.integers(min_value=0, max_value=1))
    changed = list(table)
    changed[row] = (value, table[row][1]) if column == 0 else (table[row][0], value)
    assert (checksum(changed) == checksum(table)) == (changed == table)


@given(rows)
def test_values_swapped_between_rows_show(table: list[tuple[int, int]]) -> None:
    (a, b), (c, d), *rest = table
    swapped = [(a, d), (c, b), *rest]
    assert (checksum(swapped) == checksum(table)) == (sorted(swapped) == sorted(table))


@given(rows)
def test_values_swapped_between_columns_show(table: list[tuple[int, int]]) -> None:
    swapped = [(b, a) for a, b in table]
    assert (checksum(swapped) == checksum(table)) == (sorted(swapped) == sorted(table))


def test_a_set_in_use_is_not_removed(tmp_path: Path) -> None:
    data = DataSet.of(tmp_path, scale("tiny"), 1)
    with data.lock():
        pass
    with data.in_use(), data.in_use():
        with pytest.raises(Locked):
            remove_data(tmp_path)
        assert data.directory.is_dir()
    assert remove_data(tmp_path) == [data.directory]
    assert not (tmp_path / "gridwright-workload").exists()
