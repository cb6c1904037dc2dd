"""What is understood of MooseFS, from what `mfscli` 3.0.117 really printed in a lab of 3 servers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition, Health, Server
from gridwright.filesystems.moosefs.health import connected_servers, health, master_of_mount, traffic
from gridwright.filesystems.site import ComputeNodes, Site
from gridwright.spec.load import parse_spec

RECORDED = Path(__file__).parents[2] / "fixtures" / "moosefs"


class Recorded:
    """Prints what was recorded, section by section as it is asked for."""

    def __init__(self, text: str, broken: Sequence[str] = ()) -> None:
        self.text = text
        self.broken = broken
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        assert timeout_s <= 10
        self.asked.append(command)
        if any(each in command for each in self.broken):
            raise environment_error("mfscli has not answered for 10 s")
        disks = "-SHD" in command
        lines = self.text.splitlines(keepends=True)
        return CommandOutput(0, "".join(x for x in lines if x.startswith("disks:") == disks).encode(), b"")


def recorded(name: str) -> Health:
    return health(Recorded((RECORDED / f"{name}.txt").read_text()), "storage1")


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def test_a_healthy_file_system_has_nothing_to_say() -> None:
    found = recorded("healthy")
    assert found.condition is Condition.HEALTHY
    assert names(found) == []
    assert [(each.name, each.up, each.state) for each in found.servers] == [
        ("10.79.1.11:9422", True, "connected"),
        ("10.79.1.12:9422", True, "connected"),
        ("10.79.1.13:9422", True, "connected"),
    ]
    assert found.capacity_bytes == 293_379_883_008
    assert found.available_bytes == 228_354_871_296
    target = found.targets[0]
    assert (target.name, target.server) == ("10.79.1.11:9422:/srv/mfs1/", "10.79.1.11:9422")
    assert (target.up, target.state, target.last_error) == (True, "ok", None)
    assert (target.used_bytes, target.capacity_bytes) == (21_675_003_904, 97_793_294_336)


def test_a_server_that_has_just_connected_offers_no_room_yet() -> None:
    text = (RECORDED / "healthy.txt").read_text().replace("total space\t293379883008", "total space\t0")
    found = health(Recorded(text), "storage1")
    assert (found.condition, names(found)) == (Condition.BROKEN, ["server-away"])


def test_a_killed_server_whose_data_had_one_copy_breaks_it_and_says_how_many_chunks() -> None:
    found = recorded("server-killed")
    assert found.condition is Condition.BROKEN
    assert names(found) == ["data-missing", "server-away"]
    assert "2 chunks" in found.findings[0].text
    assert "10.79.1.13:9422" in found.findings[1].text
    assert [each.up for each in found.servers] == [True, True, False]


def test_data_with_one_copy_left_are_named_after_those_that_are_lost() -> None:
    found = recorded("two-servers-less")
    assert found.condition is Condition.BROKEN
    assert names(found) == ["data-missing", "data-endangered", "server-away"]
    assert "20 chunks" in found.findings[1].text


def test_a_server_less_with_all_data_there_is_degraded() -> None:
    text = (RECORDED / "one-server-less.txt").read_text().replace("missing:\t2", "missing:\t0")
    found = health(Recorded(text), "storage1")
    assert found.condition is Condition.DEGRADED
    assert names(found) == ["server-away"]


def test_without_any_server_it_is_broken() -> None:
    found = recorded("no-server")
    assert found.condition is Condition.BROKEN
    assert [each.up for each in found.servers] == [False] * 3


@pytest.mark.parametrize(
    ("name", "told"), [("master-dead", "DEAD"), ("master-stopped", "BUSY"), ("no-host", "Can't find masters")]
)
def test_a_master_that_does_not_answer_is_a_finding(name: str, told: str) -> None:
    found = recorded(name)
    assert found.condition is Condition.SILENT
    assert names(found) == ["master-silent"]
    assert told in found.findings[0].text
    assert "storage1" in found.findings[0].text
    assert found.servers == ()


def test_a_chunk_server_that_hangs_hides_nothing_of_what_the_master_says() -> None:
    found = health(Recorded((RECORDED / "healthy.txt").read_text(), broken=["-SHD"]), "storage1")
    assert found.condition is Condition.DEGRADED
    assert names(found) == ["target-bad"]
    assert len(found.servers) == 3


def test_a_command_that_does_not_end_is_an_error() -> None:
    with pytest.raises(GridwrightError, match="has not answered"):
        health(Recorded("", broken=["-SCS"]), "storage1")


def test_a_full_file_system_is_broken_and_a_nearly_full_one_degraded() -> None:
    text = (RECORDED / "healthy.txt").read_text()
    nearly = health(
        Recorded(text.replace("avail space\t228354871296", "avail space\t1000000000")), "storage1"
    )
    assert (nearly.condition, names(nearly)) == (Condition.DEGRADED, ["filesystem-full"])
    full = health(Recorded(text.replace("avail space\t228354871296", "avail space\t0")), "storage1")
    assert (full.condition, names(full)) == (Condition.BROKEN, ["filesystem-full"])


def test_a_damaged_disk_and_one_that_is_scanned_are_told_apart() -> None:
    text = (
        (RECORDED / "healthy.txt")
        .read_text()
        .replace(
            "/srv/mfs1/\t14\tno errors\tok\t0\t1730209227\t0\t37\t0\t0\t1600\t0\t21675003904\t97793294336",
            "/srv/mfs1/\t14\t1795270066\tdamaged\t-\t-\t-\t-\t-\t-\t-\t-\t21675003904\t97793294336",
        )
        .replace(
            "/srv/mfs2/\t16\tno errors\tok\t0\t1660997077\t0\t39\t0\t0\t1856\t0\t21675003904\t97793294336",
            "/srv/mfs2/\t16\tno errors\tscanning\t-\t-\t-\t-\t-\t-\t-\t-\tprogress:\t12",
        )
    )
    found = health(Recorded(text), "storage1")
    assert [each.up for each in found.targets] == [False, True, True]
    assert found.targets[0].last_error == 1_795_270_066
    assert found.targets[1].capacity_bytes is None
    assert names(found) == ["target-bad"]
    assert "/srv/mfs1/ (damaged)" in found.findings[0].text


SERVERS = [
    Server(name=f"10.79.1.1{i}:9422", up=i != 2, state="connected" if i != 2 else "disconnected")
    for i in (1, 2, 3)
]


def test_traffic_is_told_of_each_server_that_is_up() -> None:
    figures = "104857600\t209715200\t1600\t3200\t0\t4096\t0\t1"
    run = Recorded(f"Chunkserver chart data:\t2026-11-21 14:06\t{figures}\n")
    first, third = traffic(run, SERVERS, "storage1")
    assert (first.server, third.server) == ("10.79.1.11:9422", "10.79.1.13:9422")
    assert (first.read_bytes, first.written_bytes, first.reads, first.writes) == (
        104_857_600,
        209_715_200,
        1600,
        3200,
    )
    assert (third.written_bytes, third.seconds) == (4096, 60.0)
    assert "10.79.1.12" not in " ".join(run.asked[0])


def test_a_minute_without_data_is_left_out() -> None:
    nothing = "\t".join(["18446744073709551615"] * 4)
    run = Recorded(f"Chunkserver chart data:\t2026-11-21 14:05\t{nothing}\t1\t2\t3\t4\n")
    assert [each.server for each in traffic(run, SERVERS, "storage1")] == ["10.79.1.13:9422"]
    assert traffic(run, [], "storage1") == []


def test_a_dead_master_tells_no_traffic() -> None:
    with pytest.raises(GridwrightError, match="master servers not found"):
        traffic(Recorded((RECORDED / "master-dead.txt").read_text()), SERVERS, "storage1")


WORDS = st.sampled_from(
    [
        *("metadata servers:", "master info:", "total space", "avail space", "all chunks matrix:", "disks:"),
        *("chunkclass missing:", "chunk servers:", "Disconnected chunk servers:", "Chunkserver chart data:"),
        *("10.0.0.1:9422:/srv/", "progress:", "-", "0", "-1", "9" * 30, "1e9", "\u0661", ""),
    ]
)


@given(
    st.lists(st.lists(WORDS | st.text(max_size=8), max_size=16).map("\t".join), max_size=12).map("\n".join)
)
def test_no_garbage_crashes_it(printed: str) -> None:
    found = health(Recorded(printed), "storage1")
    assert found.condition in Condition
    for server in connected_servers(Recorded(printed), "storage1"):
        assert isinstance(server.name, str)
    with suppress(GridwrightError):
        traffic(Recorded(printed), SERVERS, "storage1")


@given(st.binary(max_size=200))
def test_no_bytes_crash_it(printed: bytes) -> None:
    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        return CommandOutput(1, printed, b"")

    assert health(run, "storage1").condition in Condition


@pytest.mark.parametrize(
    ("source", "master"),
    [
        ("mfs#storage1:9421", "storage1"),
        ("mfs\\043storage1:9421", "storage1"),
        ("mfsmaster:9421/sub", "mfsmaster"),
        ("10.0.0.1:9421", "10.0.0.1"),
        ("/dev/sda1", None),
        ("", None),
    ],
)
def test_the_master_is_known_by_the_mount(source: str, master: str | None) -> None:
    assert master_of_mount(source) == master


def site_of(filesystem: str) -> Site:
    spec = parse_spec(
        "provider: lab\nnodes: {compute: {count: 3}}\nscheduler: {type: slurm}\n"
        f"filesystems: {{shared: {filesystem}}}\n"
    )
    return Site(spec, load_catalog(None), ComputeNodes(3, 4, None))


def test_nothing_is_predicted_of_it_and_that_is_said() -> None:
    site = site_of("{type: moosefs, path: /mnt/grid, servers: 3, copies: 2}")
    found = kind_of(site.spec.filesystems["shared"]).contribute(
        "shared", site.spec.filesystems["shared"], site
    )
    assert found.routes == {}
    assert "MooseFS" in found.unknown
    assert found.outlives_server
    once = site_of("{type: moosefs, path: /mnt/grid}")
    assert (
        not kind_of(site.spec.filesystems["shared"])
        .contribute("shared", once.spec.filesystems["shared"], once)
        .outlives_server
    )
