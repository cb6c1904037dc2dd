"""Traffic out of Lustre's statistics: the recorded load moved exactly 100 MiB to and from each OST."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.filesystems.counters import Counts, traffic
from gridwright.filesystems.lustre_client.counters import (
    read_client_counters,
    read_connection_counters,
    read_job_counters,
    read_own_counters,
    read_target_counters,
)
from gridwright.filesystems.lustre_client.parameters import parse_parameters
from gridwright.filesystems.lustre_client.stats import parse_job_stats, parse_stats
from gridwright.filesystems.watching import watcher_of
from tests.fixtures.lustre_node import printed

MIB = 2**20


def prints(name: str, *, root: bool = True) -> Callable[..., CommandOutput]:
    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        if list(command) == ["id", "-u"]:
            return CommandOutput(0, b"0\n" if root else b"1000\n", b"")
        return CommandOutput(0, printed(name).encode(), b"")

    return run


def moved(reader: Callable[..., Counts], before: str, after: str) -> dict[str, tuple[int, int]]:
    found = traffic(reader(prints(before), "scratch"), reader(prints(after), "scratch"))
    return {each.target or each.client: (each.written_bytes, each.read_bytes) for each in found}


def test_each_target_wrote_and_read_a_hundred_mebibytes() -> None:
    written = moved(read_target_counters, "310-before-b-obdfilter-stats", "330-after-write-b-obdfilter-stats")
    assert written == {"scratch-OST0000": (100 * MIB, 0), "scratch-OST0001": (100 * MIB, 0)}
    read = moved(
        read_target_counters, "330-after-write-b-obdfilter-stats", "350-after-read-b-obdfilter-stats"
    )
    assert read == {"scratch-OST0000": (0, 100 * MIB), "scratch-OST0001": (0, 100 * MIB)}


def test_the_client_sees_the_same_and_not_what_the_metadata_server_does() -> None:
    by_target = moved(read_connection_counters, "310-before-c-osc-stats", "330-after-write-c-osc-stats")
    assert by_target == {"scratch-OST0000": (100 * MIB, 0), "scratch-OST0001": (100 * MIB, 0)}
    own = moved(read_own_counters, "310-before-d-llite-stats", "330-after-write-d-llite-stats")
    assert list(own.values()) == [(200 * MIB, 0)]


class RecordedClient:
    """A client whose mounts and statistics were recorded."""

    def __init__(self) -> None:
        self.shows = "310-before-c-osc-stats"
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.asked.append(list(command))
        if list(command) == ["cat", "/proc/mounts"]:
            return CommandOutput(0, printed("005-proc-mounts").encode(), b"")
        return prints(self.shows)(command)


def test_a_monitor_reads_the_counters_of_a_mount_again_and_again() -> None:
    client, elsewhere = RecordedClient(), RecordedClient()
    watcher = watcher_of("lustre")
    assert watcher is not None
    read = watcher.mount_counters(client, "/mnt/scratch")
    assert read is not None
    assert client.asked == [], "nothing is looked at before the first reading"
    before = read()
    client.shows = "330-after-write-c-osc-stats"
    found = {each.target: each.written_bytes for each in traffic(before, read())}
    assert found == {"scratch-OST0000": 100 * MIB, "scratch-OST0001": 100 * MIB}
    assert client.asked.count(["cat", "/proc/mounts"]) == 1
    nothing = watcher.mount_counters(elsewhere, "/srv")
    assert nothing is not None
    with pytest.raises(GridwrightError, match="no Lustre is mounted at /srv"):
        nothing()


def test_the_time_is_that_of_the_snapshots() -> None:
    before = read_target_counters(prints("310-before-b-obdfilter-stats"), "scratch")
    after = read_target_counters(prints("330-after-write-b-obdfilter-stats"), "scratch")
    first, start = (next(iter(each.values())).at_s for each in (after, before))
    assert start == pytest.approx(1795228680, abs=3600)
    assert traffic(before, after)[0].seconds == pytest.approx(first - start)
    assert traffic(before, after)[0].writes == 25


def test_a_client_that_had_read_nothing_before_is_counted_from_zero() -> None:
    def only(name: str) -> Counts:
        return read_own_counters(prints(name), "scratch")

    found = traffic(only("client-19-stats-zero"), only("client-22-stats-after"))
    assert [(each.written_bytes, each.read_bytes, each.writes) for each in found] == [
        (100 * MIB, 100 * MIB, 100)
    ]


def test_clients_are_told_apart_on_the_server() -> None:
    found = read_client_counters(prints("two-02-exports-stats"), "scratch").values()
    assert {(each.target, each.client): each.written_bytes for each in found} == {
        ("scratch-OST0000", "0@lo"): 0,
        ("scratch-OST0000", "192.168.77.2@tcp"): 85983232,
        ("scratch-OST0001", "0@lo"): 0,
        ("scratch-OST0001", "192.168.77.2@tcp"): 85983232,
    }


def test_a_job_that_began_meanwhile_is_counted_from_its_beginning() -> None:
    def jobs(name: str) -> Counts:
        return read_job_counters(prints(name), "scratch")

    found = traffic(jobs("310-before-i-job_stats-ost"), jobs("330-after-write-i-job_stats-ost"))
    wrote = {(each.target, each.client): each.written_bytes for each in found}
    assert wrote["scratch-OST0000", "dd.0"] == 100 * MIB


def test_targets_clients_and_jobs_tell_of_the_same_bytes() -> None:
    by_target = read_target_counters(prints("two-07-obdfilter-stats"), "scratch").values()
    by_client = read_client_counters(prints("two-02-exports-stats"), "scratch").values()
    by_job = read_job_counters(prints("two-06-job_stats"), "scratch").values()
    for name in ("scratch-OST0000", "scratch-OST0001"):
        sums = [
            sum(each.written_bytes for each in counted if each.target == name)
            for counted in (by_target, by_client, by_job)
        ]
        assert sums == [85983232] * 3
    assert {each.client for each in by_job} == {"lfs.0", "dd.0", "lfs.65534", "fio.0"}


def test_no_job_at_all_is_no_error() -> None:
    assert read_job_counters(prints("382-job_stats-clear"), "scratch") == {}


def test_counters_that_were_cleared_give_no_figure() -> None:
    before = read_target_counters(prints("350-after-read-b-obdfilter-stats"), "scratch")
    after = read_target_counters(prints("381-stats-reset"), "scratch")
    assert traffic(before, after) == []


def test_a_switched_off_header_takes_the_callers_time() -> None:
    told = parse_parameters(
        printed("extra-05-enable_stats_header"), ["obdfilter.*.stats", "obdfilter.*.job_stats"]
    )
    short = parse_stats(told.values["obdfilter.scratch-OST0000.stats"])
    assert (short.start_s, short.samples("statfs")) == (None, 20)
    assert short.snapshot_s == pytest.approx(1795229576.0614256)
    silent = parse_stats("read_bytes 2 samples [bytes] 1 1 2\n")
    assert (silent.snapshot_s, silent.total("read_bytes")) == (None, 2)


def test_statistics_of_older_releases_are_read() -> None:
    old = parse_stats(
        "snapshot_time             1510781430.123456 secs.usecs\n"
        "read_bytes                2 samples [bytes] 4096 1048576 1052672\n"
        "req_waittime              79 samples [usec] 402 49334 1290949 38370015061\n"
        "ioctl                     12 samples [regs]\n"
    )
    assert (old.snapshot_s, old.total("read_bytes"), old.total("req_waittime")) == (
        1510781430.123456,
        1052672,
        1290949,
    )
    assert (old.samples("ioctl"), old.total("ioctl"), old.total("write_bytes")) == (12, 0, 0)


@pytest.mark.parametrize(
    "name", ["901-nonroot-osc-stats", "903-nonroot-llite-stats", "client-24-nonroot-stats"]
)
def test_figures_that_were_cut_are_refused_even_if_nobody_asked_who_read_them(name: str) -> None:
    told = parse_parameters(printed(name), ["osc.*.stats", "llite.*.stats"])
    assert told.values
    with pytest.raises(GridwrightError, match="read without root"):
        parse_stats(next(iter(told.values.values())))


def test_without_root_no_counter_is_read() -> None:
    for reader in (read_target_counters, read_job_counters, read_own_counters):
        with pytest.raises(GridwrightError, match="told to root only"):
            reader(prints("330-after-write-b-obdfilter-stats", root=False), "scratch")


STATS = printed("330-after-write-b-obdfilter-stats") + printed("310-before-c-osc-stats")
JOBS = printed("330-after-write-i-job_stats-ost")


@pytest.mark.parametrize(("parse", "text"), [(parse_stats, STATS), (parse_job_stats, JOBS)])
@given(st.data(), st.text(max_size=20))
def test_garbled_statistics_are_read_or_refused(
    parse: Callable[[str], object], text: str, data: st.DataObject, put: str
) -> None:
    start, end = (data.draw(st.integers(0, len(text))) for _ in range(2))
    try:
        parse(text[:start] + put + text[end:])
    except GridwrightError as error:
        assert "without root" in str(error)
