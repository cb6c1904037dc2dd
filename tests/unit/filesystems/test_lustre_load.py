"""OSTs that have most of a client's load, and metadata targets that fill with data of files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import Finding
from gridwright.filesystems.counters import traffic
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Traffic
from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.lustre_client.attribute import ClassCount, FileCount, Scanned
from gridwright.filesystems.lustre_client.counters import read_connection_counters
from gridwright.filesystems.lustre_client.data_on_mdt import (
    MetadataSpace,
    data_on_mdt_findings,
    read_metadata_space,
)
from gridwright.filesystems.lustre_client.library_findings import library_findings
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.filesystems.lustre_client.target_load import load_findings
from gridwright.messages import encode
from tests.fixtures.lustre_node import LustreNode, healthy_node, printed, recorded_parameters

MIB, GIB = 2**20, 2**30
COUNTERS = ("310-before-c-osc-stats", "330-after-write-c-osc-stats")
DOM = FileLayout(
    (
        Component(end=MIB, stripe_count=0, on_metadata_server=True),
        Component(start=MIB, stripe_count=-1),
    )
)


def moved(**bytes_of: int) -> list[Traffic]:
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
    (found,) = load_findings(moved(OST0=900_000_000, OST1=100_000_000, OST2=0, OST3=0), 4, 600e6)
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
    assert list(load_findings(moved(**bytes_of), targets)) == []


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
