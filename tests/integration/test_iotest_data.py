"""How phases end, and the data they leave and check: --size, --seconds, --keep, --verify."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gridwright.iotest.scratch import MARKER, PREFIX
from tests.support.command import Command, Ended

MIB = 1 << 20


def phase(ended: Ended, op: str) -> Any:
    (found,) = (p for lib in ended.json["libraries"] for p in lib["phases"] if p["op"] == op)
    return found


def keep(gridwright: Command, library: Path, *more: str) -> Path:
    """Have a set of two files of 2 MiB kept; returns its directory."""
    flags = "--phases write --streams 2 --size 2MiB --keep --json"
    ended = gridwright("iotest", "--directory", library, *flags.split(), *more)
    assert ended.status == 0, ended.err
    (directory,) = library.iterdir()
    return directory


@pytest.fixture(scope="module")
def kept_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a set that a run kept; its seed is 42."""
    scratch = tmp_path_factory.mktemp("kept")
    library = scratch / "library"
    library.mkdir()
    keep(Command(scratch), library, "--seed", "42")
    return library


@pytest.fixture
def kept(kept_once: Path, library: Path) -> Path:
    """A copy of that set in the library under test."""
    shutil.copytree(kept_once, library, dirs_exist_ok=True)
    (directory,) = library.iterdir()
    return directory


def test_a_phase_by_time_lasts_it_and_makes_durable_what_it_wrote(gridwright: Command, library: Path) -> None:
    ended = gridwright("iotest", "--directory", library, "--seconds", "1", "--streams", "1", "--json")
    assert ended.status == 0, ended.err
    write = phase(ended, "write")
    assert write["asked"]["seconds"] == 1.0
    assert write["seconds_last"] >= 0.9
    assert 0 < write["fsync_s"] < write["seconds_last"]
    assert write["bytes"] % write["used"]["block_bytes"] == 0
    assert phase(ended, "read")["seconds_last"] >= 0.9


@pytest.mark.usefixtures("kept")
def test_a_read_by_time_goes_over_its_file_again_and_stays_honest(gridwright: Command, library: Path) -> None:
    ended = gridwright(
        *("iotest", "--directory", library, "--phases", "read", "--seconds", "0.5", "--verify", "--json")
    )
    assert ended.status == 0, ended.err
    read = phase(ended, "read")
    assert read["laps"] > 0
    assert read["bytes"] > 4 * MIB
    assert read["verified_bytes"] == read["bytes"]
    assert read["cached"] is False


@pytest.mark.parametrize("engine", ["buffered", "direct"])
def test_what_is_written_verifies(gridwright: Command, library: Path, engine: str) -> None:
    ended = gridwright(
        *("iotest", "--directory", library, "--engine", engine, "--size", "3MiB", "--verify", "--json"),
        *("--phases", "write,read,mixed"),
    )
    assert ended.status == 0, ended.err
    assert phase(ended, "read")["verified_bytes"] == phase(ended, "read")["bytes"]
    assert phase(ended, "mixed")["verified_bytes"] == phase(ended, "mixed")["read_bytes"]
    assert phase(ended, "read")["used"]["direct"] is (engine == "direct")


def test_the_queue_depth_asked_for_is_the_one_used(gridwright: Command, library: Path) -> None:
    flags = "--engine direct --queue-depth 3 --size 2MiB --block 256KiB --json"
    ended = gridwright("iotest", "--directory", library, *flags.split())
    assert ended.status == 0, ended.err
    used = phase(ended, "write")["used"]
    assert (used["queue_depth"], used["block_bytes"], used["direct"]) == (3, 256 << 10, True)
    assert used["io_uring"] or used["note"], "where io_uring is not used, the result says why"


def test_a_kept_set_is_read_and_verified_later(gridwright: Command, library: Path, kept: Path) -> None:
    before = {file.name: file.read_bytes() for file in kept.iterdir()}
    assert set(before) == {MARKER, "stream-0.dat", "stream-1.dat"}
    ended = gridwright(
        "iotest", "--directory", library, "--phases", "read", "--verify", "--size", "2MiB", "--json"
    )
    assert ended.status == 0, ended.err
    read = phase(ended, "read")
    assert read["verified_bytes"] == 4 * MIB
    assert read["used"]["seed"] == 42
    assert [finding["name"] for finding in ended.findings] == ["kept-set"]
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == before


def test_a_kept_set_outlives_every_other_run(gridwright: Command, library: Path, kept: Path) -> None:
    before = {file.name: file.read_bytes() for file in kept.iterdir()}
    flags = ("--phases", "write,read,mixed,metadata", "--size", "1MiB", "--seconds", "0.5")
    assert gridwright("iotest", "--directory", library, *flags).status == 0
    assert list(library.iterdir()) == [kept]
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == before


def test_the_newest_of_two_kept_sets_is_read(gridwright: Command, library: Path, kept: Path) -> None:
    flags = "--phases write --size 1MiB --keep --seed 2"
    assert gridwright("iotest", "--directory", library, *flags.split()).status == 0
    assert len(list(library.iterdir())) == 2
    ended = gridwright(
        "iotest", "--directory", library, "--phases", "read", "--size", "1MiB", "--verify", "--json"
    )
    assert ended.status == 0, ended.err
    assert phase(ended, "read")["used"]["seed"] == 2
    assert kept.exists()


@pytest.mark.parametrize(
    ("stream", "offset", "engine"),
    [(1, 123_457, "buffered"), (0, 0, "direct"), (1, 2 * MIB - 1, "direct")],
)
def test_one_flipped_byte_is_found_at_its_file_and_offset(
    gridwright: Command, library: Path, kept: Path, stream: int, offset: int, engine: str
) -> None:
    file = kept / f"stream-{stream}.dat"
    with file.open("r+b") as data:
        data.seek(offset)
        byte = data.read(1)[0]
        data.seek(offset)
        data.write(bytes([byte ^ 0x40]))
    ended = gridwright(
        *("iotest", "--directory", library, "--phases", "read", "--verify", "--size", "2MiB"),
        *("--engine", engine, "--json"),
    )
    assert ended.status == 1
    message = f"{file}: 1 bytes from offset {offset} are not what was written"
    assert message in ended.text
    document = ended.json
    assert document["status"] == "failed"
    assert document["met"] is False
    (finding,) = (found for found in document["findings"] if found["level"] == "error")
    assert finding["name"] == "wrong-data"
    assert message in finding["text"]
    read = phase(ended, "read")
    assert read["status"] == "failed"
    for key in ("seconds_last", "rate_last_bytes_per_s", "per_core_bytes_per_s"):
        assert read[key] is None or read[key] > 0, f"{key}: {read[key]}"
    assert all(rate > 0 for rate in read["per_stream_bytes_per_s"])
    assert file.exists(), "the evidence must stay"


def test_without_verify_a_flipped_byte_is_not_looked_for(
    gridwright: Command, library: Path, kept: Path
) -> None:
    with (kept / "stream-0.dat").open("r+b") as data:
        data.write(b"\xff\xff")
    assert gridwright("iotest", "--directory", library, "--phases", "read", "--size", "2MiB").status == 0


def test_a_kept_file_that_is_too_short_is_named(gridwright: Command, library: Path, kept: Path) -> None:
    file = kept / "stream-1.dat"
    with file.open("r+b") as data:
        data.truncate(MIB)
    ended = gridwright("iotest", "--directory", library, "--phases", "read", "--size", "2MiB", "--json")
    assert ended.status == 3
    assert str(file) in ended.text
    assert f"the file ends at byte {MIB} of {2 * MIB}" in ended.text
    read = phase(ended, "read")
    assert read["status"] == "failed"
    for key in ("seconds_first", "seconds_last", "rate_last_bytes_per_s", "cpu_user_s", "cpu_system_s"):
        assert read[key] is None, f"{key} was not measured"


def test_a_kept_file_that_is_missing_fails_and_hangs_nothing(
    gridwright: Command, library: Path, kept: Path
) -> None:
    (kept / "stream-0.dat").unlink()
    ended = gridwright("iotest", "--directory", library, "--phases", "read", "--size", "2MiB")
    assert ended.status == 3
    assert str(kept / "stream-0.dat") in ended.text


def test_a_read_without_a_set_lays_one_out_and_removes_it(gridwright: Command, library: Path) -> None:
    ended = gridwright("iotest", "--directory", library, "--phases", "read", "--size", "1MiB", "--json")
    assert ended.status == 0, ended.err
    assert [found["name"] for found in ended.findings] == ["laid-out"]
    assert list(library.iterdir()) == []


def test_the_seed_decides_the_data(gridwright: Command, tmp_path: Path, kept_once: Path) -> None:
    contents = []
    for name, seed in (("a", 42), ("b", 6)):
        library = tmp_path / name
        library.mkdir()
        contents.append((keep(gridwright, library, "--seed", str(seed)) / "stream-0.dat").read_bytes())
    (first,) = kept_once.iterdir()
    assert contents[0] == (first / "stream-0.dat").read_bytes() != contents[1]


def test_the_marker_of_a_kept_set_says_what_it_is(kept: Path) -> None:
    assert kept.name.startswith(PREFIX)
    marker = json.loads((kept / MARKER).read_text())
    assert marker["kept"] is True
    assert marker["files"] == {"seed": 42, "block_bytes": 65536, "file_bytes": [2 * MIB, 2 * MIB]}
