"""The I/O tests and lookup: right on right data, and they notice one wrong value in any table."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gridwright.workload.launches.process import Ended, run
from gridwright.workload.programs import registry
from gridwright.workload.programs.sampling import sample_step
from gridwright.workload.scales import NAMES as NAMES_OF_SCALES
from gridwright.workload.scales import scale
from gridwright.workload.table_facts import TableFacts
from tests.unit.workload.io_data import launch, make_tables

NAMES = ("sort", "merge", "append", "join", "summary", "transpose", "convert", "lookup")
READS = [(name, table) for name in NAMES for table in registry.program(name).tables]


@pytest.fixture(scope="module", params=[1, 2**62 + 11])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableFacts]:
    return make_tables(tmp_path_factory.mktemp("data"), request.param)


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_a_right_answer_and_its_traffic_is_counted_by_library(
    name: str, tables: dict[str, TableFacts], tmp_path: Path
) -> None:
    made = launch(tmp_path, tables)
    assert run(name, made) == (Ended.OK, "")
    moved = made.traffic.totals()
    read = sum(tables[table].bytes_ for table in registry.program(name).tables)
    # `append` reads its additions three times; a file's footer and padding may stay unread.
    assert moved["data"].read_bytes >= 0.97 * read
    assert moved["data"].written_bytes == 0
    left = sum(file.stat().st_size for file in (tmp_path / "work").iterdir())
    # `append` overwrites the mark at the end of the table, eight bytes each time.
    assert 0 <= moved["work"].written_bytes - left <= 24


@pytest.mark.parametrize(("name", "table"), READS)
def test_one_changed_value_is_noticed(
    name: str, table: str, tables: dict[str, TableFacts], tmp_path: Path
) -> None:
    changed = tmp_path / tables[table].path.name
    shutil.copy(tables[table].path, changed)
    change_one_value(changed)
    wrong = tables | {
        table: TableFacts(
            changed,
            tables[table].rows,
            tables[table].bytes_,
            tables[table].checksum,
            tables[table].expected,
        )
    }
    ended, reason = run(name, launch(tmp_path, wrong))
    assert ended is not Ended.OK, f"{name} did not notice a changed value in {table}"
    assert reason


def change_one_value(file: Path) -> None:
    """Change one digit of a text, or the lowest bit of one byte amid the values of a table."""
    with file.open("r+b") as stream:
        size = os.fstat(stream.fileno()).st_size
        if file.suffix == ".csv":
            content = stream.read()
            # The quantity of a row in the middle: the fifth field.
            line = content.index(b"\n", size // 2) + 1
            place = line
            for _ in range(4):
                place = content.index(b",", place) + 1
            digit = content[place : place + 1]
            stream.seek(place)
            stream.write(b"2" if digit != b"2" else b"3")
            return
        stream.seek(size // 2)
        byte = stream.read(1)
        stream.seek(size // 2)
        stream.write(bytes([byte[0] ^ 1]))


def test_a_sort_beyond_its_memory_spills_all_of_its_input(tmp_path: Path) -> None:
    units = {"transactions": 300_000, "accounts": 30_000}
    tables = make_tables(tmp_path, 5, units)
    made = launch(tmp_path, tables, memory_bytes=192 << 20)
    assert run("sort", made) == (Ended.OK, "")
    assert made.traffic.totals()["util"].written_bytes >= tables["transactions"].bytes_


def test_the_permanent_tables_are_never_written(tables: dict[str, TableFacts], tmp_path: Path) -> None:
    before = {name: (each.path.stat().st_mtime_ns, each.path.stat().st_size) for name, each in tables.items()}
    for name in NAMES:
        directory = tmp_path / name
        directory.mkdir()
        run(name, launch(directory, tables))
    after = {name: (each.path.stat().st_mtime_ns, each.path.stat().st_size) for name, each in tables.items()}
    assert after == before


def test_every_test_is_described() -> None:
    for name in registry.NAMES:
        found = registry.program(name)
        assert found.name == name
        assert found.tables
        module = __import__(f"gridwright.workload.programs.{name}", fromlist=["PROGRAM"])
        text = module.__doc__ or ""
        assert "Mirrors" in text, name
        assert "I/O:" in text, name
        assert "Check:" in text, name


def test_the_classes_are_those_of_the_published_workload() -> None:
    classes = [registry.program(name).class_ for name in registry.NAMES]
    assert {kind: classes.count(kind) for kind in ("io", "memory", "computation")} == {
        "io": 7,
        "memory": 2,
        "computation": 10,
    }


def test_the_document_says_how_large_samples_are() -> None:
    text = (Path(__file__).parents[3] / "docs" / "workload.md").read_text()
    part = text.split("### Tests that fit models on samples")[1].split("## ")[0]
    rows = {line.split("|")[1].strip(" `"): line for line in part.splitlines() if line.startswith("| `")}
    limits = {name for each in NAMES_OF_SCALES for name in scale(each).settings if name.endswith("_rows")}
    assert set(rows) == {name.removesuffix("_rows") for name in limits}
    for test, line in rows.items():
        for name, said in zip(NAMES_OF_SCALES, line.split("|")[3:7], strict=True):
            rows_in_all = scale(name).units["observations"]
            kept = len(range(0, rows_in_all, sample_step(rows_in_all, scale(name).settings[f"{test}_rows"])))
            assert kept <= scale(name).settings[f"{test}_rows"]
            assert said.strip() == f"{kept:,} ({100 * kept / rows_in_all:.3g} %)", (test, name)


def test_the_document_says_what_each_test_is() -> None:
    whole = (Path(__file__).parents[3] / "docs" / "workload.md").read_text()
    text = whole.split("## The 19 tests")[1].split("## ")[0]
    rows = {line.split("|")[1].strip(" `"): line for line in text.splitlines() if line.startswith("| `")}
    for name in registry.NAMES:
        found = registry.program(name)
        engine = f"| {found.engine}{', threads' if found.threaded else ''} |"
        assert f"| {found.mirrors} {engine} {', '.join(found.tables)}" in rows[name]
