"""Traffic out of Lustre's statistics: the recorded load moved exactly 100 MiB to and from each OST."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.counters import Counts, traffic
from gridwright.filesystems.health import Traffic
from gridwright.filesystems.layout import Component, DesiredLayout, FileLayout
from gridwright.filesystems.lustre_client.attribute import ClassCount, FileCount, Scanned
from gridwright.filesystems.lustre_client.counters import (
    read_client_counters,
    read_connection_counters,
    read_job_counters,
    read_own_counters,
    read_target_counters,
)
from gridwright.filesystems.lustre_client.library_findings import (
    MetadataSpace,
    data_on_mdt_findings,
    library_findings,
    load_findings,
    read_metadata_space,
)
from gridwright.filesystems.lustre_client.parameters import parse_job_stats, parse_parameters, parse_stats
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.filesystems.watching import watcher_of
from gridwright.messages import encode
from tests.fixtures.lustre_node import LustreNode, healthy_node, printed, recorded_parameters

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


# OSTs that have most of a client's load, and metadata targets that fill with data of files.

GIB = 2**30
COUNTERS = ("310-before-c-osc-stats", "330-after-write-c-osc-stats")
DOM = FileLayout(
    (
        Component(end=MIB, stripe_count=0, on_metadata_server=True),
        Component(start=MIB, stripe_count=-1),
    )
)


def traffic_of(**bytes_of: int) -> list[Traffic]:
    return [
        Traffic(
            server="",
            seconds=2.0,
            read_bytes=size,
            written_bytes=0,
            reads=size // MIB,
            writes=0,
            target=target,
        )
        for target, size in bytes_of.items()
    ]


def test_the_busiest_target_is_named_with_what_the_others_could_carry() -> None:
    (found,) = load_findings(traffic_of(OST0=900_000_000, OST1=100_000_000, OST2=0, OST3=0), 4, 600e6)
    assert "OST0 has 450 MB/s of the 500 MB/s that this client moved over 2.0 s" in found.text
    assert "3.6 times its share of 4 targets, and a target delivers 600 MB/s" in found.text
    assert "there would be 1.30 GB/s more" in found.text


@pytest.mark.parametrize(
    ("bytes_of", "targets"),
    [
        ({"OST0": 900_000_000}, 1),
        ({"OST0": 4 * MIB, "OST1": 0}, 2),
        ({"OST0": 300_000_000, "OST1": 200_000_000}, 2),
        ({}, 4),
    ],
    ids=["one target", "a client that idles", "nearly even", "nothing told"],
)
def test_a_load_that_is_small_or_nearly_even_is_no_finding(bytes_of: dict[str, int], targets: int) -> None:
    assert list(load_findings(traffic_of(**bytes_of), targets)) == []


def test_the_recorded_client_loads_its_targets_evenly() -> None:
    before, after = (read_connection_counters(replayed(name), "scratch") for name in COUNTERS)
    told = traffic(before, after)
    assert {each.target: each.written_bytes for each in told} == {
        "scratch-OST0000": 100 * MIB,
        "scratch-OST0001": 100 * MIB,
    }
    assert list(load_findings(told, 2)) == []
    # The same with a target that has nothing of it: whoever waits, waits for the other.
    fast = [
        Traffic(
            server="",
            seconds=1.0,
            read_bytes=0,
            written_bytes=each.written_bytes * (each.target == "scratch-OST0001"),
            reads=0,
            writes=1,
            target=each.target,
        )
        for each in told
    ]
    (found,) = load_findings(fast, 2)
    assert "scratch-OST0001 has" in found.text


def replayed(name: str) -> LustreNode:
    node = healthy_node()
    node.parameters = recorded_parameters(name)
    return node


def library(files: int, size: int, age_days: int = 7, held: int | None = None) -> LibraryScan:
    each = ClassCount(
        layout=f"{MIB}:mdt,-1", size_class=30, age_days=age_days, files=files, bytes=files * size
    )
    scanned = Scanned(
        files=FileCount(files, files * size),
        directories=1,
        classes=[each],
        targets={},
        metadata_server_bytes=files * min(size, MIB) if held is None else held,
        released=FileCount(),
        foreign=FileCount(),
        without_layout=FileCount(),
        unread=0,
    )
    return LibraryScan(default=None, scanned=scanned)


def filling(found: LibraryScan, total: int, available: int, layout: FileLayout | None = DOM) -> list[Finding]:
    spaces = [MetadataSpace("scratch-MDT0000", total, available)]
    return list(data_on_mdt_findings(found, "/l/data", spaces, DesiredLayout(library="data", layout=layout)))


def test_a_metadata_target_that_fills_with_data_is_told_with_when_it_is_full() -> None:
    # 70 GiB in a week: 10 GiB a day, and 100 GiB are left.
    (found,) = filling(library(70 * 1024, GIB), 200 * GIB, 100 * GIB)
    assert "keep 70 GiB on metadata targets, 70 % of what these hold" in found.text
    assert "scratch-MDT0000 is 50 % in use, 100 GiB left" in found.text
    assert "full in 10 days" in found.text
    assert "The layout of library data has the first 1 MiB of each file there" in found.text
    assert "gridwright layout set grid.yaml data" in found.remedy


def test_old_data_are_told_where_the_target_is_nearly_full_and_not_with_a_day() -> None:
    (found,) = filling(library(70 * 1024, GIB, age_days=0), 100 * GIB, 20 * GIB, layout=None)
    assert "at the rate of the last week" not in found.text
    assert "Its layout for new files keeps none there" in found.text


class Client:
    """The recorded client, with a library on it that a scan sees so."""

    def __init__(self, scanned: LibraryScan) -> None:
        self.scanned = scanned
        self.node = healthy_node()
        self.looks = 0

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        match list(command):
            case [_, "-P", "-m", module, *_] if module.endswith(".scan_program"):
                return CommandOutput(0, encode(self.scanned), b"")
            case ["lctl", "get_param", name] if name.endswith(".stats"):
                self.looks += 1
                # The second look finds what OST0 moved meanwhile, and nothing of OST1.
                text = printed(COUNTERS[0])
                if self.looks > 1:
                    text = text.replace("2097152 4194304 ", "2097152 900004194304 ", 1)
                    text = text.replace("snapshot_time             1795228010.", "snapshot_time 1795228011.")
                return CommandOutput(0, text.encode(), b"")
        return self.node(command, timeout_s=timeout_s)


def test_a_client_is_asked_for_its_files_its_load_and_its_metadata_targets() -> None:
    waits: list[float] = []
    client = Client(library(70 * 1024, GIB))
    wish = DesiredLayout(library="data", layout=DOM)
    told = library_findings(client, "/mnt/scratch/data", wish, pause=waits.append)
    assert [each.name for each in told] == ["metadata-fills-with-data", "targets-unevenly-loaded"]
    assert "scratch-OST0000 has" in told[1].text
    assert 0 < waits[0] <= 1, "a scan that ends at once is too short to count anything"


def test_who_is_not_root_is_told_nothing_of_the_load_and_all_the_rest() -> None:
    client = Client(library(70 * 1024, GIB))
    client.node.root = False
    told = library_findings(client, "/mnt/scratch/data", DesiredLayout(library="data"))
    assert [each.name for each in told] == ["metadata-fills-with-data"]
    assert client.looks == 0, "to others than root the counters are wrong"


@pytest.mark.parametrize(
    ("found", "total", "available"),
    [
        (library(5, GIB), 100 * GIB, 20 * GIB),
        (library(1024, 1024), 100 * GIB, 20 * GIB),
        (library(70 * 1024, GIB, age_days=0), 1000 * GIB, 900 * GIB),
        (library(7 * 1024, GIB), 4000 * GIB, 3950 * GIB),
        (library(0, 0, held=0), 100 * GIB, 20 * GIB),
    ],
    ids=["few files", "tiny files", "old data and room", "months of room", "none"],
)
def test_what_does_not_fill_a_metadata_target_is_no_finding(
    found: LibraryScan, total: int, available: int
) -> None:
    assert filling(found, total, available) == []


def test_the_space_of_metadata_targets_is_read_as_recorded() -> None:
    (space,) = read_metadata_space(healthy_node(), "scratch")
    assert (space.target, space.total_bytes, space.available_bytes) == (
        "scratch-MDT0000",
        1160264 * 1024,
        1039076 * 1024,
    )
