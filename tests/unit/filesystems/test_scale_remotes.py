"""A cluster of clients mounts a file system of another one, as soon as that one lets it in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.scale.administration.command import run
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.administration.difference import Difference
from gridwright.filesystems.scale.administration.failure import ScaleError
from gridwright.filesystems.scale.administration.order import ScaleCommand
from gridwright.filesystems.scale.administration.remotes import known_remotes
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.shared_disks import ClusterMachine
from gridwright.providers.site.provider import cluster_documents
from gridwright.spec import parse_spec
from tests.support.scale_double.cluster import Cluster
from tests.support.scale_double.in_process import InProcess

KEY = "clusterName=big.example.com\\nclusterID=42\\npublicKey=00aa11bb22cc33dd"
SPEC = f"""\
name: small
provider: site
scheduler: {{type: slurm}}
nodes: {{compute: {{hosts: "c[1-4]"}}}}
filesystems:
  lake:
    type: scale
    path: /gpfs/lake
    remote: {{cluster: big.example.com, contacts: [b1, b2], filesystem: fs1, key: "{KEY}"}}
"""


def clients(count: int, filesystem: str = "fs1") -> ScaleCluster:
    remote = {"cluster": "big.example.com", "contacts": ["b1", "b2"], "filesystem": filesystem}
    spec = ScaleFileSystem.model_validate(
        {"type": "scale", "path": "/gpfs/lake", "remote": {**remote, "key": "publicKey=" + "00" * 16}}
    )
    nodes = [
        ClusterMachine(name=f"c{number}", address=f"c{number}", is_server=False)
        for number in range(1, count + 1)
    ]
    return scale_cluster("small", "lake", spec, nodes, ())


def bring(wanted: ScaleCluster, cluster: Cluster) -> tuple[Difference, list[str]]:
    done: list[ScaleCommand] = []
    found = run(wanted, InProcess(cluster), done)
    return found, [each.name for each in done]


@given(st.integers(1, 9))
def test_it_is_made_known_once_and_mounted_as_soon_as_it_may_be(count: int) -> None:
    wanted, cluster = clients(count), Cluster()
    assert len(wanted.quorum) % 2 == 1
    found, done = bring(wanted, cluster)
    assert done[-2:] == ["mmremotecluster", "mmremotefs"]
    assert cluster.remote_clusters == {"big.example.com": ["b1", "b2"]}
    assert cluster.remote_filesystems == {"lake": ["fs1", "big.example.com", "/gpfs/lake"]}
    assert "mmauth grant small-lake -f fs1" in found.notes[-1]
    assert "not authorized" in found.notes[-1]
    # Again, while nobody has let it in: nothing but the same words.
    again, done = bring(wanted, cluster)
    assert (done, again.notes) == ([], found.notes)
    cluster.granted = True
    found, done = bring(wanted, cluster)
    assert (done, found.notes) == (["mmmount"], ())
    assert cluster.remote_mounted == sorted(f"c{number}" for number in range(1, count + 1))
    assert bring(wanted, cluster) == (Difference(()), [])


def test_a_name_that_is_another_file_system_is_left_alone() -> None:
    cluster = Cluster(granted=True)
    bring(clients(1), cluster)
    with pytest.raises(ScaleError, match=r"lake is file system fs1 of cluster \S+ here, and not fs2"):
        bring(clients(1, "fs2"), cluster)
    assert cluster.remote_filesystems["lake"][0] == "fs1"


def test_nodes_of_a_site_are_a_cluster_of_clients_where_a_key_is_at_hand() -> None:
    (found,) = cluster_documents(parse_spec(SPEC))
    assert (found["name"], found["first"]) == ("lake", "c1")
    wanted = ScaleCluster.from_document(found["document"])
    assert wanted.servers == ()
    assert wanted.remotes[0].key.splitlines()[0] == "clusterName=big.example.com"
    without = SPEC.replace(f', key: "{KEY}"', "")
    assert cluster_documents(parse_spec(without)) == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_read(clusters: str, filesystems: str) -> None:
    known_remotes(clusters, filesystems)
