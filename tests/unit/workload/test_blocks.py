"""Files of a launch are read and written in blocks of the size asked for, as the kernel counts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gridwright.runs.launch_record import LibraryTraffic
from gridwright.workload.counted_file import BLOCK_BYTES, CountedFile
from gridwright.workload.launches.process import Ended, run
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.table_facts import TableFacts
from tests.unit.workload.io_data import launch, make_tables

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
    from gridwright.workload.sql import database

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
