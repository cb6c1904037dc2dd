"""NFS by Scale's Cluster Export Services: made once, in the order that Scale takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.order import ScaleCommand
from gridwright.filesystems.scale.administration.wanted import ScaleCluster, WantedExport, WantedNfs
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.shared_disks import ClusterMachine
from gridwright.spec import parse_spec
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess
from tests.support.scale_double.wanted import wanted_of

NETWORK = ("10.20.0.0/16",)


def wanted_nfs(cluster: ScaleCluster, *directories: str, **fields: Sequence[str]) -> WantedNfs:
    (filesystem,) = cluster.filesystems
    exports = [
        WantedExport(f"{filesystem.mount_point}/{each}", NETWORK, "ro", "root") for each in directories
    ]
    given = {"servers": ("nsd1", "nsd2"), "addresses": ("10.20.0.50", "10.20.0.51"), **fields}
    lists = {name: tuple(each) for name, each in given.items()}
    return WantedNfs(filesystem.name, f"{filesystem.mount_point}/.ces", exports=tuple(exports), **lists)


class CutOff(InProcess):
    """Stops before the command of a number."""

    def __init__(self, cluster: Cluster, left: int) -> None:
        super().__init__(cluster)
        self.left = left

    def carry_out(self, command: ScaleCommand) -> None:
        if self.left == 0:
            raise ScaleError("cut off")
        self.left -= 1
        super().carry_out(command)


def bring(wanted: ScaleCluster, cluster: Cluster) -> list[tuple[str, ...]]:
    done: list[ScaleCommand] = []
    run(wanted, InProcess(cluster), done)
    return [(each.name, *each.argv[1:]) for each in done]


def test_all_of_it_in_its_order_and_never_again(tmp_path: Path) -> None:
    plain = wanted_of(tmp_path, 2, 1, 1)
    mount = plain.filesystems[0].mount_point
    wanted = replace(plain, nfs=wanted_nfs(plain, "results"))
    cluster = Cluster(directories=[f"{mount}/results"])
    assert bring(wanted, cluster)[-6:] == [
        ("mmchconfig", f"cesSharedRoot={mount}/.ces"),
        ("mmchnode", "--ces-enable", "-N", "nsd1,nsd2"),
        ("mmces", "address", "add", "--ces-ip", "10.20.0.50,10.20.0.51"),
        ("mmces", "service", "enable", "NFS"),
        ("mmuserauth", "service", "create", "--data-access-method", "file", "--type", "userdefined"),
        (
            *("mmnfs", "export", "add", f"{mount}/results", "--client"),
            "10.20.0.0/16(Access_Type=RO,Squash=root_squash)",
        ),
    ]
    assert bring(wanted, cluster) == []
    # What somebody else shows stays; an address and an export come beside what is there.
    cluster.directories += [f"{mount}/theirs", f"{mount}/more"]
    cluster.exports[f"{mount}/theirs"] = "*(Access_Type=RW)"
    more = wanted_nfs(plain, "results", "more", addresses=("10.20.0.50", "10.20.0.51", "10.20.0.52"))
    done = bring(replace(plain, nfs=more), cluster)
    assert [each[:3] for each in done] == [("mmces", "address", "add"), ("mmnfs", "export", "add")]
    assert done[0][-1] == "10.20.0.52"
    # It left the spec.
    assert bring(plain, cluster) == []
    assert set(cluster.exports) == {f"{mount}/{each}" for each in ("results", "theirs", "more")}


@given(cut=st.integers(0, 40))
def test_a_first_run_that_was_cut_off_is_finished_by_the_next_one(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("disks")
    plain = wanted_of(directory, 2, 1, 1)
    mount = plain.filesystems[0].mount_point
    wanted = replace(plain, nfs=wanted_nfs(plain, "a", "b"))
    cluster = Cluster(directories=[f"{mount}/a", f"{mount}/b"])
    done: list[ScaleCommand] = []
    try:
        run(wanted, CutOff(cluster, cut), done)
    except ScaleError:
        bring(wanted, cluster)
    for name in ("ces_nodes", "ces_addresses", "ces_services", "file_authentication"):
        assert getattr(cluster, name)
    assert set(cluster.exports) == {f"{mount}/a", f"{mount}/b"}
    assert bring(wanted, cluster) == []


def test_nothing_of_it_without_the_spec_and_a_directory_is_waited_for(tmp_path: Path) -> None:
    plain = wanted_of(tmp_path, 2, 1, 1)
    cluster = Cluster()
    bring(plain, cluster)
    assert not any(call[0] in ("mmces", "mmnfs", "mmuserauth") for call in cluster.calls)
    assert "cesSharedRoot@" not in cluster.settings
    wanted = replace(plain, nfs=wanted_nfs(plain, "late"))
    looked = run(wanted, InProcess(cluster), [], check=True)
    assert [each.name for each in looked.commands] == [
        *("mmchconfig", "mmchnode", "mmces", "mmces", "mmuserauth")
    ]
    assert cluster.ces_nodes == []
    assert cluster.directories == []
    found = run(wanted, InProcess(cluster), [])
    assert any("late is not there" in each for each in found.notes)
    assert cluster.exports == {}
    mount = plain.filesystems[0].mount_point
    cluster.directories.append(f"{mount}/late")
    assert [each[:3] for each in bring(wanted, cluster)] == [("mmnfs", "export", "add")]


def test_a_shared_root_and_users_that_somebody_else_set_stay(tmp_path: Path) -> None:
    plain = wanted_of(tmp_path, 2, 1, 1)
    mount = plain.filesystems[0].mount_point
    cluster = Cluster(directories=[f"{mount}/a", f"{mount}/theirs"])
    bring(plain, cluster)
    cluster.settings["cesSharedRoot@"] = f"{mount}/theirs"
    cluster.ces_nodes, cluster.ces_services, cluster.file_authentication = ["nsd1"], ["NFS"], "ldap"
    done = bring(replace(plain, nfs=wanted_nfs(plain, "a")), cluster)
    assert [each[:3] for each in done] == [
        ("mmchnode", "--ces-enable", "-N"),
        ("mmces", "address", "add"),
        ("mmnfs", "export", "add"),
    ]
    assert done[0][-1] == "nsd2"
    assert cluster.settings["cesSharedRoot@"] == f"{mount}/theirs"


def test_servers_without_the_file_system_are_waited_for(tmp_path: Path) -> None:
    plain = wanted_of(tmp_path, 2, 1, 1)
    cluster = Cluster()
    bring(plain, cluster)
    cluster.nodes["nsd2"].daemon = False
    cluster.nodes["nsd2"].alive = False
    cluster.filesystems["lake"].mounted.remove("nsd2")
    found = run(replace(plain, nfs=wanted_nfs(plain, "a")), InProcess(cluster), [])
    assert any("NFS waits until lake is mounted on nsd2" in each for each in found.notes)
    assert cluster.ces_nodes == []


SITE = """
name: prod
provider: site
nodes: {compute: {hosts: "c[001-004]"}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    pairs: [{servers: [nsd1, nsd2], disks: [/dev/disk/by-id/wwn-0x5000c500a1b2c3d4]}]
    nfs:
      addresses: [10.20.0.50, 10.20.0.51]
      exports: [{directory: results, clients: [10.20.0.0/16], access: rw, squash: none}]
libraries: {data: {filesystem: lake}}
scheduler: {type: slurm}
"""


def test_what_the_spec_asks_for_is_what_is_wanted() -> None:
    filesystem = parse_spec(SITE, base=Path("/")).filesystems["lake"]
    assert isinstance(filesystem, ScaleFileSystem)
    machines = [
        ClusterMachine(name=f"nsd{each}", address=f"10.0.0.{each}", is_server=True, pair=1) for each in (1, 2)
    ]
    wanted = scale_cluster("prod", "lake", filesystem, machines, [])
    assert wanted.nfs == WantedNfs(
        "lake",
        "/gpfs/lake/.ces",
        ("nsd1", "nsd2"),
        ("10.20.0.50", "10.20.0.51"),
        (WantedExport("/gpfs/lake/results", NETWORK, "rw", "none"),),
    )
    assert ScaleCluster.from_document(wanted.document()) == wanted


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[10.20.0.50, 10.20.0.51]", "[10.20.0.50, 10.20.0.50]", "10.20.0.50 is named twice"),
        ("[10.20.0.50, 10.20.0.51]", "[10.20.0.500]", "10.20.0.500 is no address"),
        ("[10.20.0.50, 10.20.0.51]", "[127.0.0.1]", "127.0.0.1 is at no server's card"),
        ("exports:", "servers: [nsd1, c001]\n      exports:", "c001 is no server of a pair"),
        ("exports:", "servers: [nsd1, nsd1]\n      exports:", "nsd1 is named twice"),
        ("directory: results", "directory: ../home", "a directory below the mount point"),
        ("[10.20.0.0/16]", '["*"]', "everybody is no choice"),
        ("squash: none}", "squash: none}, {directory: results, clients: [h]}", "results is shown twice"),
        (
            "pairs: [{servers: [nsd1, nsd2], disks: [/dev/disk/by-id/wwn-0x5000c500a1b2c3d4]}]",
            "remote: {cluster: a.example.com, filesystem: fs1, contacts: [x1]}",
            "own servers show it by NFS",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(old: str, new: str, said: str) -> None:
    assert old in SITE
    with pytest.raises(GridwrightError) as refused:
        parse_spec(SITE.replace(old, new), base=Path("/"))
    assert said in str(refused.value)


@pytest.mark.parametrize("example", ["oci-scale.yaml", "aws-scale.yaml"])
def test_addresses_do_not_move_in_a_cloud(example: str) -> None:
    file = Path(__file__).parents[3] / "examples" / example
    line = "    path: /gpfs/lake\n"
    text = file.read_text("utf-8")
    nfs = "    nfs: {addresses: [10.20.0.50], exports: [{directory: a, clients: [h]}]}\n"
    assert line in text
    with pytest.raises(GridwrightError, match="only to the card that has it"):
        parse_spec(text.replace(line, line + nfs), base=file.parent)
