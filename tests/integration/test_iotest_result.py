"""What `gridwright iotest` prints: the contract of --json, the table, the classic block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gridwright.runs.records import IotestRecord
from tests.support.command import Command, Ended

MIB = 1 << 20

LIBRARY_KEYS = [
    "library",
    "path",
    "filesystem",
    "nodes",
    "streams",
    "cores",
    "requires_bytes_per_s_per_core",
    "met",
    "phases",
]
PHASE_KEYS = [
    "op",
    "asked",
    "used",
    "bytes",
    "seconds_first",
    "seconds_last",
    "rate_first_bytes_per_s",
    "rate_last_bytes_per_s",
    "per_core_bytes_per_s",
    "per_stream_bytes_per_s",
    "latency_us",
    "cpu_user_s",
    "cpu_system_s",
    "cached_fraction",
    "cached",
    "ops_per_s",
]


@pytest.fixture(scope="module")
def four_phases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """All four phases on one directory."""
    scratch = tmp_path_factory.mktemp("four")
    library = scratch / "library"
    library.mkdir()
    flags = (
        "--phases write,read,mixed,metadata --size 4MiB --seconds 1 --streams 2 --requires 1kB/s/core --json"
    )
    return Command(scratch)("iotest", "--directory", library, *flags.split()), library


@pytest.fixture(scope="module")
def phases(four_phases: tuple[Ended, Path]) -> dict[str, Any]:
    ended, _ = four_phases
    return {phase["op"]: phase for phase in ended.json["libraries"][0]["phases"]}


def test_the_document_has_the_keys_of_the_contract(four_phases: tuple[Ended, Path]) -> None:
    ended, library = four_phases
    assert ended.status == 0, ended.err
    document = ended.json
    assert document["schema"] == 1
    assert document["command"] == "iotest"
    assert document["status"] == "complete"
    assert document["met"] is True
    assert ended.findings == []
    assert Path(document["run"]).is_dir()
    (found,) = document["libraries"]
    assert set(LIBRARY_KEYS) <= found.keys()
    assert found["path"] == str(library)
    assert found["filesystem"] is None
    assert (found["nodes"], found["streams"]) == (1, 2)
    assert found["requires_bytes_per_s_per_core"] == 1000.0
    for phase in found["phases"]:
        assert set(PHASE_KEYS) <= phase.keys()
        assert phase["latency_us"].keys() == {"p50", "p95", "p99", "p99_9", "max"}
        assert {"engine", "block_bytes", "direct", "io_uring", "queue_depth"} <= phase["used"].keys()
    assert IotestRecord.model_validate(document).run == document["run"]


def test_progress_goes_to_stderr_one_line_a_step(four_phases: tuple[Ended, Path]) -> None:
    ended, library = four_phases
    lines = ended.err.splitlines()
    assert lines[0] == f"directory: testing {library} with 2 streams"
    for op in ("write", "read", "mixed", "metadata"):
        assert any(line.startswith(f"directory: {op}:") for line in lines)
    assert "\x1b" not in ended.err


def test_nothing_is_left_in_the_library(four_phases: tuple[Ended, Path]) -> None:
    assert list(four_phases[1].iterdir()) == []


def test_a_phase_by_size_moves_exactly_that(phases: dict[str, Any]) -> None:
    assert phases["write"]["bytes"] == phases["write"]["written_bytes"] == 2 * 4 * MIB
    assert phases["read"]["bytes"] == phases["read"]["read_bytes"] == 2 * 4 * MIB
    assert phases["mixed"]["read_bytes"] == phases["mixed"]["written_bytes"] == 4 * MIB
    assert phases["write"]["asked"]["size_bytes"] == 4 * MIB


def test_figures_agree_with_each_other(phases: dict[str, Any], four_phases: tuple[Ended, Path]) -> None:
    cores = four_phases[0].json["libraries"][0]["cores"]
    for op in ("write", "read", "mixed"):
        phase = phases[op]
        assert phase["rate_last_bytes_per_s"] == pytest.approx(phase["bytes"] / phase["seconds_last"])
        assert phase["per_core_bytes_per_s"] == pytest.approx(phase["rate_last_bytes_per_s"] / cores)
        assert len(phase["per_stream_bytes_per_s"]) == 2
        assert 0 < phase["seconds_first"] <= phase["seconds_last"]
        assert 0 < phase["latency_us"]["p50"] <= phase["latency_us"]["p99"] <= phase["latency_us"]["max"]
        assert phase["cpu_user_s"] + phase["cpu_system_s"] > 0


def test_absent_figures_are_null(phases: dict[str, Any]) -> None:
    assert phases["write"]["cached_fraction"] is None
    assert phases["write"]["ops_per_s"] is None
    assert phases["write"]["asked"]["seed"] is None
    assert phases["write"]["asked"]["queue_depth"] is None
    assert phases["write"]["read_bytes_per_s"] is None
    assert phases["read"]["write_bytes_per_s"] is None
    assert phases["read"]["fsync_s"] is None
    assert phases["read"]["verified_bytes"] is None
    metadata = phases["metadata"]
    for key in (
        "bytes",
        "rate_first_bytes_per_s",
        "rate_last_bytes_per_s",
        "per_core_bytes_per_s",
        "cached_fraction",
    ):
        assert metadata[key] is None, key


def test_metadata_is_operations(phases: dict[str, Any]) -> None:
    metadata = phases["metadata"]
    assert metadata["ops_per_s"] > 0
    assert metadata["operations"].keys() == {"create", "stat", "read", "unlink"}
    created = metadata["operations"]["create"]["count"]
    assert created > 0
    assert metadata["operations"]["unlink"]["count"] == created


def test_a_read_is_of_the_disk_and_not_of_the_cache(phases: dict[str, Any]) -> None:
    assert phases["read"]["cached"] is False
    assert 0 <= phases["read"]["cached_fraction"] <= 0.05


def test_the_data_is_stamped_with_one_seed(phases: dict[str, Any]) -> None:
    assert len({phase["used"]["seed"] for phase in phases.values()}) == 1


@pytest.mark.parametrize(("requires", "met", "status"), [("1kB/s/core", True, 0), ("900TB/s/core", False, 1)])
def test_the_requirement_decides_the_exit_status(
    gridwright: Command, library: Path, requires: str, met: bool, status: int
) -> None:
    ended = gridwright("iotest", "--directory", library, "--size", "1MiB", "--requires", requires, "--json")
    assert ended.status == status, ended.err
    assert ended.json["met"] is met
    assert ended.json["status"] == "complete"


def test_the_table_names_library_rate_requirement_and_run(gridwright: Command, library: Path) -> None:
    ended = gridwright("iotest", "--directory", library, "--size", "1MiB", "--requires", "1kB/s/core")
    assert ended.status == 0, ended.err
    for words in ("Throughput (MB = 10^6 bytes)", "MB/s per core", "required", "p99 ms", "yes"):
        assert words in ended.out
    assert (
        re.search(r"^directory +write +\d", ended.out.replace("│", " "), re.MULTILINE) or "write" in ended.out
    )
    run = gridwright.only_run()
    assert ended.out.splitlines()[-2:] == [f"run: {run}", f"report: {run / 'report.html'}"]
    page = (run / "report.html").read_text()
    assert "Quick look: requirements met" in page
    assert len(page) < 1_500_000
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(("size", "streams"), [(8, 2), (3, 1)])
def test_the_classic_block_is_size_time_and_the_one_by_the_other(
    gridwright: Command, library: Path, size: int, streams: int
) -> None:
    ended = gridwright(
        *("iotest", "--directory", library, "--format", "iotest.sh", "--engine", "direct"),
        *("--size", f"{size}MiB", "--streams", str(streams), "--block", "64KiB"),
    )
    assert ended.status == 0, ended.err
    lines = dict(re.findall(r"^ *([^:\n]+): +(.+)$", ended.out, re.MULTILINE))
    assert lines["directory"] == str(library)
    assert lines["INVOCATION"].startswith("gridwright iotest --directory")
    assert lines["filesize"] == f"{size:.2f} megabytes"
    assert re.fullmatch(r"\d+ \d+ \d+ \d+%", lines["df -k"])
    (phases,) = (
        {phase.op: phase for phase in library_.phases}
        for library_ in IotestRecord.model_validate_json(
            (gridwright.only_run() / "iotest.json").read_bytes()
        ).libraries
    )
    for op in ("read", "write"):
        seconds = sum(phases[op].per_stream_seconds) / streams
        assert lines[f"average {op} time"] == f"{seconds:.2f} seconds per stream"
        rate = float(lines[f"average {op} throughput rate"].split()[0])
        assert rate == pytest.approx(size / seconds, abs=0.006)
    assert f"({streams}".replace("(", "") in ended.out.splitlines()[-2]


def test_an_absent_figure_prints_as_such_in_the_classic_block(gridwright: Command, library: Path) -> None:
    ended = gridwright(
        "iotest", "--directory", library, "--format", "iotest.sh", "--size", "1MiB", "--phases", "write"
    )
    assert ended.status == 0, ended.err
    assert re.search(r"average read time: +n/a", ended.out)


def test_a_sweep_finds_the_knee(gridwright: Command, library: Path) -> None:
    ended = gridwright("iotest", "--directory", library, "--sweep", "--size", "1MiB", "--json")
    assert ended.status == 0, ended.err
    (found,) = ended.json["libraries"]
    cores = found["cores"]
    sweeps = {sweep["op"]: sweep for sweep in found["sweeps"]}
    assert sweeps.keys() == {"write", "read"}
    for sweep in sweeps.values():
        points = {point["streams"]: point["rate_bytes_per_s"] for point in sweep["points"]}
        assert min(points) == 1
        assert max(points) == 4 * cores
        peak = max(points.values())
        assert sweep["peak_bytes_per_s"] == peak
        assert sweep["knee_streams"] == min(s for s, rate in points.items() if rate >= 0.95 * peak)
    assert [phase["used"]["streams"] for phase in found["phases"] if phase["op"] == "write"] == sorted(points)
    assert list(library.iterdir()) == []


def test_a_spec_has_all_its_libraries_tested(gridwright: Command, tmp_path: Path) -> None:
    for name in ("data", "work"):
        (tmp_path / "disk" / name).mkdir(parents=True)
    (tmp_path / "grid.yaml").write_text(
        f"name: two\nfilesystems:\n  disk: {{type: local, path: {tmp_path}/disk}}\n"
        "libraries:\n  data: {filesystem: disk, requires: 1 kB/s/core}\n  work: {filesystem: disk}\n"
    )
    ended = gridwright("iotest", "--size", "1MiB", "--json", cwd=tmp_path)
    assert ended.status == 0, ended.err
    document = ended.json
    assert [(lib["library"], lib["filesystem"], lib["met"]) for lib in document["libraries"]] == [
        ("data", "disk", True),
        ("work", "disk", None),
    ]
    assert document["met"] is True
    assert Path(document["run"]).name.endswith("-two")
