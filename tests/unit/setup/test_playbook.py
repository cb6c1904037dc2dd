"""The playbook of a grid: its files, its inventory and its variables, out of the spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gridwright.node_programs.health.configuration import read_configuration
from gridwright.node_programs.one_file import SCRATCH
from gridwright.node_programs.scratch.configuration import parse_configuration
from gridwright.schedulers.machines import SchedulerSetup
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.node_specs import health_configuration
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.spec import GridSpec, parse_spec
from gridwright.spec.site_setup import GROUPS

GRID = """
provider: aws
region: us-east-1
nodes:
  compute: {count: 2, instance: i3en.12xlarge}
filesystems:
  scratch:
    {type: local, path: /scratch, disks: {type: instance-store, count: 4}, chunk: 256 KiB, format: ext4}
  volume: {type: local, path: /volume, disks: {type: gp3, count: 1, size: 1 TiB}}
  data: {type: nfs, server: nas1, export: /export/grid, path: /data, connections: 4}
  lustre: {type: lustre, source: "10.0.0.1@tcp:/fs1", path: /lustre}
libraries:
  data: {filesystem: data}
  work: {filesystem: scratch}
  util: {filesystem: scratch}
scheduler: {type: slurm}
"""
LAB = """
provider: lab
nodes: {compute: {count: 2}}
filesystems:
  scratch: {type: local, path: /scratch, disks: {type: instance-store, count: 2}}
scheduler: {type: ssh}
"""
HEALTH = """
nodes: {compute: {count: 2}}
filesystems:
  fast: {type: lustre, path: /shared, source: "10.0.0.1@tcp:/shared"}
  home: {type: nfs, server: filer, export: /export, path: /home}
  scratch: {type: local, path: /scratch, disks: {type: instance-store}, format: ext4}
  volumes: {type: local, path: /volumes, disks: {type: gp3, size: 1 TiB}}
  plain: {type: local, path: /plain}
  own: {type: scale, path: /own, remote: {cluster: s.example.com, contacts: [n1], filesystem: f1}}
libraries:
  data: {filesystem: fast}
  work: {filesystem: scratch}
scheduler: {type: slurm}
"""
HOSTS = Hosts.named(compute=["compute1", "compute2"], head=["controller"])
SLURM = SchedulerSetup(
    variables={
        "nodes": ["compute1", "compute2"],
        "controllers": ["controller"],
        "state": "/s",
        "spool": "/p",
        "logs": "/l",
    }
)


def content(files: dict[str, str | bytes], path: str) -> Any:
    text = files[path]
    assert isinstance(text, str)
    return YAML(typ="safe").load(text)


BESIDE = """\
nodes: {compute: {hosts: node1}}
machines: {meta: {hosts: meta1}, mid-tier: {hosts: "web[1-2]", mounts: false}}
filesystems: {shared: {type: nfs, path: /shared, server: filer, export: /vol}}
libraries: {data: {}}
scheduler: {type: slurm}
"""


@pytest.fixture(scope="module")
def spec() -> GridSpec:
    return parse_spec(GRID)


@pytest.fixture(scope="module")
def files(spec: GridSpec) -> dict[str, str | bytes]:
    return playbook_files(spec, HOSTS, SLURM)


def test_the_same_spec_gives_the_same_bytes(spec: GridSpec, files: dict[str, str | bytes]) -> None:
    assert playbook_files(spec, HOSTS, SLURM) == files
    assert list(files) == sorted(files)


def test_every_role_is_there_whole(files: dict[str, str | bytes]) -> None:
    roles = {path.split("/")[1] for path in files if path.startswith("roles/")}
    assert roles == {
        *(
            "base",
            "metadata",
            "scratch",
            "repository",
            "history",
            "state",
            "exporter",
            "nfs_client",
            "lustre_client",
            "lustre_changelog",
            "spectrum_scale_client",
            "spectrum_scale_server",
            "slurm",
            "users",
            "watch",
        ),
    }
    for role in roles:
        assert {f"roles/{role}/{part}/main.yml" for part in ("defaults", "meta", "tasks")} <= set(files)
    assert files["roles/scratch/files/scratch.pyz"] == SCRATCH.archive()
    assert not any("__pycache__" in path or path.endswith(".pyc") for path in files)


def test_nodes_are_in_the_groups_that_rows_are_for(files: dict[str, str | bytes]) -> None:
    inventory = content(files, "inventory.yml")
    assert set(inventory) == set(GROUPS)
    assert {group: list(each["hosts"]) for group, each in inventory.items()} == {
        "compute": ["compute1", "compute2"],
        "storage": [],
        "head": ["controller"],
        "machines": [],
    }


def test_machines_beside_nodes_are_in_groups_of_their_own_and_may_mount_nothing() -> None:
    spec = parse_spec(BESIDE)
    files = playbook_files(spec, Hosts.named(compute=["node1"]).with_machines(spec))
    inventory = {group: list(each["hosts"]) for group, each in content(files, "inventory.yml").items()}
    assert inventory == {
        "compute": ["node1"],
        "storage": [],
        "head": [],
        "machines": ["meta1", "web1", "web2"],
        "meta": ["meta1"],
        "mid_tier": ["web1", "web2"],
    }
    assert content(files, "group_vars/all.yml")["gridwright_mounts"] != []
    assert content(files, "group_vars/mid_tier.yml")["gridwright_mounts"] == []
    assert "group_vars/meta.yml" not in files
    assert str(files["site.yml"]).count("hosts: compute:storage:head:machines\n") == 2


def test_this_machine_is_reached_without_ssh(spec: GridSpec) -> None:
    hosts = Hosts.this_machine("here")
    inventory = content(playbook_files(spec, hosts), "inventory.yml")
    assert inventory["compute"]["hosts"]["here"]["ansible_connection"] == "local"
    assert hosts.is_this_machine
    assert not HOSTS.is_this_machine
    assert not Hosts().is_this_machine


def test_disks_of_the_instance_store_become_a_configuration_that_the_program_takes(
    files: dict[str, str | bytes],
) -> None:
    wish = content(files, "group_vars/all.yml")["gridwright_scratch"]
    (array,) = parse_configuration(json.loads(json.dumps(wish))).arrays
    assert (array.name, str(array.mount_point), array.members) == ("scratch", "/scratch", 4)
    assert (array.chunk_bytes, array.format, array.read_ahead_kib) == (256 * 1024, "ext4", 8192)
    directories = {each.path: oct(each.mode) for each in array.directories}
    assert directories == {"util": "0o1777", "work": "0o1777"}


def test_what_others_serve_is_mounted(files: dict[str, str | bytes]) -> None:
    mounts = content(files, "group_vars/all.yml")["gridwright_mounts"]
    assert [(each["type"], each["source"], each["path"]) for each in mounts] == [
        ("nfs", "nas1:/export/grid", "/data"),
        ("lustre", "10.0.0.1@tcp:/fs1", "/lustre"),
    ]
    assert "nconnect=4" in mounts[0]["options"]
    assert "flock" in mounts[1]["options"].split(",")


def test_slurm_is_configured_where_gridwright_makes_the_nodes(files: dict[str, str | bytes]) -> None:
    variables = content(files, "group_vars/all.yml")
    assert variables["gridwright_slurm_configure"] is True
    assert variables["gridwright_slurm"]["controllers"] == ["controller"]
    own = parse_spec(
        "nodes: {compute: {hosts: 'node[1-2]'}}\nscheduler: {type: slurm}\n"
        "filesystems: {disk: {type: local, path: /data}}\n"
    )
    assert (
        content(playbook_files(own, HOSTS, SLURM), "group_vars/all.yml")["gridwright_slurm_configure"]
        is False
    )


def test_nodes_of_a_lab_leave_the_kernel_and_the_disks_of_their_machine_alone() -> None:
    variables = content(playbook_files(parse_spec(LAB), HOSTS), "group_vars/all.yml")
    assert variables["gridwright_own_kernel"] is False
    assert variables["gridwright_scratch"] == {}
    assert variables["gridwright_mounts"] == []


CLOUD = """
provider: aws
region: us-east-1
aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24], images: {storage: ami-0123456789abcdef0}}
nodes:
  compute: {count: 2, instance: m5n.8xlarge}
filesystems:
  bought: {type: fsx-lustre, capacity: 2.4 TiB, path: /bought}
  built:
    type: lustre
    path: /built
    oss: {instance: c6in.8xlarge, count: 2, disks: {type: gp3, count: 2, size: 250 GiB}}
    mds: {instance: m7a.2xlarge, count: 1, disks: {type: gp3, count: 1, size: 100 GiB}}
  theirs: {type: lustre, source: "10.0.0.1@tcp:/fs1", path: /theirs}
libraries:
  data: {filesystem: bought}
  work: {filesystem: built}
  util: {filesystem: theirs}
scheduler: {type: slurm}
"""
SOURCES = {"bought": "{{ gridwright_sources['bought'] }}", "built": "10.20.64.10@tcp:/built"}
SERVED = PlaybookRole(
    name="nfs_client", task="Serve", when="gridwright_served", package="gridwright.filesystems.nfs"
)
ADDRESSES = {"compute1": "10.20.128.16", "built-oss1": "10.20.64.11"}


def cloud_files(text: str = CLOUD) -> dict[str, str | bytes]:
    return playbook_files(
        parse_spec(text),
        HOSTS,
        SLURM,
        Provided(
            sources=SOURCES,
            addresses=ADDRESSES,
            roles=[SERVED],
            files={"roles/nfs_client/files/program": b"a program"},
            variables={"gridwright_served": ["storage"], "gridwright_nothing": []},
        ),
    )


def test_what_the_provider_knows_the_source_of_is_mounted() -> None:
    mounts = content(cloud_files(), "group_vars/all.yml")["gridwright_mounts"]
    assert [(each["type"], each["source"], each["path"]) for each in mounts] == [
        ("lustre", "{{ gridwright_sources['bought'] }}", "/bought"),
        ("lustre", "10.20.64.10@tcp:/built", "/built"),
        ("lustre", "10.0.0.1@tcp:/fs1", "/theirs"),
    ]
    assert {each["options"] for each in mounts} == {"flock,noatime,nosuid,nodev,_netdev"}


def test_what_the_provider_brings_is_handed_on() -> None:
    files = cloud_files()
    variables = content(files, "group_vars/all.yml")
    assert variables["gridwright_served"] == ["storage"]
    assert "gridwright_nothing" not in variables
    assert variables["gridwright_addresses"] == ADDRESSES
    assert files["roles/nfs_client/files/program"] == b"a program"
    tasks = [task["name"] for task in content(files, "site.yml")[1]["tasks"]]
    assert tasks[0] == "Set kernel, limits, disks and services"
    assert tasks[tasks.index("Serve") + 1] == "Make scratch storage"


def test_grids_outside_of_a_cloud_have_nothing_of_it(files: dict[str, str | bytes]) -> None:
    """`files` is of a provider's grid without section aws; a lab and a site have neither."""
    for given in (files, playbook_files(parse_spec(LAB), HOSTS)):
        variables = content(given, "group_vars/all.yml")
        assert not {"gridwright_claims", "gridwright_addresses", "gridwright_lustre_servers"} & set(variables)
        # Whatever its section says: machines of AWS have an identity, nodes of a lab have none.
        assert ("gridwright_metadata" in variables) == (given is files)
        assert not any(path.startswith(("roles/claim", "roles/lustre_server")) for path in given)
        assert "ROLES OF" not in str(given["site.yml"])


def test_servers_of_the_grid_s_own_lustre_do_not_mount_it(files: dict[str, str | bytes]) -> None:
    tasks = {task["name"]: task for task in content(files, "site.yml")[1]["tasks"]}
    assert tasks["Mount Lustre"]["when"].endswith("and not gridwright_serves_lustre")
    assert "'compute' in group_names" in tasks["Make scratch storage"]["when"]


def test_no_secret_is_rendered(files: dict[str, str | bytes]) -> None:
    assert not any("munge.key" in path for path in files)
    assert content(files, "roles/slurm/defaults/main.yml")["slurm_munge_key_file"] == ""


def test_a_node_must_have_what_the_spec_says_and_no_more() -> None:
    spec = parse_spec(HEALTH)
    wanted = health_configuration(spec)
    assert content(playbook_files(spec, HOSTS, SLURM), "group_vars/all.yml")["gridwright_health"] == wanted
    assert wanted["mounts"] == [
        {"path": "/shared", "types": ["lustre"], "source": "10.0.0.1@tcp:/shared"},
        {"path": "/home", "types": ["nfs4", "nfs"], "source": "filer:/export"},
        {"path": "/own", "types": ["gpfs"], "source": None},
        {"path": "/scratch", "types": ["ext4"], "source": None},
    ]
    # A site's own directory is one; of volumes nobody knows who mounts them.
    assert wanted["directories"] == ["/scratch", "/scratch/work", "/plain"]


def test_the_program_of_nodes_reads_what_is_written_for_it(tmp_path: Path) -> None:
    file = tmp_path / "health.json"
    for text in (GRID, LAB, HEALTH):
        file.write_text(json.dumps(health_configuration(parse_spec(text))))
        read = read_configuration(file)
        assert read.limit_s < 60
        assert len(read.mounts) + len(read.directories) == {GRID: 6, LAB: 0, HEALTH: 7}[text]
