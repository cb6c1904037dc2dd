"""The cluster that a spec wants holds the rules of a generator, whatever its size."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.administration.order import commands, nsd_stanzas
from gridwright.filesystems.scale.cluster import (
    CLIENTS_CLASS,
    MIB,
    SERVERS_CLASS,
    named_servers,
    page_pool,
    quorum_names,
    scale_cluster,
)
from gridwright.filesystems.scale.model import ScaleFileSystem

GIB = 2**30


def filesystem(**fields: object) -> ScaleFileSystem:
    nsd = {"instance": "BM.Standard2.52", "count": 4, "disks": {"type": "balanced", "count": 11}}
    return ScaleFileSystem.model_validate({"type": "scale", "path": "/gpfs/fs1", "nsd": nsd, **fields})


def machines(
    pairs: int, clients: int, *, memory: int = 768 * GIB, nic: float = 6.25e9
) -> list[ClusterMachine]:
    servers = [
        ClusterMachine(
            name=f"nsd{number}",
            address=f"10.30.128.{number + 9}",
            is_server=True,
            pair=(number - 1) // 2 + 1,
            fault_domain=(number - 1) % 3 + 1,
            memory_bytes=memory,
            nic_bytes_per_s=6.25e9,
        )
        for number in range(1, 2 * pairs + 1)
    ]
    nodes = [
        ClusterMachine(
            name=f"compute{number}",
            address=f"10.30.129.{number}",
            is_server=False,
            memory_bytes=memory // 2,
            nic_bytes_per_s=3.075e9,
        )
        for number in range(1, clients + 1)
    ]
    return servers + nodes


def disks(pairs: int, each: int) -> list[PairDisk]:
    return [
        PairDisk(volume=f"g-fs-p{pair}-v{index + 1:02d}", device=f"/dev/d{index}", pair=pair, index=index)
        for pair in range(1, pairs + 1)
        for index in range(2 * each)
    ]


def cluster_of(pairs: int, each: int, clients: int = 3, **fields: object) -> ScaleCluster:
    return scale_cluster(
        "paper-003",
        "fs-1",
        filesystem(**fields),
        machines(pairs, clients),
        disks(pairs, each),
    )


@given(
    pairs=st.integers(1, 20),
    each=st.integers(1, 16),
    clients=st.integers(0, 30),
    replicas=st.sampled_from((1, 2)),
)
def test_the_rules_hold_for_any_number_of_servers_disks_and_nodes(
    pairs: int, each: int, clients: int, replicas: int
) -> None:
    cluster = cluster_of(pairs, each, clients, replicas=replicas)
    quorum = cluster.quorum
    assert len(quorum) == 2 if pairs == 1 else len(quorum) % 2 == 1
    assert len(quorum) <= 7
    assert len(cluster.tiebreakers) == ((3 if each > 1 else 1) if pairs == 1 else 0)
    pair_of = {f"nsd{number}": (number - 1) // 2 for number in range(1, 2 * pairs + 1)}
    for nsd in cluster.nsds:
        assert len(set(nsd.servers)) == 2
        assert len({pair_of[server] for server in nsd.servers}) == 1
        assert nsd.device not in nsd.name
    for tie in cluster.tiebreakers:
        (nsd,) = (one for one in cluster.nsds if one.name == tie)
        assert set(nsd.servers) == set(quorum)
    first = [nsd.servers[0] for nsd in cluster.nsds]
    assert {first.count(server) for server in cluster.servers} == {each}
    assert len({nsd.name for nsd in cluster.nsds}) == len(cluster.nsds)
    groups = {pair_of[nsd.servers[0]]: nsd.failure_group for nsd in cluster.nsds}
    assert len(set(groups.values())) == pairs
    assert ScaleCluster.from_document(json.loads(json.dumps(cluster.document()))) == cluster


def on_site(sites: list[int], *, replicas: int, witness: bool, disks: int = 3) -> ScaleCluster:
    """Of a site's own pairs, each at its site."""
    pairs = [
        {
            "servers": [f"s{number}a", f"s{number}b"],
            "site": site,
            "memory": "768 GiB",
            "network": "3125 MB/s",
            "disks": [f"/dev/disk/by-id/wwn-0x{number:04x}{index:04x}" for index in range(disks)],
        }
        for number, site in enumerate(sites)
    ]
    tie = {"server": "tie", "disk": "/dev/mapper/tie"} if witness else None
    spec = ScaleFileSystem.model_validate(
        {"type": "scale", "path": "/gpfs", "pairs": pairs, "replicas": replicas, "witness": tie}
    )
    servers = named_servers(spec)
    assert servers is not None
    return scale_cluster("paper-003", "fs-1", spec, [*servers.machines, *machines(0, 2)], servers.disks)


@given(st.tuples(st.integers(1, 4), st.integers(1, 4)), st.integers(1, 5))
def test_each_of_two_sites_may_be_lost_where_a_third_has_a_witness(
    counts: tuple[int, int], disks: int
) -> None:
    cluster = on_site([1] * counts[0] + [2] * counts[1], replicas=2, witness=True, disks=disks)
    groups = {each.failure_group for each in cluster.nsds if each.usage != "descOnly"}
    (tie,) = (each for each in cluster.nsds if each.usage == "descOnly")
    assert len(groups) == 2
    assert tie.failure_group not in groups
    assert (tie.servers, cluster.node_classes["gridWitness"]) == (("tie",), ("tie",))
    assert "pool=" not in nsd_stanzas([tie])
    # A page pool that fits servers is none for a small machine.
    assert "tie" not in (*cluster.node_classes[SERVERS_CLASS], *cluster.node_classes[CLIENTS_CLASS])
    site_of = {each.name: each.fault_domain for each in cluster.nodes}
    assert len(cluster.quorum) % 2 == 1
    for lost in (1, 2):
        assert 2 * sum(site_of[each] != lost for each in cluster.quorum) > len(cluster.quorum)


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_one_of_three_sites_may_be_lost(counts: list[int]) -> None:
    sites = [site for site, count in enumerate(counts, start=1) for _ in range(count)]
    cluster = on_site(sites, replicas=2, witness=False)
    site_of = {each.name: each.fault_domain for each in cluster.nodes}
    assert len(cluster.quorum) % 2 == 1
    for lost in (1, 2, 3):
        assert 2 * sum(site_of[each] != lost for each in cluster.quorum) > len(cluster.quorum)
    assert len({each.failure_group for each in cluster.nsds}) == 3


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_names_of_nsds_stay_whatever_is_written_first(pairs: list[int], disks: list[int]) -> None:
    """A name that moved on would be made anew, on a disk that has data."""

    def named(pair_order: list[int], disk_order: list[int]) -> dict[str, str]:
        spec = ScaleFileSystem.model_validate(
            {
                "type": "scale",
                "path": "/gpfs",
                "pairs": [
                    {
                        "servers": [f"s{pair}a", f"s{pair}b"],
                        "disks": [f"/dev/mapper/p{pair}d{disk}" for disk in disk_order],
                    }
                    for pair in pair_order
                ],
            }
        )
        servers = named_servers(spec)
        assert servers is not None
        cluster = scale_cluster("g", "fs", spec, [*servers.machines], servers.disks)
        return {each.device: each.name for each in cluster.nsds}

    first = named(list(range(4)), list(range(3)))
    assert named(pairs, disks) == first
    assert len(set(first.values())) == 12


@given(memory=st.integers(8 * GIB, 4096 * GIB), share=st.floats(0.01, 0.5), is_server=st.booleans())
def test_the_page_pool_leaves_memory_for_the_kernel_and_is_never_larger_than_the_papers(
    memory: int, share: float, is_server: bool
) -> None:
    pool = page_pool(memory, share, is_server=is_server)
    assert 0 < pool <= memory // 2
    assert pool <= (128 if is_server else 64) * GIB
    assert pool % MIB == 0


def test_the_papers_cluster_has_its_figures() -> None:
    cluster = cluster_of(2, 11)
    of_class = {(one.node_class, one.parameter): one.value for one in cluster.settings}
    assert of_class[SERVERS_CLASS, "pagepool"] == f"{128 * 1024}M"
    assert of_class[SERVERS_CLASS, "maxMBpS"] == "12500", "twice two cards of 25 Gbit/s"
    assert of_class[CLIENTS_CLASS, "maxMBpS"] == "6150", "twice one of 24.6 Gbit/s"
    assert of_class[None, "maxblocksize"] == "16M"
    assert len(cluster.nsds) == 44
    assert [nsd.servers for nsd in cluster.nsds[:2]] == [("nsd1", "nsd2"), ("nsd2", "nsd1")]
    assert set(cluster.quorum) == {"nsd1", "nsd3", "nsd2"}


@given(pairs=st.integers(2, 12), clients=st.integers(1, 9))
def test_with_two_copies_the_cluster_goes_on_without_any_pair(pairs: int, clients: int) -> None:
    cluster = cluster_of(pairs, 2, clients, replicas=2)
    for pair in range(pairs):
        dead = {f"nsd{2 * pair + 1}", f"nsd{2 * pair + 2}"}
        left = [each for each in cluster.quorum if each not in dead]
        assert len(left) > len(cluster.quorum) / 2


def test_with_two_copies_no_fault_domain_has_most_of_the_votes() -> None:
    nodes = [replace(each, fault_domain=1 if each.name == "compute1" else 2) for each in machines(0, 2)]
    voters = quorum_names([*machines(2, 0), *nodes], 2)
    assert voters == ("nsd1", "nsd3", "compute2")


def test_commands_come_in_the_order_that_scale_takes_them() -> None:
    made = commands(
        cluster_of(1, 4, callhome={"company": "E", "id": "1", "country": "DE", "email": "a@b.de"})
    )
    names = [one.name for one in made]
    assert list(dict.fromkeys(names)) == [
        "mmcrcluster",
        "mmcrnodeclass",
        "mmchlicense",
        "mmcrnsd",
        "mmchconfig",
        "mmstartup",
        "mmcrfs",
        "mmmount",
        "mmcallhome",
    ]
    text = " ".join(word for one in made for word in one.argv)
    assert "-v no" not in text, "an NSD that is there is never written over"
    assert "tiebreakerDisks=paper_003_fs_1_p1_v01;paper_003_fs_1_p1_v02;paper_003_fs_1_p1_v03" in text
    assert text.index("maxblocksize=16M") < text.index("mmstartup") < text.index("mmcrfs")


def test_a_stanza_has_what_mmcrnsd_reads() -> None:
    assert nsd_stanzas(cluster_of(1, 1).nsds[1:2]) == (
        "%nsd: device=/dev/d1\n"
        "  nsd=paper_003_fs_1_p1_v02\n"
        "  servers=nsd2,nsd1\n"
        "  usage=dataAndMetadata\n"
        "  failureGroup=101\n"
        "  pool=system\n"
    )


def test_nodes_alone_are_clients_of_another_cluster() -> None:
    remote = {"cluster": "storage.example.com", "contacts": ["nsd1.example.com"], "filesystem": "fs1"}
    cluster = scale_cluster("grid", "fs", filesystem(nsd=None, remote=remote), machines(0, 4), [])
    assert cluster.quorum == ("compute1", "compute2", "compute3")
    assert not cluster.nsds
    assert not cluster.filesystems
    (mounted,) = cluster.remotes
    assert mounted.mount_point == "/gpfs/fs1"
