"""What is told of a Spectrum Scale, from rows as IBM's manual has them: none was at hand to be recorded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError, environment_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Condition, Health, TimeUp
from gridwright.filesystems.scale.health import (
    disk_findings,
    disks_of,
    filesystem_findings,
    health,
    monitor_findings,
    path_findings,
    pool_findings,
    serves,
    waiter_findings,
)
from gridwright.filesystems.scale.mmpmon import Mmpmon, ScaleWatcher, parse_fs_io
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.monitor.mount_sources import InProcess

HEADERS = (
    "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:arguments:"
    "activesince:identifier:ishidden:\n"
    "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:"
    "laststatuschange:\n"
)


def state(component: str, status: str, entity: str = "node1") -> str:
    return f"mmhealth:State:0:1:::node1:{component}:{entity}:NODE:{status}:2026-11-20 09%3A35%3A21.8 UTC:\n"


def event(component: str, name: str) -> str:
    return f"mmhealth:Event:0:1:::node1:{component}:node1:NODE:{name}::2026-11-20 09%3A35%3A21.8 UTC::no:\n"


WELL = HEADERS + state("NODE", "HEALTHY") + state("GPFS", "HEALTHY") + state("FILESYSTEM", "HEALTHY", "lake")


DISKS = (
    "mmlsdisk::HEADER:version:reserved:reserved:nsdName:driverType:sectorSize:failureGroup:metadata:data:"
    "status:availability:diskID:storagePool:remarks:numQuorumDisks:readQuorumValue:writeQuorumValue:"
    "diskSizeKB:diskUID:thinDiskType:\n"
)
NSDS = (
    "mmlsnsd:nsd:HEADER:version:reserved:reserved:fileSystem:diskName:volumeId:serverList:deviceType:"
    "localDiskName:remarks:sizeMB:\n"
)
WAITERS = (
    "mmdiag:waiters:HEADER:version:reserved:reserved:threadId:threadAddr:threadName:waitStartTime:waitTime:"
    "isMonitored:condVarAddr:condVarName:condVarReason:mutexAddr:mutexName:auxReason:delayTime:delayReason:\n"
)
MADE = "mmlsfs::HEADER:version:reserved:reserved:deviceName:fieldName:data:remarks:\n"


def disk(name: str, available: str = "up", status: str = "ready") -> str:
    return (
        f"mmlsdisk::0:1:::{name}:nsd:512:101:yes:yes:{status}:{available}:1:system:desc:3:2:2:1048576:0A::\n"
    )


def path(name: str, server: str, remarks: str = "server node") -> str:
    local = "-" if "not found" in remarks else "/dev/oracleoci/oraclevdb"
    return f"mmlsnsd:nsd:0:1:::lake:{name}:0A0A:{server}:generic:{local}:{remarks}::\n"


def waiter(thread: str, seconds: str, why: str = "for I/O completion", watched: str = "monitored") -> str:
    return f"mmdiag:waiters:0:1:::1:00F5:{thread}:2026-11-27_10%3A00%3A00:{seconds}:{watched}::::::{why}:::\n"


def made(**fields: str) -> str:
    return MADE + "".join(f"mmlsfs::0:1:::lake:{name}:{value}::\n" for name, value in fields.items())


AS_SPECIFIED = made(blockSize="2097152", defaultDataReplicas="1", defaultMetadataReplicas="1")


@dataclass
class Node:
    printed: str | None = WELL
    mounts: str = "lake /lake gpfs rw,relatime 0 0\n"
    space: str | None = "4096 1000000 900000 500000 499000\n"
    disks: str | None = DISKS + disk("lake_p1_v01") + disk("lake_p1_v02")
    nsds: str = NSDS + path("lake_p1_v01", "nsd1.example.com,nsd2.example.com")
    paths: str = NSDS + path("lake_p1_v01", "nsd1") + path("lake_p1_v01", "nsd2")
    waiters: str | None = WAITERS
    made: str | None = AS_SPECIFIED
    pools: str | None = ""
    host: str = "compute1"
    ran: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        self.ran.append(command)
        told = {
            "cat": self.mounts,
            "stat": self.space,
            "uname": f"{self.host}\n",
            "mmhealth": self.printed,
            "mmlsdisk": self.disks,
            "mmlsnsd": self.paths if "-X" in command else self.nsds,
            "mmdiag": self.waiters,
            "mmlsfs": self.made,
            "mmlspool": self.pools,
        }[command[0].removeprefix("/usr/lpp/mmfs/bin/")]
        if told is None:
            raise environment_error(f"{command[0]} has not answered for {timeout_s:.0f} s")
        return CommandOutput(0, told.encode(), b"")


def scale(**fields: object) -> ScaleFileSystem:
    nsd = {"instance": "BM.DenseIO.E5.128", "count": 4}
    return ScaleFileSystem.model_validate({"type": "scale", "path": "/lake", "nsd": nsd, **fields})


SPEC = scale()


def names(found: Health) -> list[str]:
    return [each.name for each in found.findings]


def test_a_healthy_one_has_nothing_to_say() -> None:
    found = kind_of(SPEC).health(SPEC, Node(), "/lake/work")
    assert found is not None
    assert (found.condition, names(found)) == (Condition.HEALTHY, [])
    assert (found.capacity_bytes, found.available_bytes) == (4096 * 1000000, 4096 * 900000)


@pytest.mark.parametrize(
    ("status", "name", "condition"),
    [
        ("FAILED", "scale-failed", Condition.DEGRADED),
        ("DEGRADED", "scale-degraded", Condition.DEGRADED),
        ("DEPEND", "scale-degraded", Condition.DEGRADED),
        ("TIPS", "scale-tips", Condition.HEALTHY),
    ],
)
def test_a_component_that_is_not_well_is_told_with_its_events(
    status: str, name: str, condition: Condition
) -> None:
    printed = WELL + state("NETWORK", status) + event("NETWORK", "ib_rdma_port_width_low")
    found = health(SPEC, Node(printed), "/lake")
    assert (found.condition, names(found)) == (condition, [name])
    assert found.findings[0].text == f"Spectrum Scale: NETWORK is {status} (ib_rdma_port_width_low)"


def test_of_several_entities_the_worst_speaks_and_the_node_is_not_told_twice() -> None:
    printed = (
        HEADERS + state("NODE", "FAILED") + state("DISK", "DEGRADED", "d1") + state("DISK", "FAILED", "d2")
    )
    assert [each.text for each in monitor_findings(printed)] == ["Spectrum Scale: DISK is FAILED"]


def test_rows_without_the_newer_columns_are_read() -> None:
    old = "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:\n"
    row = "mmhealth:State:0:1:::node1:GPFS:node1:NODE:FAILED:\n"
    assert [each.name for each in monitor_findings(old + row)] == ["scale-failed"]


def test_what_does_not_answer_is_told() -> None:
    assert names(health(SPEC, Node(printed=None), "/lake")) == ["scale-silent"]
    assert names(health(SPEC, Node(printed=""), "/lake")) == ["scale-silent"]
    found = health(SPEC, Node(space=None), "/lake")
    assert (found.condition, names(found)) == (Condition.SILENT, ["filesystem-silent"])
    away = health(SPEC, Node(mounts="/dev/vda / ext4 rw 0 0\n"), "/lake")
    assert (away.condition, names(away)) == (Condition.BROKEN, ["filesystem-not-mounted"])


@given(st.integers(0, len(WELL)), st.integers(0, len(WELL)), st.text(max_size=20))
def test_garbled_rows_never_break_the_parser(start: int, end: int, put: str) -> None:
    list(monitor_findings(WELL[:start] + put + WELL[end:]))


@pytest.mark.parametrize(
    ("disks", "name", "condition", "words"),
    [
        (disk("d1") + disk("d2", "down"), "scale-disk-down", Condition.BROKEN, "disk d2 of lake is not read"),
        (disk("d1", "unrecovered") + disk("d2", "down"), "scale-disk-down", Condition.BROKEN, "disks d1, d2"),
        (disk("d1", "recovering"), "scale-disk-recovering", Condition.DEGRADED, "reads go to copies"),
        (disk("d1", status="suspended"), "scale-disk-suspended", Condition.DEGRADED, "new data go to the"),
        (disk("d1", status="being emptied"), "scale-disk-suspended", Condition.DEGRADED, "being emptied"),
    ],
)
def test_disks_that_are_not_as_they_should_be_are_named(
    disks: str, name: str, condition: Condition, words: str
) -> None:
    found = health(SPEC, Node(disks=DISKS + disks), "/lake")
    assert (found.condition, names(found)) == (condition, [name])
    assert words in found.findings[0].text


def test_with_two_copies_a_disk_that_is_down_takes_nothing_away() -> None:
    copied = made(blockSize="2097152", defaultDataReplicas="2", defaultMetadataReplicas="2")
    found = health(scale(replicas=2), Node(disks=DISKS + disk("d1", "down"), made=copied), "/lake")
    assert (found.condition, names(found)) == (Condition.DEGRADED, ["scale-disk-down"])
    assert found.away == {"d1": "down"}


def test_a_server_without_its_way_to_a_disk_is_told_by_servers_alone() -> None:
    """mmlsnsd -X asks all servers over ssh, which every node at once would do."""
    lost = (
        NSDS
        + path("lake_p1_v01", "nsd1")
        + path("lake_p1_v01", "nsd2.example.com", "(not found) server node")
    )
    of_node = Node(paths=lost)
    assert names(health(SPEC, of_node, "/lake")) == []
    assert not any("-X" in command for command in of_node.ran)
    found = health(SPEC, Node(paths=lost, host="nsd1.example.com"), "/lake")
    assert names(found) == ["scale-path-missing"]
    assert found.findings[0].text.startswith("nsd2 does not see disk lake_p1_v01")


def test_threads_that_wait_for_long_are_told_and_those_that_idle_are_not() -> None:
    waiters = WAITERS + "".join(
        (
            waiter("RebuildWorkThread", "299.9"),
            waiter("EventsExporterSenderThread", "86400", "for poll on sock 1379"),
            waiter("WritebehindWorkerThread", "900.5"),
            waiter("WritebehindWorkerThread", "301"),
            waiter("SharedHashTabFetchHandlerThread", "5000", watched="not monitored"),
            waiter("OddThread", "nan"),
        )
    )
    found = health(SPEC, Node(waiters=waiters), "/lake")
    assert names(found) == ["scale-long-waiters"]
    assert "2 threads" in found.findings[0].text
    assert "up to 900 s: WritebehindWorkerThread for I/O completion (2)" in found.findings[0].text


def test_a_file_system_that_was_made_otherwise_is_told() -> None:
    found = health(SPEC, Node(made=made(blockSize="4194304", defaultDataReplicas="2")), "/lake")
    assert names(found) == ["scale-block-size", "scale-replicas"]
    assert "blocks of 4 MiB, and the spec has 2 MiB" in found.findings[0].text
    # Pools may have sizes of their own: one of them is that of the spec.
    both = AS_SPECIFIED + "mmlsfs::0:1:::lake:blockSize:262144:system pool:\n"
    assert names(health(SPEC, Node(made=both), "/lake")) == []


POOLS = (
    "Storage pools in file system at '/lake':\n"
    "Name                    Id   BlkSize Data Meta Total Data in (KB)   Free Data in (KB)   "
    "Total Meta in (KB)    Free Meta in (KB)\n"
)


def pool(name: str, total: int, free: int, *, metadata: bool = False) -> str:
    """A row, as real clusters print it."""
    there, none = (
        f"{total:14} {free:14} ({100 * free // max(total, 1):3}%)",
        "             0              0 (  0%)",
    )
    holds, rest = ("  no  yes", f"{none} {there}") if metadata else (" yes   no", f"{there} {none}")
    return f"{name:20} 65537      8 MB {holds} {rest}\n"


def test_a_pool_without_room_is_told_by_servers_however_much_the_others_have() -> None:
    spec = scale(pools={"data": {"disks": {"type": "x"}}}, metadata_only=True)
    rows = pool("system", 1000, 50, metadata=True) + pool("data", 4000, 3000) + pool("cold", 100, 0)
    assert names(health(spec, Node(pools=POOLS + rows), "/lake")) == []
    node = Node(pools=POOLS + rows, host="nsd1.example.com")
    found = [each for each in health(spec, node, "/lake").findings if each.name == "scale-pool-full"]
    assert [(each.level, each.text[: each.text.index(" in use")]) for each in found] == [
        ("error", "pool cold of lake: 100 %"),
        ("warning", "pool system of lake: 95 %"),
    ]
    # Without pools in the spec nobody asks, and one that does not tell is said to be silent.
    without = Node(host="nsd1.example.com")
    assert names(health(scale(), without, "/lake")) == []
    assert not any("mmlspool" in command[0] for command in without.ran)
    assert names(health(spec, Node(host="nsd1.example.com"), "/lake")) == ["scale-silent"]


@given(st.integers(0, 400), st.integers(0, 400), st.text(max_size=20))
def test_garbled_pools_never_break_the_parser(start: int, end: int, put: str) -> None:
    text = POOLS + pool("data", 4000, 10)
    list(pool_findings(text[:start] + put + text[end:], "lake"))


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 10**15), st.floats(0, 1)), max_size=4)
)
def test_every_pool_that_is_nearly_full_is_named_and_no_other(pools: dict[str, tuple[int, float]]) -> None:
    spaces = {name: (total, int(total * part)) for name, (total, part) in pools.items()}
    text = POOLS + "".join(pool(name, *each) for name, each in spaces.items())
    told = {each.text.split()[1] for each in pool_findings(text, "lake")}
    assert told == {name for name, (total, free) in spaces.items() if free * 1024 < (1 - 0.9) * total * 1024}


def test_what_hangs_is_one_finding_and_the_rest_is_not_waited_for() -> None:
    node = Node(disks=None, made=None, waiters=None)
    found = health(SPEC, node, "/lake")
    assert names(found) == ["scale-silent"]
    assert "mmdiag" in found.findings[0].text
    assert sum(command[0].startswith("/usr/lpp") for command in node.ran) == 3


def test_where_the_time_is_over_what_was_told_by_then_is_found() -> None:
    node = Node(disks=None, printed=HEADERS + state("NETWORK", "FAILED"))

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        if command[0].endswith(("mmlsdisk", "uname")):
            raise TimeUp("mmlsdisk had not answered after 12 s")
        return node(command, timeout_s=timeout_s)

    found = health(SPEC, run, "/lake")
    assert names(found) == ["scale-failed", "scale-silent"]
    assert found.capacity_bytes is not None
    assert "mmlsdisk had not answered after 12 s" in found.findings[1].text


def test_a_file_system_of_another_cluster_is_not_asked_for_its_disks() -> None:
    remote = {"cluster": "s.example.com", "contacts": ["n1"], "filesystem": "fs1"}
    node = Node()
    found = health(scale(nsd=None, remote=remote), node, "/lake")
    assert (found.condition, names(found), found.away) == (Condition.HEALTHY, [], None)
    assert not any("mmlsdisk" in command[0] for command in node.ran)


_WELL_TOLD = [DISKS + disk("d1", "down"), NSDS + path("d1", "n1", "(not found) server node")]
_WELL_TOLD += [WAITERS + waiter("T", "900"), AS_SPECIFIED]


@given(st.sampled_from(_WELL_TOLD), st.integers(0, 700), st.integers(0, 700), st.text(max_size=20))
def test_garbled_rows_of_other_commands_never_break_their_parsers(
    printed: str, start: int, end: int, put: str
) -> None:
    text = printed[:start] + put + printed[end:]
    for told in (
        disk_findings(text, "lake"),
        path_findings(text),
        waiter_findings(text),
        filesystem_findings(text, "lake", 1 << 21, 1),
        disks_of(text),
    ):
        list(told)
    serves(text, "n1")


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["up", "down", "recovering"])), max_size=8
    )
)
def test_every_disk_that_is_not_up_is_named_and_no_other(disks: list[tuple[str, str]]) -> None:
    states = dict(disks)
    text = DISKS + "".join(disk(name, state) for name, state in states.items())
    found = {each.name: each.text for each in disk_findings(text, "lake")}
    for state, finding in (("down", "scale-disk-down"), ("recovering", "scale-disk-recovering")):
        wanted = sorted(name for name, each in states.items() if each == state)
        assert (finding in found) == bool(wanted)
        if wanted:
            assert f"{', '.join(wanted)} of lake" in found[finding]
    assert {each.name for each in disks_of(text) if not each.up} == {
        name for name, state in states.items() if state != "up"
    }


# What mmpmon tells is read from one process, which is left alone for a while where it fails.

ROW = (
    "_fs_io_s_ _n_ 10.0.0.1 _nn_ node1 _rc_ 0 _t_ 1066660148 _tu_ 407431 _cl_ c1 _fs_ {fs} _d_ 2 "
    "_br_ {read} _bw_ {written} _oc_ 10 _cc_ 16 _rdc_ 101 _wc_ 300 _dir_ 7 _iu_ 2"
)
"""In the form that IBM's manual has it."""
DOUBLE = f"""
import sys
asked = 0
for line in sys.stdin:
    if line.strip() == "fs_io_s":
        asked += 1
        for fs in ("gpfs0", "gpfs1"):
            print({ROW!r}.format(fs=fs, read=1000 * asked, written=5))
    elif line.strip() == "ver":
        print("_ver_ _n_ 10.0.0.1 _nn_ node1 _v_ 3 _lv_ 3 _vt_ 0", flush=True)
    if asked == int(sys.argv[1]):
        break
"""


def double(answers: int) -> Mmpmon:
    return Mmpmon([sys.executable, "-c", DOUBLE, str(answers)])


def test_one_process_answers_again_and_again_for_each_mount(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text("gpfs1 /work gpfs rw 0 0\n")
    mmpmon = double(9)
    read = ScaleWatcher(mmpmon).mount_counters(InProcess(tmp_path), "/work", tmp_path)
    assert read is not None
    first, second = read()["gpfs1"], read()["gpfs1"]
    assert (first.read_bytes, second.read_bytes) == (1000, 2000)
    assert (first.at_s, first.target, first.reads, first.writes) == (1066660148.407431, "/work", 101, 300)
    mmpmon.close()


def test_one_that_ends_or_is_not_there_is_told_and_left_alone() -> None:
    ending = double(1)
    with pytest.raises(GridwrightError, match="it has ended"):
        ending.counts()
    with pytest.raises(GridwrightError, match="it has ended"):
        ending.counts()
    missing = Mmpmon(["/usr/lpp/mmfs/bin/nothing"])
    with pytest.raises(GridwrightError, match="No such file"):
        missing.counts()


def test_rows_of_an_error_are_passed_over() -> None:
    text = (
        ROW.format(fs="good", read=1, written=2)
        + "\n"
        + ROW.format(fs="bad", read=1, written=2).replace("_rc_ 0", "_rc_ 1")
    )
    assert set(parse_fs_io(text)) == {"good"}
    assert parse_fs_io(ROW.format(fs="odd", read="many", written=2)) == {}


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_fs_io(text)
    parse_fs_io(f"_fs_io_s_ {text}")
