"""Files of a launch are read and written in blocks of the size asked for, as the kernel counts them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridwright.runs.launch_record import LibraryTraffic
from gridwright.workload.datasets.catalogue import TABLES
from gridwright.workload.datasets.writer import write_table
from gridwright.workload.launches.launch import Launch
from gridwright.workload.launches.process import Ended, run
from gridwright.workload.launches.program_request import TableFacts
from gridwright.workload.launches.traffic import BLOCK_BYTES, CountedFile, LaunchTraffic, blocked_time
from gridwright.workload.messages import SCALES as NAMES_OF_SCALES
from gridwright.workload.messages import Made, scale
from gridwright.workload.programs.program import TEST_NAMES, program_of
from gridwright.workload.programs.sampling import sample_step

# A small data set and launches over it, for tests of the tests.

UNITS = {
    "transactions": 30_000,
    "settlements": 30_000,
    "additions": 3_000,
    "accounts": 3_000,
    "orders": 3_000,
    "measurements": 4_000,
    "extract": 20_000,
}
"""Several blocks of each table."""


def make_tables(directory: Path, seed: int, units: Mapping[str, int] = UNITS) -> dict[str, TableFacts]:
    """Write the tables of the I/O and memory tests."""
    return {name: facts(directory, name, seed, units) for name in units}


def facts(directory: Path, name: str, seed: int, units: Mapping[str, int]) -> TableFacts:
    """Write one table."""
    table = TABLES[name]
    path = directory / f"{name}.{table.format}"
    made: Made = write_table(table, path, units=units, seed=seed, copy=0)
    return TableFacts(path, made.rows, made.bytes_, made.checksum, made.expected)


def launch(directory: Path, tables: Mapping[str, TableFacts], memory_bytes: int = 384 << 20) -> Launch:
    """A launch in directories of its own."""
    for name in ("work", "util"):
        (directory / name).mkdir(exist_ok=True)
    return Launch(
        work=directory / "work",
        util=directory / "util",
        tables=tables,
        traffic=LaunchTraffic(LaunchTraffic.create()),
        cores=1,
        memory_bytes=memory_bytes,
        settings={},
    )


KIB, MIB = 1 << 10, 1 << 20
WRITERS = ("sort", "merge", "append", "join", "transpose", "convert")


@pytest.fixture
def traffic() -> Iterator[LaunchTraffic]:
    fd = LaunchTraffic.create()
    found = LaunchTraffic(fd)
    yield found
    found.close()
    os.close(fd)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableFacts]:
    return make_tables(tmp_path_factory.mktemp("data"), 3)


@contextmanager
def counted_by_the_kernel() -> Iterator[dict[str, int]]:
    """What this process reads and writes meanwhile (proc_pid_io(5)), and in how many calls."""

    def look() -> dict[str, int]:
        lines = Path("/proc/self/io").read_text().splitlines()
        return {name: int(value) for name, value in (line.split(": ") for line in lines)}

    found: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        # Python itself writes what it compiles of a module that is imported for the first time.
        patch.setattr(sys, "dont_write_bytecode", True)
        before = look()
        yield found
        found |= {name: value - before[name] for name, value in look().items()}


def sums(moved: dict[str, LibraryTraffic]) -> LibraryTraffic:
    return LibraryTraffic(
        read_bytes=sum(each.read_bytes for each in moved.values()),
        written_bytes=sum(each.written_bytes for each in moved.values()),
        read_calls=sum(each.read_calls for each in moved.values()),
        write_calls=sum(each.write_calls for each in moved.values()),
    )


@pytest.mark.parametrize("block", [4 * KIB, BLOCK_BYTES, MIB])
def test_one_long_piece_is_so_many_calls(tmp_path: Path, traffic: LaunchTraffic, block: int) -> None:
    size = 10 * MIB + 5
    with counted_by_the_kernel() as wrote, CountedFile(tmp_path / "f", "w", "work", traffic, block) as file:
        file.write(bytes(size))
    with counted_by_the_kernel() as read, CountedFile(tmp_path / "f", "r", "work", traffic, block) as file:
        assert len(file.read(size)) == size
    blocks = -(-size // block)
    assert wrote["syscw"] == blocks
    # Clocks of the scheduler are read, too, twice for each piece that is waited for.
    assert blocks <= read["syscr"] <= blocks + 24
    moved = traffic.totals()["work"]
    assert (moved.read_bytes, moved.written_bytes) == (size, size)
    assert (moved.read_calls, moved.write_calls) == (blocks, blocks)


def test_many_short_pieces_are_few_calls(tmp_path: Path, traffic: LaunchTraffic) -> None:
    with counted_by_the_kernel() as wrote, CountedFile(tmp_path / "f", "w", "work", traffic) as file:
        for _ in range(4 * 64):
            file.write(bytes(KIB))
    assert wrote["syscw"] == 4
    with CountedFile(tmp_path / "f", "r", "work", traffic) as file:
        assert sum(len(file.read(KIB)) for _ in range(4 * 64)) == 4 * BLOCK_BYTES
    assert traffic.totals()["work"].read_calls == 4


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.lists(st.binary(max_size=40), max_size=6),
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=12),
    st.integers(1, 24),
)
# Back to a place that was read past the buffer.
@example([], [bytes(range(15))], [(False, 1), (False, 15), (True, 13), (False, 1)], 2)
def test_what_was_written_is_read_whatever_the_pieces(
    pieces: list[bytes], added: list[bytes], reads: list[tuple[bool, int]], block: int
) -> None:
    fd = LaunchTraffic.create()
    traffic = LaunchTraffic(fd)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "f"
        with CountedFile(path, "w", "work", traffic, block) as file:
            for piece in pieces:
                assert file.write(piece) == len(piece)
            assert file.tell() == sum(map(len, pieces))
        with CountedFile(path, "a", "work", traffic, block) as file:
            file.seek(0, os.SEEK_END)
            for piece in added:
                file.write(piece)
        whole = b"".join([*pieces, *added])
        assert path.read_bytes() == whole
        assert traffic.totals()["work"].written_bytes == len(whole)
        with CountedFile(path, "r", "work", traffic, block) as file, path.open("rb") as plain:
            for jump, value in reads:
                if jump:
                    assert file.seek(value) == plain.seek(value)
                else:
                    assert file.read(value) == plain.read(value)
                assert file.tell() == plain.tell()
            file.seek(0)
            assert file.readall() == whole
    traffic.close()
    os.close(fd)


def test_a_full_disk_is_told_once_and_the_file_is_closed(traffic: LaunchTraffic) -> None:
    file = CountedFile(Path("/dev/full"), "w", "work", traffic)
    file.write(b"x")
    with pytest.raises(OSError, match="No space"):
        file.close()
    assert file.closed
    file.close()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("block", [BLOCK_BYTES, MIB])
def test_a_test_moves_blocks_of_that_size(
    name: str, block: int, tables: dict[str, TableFacts], tmp_path: Path
) -> None:
    made = launch(tmp_path, tables)
    made.block_bytes = block
    with counted_by_the_kernel() as counted:
        assert run(name, made) == (Ended.OK, "")
    moved = made.traffic.totals()
    whole = sums(moved)
    # DuckDB writes a few bytes of its own where it spills; nothing else writes.
    assert counted["wchar"] - whole.written_bytes in range(64)
    assert counted["syscw"] - whole.write_calls in range(4)
    assert counted["rchar"] >= whole.read_bytes
    assert counted["syscr"] >= whole.read_calls
    # The last block of a file is shorter, and that in which one is continued; a table in `work` has one more
    # call that finds its end.
    files = 12
    for library in ("data", "work"):
        each = moved[library]
        assert each.read_calls <= each.read_bytes / block + files
        assert each.write_calls <= each.written_bytes / block + files
        assert each.read_bytes <= each.read_calls * block
        assert each.written_bytes <= each.write_calls * block


def test_a_sort_that_fits_into_memory_moves_nothing_to_util(
    tables: dict[str, TableFacts], tmp_path: Path
) -> None:
    made = launch(tmp_path, tables, memory_bytes=2 << 30)
    assert run("sort", made) == (Ended.OK, "")
    assert made.traffic.totals()["util"] == LibraryTraffic()


def test_what_else_a_process_reads_is_no_spill(tables: dict[str, TableFacts], tmp_path: Path) -> None:
    from gridwright.workload.programs.sql import database

    other = tmp_path / "library.so"
    other.write_bytes(bytes(MIB))
    # A name that begins as the directory of the spill does.
    (tmp_path / "util-of-another").write_text(("x" * 80 + "\n") * 100)
    made = launch(tmp_path, tables)
    with database(made, spills=True) as sql:
        other.read_bytes()
        beside = sql.read_csv(str(tmp_path / "util-of-another"), header=False)
        assert beside.fetchall() == [("x" * 80,)] * 100
    assert made.traffic.totals()["util"] == LibraryTraffic()


def test_a_spill_is_counted_to_the_byte(tmp_path: Path) -> None:
    tables = make_tables(tmp_path, 5, {"transactions": 300_000, "accounts": 30_000})
    made = launch(tmp_path, tables, memory_bytes=192 * MIB)
    with counted_by_the_kernel() as counted:
        assert run("sort", made) == (Ended.OK, "")
    moved = made.traffic.totals()
    assert counted["wchar"] - sums(moved).written_bytes in range(64)
    util = moved["util"]
    # In blocks of DuckDB's own, of at most 256 KiB.
    assert 0.9 * tables["transactions"].bytes_ <= util.read_bytes <= util.written_bytes
    assert util.write_calls * 256 * KIB >= util.written_bytes > util.write_calls * 32 * KIB


# The I/O tests and lookup: right on right data, and they notice one wrong value in any table.

NAMES = ("sort", "merge", "append", "join", "summary", "transpose", "convert", "lookup")
READS = [(name, table) for name in NAMES for table in program_of(name).tables]


@pytest.fixture(scope="module", params=[1, 2**62 + 11])
def tables_of_seeds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TableFacts]:
    return make_tables(tmp_path_factory.mktemp("data"), request.param)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_a_right_answer_and_its_traffic_is_counted_by_library(
    name: str, tables_of_seeds: dict[str, TableFacts], tmp_path: Path
) -> None:
    made = launch(tmp_path, tables_of_seeds)
    assert run(name, made) == (Ended.OK, "")
    moved = made.traffic.totals()
    read = sum(tables_of_seeds[table].bytes_ for table in program_of(name).tables)
    # `append` reads its additions three times; a file's footer and padding may stay unread.
    assert moved["data"].read_bytes >= 0.97 * read
    assert moved["data"].written_bytes == 0
    left = sum(file.stat().st_size for file in (tmp_path / "work").iterdir())
    # `append` overwrites the mark at the end of the table, eight bytes each time.
    assert 0 <= moved["work"].written_bytes - left <= 24


@pytest.mark.few(8)
@pytest.mark.parametrize(("name", "table"), READS)
def test_one_changed_value_is_noticed(
    name: str, table: str, tables_of_seeds: dict[str, TableFacts], tmp_path: Path
) -> None:
    changed = tmp_path / tables_of_seeds[table].path.name
    shutil.copy(tables_of_seeds[table].path, changed)
    change_one_value(changed)
    wrong = tables_of_seeds | {
        table: TableFacts(
            changed,
            tables_of_seeds[table].rows,
            tables_of_seeds[table].bytes_,
            tables_of_seeds[table].checksum,
            tables_of_seeds[table].expected,
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
    tables_of_seeds = make_tables(tmp_path, 5, units)
    made = launch(tmp_path, tables_of_seeds, memory_bytes=192 << 20)
    assert run("sort", made) == (Ended.OK, "")
    assert made.traffic.totals()["util"].written_bytes >= tables_of_seeds["transactions"].bytes_


def test_the_permanent_tables_are_never_written(
    tables_of_seeds: dict[str, TableFacts], tmp_path: Path
) -> None:
    before = {
        name: (each.path.stat().st_mtime_ns, each.path.stat().st_size)
        for name, each in tables_of_seeds.items()
    }
    for name in NAMES:
        directory = tmp_path / name
        directory.mkdir()
        run(name, launch(directory, tables_of_seeds))
    after = {
        name: (each.path.stat().st_mtime_ns, each.path.stat().st_size)
        for name, each in tables_of_seeds.items()
    }
    assert after == before


def test_every_test_is_described() -> None:
    for name in TEST_NAMES:
        found = program_of(name)
        assert found.name == name
        assert found.tables
        text = found.run.__doc__ or ""
        assert "Mirrors" in text, name
        assert "I/O:" in text, name
        assert "Check:" in text, name


def test_the_classes_are_those_of_the_published_workload() -> None:
    classes = [program_of(name).class_ for name in TEST_NAMES]
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
    for name in TEST_NAMES:
        found = program_of(name)
        engine = f"| {found.engine}{', threads' if found.threaded else ''} |"
        assert f"| {found.mirrors} {engine} {', '.join(found.tables)}" in rows[name]


# The counters of a launch: another process sees them live, and after a kill.

COUNTS = """
import sys, time
from gridwright.runs.launch_record import LibraryTraffic
from gridwright.workload.launches.traffic import LaunchTraffic
traffic = LaunchTraffic(int(sys.argv[1]))
traffic.add("data", "read", 1 << 40, 1_500_000_000)
traffic.add("work", "write", 7, 0)
traffic.add("work", "write", 5, 250_000_000, 4)
traffic.add("util", "read", 3, -20)
print("counted", flush=True)
time.sleep(60)
"""


def test_counts_are_seen_by_another_process_also_after_it_is_killed() -> None:
    fd = LaunchTraffic.create()
    seen = LaunchTraffic(fd)
    nothing = LibraryTraffic(0, 0, 0.0, 0.0)
    assert seen.totals() == {"data": nothing, "work": nothing, "util": nothing}
    with subprocess.Popen(
        [sys.executable, "-c", COUNTS, str(fd)], stdout=subprocess.PIPE, pass_fds=[fd]
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        live = seen.totals()
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert live == seen.totals()
    assert live == {
        "data": LibraryTraffic(1 << 40, 0, 1.5, 0.0, 1, 0),
        "work": LibraryTraffic(0, 12, 0.0, 0.25, 0, 5),
        "util": LibraryTraffic(3, 0, 0.0, 0.0, 1, 0),
    }
    assert seen.waited_ns() == 1_750_000_000
    seen.close()
    os.close(fd)


def test_the_counters_are_not_left_to_programs_that_they_were_not_given_to() -> None:
    fd = LaunchTraffic.create()
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_sleeping_is_blocked_time_and_computing_is_not() -> None:
    with blocked_time() as slept:
        time.sleep(0.2)
    with blocked_time() as computed:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
    assert slept[0] >= 150_000_000
    assert computed[0] < slept[0] / 2
