"""Grid specs that are wrong, by name; each message is reviewed in the snapshot."""

DISK = "filesystems:\n  disk: {type: local, path: /data}\n"
TWO = "filesystems:\n  fast: {type: local, path: /fast}\n  slow: {type: local, path: /slow}\n"
CLOUD = "provider: aws\nregion: us-east-1\nnodes:\n  compute: {instance: m5n.8xlarge, count: 4}\n"
FSX = CLOUD + "filesystems:\n  fsx:\n    type: fsx-lustre\n    path: /fsx\n    capacity: 2400 GiB\n"
AWS = FSX + "aws:\n  zone: us-east-1a\n  ssh_from: [203.0.113.0/24]\n"
_VPC = """\
  vpc:
    id: vpc-0123456789abcdef0
    networks: [10.8.0.0/16]
    login: {subnet: subnet-0123456789abcdef0, addresses: 10.8.4.64/28}
    compute: {subnet: subnet-0123456789abcdef1, addresses: 10.8.16.64/26}
    storage: {subnet: subnet-0123456789abcdef2, addresses: 10.8.8.64/28}
"""


def _scale(
    fields: str = "", *, disks: str = "{type: balanced, count: 11, size: 800 GiB}", count: int = 4
) -> str:
    """A Spectrum Scale on a cloud, with other fields, disks or servers than are right."""
    servers = f"{{instance: BM.Standard2.52, count: {count}, disks: {disks}}}"
    return (
        "provider: oci\nnodes:\n  compute: {instance: VM.DenseIO2.24, count: 3}\n"
        f"filesystems:\n  lake:\n    type: scale\n    path: /gpfs/fs1\n    nsd: {servers}\n{fields}"
    )


def _pairs(*pairs: str, more: str = "", provider: str = "site", nodes: str = '{hosts: "c[1-2]"}') -> str:
    """A Spectrum Scale on a site's own servers."""
    section = "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}\nregion: us-east-1\n" * (provider == "aws")
    return (
        f"provider: {provider}\n{section}scheduler: {{type: slurm}}\nnodes:\n  compute: {nodes}\n"
        "filesystems:\n  lake:\n    type: scale\n    path: /gpfs/fs1\n"
        f"    pairs: [{', '.join(pairs)}]\n{more}"
    )


def _pair(one: int, *, site: int = 1, disk: str | None = None) -> str:
    named = disk or f"/dev/disk/by-id/wwn-0x5000c500a1b2c3d{one}"
    return f"{{servers: [nsd{one}, nsd{one + 1}], site: {site}, disks: [{named}]}}"


def _oci(*fields: str) -> str:
    """A grid on OCI, with these fields in its section."""
    section = "".join(f"  {each}\n" for each in fields)
    return (
        "provider: oci\nregion: us-ashburn-1\nnodes: {compute: {instance: VM.DenseIO.E5.Flex(24)}}\n"
        "oci:\n  compartment: ocid1.compartment.oc1..aaaa\n  ssh_from: [203.0.113.0/24]\n"
        "  ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKeyThatOpensNothing00000000000 a\n"
        f"{section}{DISK}"
    )


_WITNESS = "    witness: {server: tie1, disk: /dev/disk/by-id/wwn-0x5000c500a1b2c3d9}\n"


def _nfs(fields: str = "", *, servers: str = "ces1, ces2", addresses: str = "10.1.0.51, 10.1.0.52") -> str:
    """NFS by Scale's own protocol servers."""
    return f"    nfs: {{servers: [{servers}], addresses: [{addresses}]{fields}}}\n"


def _packages(*packages: str, provider: str = "site") -> str:
    """A Spectrum Scale with packages of the site's."""
    listed = f"    packages: [{', '.join(packages)}]\n"
    return _pairs(_pair(1), more=listed) if provider == "site" else _scale(listed)


def _remote(provider: str, key: str) -> str:
    """A Spectrum Scale of another cluster."""
    remote = f"{{cluster: s.example.com, contacts: [nsd1], filesystem: fs1, key: '{key}'}}"
    nodes = "{instance: VM.DenseIO2.24}" if provider == "oci" else "{count: 2}"
    return (
        f"provider: {provider}\nscheduler: {{type: slurm}}\nnodes: {{compute: {nodes}}}\n"
        f"filesystems:\n  lake: {{type: scale, path: /gpfs/fs1, remote: {remote}}}\n"
    )


_POOL = "    pools: {capacity: {disks: {type: lower-cost, count: 4, size: 4 TiB}}}\n"
_TWO_POOLS = (
    "    pools:\n      data: {disks: {type: balanced, size: 1 TiB}}\n"
    "      archive: {disks: {type: lower-cost, size: 4 TiB}}\n"
)


def _site_pool(one: int, *, site: int = 1, pool: str = "") -> str:
    """A pair that may have disks of a pool."""
    pools = f", pools: {{capacity: [/dev/mapper/pool{one}]}}" if pool else ""
    return _pair(one, site=site).replace("}", f"{pools}}}")


_SUM = f"sha256: {'ab' * 32}"


WRONG: dict[str, str | bytes] = {
    "scale_remote_with_a_key_on_a_cloud": _remote("oci", "publicKey=" + "00" * 16),
    "scale_remote_with_a_private_key": _remote("site", "-----BEGIN RSA PRIVATE KEY-----00112233"),
    "scale_buckets_in_one_directory": _scale(
        "    buckets:\n" + "    - {directory: raw, bucket: b-1, endpoint: 'https://s3', keys: /k}\n" * 2
    ),
    "scale_bucket_with_a_secret_in_its_address": _scale(
        "    buckets: [{directory: a/b, bucket: s3://b, endpoint: 'https://id:key@s3', keys: k, mode: x}]\n"
    ),
    "scale_package_of_nowhere": _packages(f"{{{_SUM}}}"),
    "scale_package_of_two_places": _packages("{path: a/g.rpm, url_from: BASE}"),
    "scale_package_that_nobody_knows": _packages("{url: 'https://depot/g.rpm'}"),
    "scale_package_that_is_a_secret": _packages(
        f"{{url: 'https://depot/g.rpm?X-Amz-Signature=1', {_SUM}}}",
        f"{{url: 'https://me:pass@depot/g.rpm', {_SUM}}}",
        f"{{url: 'https://objectstorage.eu/p/{'x' * 30}/n/site/b/depot/o/g.rpm', {_SUM}}}",
    ),
    "scale_package_that_is_the_installer": _packages(
        "{path: Storage_Scale_Data_Management-5.2.3-x86_64-Linux-install}"
    ),
    "scale_packages_of_two_formats": _packages("{path: a/g.rpm}", "{path: a/h.deb}"),
    "scale_package_that_a_cloud_does_not_have": _packages(
        "{path: a/g.rpm}", f"{{url_from: BASE, {_SUM}}}", provider="oci"
    ),
    "scale_release_in_short": _pairs(_pair(1), more='    release: "5.2"\n'),
    "scale_of_a_cloud_that_shares_no_volumes": "provider: google\nregion: us-central1\nnodes:\n"
    "  compute: {instance: c3-standard-44}\nfilesystems:\n  lake: {type: scale, path: /gpfs/fs1, "
    "nsd: {instance: c3-standard-44, count: 2, disks: {type: io2, count: 4, size: 1 TiB, iops: 4000}}}\n",
    "scale_on_volumes_of_aws_that_one_machine_attaches": "provider: aws\nregion: us-east-1\nnodes:\n"
    "  compute: {instance: m5n.8xlarge}\nfilesystems:\n  lake: {type: scale, path: /gpfs/fs1, "
    "nsd: {instance: m5n.8xlarge, count: 2, disks: {type: gp3, count: 4, size: 1 TiB}}}\n",
    "scale_of_instance_types_on_a_site": _scale()
    .replace("oci", "site")
    .replace("{instance: VM.DenseIO2.24, count: 3}", "{hosts: c1}"),
    "scale_of_named_servers_on_a_cloud": _pairs(
        _pair(1), provider="oci", nodes="{instance: VM.DenseIO2.24, count: 3}"
    ),
    "scale_of_named_servers_and_made_ones": _pairs(
        _pair(1), more="    nsd: {instance: BM.Standard2.52, count: 2}\n"
    ),
    "scale_pair_of_one": _pairs("{servers: [nsd1], disks: [/dev/mapper/lake1]}"),
    "scale_pair_of_the_same_machine": _pairs("{servers: [nsd1, nsd1], disks: [/dev/mapper/lake1]}"),
    "scale_pair_without_disks": _pairs("{servers: [nsd1, nsd2], disks: []}"),
    "scale_disk_by_a_name_that_changes": _pairs(_pair(1, disk="/dev/sdb")),
    "scale_disk_of_two_pairs": _pairs(_pair(1, disk="/dev/mapper/lake1"), _pair(3, disk="/dev/mapper/lake1")),
    "scale_server_that_runs_jobs": _pairs(_pair(1), nodes='{hosts: "nsd[1-2]"}'),
    "scale_nodes_that_nobody_names": _pairs(_pair(1), nodes="{count: 2}"),
    "scale_two_copies_on_the_only_pair": _pairs(_pair(1), more="    replicas: 2\n"),
    "scale_two_sites_without_a_witness": _pairs(_pair(1), _pair(3, site=2), more="    replicas: 2\n"),
    "scale_witness_of_one_site": _pairs(_pair(1), _pair(3), more=f"    replicas: 2\n{_WITNESS}"),
    "scale_witness_of_one_copy": _pairs(_pair(1), _pair(3, site=2), more=_WITNESS),
    "scale_witness_of_nobody": _scale(_WITNESS),
    "scale_nfs_on_a_cloud": _scale(_nfs()),
    "scale_nfs_of_another_cluster": _remote("site", "ssh-rsa AAAA" * 4).replace(
        "remote:", f"{_nfs().strip()}, remote:"
    ),
    "scale_nfs_by_nodes_that_run_jobs": _pairs(_pair(1), more=_nfs(servers="ces1, c2")),
    "scale_nfs_at_no_addresses": _pairs(_pair(1), more=_nfs(addresses="ces1.example.com, 10.1.0.300")),
    "scale_nfs_at_an_address_of_another": _pairs(_pair(1), more=_nfs()) + "site: {head: 10.1.0.52}\n",
    "scale_nfs_at_an_address_twice": _pairs(_pair(1), more=_nfs(addresses="10.1.0.51, 10.1.0.51")),
    "scale_nfs_of_other_directories": _pairs(
        _pair(1),
        more=_nfs(
            ", exports: [{path: /home/us, clients: [app1]}, {path: /gpfs/fs1, clients: [app1]}, "
            "{path: /gpfs/fs1/ces/x, clients: [app1]}]"
        ),
    ),
    "scale_nfs_of_one_directory_twice": _pairs(
        _pair(1),
        more=_nfs(
            ", exports: [{path: /gpfs/fs1/a, clients: [app1, app1]}, {path: /gpfs/fs1/a, clients: [app2]}]"
        ),
    ),
    "scale_nfs_for_everybody": _pairs(
        _pair(1), more=_nfs(', exports: [{path: /gpfs/fs1/a, clients: ["*"]}]')
    ),
    "scale_with_a_server_without_its_pair": _scale(count=3),
    "scale_with_two_copies_on_one_pair": _scale("    replicas: 2\n", count=2),
    "scale_with_three_copies": _scale("    replicas: 3\n"),
    "scale_with_more_volumes_than_a_server_attaches": _scale(disks="{type: balanced, count: 17}"),
    "scale_on_disks_that_go_with_the_machine": _scale(disks="{type: instance-store}"),
    "scale_with_a_block_size_above_the_largest": _scale("    block_size: 32 MiB\n"),
    "scale_with_a_block_size_between_two": _scale("    block_size: 3 MiB\n"),
    "scale_with_a_page_pool_of_all_memory": _scale("    pagepool: {servers: 0.9, clients: 0.75}\n"),
    "scale_with_servers_and_a_remote_cluster": _scale(
        "    remote: {cluster: s.example.com, contacts: [nsd1], filesystem: fs1}\n"
    ),
    "scale_pool_that_is_always_there": _scale(_POOL.replace("capacity", "system")),
    "scale_pool_by_no_name": _scale(_POOL.replace("capacity", "cold-data 2")),
    "scale_pools_with_more_volumes_than_a_server_attaches": _scale(_POOL.replace("count: 4", "count: 6")),
    "scale_pools_without_room_for_one_more": _scale(
        _POOL.replace("count: 4", "count: 1"), disks="{type: balanced, count: 16, size: 1 TiB}"
    ),
    "scale_pool_on_disks_of_the_machine": _scale(_POOL.replace("lower-cost", "instance-store")),
    "scale_default_pool_that_nobody_has": _scale(_POOL + "    default_pool: capacty\n"),
    "scale_default_pool_of_one_pool": _scale(
        "    default_pool: data\n    migrations: {system: {to: data}}\n"
    ),
    "scale_data_among_metadata": _scale(
        _POOL
        + "    metadata_only: true\n    default_pool: system\n    migrations: {capacity: {to: system}}\n"
    ),
    "scale_metadata_without_a_pool_of_data": _scale("    metadata_only: true\n"),
    "scale_metadata_and_two_pools": _scale(_TWO_POOLS + "    metadata_only: true\n"),
    "scale_metadata_blocks_of_their_own_among_data": _scale(_POOL + "    metadata_block_size: 256 KiB\n"),
    "scale_metadata_blocks_of_no_size": _scale(
        _POOL + "    metadata_only: true\n    metadata_block_size: 300 KiB\n"
    ),
    "scale_files_that_go_round": _scale(
        _TWO_POOLS + "    migrations: {system: {to: data}, data: {to: archive}, archive: {to: system}}\n"
    ),
    "scale_files_that_stay": _scale(_POOL + "    migrations: {system: {to: system}, cap: {to: capacity}}\n"),
    "scale_files_that_leave_for_nothing": _scale(
        _POOL + "    migrations: {system: {to: capacity, above: 70, until: 80}}\n"
    ),
    "scale_pools_of_another_cluster": "provider: site\nscheduler: {type: slurm}\n"
    "nodes: {compute: {hosts: c1}}\nfilesystems:\n  lake:\n    type: scale\n    path: /gpfs/fs1\n"
    "    remote: {cluster: s.example.com, contacts: [nsd1], filesystem: fs1}\n"
    f"{_POOL}    default_pool: capacity\n",
    "scale_pools_that_a_cloud_makes_on_a_site": _pairs(_pair(1), more=_POOL),
    "scale_pool_at_one_of_two_sites": _pairs(
        _site_pool(1, pool="capacity"), _site_pool(3, site=2), more=f"    replicas: 2\n{_WITNESS}"
    ),
    "scale_pool_of_one_of_two_pairs": _pairs(
        _site_pool(1), _site_pool(3, pool="capacity"), more="    replicas: 2\n"
    ),
    "scale_disk_of_two_pools": _pairs(
        "{servers: [nsd1, nsd2], disks: [/dev/mapper/a], pools: {capacity: [/dev/mapper/a, /dev/sdb]}}"
    ),
    "scale_of_nobody": "provider: oci\nnodes: {compute: {instance: VM.DenseIO2.24, count: 3}}\n"
    "filesystems:\n  lake: {type: scale, path: /gpfs/fs1}\n",
    "scale_with_all_of_it": _scale(
        "    replicas: 2\n    block_size: 20 MiB\n    pagepool: {servers: 0.8}\n",
        disks="{type: instance-store, count: 40}",
        count=3,
    ),
    "empty": "",
    "only_comments": "# nothing\n\n# here\n",
    "only_null": "~\n",
    "top_level_list": "- name: demo\n",
    "top_level_text": "just some words\n",
    "top_level_number": "17\n",
    "no_filesystems": "name: demo\n",
    "filesystems_empty_mapping": "filesystems: {}\n",
    "filesystems_without_value": "filesystems:\nlibraries:\n",
    "filesystems_is_a_list": "filesystems:\n  - type: local\n    path: /data\n",
    "unknown_top_field": DISK + "librarys:\n  work: {filesystem: disk}\n",
    "unknown_field_of_library": DISK
    + "libraries:\n  work:\n    filesystem: disk\n    requries: 125 MB/s/core\n",
    "unknown_field_far_from_all": DISK + "libraries:\n  work: {colour: red}\n",
    "unknown_field_of_filesystem": "filesystems:\n  disk: {type: local, path: /data, pth: /data}\n",
    "unknown_library": DISK + "libraries:\n  wrok: {filesystem: disk, requires: 1 parsec}\n",
    "unknown_filesystem_type": "filesystems:\n  disk: {type: locale, path: /data}\n",
    "planned_filesystem_type": "filesystems:\n  scratch: {type: nfs, server: filer}\n",
    "nearly_planned_filesystem_type": "filesystems:\n  scratch: {type: nfss}\n",
    "filesystem_without_type": "filesystems:\n  disk: {path: /data}\n",
    "filesystem_without_path": "filesystems:\n  disk: {type: local}\n",
    "filesystem_type_is_a_number": "filesystems:\n  disk: {type: 5, path: /data}\n",
    "library_names_missing_filesystem": TWO
    + "libraries:\n  work: {filesystem: fsat}\n  data: {filesystem: tape}\n",
    "library_names_missing_only_filesystem": DISK + "libraries:\n  work: {filesystem: dsk}\n",
    "library_without_filesystem": TWO + "libraries:\n  work: {requires: 125 MB/s/core}\n",
    "libraries_missing_with_two_filesystems": TWO,
    "libraries_empty_mapping": DISK + "libraries: {}\n",
    "library_without_value": DISK + "libraries:\n  work:\n  data: {}\n",
    "requires_without_value": DISK + "libraries:\n  work:\n    requires:\n",
    "requires_in_bits": DISK + "libraries:\n  work: {requires: 1 Gbit/s/core}\n",
    "requires_bare_prefix": DISK + "libraries:\n  work: {requires: 125 M/s/core}\n",
    "requires_wrong_case": DISK + "libraries:\n  work: {requires: 125 mb/s/core}\n",
    "requires_not_per_core": DISK + "libraries:\n  work: {requires: 4 GB/s}\n",
    "requires_is_a_size": DISK + "libraries:\n  work: {requires: 125 MB}\n",
    "requires_is_a_number": DISK + "libraries:\n  work: {requires: 125}\n",
    "requires_zero": DISK + "libraries:\n  work: {requires: 0 MB/s/core}\n",
    "requires_is_a_list": DISK + "libraries:\n  work: {requires: [125 MB/s/core]}\n",
    "capacity_is_a_rate": DISK + "libraries:\n  work: {capacity: 12 TiB/s}\n",
    "capacity_lacks_unit_b": DISK + "libraries:\n  work: {capacity: 12Ti}\n",
    "library_path_leaves": DISK + "libraries:\n  work: {path: ../work}\n",
    "library_path_absolute": DISK + "libraries:\n  work: {path: /work}\n",
    "libraries_share_a_directory": DISK + "libraries:\n  work: {path: tmp}\n  util: {path: ./tmp/}\n",
    "library_within_another": DISK + "libraries:\n  data: {path: shared}\n  work: {path: shared/work}\n",
    "path_with_tilde": "filesystems:\n  disk: {type: local, path: ~/grid}\n",
    "path_with_variable": "filesystems:\n  disk: {type: local, path: $HOME/grid}\n",
    "path_is_root": "filesystems:\n  disk: {type: local, path: /}\n",
    "path_is_empty": 'filesystems:\n  disk: {type: local, path: ""}\n',
    "path_is_a_number": "filesystems:\n  disk: {type: local, path: 7}\n",
    "queue_on_a_group_that_is_not_there": DISK
    + "scheduler: {type: slurm, queues: {wide: {nodes: [compute, big, compute]}, none: {nodes: []}}}\n",
    "setup_is_a_list": DISK + "setup: [./roles/sas]\n",
    "setup_role_is_no_list": DISK + "setup: {after: ./roles/sas}\n",
    "setup_role_in_no_group": DISK + "setup: {after: [./roles/sas], only_on: {sas: [servers]}}\n",
    "setup_variables": DISK
    + "setup:\n  variables:\n    depot: s3://depots/sas\n    gridwright_grid: other\n    my-depot: 1\n"
    + "    ad: {users: [{bind_password: hunter2}]}\n",
    "users_with_wrong_fields": DISK
    + "users:\n  groups: {risk: 12, tape: 60010}\n  local:\n    anna: {uid: 2001, password: hunter2}\n"
    + "    ubuntu: {uid: 2002}\n    Bob Smith: {uid: 2003}\n    eva: {uid: 999, full_name: 'E:va'}\n"
    + "    dan: {uid: 2004, shell: bash}\n"
    + "  ldap: {servers: [ldap.example.com], base: example, bind: {dn: 'cn=a', secret: hunter2}}\n"
    + "  ad: {domain: example, join: {user: 'a b', secret: 'arn:aws:iam::111122223333:user/x'}}\n",
    "users_with_wrong_keys": DISK
    + "users:\n  local:\n    anna:\n      uid: 2001\n      keys:\n        - ssh-ed25519 AAAA anna\n"
    + "        - ssh-dss AAAAB3NzaC1kc3M= anna\n        - '-----BEGIN OPENSSH PRIVATE KEY-----'\n"
    + "        - ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQDJ anna\n",
    "users_with_one_number_twice": DISK
    + "users:\n  groups: {risk: 3001, audit: 3001, tape: 2005}\n  local:\n    anna: {uid: 2001}\n"
    + "    bob: {uid: 2001, groups: [rsik]}\n    risk: {uid: 2003}\n    dora: {uid: 2005}\n",
    "users_with_homes_in_a_library": TWO
    + "libraries: {work: {filesystem: slow, path: homes}}\n"
    + "users: {homes: {filesystem: slow}}\n",
    "users_with_homes_nowhere": "provider: local\n"
    + DISK
    + "users: {homes: {filesystem: dsk, path: ../x}}\n",
    "users_of_two_directories": DISK
    + "users:\n  local: {anna: {uid: 300000}}\n"
    + "  ldap: {servers: ['ldaps://l1'], base: 'dc=a', bind: {dn: 'cn=a', "
    + "secret: 'arn:aws:secretsmanager:us-east-1:111122223333:secret:grid-AbCdEf'}}\n"
    + "  ad: {domain: ad.example.com, join: {user: join, secret: /etc/join.secret}}\n",
    "users_of_a_lab_in_a_domain": "provider: lab\nscheduler: {type: slurm}\n"
    + DISK
    + "users: {ad: {domain: ad.example.com, join: {user: join, secret: /etc/join.secret}}}\n",
    "users_with_the_number_of_an_image": FSX
    + "aws:\n  zone: us-east-1a\n  ssh_from: [203.0.113.0/24]\nusers: {local: {anna: {uid: 1000}}}\n",
    "name_is_a_number": "name: 2024\n" + DISK,
    "name_with_spaces": "name: My Grid\n" + DISK,
    "name_of_filesystem": "filesystems:\n  Disk_1: {type: local, path: /data}\n",
    "lab_on_lustre": "provider: lab\nscheduler: {type: slurm}\nfilesystems:\n"
    "  lu: {type: lustre, path: /l, oss: {instance: i3.large}}\n",
    "lab_with_the_local_scheduler": "provider: lab\nnodes:\n  compute: {count: 4, memory: 2}\n" + DISK,
    "lab_with_a_group_named_controller": "provider: lab\nscheduler: {type: slurm}\nnodes:\n"
    "  controller: {count: 2, instance: m5n.large}\n" + DISK,
    "lab_network_public": "provider: lab\nscheduler: {type: slurm}\nlab: {network: 8.8.8.0/24}\n" + DISK,
    "lab_network_with_host_bits": "provider: lab\nscheduler: {type: slurm}\nlab: {network: 10.1.2.3/24}\n"
    + DISK,
    "lab_network_too_slow": "provider: lab\nscheduler: {type: slurm}\nlab: {bandwidth: 100 kB/s}\n" + DISK,
    "lab_of_another_provider": "lab: {network: 10.1.2.0/24}\n" + DISK,
    "moosefs_without_servers": "filesystems:\n  shared: {type: moosefs, path: /mnt/s, servers: 0}\n",
    "aws_without_region": "provider: aws\nnodes:\n  compute: {instance: m5n.8xlarge, count: 4}\n" + DISK,
    "aws_without_instance": "provider: aws\nregion: us-east-1\nnodes:\n  compute: {count: 4}\n" + DISK,
    "aws_without_nodes": "provider: aws\nregion: us-east-1\n" + DISK,
    "local_with_instance": "nodes:\n  compute: {instance: m5n.8xlarge}\n" + DISK,
    "fsx_deployment": "filesystems:\n  fsx: {type: fsx-lustre, path: /fsx, capacity: 2.4 TiB, "
    "deployment: persistent2}\n",
    "fsx_without_capacity": "filesystems:\n  fsx: {type: fsx-lustre, path: /fsx}\n",
    "fsx_throughput_not_per_tib": "filesystems:\n  fsx: {type: fsx-lustre, path: /fsx, capacity: 2.4 TiB, "
    "throughput: 200 MB/s}\n",
    "fsx_capacity_negative": "filesystems:\n  fsx: {type: fsx-lustre, path: /fsx, capacity: -2.4 TiB}\n",
    "lustre_without_oss": "filesystems:\n  scratch: {type: lustre, path: /lustre}\n",
    "lustre_source_is_a_path": "filesystems:\n  scratch: {type: lustre, path: /l, source: /scratch}\n",
    "lustre_source_name_too_long": "filesystems:\n  scratch: {type: lustre, path: /l, "
    'source: "10.0.0.1@tcp:/muchtoolong"}\n',
    "chunk_is_no_power_of_two": "filesystems:\n  s: {type: local, path: /s, chunk: 500 KiB}\n",
    "chunk_without_unit": "filesystems:\n  s: {type: local, path: /s, chunk: 512}\n",
    "nfs_without_export": "filesystems:\n  home: {type: nfs, path: /home/grid, server: nfs1}\n",
    "nfs_wrong_fields": 'filesystems:\n  home: {type: nfs, path: /g, server: "nfs 1", export: home, '
    "version: 4, connections: 17}\n",
    "lab_on_nfs": "provider: lab\nscheduler: {type: slurm}\nfilesystems:\n"
    "  home: {type: nfs, path: /g, server: nfs1, export: /home}\n",
    "lustre_oss_without_instance": "filesystems:\n  scratch: {type: lustre, path: /l, oss: {count: 2}}\n",
    "lustre_no_oss_at_all": "filesystems:\n  scratch: {type: lustre, path: /l, oss: {instance: i3.large, "
    "count: 0}}\n",
    "lustre_volume_rate_per_core": "filesystems:\n  lu: {type: lustre, path: /l, oss: {instance: i3.large, "
    "disks: {type: gp3, throughput: 500 MB/s/core}}}\n",
    "requirements_zero_cores": "requirements: {cores: 0}\nlibraries:\n  data: {requires: 100 MB/s/core}\n",
    "requirements_without_libraries": "requirements: {cores: 64}\n",
    "requirements_budget": "requirements: {cores: 64, budget: 40}\nlibraries:\n  data: {}\n",
    "requirements_budget_in_euro": "requirements: {cores: 64, budget: 40 EUR/h}\nlibraries:\n  data: {}\n",
    "requirements_architecture": "requirements: {cores: 64, architecture: x86}\nlibraries:\n  data: {}\n",
    "requirements_peak_factor": "requirements: {cores: 64, peak_factor: 1.5}\nlibraries:\n  data: {}\n",
    "requirements_families": "requirements: {cores: 64, families: {allow: m5n}}\nlibraries:\n  data: {}\n",
    "requirements_with_a_filesystem_nobody_described": "requirements: {cores: 64}\n"
    "libraries:\n  data: {filesystem: fsx}\n",
    "provider_unknown": "provider: locl\n" + DISK,
    "provider_is_a_number": "provider: 3\n" + DISK,
    "scheduler_unknown": DISK + "scheduler: {type: slrum}\n",
    "scheduler_with_a_field_of_another": DISK + "scheduler: {account: research}\n",
    "queue_time_without_unit": DISK + "scheduler: {queues: {night: {time: 8}}}\n",
    "queues_empty": DISK + "scheduler: {queues: {}}\n",
    "queue_name": DISK + "scheduler: {queues: {Night Jobs: {}}}\n",
    "scheduler_is_text": DISK + "scheduler: local\n",
    "nodes_empty": "nodes: {}\n" + DISK,
    "nodes_without_value": "nodes:\n  compute:\n" + DISK,
    "nodes_count_zero": "nodes:\n  compute: {count: 0}\n" + DISK,
    "nodes_count_two": "nodes:\n  compute: {count: 2}\n" + DISK,
    "nodes_count_huge": "nodes:\n  compute: {count: 99999999999999999999}\n" + DISK,
    "nodes_count_fraction": "nodes:\n  compute: {count: 1.5}\n" + DISK,
    "nodes_count_text": 'nodes:\n  compute: {count: "1"}\n' + DISK,
    "nodes_two_groups": "nodes:\n  compute: {}\n  head: {}\n" + DISK,
    "silence_unknown": DISK + "silence:\n  shared-disk: one disk only\n  noise: x\n",
    "silence_without_reason": DISK + "silence:\n  shared-disks:\n",
    "silence_is_a_list": DISK + "silence: [shared-disks]\n",
    "duplicate_keys": "name: a\nname: b\n" + DISK + "libraries:\n  work: {}\n  work: {}\nname: c\n",
    "tabs": "filesystems:\n\tdisk:\n\t\ttype: local\n  \tpath: /data\n",
    "tab_after_colon_is_fine_but_name_is_wrong": "name:\tDEMO\n" + DISK,
    "unclosed_bracket": "filesystems:\n  disk: {type: local, path: /data\nlibraries:\n  work: {}\n",
    "unclosed_list": "silence: [a, b\n",
    "unclosed_quote": 'name: "demo\n' + DISK,
    "second_colon": "name: demo: two\n" + DISK,
    "wrong_indentation": "filesystems:\n  disk:\n    type: local\n   path: /data\n",
    "field_without_colon": DISK + "libraries\n",
    "value_begins_with_at": "name: @demo\n" + DISK,
    "value_begins_with_percent": "name: %demo\n" + DISK,
    "bad_escape": 'name: "de\\qmo"\n' + DISK,
    "multiple_documents": DISK + "---\n" + DISK,
    "yaml_directive": "%YAML 1.1\n---\n" + DISK,
    "python_tag": "name: !!python/object/apply:os.system [ls]\n" + DISK,
    "string_tag": "name: !!str demo\n" + DISK,
    "merge_key": "filesystems:\n  a: &a {type: local, path: /a}\n  b:\n    <<: *a\n    path: /b\n",
    "alias_unknown": "name: *nobody\n" + DISK,
    "alias_of_itself": "silence: &loop\n  shared-disks: *loop\n" + DISK,
    "alias_bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "too_many_values": "silence:\n" + "".join(f"  f{n}: x\n" for n in range(6000)),
    "deep_nesting_flow": "name: " + "[" * 5000 + "\n",
    "deep_nesting_block": "\n".join(" " * n + "a:" for n in range(200)),
    "norway": "name: no\n" + DISK,
    "number_with_underscore": DISK + "libraries:\n  work: {capacity: 1_000}\n",
    "octal": "nodes:\n  compute: {count: 010}\n" + DISK,
    "sexagesimal": DISK + "libraries:\n  work: {capacity: 1:30}\n",
    "boolean_for_name": "name: true\n" + DISK,
    "key_is_a_number": "1: one\n" + DISK,
    "key_is_a_boolean": "filesystems:\n  true: {type: local, path: /data}\n",
    "key_is_norway": "filesystems:\n  no: {type: local, path: /data}\n",
    "key_is_a_list": "[a, b]: one\n" + DISK,
    "key_is_empty": ": one\n" + DISK,
    "bom_and_crlf": "\ufeffname: demo\r\nnmae: demo\r\n" + DISK.replace("\n", "\r\n"),
    "nul_byte": b"name: de\x00mo\n",
    "escape_character": "name: \x1b[31mred\n",
    "invalid_utf8": b"name: demo\nfilesystems: caf\xe9\n",
    "utf16": "name: demo\n".encode("utf-16"),
    "binary_junk": bytes(range(256)),
    "too_large": b"#" * (10 * 1024 * 1024),
    "long_line": "name: demo\nlibraries: {"
    + ", ".join(f"data{n}: {{}}" for n in range(3))
    + "}  # "
    + "x" * 200
    + "\n",
    "wide_characters": '"名前": demo\n' + DISK + "libraries: {work: {path: 名前, x: 1}}\n",
    "many_problems_at_once": (
        "name: My Grid\n"
        "provider: ibm\n"
        "nodes:\n  compute: {count: none}\n"
        "filesystems:\n  disk: {type: local, path: ~/x}\n"
        "libraries:\n"
        "  data: {filesystem: dsik, requires: 100 Mb/s/core}\n"
        "  work: {filesystem: disk, require: 125 MB/s/core}\n"
        "  temp: {}\n"
        "sheduler: {type: local}\n"
    ),
    "aws_section_of_another_provider": "provider: lab\nscheduler: {type: slurm}\n"
    "aws: {zone: us-east-1a, ssh_from: [203.0.113.0/24]}\nfilesystems:\n  s: {type: moosefs, path: /s}\n",
    "oci_in_two_availability_domains": _oci("availability_domain: [2, 3]"),
    "oci_in_all_availability_domains": _oci("availability_domains: [AD-1, AD-2, AD-3]"),
    "oci_in_named_domains": _oci("availability_domain: [Uocm:US-ASHBURN-AD-3, b]"),
    "oci_in_a_named_domain": _oci("availability_domain: Uocm:US-ASHBURN-AD-3"),
    "oci_in_a_domain_in_quotes": _oci('availability_domain: "2"'),
    "oci_in_any_domain": _oci("availability_domain: any"),
    "oci_in_a_fourth_domain": _oci("availability_domain: 4"),
    "aws_without_zone_and_access": FSX + "aws: {}\n",
    "aws_ssh_from_anywhere": AWS.replace("203.0.113.0/24", "0.0.0.0/0, 203.0.113.7/24, 10.0.0.0/4, office"),
    "aws_zone_of_another_region": AWS.replace("us-east-1a", "us-west-2c"),
    "aws_zone_is_a_region": AWS.replace("us-east-1a", "us-east-1"),
    "aws_zone_without_its_region": AWS.replace("region: us-east-1\n", ""),
    "aws_network_too_large_and_public": AWS + "  network: 10.0.0.0/8\n",
    "aws_network_public": AWS + "  network: 8.8.0.0/16\n",
    "aws_subnet_outside": AWS + "  subnets: {compute: 10.30.0.0/17}\n",
    "aws_subnets_overlap": AWS + "  subnets:\n    public: 10.20.0.0/20\n    storage: 10.20.8.0/21\n",
    "aws_subnet_overlaps_a_default": AWS + "  subnets: {public: 10.20.128.0/20}\n",
    "aws_subnet_has_no_room": AWS + "  subnets: {public: 10.20.0.0/16, storage: 10.20.0.0/17}\n",
    "aws_subnet_too_small": AWS + "  subnets: {public: 10.20.0.0/30}\n",
    "aws_subnet_with_host_bits": AWS + "  subnets: {public: 10.20.0.1/20}\n",
    "aws_subnets_of_another_network": AWS
    + "  network: 10.21.0.0/16\n  subnets: {public: 10.20.0.0/18, storage: 10.20.64.0/18}\n",
    "aws_network_too_small_with_subnets": AWS
    + "  network: 10.20.0.0/32\n  subnets: {public: 10.20.0.0/32}\n",
    "aws_network_of_the_wrong_type": AWS
    + "  network: {a: b}\n  subnets: [10.20.0.0/20]\n  kms_key: [a:b:c:d:e]\n",
    "aws_key_of_another_region": AWS
    + "  kms_key: arn:aws:kms:us-west-2:111122223333:key/11111111-2222-3333-4444-555555555555\n"
    + "  alarms: {topic: 'arn:aws:sns:eu-west-1:111122223333:alarms'}\n",
    "aws_egress_of_no_ports": AWS
    + "  egress:\n    - {to: 192.0.2.0/24, ports: 0}\n    - {to: 192.0.2.7/24, ports: 20-10}\n"
    + "    - {to: example.com, ports: https, protocol: icmp}\n",
    "aws_boundary_is_a_role": AWS + "  permissions_boundary: arn:aws:iam::111122223333:role/Boundary\n",
    "aws_group_called_as_the_login_node": AWS.replace("compute: {", "login: {"),
    "aws_group_called_as_lustre_servers": AWS.replace("compute: {", "fsx-oss: {"),
    "fsx_metadata_on_scratch": FSX + "    deployment: scratch-2\n    metadata: 1500\n",
    "fsx_metadata_on_persistent_1": FSX + "    deployment: persistent-1\n    metadata: 6000\n",
    "fsx_metadata_between_steps": FSX + "    metadata: 20000\n",
    "fsx_metadata_beyond_the_most": FSX + "    metadata: 500000\n",
    "fsx_metadata_misspelt": FSX + "    metadata: automtic\n",
    "fsx_metadata_is_a_size": FSX + "    metadata: 6 TB\n",
    "fsx_metadata_is_a_list": FSX + "    metadata: [6000]\n",
    "fsx_metadata_huge": FSX + f"    metadata: {10**400}\n",
    "fsx_backups_on_scratch": FSX + "    deployment: scratch-2\n    backup_days: 7\n",
    "fsx_backups_with_a_bucket": FSX + "    backup_days: 7\n    repository: {bucket: s3://data}\n",
    "aws_everything_at_once": AWS.replace("us-east-1a", "eu-west-1b")
    .replace("203.0.113.0/24", "0.0.0.0/0")
    .replace("2400 GiB", "2400 GiB\n    deployment: scratch-2\n    metadata: 5000\n    backup_days: 1")
    + "  subnets: {storage: 192.168.0.0/24}\n  expires: soon\n",
    "more_than_fifty_problems": DISK + "silence:\n" + "".join(f"  unknown{n}: x\n" for n in range(70)),
    "vpc_beside_a_network_of_its_own": AWS + "  network: 10.30.0.0/16\n" + _VPC,
    "vpc_addresses_that_overlap_or_lie_outside": AWS
    + _VPC.replace("10.8.8.64/28", "10.8.16.112/28").replace("10.8.4.64/28", "10.9.4.64/28"),
    "vpc_ids_that_are_none": AWS
    + _VPC.replace("vpc-0123456789abcdef0", "subnet-1").replace("subnet-0123456789abcdef0", "vpc-1"),
    "vpc_groups_of_no_role": AWS
    + _VPC
    + "    security_groups: {logins: [sg-0123456789abcdef0], head: [sg-1]}\n",
    "ingress_of_no_role": AWS + "  ingress: [{role: meta, source: computes, ports: 443}]\n",
    "ingress_from_everywhere": AWS + "  ingress: [{role: login, source: 0.0.0.0/0, ports: 443}]\n",
    "ingress_twice": AWS + "  ingress:\n" + 2 * "    - {role: login, source: 10.0.0.0/8, ports: 443}\n",
    "machines_without_instance": AWS + "machines:\n  meta: {count: 2}\n",
    "machines_named_as_others": AWS
    + "machines:\n  compute: {instance: m6i.large}\n  head: {instance: m6i.large}\n"
    + "  fsx: {instance: m6i.large}\n",
    "machines_too_many": AWS + "machines:\n  meta: {instance: m6i.large, count: 17, disk: 10 GiB}\n",
    "machines_beside_this_machine": DISK + "machines:\n  meta: {hosts: meta1}\n",
    "machines_of_oci": "provider: oci\nregion: us-ashburn-1\nnodes: {compute: {instance: BM.Optimized3.36}}\n"
    + DISK
    + "machines: {meta: {}}\n",
    "machines_of_a_lab_with_what_a_cloud_has": "provider: lab\n"
    + DISK
    + "scheduler: {type: ssh}\nmachines:\n  meta: {instance: m6i.large, replace: true, hosts: m1}\n",
    "machines_of_one_s_own_without_names": DISK
    + "scheduler: {type: slurm}\nnodes: {compute: {hosts: node1}}\n"
    + "machines:\n  meta: {}\n  tier: {hosts: node1}\n",
    "setup_role_in_no_group_of_machines": DISK + "setup: {after: [./sas], only_on: {sas: [meta]}}\n",
}
