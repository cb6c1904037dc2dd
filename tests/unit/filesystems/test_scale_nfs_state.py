"""How CES is on its servers is told by setup, and the file system is made with the ACLs that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.scale.administration.nfs_state import acls_of, servers_of, states_of
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.health import monitor_findings
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.wanted import wanted_of
from tests.unit.filesystems.test_scale_nfs import bring, with_nfs

EXPORTED = ["/gpfs/lake/results"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def served(place: Path) -> Cluster:
    """A cluster whose servers serve."""
    cluster = Cluster(directories=list(EXPORTED))
    bring(with_nfs(wanted_of(place, 1, 1, 1)), cluster)
    cluster.filesystems["lake"].acls = "nfs4"
    return cluster


def test_nothing_is_told_where_all_is_well(place: Path) -> None:
    wanted = with_nfs(wanted_of(place, 1, 1, 1))
    cluster = served(place)
    assert bring(wanted, cluster) == ([], ())


def test_a_server_whose_service_failed_and_addresses_that_nobody_has_are_told(place: Path) -> None:
    wanted = with_nfs(wanted_of(place, 1, 1, 1))
    cluster = served(place)
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


def test_a_silent_server_is_told_and_holds_nothing_up(place: Path) -> None:
    wanted = with_nfs(wanted_of(place, 1, 1, 1))
    cluster = served(place)
    cluster.nodes["ces2"].alive = False
    cluster.settle()
    done, notes = bring(wanted, cluster)
    assert not [each for each in done if "ces" in each]
    assert [each for each in notes if "CES does not tell how it is" in each]


@pytest.mark.parametrize(("acls", "word"), [("posix", "POSIX ACLs alone"), ("all", "beside those of NFSv4")])
def test_a_file_system_with_other_acls_is_told_and_left(place: Path, acls: str, word: str) -> None:
    wanted = with_nfs(wanted_of(place, 1, 1, 1))
    cluster = served(place)
    cluster.filesystems["lake"].acls = acls
    done, notes = bring(wanted, cluster)
    assert done == []
    assert [each for each in notes if word in each and "mmchfs lake -k nfs4" in each]
    assert cluster.filesystems["lake"].acls == acls


@pytest.mark.parametrize("exports", [True, False])
def test_a_file_system_is_made_with_the_acls_of_nfs_where_it_is_exported(exports: bool, place: Path) -> None:
    nfs = {"servers": ["ces1", "ces2"], "addresses": ["10.1.0.51", "10.1.0.52"]}
    pairs = [{"servers": ["nsd1", "nsd2"], "disks": ["/dev/mapper/one"]}]
    fields = {"type": "scale", "path": "/gpfs/lake", "pairs": pairs, **({"nfs": nfs} if exports else {})}
    filesystem = ScaleFileSystem.model_validate(fields)
    machines = [
        ClusterMachine(name=f"nsd{each}", address=f"nsd{each}", is_server=True, pair=1) for each in (1, 2)
    ]
    (place / "one").write_text("empty")
    disk = PairDisk(volume="one", device=str(place / "one"), pair=1, index=0)
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
def test_any_text_is_read(text: str) -> None:
    states_of(text)
    servers_of(text)
    acls_of(text)
