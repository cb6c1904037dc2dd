"""What is written can be read back as it was: names, labels of any bytes, and numbers."""

from __future__ import annotations

import math
import re
import subprocess
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.exporter.metric_families import (
    MEANINGS,
    NOT_TOLD,
    OF_EXPORTER,
    OF_READINGS,
    Exposition,
    MetricFamily,
    SeriesValue,
    TextFormat,
    known_series,
    number,
)
from gridwright.monitor.exporter.page_program import MOST_JOBS, OTHER, JobSeries, MetricsPage
from gridwright.monitor.exporter.reference import names_table, refreshed
from gridwright.monitor.exporter.server import text_format, wants_gzip
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.readings import LABELS, MountedPlace, NodeSamples, Reading, Snapshot
from tests.support.as_user import ALICE, MALLORY

COUNTER = MetricFamily(
    "gridwright_x_bytes", 'Says "what" it is.\nA \\ too.', ("job", "mountpoint"), is_counter=True
)
LINE = re.compile(r"^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:\\.|[^"\\])*)"(?:,|$)')


def text(format_: TextFormat, *points: SeriesValue, family: MetricFamily = COUNTER) -> str:
    return b"".join(Exposition(format_).family(family, points)).decode()


def read(line: str) -> tuple[str, dict[str, str], float]:
    """A line as the specification reads it; written apart from what writes it."""
    found = LINE.match(line)
    assert found, line
    labels, end = {}, 0
    for each in LABEL.finditer(found[2] or ""):
        assert each.start() == end
        end = each.end()
        labels[each[1]] = re.sub(r"\\(.)", lambda one: "\n" if one[1] == "n" else one[1], each[2])
    assert end == len(found[2] or "")
    return found[1], labels, float(found[3])


def test_openmetrics_has_type_unit_help_and_beginning() -> None:
    assert text(TextFormat.OPENMETRICS, SeriesValue(("17", "/data"), 5, 1.7e9)) == (
        "# TYPE gridwright_x_bytes counter\n"
        "# UNIT gridwright_x_bytes bytes\n"
        '# HELP gridwright_x_bytes Says \\"what\\" it is.\\nA \\\\ too.\n'
        'gridwright_x_bytes_total{job="17",mountpoint="/data"} 5\n'
        'gridwright_x_bytes_created{job="17",mountpoint="/data"} 1700000000\n'
    )


def test_the_plain_text_names_its_series_and_has_no_beginnings() -> None:
    assert text(TextFormat.PLAIN, SeriesValue(("17", ""), 5, 1.7e9)) == (
        '# HELP gridwright_x_bytes_total Says "what" it is.\\nA \\\\ too.\n'
        "# TYPE gridwright_x_bytes_total counter\n"
        'gridwright_x_bytes_total{job="17"} 5\n'
    )


def test_a_beginning_by_a_clock_that_does_not_count_from_1970_is_none() -> None:
    assert "_created" not in text(TextFormat.OPENMETRICS, SeriesValue(("17", "/"), 5, 86_400.0))


def test_facts_are_an_info_in_one_and_a_gauge_in_the_other() -> None:
    facts = MetricFamily("gridwright_node", "Facts.", ("node",), is_info=True)
    assert "# TYPE gridwright_node info\n" in text(
        TextFormat.OPENMETRICS, SeriesValue(("a",), 1), family=facts
    )
    plain = text(TextFormat.PLAIN, SeriesValue(("a",), 1), family=facts)
    assert "# TYPE gridwright_node_info gauge\n" in plain
    assert plain.endswith('gridwright_node_info{node="a"} 1\n')


def test_a_family_without_series_is_not_told() -> None:
    assert text(TextFormat.OPENMETRICS) == ""


@given(st.text(st.characters(exclude_categories=[])), st.binary(), st.floats(allow_nan=False) | st.integers())
def test_any_name_is_one_line_that_reads_back(job: str, point: bytes, value: float) -> None:
    mount = point.decode("utf-8", "surrogateescape")
    written = text(TextFormat.PLAIN, SeriesValue((job, mount), value))
    line = written.split("\n")[2]
    assert written.endswith(line + "\n")
    assert written.count("\n") == 3
    name, labels, read_value = read(line)
    assert name == "gridwright_x_bytes_total"
    assert read_value == pytest.approx(float(value), rel=1e-15)
    for label, original in (("job", job), ("mountpoint", mount)):
        shown = labels.get(label, "")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", shown)
        if original.isascii() and original.isprintable():
            assert shown == original


def test_bytes_that_are_no_text_are_told_apart() -> None:
    mounts = [each.decode("utf-8", "surrogateescape") for each in (b"/\xff", b"/\xfe", b"/\r", b"/\0")]
    written = text(TextFormat.PLAIN, *(SeriesValue(("", each), 1) for each in mounts))
    shown = [read(line)[1]["mountpoint"] for line in written.splitlines()[2:]]
    assert shown == ["/\\xff", "/\\xfe", "/\\x0d", "/\\x00"]


def test_what_would_be_the_same_series_twice_is_left_out_and_counted() -> None:
    page = Exposition(TextFormat.PLAIN)
    points = [SeriesValue((job, ""), 1) for job in ("\udcff", "\\xff", "\udcff")]
    written = b"".join(page.family(COUNTER, points)).decode()
    assert len(written.splitlines()) == 3
    assert page.left_out == 2


def test_a_family_has_a_bounded_number_of_series() -> None:
    page = Exposition(TextFormat.PLAIN)
    size = sum(map(len, page.family(COUNTER, (SeriesValue((str(each), ""), 1) for each in range(50_010)))))
    assert page.left_out == 10
    assert size < 5_000_000


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (5.0, "5"),
        (0.1, "0.1"),
        (2**63, str(2**63)),
    ],
)
def test_numbers_are_those_of_the_formats(value: float, written: str) -> None:
    assert number(value) == written


def test_every_reading_has_a_family_with_a_name_of_its_own() -> None:
    assert set(OF_READINGS) == {metric for metric, labels in LABELS.items() if not NOT_TOLD & {*labels}}
    names = [each.name for each in (*OF_READINGS.values(), *OF_EXPORTER)]
    assert len(names) == len(set(names))
    for name in known_series():
        assert re.fullmatch("(gridwright|lustre|recovery)_[a-z0-9_]+", name)


def test_no_name_is_one_of_node_exporter() -> None:
    assert [each for each in known_series() if each.startswith("node_")] == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TextFormat.PLAIN),
        ("*/*", TextFormat.PLAIN),
        ("text/html,*/*;q=0.8", TextFormat.PLAIN),
        # Prometheus 2.42, and VictoriaMetrics 1.79.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            TextFormat.OPENMETRICS,
        ),
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", TextFormat.PLAIN),
        ("application/openmetrics-text;q=0", TextFormat.PLAIN),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", TextFormat.PLAIN),
        ("Application/OpenMetrics-Text", TextFormat.OPENMETRICS),
        ("application/openmetrics-text;q=nonsense", TextFormat.PLAIN),
    ],
)
def test_who_asks_gets_the_format_that_it_likes_best(accept: str, expected: TextFormat) -> None:
    assert text_format(accept) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", False), ("gzip", True), ("gzip;q=0", False), ("*", True), ("br", False), ("gzip;q=0,*", False)],
)
def test_it_is_packed_where_that_is_asked_for(header: str, expected: bool) -> None:
    assert wants_gzip(header) is expected


@given(st.text())
def test_any_header_has_an_answer(header: str) -> None:
    assert text_format(header) in TextFormat
    assert wants_gzip(header) in {True, False}


# A page of a node tells all that its snapshot has, and what of it is silent.

SNAPSHOT = Snapshot(
    node="compute1",
    machine="boot-1",
    time=1.7e9,
    at_s=100.0,
    cpus=8,
    cores=4,
    readings=tuple(
        Reading(metric, tuple(f"{label}1" for label in labels), 7.5, 100.0)
        for metric, labels in LABELS.items()
    ),
    silent={"/lustre": "no answer for 12 s"},
    places={"/grid/data": MountedPlace("/grid", "xfs", "md0", ("md0", "sda", "sdb"))},
    cost_s=0.25,
)


def lines(page: MetricsPage, format_: TextFormat = TextFormat.PLAIN) -> list[str]:
    return b"".join(page.text(format_)).decode().splitlines()


def page_of(*snapshots: Snapshot) -> MetricsPage:
    page = MetricsPage()
    for each in snapshots:
        page.take(each, 0.5)
    return page


def test_nothing_is_told_before_the_first_sample() -> None:
    assert lines(MetricsPage(), TextFormat.OPENMETRICS) == []


def test_every_reading_is_a_series() -> None:
    names = {line.partition("{")[0].partition(" ")[0] for line in lines(page_of(SNAPSHOT))}
    assert {each.series for each in OF_READINGS.values()} <= names


def test_who_does_what_is_not_told() -> None:
    """Whatever samplers read of users and their programs: their names would be in everybody's Prometheus."""
    whose = Reading("gridwright_process_moved_bytes_total", ("cp", "alice"), 7.0, 1.0)
    told = "".join(lines(page_of(replace(SNAPSHOT, readings=(*SNAPSHOT.readings, whose)))))
    assert "alice" not in told
    assert "user=" not in told
    assert "process=" not in told


def test_sources_that_are_silent_are_told_beside_those_that_answer() -> None:
    told = lines(page_of(SNAPSHOT))
    assert 'gridwright_source_silent{source="/lustre"} 1' in told
    assert 'gridwright_source_silent{source="mountpoint1"} 0' in told


def test_directories_of_libraries_are_told_with_what_they_lie_on() -> None:
    told = lines(page_of(SNAPSHOT))
    expected = '{directory="/grid/data",mountpoint="/grid",fstype="xfs",device="md0"} 1'
    assert f"gridwright_directory_info{expected}" in told
    assert 'gridwright_directory_disk_info{directory="/grid/data",device="sdb"} 1' in told


def test_the_cost_of_sampling_is_a_counter() -> None:
    told = lines(page_of(SNAPSHOT, SNAPSHOT))
    assert "gridwright_exporter_cpu_seconds_total 0.5" in told
    assert "gridwright_exporter_samples_total 2" in told


def test_time_that_the_kernel_takes_back_does_not_look_like_a_reboot() -> None:
    def waiting(seconds: float, boot: str = "boot-1") -> Snapshot:
        reading = Reading("node_cpu_seconds_total", ("iowait",), seconds, 1.0)
        return replace(SNAPSHOT, machine=boot, readings=(reading,))

    def told(page: MetricsPage) -> str:
        return next(line for line in lines(page) if "iowait" in line).rpartition(" ")[2]

    page = page_of(waiting(10.0), waiting(9.5))
    assert told(page) == "10"
    page.take(waiting(10.5), 0.1)
    assert told(page) == "10.5"
    page.take(waiting(0.5, "boot-2"), 0.1)
    assert told(page) == "0.5"


def test_ten_thousand_jobs_and_a_thousand_targets_are_a_small_page_in_little_memory() -> None:
    jobs = [
        Reading(f"gridwright_job_{metric}", (str(job),), job, 1.0)
        for job in range(10_000)
        for metric in (
            "read_bytes_total",
            "written_bytes_total",
            "cpu_seconds_total",
            "processes",
            "resident_bytes",
        )
    ]
    targets = [
        Reading(
            f"gridwright_mount_{metric}_total", ("/lustre", f"scratch-OST{target:04x}"), target, 1.0, 1.7e9
        )
        for target in range(1000)
        for metric in ("read_bytes", "written_bytes", "reads", "writes")
    ]
    snapshot = replace(SNAPSHOT, readings=(*jobs, *targets))
    page = MetricsPage()
    tracemalloc.start()
    page.take(snapshot, 0.1)
    size = sum(map(len, page.text(TextFormat.OPENMETRICS)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 1_500_000
    assert most < 40_000_000


# The number of jobs with series is bounded, and no byte is lost or counted twice by that.

READ, PROCESSES = "gridwright_job_read_bytes_total", "gridwright_job_processes"


def sample(jobs: dict[str, int]) -> list[Reading]:
    return [
        reading
        for job, value in jobs.items()
        for reading in (Reading(READ, (job,), value, 1.0), Reading(PROCESSES, (job,), 1, 1.0))
    ]


def told(series: JobSeries, jobs: dict[str, int], metric: str = READ) -> dict[str, float]:
    return {
        each.labels[0]: each.value for each in series.bounded_series(sample(jobs)) if each.metric == metric
    }


def test_few_jobs_are_told_as_they_are_and_others_of_the_node_too() -> None:
    load = Reading("node_load1", (), 1.0, 1.0)
    assert JobSeries().bounded_series([load, *sample({"1": 5})]) == [load, *sample({"1": 5})]


def test_the_jobs_that_moved_most_have_series_of_their_own() -> None:
    series = JobSeries(most=2)
    assert told(series, {"1": 10, "2": 30, "3": 20}) == {"2": 30, "3": 20, OTHER: 0}
    # Job 1 has moved 90 more since then, and is far ahead of job 3 by now.
    assert told(series, {"1": 100, "2": 30, "3": 20}) == {"1": 100, "2": 30, OTHER: 0}
    assert told(series, {"1": 100, "2": 30, "3": 25}) == {"1": 100, "2": 30, OTHER: 5}


def test_gauges_of_the_others_are_summed_up_now() -> None:
    assert told(JobSeries(most=1), {"1": 10, "2": 30, "3": 20}, PROCESSES) == {"2": 1, OTHER: 2}


def test_other_labels_of_jobs_are_summed_up_each_for_itself() -> None:
    waits = "gridwright_job_waiting_seconds_total"

    def told_waits(series: JobSeries, seconds: float) -> dict[tuple[str, ...], float]:
        readings = [
            Reading(waits, (job, how), seconds, 1.0) for job in ("1", "2") for how in ("disk", "memory")
        ]
        bounded = series.bounded_series([*readings, *sample({"1": 9, "2": 1})])
        return {reading.labels: reading.value for reading in bounded if reading.metric == waits}

    series = JobSeries(most=1)
    told_waits(series, 5.0)
    assert told_waits(series, 7.0) == {
        ("1", "disk"): 7.0,
        ("1", "memory"): 7.0,
        (OTHER, "disk"): 2.0,
        (OTHER, "memory"): 2.0,
    }


def test_a_job_that_is_called_like_the_sum_is_in_the_sum() -> None:
    series = JobSeries(most=5)
    told(series, {OTHER: 7, "1": 1})
    assert told(series, {OTHER: 9, "1": 1}) == {"1": 1, OTHER: 2}


def test_a_new_job_among_the_others_counts_from_its_beginning() -> None:
    series = JobSeries(most=1)
    told(series, {"1": 100})
    assert told(series, {"1": 100, "2": 40}) == {"1": 100, OTHER: 40}


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1000), min_size=1),
        min_size=2,
        max_size=12,
    )
)
def test_what_all_series_rise_by_is_what_all_jobs_rise_by(steps: list[dict[str, int]]) -> None:
    """As Prometheus counts: what a series rises by between two scrapes that both have it."""
    series = JobSeries(most=2)
    totals: dict[str, int] = {}
    before: dict[str, float] = {}
    own = told_rise = real_rise = 0.0
    for place, step in enumerate(steps):
        new = {job for job in step if job not in totals}
        for job, risen in step.items():
            totals[job] = totals.get(job, 0) + risen
        now = told(series, totals)
        assert len(now) <= 3
        if place:
            real_rise += sum(step.values())
            told_rise += sum(value - before[job] for job, value in now.items() if job in before)
            # A series that begins has done before what its first value says, if its job is new, too.
            own += sum(now[job] for job in now if job not in before and job in new)
            # One that begins with an old job had done the last of it in no series.
            own += sum(
                step.get(job, 0) for job in now if job not in before and job not in new and job != OTHER
            )
            own += now[OTHER] if OTHER in now and OTHER not in before else 0
        before = now
    assert told_rise + own == real_rise


def numbered(uid: int, job: str) -> subprocess.Popen[bytes]:
    """A process of a user that says that it is of a job."""
    return subprocess.Popen(["sleep", "300"], user=uid, group=uid, extra_groups=[], env={"SLURM_JOB_ID": job})


def snapshot(readings: list[Reading], at_s: float) -> Snapshot:
    return Snapshot("n1", "m", at_s, at_s, 4, 4, tuple(readings))


@pytest.mark.thorough
@pytest.mark.root
def test_numbers_that_mallory_invents_push_out_none_of_alices_jobs() -> None:
    running = [
        numbered(ALICE, "4242"),
        *(numbered(MALLORY, str(1000 + each)) for each in range(MOST_JOBS + 5)),
    ]
    try:
        sources, found = JobSources(), []
        for _ in range(3):
            time.sleep(0.3)
            found.append(sources.readings())
    finally:
        for each in running:
            each.kill()
            each.wait()
    assert len({each.labels[0] for each in found[-1]} - {"4242"}) >= MOST_JOBS + 5
    series = JobSeries()
    own = {each.labels[0] for each in series.bounded_series(found[-1]) if each.metric == PROCESSES}
    assert "4242" in own
    assert (len(own), series.left_out > 0) == (MOST_JOBS + 1, True)
    page = MetricsPage()
    page.take(snapshot(found[-1], 10.0), 0.1)
    text = b"".join(page.text(TextFormat.PLAIN)).decode()
    assert f"gridwright_exporter_series_left_out {series.left_out}" in text.splitlines()
    assert "user=" not in text
    seen = NodeSamples("n1", snapshot(found[-2], 9.0), snapshot(found[-1], 10.0))
    assert "4242" in {row.job for row in frame_of([seen]).jobs}


def test_a_job_is_of_who_is_in_its_control_group_not_of_who_names_it(tmp_path: Path) -> None:
    sources = JobSources(proc=tmp_path, cgroups=tmp_path)
    lines = {
        1: "0::/user.slice/user-2002.slice/job_7/x\n",
        2: "0::/system.slice/slurmstepd.scope/job_8/step_0\n",
        3: "0::/system.slice/slurmstepd.scope/job_7/step_0\n",
    }
    for pid, line in lines.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(line)
    assert [pid for pid in lines if sources._waits.is_in_group_of("7", pid)] == [3]


# Each series says what it is, in words of its own.


def test_each_reading_that_is_told_has_a_sentence_of_its_own() -> None:
    assert [metric for metric in OF_READINGS if metric not in MEANINGS] == []
    assert set(MEANINGS) <= set(LABELS)
    assert len(set(MEANINGS.values())) == len(MEANINGS)
    assert [text for text in MEANINGS.values() if not text.endswith(".") or "|" in text] == []


# The page of the exporter has all names that it tells, and no others.

PAGE = Path(__file__).parents[4] / "docs" / "exporter.md"


def test_the_table_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert refreshed(text) == text, "run python -m gridwright.monitor.exporter.reference docs/exporter.md"


def test_every_series_has_a_row() -> None:
    rows = names_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(known_series())
