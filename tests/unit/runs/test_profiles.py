"""Launch profiles: made of a run, written, read back; a wrong file is refused in words that help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.runs.host import host_facts
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.profiles import (
    TURNS,
    Profiles,
    estimated_phases,
    has_totals,
    load_profiles,
    parse_profiles,
    profiles_of,
    save_profiles,
)
from gridwright.runs.records import RunRecord
from tests.support.moved import moved_bytes
from tests.support.records import launch_record, workload_record

MB = 1_000_000
SIZES = {"tiny": 45 * MB, "small": 900 * MB, "medium": 9000 * MB}
RUN = RunRecord(
    name="demo",
    command=["gridwright", "workload"],
    what=["workload"],
    started="2026-11-21T05:00:00+00:00",
    status="complete",
    host=host_facts(),
    software={"gridwright": "0.1.0"},
    process={},
)


def phase(seconds: float, cpu: float, **own: Any) -> dict[str, Any]:
    return {"seconds": seconds, "cpu_s": cpu} | own


def launch(number: int, test: str, *phases: dict[str, Any], **own: Any) -> LaunchRecord:
    real = sum(each["seconds"] for each in phases)
    cpu = sum(each["cpu_s"] for each in phases)
    values = {"real_s": real, "user_s": cpu, "system_s": 0.0, "device_read_bytes": 0, "phases": list(phases)}
    return launch_record(number, test, **(values | own))


def made(*launches: LaunchRecord, **own: Any) -> Profiles:
    profiles, _ = profiles_of(RUN, workload_record(list(launches), **own), data_bytes=SIZES)
    return profiles


def test_the_median_launch_is_taken_whole() -> None:
    slow, middle, fast = (
        launch(number, "sort", phase(real, real / 2, data_read_bytes=round(real) * MB))
        for number, real in ((1, 9.0), (2, 5.0), (3, 4.0))
    )
    found = made(slow, middle, fast).profiles["sort"]
    assert (found.real_s, found.user_s, found.launches) == (5.0, 2.5, 3)
    assert moved_bytes(found, "data", "read") == 5 * MB
    assert made(slow, fast).profiles["sort"].real_s == 4.0


def test_failed_launches_are_left_out_and_said() -> None:
    ok = launch(1, "sort", phase(4.0, 4.0))
    failed = launch(2, "join", phase(1.0, 1.0), ok=False, reason="no")
    profiles, findings = profiles_of(RUN, workload_record([ok, failed], streams=1), data_bytes=SIZES)
    assert list(profiles.profiles) == ["sort"]
    assert [each.name for each in findings] == ["profile-lacking"]
    assert "join" in findings[0].text


def test_a_run_with_several_streams_is_warned_of() -> None:
    launches = [launch(number, "sort", phase(4.0, 4.0), stream=number) for number in (1, 2)]
    _, findings = profiles_of(RUN, workload_record(launches), data_bytes=SIZES)
    assert [(each.name, each.remedy) for each in findings] == [
        ("profile-shared", "record them with --streams 1")
    ]


@pytest.mark.parametrize(
    ("launches", "why"),
    [
        ([launch_record(1, "sort")], "it is a run of an older release"),
        ([launch(1, "sort", phase(1.0, 1.0), ok=False, reason="no")], "no launch ran to its end"),
        ([], "no launch ran to its end"),
    ],
)
def test_a_run_without_phases_gives_no_profiles(launches: list[LaunchRecord], why: str) -> None:
    with pytest.raises(GridwrightError, match=why):
        made(*launches)


def test_the_page_cache_is_told_from_what_the_device_read() -> None:
    # 100 MB asked, 70 read by the device, of which 10 before they were asked for in the second phase.
    found = made(
        launch(
            1,
            "append",
            phase(1.0, 1.0, data_read_bytes=40 * MB, device_read_bytes=50 * MB),
            phase(1.0, 1.0, data_read_bytes=20 * MB, work_read_bytes=40 * MB, device_read_bytes=20 * MB),
            device_read_bytes=70 * MB,
        )
    ).profiles["append"]
    assert [each.cached_bytes for each in found.phases] == [{}, {"work": 30 * MB}]
    assert found.cached_fraction == pytest.approx(0.3)
    unknown = made(launch(1, "append", phase(1.0, 1.0, data_read_bytes=40), device_read_bytes=None))
    assert unknown.profiles["append"].phases[0].cached_bytes is None
    assert unknown.profiles["append"].cached_fraction is None


def test_a_device_that_read_the_program_itself_does_not_count_for_the_tables() -> None:
    # 300 MB of program files and no table: only a read-ahead's worth may count as early.
    found = made(
        launch(
            1,
            "sort",
            phase(1.0, 1.0, device_read_bytes=300 * MB),
            phase(1.0, 1.0, data_read_bytes=100 * MB),
            device_read_bytes=300 * MB,
        )
    ).profiles["sort"]
    assert (found.phases[1].cached_bytes or {})["data"] >= 83 * MB


@pytest.mark.parametrize(
    ("cores", "given_", "threads"),
    [
        (1, phase(10.0, 6.0, io_wait_s=4.0), 1.0),
        (4, phase(10.0, 12.0, io_wait_s=4.0), 2.0),
        # Waiting for a core is wanting one.
        (4, phase(10.0, 12.0, core_wait_s=8.0), 2.0),
        (1, phase(10.0, 2.0), 0.2),
        # A wait is counted when the call ends, which may be in the next phase.
        (2, phase(1.0, 0.5, io_wait_s=3.0), 2.0),
        (1, phase(3.0, 0.0), 1.0),
    ],
)
def test_threads_are_the_cores_wanted_while_no_library_holds_it_up(
    cores: int, given_: dict[str, Any], threads: float
) -> None:
    found = made(launch(1, "reg", given_, cores=cores)).profiles["reg"]
    assert found.phases[0].threads == pytest.approx(threads, abs=0.001)


def test_a_commands_bytes_count_as_data_read_and_work_written() -> None:
    found = made(launch(1, "own", phase(1.0, 0.5, other_read_bytes=7, other_written_bytes=5)))
    assert found.profiles["own"].phases[0].read_bytes == {"data": 7}
    assert found.profiles["own"].phases[0].written_bytes == {"work": 5}


def test_the_start_of_a_test_does_not_grow_with_its_data() -> None:
    start, rest = phase(0.5, 0.5), phase(2.0, 1.0, data_read_bytes=9)
    test = made(launch(1, "reg", start, rest, phase(1.0, 1.0))).profiles["reg"]
    assert [each.fixed for each in test.phases] == [True, False, False]
    command = made(launch(1, "own", start, rest, **{"class": "command"})).profiles["own"]
    assert not any(each.fixed for each in command.phases)


SOME = made(
    launch(1, "sort", phase(4.0, 3.0, data_read_bytes=300 * MB, util_written_bytes=100 * MB)),
    launch(2, "reg", phase(2.0, 4.0), cores=2),
    streams=1,
)


def test_a_written_document_is_read_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "profiles.json"
    save_profiles(file, SOME)
    assert load_profiles(file) == SOME
    assert json.loads(file.read_text())["schema"] == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="cannot be written") as failed:
        save_profiles(tmp_path / "none" / "p.json", SOME)
    assert failed.value.status == 3
    with pytest.raises(GridwrightError, match="cannot be read: No such file") as failed:
        load_profiles(tmp_path / "p.json")
    assert failed.value.status == 2


def test_tests_without_a_profile_are_all_named_with_the_nearest() -> None:
    assert list(SOME.of(["reg", "sort", "reg"])) == ["reg", "sort"]
    with pytest.raises(GridwrightError) as failed:
        SOME.of(["sort", "sorts", "join"], where="p.json")
    first, second = failed.value.problems
    assert "'sorts'" in first.what
    assert "the nearest is sort" in (first.remedy or "")
    assert "'join'" in second.what
    assert first.where == "p.json"


def test_scales_are_related_by_the_bytes_of_their_data() -> None:
    assert SOME.scaled_by(None) == SOME.scaled_by("small") == 1.0
    assert SOME.scaled_by("medium") == pytest.approx(10.0)
    with pytest.raises(GridwrightError, match="'mediun'") as failed:
        SOME.scaled_by("mediun")
    assert "did you mean medium?" in str(failed.value)
    with pytest.raises(GridwrightError, match="recorded scale 'huge'"):
        SOME.model_copy(update={"scale": "huge"}).scaled_by("medium")


def changed(**values: Any) -> bytes:
    return json.dumps(json.loads(SOME.model_dump_json(by_alias=True, exclude_none=True)) | values).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x00\xff", "is no JSON"),
        (b"[1]", "is no document of the kind"),
        (b'{"schema": 1, "command": "workload"}', "is no document of the kind"),
        (changed(kind="other"), "is no document of the kind"),
        (changed(schema=2), "newer release: its schema is 2"),
        (changed(schema="1"), "schema"),
        (changed(extra=1), "extra inputs are not permitted"),
        (changed(profiles={}), "profiles"),
    ],
)
def test_a_wrong_file_is_refused_in_words(content: bytes, says: str) -> None:
    with pytest.raises(GridwrightError) as failed:
        parse_profiles(content, "p.json")
    assert says in str(failed.value)
    assert all(problem.where == "p.json" and problem.remedy for problem in failed.value.problems)


def test_every_wrong_figure_is_named_with_its_field() -> None:
    document = json.loads(changed())
    document["profiles"]["sort"]["phases"][0] |= {"cpu_s": -1.0, "threads": 0}
    document["profiles"]["reg"]["phases"] = []
    with pytest.raises(GridwrightError) as failed:
        parse_profiles(json.dumps(document).encode(), "p.json")
    assert sorted(problem.field or "" for problem in failed.value.problems) == [
        "profiles.reg.phases",
        "profiles.sort.phases.0.cpu_s",
        "profiles.sort.phases.0.threads",
    ]


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_content_ends_in_a_traceback(content: bytes) -> None:
    with pytest.raises(GridwrightError):
        parse_profiles(content, "p.json")


# Phases of jobs of which only the totals are known.


def job_of_totals(**fields: Any) -> LaunchRecord:
    given_: dict[str, Any] = {"real_s": 100.0, "user_s": 30.0, "system_s": 10.0} | fields
    return LaunchRecord(number=1, test="t", class_="command", stream=1, node="n", ok=True, **given_)


def test_what_devices_moved_fills_the_gap() -> None:
    job = job_of_totals(device_read_bytes=400 * MB, device_written_bytes=200 * MB, read_bytes=999 * MB)
    phases, source = estimated_phases(job, 1.0)
    assert source == "devices"
    assert len(phases) == 3 * TURNS
    computing, reading, writing = phases[:3]
    assert (computing.seconds, computing.cpu_s, computing.threads) == (10.0, 10.0, 1.0)
    assert (reading.seconds, reading.cpu_s, reading.read_bytes) == (10.0, 0.0, {"data": 100 * MB})
    assert (writing.seconds, writing.written_bytes) == (5.0, {"work": 50 * MB})


def test_calls_count_where_devices_are_not_told() -> None:
    phases, source = estimated_phases(job_of_totals(read_bytes=0, written_bytes=600 * MB), 1.0)
    assert source == "calls"
    assert not any(phase.read_bytes for phase in phases)
    assert sum(phase.written_bytes.get("work", 0) for phase in phases) == 600 * MB


def test_without_counters_the_gap_reads_at_the_stated_rate() -> None:
    phases, source = estimated_phases(job_of_totals(), 50e6)
    assert source == "estimated"
    assert sum(phase.read_bytes.get("data", 0) for phase in phases) == 60 * 50 * MB


def test_a_gap_that_the_counters_do_not_explain_is_a_wait() -> None:
    phases, source = estimated_phases(job_of_totals(device_read_bytes=10 * MB, device_written_bytes=0), 1.0)
    assert source == "waiting"
    (phase,) = phases
    # It takes as long on any grid: so little of a core at once.
    assert (phase.cpu_s, phase.threads) == (40.0, 0.4)


def test_without_a_gap_all_is_moved_beside_computing() -> None:
    (phase,), source = estimated_phases(job_of_totals(real_s=40.5, device_read_bytes=800 * MB), 1.0)
    assert source == "devices"
    assert (phase.cpu_s, phase.read_bytes, phase.io_wait_s) == (40.0, {"data": 800 * MB}, 0.0)


def test_more_cpu_time_than_real_time_is_threads() -> None:
    (phase,), _ = estimated_phases(job_of_totals(real_s=10.0), 100e6)
    assert (phase.cpu_s, phase.threads, phase.read_bytes) == (40.0, 4.0, {})


@pytest.mark.parametrize(
    "fields", [{"real_s": None}, {"real_s": 0.0}, {"user_s": None, "system_s": None}, {"ok": False}]
)
def test_what_cannot_be_estimated(fields: dict[str, Any]) -> None:
    job = job_of_totals(**{name: value for name, value in fields.items() if name != "ok"})
    if "ok" in fields:
        job = LaunchRecord(
            number=1, test="t", class_="command", stream=1, node="n", ok=False, real_s=1.0, user_s=1.0
        )
    assert not has_totals(job)


@given(
    st.floats(0.01, 1e6),
    st.floats(0.0, 1e6),
    st.one_of(st.none(), st.integers(0, 10**14)),
    st.one_of(st.none(), st.integers(0, 10**14)),
)
def test_phases_add_up_to_the_job(real: float, cpu: float, read: int | None, written: int | None) -> None:
    job = job_of_totals(
        real_s=real, user_s=cpu, system_s=None, device_read_bytes=read, device_written_bytes=written
    )
    phases, source = estimated_phases(job, 100e6)
    assert phases
    assert sum(phase.cpu_s for phase in phases) == pytest.approx(cpu, rel=1e-6, abs=1e-4)
    assert sum(phase.seconds for phase in phases) == pytest.approx(real, rel=1e-6, abs=1e-4)
    if source == "devices":
        assert sum(phase.read_bytes.get("data", 0) for phase in phases) == (read or 0)
        assert sum(phase.written_bytes.get("work", 0) for phase in phases) == (written or 0)
