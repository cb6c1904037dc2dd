"""NFS mounts, from what a real kernel (6.1) told of them, and what is said of dangerous and slow ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.filesystems.counters import Counts, traffic
from gridwright.filesystems.health import Condition, Health
from gridwright.filesystems.nfs.kind import KIND, NfsFileSystem
from gridwright.filesystems.nfs_client.health import (
    WATCHER,
    MountCounter,
    MountStats,
    health,
    parse_mountstats,
    stats_of,
)

RECORDED = Path(__file__).parents[2] / "fixtures" / "nfs"
MIB = 2**20


def printed(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def stats(name: str) -> MountStats:
    found = stats_of("/data", parse_mountstats(printed(name)))
    assert found is not None
    return found


def filesystem(**fields: object) -> NfsFileSystem:
    plain = {"type": "nfs", "path": Path("/data"), "server": "10.90.0.1", "export": "/srv/data"}
    return NfsFileSystem.model_validate({**plain, **fields})


@dataclass
class Client:
    """A node with the recorded mount."""

    mounts: str = field(default_factory=lambda: printed("mounts-v4.2"))
    mountstats: str = field(default_factory=lambda: printed("mountstats-v4.2-read"))
    space: str | None = "4096 1000000 900000 500000 499000\n"
    asked: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        assert timeout_s <= 5
        self.asked.append(command)
        match list(command):
            case ["cat", "/proc/mounts"]:
                return CommandOutput(0, self.mounts.encode(), b"")
            case ["cat", "/proc/self/mountstats"]:
                return CommandOutput(0, self.mountstats.encode(), b"")
            case ["stat", "-f", "-c", _, "/data"]:
                if self.space is None:
                    raise environment_error("stat -f /data has not answered for 5 s")
                return CommandOutput(0, self.space.encode(), b"")
        raise AssertionError(command)


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def test_a_mount_that_is_well_has_nothing_to_say() -> None:
    found = health(Client(), "/data/grid/work", filesystem(connections=2).version)
    assert (found.condition, names(found)) == (Condition.HEALTHY, [])
    assert (found.capacity_bytes, found.available_bytes) == (4096 * 1000000, 4096 * 900000)
    assert [(each.name, each.up) for each in found.servers] == [("10.90.0.1", True)]


def count(name: str, at_s: float, counter: MountCounter | None = None) -> Counts:
    counter = counter or MountCounter(Client(), "/data")
    return {"/data": counter.count(stats(f"mountstats-v4.2-{name}"), at_s)}


def test_what_was_written_and_read_is_counted_to_the_byte() -> None:
    counter = MountCounter(Client(), "/data")
    began = float(stats("mountstats-v4.2-idle").age_s or 0)
    idle, written, read = (
        count(name, began + at, counter) for name, at in (("idle", 0.4), ("written", 1.2), ("read", 2.2))
    )
    (first,) = traffic(idle, written)
    assert (first.written_bytes, first.read_bytes, first.writes) == (100 * MIB, 0, 100)
    assert first.seconds == pytest.approx(0.8)
    (second,) = traffic(written, read)
    assert (second.written_bytes, second.read_bytes, second.reads) == (10 * MIB, 100 * MIB, 100)
    assert (second.server, second.target) == ("10.90.0.1", "/data")
    assert second.in_flight is not None and second.in_flight > 0


def test_a_mount_that_was_made_anew_gives_no_figure() -> None:
    counter = MountCounter(Client(), "/data")
    read = count("read", 100.0, counter)
    assert traffic(read, count("idle", 101.0, counter)) == []
    assert traffic(read, read) == []
    # Even if it has moved more since than the one before had in all.
    young = replace(stats("mountstats-v4.2-read"), age_s=1)
    assert traffic(count("idle", 100.0, counter), {"/data": counter.count(young, 110.0)}) == []


def test_the_counters_of_a_mount_are_read_again_and_again() -> None:
    client = Client(mountstats=printed("mountstats-v4.2-idle"))
    read = WATCHER.mount_counters(client, "/data/grid")
    assert client.asked == []
    before = read()
    client.mountstats = printed("mountstats-v4.2-written")
    assert [each.written_bytes for each in traffic(before, read())] == [100 * MIB]
    client.mounts = "/dev/vda / ext4 rw 0 0\n"
    assert read() == {}


def test_every_connection_of_a_mount_is_seen() -> None:
    assert [each.sends for each in stats("mountstats-v4.2-read").transports] == [134, 124]
    third = stats("mountstats-v3-read")
    assert (third.version, len(third.transports), third.options["rsize"]) == ("3", 1, str(MIB))
    assert third.calls["COMMIT"].execute_s == pytest.approx(0.521)
    assert third.events["vfs_write_pages"] == 8


def test_a_silent_server_is_a_finding_and_no_hang() -> None:
    found = health(Client(space=None), "/data", filesystem().version)
    assert (found.condition, names(found)) == (Condition.SILENT, ["filesystem-silent"])
    assert "has not answered for 5 s" in found.findings[0].text
    assert [each.up for each in found.servers] == [False]


@pytest.mark.parametrize(
    ("change", "name", "level"),
    [
        ({"hard,": "soft,"}, "nfs-soft", "error"),
        ({"hard,": "softerr,"}, "nfs-soft", "error"),
        ({"proto=tcp": "proto=udp"}, "nfs-udp", "error"),
        ({"local_lock=none": "local_lock=all"}, "nfs-local-locks", "error"),
        ({"local_lock=none": "nolock"}, "nfs-local-locks", "error"),
        ({"rsize=1048576": "rsize=131072"}, "nfs-rsize-small", "warning"),
        ({"wsize=1048576": "wsize=65536"}, "nfs-wsize-small", "warning"),
        ({"hard,": "hard,noac,"}, "nfs-uncached", "warning"),
        ({"rw,relatime": "rw,sync,relatime"}, "nfs-uncached", "warning"),
        ({"vers=4.2": "vers=4.1"}, "nfs-version-differs", "warning"),
    ],
)
def test_options_that_lose_data_or_time_are_told(change: Mapping[str, str], name: str, level: str) -> None:
    text = printed("mounts-v4.2").splitlines()
    row = text[-1]
    for old, new in change.items():
        assert old in row
        row = row.replace(old, new)
    found = health(Client(mounts="\n".join([*text[:-1], row])), "/data", filesystem().version)
    assert [(each.name, each.level) for each in found.findings] == [(name, level)]
    assert found.condition is Condition.DEGRADED


def test_calls_that_were_sent_again_tell_of_a_bad_network() -> None:
    busy = printed("mountstats-v4.2-read").replace("READ: 100 100 0", "READ: 90000 90200 3")
    found = health(Client(mountstats=busy), "/data")
    assert names(found) == ["nfs-sent-again"]
    assert "200 of 90" in found.findings[0].text
    few = printed("mountstats-v4.2-read").replace("READ: 100 100 0", "READ: 100 120 3")
    assert names(health(Client(mountstats=few), "/data")) == [], "too few calls to judge by"


def test_one_connection_on_a_fast_network_is_worth_a_word() -> None:
    third = Client(mounts=printed("mounts-v3"), mountstats=printed("mountstats-v3-read"))
    found = KIND.health(filesystem(version="3"), third, "/data", nic_bytes_per_s=12.5e9)
    assert found is not None
    assert (found.condition, names(found)) == (Condition.HEALTHY, ["nfs-one-connection"])
    assert names(health(third, "/data", nic_bytes_per_s=125e6)) == []
    assert names(health(Client(), "/data", nic_bytes_per_s=12.5e9)) == []


def test_what_is_mounted_instead_is_told() -> None:
    found = health(Client(mounts="/dev/root / ext4 rw 0 0\n"), "/data")
    assert names(found) == ["filesystem-not-mounted"]
    assert "there is ext4 of /dev/root" in found.findings[0].text


def test_a_full_file_system_and_one_without_inodes_are_told() -> None:
    assert names(health(Client(space="4096 1000000 50000 500000 499000\n"), "/data")) == ["filesystem-full"]
    assert names(health(Client(space="4096 1000000 900000 500000 400\n"), "/data")) == ["filesystem-inodes"]


def test_what_fstab_gets_is_what_the_kernel_then_shows() -> None:
    entry = KIND.mount_entry(filesystem(connections=2))
    assert entry is not None
    assert (entry.source, entry.mount_point, entry.type) == ("10.90.0.1:/srv/data", "/data", "nfs")
    shown = next(line.split() for line in printed("mounts-v4.2").splitlines() if " /data " in line)
    assert shown[2] in KIND.kernel_types
    kept = set(shown[3].split(","))
    assert {each for each in entry.options if each not in kept} == {"_netdev"}
    # Beside it the kernel shows its defaults only.
    assert {"soft", "nolock", "noac", "sync"}.isdisjoint(kept)
    six = KIND.mount_entry(filesystem(server="fd00::1"))
    assert six is not None
    assert six.source == "[fd00::1]:/srv/data"


TEXT = printed("mountstats-v4.2-read")


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.text(max_size=20))
def test_garbled_counters_never_break_the_parser(start: int, end: int, put: str) -> None:
    found = health(Client(mountstats=TEXT[:start] + put + TEXT[end:]), "/data")
    assert found.condition in (Condition.HEALTHY, Condition.DEGRADED)


MOUNTS = printed("mounts-v4.2")


@given(st.integers(0, len(MOUNTS)), st.integers(0, len(MOUNTS)), st.text(max_size=20))
def test_garbled_mounts_never_break_the_parser(start: int, end: int, put: str) -> None:
    client = Client(mounts=MOUNTS[:start] + put + MOUNTS[end:])
    assert isinstance(health(client, "/data"), Health)
