"""NFS by CES comes in the order that Scale takes, once, and leaves what others made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.desired import (
    DesiredExport,
    DesiredNfs,
    DesiredNode,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.nfs import acls_of, exports_of, servers_of, states_of
from gridwright.filesystems.scale.administration.observed import ScaleError
from gridwright.filesystems.scale.administration.order import ScaleCommand
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.health import monitor_findings
from gridwright.filesystems.scale.model import ScaleFileSystem
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of

RESULTS = DesiredExport("/gpfs/lake/results", ("10.2.0.0/16", "app1"), "ro", "root")


def with_nfs(
    plain: ScaleCluster, servers: int = 2, exports: tuple[DesiredExport, ...] = (RESULTS,)
) -> ScaleCluster:
    """A cluster with protocol servers of their own."""
    names = tuple(f"ces{number}" for number in range(1, servers + 1))
    added = tuple(DesiredNode(name, name, is_server=False, is_protocol=True) for name in names)
    addresses = tuple(f"10.1.0.{50 + number}" for number in range(1, servers + 1))
    nfs = DesiredNfs("/gpfs/lake/ces", names, addresses, exports)
    return replace(plain, nodes=(*plain.nodes, *added), nfs=nfs)


def bring(
    wanted: ScaleCluster, cluster: Cluster, *, check: bool = False
) -> tuple[list[str], tuple[str, ...]]:
    """Commands that were carried out, and what was told."""
    done: list[ScaleCommand] = []
    notes = run(wanted, InProcess(cluster), done, check=check).notes
    return [" ".join((each.name, *each.argv[1:])) for each in done], notes


def emptied(place: Path) -> Path:
    for each in place.iterdir():
        each.write_text("empty")
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disks")


def test_root_servers_service_addresses_accounts_exports_and_never_again(place: Path) -> None:
    wanted = with_nfs(wanted_of(emptied(place), 1, 1, 1))
    cluster = Cluster(directories=["/gpfs/lake/results"])
    done, _ = bring(wanted, cluster)
    clients = "10.2.0.0/16(Access_Type=RO,Squash=root_squash);app1(Access_Type=RO,Squash=root_squash)"
    assert done[-6:] == [
        "mmchconfig cesSharedRoot=/gpfs/lake/ces",
        "mmchnode --ces-enable -N ces1,ces2",
        "mmces service enable NFS",
        "mmces address add --ces-ip 10.1.0.51,10.1.0.52",
        "mmuserauth service create --data-access-method file --type userdefined",
        f"mmnfs export add /gpfs/lake/results --client {clients}",
    ]
    assert "/gpfs/lake/ces" in cluster.directories
    assert bring(wanted, cluster)[0] == []
    # The document that nodes get is the same cluster.
    assert ScaleCluster.from_document(wanted.document()) == wanted


def test_without_the_section_nothing_of_it_is_asked_or_done(place: Path) -> None:
    cluster = Cluster()
    done, _ = bring(wanted_of(emptied(place), 1, 1, 1), cluster)
    assert not [each for each in done if "ces" in each.lower() or "nfs" in each]


def test_what_others_made_stays_and_is_told(place: Path) -> None:
    wanted = with_nfs(wanted_of(emptied(place), 1, 1, 1))
    cluster = Cluster(directories=["/gpfs/lake/results"])
    bring(wanted, cluster)
    cluster.nfs_exports["/gpfs/lake/theirs"] = {"10.9.0.0/16": ["RW", "NO_ROOT_SQUASH"]}
    cluster.nfs_exports["/gpfs/lake/results"]["2001:db8::1"] = ["RW", "ROOT_SQUASH"]
    cluster.ces_addresses.append("10.1.0.99")
    cluster.file_accounts = "LDAP"
    before = {path: dict(each) for path, each in cluster.nfs_exports.items()}
    done, notes = bring(wanted, cluster)
    assert done == []
    assert cluster.nfs_exports == before
    for told in (
        "export /gpfs/lake/theirs",
        "2001:db8::1 may mount /gpfs/lake/results",
        "10.1.0.99 is not in",
    ):
        assert [each for each in notes if told in each], told
    # An export that leaves the spec goes on, and so does a server.
    fewer = with_nfs(wanted_of(place, 1, 1, 1), servers=1, exports=())
    done, notes = bring(replace(fewer, nodes=wanted.nodes), cluster)
    assert (done, cluster.ces_nodes) == ([], ["ces1", "ces2"])
    assert [each for each in notes if "mmnfs export remove /gpfs/lake/results" in each]
    assert [each for each in notes if "mmchnode --ces-disable -N ces2" in each]


def test_another_access_and_another_client_change_one_export_alone(place: Path) -> None:
    wanted = with_nfs(wanted_of(emptied(place), 1, 1, 1))
    cluster = Cluster(directories=["/gpfs/lake/results"])
    bring(wanted, cluster)
    written = replace(RESULTS, access="rw", squash="none", clients=("10.2.0.0/16", "app1", "app2"))
    done, _ = bring(with_nfs(wanted_of(place, 1, 1, 1), exports=(written,)), cluster)
    changed = "(Access_Type=RW,Squash=no_root_squash)"
    assert done == [
        f"mmnfs export change /gpfs/lake/results --nfsadd app2{changed}",
        f"mmnfs export change /gpfs/lake/results --nfschange 10.2.0.0/16{changed};app1{changed}",
    ]


def test_a_directory_that_is_not_there_waits_and_holds_nothing_up(place: Path) -> None:
    wanted = with_nfs(wanted_of(emptied(place), 1, 1, 1))
    cluster = Cluster()
    _, notes = bring(wanted, cluster)
    assert [each for each in notes if each.startswith("/gpfs/lake/results is not exported yet")]
    assert (cluster.nfs_exports, cluster.ces_services) == ({}, ["NFS"])
    cluster.directories.append("/gpfs/lake/results")
    assert bring(wanted, cluster, check=True)[0] == []
    assert len(bring(wanted, cluster)[0]) == 1


def test_a_root_that_is_there_is_kept_and_a_file_system_elsewhere_gets_no_directory(place: Path) -> None:
    wanted = with_nfs(wanted_of(emptied(place), 1, 1, 1))
    cluster = Cluster(directories=["/gpfs/lake/results"])
    bring(wanted, cluster)
    assert wanted.nfs is not None
    moved = replace(wanted, nfs=replace(wanted.nfs, root="/gpfs/lake/other"))
    done, notes = bring(moved, cluster)
    assert done == []
    assert [each for each in notes if "cesSharedRoot is /gpfs/lake/ces" in each]
    with pytest.raises(ScaleError, match="nothing is mounted at /gpfs/none here"):
        InProcess(cluster).make_directory("/gpfs/none/ces")


@settings(max_examples=15, deadline=None)
@given(interrupted=st.integers(0, 24), servers=st.integers(1, 3), more=st.integers(0, 2), dead=st.booleans())
def test_a_first_run_that_was_cut_off_goes_on_and_grows(
    place: Path, interrupted: int, servers: int, more: int, dead: bool
) -> None:
    first = with_nfs(wanted_of(emptied(place), 1, 1, 1), servers)
    cluster = Cluster(directories=["/gpfs/lake/results"])
    left = iter(range(interrupted))

    class CutOff(InProcess):
        def carry_out(self, command: ScaleCommand) -> None:
            if next(left, None) is None:
                raise ScaleError("cut off")
            super().carry_out(command)

    try:
        run(first, CutOff(cluster), [])
    except ScaleError as error:
        assert str(error) == "cut off"
    bring(first, cluster)
    assert bring(first, cluster)[0] == []
    larger = with_nfs(wanted_of(place, 1, 1, 1), servers + more)
    if dead:
        # A protocol server that is dead holds nothing up.
        cluster.nodes["ces1"].alive = False
        cluster.settle()
    bring(larger, cluster)
    assert bring(larger, cluster)[0] == []
    assert larger.nfs is not None
    assert set(cluster.ces_nodes) == set(larger.nfs.servers)
    assert set(cluster.ces_addresses) == set(larger.nfs.addresses)
    assert all(cluster.nodes[name].licence == "server" for name in larger.nfs.servers)


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    exports_of(text)


def test_colons_of_a_client_are_its_own() -> None:
    """Rows as tools of others read them."""
    printed = (
        "mmcesnfslsexport:nfsexports:HEADER:version:reserved:reserved:Path:Delegations:Clients:Access_Type:"
        "Protocols:Transports:Squash:Anonymous_uid:Anonymous_gid:SecType:PrivilegedPort:DefaultDelegations:\n"
        "mmcesnfslsexport:nfsexports:0:1:::/gpfs0/a:none:44.3.2.11:RW:3,4:TCP:ROOT_SQUASH:-2:-2:SYS:FALSE:none:\n"
        "mmcesnfslsexport:nfsexports:0:1:::/gpfs0/a:none:1:2:3:4:5:6:7:8:RO:3,4:TCP:NO_ROOT_SQUASH:-2:-2:SYS:"
        "FALSE:none:\n"
    )
    assert exports_of(printed) == {
        "/gpfs0/a": {"44.3.2.11": ("rw", "root"), "1:2:3:4:5:6:7:8": ("ro", "none")}
    }


# How CES is on its servers is told by setup, and the file system is made with the ACLs that it takes.

EXPORTED = ["/gpfs/lake/results"]


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    return tmp_path


def served(disks: Path) -> Cluster:
    """A cluster whose servers serve."""
    cluster = Cluster(directories=list(EXPORTED))
    bring(with_nfs(wanted_of(disks, 1, 1, 1)), cluster)
    cluster.filesystems["lake"].acls = "nfs4"
    return cluster


def test_nothing_is_told_where_all_is_well(disks: Path) -> None:
    wanted = with_nfs(wanted_of(disks, 1, 1, 1))
    cluster = served(disks)
    assert bring(wanted, cluster) == ([], ())


def test_a_server_whose_service_failed_and_addresses_that_nobody_has_are_told(disks: Path) -> None:
    wanted = with_nfs(wanted_of(disks, 1, 1, 1))
    cluster = served(disks)
    cluster.failed_services = ["ces2"]
    _, notes = bring(wanted, cluster)
    (told,) = (each for each in notes if "serves no NFS" in each)
    assert told.startswith("ces2 ")
    assert "NFS is FAILED" in told
    # The other one takes all addresses until nobody does.
    assert not [each for each in notes if "no server has" in each]
    cluster.failed_services = ["ces1", "ces2"]
    done, notes = bring(wanted, cluster)
    assert done == []
    assert [each for each in notes if each.startswith("no server has 10.1.0.51, 10.1.0.52")]


def test_a_silent_server_is_told_and_holds_nothing_up(disks: Path) -> None:
    wanted = with_nfs(wanted_of(disks, 1, 1, 1))
    cluster = served(disks)
    cluster.nodes["ces2"].alive = False
    cluster.settle()
    done, notes = bring(wanted, cluster)
    assert not [each for each in done if "ces" in each]
    assert [each for each in notes if "CES does not tell how it is" in each]


@pytest.mark.parametrize(("acls", "word"), [("posix", "POSIX ACLs alone"), ("all", "beside those of NFSv4")])
def test_a_file_system_with_other_acls_is_told_and_left(disks: Path, acls: str, word: str) -> None:
    wanted = with_nfs(wanted_of(disks, 1, 1, 1))
    cluster = served(disks)
    cluster.filesystems["lake"].acls = acls
    done, notes = bring(wanted, cluster)
    assert done == []
    assert [each for each in notes if word in each and "mmchfs lake -k nfs4" in each]
    assert cluster.filesystems["lake"].acls == acls


@pytest.mark.parametrize("exports", [True, False])
def test_a_file_system_is_made_with_the_acls_of_nfs_where_it_is_exported(exports: bool, disks: Path) -> None:
    nfs = {"servers": ["ces1", "ces2"], "addresses": ["10.1.0.51", "10.1.0.52"]}
    pairs = [{"servers": ["nsd1", "nsd2"], "disks": ["/dev/mapper/one"]}]
    fields = {"type": "scale", "path": "/gpfs/lake", "pairs": pairs, **({"nfs": nfs} if exports else {})}
    filesystem = ScaleFileSystem.model_validate(fields)
    machines = [
        ClusterMachine(name=f"nsd{each}", address=f"nsd{each}", is_server=True, pair=1) for each in (1, 2)
    ]
    (disks / "one").write_text("empty")
    disk = PairDisk(volume="one", device=str(disks / "one"), pair=1, index=0)
    cluster = Cluster()
    done, _ = bring(scale_cluster("grid", "lake", filesystem, machines, [disk]), cluster)
    assert (" -k nfs4 " in next(each for each in done if each.startswith("mmcrfs"))) is exports
    assert cluster.filesystems["lake"].acls == ("nfs4" if exports else "all")


def test_the_monitor_of_a_protocol_server_tells_of_nfs_and_of_addresses() -> None:
    """Rows as `mmhealth node show -Y` has them on a protocol server."""
    printed = (
        "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:laststatuschange:\n"
        "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:arguments:\n"
        "mmhealth:State:0:1:::ces1:NODE:ces1:NODE:FAILED:x:\nmmhealth:State:0:1:::ces1:NFS:ces1:NODE:FAILED:x:\n"
        "mmhealth:Event:0:1:::ces1:NFS:ces1:NODE:nfsd_down::\n"
        "mmhealth:State:0:1:::ces1:CESIP:ces1:NODE:DEGRADED:x:\nmmhealth:State:0:1:::ces1:CES:ces1:NODE:HEALTHY:x:\n"
    )
    found = [(each.name, each.text) for each in monitor_findings(printed)]
    assert found == [
        ("scale-degraded", "Spectrum Scale: CESIP is DEGRADED"),
        ("scale-failed", "Spectrum Scale: NFS is FAILED (nfsd_down)"),
    ]


def test_rows_of_real_clusters_are_read() -> None:
    """As tools of others show them."""
    states = (
        "mmcesstate::HEADER:version:reserved:reserved:NODE:AUTH:BLOCK:NETWORK:AUTH_OBJ:NFS:OBJ:SMB:CES:\n"
        "mmcesstate::0:1:::ib-protocol01.domain:HEALTHY:DISABLED:HEALTHY:DISABLED:FAILED:DISABLED:FOO:HEALTHY:\n"
    )
    assert states_of(states) == {"ib-protocol01": {"CES": "HEALTHY", "NETWORK": "HEALTHY", "NFS": "FAILED"}}
    addresses = "mmces:a:HEADER:version:reserved:reserved:A:N:G:B:\n" + "".join(
        f"mmces:a:0:1:::{address}:{server}:none:none:\n"
        for address, server in (
            ("10.1.0.51", "ces1.example.com"),
            ("10.1.0.52", "unassigned"),
            ("10.1.0.53", ""),
        )
    )
    assert servers_of(addresses) == {"10.1.0.51": "ces1", "10.1.0.52": "", "10.1.0.53": ""}


@given(st.text(alphabet="mces:0HEADR\n ", max_size=200))
def test_any_state_is_read(text: str) -> None:
    states_of(text)
    servers_of(text)
    acls_of(text)
