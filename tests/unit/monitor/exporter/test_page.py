"""A page of a node tells all that its snapshot has, and what of it is silent."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

from gridwright.monitor.exporter.exposition import TextFormat
from gridwright.monitor.exporter.metric_families import OF_READINGS
from gridwright.monitor.exporter.page_program import MetricsPage
from gridwright.monitor.readings import LABELS, MountedPlace, Reading, Snapshot

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
